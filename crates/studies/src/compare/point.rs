//! Jobs of one line of a comparison, for each drive.

use super::label::LineLabel;
use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problems, all};
use phaselink_core::workload::{Job, Limits, UnresolvedJobs};

/// Jobs that run together, for each drive whose queues are long enough for them.
#[derive(Clone, Debug)]
pub struct ComparedPoint {
    /// Sizes of the jobs, by which the lines of a comparison differ.
    pub label: LineLabel,
    /// Jobs as resolved for each drive, in the order of the drives; `None` for a drive whose queues are too short.
    pub jobs: Vec<Option<Vec<Job>>>,
    /// Jobs as written, before they are resolved for a drive.
    pub written: UnresolvedJobs,
}

impl ComparedPoint {
    /// Resolves jobs for each of `drives`.
    ///
    /// # Errors
    /// Any problem of the jobs on a drive other than short queues, and short queues if no drive has long enough ones.
    pub fn new(written: UnresolvedJobs, drives: &[Drive]) -> Result<ComparedPoint, Problems> {
        let jobs: Vec<Option<Vec<Job>>> = all(drives.iter().map(|drive| resolve_jobs(drive, &written)))?;
        if let Some(first) = jobs.iter().flatten().next() {
            return Ok(ComparedPoint { label: LineLabel::of(first), jobs, written });
        }
        // The queue depth is too large for every drive, so report the limits of all drives.
        let problems = all(drives.iter().map(|drive| written.on(&drive.limits())));
        Err(problems.err().unwrap_or_default())
    }
}

/// Resolves the jobs for a drive; `None` if only the drive's queues are too short for them.
fn resolve_jobs(drive: &Drive, written: &UnresolvedJobs) -> Result<Option<Vec<Job>>, Problems> {
    let limits = drive.limits();
    let problems = match written.on(&limits) {
        Ok(jobs) => return Ok(Some(jobs)),
        Err(problems) => problems,
    };
    let endless = Limits { queue_entries: u32::MAX, ..limits };
    match written.on(&endless) {
        Ok(_) => Ok(None),
        Err(_) => Err(problems),
    }
}
