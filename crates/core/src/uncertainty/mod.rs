//! Intervals of figures that follow from uncertain constants, and the constants that contribute most.
//!
//! Every constant in doubt has a range. A number of draws are taken from all ranges at once by Latin hypercube (McKay,
//! Beckman and Conover, *A Comparison of Three Methods for Selecting Values of Input Variables in the Analysis of Output
//! from a Computer Code*, Technometrics 21, 1979): each range is cut into as many parts of equal weight as there are
//! draws, and each part is used once. A constant is as likely below its value as above it, evenly on either side, so that
//! the interval lies around the figure that the value gives. Choices, which are no numbers, keep their value.
//!
//! The caller runs the model for each draw; the same seed gives the same draws on any machine.

mod doubted;
mod interval;

use crate::config::UncertainConstant;
use crate::drive::Drive;
use crate::drive_file::{Override, evidence};
use crate::random::Random;

pub use crate::results::documents::{Contribution, Interval};
pub use doubted::{Doubted, DoubtedFigure, Named, of_run};

/// Draws unless more or fewer are asked for: two lie beyond each end of a 90 % interval.
pub const DRAWS_DEFAULT: usize = 40;
/// Fewest draws that an interval can be told from.
pub const DRAWS_MIN: usize = 20;
/// Seed of the draws, whatever that of the run is.
pub const SEED: u64 = 1;

/// Value of each constant in each draw.
#[derive(Clone, Debug)]
pub struct Draws {
    /// Keys of the constants.
    keys: Vec<String>,
    /// For each constant its level in each draw, above 0 and below 1: the share of its weight that lies below.
    levels: Vec<Vec<f64>>,
    count: usize,
    /// Model's own error for these drives, as shares of the prediction.
    model_error: Option<(f64, f64)>,
}

impl Draws {
    /// `count` draws for all constants in doubt that any of the drives has.
    pub fn of<'a>(drives: impl IntoIterator<Item = &'a Drive>, count: usize, seed: u64) -> Draws {
        let drives: Vec<&Drive> = drives.into_iter().collect();
        let is_measured = evidence::of_drives(drives.iter().copied()).iter().any(|row| row.rows > 0);
        let mut keys: Vec<String> = drives.into_iter().flat_map(keys_of).collect();
        keys.sort();
        keys.dedup();
        let levels = keys.iter().map(|key| levels(key, count, seed)).collect();
        Draws { keys, levels, count, model_error: evidence::left_out().filter(|_| is_measured) }
    }

    /// Returns the number of draws.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The overrides that give a drive the constants of one draw.
    pub fn overrides(&self, drive: &Drive, draw: usize) -> Vec<Override> {
        let doubts = drive.doubts();
        let ranges = doubts.iter().map(|(_, doubt)| *doubt).filter(|doubt| doubt.is_range());
        let values = ranges.filter_map(|doubt| Some((doubt, self.value(drive, doubt, draw)?)));
        drive.overrides_for(&values.collect::<Vec<_>>())
    }

    /// The value of a constant in one draw.
    fn value(&self, drive: &Drive, doubt: &UncertainConstant, draw: usize) -> Option<f64> {
        let place = self.keys.binary_search(&doubt.key).ok()?;
        let value = drive.value_of(&doubt.key)?.as_f64()?;
        let (low, high) = doubt.range(value);
        Some(at_level(self.levels[place][draw], low, value, high))
    }

    /// What the draws make of a figure: `central` with the constants as they are, `drawn` for each draw in order, unknown
    /// ones left out. None if fewer than two are known.
    pub fn interval(&self, central: f64, drawn: &[Option<f64>]) -> Option<Interval> {
        let known: Vec<(usize, f64)> =
            drawn.iter().enumerate().filter_map(|(draw, value)| Some((draw, (*value)?))).collect();
        let values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
        let inputs = self.keys.iter().zip(&self.levels).map(|(key, levels)| {
            let levels = known.iter().map(|(draw, _)| levels[*draw]).collect();
            (key.as_str(), levels)
        });
        Interval::of(central, &values, inputs)
    }
}

fn keys_of(drive: &Drive) -> Vec<String> {
    let ranges = drive.doubts().into_iter().filter(|(_, doubt)| doubt.is_range());
    ranges.map(|(_, doubt)| doubt.key.clone()).collect()
}

/// One level from each of `count` equal parts, in random order. A constant's levels do not depend on the others'.
fn levels(key: &str, count: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::stream(seed, key);
    let mut levels: Vec<f64> = (0..count).map(|part| (part as f64 + random.unit()) / count as f64).collect();
    for place in (1..count).rev() {
        levels.swap(place, (random.unit() * (place + 1) as f64) as usize);
    }
    levels
}

/// Half of the weight evenly between `low` and `value`, half between `value` and `high`.
fn at_level(level: f64, low: f64, value: f64, high: f64) -> f64 {
    match level < 0.5 {
        true => low + 2.0 * level * (value - low),
        false => value + (2.0 * level - 1.0) * (high - value),
    }
}

#[cfg(test)]
mod tests;
