//! Jobs of a job file or command line as written, before the drive on which they run is known.
//!
//! Sizes and offsets may be percentages, and a replay names a file that the core cannot open. Therefore a job file or a
//! line of flags is first read into a [`WrittenJobFile`], which resolves into valid [`Job`]s once the drive's limits and the
//! named traces are known.

use std::collections::BTreeMap;

use super::Job;
use super::check::{Limits, combined_job_problems};
use super::draft::JobDraft;
use super::options;
use super::trace::{NamedJobTrace, Trace};
use crate::config::FaultAction;
use crate::problem::{Problem, Problems};

/// Jobs of one file, or of one command line, as written.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenJobFile {
    pub(super) drafts: Vec<JobDraft>,
}

impl WrittenJobFile {
    /// Returns the names of the jobs, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.drafts.iter().map(|draft| draft.job.name.as_str())
    }

    /// Returns path, device and format of each trace that the jobs replay (`read_iolog`), so that the caller can read
    /// it.
    pub fn wanted_traces(&self) -> impl Iterator<Item = NamedJobTrace> {
        self.drafts.iter().filter_map(JobDraft::wanted_trace)
    }

    /// Returns the jobs with further `options` set in each of them: name, value and line of each option. `file` holds
    /// these lines; messages give a line only for jobs that stand in `file` too.
    pub fn with(&self, file: &str, options: &[(&str, &str, Option<usize>)]) -> Result<WrittenJobFile, Problems> {
        let mut changed = self.clone();
        let mut problems = Vec::new();
        for draft in &mut changed.drafts {
            for (name, text, line) in options {
                // A problem report shows the line in the job's own file, so drop line numbers of other files.
                let line = line.filter(|_| draft.place.file == file);
                problems.extend(options::set(draft, name, Some(text), line).err());
            }
            problems.extend(draft.contradictory_engine_problem());
        }
        Problems(problems).or(changed)
    }

    /// Resolves the jobs on a drive with these limits, and checks them one by one and together. `traces` holds the
    /// traces that [`wanted_traces`](WrittenJobFile::wanted_traces) lists. Returns the jobs, or all problems.
    pub fn resolve(&self, limits: &Limits, traces: &BTreeMap<NamedJobTrace, Trace>) -> Result<Vec<Job>, Problems> {
        let mut problems: Vec<Problem> = limits.fault_without_network.map(network_fault_problem).into_iter().collect();
        let mut jobs = Vec::new();
        for draft in &self.drafts {
            match draft.resolve(limits, traces) {
                Ok(job) => {
                    problems.extend(job.problems(&draft.place, limits));
                    jobs.push(job);
                }
                Err(problem) => problems.push(problem),
            }
        }
        if let (true, Some(last)) = (problems.is_empty(), self.drafts.last()) {
            problems.extend(combined_job_problems(&jobs, &last.place, limits));
        }
        Problems(problems).or(jobs)
    }
}

/// Returns the problem of a fault of connections on a drive that is behind no network.
fn network_fault_problem(action: FaultAction) -> Problem {
    let found = format!("a fault {} on a drive in its host", action.name());
    let allowed = "a drive with [fabric], or a drive that is served over a network";
    Problem::new("faults", None, found, allowed)
}
