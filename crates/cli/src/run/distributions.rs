//! Distributions of latencies, a file for each job and direction: `--hgrm`.

use std::path::Path;

use phaselink_core::ledger::Outcome;
use phaselink_core::problem::Problems;
use phaselink_core::report::hgrm;

use super::workload::Workload;
use crate::input;
use crate::output::{self, Target};

/// A file that is ready, and whose latencies it is for.
pub(super) struct Distribution {
    target: Target,
    job: usize,
    is_write: bool,
}

/// The files of all jobs, if they are asked for; of a direction without requests none is written.
///
/// # Errors
/// As [`Target::create`].
pub(super) fn open(directory: Option<&Path>, workload: &Workload) -> Result<Vec<Distribution>, Problems> {
    let Some(directory) = directory else { return Ok(Vec::new()) };
    output::create_directory(directory)?;
    let names: Vec<String> = workload.jobs.iter().map(|job| file_name(&job.name)).collect();
    let all = (0..names.len()).flat_map(|job| [(job, false), (job, true)]);
    input::all(all.map(|(job, is_write)| {
        // Jobs of one name are told apart by their places.
        let place = if names.iter().filter(|name| **name == names[job]).count() > 1 {
            format!("-{}", job + 1)
        } else {
            String::new()
        };
        let direction = if is_write { "write" } else { "read" };
        let path = directory.join(format!("{}{place}-{direction}.hgrm", names[job]));
        Ok(Distribution { target: Target::create("--hgrm", &path)?, job, is_write })
    }))
}

/// A job's name as far as every file system takes it.
fn file_name(job: &str) -> String {
    let kept = |letter: char| if letter.is_alphanumeric() || letter == '-' || letter == '_' { letter } else { '_' };
    job.chars().map(kept).collect()
}

/// Write those of which there are any.
///
/// # Errors
/// As [`Target::write`].
pub(super) fn write(distributions: Vec<Distribution>, outcome: &Outcome) -> Result<(), Problems> {
    for Distribution { target, job, is_write } in distributions {
        let Some(job) = outcome.jobs.get(job) else { continue };
        let latency = if is_write { &job.write.total } else { &job.read.total };
        if latency.count() > 0 {
            target.write(&hgrm(latency))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs_leave_no_folder() {
        assert_eq!(file_name("../etc/a b.log"), "___etc_a_b_log");
    }
}
