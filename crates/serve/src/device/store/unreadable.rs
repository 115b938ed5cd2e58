//! Ranges of a store that a host has declared unreadable, until they are written again.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use crate::device::tally::locked;

/// Ranges of unreadable bytes, as a map from first byte to end. Ranges do not overlap or touch.
pub(super) type Ranges = BTreeMap<u64, u64>;

/// Unreadable ranges of a store, shared by all threads.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    /// True if there is any range. Without one, an access costs one load.
    has_any: AtomicBool,
    /// Number of changes to the ranges since the store was opened, modulo 2^16.
    changes: AtomicU16,
    ranges: Mutex<Ranges>,
}

impl Unreadable {
    /// Decodes the device's unreadable ranges from the record that the store saved.
    pub(super) fn decode(record: &[u8]) -> Unreadable {
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let pairs = record.as_chunks::<8>().0.as_chunks::<2>().0;
        let ranges: Ranges = pairs.iter().map(|[start, end]| (number(start), number(end))).collect();
        let has_any = AtomicBool::new(!ranges.is_empty());
        Unreadable { has_any, changes: AtomicU16::new(0), ranges: Mutex::new(ranges) }
    }

    /// Returns true if one of `bytes` bytes from `offset` on is unreadable.
    #[inline]
    pub(super) fn touches(&self, offset: u64, bytes: u64) -> bool {
        self.has_any.load(Ordering::Acquire) && self.has_unreadable_byte_in(offset, bytes)
    }

    #[cold]
    fn has_unreadable_byte_in(&self, offset: u64, bytes: u64) -> bool {
        let ranges = locked(&self.ranges);
        ranges.range(..offset + bytes).next_back().is_some_and(|(_, end)| *end > offset)
    }

    /// Returns the unreadable ranges within `bytes` bytes from `offset` on, each as its first byte and its end.
    pub(super) fn within(&self, offset: u64, bytes: u64) -> Vec<(u64, u64)> {
        let end = offset + bytes;
        let cut = |(from, to): (&u64, &u64)| (offset.max(*from), end.min(*to));
        locked(&self.ranges).range(..end).map(cut).filter(|(from, to)| from < to).collect()
    }

    /// Returns the number of changes to the ranges since the store was opened, modulo 2^16.
    pub(super) fn changes(&self) -> u16 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Marks bytes as unreadable or readable, after `save` has saved the record of all ranges.
    ///
    /// # Errors
    ///
    /// If `save` fails, its error is returned and the ranges are unchanged.
    #[cold]
    pub(super) fn set<E>(
        &self,
        (offset, bytes): (u64, u64),
        is_unreadable: bool,
        save: impl FnOnce(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut ranges = locked(&self.ranges);
        let mut next = without(&ranges, offset, offset + bytes);
        if is_unreadable {
            insert(&mut next, offset, offset + bytes);
        }
        if next != *ranges {
            save(next.iter().flat_map(|(start, end)| [*start, *end]).flat_map(u64::to_le_bytes).collect())?;
            *ranges = next;
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        self.has_any.store(!ranges.is_empty(), Ordering::Release);
        Ok(())
    }
}

/// Returns the parts of ranges that lie outside `start..end`.
fn without(ranges: &Ranges, start: u64, end: u64) -> Ranges {
    let parts = |(&from, &to): (&u64, &u64)| [(from, to.min(start)), (from.max(end), to)];
    ranges.iter().flat_map(parts).filter(|(from, to)| from < to).collect()
}

/// Adds a range that overlaps no other, and joins it with ranges that touch it.
fn insert(ranges: &mut Ranges, start: u64, end: u64) {
    let end = ranges.remove(&end).unwrap_or(end);
    match ranges.range_mut(..start).next_back().filter(|(_, to)| **to == start) {
        Some((_, to)) => *to = end,
        None => drop(ranges.insert(start, end)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn range_operations_match_a_list_of_unreadable_bytes(changes in prop::collection::vec((0..60_u64, 1..12_u64, any::<bool>()), 0..20)) {
            let (mut bytes, set) = ([false; 80], Unreadable::default());
            let mut record = Vec::new();
            for (offset, count, is_unreadable) in changes {
                bytes[offset as usize..][..count as usize].fill(is_unreadable);
                set.set((offset, count), is_unreadable, |saved| { record = saved; Ok::<_, ()>(()) }).unwrap();
            }
            let again = Unreadable::decode(&record);
            for (place, is_unreadable) in (0..).zip(bytes) {
                prop_assert_eq!((set.touches(place, 1), again.touches(place, 1)), (is_unreadable, is_unreadable));
            }
            let listed: Vec<u64> = again.within(7, 60).into_iter().flat_map(|(from, to)| from..to).collect();
            let expected: Vec<u64> = (7..67).filter(|place| bytes[*place as usize]).collect();
            prop_assert_eq!(listed, expected);
            let runs = bytes.chunk_by(|one, other| one == other).filter(|run| run[0]).count();
            prop_assert_eq!(locked(&set.ranges).len(), runs);
        }
    }

    #[test]
    fn failed_save_leaves_the_unreadable_ranges_unchanged() {
        let set = Unreadable::default();
        assert_eq!(set.set((0, 8), true, |_| Err("full")), Err("full"));
        assert!(!set.touches(0, 8));
    }
}
