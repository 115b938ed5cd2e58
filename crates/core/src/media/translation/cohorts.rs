//! Locations of the units that were on the drive before the run, without a table of all of them.
//!
//! Units of the preconditioned drive have numbers: a seeded shuffle of their addresses, or the addresses themselves
//! where the drive was written sequentially. Neighbours by number lie in one block, so that a few *cohorts*, ranges of
//! numbers with the location of their first unit, give the location of every unit. A unit that is overwritten or
//! deallocated leaves its cohort, for which one bit is kept. Garbage collection moves the valid units of a cohort as
//! ranges, counted 64 bits at a time, so that its cost does not grow with the number of units moved.
//!
//! ```text
//!     numbers   0 ............ 5 ......... 9 ............ 14        each number is shuffle(address)
//!     cohorts   block 7, pos 0 | block 2, pos 0 | block 7, pos 16
//!     left      0 0 1 0 0 ...                                       bit 2 set: unit 2 was overwritten, see the overlay
//! ```

use super::blocks::UnitLocation;
use crate::media::randomiser::Randomiser;
use crate::number::narrow;

/// Range of numbers that lie in one block, evenly spread over positions of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cohort {
    block: u32,
    position: u32,
    /// Number of positions that it was written to. Units that have left since then still occupy theirs.
    positions: u32,
}

/// Ranges of numbers with their locations, in the order of the numbers.
#[derive(Clone, Debug)]
pub(super) struct Cohorts {
    shuffle: Option<Randomiser>,
    /// First number of each cohort; a cohort ends where the next one begins.
    starts: Vec<u64>,
    cohorts: Vec<Cohort>,
    units: u64,
    /// Bit for each number, set if its unit has left.
    left: Vec<u64>,
}

/// Part of a cohort that is moved to another block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovedPart {
    /// Old location of its first unit.
    pub from: UnitLocation,
    /// Number of positions over which its units were spread.
    pub positions: u32,
    /// Number of its valid units.
    pub units: u32,
    /// Number at which it ends.
    pub until: u64,
}

impl Cohorts {
    /// Creates the cohorts of a drive on which nothing was written.
    pub(super) fn none() -> Cohorts {
        Cohorts { shuffle: None, starts: Vec::new(), cohorts: Vec::new(), units: 0, left: Vec::new() }
    }

    /// Creates cohorts from blocks `(block, units, positions)`: so many units spread over so many positions, in the
    /// order of addresses, or shuffled.
    pub(super) fn new(blocks: impl IntoIterator<Item = (u32, u32, u32)>, shuffle: Option<Randomiser>) -> Cohorts {
        let mut cohorts = Cohorts { shuffle, ..Cohorts::none() };
        for (block, units, positions) in blocks.into_iter().filter(|(_, units, _)| *units > 0) {
            cohorts.starts.push(cohorts.units);
            cohorts.cohorts.push(Cohort { block, position: 0, positions });
            cohorts.units += u64::from(units);
        }
        cohorts.left = vec![0; narrow::<usize, u64>(cohorts.units.div_ceil(64))];
        cohorts
    }

    /// Returns the number of a unit that has not left its cohort; `None` if it has, or was never there.
    #[inline]
    pub(super) fn number(&self, unit: u32) -> Option<u64> {
        if u64::from(unit) >= self.units {
            return None;
        }
        let number = self.shuffle.map_or(u64::from(unit), |shuffle| shuffle.forward(u64::from(unit)));
        (self.left[narrow::<usize, u64>(number / 64)] >> (number % 64) & 1 == 0).then_some(number)
    }

    /// Returns the unit with this number; `None` if it has left.
    pub(super) fn unit(&self, number: u64) -> Option<u32> {
        let is_left = self.left[narrow::<usize, u64>(number / 64)] >> (number % 64) & 1 == 1;
        let unit = self.shuffle.map_or(number, |shuffle| shuffle.backward(number));
        (!is_left).then(|| narrow::<u32, u64>(unit))
    }

    /// Returns the location of the unit with this number.
    #[inline]
    pub(super) fn location(&self, number: u64) -> UnitLocation {
        let index = self.starts.partition_point(|start| *start <= number) - 1;
        let (cohort, start) = (self.cohorts[index], self.starts[index]);
        let inside = (number - start) * u64::from(cohort.positions) / (self.end(index) - start);
        UnitLocation { block: cohort.block, position: cohort.position + narrow::<u32, u64>(inside) }
    }

    /// Removes the unit with this number from its cohort: it has a location of its own from now on, or none.
    #[inline]
    pub(super) fn leave(&mut self, number: u64) {
        let (word, bit) = (&mut self.left[narrow::<usize, u64>(number / 64)], 1 << (number % 64));
        assert!(*word & bit == 0, "unit number {number} leaves its cohort twice");
        *word |= bit;
    }

    /// Returns the first numbers of the cohorts in a block, in the order of their positions.
    pub(super) fn starts_in_block(&self, block: u32) -> Vec<u64> {
        let cohorts = self.cohorts.iter().zip(&self.starts).filter(|(cohort, _)| cohort.block == block);
        let mut found: Vec<(u32, u64)> = cohorts.map(|(cohort, start)| (cohort.position, *start)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, start)| start).collect()
    }

    /// Moves up to `most` units from the beginning of the cohort at `start` to `to`. Returns the part that was moved,
    /// and the start of the remaining cohort, if there is one.
    pub(super) fn move_part(&mut self, start: u64, most: u32, to: UnitLocation) -> (MovedPart, Option<u64>) {
        let index = self.starts.partition_point(|other| *other < start);
        debug_assert_eq!(self.starts[index], start);
        let (cohort, end) = (self.cohorts[index], self.end(index));
        let (until, units) = self.first_units(start, end, most);
        let positions = narrow::<u32, u64>(u64::from(cohort.positions) * (until - start) / (end - start));
        let from = UnitLocation { block: cohort.block, position: cohort.position };
        let moved = Cohort { block: to.block, position: to.position, positions: units };
        let rest = Cohort { position: cohort.position + positions, positions: cohort.positions - positions, ..cohort };
        self.replace(index, moved, (until < end).then_some((until, rest)));
        (MovedPart { from, positions, units, until }, (until < end).then_some(until))
    }

    /// Replaces a cohort by the moved part and the remaining one behind it. A part that continues the cohort before it
    /// joins that.
    fn replace(&mut self, index: usize, moved: Cohort, rest: Option<(u64, Cohort)>) {
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

    /// Returns the number at which the first `most` units from `start` on end, and how many units there are before it.
    fn first_units(&self, start: u64, end: u64, most: u32) -> (u64, u32) {
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

impl Cohort {
    fn is_followed_by(&self, next: &Cohort) -> bool {
        self.block == next.block && self.position + self.positions == next.position
    }
}
