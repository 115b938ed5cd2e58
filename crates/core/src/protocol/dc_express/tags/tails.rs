//! The device's record of the values in which its chunks end.

use std::collections::BTreeMap;

use super::TagWidth;

/// The tails of all chunks, as a multiset.
#[derive(Clone, Debug, Default)]
pub struct StoredTails {
    copies: BTreeMap<u64, u64>,
}

impl StoredTails {
    /// The tails of `chunks` chunks that all end in `tail`: a device as it leaves the factory.
    pub fn uniform(tail: u64, chunks: u64) -> StoredTails {
        let mut stored = StoredTails::default();
        if chunks > 0 {
            stored.copies.insert(tail, chunks);
        }
        stored
    }

    /// Adds the tail of one chunk; true if no other chunk ended in it.
    pub fn insert(&mut self, tail: u64) -> bool {
        let copies = self.copies.entry(tail).or_insert(0);
        *copies += 1;
        *copies == 1
    }

    /// Takes away the tail of one chunk; true if no chunk ends in it any more. Asserts that one did.
    pub fn remove(&mut self, tail: u64) -> bool {
        let copies = self.copies.get_mut(&tail).expect("the tail of a stored chunk");
        *copies -= 1;
        let gone = *copies == 0;
        if gone {
            self.copies.remove(&tail);
        }
        gone
    }

    /// Whether some chunk ends in `tail`.
    pub fn contains(&self, tail: u64) -> bool {
        self.copies.contains_key(&tail)
    }

    /// Number of different tails.
    pub fn distinct(&self) -> u64 {
        self.copies.len() as u64
    }
}

/// The values in which no chunk ends, kept as intervals beside the tails in which some chunk does
/// (the last strategy of section 3.1). A choice takes constant time and an update logarithmic time;
/// there are at most one more intervals than different tails, hence memory is bounded by the number
/// of chunks.
#[derive(Clone, Debug)]
pub struct UnusedTails {
    stored: StoredTails,
    /// First and last value of each interval that is unused, as long as possible.
    gaps: BTreeMap<u64, u64>,
    choice: Option<u64>,
}

impl UnusedTails {
    /// The record of a device without chunks.
    pub fn new(width: TagWidth) -> UnusedTails {
        let mut unused = UnusedTails {
            stored: StoredTails::default(),
            gaps: BTreeMap::from([(0, width.value_max())]),
            choice: None,
        };
        unused.choose_again();
        unused
    }

    /// The record of `chunks` chunks that all end in `tail`, which must fit the width.
    pub fn uniform(width: TagWidth, tail: u64, chunks: u64) -> UnusedTails {
        let mut unused = UnusedTails::new(width);
        if chunks > 0 {
            unused.split_gap(tail);
            unused.stored = StoredTails::uniform(tail, chunks);
        }
        unused
    }

    /// Adds the tail of one chunk. Asserts that it fits the width.
    pub fn insert(&mut self, tail: u64) {
        if self.stored.insert(tail) {
            self.split_gap(tail);
        }
    }

    /// Takes away the tail of one chunk. Asserts that some chunk ended in it.
    pub fn remove(&mut self, tail: u64) {
        if self.stored.remove(tail) {
            self.join_gaps(tail);
        }
    }

    /// Whether some chunk ends in `tail`.
    pub fn contains(&self, tail: u64) -> bool {
        self.stored.contains(tail)
    }

    /// A value in which no chunk ends, the same until one does; none if every value is used.
    pub fn choose(&self) -> Option<u64> {
        self.choice
    }

    /// Takes `tail` out of the gap that holds it.
    fn split_gap(&mut self, tail: u64) {
        let gap = self.gaps.range(..=tail).next_back();
        let (&first, &last) = gap.expect("an unused tail lies in a gap");
        assert!(tail <= last, "a tail fits the width");
        self.gaps.remove(&first);
        if first < tail {
            self.gaps.insert(first, tail - 1);
        }
        if tail < last {
            self.gaps.insert(tail + 1, last);
        }
        if self.choice == Some(tail) {
            self.choose_again();
        }
    }

    /// Makes `tail` a gap of its own and joins it with its neighbours.
    fn join_gaps(&mut self, tail: u64) {
        let before = self.gaps.range(..tail).next_back();
        let first = match before {
            Some((&first, &last)) if last + 1 == tail => first,
            _ => tail,
        };
        let after = tail.checked_add(1).and_then(|next| self.gaps.remove(&next));
        self.gaps.insert(first, after.unwrap_or(tail));
        if self.choice.is_none() {
            self.choose_again();
        }
    }

    /// Chooses the middle of a gap: stored values often grow one by one, and would soon meet a
    /// choice at the edge of one.
    fn choose_again(&mut self) {
        let gap = self.gaps.last_key_value();
        self.choice = gap.map(|(&first, &last)| first + (last - first) / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_device_of_equal_chunks_uses_one_value() {
        let unused = UnusedTails::uniform(TagWidth::Bits32, 0, 1 << 30);
        assert!(unused.contains(0));
        assert_eq!(unused.gaps, BTreeMap::from([(1, u64::from(u32::MAX))]));
        assert_eq!(UnusedTails::uniform(TagWidth::Bits8, 3, 0).gaps.len(), 1);
    }

    #[test]
    fn the_ends_of_64_bits_are_tails_like_any_other() {
        let mut unused = UnusedTails::new(TagWidth::Bits64);
        for tail in [u64::MAX, 0, u64::MAX - 1] {
            unused.insert(tail);
        }
        assert_eq!(unused.gaps, BTreeMap::from([(1, u64::MAX - 2)]));
        for tail in [0, u64::MAX, u64::MAX - 1] {
            unused.remove(tail);
        }
        assert_eq!(unused.gaps, BTreeMap::from([(0, u64::MAX)]));
    }

    #[test]
    fn there_is_no_choice_while_every_value_is_used_and_one_as_soon_as_one_is_free() {
        let mut unused = UnusedTails::new(TagWidth::Bits8);
        for tail in 0..=255 {
            assert!(unused.choose().is_some_and(|tag| tag >= tail));
            unused.insert(tail);
        }
        assert_eq!(unused.choose(), None);
        unused.insert(77);
        unused.remove(77);
        assert_eq!(unused.choose(), None, "another chunk still ends in it");
        unused.remove(77);
        assert_eq!(unused.choose(), Some(77));
    }

    #[test]
    fn tails_that_count_upwards_seldom_meet_the_choice() {
        let mut unused = UnusedTails::new(TagWidth::Bits32);
        let first = unused.choose().unwrap();
        let mut choices = Vec::new();
        for tail in first..first + 10_000 {
            unused.insert(tail);
            choices.push(unused.choose());
        }
        choices.dedup();
        assert!(choices.len() < 20, "{}", choices.len());
    }

    #[test]
    #[should_panic(expected = "fits the width")]
    fn a_tail_wider_than_the_record_is_a_programming_error() {
        UnusedTails::new(TagWidth::Bits8).insert(256);
    }

    /// The longest runs of values of 8 bits that are not in `tails`.
    fn naive_gaps(tails: &[u64]) -> BTreeMap<u64, u64> {
        let mut gaps = BTreeMap::new();
        let mut first = None;
        for value in 0..=256 {
            match (first, value == 256 || tails.contains(&value)) {
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
        fn intervals_are_those_of_a_naive_model_and_the_choice_lies_in_one(
            steps in prop::collection::vec((any::<bool>(), any::<u8>()), 1..400),
        ) {
            let mut unused = UnusedTails::new(TagWidth::Bits8);
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
            prop_assert_eq!(unused.gaps, naive_gaps(&model));
        }
    }
}
