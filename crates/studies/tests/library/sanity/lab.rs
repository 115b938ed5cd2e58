//! Where the laws are tried: what simulates and predicts, and all processors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::simulate;
use phaselink_core::workload::Job;
use phaselink_studies::predict::{JobPrediction, predict};

use super::cases::Case;
use super::laws::{self, Finding};

/// Simulation and prediction, or something that passes for them.
#[derive(Clone, Copy)]
pub(super) struct SimulationLab {
    pub simulate: fn(&Drive, &[Job]) -> Outcome,
    pub predict: fn(&Drive, &[Job]) -> JobPrediction,
}

impl Default for SimulationLab {
    fn default() -> SimulationLab {
        SimulationLab {
            simulate: |drive, jobs| simulate(drive, jobs, 1).unwrap_or_else(|problems| panic!("{problems}")),
            predict: |drive, jobs| predict(drive, jobs).jobs.remove(0),
        }
    }
}

impl SimulationLab {
    /// How many configurations these cases are, and what breaks a law, in the order of the cases.
    pub(super) fn check_all(&self, cases: &[Case]) -> (usize, Vec<Finding>) {
        let (next, tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let findings = Mutex::new(Vec::new());
        let work = || {
            while let Some((place, case)) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|place| Some((place, cases.get(place)?)))
            {
                let (configurations, found) = self.check(case);
                tried.fetch_add(configurations, Ordering::Relaxed);
                found.iter().for_each(|finding| eprintln!("{finding}"));
                findings.lock().expect("nobody panics with it").extend(found.into_iter().map(|found| (place, found)));
                if place % 100 == 99 {
                    eprintln!("{} of {} cases", place + 1, cases.len());
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        let mut findings = findings.into_inner().expect("nobody panics with it");
        findings.sort_by_key(|(place, _)| *place);
        (tried.into_inner(), findings.into_iter().map(|(_, finding)| finding).collect())
    }

    /// The same for one case. A simulation that panics breaks a law as well.
    fn check(&self, case: &Case) -> (usize, Vec<Finding>) {
        let checked = catch_unwind(AssertUnwindSafe(|| laws::check(self, case)));
        checked.unwrap_or_else(|_| (1, vec![Finding::new("runs to its end", case, "", f64::INFINITY)]))
    }
}
