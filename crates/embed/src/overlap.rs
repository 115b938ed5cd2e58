//! Overlapping changes in flight: they take effect in the order of their submission, whatever the order of their
//! completions.

use std::ops::Range;

/// Write, discard or write of zeros that is in flight.
#[derive(Clone, Debug)]
struct FlyingChange {
    place: u32,
    drive: u16,
    /// Number of changes that were submitted before this one.
    sequence: u64,
    range: Range<u64>,
}

/// All changes in flight, in no particular order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangesInFlight {
    changes: Vec<FlyingChange>,
    submitted: u64,
}

impl ChangesInFlight {
    /// Reserves memory for as many changes as there are operations in flight, so that later submissions allocate
    /// nothing.
    pub(crate) fn make_room(&mut self, operations: usize) {
        self.changes.reserve(operations.saturating_sub(self.changes.len()));
    }

    /// Adds the change of a range of a drive by the operation in slot `place`.
    pub(crate) fn submit(&mut self, place: u32, drive: u16, range: Range<u64>) {
        self.changes.push(FlyingChange { place, drive, sequence: self.submitted, range });
        self.submitted += 1;
    }

    /// Removes the change of the operation in slot `place`, which takes effect. Calls `cover` for each older change in
    /// flight that overlaps it, with the older one's slot and the range in which it then has no effect.
    pub(crate) fn land(&mut self, place: u32, mut cover: impl FnMut(u32, Range<u64>)) {
        let Some(landed) = self.remove(place) else { return };
        for older in self.changes.iter().filter(|one| one.drive == landed.drive && one.sequence < landed.sequence) {
            let common = older.range.start.max(landed.range.start)..older.range.end.min(landed.range.end);
            if !common.is_empty() {
                cover(older.place, common);
            }
        }
    }

    /// Removes the change of the operation in slot `place`, which has failed.
    pub(crate) fn fail(&mut self, place: u32) {
        self.remove(place);
    }

    /// Removes all changes in flight, after a power cut.
    pub(crate) fn clear(&mut self) {
        self.changes.clear();
    }

    fn remove(&mut self, place: u32) -> Option<FlyingChange> {
        let at = self.changes.iter().position(|change| change.place == place)?;
        Some(self.changes.swap_remove(at))
    }
}

/// Parts of a change's range that younger changes have overwritten, in ascending order. No two of them touch.
#[derive(Clone, Debug)]
pub(crate) struct Covered(Vec<Range<u64>>);

impl Default for Covered {
    /// Returns an empty set, with memory for the few ranges that most changes ever have.
    fn default() -> Covered {
        Covered(Vec::with_capacity(4))
    }
}

impl Covered {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a range to the covered parts, and joins it with those that it touches.
    pub(crate) fn add(&mut self, mut range: Range<u64>) {
        let first = self.0.partition_point(|one| one.end < range.start);
        let end = self.0.partition_point(|one| one.start <= range.end);
        if first < end {
            range = range.start.min(self.0[first].start)..range.end.max(self.0[end - 1].end);
            self.0.drain(first + 1..end);
            self.0[first] = range;
        } else {
            self.0.insert(first, range);
        }
    }

    /// Calls `act` for each part of a range that no covered part contains.
    pub(crate) fn for_each_gap(&self, range: Range<u64>, mut act: impl FnMut(Range<u64>)) {
        let mut at = range.start;
        for covered in &self.0 {
            if at < covered.start {
                act(at..covered.start);
            }
            at = covered.end;
        }
        if at < range.end {
            act(at..range.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(covered: &[Range<u64>]) -> Vec<Range<u64>> {
        let (mut all, mut found) = (Covered::default(), Vec::new());
        covered.iter().for_each(|range| all.add(range.clone()));
        all.for_each_gap(0..100, |gap| found.push(gap));
        found
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "lists of one range")]
    fn gaps_are_the_uncovered_bytes_for_any_order_of_ranges() {
        assert_eq!(gaps(&[]), [0..100]);
        assert_eq!(gaps(&[0..100]), []);
        assert_eq!(gaps(&[10..20, 40..50]), [0..10, 20..40, 50..100]);
        assert_eq!(gaps(&[40..50, 10..20]), [0..10, 20..40, 50..100]);
        assert_eq!(gaps(&[40..50, 10..20, 20..40]), [0..10, 50..100]);
        assert_eq!(gaps(&[40..50, 10..20, 15..60, 90..100]), [0..10, 60..90]);
        assert_eq!(gaps(&[10..90, 20..30]), [0..10, 90..100]);
    }

    #[test]
    fn only_older_overlapping_changes_of_the_same_drive_are_covered() {
        let mut changes = ChangesInFlight::default();
        for (place, drive, range) in [(0, 0, 0..64), (1, 0, 100..110), (2, 1, 0..64), (3, 0, 8..16), (4, 0, 0..64)] {
            changes.submit(place, drive, range);
        }
        let mut covered = Vec::new();
        changes.land(3, |place, range| covered.push((place, range)));
        assert_eq!(covered, [(0, 8..16)]);
    }
}
