//! Where units are that have been written in this run: a table that holds those alone.
//!
//! A drive of 8 TB has two thousand million units, of which a run writes some millions. Open addressing with linear
//! probing, so that a look costs one line of memory mostly; nothing is ever removed, since a unit that is given back
//! keeps its entry, which then says so.

use super::Place;

/// Of an entry that is free.
const NOBODY: u32 = u32::MAX;
/// Entries at first, a power of two.
const ENTRIES_MIN: usize = 1 << 10;
/// 2^64 over the golden ratio (Knuth, The Art of Computer Programming 3, section 6.4): spreads neighbours.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Places by unit.
#[derive(Clone, Debug)]
pub(super) struct Overlay {
    entries: Vec<Entry>,
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    unit: u32,
    place: Place,
}

const FREE: Entry = Entry { unit: NOBODY, place: Place::NONE };

impl Overlay {
    /// Holds no unit yet.
    pub(super) fn new() -> Overlay {
        Overlay { entries: vec![FREE; ENTRIES_MIN], used: 0 }
    }

    /// Where a unit is; nowhere if it has been given back or was never set.
    #[inline]
    pub(super) fn get(&self, unit: u32) -> Place {
        self.entries[self.slot(unit)].place
    }

    /// A unit is there from now on.
    #[inline]
    pub(super) fn set(&mut self, unit: u32, place: Place) {
        let slot = self.slot(unit);
        if self.entries[slot].unit == NOBODY {
            self.used += 1;
        }
        self.entries[slot] = Entry { unit, place };
        if self.used * 3 > self.entries.len() * 2 {
            self.grow();
        }
    }

    /// The entry of a unit, or the free one that it would get.
    #[inline]
    fn slot(&self, unit: u32) -> usize {
        let mask = self.entries.len() - 1;
        let shift = u64::BITS - self.entries.len().trailing_zeros();
        let mut slot = (u64::from(unit).wrapping_mul(SPREAD) >> shift) as usize;
        while self.entries[slot].unit != unit && self.entries[slot].unit != NOBODY {
            slot = (slot + 1) & mask;
        }
        slot
    }

    #[cold]
    fn grow(&mut self) {
        let twice = vec![FREE; self.entries.len() * 2];
        for entry in std::mem::replace(&mut self.entries, twice) {
            if entry.unit != NOBODY {
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
    fn a_unit_is_where_it_was_set_last_however_many_there_are() {
        let mut overlay = Overlay::new();
        for round in 0..2 {
            for unit in 0..20_000 {
                overlay.set(unit * 7, Place { block: unit, position: round });
            }
        }
        assert!((0..20_000).all(|unit| overlay.get(unit * 7) == Place { block: unit, position: 1 }));
        assert_eq!(overlay.get(3), Place::NONE);
        overlay.set(7, Place::NONE);
        assert_eq!(overlay.get(7), Place::NONE);
    }
}
