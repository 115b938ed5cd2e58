//! Torture: random drives with random jobs and random faults, with real bytes; finds failures, and the smallest case
//! that fails.
//!
//! A seed stands for a [`Case`]. [`trial()`] runs it and checks what must hold for any run: every request completes or
//! fails for a reason, reads return allowed data, counts add up, and nothing panics. [`shrink()`] makes a failing case
//! smaller.

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
    /// The seed.
    pub seed: u64,
    /// Failure of the original case.
    pub finding: TrialFinding,
    /// Smallest case that fails in the same way.
    pub least: Case,
    /// Failure of the smallest case.
    pub found: TrialFinding,
    /// Packets of a request that takes part in the failure, as a ladder, if a request is known.
    pub ladder: Option<String>,
}

/// Tries the case of a seed.
///
/// # Errors
/// The failure, for [`explain`] to examine.
pub fn try_seed(seed: u64) -> Result<Reached, TrialFinding> {
    trial::trial(&Case::random(seed), &trial::plainly)
}

/// Shrinks the failing case of a seed as far as possible.
pub fn explain(seed: u64, finding: TrialFinding) -> Failure {
    let (least, found) = shrink::shrink(&Case::random(seed), &finding, &trial::plainly);
    let ladder = trial::ladder(&least, &trial::plainly);
    Failure { seed, finding, least, found, ladder }
}
