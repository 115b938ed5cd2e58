//! Prediction intervals of figures from random draws of uncertain constants, and the constants that contribute most.

use crate::results::documents::{Contribution, Interval};
use phaselink_core::number::{real_length, whole, wide_index};

/// Fraction of the random draws beyond each end of a prediction interval.
const BEYOND: f64 = 0.05;
/// Largest number of uncertain constants that are named as contributing to an interval.
const CONTRIBUTIONS: usize = 3;
/// Number of standard errors that a correlation must exceed not to be random. With thirty constants, one of twelve
/// figures has such a correlation by chance.
const CHANCE_ERRORS: f64 = 3.0;

/// Returns the prediction interval of a figure. `central` is its value with the nominal constants, `drawn` its
/// value in each draw, and `inputs` the level of each constant in each draw. The interval covers the middle 90 % of
/// the draws and always includes `central`. `None` if there are fewer than two draws.
pub(super) fn compute_prediction_interval<'a>(
    central: f64,
    drawn: &[f64],
    inputs: impl Iterator<Item = (&'a str, Vec<f64>)>,
) -> Option<Interval> {
    if drawn.len() < 2 {
        return None;
    }
    let mut sorted = drawn.to_vec();
    sorted.sort_by(f64::total_cmp);
    let beyond = wide_index(whole(BEYOND * real_length(sorted.len())));
    let (low, high) = (sorted[beyond], sorted[sorted.len() - 1 - beyond]);
    Some(Interval {
        low: low.min(central),
        high: high.max(central),
        draws: drawn.len(),
        contributions: contributions(drawn, inputs),
        model_error: None,
    })
}

/// Widens the interval of a time or a rate by the model's own error, which is independent of the constants.
/// Logarithms of both distances from `central` add up as squares.
pub(super) fn widen_by_model_error(interval: Interval, central: f64, model_error: Option<(f64, f64)>) -> Interval {
    let Some((low, high)) = model_error.filter(|_| central > 0.0 && interval.low > 0.0) else { return interval };
    let distance = |end: f64, share: f64| libm::hypot(libm::log(end / central), libm::log(share));
    Interval {
        low: central * libm::exp(-distance(interval.low, low)),
        high: central * libm::exp(distance(interval.high, high)),
        model_error,
        ..interval
    }
}

/// Returns the constants that contribute most to a figure, the strongest first. Each step takes the constant whose
/// ranks correlate best with what the earlier ones leave unexplained (partial rank correlation). It stops when that may
/// be chance: a few dozen draws of a few dozen constants correlate by chance. A constant that correlates only because
/// it correlates with a strong one is not named.
fn contributions<'a>(drawn: &[f64], inputs: impl Iterator<Item = (&'a str, Vec<f64>)>) -> Vec<Contribution> {
    let chance = CHANCE_ERRORS / libm::sqrt(real_length(drawn.len()) - 1.0);
    let figure = ranks(drawn);
    let mut rest = figure.clone();
    let mut inputs: Vec<(&str, Vec<f64>)> = inputs.map(|(key, levels)| (key, ranks(&levels))).collect();
    let mut named = Vec::new();
    while named.len() < CONTRIBUTIONS {
        let strength = |rest: &[f64], input: &(&str, Vec<f64>)| correlation(&input.1, rest).abs();
        let strongest = (0..inputs.len())
            .max_by(|a, b| strength(&rest, &inputs[*a]).total_cmp(&strength(&rest, &inputs[*b])))
            .filter(|place| strength(&rest, &inputs[*place]) > chance);
        let Some(place) = strongest else { break };
        let (key, left) = inputs.swap_remove(place);
        named.push(Contribution { key: String::from(key), correlation: correlation(&left, &figure) });
        subtract_regression(&mut rest, &left);
        inputs.iter_mut().for_each(|input| subtract_regression(&mut input.1, &left));
    }
    named
}

/// Replaces `values` by the part that `other` does not explain: the residual of their linear regression.
fn subtract_regression(values: &mut [f64], other: &[f64]) {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / real_length(values.len());
    let (mean_value, mean_other) = (mean(values), mean(other));
    let together: f64 = values.iter().zip(other).map(|(a, b)| (a - mean_value) * (b - mean_other)).sum();
    let apart: f64 = other.iter().map(|b| (b - mean_other) * (b - mean_other)).sum();
    let slope = if apart > 0.0 { together / apart } else { 0.0 };
    values.iter_mut().zip(other).for_each(|(a, b)| *a -= mean_value + slope * (b - mean_other));
}

/// Returns the rank of each value from 0; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut rank = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let mean = real_length(rank) + real_length(equal.len() - 1) / 2.0;
        equal.iter().for_each(|place| ranks[*place] = mean);
        rank += equal.len();
    }
    ranks
}

/// Returns Pearson's correlation of two series of equal length, or 0 if one of them does not vary.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / real_length(values.len());
    let (mean_a, mean_b) = (mean(a), mean(b));
    let pairs = || a.iter().zip(b).map(|(a, b)| (a - mean_a, b - mean_b));
    let together: f64 = pairs().map(|(a, b)| a * b).sum();
    let apart = pairs().map(|(a, _)| a * a).sum::<f64>() * pairs().map(|(_, b)| b * b).sum::<f64>();
    if apart == 0.0 { 0.0 } else { together / libm::sqrt(apart) }
}
