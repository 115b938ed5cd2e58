//! Simulated runs.

use std::fmt;

use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::simulation::Simulation;
use phaselink_studies::compare::conclude_run;
use phaselink_studies::report;
use phaselink_studies::results::{self, Figures};
use serde_json::Value;

use crate::drive::Drive;
use crate::job::Job;

/// Seed of the random numbers of [`simulate`] and of comparisons, which is the program's default.
pub(crate) const SEED: u64 = 1;

/// Result of a simulated job. Displayed, it is the report of `phaselink run`.
#[derive(Clone, Debug)]
pub struct Run {
    outcome: Outcome,
    figures: Figures,
    document: Value,
}

/// Simulates a job on a drive, packet by packet, from the application's call to the memory cell. The same drive and job
/// have the same result on every machine.
///
/// # Errors
/// All problems of the job, and what the drive cannot run.
pub fn simulate(drive: &Drive, job: &Job) -> Result<Run, Problems> {
    simulate_with_seed(drive, job, SEED)
}

/// Simulates a job as [`simulate`] does, with other random numbers.
///
/// # Errors
/// All problems of the job, and what the drive cannot run.
pub fn simulate_with_seed(drive: &Drive, job: &Job, seed: u64) -> Result<Run, Problems> {
    let jobs = job.on(drive)?;
    let outcome = outcome(Simulation::new(drive.model(), &jobs, seed)?);
    let mut document = report::headed("run", report::json(&outcome, drive.model().resolved()));
    conclude_run(drive.model(), &jobs, outcome.clone()).add_to(&mut document);
    Ok(Run { figures: Figures::of(&outcome), outcome, document })
}

/// Runs a simulation to its end.
pub(crate) fn outcome(mut simulation: Simulation) -> Outcome {
    while simulation.step(u64::MAX) {}
    simulation.outcome()
}

impl Run {
    /// Returns a figure of all requests together, in the unit that its name ends with, such as `iops`, `mean_ns` or
    /// `p99_ns`; none if this run cannot tell it, such as a percentile that no request lies beyond.
    ///
    /// # Errors
    /// If no figure has this name; `phaselink docs sweep` lists the names.
    pub fn figure(&self, name: &str) -> Result<Option<f64>, Problems> {
        let unknown = || Problem::new("figure", None, format!("no figure {name}"), "those of `phaselink docs sweep`");
        Ok(self.figures.get(results::find(name).ok_or_else(unknown)?))
    }

    /// Returns the document that `phaselink run --json` prints, whose schema is in `phaselink docs json`.
    pub fn document(&self) -> &Value {
        &self.document
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&report::summary(&self.outcome))
    }
}
