//! Random drives under random jobs and random faults, with real bytes: what breaks, and the smallest case in which it does.
//!
//! A seed is a [`Case`]; [`trial()`] runs it and asks what must hold for any run: every request is answered or has failed for
//! a reason, reads return what they may, counts add up, and nothing panics. [`shrink()`] makes a failing case smaller.

pub mod case;
pub mod coverage;
pub mod draw;
pub mod shrink;
pub mod trial;

#[cfg(test)]
mod tests;

use case::Case;
use trial::{Reached, TrialFinding};

/// A seed whose case has failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    /// What was found first.
    pub finding: TrialFinding,
    /// The smallest case that fails in the same way, how it does, and the packets of a request that takes part.
    pub least: Case,
    pub found: TrialFinding,
    pub ladder: Option<String>,
}

/// Try the case of a seed.
///
/// # Errors
/// What is wrong, for [`explain`] to look at.
pub fn try_seed(seed: u64) -> Result<Reached, TrialFinding> {
    trial::trial(&Case::random(seed), &trial::plainly)
}

/// Make the case of a seed that has failed as small as it gets.
pub fn explain(seed: u64, finding: TrialFinding) -> Failure {
    let (least, found) = shrink::shrink(&Case::random(seed), &finding, &trial::plainly);
    let ladder = trial::ladder(&least, &trial::plainly);
    Failure { seed, finding, least, found, ladder }
}
