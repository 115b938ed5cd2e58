//! Device's record of the values in which its chunks end.

use std::collections::BTreeMap;

use super::TagWidth;

/// Trailers of all chunks, each with the number of chunks that end in it.
#[derive(Clone, Debug, Default)]
pub struct StoredTrailerCounts {
    copies: BTreeMap<u64, u64>,
}

impl StoredTrailerCounts {
    /// Returns the record of a new device, whose `chunks` chunks all end in `trailer`.
    pub fn uniform(trailer: u64, chunks: u64) -> StoredTrailerCounts {
        let mut stored = StoredTrailerCounts::default();
        if chunks > 0 {
            stored.copies.insert(trailer, chunks);
        }
        stored
    }

    /// Adds the trailer of one chunk. Returns true if no other chunk ends in it.
    pub fn insert(&mut self, trailer: u64) -> bool {
        let copies = self.copies.entry(trailer).or_insert(0);
        *copies += 1;
        *copies == 1
    }

    /// Removes the trailer of one chunk. Returns true if no other chunk ends in it. Panics if no chunk did.
    pub fn remove(&mut self, trailer: u64) -> bool {
        let copies = self.copies.get_mut(&trailer).expect("the trailer of a stored chunk");
        *copies -= 1;
        let gone = *copies == 0;
        if gone {
            self.copies.remove(&trailer);
        }
        gone
    }

    /// Returns true if some chunk ends in `trailer`.
    pub fn contains(&self, trailer: u64) -> bool {
        self.copies.contains_key(&trailer)
    }

    /// Returns the number of different trailers.
    pub fn distinct(&self) -> u64 {
        self.copies.len() as u64
    }
}

/// Values in which no chunk ends, as intervals (the last strategy of section 3.1). A choice takes constant time and an update
/// logarithmic time. There is at most one interval more than there are different trailers, so that the number of chunks bounds the
/// memory.
#[derive(Clone, Debug)]
pub struct UnusedTrailerIntervals {
    stored: StoredTrailerCounts,
    /// First and last value of each interval of unused values; no two intervals touch.
    gaps: BTreeMap<u64, u64>,
    choice: Option<u64>,
}

impl UnusedTrailerIntervals {
    /// Returns the record of a device without chunks.
    pub fn new(width: TagWidth) -> UnusedTrailerIntervals {
        let mut unused = UnusedTrailerIntervals {
            stored: StoredTrailerCounts::default(),
            gaps: BTreeMap::from([(0, width.max_tag_value())]),
            choice: None,
        };
        unused.choose_unused_trailer();
        unused
    }

    /// Returns the record of `chunks` chunks that all end in `trailer`, which has to fit the width.
    pub fn uniform(width: TagWidth, trailer: u64, chunks: u64) -> UnusedTrailerIntervals {
        let mut unused = UnusedTrailerIntervals::new(width);
        if chunks > 0 {
            unused.remove_from_unused_interval(trailer);
            unused.stored = StoredTrailerCounts::uniform(trailer, chunks);
        }
        unused
    }

    /// Adds the trailer of one chunk. Asserts that it fits the width.
    pub fn insert(&mut self, trailer: u64) {
        if self.stored.insert(trailer) {
            self.remove_from_unused_interval(trailer);
        }
    }

    /// Removes the trailer of one chunk. Asserts that some chunk ended in it.
    pub fn remove(&mut self, trailer: u64) {
        if self.stored.remove(trailer) {
            self.add_to_unused_intervals(trailer);
        }
    }

    /// Returns true if some chunk ends in `trailer`.
    pub fn contains(&self, trailer: u64) -> bool {
        self.stored.contains(trailer)
    }

    /// Returns a value in which no chunk ends, or none if every value is used. The value stays the same until a chunk
    /// ends in it.
    pub fn choose(&self) -> Option<u64> {
        self.choice
    }

    /// Removes `trailer` from the interval that contains it.
    fn remove_from_unused_interval(&mut self, trailer: u64) {
        let gap = self.gaps.range(..=trailer).next_back();
        let (&first, &last) = gap.expect("an unused trailer lies in a gap");
        assert!(trailer <= last, "a trailer fits the width");
        self.gaps.remove(&first);
        if first < trailer {
            self.gaps.insert(first, trailer - 1);
        }
        if trailer < last {
            self.gaps.insert(trailer + 1, last);
        }
        if self.choice == Some(trailer) {
            self.choose_unused_trailer();
        }
    }

    /// Adds `trailer` to the intervals of unused values, and joins the intervals that it touches.
    fn add_to_unused_intervals(&mut self, trailer: u64) {
        let before = self.gaps.range(..trailer).next_back();
        let first = match before {
            Some((&first, &last)) if last + 1 == trailer => first,
            _ => trailer,
        };
        let after = trailer.checked_add(1).and_then(|next| self.gaps.remove(&next));
        self.gaps.insert(first, after.unwrap_or(trailer));
        if self.choice.is_none() {
            self.choose_unused_trailer();
        }
    }

    /// Chooses the middle of an interval as the next unused value. Stored values often grow one by one, and would soon
    /// reach a value at an edge.
    fn choose_unused_trailer(&mut self) {
        let gap = self.gaps.last_key_value();
        self.choice = gap.map(|(&first, &last)| first + (last - first) / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn device_of_identical_chunks_uses_one_trailer_value() {
        let unused = UnusedTrailerIntervals::uniform(TagWidth::Bits32, 0, 1 << 30);
        assert!(unused.contains(0));
        assert_eq!(unused.gaps, BTreeMap::from([(1, u64::from(u32::MAX))]));
        assert_eq!(UnusedTrailerIntervals::uniform(TagWidth::Bits8, 3, 0).gaps.len(), 1);
    }

    #[test]
    fn smallest_and_largest_64_bit_trailers_are_counted_like_others() {
        let mut unused = UnusedTrailerIntervals::new(TagWidth::Bits64);
        for trailer in [u64::MAX, 0, u64::MAX - 1] {
            unused.insert(trailer);
        }
        assert_eq!(unused.gaps, BTreeMap::from([(1, u64::MAX - 2)]));
        for trailer in [0, u64::MAX, u64::MAX - 1] {
            unused.remove(trailer);
        }
        assert_eq!(unused.gaps, BTreeMap::from([(0, u64::MAX)]));
    }

    #[test]
    fn no_trailer_is_chosen_while_all_are_used_and_one_once_a_value_is_free() {
        let mut unused = UnusedTrailerIntervals::new(TagWidth::Bits8);
        for trailer in 0..=255 {
            assert!(unused.choose().is_some_and(|tag| tag >= trailer));
            unused.insert(trailer);
        }
        assert_eq!(unused.choose(), None);
        unused.insert(77);
        unused.remove(77);
        assert_eq!(unused.choose(), None, "another chunk still ends in it");
        unused.remove(77);
        assert_eq!(unused.choose(), Some(77));
    }

    #[test]
    fn ascending_trailers_seldom_collide_with_the_chosen_trailer() {
        let mut unused = UnusedTrailerIntervals::new(TagWidth::Bits32);
        let first = unused.choose().unwrap();
        let mut choices = Vec::new();
        for trailer in first..first + 10_000 {
            unused.insert(trailer);
            choices.push(unused.choose());
        }
        choices.dedup();
        assert!(choices.len() < 20, "{}", choices.len());
    }

    #[test]
    #[should_panic(expected = "fits the width")]
    fn trailer_wider_than_its_record_panics() {
        UnusedTrailerIntervals::new(TagWidth::Bits8).insert(256);
    }

    /// Returns the longest runs of 8-bit values that are not in `trailers`, as first and last value.
    fn compute_unused_intervals_naively(trailers: &[u64]) -> BTreeMap<u64, u64> {
        let mut gaps = BTreeMap::new();
        let mut first = None;
        for value in 0..=256 {
            match (first, value == 256 || trailers.contains(&value)) {
                (None, false) => first = Some(value),
                (Some(start), true) => {
                    gaps.insert(start, value - 1);
                    first = None;
                }
                _ => {}
            }
        }
        gaps
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn chosen_trailer_is_unused_and_intervals_match_a_naive_model(
            steps in prop::collection::vec((any::<bool>(), any::<u8>()), 1..400),
        ) {
            let mut unused = UnusedTrailerIntervals::new(TagWidth::Bits8);
            let mut model: Vec<u64> = Vec::new();
            for (is_insert, pick) in steps {
                if is_insert || model.is_empty() {
                    unused.insert(u64::from(pick));
                    model.push(u64::from(pick));
                } else {
                    unused.remove(model.swap_remove(usize::from(pick) % model.len()));
                }
                let choice = unused.choose().expect("fewer chunks than values");
                prop_assert!(choice <= 255 && !model.contains(&choice) && !unused.contains(choice));
                prop_assert!(unused.gaps.len() <= model.len() + 1);
            }
            prop_assert_eq!(unused.gaps, compute_unused_intervals_naively(&model));
        }
    }
}
