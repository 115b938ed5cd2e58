//! Comparisons of drives under the same job.

use std::fmt;

use phaselink_core::drive;
use phaselink_core::problem::Problems;
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::Job;
use phaselink_studies::compare::{
    Cell, ComparedGroup, ComparedPoint, EqualLoad, document, findings, lines_at_equal_load,
};
use phaselink_studies::report::headed;
use phaselink_studies::results::words::UNBROKEN;
use serde_json::Value;

use crate::drive::Drive;
use crate::job;
use crate::run::{SEED, outcome};

/// Comparison of drives. Displayed, it is the list of findings: which drive is faster, and why.
#[derive(Clone, Debug)]
pub struct Comparison {
    findings: Vec<String>,
    document: Value,
}

/// Simulates a job on several drives and explains their differences.
///
/// # Errors
/// All problems of the job. A drive that cannot run the job has no result in the document.
pub fn compare(drives: &[Drive], job: &job::Job) -> Result<Comparison, Problems> {
    let models: Vec<_> = drives.iter().map(|drive| drive.model().clone()).collect();
    let point = ComparedPoint::new(job.unresolved()?, &models)?;
    let groups = [ComparedGroup { label: point.label.clone(), cells: cells(&models, &point.jobs)? }];
    let at_load = |load: EqualLoad| cells(&models, &load.jobs).map(|cells| load.with_cells(cells));
    let loaded = lines_at_equal_load([&point], &groups).into_iter().map(at_load).collect::<Result<Vec<_>, _>>()?;
    let document = headed("compare", document(SEED, (&[], &[]), &models, &groups, &loaded));
    let findings = findings(&models, &groups, &loaded).into_iter();
    Ok(Comparison { findings: findings.map(|it| it.sentence.replace(UNBROKEN, " ")).collect(), document })
}

/// Runs the jobs of each drive; a drive without jobs cannot run them.
fn cells(drives: &[drive::Drive], jobs: &[Option<Vec<Job>>]) -> Result<Vec<Option<Cell>>, Problems> {
    let cell = |(drive, jobs): (&drive::Drive, &Option<Vec<Job>>)| {
        let Some(jobs) = jobs else { return Ok(None) };
        let outcome = outcome(Simulation::new(drive, jobs, SEED)?);
        Ok(Some(Cell::new(drive, jobs, outcome)))
    };
    drives.iter().zip(jobs).map(cell).collect()
}

impl Comparison {
    /// Returns the findings, each a sentence.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Returns the document that `phaselink compare --json` prints, with every figure of every drive.
    pub fn document(&self) -> &Value {
        &self.document
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.findings.join("\n"))
    }
}
