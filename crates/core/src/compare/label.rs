//! What tells the lines of a comparison apart.

use crate::workload::Job;

/// Sizes of the jobs of a line; none where they differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    pub bytes: Option<u32>,
    pub threads: u32,
    pub iodepth: Option<u32>,
    /// fio's name for what is done.
    pub rw: Option<&'static str>,
}

impl Label {
    /// The label of jobs that run together.
    pub fn of(jobs: &[Job]) -> Label {
        Label {
            bytes: shared(jobs.iter().flat_map(Job::sizes)),
            threads: jobs.iter().map(|job| job.threads).sum(),
            iodepth: shared(jobs.iter().map(|job| job.iodepth)),
            rw: shared(jobs.iter().map(Job::rw)).flatten(),
        }
    }

    /// Requests under way at most; of jobs with different depths, as many as there are threads.
    pub fn outstanding(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.iodepth.unwrap_or(1))
    }
}

/// What all have in common.
pub fn shared<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut values = values.into_iter();
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
