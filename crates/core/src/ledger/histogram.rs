//! Counts of values in classes of three significant digits.
//!
//! Values below 2048 have a class each; from there on, every doubling is cut into 1024 classes of equal width, the layout
//! of HdrHistogram (Tene, 2012). Counting is a shift and an increment: it is done several times a simulated request.

/// Binary digits of a value that its class keeps, but for the first.
const KEPT_BITS: u32 = 10;
/// Classes of one doubling.
const DOUBLING: usize = 1 << KEPT_BITS;

/// How many values were counted in each class, up to the highest class that has any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    /// Count one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let class = class(value);
        match self.counts.get_mut(class) {
            Some(count) => *count += 1,
            None => self.count_new(class),
        }
    }

    /// The same for a class that there is no room for: make some, up to the end of the doubling that it is in.
    #[cold]
    fn count_new(&mut self, class: usize) {
        self.counts.resize((class + 1).next_multiple_of(DOUBLING), 0);
        self.counts[class] = 1;
    }

    /// Count everything that `other` has counted.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, others) in self.counts.iter_mut().zip(&other.counts) {
            *count += others;
        }
    }

    /// What was counted since this was as `earlier` is.
    pub fn without(&self, earlier: &Histogram) -> Histogram {
        let mut rest = self.clone();
        for (count, before) in rest.counts.iter_mut().zip(&earlier.counts) {
            *count -= before;
        }
        rest
    }

    /// Highest value of each class that has any, in rising order, and how many there are.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.counts.iter().enumerate();
        all.filter(|(_, count)| **count > 0).map(|(class, count)| (highest(class), *count))
    }

    /// Highest value of the class in which the value of rank `rank` (from 1, by size) lies; none beyond the last.
    pub fn value_of_rank(&self, rank: u64) -> Option<u64> {
        let mut below = 0;
        self.classes().find_map(|(highest, count)| {
            below += count;
            (below >= rank).then_some(highest)
        })
    }
}

/// The class of a value.
#[inline]
fn class(value: u64) -> usize {
    let shift = u64::BITS - 1 - KEPT_BITS - (value | 1 << KEPT_BITS).leading_zeros();
    (shift as usize) * DOUBLING + (value >> shift) as usize
}

/// Highest value of a class.
fn highest(class: usize) -> u64 {
    let shift = (class / DOUBLING).saturating_sub(1);
    let first = (class - shift * DOUBLING) as u64;
    // The last class ends with the largest number there is.
    ((first + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_lies_in_its_class_and_above_the_one_before(value in any::<u64>(), shift in 0..64_u32) {
            let value = value >> shift;
            let class = class(value);
            prop_assert!(value <= highest(class));
            prop_assert!(class == 0 || value > highest(class - 1));
            prop_assert!((highest(class) - value) / 1024 <= value / 1024 / 1024);
        }
    }

    #[test]
    fn the_largest_number_is_the_end_of_the_last_class() {
        assert_eq!(highest(class(u64::MAX)), u64::MAX);
        assert_eq!((highest(class(2047)), highest(class(2048))), (2047, 2049));
    }
}
