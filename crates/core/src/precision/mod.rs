//! Confidence intervals of a run's mean and p99 by batch means, and a warm-up that is left out.
//!
//! Requests that follow each other are not independent: they wait in the same queues. Means of long enough batches of
//! them are (Schmeiser, "Batch Size Effects in the Analysis of Simulation Output", Operations Research 30, 1982, who finds
//! 10 to 30 batches enough). Whether batches are long enough is tested by the correlation of neighbours. The warm-up is cut
//! where what is left has the least standard error (White, "An Effective Truncation Heuristic for Bias Reduction in
//! Simulation Output", Simulation 69, 1997); one that reaches into the second half is no warm-up but a run that is too
//! short.
//!
//! The interval is that of a stationary run with the constants as they are; what doubt about constants does is told by
//! [`crate::uncertainty`].

mod batches;
mod json;

use crate::engine::simulation::Simulation;
use crate::ledger::Latency;
use crate::problem::Problem;
pub use crate::results::documents::KnownFigure;
use crate::workload::{Job, side_by_side};
use batches::Slices;
pub use json::document;

/// Batches whose means are compared.
pub const BATCHES: usize = 20;
/// Requests after which a run that nothing else ends gives up: some minutes.
pub const IOS_MAX: u64 = 50_000_000;
/// Slices into which a run is cut at least before anything is said.
const SLICES_MIN: usize = 64;
/// Slices between two looks at the interval, which reads every one of them.
const SLICES_BETWEEN: usize = 16;
/// Requests of the first slices; each time there are twice as many slices as there must be, they are put together in pairs.
const SLICE_IOS: u64 = 400;
/// Events between two looks at how many requests are done.
const EVENTS: u64 = 256;

/// Mean and p99 of a run, as far as its requests tell them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrecisionEstimate {
    /// Mean latency.
    pub mean: KnownFigure,
    /// 99th percentile of latency.
    pub p99: KnownFigure,
    /// Requests before the run was stationary, which are not counted.
    pub warm_up_ios: u64,
    /// Requests of each batch.
    pub batch_ios: u64,
}

/// Reason why nothing is known of a run's precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooShort {
    /// There are not enough requests for batches whose p99 has requests beyond it.
    Requests,
    /// The second half differs from the first: the run is still warming up.
    WarmUp,
    /// Batches are correlated: each one is too short.
    Correlated,
}

/// A run that is watched until its mean and p99 are known.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Half width over value at which a figure counts as known.
    share: f64,
    slices: Slices,
    seen: Latency,
    estimate: Result<PrecisionEstimate, TooShort>,
}

impl KnownFigure {
    /// Returns half width over value; zero if the half width is.
    pub fn share(&self) -> f64 {
        if self.half_width_ns == 0.0 { 0.0 } else { self.half_width_ns / self.value_ns }
    }
}

impl PrecisionEstimate {
    /// Returns half width over value of the figure that is known less well.
    pub fn share(&self) -> f64 {
        self.mean.share().max(self.p99.share())
    }

    /// Returns true if both figures are known to `share`.
    pub fn is_within(&self, share: f64) -> bool {
        self.mean.share() <= share && self.p99.share() <= share
    }
}

impl std::fmt::Display for TooShort {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str(match self {
            TooShort::Requests => "the run has too few requests",
            TooShort::WarmUp => "the run ends while latencies still drift",
            TooShort::Correlated => "the run is too short for batches that do not depend on each other",
        })
    }
}

impl Measurement {
    /// Until mean and p99 are known to `share`, as 0.01 for one per cent.
    pub fn to(share: f64) -> Measurement {
        let estimate = Err(TooShort::Requests);
        Measurement { share, slices: Slices::of(SLICE_IOS), seen: Latency::default(), estimate }
    }

    /// Run on for a slice; false once both figures are known, or the jobs are done.
    pub fn advance(&mut self, simulation: &mut Simulation) -> bool {
        let goal = self.seen.count() + self.slices.ios();
        let mut goes_on = true;
        while goes_on && simulation.counted() < goal {
            goes_on = simulation.step(EVENTS);
        }
        let now = simulation.latency();
        self.slices.add(now.without(&self.seen));
        self.seen = now;
        let count = self.slices.count();
        if !goes_on || (count >= SLICES_MIN && count.is_multiple_of(SLICES_BETWEEN)) {
            self.estimate = self.slices.estimate();
        }
        if count >= 2 * SLICES_MIN {
            self.slices.pair();
        }
        goes_on && !self.is_known()
    }

    /// Returns the estimate from the batches so far.
    pub fn estimate(&self) -> Result<PrecisionEstimate, TooShort> {
        self.estimate
    }

    /// True if mean and p99 have reached the precision that is asked for.
    pub fn is_known(&self) -> bool {
        self.estimate.is_ok_and(|estimate| estimate.is_within(self.share))
    }
}

/// Whether mean and p99 of these jobs together say anything: not of such that run one after the other.
///
/// # Errors
/// If some do.
pub fn check(jobs: &[Job]) -> Result<(), Problem> {
    match side_by_side(jobs).count() {
        0 | 1 => Ok(()),
        _ => {
            let found = "a precision for jobs that run one after the other (stonewall)";
            Err(Problem::new("command line", None, found, "a run for each group of jobs"))
        }
    }
}

/// Run on until mean and p99 are known to `share`, or the jobs are done, or `stop` says so.
pub fn measure(simulation: &mut Simulation, share: f64, stop: impl Fn() -> bool) -> Measurement {
    let mut measurement = Measurement::to(share);
    while !stop() && measurement.advance(simulation) {}
    measurement
}

#[cfg(test)]
mod tests;
