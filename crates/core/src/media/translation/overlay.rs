//! Locations of the units that have been written in this run: a hash table that holds no other units.
//!
//! A drive of 8 TB has two thousand million units, of which a run writes some millions. The table uses open addressing
//! with linear probing, so that a lookup mostly costs one cache line. Entries are never removed: a unit that is
//! deallocated keeps its entry with the location [`FlashUnitLocation::NONE`].

use super::blocks::FlashUnitLocation;
use crate::number::wide_index;

/// Unit number that marks a free entry of the table.
const FREE_UNIT: u32 = u32::MAX;
/// Number of entries in a new table, a power of two.
const ENTRIES_MIN: usize = 1 << 10;
/// Multiplier of the hash function, 2^64 over the golden ratio, which spreads adjacent numbers of mapping units (Knuth,
/// The Art of Computer Programming 3, section 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash table from the number of a mapping unit to its location on flash.
#[derive(Clone, Debug)]
pub(super) struct ChangedLocations {
    entries: Vec<ChangedLocation>,
    used: usize,
}

/// Entry of the hash table: a mapping unit and its changed location.
#[derive(Clone, Copy, Debug)]
struct ChangedLocation {
    unit: u32,
    place: FlashUnitLocation,
}

const FREE: ChangedLocation = ChangedLocation { unit: FREE_UNIT, place: FlashUnitLocation::NONE };

impl ChangedLocations {
    /// Creates an empty hash table of the locations of mapping units.
    pub(super) fn new() -> ChangedLocations {
        ChangedLocations { entries: vec![FREE; ENTRIES_MIN], used: 0 }
    }

    /// Returns the location of a mapping unit from the hash table; [`FlashUnitLocation::NONE`] if the unit has been
    /// deallocated or was not written in this run.
    #[inline]
    pub(super) fn get(&self, unit: u32) -> FlashUnitLocation {
        self.entries[self.slot(unit)].place
    }

    /// Sets the location of a mapping unit in the hash table. Doubles the table if it is then more than two thirds
    /// full.
    #[inline]
    pub(super) fn set(&mut self, unit: u32, place: FlashUnitLocation) {
        let slot = self.slot(unit);
        if self.entries[slot].unit == FREE_UNIT {
            self.used += 1;
        }
        self.entries[slot] = ChangedLocation { unit, place };
        if self.used * 3 > self.entries.len() * 2 {
            self.grow();
        }
    }

    /// Returns the index of a mapping unit's entry in the hash table, or of the free entry that the unit would get.
    #[inline]
    fn slot(&self, unit: u32) -> usize {
        let mask = self.entries.len() - 1;
        let shift = u64::BITS - self.entries.len().trailing_zeros();
        let mut slot = wide_index(u64::from(unit).wrapping_mul(SPREAD) >> shift);
        while self.entries[slot].unit != unit && self.entries[slot].unit != FREE_UNIT {
            slot = (slot + 1) & mask;
        }
        slot
    }

    #[cold]
    fn grow(&mut self) {
        let twice = vec![FREE; self.entries.len() * 2];
        for entry in std::mem::replace(&mut self.entries, twice) {
            if entry.unit != FREE_UNIT {
                let slot = self.slot(entry.unit);
                self.entries[slot] = entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_is_found_after_the_location_table_has_grown() {
        let mut overlay = ChangedLocations::new();
        for round in 0..2 {
            for unit in 0..20_000 {
                overlay.set(unit * 7, FlashUnitLocation { block: unit, position: round });
            }
        }
        assert!((0..20_000).all(|unit| overlay.get(unit * 7) == FlashUnitLocation { block: unit, position: 1 }));
        assert_eq!(overlay.get(3), FlashUnitLocation::NONE);
        overlay.set(7, FlashUnitLocation::NONE);
        assert_eq!(overlay.get(7), FlashUnitLocation::NONE);
    }
}
