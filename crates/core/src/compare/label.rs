//! Sizes of jobs, which tell the lines of a comparison apart.

use crate::results::FindingPlace;
use crate::workload::Job;

/// Sizes of the jobs of a line; none where they differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Bytes of a request.
    pub bytes: Option<u32>,
    /// Threads of all jobs.
    pub threads: u32,
    /// Requests that each thread keeps in flight.
    pub iodepth: Option<u32>,
    /// fio's name for the access pattern.
    pub rw: Option<&'static str>,
}

impl Label {
    /// Returns the label of jobs that run together.
    pub fn of(jobs: &[Job]) -> Label {
        Label {
            bytes: shared(jobs.iter().flat_map(Job::sizes)),
            threads: jobs.iter().map(|job| job.threads).sum(),
            iodepth: shared(jobs.iter().map(|job| job.iodepth)),
            rw: shared(jobs.iter().map(Job::rw)).flatten(),
        }
    }

    /// Returns the size of the jobs as findings have it.
    pub fn place(&self) -> FindingPlace {
        FindingPlace { bs: self.bytes, numjobs: self.threads, iodepth: self.iodepth }
    }

    /// Returns the most requests in flight; of jobs with different depths, as many as there are threads.
    pub fn outstanding(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.iodepth.unwrap_or(1))
    }
}

/// Returns the value that all have in common.
pub fn shared<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut values = values.into_iter();
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
