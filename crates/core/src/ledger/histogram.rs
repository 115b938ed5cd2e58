//! Histogram of values with a resolution of three significant digits.
//!
//! Values below 2048 have a class each. From there on, every doubling is divided into 1024 classes of equal width, the
//! layout of HdrHistogram (Tene, 2012). Counting is a shift and an increment, because it is done several times for each
//! simulated request.

use crate::number::{length, wide_index};

/// Number of binary digits after the leading one that all values of a histogram class have in common.
const KEPT_BITS: u32 = 10;
/// Number of histogram classes from one power of two to the next.
const DOUBLING: usize = 1 << KEPT_BITS;

/// Histogram of latencies: number of values in each class. Classes are stored from the lowest to the highest power of
/// two that has values. Latencies of a run span few powers of two; storing all would make a short run spend most of its
/// time on zeroed pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LatencyHistogram {
    /// Number of the class that `counts` starts with, which is the first class of a doubling.
    first: usize,
    counts: Box<[u64]>,
}

impl LatencyHistogram {
    /// Counts one value in its class of the histogram.
    #[inline]
    pub(super) fn record(&mut self, value: u64) {
        let class = class(value);
        // If the class is below `first`, the difference wraps to an index beyond the end, so one check covers both
        // ends.
        match self.counts.get_mut(class.wrapping_sub(self.first)) {
            Some(count) => *count += 1,
            None => self.count_in_new_class(class),
        }
    }

    /// Counts a value whose class is not stored yet.
    #[cold]
    fn count_in_new_class(&mut self, class: usize) {
        self.extend_classes(class, class + 1);
        self.counts[class - self.first] += 1;
    }

    /// Extends the stored counts so that they include the classes from `first` to before `end`, in whole doublings.
    fn extend_classes(&mut self, first: usize, end: usize) {
        let first = first / DOUBLING * DOUBLING;
        if self.counts.is_empty() {
            self.first = first;
        }
        let below = self.first.saturating_sub(first);
        self.first -= below;
        let length = (end.next_multiple_of(DOUBLING) - self.first).max(below + self.counts.len());
        if length > self.counts.len() {
            let mut counts = vec![0; length];
            counts[below..][..self.counts.len()].copy_from_slice(&self.counts);
            self.counts = counts.into();
        }
    }

    /// Adds all counts of another histogram.
    pub(super) fn merge(&mut self, other: &LatencyHistogram) {
        if other.counts.is_empty() {
            return;
        }
        self.extend_classes(other.first, other.first + other.counts.len());
        let own = &mut self.counts[other.first - self.first..];
        own.iter_mut().zip(&*other.counts).for_each(|(count, others)| *count += others);
    }

    /// Returns a histogram of the values that were counted since this one was equal to `earlier`.
    pub(super) fn without(&self, earlier: &LatencyHistogram) -> LatencyHistogram {
        let mut rest = self.clone();
        if !earlier.counts.is_empty() {
            let own = &mut rest.counts[earlier.first - self.first..];
            own.iter_mut().zip(&*earlier.counts).for_each(|(count, before)| *count -= before);
        }
        rest
    }

    /// Returns the highest value and the count of each class that has any values, in rising order.
    pub(super) fn classes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.counts.iter().enumerate();
        all.filter(|(_, count)| **count > 0).map(|(place, count)| (highest(self.first + place), *count))
    }

    /// Returns the highest value of the class that holds the value of rank `rank` (from 1, in rising order); `None`
    /// beyond the last.
    pub(super) fn value_of_rank(&self, rank: u64) -> Option<u64> {
        let mut below = 0;
        self.classes().find_map(|(highest, count)| {
            below += count;
            (below >= rank).then_some(highest)
        })
    }
}

/// Returns the number of the histogram class that a value belongs to.
#[inline]
fn class(value: u64) -> usize {
    class_of(value, KEPT_BITS)
}

/// Returns the number of the class that a value belongs to, if all values of a class have `kept_bits` binary digits
/// after the leading one in common.
#[inline]
pub(super) fn class_of(value: u64, kept_bits: u32) -> usize {
    let shift = u64::BITS - 1 - kept_bits - (value | 1 << kept_bits).leading_zeros();
    ((shift as usize) << kept_bits) + wide_index(value >> shift)
}

/// Returns the highest value of a histogram class.
fn highest(class: usize) -> u64 {
    let shift = (class / DOUBLING).saturating_sub(1);
    let first = length(class - shift * DOUBLING);
    // The sum overflows in the last class, whose highest value is `u64::MAX`.
    ((first + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn histogram_value_lies_within_its_class(value in any::<u64>(), shift in 0..64_u32) {
            let value = value >> shift;
            let class = class(value);
            prop_assert!(value <= highest(class));
            prop_assert!(class == 0 || value > highest(class - 1));
            prop_assert!((highest(class) - value) / 1024 <= value / 1024 / 1024);
        }
    }

    proptest! {
        #[test]
        fn histogram_counts_are_independent_of_order(shifts in prop::collection::vec(0..64_u32, 1..8), cut in 0..8_usize) {
            let values: Vec<u64> = shifts.iter().map(|shift| u64::MAX >> shift).collect();
            let counted = |values: &[u64]| {
                let mut histogram = LatencyHistogram::default();
                values.iter().for_each(|value| histogram.record(*value));
                histogram
            };
            let (head, tail) = values.split_at(cut.min(values.len()));
            let (all, mut merged) = (counted(&values), counted(tail));
            merged.merge(&counted(head));
            prop_assert_eq!(&merged, &all);
            let rest: Vec<(u64, u64)> = all.without(&counted(head)).classes().collect();
            prop_assert_eq!(rest, counted(tail).classes().collect::<Vec<_>>());
            prop_assert_eq!(all.classes().map(|(_, count)| count).sum::<u64>(), values.len() as u64);
        }
    }

    #[test]
    fn largest_number_is_the_end_of_the_last_class() {
        assert_eq!(highest(class(u64::MAX)), u64::MAX);
        assert_eq!((highest(class(2047)), highest(class(2048))), (2047, 2049));
    }
}
