//! Shrinking of a failing test case to a smaller one with the same kind of failure.

use super::case::Case;
use super::trial::{SimulationRunner, TrialFailure, TrialFailureKind, trial};

/// Largest number of trials that shrinking one test case may take.
const TRIALS_MAX: u32 = 400;
/// Largest number of trials for a test case whose requests never complete, since each such trial takes long.
const LONG_TRIALS_MAX: u32 = 60;

/// Returns the smallest case found that has the same kind of failure as this one, and its failure.
pub fn shrink(case: &Case, finding: &TrialFailure, run: SimulationRunner) -> (Case, TrialFailure) {
    let (mut least, mut how) = (case.clone(), finding.clone());
    let trials_max = if finding.kind == TrialFailureKind::NeverAnswered { LONG_TRIALS_MAX } else { TRIALS_MAX };
    let mut trials = 0;
    'smaller: loop {
        for candidate in smaller(&least) {
            trials += 1;
            if trials > trials_max {
                break 'smaller;
            }
            if let Err(found) = trial(&candidate, run)
                && found.kind == how.kind
            {
                (least, how) = (candidate, found);
                continue 'smaller;
            }
        }
        break;
    }
    (least, how)
}

/// Returns variants of a test case with fewer faults, changes, requests or options, much smaller ones first.
fn smaller(case: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    if case.faults.len() > 1 {
        cases.push(Case { faults: Vec::new(), ..case.clone() });
    }
    if case.set.len() > 1 {
        cases.push(Case { set: Vec::new(), ..case.clone() });
    }
    for option in ["numjobs", "iodepth"] {
        let value = case.number(option);
        let fewer = [1, value / 2, value - 1];
        cases.extend(
            fewer.iter().filter(|fewer| **fewer > 0 && **fewer < value).map(|n| case.with(option, n.to_string())),
        );
    }
    let ios = case.number("number_ios");
    let fewer = [1, ios / 8, ios / 2, ios - ios / 4, ios - 1];
    cases.extend(fewer.iter().filter(|n| **n > 0 && **n < ios).map(|n| case.with("number_ios", n.to_string())));
    for place in 0..case.faults.len() {
        let mut fewer = case.clone();
        fewer.faults.remove(place);
        cases.push(fewer);
    }
    for place in 0..case.set.len() {
        let mut fewer = case.clone();
        fewer.set.remove(place);
        cases.push(fewer);
    }
    let bytes = case.number("bs");
    cases.extend(
        [512, 4096, bytes / 2].iter().filter(|n| **n >= 512 && **n < bytes).map(|n| case.with("bs", n.to_string())),
    );
    for option in ["thinktime", "rwmixread", "fsync", "fdatasync"] {
        let mut fewer = case.clone();
        fewer.job.retain(|(name, _)| *name != option);
        if fewer != *case {
            cases.push(fewer);
        }
    }
    cases
}
