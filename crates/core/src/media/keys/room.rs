//! Free space for values: runs of free granules, from which allocation takes the next ones in turn.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::GranuleRange;
use crate::number::narrow;

/// Free allocation granules of a key space, as runs, and the position at which allocation continues.
#[derive(Clone, Debug)]
pub(super) struct FreeGranuleRuns {
    /// Number of allocation granules in each free run, by the number of its first granule. No two runs are adjacent.
    runs: BTreeMap<u64, u64>,
    /// Number of free granules, summed over all runs.
    granules: u64,
    /// Number of the allocation granule from which on the next value takes its space.
    next: u64,
}

impl FreeGranuleRuns {
    /// Creates the free space of a medium with `granules` allocation granules, all of which are free.
    pub(super) fn new(granules: u64) -> FreeGranuleRuns {
        let runs = if granules > 0 { BTreeMap::from([(0, granules)]) } else { BTreeMap::new() };
        FreeGranuleRuns { runs, granules, next: 0 }
    }

    /// Returns the number of free granules, summed over all runs.
    pub(super) fn granules(&self) -> u64 {
        self.granules
    }

    /// Returns the first granule and the number of allocation granules of each free run, in ascending order.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().map(|(first, granules)| (*first, *granules))
    }

    /// Returns the free run that holds a granule, as first granule and number of granules; `None` if the granule is in
    /// use.
    pub(super) fn free_run_containing(&self, granule: u64) -> Option<(u64, u64)> {
        let (&first, &granules) = self.runs.range(..=granule).next_back()?;
        (granule - first < granules).then_some((first, granules))
    }

    /// Allocates `granules` granules in at most `parts_max` runs: the next free runs after the last allocation, or the
    /// longest runs if the next ones are too short. Returns the runs; `None` if even the longest are too short.
    pub(super) fn take(&mut self, granules: u64, parts_max: usize) -> Option<SmallVec<[GranuleRange; 1]>> {
        if granules > self.granules {
            return None;
        }
        let next = self.runs.range(self.next..).chain(self.runs.range(..self.next));
        let chosen = first_fitting_runs(next.map(|(first, granules)| (*first, *granules)).take(parts_max), granules);
        let chosen = chosen.or_else(|| {
            let mut longest: Vec<(u64, u64)> = self.runs().collect();
            longest.sort_by_key(|(first, granules)| (std::cmp::Reverse(*granules), *first));
            self::first_fitting_runs(longest.into_iter().take(parts_max), granules)
        })?;
        for (first, granules) in &chosen {
            self.cut_from_free_run(*first, (*first, u64::from(*granules)));
            self.next = first + u64::from(*granules);
        }
        Some(chosen)
    }

    /// Allocates exactly this run of granules. Returns false if any of them is in use.
    pub(super) fn allocate_run(&mut self, (first, granules): GranuleRange) -> bool {
        let Some((&start, &length)) = self.runs.range(..=first).next_back() else { return false };
        let fits = granules > 0 && first.checked_add(u64::from(granules)).is_some_and(|end| end <= start + length);
        if fits {
            self.cut_from_free_run(start, (first, u64::from(granules)));
        }
        fits
    }

    /// Removes a run of granules from the free run that begins with granule `start`. The rest on both sides stays free.
    fn cut_from_free_run(&mut self, start: u64, (first, granules): (u64, u64)) {
        let length = self.runs.remove(&start).expect("the run is free");
        if first > start {
            self.runs.insert(start, first - start);
        }
        let (end, rest) = (first + granules, start + length - first - granules);
        if rest > 0 {
            self.runs.insert(end, rest);
        }
        self.granules -= granules;
    }

    /// Frees a run of granules, and merges it with adjacent free runs.
    pub(super) fn free(&mut self, (first, granules): GranuleRange) {
        self.granules += u64::from(granules);
        let (mut start, mut end) = (first, first + u64::from(granules));
        if let Some((&before, &length)) = self.runs.range(..first).next_back()
            && before + length == first
        {
            start = before;
        }
        if let Some(length) = self.runs.remove(&end) {
            end += length;
        }
        self.runs.insert(start, end - start);
    }
}

/// Returns the first of these runs that hold `granules` granules together, the last one cut to size; `None` if all of
/// them hold fewer.
fn first_fitting_runs(runs: impl Iterator<Item = (u64, u64)>, granules: u64) -> Option<SmallVec<[GranuleRange; 1]>> {
    let (mut chosen, mut left) = (SmallVec::new(), granules);
    for (first, length) in runs {
        if left == 0 {
            break;
        }
        let here = length.min(left);
        chosen.push((first, narrow::<u32, u64>(here)));
        left -= here;
    }
    (left == 0).then_some(chosen)
}
