//! Locations of the units that were on the drive before the run, without a table of all of them.
//!
//! Units of the preconditioned drive have numbers: a seeded shuffle of their addresses, or the addresses themselves if
//! the drive was written sequentially. Adjacent numbers lie in one block, so that a few *cohorts*, ranges of numbers
//! with the location of their first unit, give the location of every unit. A unit that is overwritten or deallocated
//! leaves its cohort, for which one bit is kept. Garbage collection moves the valid units of a cohort as ranges,
//! counted 64 bits at a time, so that its cost does not grow with the number of units moved.
//!
//! ```text
//!     numbers   0 ............ 5 ......... 9 ............ 14        each number is shuffle(address)
//!     cohorts   block 7, pos 0 | block 2, pos 0 | block 7, pos 16
//!     left      0 0 1 0 0 ...                                       bit 2 set: unit 2 was overwritten, see the overlay
//! ```

use super::blocks::FlashUnitLocation;
use crate::media::randomiser::LineRandomiser;
use crate::number::narrow;

/// Cohort: range of mapping units, by number, that lie in one block, evenly spread over consecutive positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnitCohort {
    block: u32,
    position: u32,
    /// Number of positions in a block that a cohort of mapping units was written to. Units that have left the cohort
    /// since then still occupy theirs.
    positions: u32,
}

/// Cohorts of a drive in the order of unit numbers, with a bit for each mapping unit that has left.
#[derive(Clone, Debug)]
pub(super) struct UnitCohorts {
    /// Permutation from the addresses of mapping units to their numbers; `None` if they are equal.
    shuffle: Option<LineRandomiser>,
    /// Number of the first mapping unit in each cohort, in ascending order; a cohort ends where the next one begins.
    starts: Vec<u64>,
    cohorts: Vec<UnitCohort>,
    units: u64,
    /// Bit for each mapping unit, by number, set if the unit has been overwritten or deallocated and so has left its
    /// cohort.
    left: Vec<u64>,
}

/// Part of a cohort that garbage collection has moved to another block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovedCohortPart {
    /// Old location of the first mapping unit of the moved part of a cohort.
    pub from: FlashUnitLocation,
    /// Number of positions of the old block over which the mapping units of the moved part were spread.
    pub positions: u32,
    /// Number of mapping units of the moved part that were still valid.
    pub units: u32,
    /// Number of the first mapping unit after the moved part of a cohort.
    pub until: u64,
}

impl UnitCohorts {
    /// Creates an empty set of cohorts, for a drive on which nothing was written before the run.
    pub(super) fn none() -> UnitCohorts {
        UnitCohorts { shuffle: None, starts: Vec::new(), cohorts: Vec::new(), units: 0, left: Vec::new() }
    }

    /// Creates one cohort for each block `(block, units, positions)`: `units` mapping units, evenly spread over
    /// `positions` positions. `shuffle` numbers the units; without it they are in the order of addresses.
    pub(super) fn new(
        blocks: impl IntoIterator<Item = (u32, u32, u32)>,
        shuffle: Option<LineRandomiser>,
    ) -> UnitCohorts {
        let mut cohorts = UnitCohorts { shuffle, ..UnitCohorts::none() };
        for (block, units, positions) in blocks.into_iter().filter(|(_, units, _)| *units > 0) {
            cohorts.starts.push(cohorts.units);
            cohorts.cohorts.push(UnitCohort { block, position: 0, positions });
            cohorts.units += u64::from(units);
        }
        cohorts.left = vec![0; narrow::<usize, u64>(cohorts.units.div_ceil(64))];
        cohorts
    }

    /// Returns the number of a mapping unit that is still in its cohort, which gives its location. `None` if the unit
    /// has been overwritten or deallocated, or was not on the drive before the run.
    #[inline]
    pub(super) fn number(&self, unit: u32) -> Option<u64> {
        if u64::from(unit) >= self.units {
            return None;
        }
        let number = self.shuffle.map_or(u64::from(unit), |shuffle| shuffle.forward(u64::from(unit)));
        (self.left[narrow::<usize, u64>(number / 64)] >> (number % 64) & 1 == 0).then_some(number)
    }

    /// Returns the mapping unit with this number in the order of cohorts; `None` if it has been overwritten or
    /// deallocated and so has left its cohort.
    pub(super) fn unit(&self, number: u64) -> Option<u32> {
        let is_left = self.left[narrow::<usize, u64>(number / 64)] >> (number % 64) & 1 == 1;
        let unit = self.shuffle.map_or(number, |shuffle| shuffle.invert(number));
        (!is_left).then(|| narrow::<u32, u64>(unit))
    }

    /// Returns the location of the mapping unit with this number, computed from the cohort (range of numbers) that
    /// holds it.
    #[inline]
    pub(super) fn location(&self, number: u64) -> FlashUnitLocation {
        let index = self.starts.partition_point(|start| *start <= number) - 1;
        let (cohort, start) = (self.cohorts[index], self.starts[index]);
        let inside = (number - start) * u64::from(cohort.positions) / (self.end(index) - start);
        FlashUnitLocation { block: cohort.block, position: cohort.position + narrow::<u32, u64>(inside) }
    }

    /// Removes the mapping unit with this number from its cohort, because it has been overwritten or deallocated. From
    /// then on it has a location of its own, or none.
    #[inline]
    pub(super) fn leave(&mut self, number: u64) {
        let (word, bit) = (&mut self.left[narrow::<usize, u64>(number / 64)], 1 << (number % 64));
        assert!(*word & bit == 0, "unit number {number} leaves its cohort twice");
        *word |= bit;
    }

    /// Returns the number of the first mapping unit in each cohort (range of units) that lies in `block`, in the order
    /// of positions.
    pub(super) fn cohort_starts_in_block(&self, block: u32) -> Vec<u64> {
        let cohorts = self.cohorts.iter().zip(&self.starts).filter(|(cohort, _)| cohort.block == block);
        let mut found: Vec<(u32, u64)> = cohorts.map(|(cohort, start)| (cohort.position, *start)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, start)| start).collect()
    }

    /// Moves up to `most` valid mapping units from the beginning of the cohort that starts at number `start` to
    /// location `to`. Returns the part that was moved, and the start of the remaining cohort; `None` if no cohort
    /// remains.
    pub(super) fn move_cohort_part(
        &mut self,
        start: u64,
        most: u32,
        to: FlashUnitLocation,
    ) -> (MovedCohortPart, Option<u64>) {
        let index = self.starts.partition_point(|other| *other < start);
        debug_assert_eq!(self.starts[index], start);
        let (cohort, end) = (self.cohorts[index], self.end(index));
        let (until, units) = self.end_of_first_units(start, end, most);
        let positions = narrow::<u32, u64>(u64::from(cohort.positions) * (until - start) / (end - start));
        let from = FlashUnitLocation { block: cohort.block, position: cohort.position };
        let moved = UnitCohort { block: to.block, position: to.position, positions: units };
        let rest =
            UnitCohort { position: cohort.position + positions, positions: cohort.positions - positions, ..cohort };
        self.replace(index, moved, (until < end).then_some((until, rest)));
        (MovedCohortPart { from, positions, units, until }, (until < end).then_some(until))
    }

    /// Replaces the cohort at `index` by its moved part, and by the rest behind it if there is one. A moved part that
    /// directly follows the preceding cohort in its block is merged with that.
    fn replace(&mut self, index: usize, moved: UnitCohort, rest: Option<(u64, UnitCohort)>) {
        let joins = index > 0 && self.cohorts[index - 1].is_followed_by(&moved);
        if joins || moved.positions == 0 && index > 0 {
            self.cohorts[index - 1].positions += moved.positions;
            match rest {
                Some((until, rest)) => (self.starts[index], self.cohorts[index]) = (until, rest),
                None => {
                    self.starts.remove(index);
                    self.cohorts.remove(index);
                }
            }
            return;
        }
        self.cohorts[index] = moved;
        if let Some((until, rest)) = rest {
            self.starts.insert(index + 1, until);
            self.cohorts.insert(index + 1, rest);
        }
    }

    fn end(&self, index: usize) -> u64 {
        self.starts.get(index + 1).copied().unwrap_or(self.units)
    }

    /// Returns the number that follows the first `most` mapping units from `start` that have not left, at most `end`,
    /// and the number of these units.
    fn end_of_first_units(&self, start: u64, end: u64, most: u32) -> (u64, u32) {
        let (mut at, mut found) = (start, 0);
        while at < end && found < most {
            let (word, bit) = (narrow::<usize, u64>(at / 64), at % 64);
            let bits = (64 - bit).min(end - at);
            let here = !self.left[word] >> bit & (u64::MAX >> (64 - bits));
            if found + here.count_ones() <= most {
                (at, found) = (at + bits, found + here.count_ones());
                continue;
            }
            let one = !self.left[word] >> bit & 1;
            (at, found) = (at + 1, found + u32::from(one == 1));
        }
        (at, found)
    }
}

impl UnitCohort {
    fn is_followed_by(&self, next: &UnitCohort) -> bool {
        self.block == next.block && self.position + self.positions == next.position
    }
}
