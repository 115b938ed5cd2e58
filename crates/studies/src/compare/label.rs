//! Sizes of jobs, by which the lines of a comparison differ.

use crate::results::FindingPlace;
use phaselink_core::workload::Job;

/// Sizes of the jobs of one line of a comparison; a size is `None` if it differs between the jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Size of a request in bytes.
    pub bytes: Option<u32>,
    /// Number of threads of all jobs together.
    pub threads: u32,
    /// Number of requests that each thread keeps in flight.
    pub iodepth: Option<u32>,
    /// fio's name for the access pattern, such as `randread`.
    pub rw: Option<&'static str>,
}

impl Label {
    /// Returns the sizes of jobs that run together.
    pub fn of(jobs: &[Job]) -> Label {
        Label {
            bytes: shared(jobs.iter().flat_map(Job::sizes)),
            threads: jobs.iter().map(|job| job.threads).sum(),
            iodepth: shared(jobs.iter().map(|job| job.iodepth)),
            rw: shared(jobs.iter().map(Job::rw)).flatten(),
        }
    }

    /// Returns the sizes of the jobs in the form that findings use.
    pub fn place(&self) -> FindingPlace {
        FindingPlace { bs: self.bytes, numjobs: self.threads, iodepth: self.iodepth }
    }

    /// Returns the largest number of requests in flight, threads times queue depth; with different depths, the number
    /// of threads.
    pub fn outstanding(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.iodepth.unwrap_or(1))
    }
}

/// Returns the value that all of `values` have in common; none if they differ or there are none.
pub fn shared<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut values = values.into_iter();
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
