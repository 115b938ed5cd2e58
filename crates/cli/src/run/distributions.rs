//! Latency distributions of `--hgrm`, in a file for each job and direction.

use std::path::Path;

use phaselink_core::ledger::Outcome;
use phaselink_core::problem::Problems;
use phaselink_studies::report::hgrm;

use super::workload::Workload;
use crate::input;
use crate::output::{self, Target};

/// Output file of `--hgrm` for the latency distribution of one job's reads or writes.
pub(super) struct Distribution {
    target: Target,
    job: usize,
    is_write: bool,
}

/// Returns output files of `--hgrm` for the read and write latencies of all jobs in a directory; none without a
/// directory. A direction without requests gets no file later.
///
/// # Errors
///
/// Errors of [`Target::create`].
pub(super) fn open(directory: Option<&Path>, workload: &Workload) -> Result<Vec<Distribution>, Problems> {
    let Some(directory) = directory else { return Ok(Vec::new()) };
    output::create_directory(directory)?;
    let names: Vec<String> = workload.jobs.iter().map(|job| file_name_of_job(&job.name)).collect();
    let all = (0..names.len()).flat_map(|job| [(job, false), (job, true)]);
    input::all(all.map(|(job, is_write)| {
        // Jobs with the same name get their number as a suffix.
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

/// Returns a job's name with all characters replaced by `_` that a file system might refuse.
fn file_name_of_job(job: &str) -> String {
    let kept = |letter: char| if letter.is_alphanumeric() || letter == '-' || letter == '_' { letter } else { '_' };
    job.chars().map(kept).collect()
}

/// Writes the latency distributions of `--hgrm`, of each job's reads and writes that have requests.
///
/// # Errors
///
/// Errors of [`Target::write`].
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
    fn job_names_cannot_leave_the_folder() {
        assert_eq!(file_name_of_job("../etc/a b.log"), "___etc_a_b_log");
    }
}
