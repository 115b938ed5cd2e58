//! Prediction intervals of figures that follow from uncertain constants, and the constants that contribute most.
//!
//! Every uncertain constant has a range. A number of draws are taken from all ranges at once by Latin hypercube
//! sampling (McKay, Beckman and Conover, *A Comparison of Three Methods for Selecting Values of Input Variables in the
//! Analysis of Output from a Computer Code*, Technometrics 21, 1979). Each range is divided into as many parts of equal
//! probability as there are draws, and each part is used once. A constant is as likely below its value as above it,
//! evenly on either side, so that the interval lies around the figure that the value gives. Choices, which are no
//! numbers, keep their value.
//!
//! The caller runs the model for each draw. Equal seeds give equal draws on any machine.

mod figure_intervals;
mod interval;

use crate::evidence;
use interval::compute_prediction_interval;
use phaselink_core::config::UncertainConstant;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::KeyOverride;
use phaselink_core::number::{real_length, whole, wide_index};
use phaselink_core::random::Random;

pub use crate::results::documents::{Contribution, Interval};
pub use figure_intervals::{FigureWithInterval, NamedFigures, RunFigureIntervals, of_run};

/// Default number of random draws of uncertain constants: two of them lie beyond each end of a 90 % interval.
pub const DRAWS_DEFAULT: usize = 40;
/// Smallest number of random draws from which a prediction interval is computed.
pub const DRAWS_MIN: usize = 20;
/// Seed of the draws of uncertain constants, whatever the seed of the run is.
pub const SEED: u64 = 1;

/// Random values of all uncertain constants in each draw.
#[derive(Clone, Debug)]
pub struct ConstantDraws {
    /// Names (keys of drive files) of the uncertain constants, sorted.
    keys: Vec<String>,
    /// Quantile (0 to 1, exclusive) of each constant in each draw, within the constant's range.
    levels: Vec<Vec<f64>>,
    count: usize,
    /// Model's own error for these drives, as factors of the prediction at both ends. `None` if the drives were never
    /// measured.
    model_error: Option<(f64, f64)>,
}

impl ConstantDraws {
    /// Draws `count` values for each uncertain constant that any of the drives has.
    pub fn of<'a>(drives: impl IntoIterator<Item = &'a Drive>, count: usize, seed: u64) -> ConstantDraws {
        let drives: Vec<&Drive> = drives.into_iter().collect();
        let is_measured = evidence::of_drives(drives.iter().copied()).iter().any(|row| row.rows > 0);
        let mut keys: Vec<String> = drives.into_iter().flat_map(uncertain_keys_of).collect();
        keys.sort();
        keys.dedup();
        let levels = keys.iter().map(|key| levels(key, count, seed)).collect();
        ConstantDraws { keys, levels, count, model_error: evidence::left_out().filter(|_| is_measured) }
    }

    /// Returns the number of random draws of each uncertain constant.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the overrides that set a drive's uncertain constants to the values of draw number `draw`.
    pub fn overrides(&self, drive: &Drive, draw: usize) -> Vec<KeyOverride> {
        let doubts = drive.relevant_uncertain_constants();
        let ranges = doubts.iter().map(|(_, doubt)| *doubt).filter(|doubt| doubt.is_range());
        let values = ranges.filter_map(|doubt| Some((doubt, self.value(drive, doubt, draw)?)));
        drive.overrides_for(&values.collect::<Vec<_>>())
    }

    /// Returns the value of an uncertain constant of a drive in draw number `draw`. `None` if the constant was not
    /// drawn.
    fn value(&self, drive: &Drive, doubt: &UncertainConstant, draw: usize) -> Option<f64> {
        let place = self.keys.binary_search(&doubt.key).ok()?;
        let value = drive.value_of(&doubt.key)?.as_f64()?;
        let (low, high) = doubt.range(value);
        Some(value_at_quantile(self.levels[place][draw], low, value, high))
    }

    /// Returns the prediction interval of a figure. `central` is its value with the nominal constants, and `drawn` its
    /// value in each draw, in order. Draws without a value are left out; `None` if fewer than two have one.
    pub fn interval(&self, central: f64, drawn: &[Option<f64>]) -> Option<Interval> {
        let known: Vec<(usize, f64)> =
            drawn.iter().enumerate().filter_map(|(draw, value)| Some((draw, (*value)?))).collect();
        let values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
        let inputs = self.keys.iter().zip(&self.levels).map(|(key, levels)| {
            let levels = known.iter().map(|(draw, _)| levels[*draw]).collect();
            (key.as_str(), levels)
        });
        compute_prediction_interval(central, &values, inputs)
    }
}

fn uncertain_keys_of(drive: &Drive) -> Vec<String> {
    let ranges = drive.relevant_uncertain_constants().into_iter().filter(|(_, doubt)| doubt.is_range());
    ranges.map(|(_, doubt)| doubt.key.clone()).collect()
}

/// Returns one random quantile from each of `count` equal parts of 0 to 1, in random order. It depends only on key and
/// seed, not on other constants.
fn levels(key: &str, count: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::stream(seed, key);
    let mut levels: Vec<f64> =
        (0..count).map(|part| (real_length(part) + random.unit()) / real_length(count)).collect();
    for place in (1..count).rev() {
        levels.swap(place, wide_index(whole(random.unit() * real_length(place + 1))));
    }
    levels
}

/// Returns the value at quantile `level`, if half of the probability is uniform from `low` to `value`, and half from
/// `value` to `high`.
fn value_at_quantile(level: f64, low: f64, value: f64, high: f64) -> f64 {
    match level < 0.5 {
        true => low + 2.0 * level * (value - low),
        false => value + (2.0 * level - 1.0) * (high - value),
    }
}

#[cfg(test)]
mod tests;
