//! Counts of latencies by window of simulated time, which tell how strongly slow requests come together.
//!
//! Requests that wait in the same queues are slow together, so that n requests tell less about a percentile than n
//! independent ones. The share of requests beyond the percentile is therefore compared between windows of time (batch
//! means of an indicator: Chen and Kelton, "Quantile and Tolerance-Interval Estimation in Simulation", European Journal
//! of Operational Research 168, 2006). Its variance gives the number of independent requests that would know the
//! percentile as well.

use super::histogram::class_of;
use crate::number::{length, real_length, wide_index};
use crate::time::{Span, Time};

/// Largest number of windows. If a run grows longer, adjacent windows are merged in pairs.
const WINDOWS: usize = 64;
/// Binary logarithm of the first length of a window in picoseconds, about a microsecond.
const FIRST_SHIFT: u32 = 20;
/// Number of binary digits after the leading one that all latencies of a class have in common: 16 classes a doubling.
const KEPT_BITS: u32 = 4;
/// Number of classes by which the stored ones grow.
const DOUBLING: usize = 1 << KEPT_BITS;
/// Largest correlation of adjacent groups of windows that still counts as independent, about two standard errors of the
/// correlation of as many independent groups.
const CORRELATION_MAX: f64 = 0.3;
/// Smallest number of groups of windows from which a variance is estimated.
const GROUPS_MIN: usize = 8;

/// Counts of latencies in up to 64 windows of equal length, by coarse classes of latency.
///
/// Windows are numbered from time zero in lengths of a power of two, so that windows of several jobs and threads can be
/// added. All windows lie in one block of memory: a new window allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LatencyWindows {
    /// Binary logarithm of the length of a window in picoseconds.
    shift: u32,
    /// Number of the first window, counted from time zero.
    first: u64,
    /// Number of windows so far.
    used: usize,
    /// Number of the lowest stored class of latency.
    first_class: usize,
    /// Number of stored classes of latency.
    width: usize,
    /// Number of latencies by window, then by class.
    counts: Vec<u32>,
}

/// Number of independent requests that are worth as much as those counted, and the evidence for that number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IndependentRequestCount {
    /// Number of independent requests that would know a percentile as well as the counted ones do.
    pub(super) requests: f64,
    /// Number of independent groups of windows whose variance tells the number of requests.
    pub(super) groups: f64,
}

/// Number of requests of one window, or of several adjacent ones, and of those that are beyond a percentile.
#[derive(Clone, Copy, Debug, Default)]
struct WindowGroup {
    requests: f64,
    beyond: f64,
}

impl Default for LatencyWindows {
    fn default() -> LatencyWindows {
        LatencyWindows { shift: FIRST_SHIFT, first: 0, used: 0, first_class: 0, width: 0, counts: Vec::new() }
    }
}

impl LatencyWindows {
    /// Counts a latency in the window of the instant at which it ends.
    #[inline]
    pub(super) fn record(&mut self, span: Span, end: Time) {
        let row = (end.as_ps() >> self.shift).wrapping_sub(self.first);
        let column = class_of(span.as_ps(), KEPT_BITS).wrapping_sub(self.first_class);
        if row < length(self.used) && column < self.width {
            self.counts[wide_index(row) * self.width + column] += 1;
        } else {
            self.count_in_new_window(span, end);
        }
    }

    /// Counts a latency whose window or class is not stored yet.
    #[cold]
    fn count_in_new_window(&mut self, span: Span, end: Time) {
        let class = class_of(span.as_ps(), KEPT_BITS);
        self.extend_latency_classes(class, class + 1);
        let at = end.as_ps() >> self.shift;
        self.extend(at, at + 1);
        let row = wide_index((end.as_ps() >> self.shift) - self.first);
        self.counts[row * self.width + class - self.first_class] += 1;
    }

    /// Adds the counts of other windows.
    pub(super) fn merge(&mut self, other: &LatencyWindows) {
        if other.used == 0 {
            return;
        }
        let mut other = other.clone();
        while other.shift < self.shift {
            other.pair();
        }
        while self.shift < other.shift {
            self.pair();
        }
        self.extend_latency_classes(other.first_class, other.first_class + other.width);
        self.extend(other.first, other.first + length(other.used));
        while other.shift < self.shift {
            other.pair();
        }
        let (row, column) = (wide_index(other.first - self.first), other.first_class - self.first_class);
        for (place, counts) in other.counts.chunks(other.width.max(1)).take(other.used).enumerate() {
            let own = &mut self.counts[(row + place) * self.width + column..][..other.width];
            own.iter_mut().zip(counts).for_each(|(count, others)| *count += others);
        }
    }

    /// Stores the classes from `first` to before `end`, in whole doublings.
    fn extend_latency_classes(&mut self, first: usize, end: usize) {
        let (first, end) = (first / DOUBLING * DOUBLING, end.next_multiple_of(DOUBLING));
        let (low, high) = match self.width {
            0 => (first, end),
            width => (first.min(self.first_class), end.max(self.first_class + width)),
        };
        if (low, high - low) == (self.first_class, self.width) {
            return;
        }
        let mut counts = vec![0; WINDOWS * (high - low)];
        for (own, row) in counts.chunks_mut(high - low).zip(self.counts.chunks(self.width.max(1))) {
            own[self.first_class - low..][..self.width].copy_from_slice(row);
        }
        (self.first_class, self.width, self.counts) = (low, high - low, counts);
    }

    /// Stores the windows from `first` to before `end`, both at the present length, which grows until all of them fit.
    fn extend(&mut self, first: u64, end: u64) {
        let (mut low, mut high) = match self.used {
            0 => (first, end),
            used => (first.min(self.first), end.max(self.first + length(used))),
        };
        while high - low > length(WINDOWS) {
            self.pair();
            (low, high) = (low >> 1, ((high - 1) >> 1) + 1);
        }
        if self.used > 0 && low < self.first {
            let moved = wide_index(self.first - low) * self.width;
            self.counts.rotate_right(moved);
        }
        (self.first, self.used) = (low, wide_index(high - low));
    }

    /// Merges adjacent windows in pairs.
    fn pair(&mut self) {
        let (first, width) = (self.first >> 1, self.width);
        for row in 0..self.used {
            let into = wide_index(((self.first + length(row)) >> 1) - first);
            for column in 0..if into == row { 0 } else { width } {
                self.counts[into * width + column] += std::mem::take(&mut self.counts[row * width + column]);
            }
        }
        if self.used > 0 {
            self.used = wide_index(((self.first + length(self.used) - 1) >> 1) - first) + 1;
        }
        (self.first, self.shift) = (first, self.shift + 1);
    }

    /// Returns the number of independent requests that would know the share of the `beyond` slowest ones as well as
    /// these requests do; `None` if there are too few windows to tell.
    pub(super) fn independent(&self, beyond: f64) -> Option<IndependentRequestCount> {
        let mut groups = self.groups(beyond);
        let requests: f64 = groups.iter().map(|group| group.requests).sum();
        let share = beyond / requests;
        while groups.len() >= 2 * GROUPS_MIN && adjacent_group_correlation(&groups, share) > CORRELATION_MAX {
            groups = groups.chunks(2).map(WindowGroup::sum).collect();
        }
        if groups.len() < GROUPS_MIN {
            return None;
        }
        let number = real_length(groups.len());
        let squares: f64 = groups.iter().map(|group| group.excess(share) * group.excess(share)).sum();
        let variance = squares * number / (number - 1.0) / (requests * requests);
        let of_one = share * (1.0 - share);
        let requests = if variance * requests <= of_one { requests } else { of_one / variance };
        Some(IndependentRequestCount { requests, groups: number })
    }

    /// Returns the number of requests of each window, and how many of the `beyond` slowest requests it has. Of the class
    /// in which the percentile lies, each window gets an equal share.
    fn groups(&self, beyond: f64) -> Vec<WindowGroup> {
        let rows = || self.counts.chunks(self.width.max(1)).take(self.used);
        let sum_of = |column: usize| rows().map(|row| f64::from(row[column])).sum::<f64>();
        let (mut above, mut column) = (0.0, self.width);
        let mut share = 0.0;
        while column > 0 && above < beyond {
            column -= 1;
            let sum = sum_of(column);
            share = if sum > 0.0 { ((beyond - above) / sum).min(1.0) } else { 0.0 };
            above += sum;
        }
        let group = |row: &[u32]| {
            let sum = |counts: &[u32]| counts.iter().copied().map(f64::from).sum::<f64>();
            let at = row.get(column).copied().map_or(0.0, f64::from);
            WindowGroup { requests: sum(row), beyond: sum(row.get(column + 1..).unwrap_or_default()) + share * at }
        };
        rows().map(group).collect()
    }
}

impl WindowGroup {
    fn sum(groups: &[WindowGroup]) -> WindowGroup {
        groups.iter().fold(WindowGroup::default(), |sum, group| WindowGroup {
            requests: sum.requests + group.requests,
            beyond: sum.beyond + group.beyond,
        })
    }

    /// Returns the number of requests beyond the percentile, less the number expected at this share.
    fn excess(&self, share: f64) -> f64 {
        self.beyond - share * self.requests
    }
}

/// Returns the correlation of adjacent groups' excesses, or 0 if they do not vary.
fn adjacent_group_correlation(groups: &[WindowGroup], share: f64) -> f64 {
    let excess: Vec<f64> = groups.iter().map(|group| group.excess(share)).collect();
    let together: f64 = excess.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let apart: f64 = excess.iter().map(|excess| excess * excess).sum();
    if apart > 0.0 { together / apart } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn windows_of_latencies(latencies: &[(u64, u64)]) -> LatencyWindows {
        let mut windows = LatencyWindows::default();
        latencies.iter().for_each(|(end, ps)| windows.record(Span::from_ps(*ps), Time::from_ps(*end)));
        windows
    }

    fn sum(windows: &LatencyWindows) -> f64 {
        windows.groups(0.0).iter().map(|group| group.requests).sum()
    }

    proptest! {
        #[test]
        fn window_counts_merge_in_any_order(
            latencies in prop::collection::vec((0..50_u32, 0..1000_u64, 0..60_u32), 1..60), cut in 0..60_usize,
        ) {
            let mut latencies: Vec<(u64, u64)> =
                latencies.iter().map(|(shift, end, bits)| (end << (shift % 44), 1 << bits)).collect();
            latencies.sort_unstable();
            let (head, tail) = latencies.split_at(cut.min(latencies.len()));
            let whole = windows_of_latencies(&latencies);
            let (mut one, mut other) = (windows_of_latencies(head), windows_of_latencies(tail));
            other.merge(&windows_of_latencies(head));
            one.merge(&windows_of_latencies(tail));
            prop_assert_eq!(sum(&whole), latencies.len() as f64);
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(sum(&one), latencies.len() as f64);
            prop_assert!(whole.used <= WINDOWS && one.shift <= whole.shift + 1);
        }
    }

    #[test]
    fn correlated_slow_requests_count_as_few() {
        // Of 6,400 requests, 64 are slow: either one in each window, or all of them in four windows.
        let alike = (0..6400).map(|n: u64| (n << 20, if n.is_multiple_of(100) { 1 << 30 } else { 1 << 24 }));
        let together = (0..6400).map(|n: u64| (n << 20, if n % 1600 < 16 { 1 << 30 } else { 1 << 24 }));
        let effective =
            |latencies: Vec<(u64, u64)>| windows_of_latencies(&latencies).independent(64.0).unwrap().requests;
        assert_eq!(effective(alike.collect()), 6400.0);
        let few = effective(together.collect());
        assert!((300.0..650.0).contains(&few), "{few}");
    }

    #[test]
    fn too_few_windows_give_no_estimate() {
        assert_eq!(windows_of_latencies(&[(5, 1000), (9, 2000)]).independent(1.0), None);
        assert_eq!(LatencyWindows::default().independent(1.0), None);
    }
}
