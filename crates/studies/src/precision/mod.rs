//! Confidence intervals of a run's mean and p99 latency by batch means, with the warm-up removed.
//!
//! Consecutive requests are not independent: they wait in the same queues. Means of long enough batches of them are
//! (Schmeiser, "Batch Size Effects in the Analysis of Simulation Output", Operations Research 30, 1982, who finds 10 to
//! 30 batches enough). The correlation of consecutive batches tests whether they are long enough. The warm-up ends
//! where the remaining values have the least standard error (White, "An Effective Truncation Heuristic for Bias
//! Reduction in Simulation Output", Simulation 69, 1997). If it reaches into the second half, the run is too short.
//!
//! A percentile further out ([`PrecisionGoal`]) has an interval from order statistics, for as many independent requests as
//! the run is worth ([`phaselink_core::ledger::Latency::estimate`]).
//!
//! The interval is that of a stationary run with the constants as they are. [`crate::uncertainty`] gives the effect of
//! uncertain constants.

mod batches;
mod goal;
mod json;

pub use crate::results::documents::KnownFigure;
use crate::tails::{Tail, independent_requests_beyond, tail_of};
use batches::RunSlices;
pub use goal::PrecisionGoal;
pub use json::document;
use phaselink_core::engine::simulation::Simulation;
use phaselink_core::ledger::Latency;
use phaselink_core::problem::Problem;
use phaselink_core::workload::{Job, side_by_side};

/// Number of batches into which a run is divided for its confidence intervals.
pub const BATCHES: usize = 20;
/// Number of requests after which a run stops that no other limit ends: some minutes of computation.
pub const IOS_MAX: u64 = 50_000_000;
/// Smallest number of slices of a run before its precision is estimated.
const SLICES_MIN: usize = 64;
/// Number of slices between two estimates of the precision, each of which reads all slices.
const SLICES_BETWEEN: usize = 16;
/// Number of requests in each slice at first. Slices are merged in pairs whenever there are twice as many as needed.
const SLICE_IOS: u64 = 400;
/// Smallest number of independent requests beyond a percentile at which a run ends because the percentile is known. They
/// are counted as if requests were correlated as strongly as at lower percentiles ([`independent_requests_beyond`]).
const BEYOND_AT_END: f64 = 10.0;
/// Number of simulated events between two checks of how many requests are complete.
const EVENTS: u64 = 256;

/// Mean and p99 latency of a run with their confidence intervals, estimated from its requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrecisionEstimate {
    /// Mean latency of the run's requests, with its 95 % confidence interval.
    pub mean: KnownFigure,
    /// 99th percentile of the run's latency, with its 95 % confidence interval.
    pub p99: KnownFigure,
    /// Number of warm-up requests, which the estimate leaves out.
    pub warm_up_ios: u64,
    /// Number of requests in each batch, the consecutive parts of a run whose means are compared.
    pub batch_ios: u64,
}

/// Reason why a run is too short to estimate its precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooShort {
    /// Run has too few requests: each batch needs some that are slower than its p99.
    Requests,
    /// Warm-up reaches into the second half of the run, so that latencies still drift.
    WarmUp,
    /// Consecutive batches are correlated, so that each of them is too short.
    Correlated,
}

/// Measurement of a run that ends when its mean and p99 latency, or one of its tails, are known precisely enough.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Figures that have to be known, and the relative precision at which they count as known.
    goal: PrecisionGoal,
    /// Latest estimate of the percentile that the goal names; `None` without one, or before the first estimate.
    tail: Option<Tail>,
    /// True if the latest estimate of that percentile may end the run.
    can_end: bool,
    slices: RunSlices,
    seen: Latency,
    estimate: Result<PrecisionEstimate, TooShort>,
}

/// Returns the relative precision of a figure: half width of its confidence interval over its value.
fn relative_precision(figure: &KnownFigure) -> f64 {
    if figure.half_width_ns == 0.0 { 0.0 } else { figure.half_width_ns / figure.value_ns }
}

impl PrecisionEstimate {
    /// Returns the worse of the relative precisions of mean and p99: half width over value.
    pub fn share(&self) -> f64 {
        relative_precision(&self.mean).max(relative_precision(&self.p99))
    }

    /// True if both mean and p99 are known to the relative precision `share`.
    pub fn is_within(&self, share: f64) -> bool {
        self.share() <= share
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
    /// Returns a measurement until the goal is reached; a share, such as 0.01 for 1 %, is that of mean and p99.
    pub fn until_precision(goal: impl Into<PrecisionGoal>) -> Measurement {
        let estimate = Err(TooShort::Requests);
        let (goal, slices) = (goal.into(), RunSlices::of(SLICE_IOS));
        Measurement { goal, tail: None, can_end: goal.tail.is_none(), slices, seen: Latency::default(), estimate }
    }

    /// Simulates the requests of one more slice. Returns false once mean and p99 are known, or the jobs are done.
    pub fn advance(&mut self, simulation: &mut Simulation) -> bool {
        let goal = self.seen.count() + self.slices.ios_per_slice();
        let mut goes_on = true;
        while goes_on && simulation.counted_requests() < goal {
            goes_on = simulation.step(EVENTS);
        }
        let now = simulation.latency();
        self.slices.add(now.without(&self.seen));
        self.seen = now;
        let count = self.slices.count();
        if !goes_on || (count >= SLICES_MIN && count.is_multiple_of(SLICES_BETWEEN)) {
            self.estimate = self.slices.estimate();
            if let Some(figure) = self.goal.tail {
                let outcome = simulation.outcome();
                self.tail = tail_of(figure, &outcome);
                self.can_end = independent_requests_beyond(figure, &outcome) >= BEYOND_AT_END;
            }
        }
        if count >= 2 * SLICES_MIN {
            self.slices.pair();
        }
        goes_on && !(self.is_known() && self.can_end)
    }

    /// Returns the latest estimate of mean and p99, or the reason why there is none yet.
    pub fn estimate(&self) -> Result<PrecisionEstimate, TooShort> {
        self.estimate
    }

    /// Returns the latest estimate of the percentile that the goal names; `None` if it names none.
    pub fn tail(&self) -> Option<&Tail> {
        self.tail.as_ref()
    }

    /// True if the figures of the goal have reached the requested precision.
    pub fn is_known(&self) -> bool {
        match self.goal.tail {
            Some(_) => self.tail.and_then(|tail| tail.share()).is_some_and(|share| share <= self.goal.share),
            None => self.estimate.is_ok_and(|estimate| estimate.is_within(self.goal.share)),
        }
    }
}

/// Checks that a mean and p99 over all these jobs make sense, which needs jobs that run at the same time.
///
/// # Errors
/// If some jobs run one after another.
pub fn check(jobs: &[Job]) -> Result<(), Problem> {
    match side_by_side(jobs).count() {
        0 | 1 => Ok(()),
        _ => {
            let found = "a precision for jobs that run one after the other (stonewall)";
            Err(Problem::new("command line", None, found, "a run for each group of jobs"))
        }
    }
}

/// Simulates until the figures of the goal are known, or the jobs are done, or `stop` returns true.
pub fn measure(simulation: &mut Simulation, goal: impl Into<PrecisionGoal>, stop: impl Fn() -> bool) -> Measurement {
    let mut measurement = Measurement::until_precision(goal);
    while !stop() && measurement.advance(simulation) {}
    measurement
}

#[cfg(test)]
mod tests;
