//! Slices of a run, and batches of consecutive slices, from which confidence intervals are computed.

use super::{BATCHES, KnownFigure, PrecisionEstimate, TooShort};
use phaselink_core::ledger::Latency;
use phaselink_core::number::real_length;

/// Quantile of Student's t distribution for 97.5 % (a two-sided interval of 95 %), with one degree of freedom less than
/// there are batches.
const STUDENT_T: f64 = 2.093;
/// Smallest number of requests slower than its p99 that a batch must have.
const BEYOND_MIN: u64 = 10;
/// Largest relative error by which the histogram of [`Latency`] overestimates a percentile.
const CLASS_SHARE: f64 = 1e-3;
/// Largest correlation of consecutive batches that still counts as independent. Two standard errors of the correlation
/// of as many independent batches (Bartlett 1946) are 0.45; a lower limit finds more batches that are too short.
const CORRELATION_MAX: f64 = 0.3;

/// Consecutive parts of a run with equal numbers of requests, each with its latencies.
#[derive(Clone, Debug)]
pub(super) struct RunSlices {
    ios_per_slice: u64,
    slices: Vec<Latency>,
}

impl RunSlices {
    /// Returns an empty list of slices that will have `ios_per_slice` requests each.
    pub(super) fn of(ios_per_slice: u64) -> RunSlices {
        RunSlices { ios_per_slice, slices: Vec::new() }
    }

    /// Number of requests in each slice.
    pub(super) fn ios_per_slice(&self) -> u64 {
        self.ios_per_slice
    }

    pub(super) fn count(&self) -> usize {
        self.slices.len()
    }

    /// Adds the latencies of the next slice of the run. An empty slice, at the end of a run, is ignored.
    pub(super) fn add(&mut self, slice: Latency) {
        if slice.count() > 0 {
            self.slices.push(slice);
        }
    }

    /// Merges slices in pairs, so that half as many remain, with twice as many requests each.
    pub(super) fn pair(&mut self) {
        self.ios_per_slice *= 2;
        self.slices = self.slices.chunks(2).map(merge_slice_latencies).collect();
    }

    /// Estimates mean and p99 latency from the slices after the warm-up, with their confidence intervals. Fails if the
    /// run is too short.
    pub(super) fn estimate(&self) -> Result<PrecisionEstimate, TooShort> {
        let means: Vec<f64> = self.slices.iter().map(Latency::mean_ns).collect();
        if means.len() < 2 * BATCHES {
            return Err(TooShort::Requests);
        }
        let warm_up = warm_up(&means).ok_or(TooShort::WarmUp)?;
        let length = (self.slices.len() - warm_up) / BATCHES;
        // Leave out the oldest slices that do not fill a batch, because the warm-up has affected them most.
        let first = self.slices.len() - length * BATCHES;
        let batches: Vec<Latency> = self.slices[first..].chunks(length).map(merge_slice_latencies).collect();
        if batches.iter().any(|batch| batch.samples_beyond(99.0) < BEYOND_MIN) {
            return Err(TooShort::Requests);
        }
        let all = merge_slice_latencies(&batches);
        let means: Vec<f64> = batches.iter().map(Latency::mean_ns).collect();
        let tails: Vec<f64> = batches.iter().map(|batch| batch.percentile(99.0).as_ns()).collect();
        if correlation(&means) > CORRELATION_MAX {
            return Err(TooShort::Correlated);
        }
        let p99_ns = all.percentile(99.0).as_ns();
        Ok(PrecisionEstimate {
            mean: KnownFigure { value_ns: all.mean_ns(), half_width_ns: half_width(&means) },
            p99: KnownFigure { value_ns: p99_ns, half_width_ns: half_width(&tails) + CLASS_SHARE * p99_ns },
            warm_up_ios: self.slices[..warm_up].iter().map(Latency::count).sum(),
            batch_ios: batches[0].count(),
        })
    }
}

fn merge_slice_latencies(slices: &[Latency]) -> Latency {
    let mut whole = Latency::default();
    slices.iter().for_each(|slice| whole.merge(slice));
    whole
}

/// Returns half the width of the 95 % confidence interval of the mean of independent values, one for each batch.
pub(super) fn half_width(values: &[f64]) -> f64 {
    STUDENT_T * libm::sqrt(squared_deviation_sum(values) / real_length(values.len() - 1) / real_length(values.len()))
}

/// Returns the sum of squared deviations of the values from their mean.
fn squared_deviation_sum(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / real_length(values.len());
    values.iter().map(|value| (value - mean) * (value - mean)).sum()
}

/// Returns the correlation of each value with the next (lag 1), or 0 if the values do not vary.
pub(super) fn correlation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / real_length(values.len());
    let together: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let apart = squared_deviation_sum(values);
    // If the values differ only by rounding errors, they do not vary.
    if apart <= mean * mean * 1e-18 { 0.0 } else { together / apart }
}

/// Returns the number of leading values to discard as warm-up, so that the mean of the rest has the least standard
/// error (MSER). `None` if that is half of them.
pub(super) fn warm_up(values: &[f64]) -> Option<usize> {
    let error = |cut: usize| {
        let rest = &values[cut..];
        squared_deviation_sum(rest) / real_length(rest.len() * rest.len())
    };
    let half = values.len() / 2;
    let best = (0..=half).min_by(|left, right| error(*left).total_cmp(&error(*right)))?;
    (best < half).then_some(best)
}
