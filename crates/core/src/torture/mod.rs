//! Torture: random drives with random jobs and random faults, run with real data to find failures.
//!
//! A seed determines a [`Case`]. [`trial`](trial::trial) runs it and checks the properties that every run must have:
//! each request completes or fails for a reason, reads return allowed data, counts add up, and nothing panics.
//! [`shrink`](shrink::shrink) reduces a failing case to the smallest one that fails.

pub mod case;
pub mod coverage;
pub mod draw;
pub mod shrink;
pub mod trial;

#[cfg(test)]
mod tests;

use case::Case;
use trial::{InvolvedRequest, TrialCoverage, TrialFailure};

/// Failing seed of a torture run, with the smallest case that fails in the same way.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Seed whose test case has failed.
    pub seed: u64,
    /// Failure of the test case that was drawn from the seed.
    pub finding: TrialFailure,
    /// Smallest case found that has the same kind of failure.
    pub least: Case,
    /// Failure of the smallest case that was found.
    pub found: TrialFailure,
    /// Request involved in the failure of the smallest case. `None` if no request is known.
    pub involved: Option<InvolvedRequest>,
}

/// Runs the test case of a seed and checks it. Returns the packets and faults that it covered.
///
/// # Errors
/// The failure that was found, as input for [`explain`].
pub fn run_seed(seed: u64) -> Result<TrialCoverage, TrialFailure> {
    trial::trial(&Case::random(seed), &trial::advance_normally)
}

/// Shrinks the failing case of a seed as far as possible, and adds the packets of a request that is involved.
pub fn explain(seed: u64, finding: TrialFailure) -> Failure {
    let (least, found) = shrink::shrink(&Case::random(seed), &finding, &trial::advance_normally);
    let involved = trial::involved_request(&least, &trial::advance_normally);
    Failure { seed, finding, least, found, involved }
}
