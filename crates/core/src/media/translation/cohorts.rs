//! What was on the drive before the run, without a table of it.
//!
//! Units of the preconditioned drive have numbers: a seeded shuffle of their addresses, or the addresses themselves where
//! the drive was written from one end to the other. Neighbours by number lie in one block, so that a few *cohorts*, ranges
//! of numbers with the place of their first unit, say where all of them are. A unit that is written or given back leaves
//! its cohort, for which one bit is kept. Cleaning moves what is left of a cohort as ranges, counted sixty-four bits at a
//! time: its cost does not grow with the units that it moves.

use super::Place;
use crate::media::randomiser::Randomiser;

/// A range of numbers that lie in one block, evenly spread over positions of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cohort {
    block: u32,
    position: u32,
    /// Positions that it was written to; what has left since then still takes its own.
    positions: u32,
}

/// Ranges of numbers and where they are, in the order of the numbers.
#[derive(Clone, Debug)]
pub(super) struct Cohorts {
    shuffle: Option<Randomiser>,
    /// The first number of each cohort; it ends where the next begins.
    starts: Vec<u64>,
    cohorts: Vec<Cohort>,
    units: u64,
    /// Which numbers have left, a bit each; made when the first does.
    left: Vec<u64>,
}

/// A part of a cohort that is moved away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where its first unit lies, and the positions over which it is spread.
    pub from: Place,
    pub positions: u32,
    /// Units in it.
    pub units: u32,
}

impl Cohorts {
    /// Nothing is on the drive.
    pub(super) fn none() -> Cohorts {
        Cohorts { shuffle: None, starts: Vec::new(), cohorts: Vec::new(), units: 0, left: Vec::new() }
    }

    /// Blocks with so many units each, spread over so many positions; of units in the order of their addresses, or shuffled.
    pub(super) fn new(blocks: impl IntoIterator<Item = (u32, u32, u32)>, shuffle: Option<Randomiser>) -> Cohorts {
        let mut cohorts = Cohorts { shuffle, ..Cohorts::none() };
        for (block, units, positions) in blocks.into_iter().filter(|(_, units, _)| *units > 0) {
            cohorts.starts.push(cohorts.units);
            cohorts.cohorts.push(Cohort { block, position: 0, positions });
            cohorts.units += u64::from(units);
        }
        cohorts.left = vec![0; cohorts.units.div_ceil(64) as usize];
        cohorts
    }

    /// The number of a unit that has not left; none if it has, or was never there.
    #[inline]
    pub(super) fn number(&self, unit: u32) -> Option<u64> {
        if u64::from(unit) >= self.units {
            return None;
        }
        let number = self.shuffle.map_or(u64::from(unit), |shuffle| shuffle.forward(u64::from(unit)));
        (self.left[(number / 64) as usize] >> (number % 64) & 1 == 0).then_some(number)
    }

    /// Where the unit of this number is.
    #[inline]
    pub(super) fn place(&self, number: u64) -> Place {
        let index = self.starts.partition_point(|start| *start <= number) - 1;
        let (cohort, start) = (self.cohorts[index], self.starts[index]);
        let inside = (number - start) * u64::from(cohort.positions) / (self.end(index) - start);
        Place { block: cohort.block, position: cohort.position + inside as u32 }
    }

    /// The unit of this number leaves: it has a place of its own from now on, or none.
    #[inline]
    pub(super) fn leave(&mut self, number: u64) {
        self.left[(number / 64) as usize] |= 1 << (number % 64);
    }

    /// First numbers of the cohorts in a block, in the order of their positions.
    pub(super) fn of_block(&self, block: u32) -> Vec<u64> {
        let cohorts = self.cohorts.iter().zip(&self.starts).filter(|(cohort, _)| cohort.block == block);
        let mut found: Vec<(u32, u64)> = cohorts.map(|(cohort, start)| (cohort.position, *start)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, start)| start).collect()
    }

    /// Move up to `most` units from the beginning of the cohort at `start` to `to`: the part that goes, and the start of
    /// what is left of the cohort, if anything is.
    pub(super) fn move_part(&mut self, start: u64, most: u32, to: Place) -> (Part, Option<u64>) {
        let index = self.starts.partition_point(|other| *other < start);
        debug_assert_eq!(self.starts[index], start);
        let (cohort, end) = (self.cohorts[index], self.end(index));
        let (until, units) = self.first_units(start, end, most);
        let positions = (u64::from(cohort.positions) * (until - start) / (end - start)) as u32;
        let from = Place { block: cohort.block, position: cohort.position };
        let moved = Cohort { block: to.block, position: to.position, positions: units };
        let rest = Cohort { position: cohort.position + positions, positions: cohort.positions - positions, ..cohort };
        self.replace(index, moved, (until < end).then_some((until, rest)));
        (Part { from, positions, units }, (until < end).then_some(until))
    }

    /// A cohort becomes a moved part and, behind it, a rest. A part that goes on where the one before it ends joins it.
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

    /// Where the first `most` units from `start` on end, and how many there are before `end`.
    fn first_units(&self, start: u64, end: u64, most: u32) -> (u64, u32) {
        let (mut at, mut found) = (start, 0);
        while at < end && found < most {
            let (word, bit) = ((at / 64) as usize, at % 64);
            let bits = (64 - bit).min(end - at);
            let here = !self.left[word] >> bit & (u64::MAX >> (64 - bits));
            if found + here.count_ones() <= most {
                (at, found) = (at + bits, found + here.count_ones());
                continue;
            }
            let one = !self.left[word] >> bit & 1;
            (at, found) = (at + 1, found + one as u32);
        }
        (at, found)
    }
}

impl Cohort {
    fn is_followed_by(&self, next: &Cohort) -> bool {
        self.block == next.block && self.position + self.positions == next.position
    }
}
