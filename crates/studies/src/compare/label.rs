//! Sizes of jobs, by which the lines of a comparison differ.

use crate::results::FindingPlace;
use phaselink_core::workload::Job;

/// Sizes of the jobs of one line of a comparison; a size is `None` if it differs between the jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct LineLabel {
    /// Size of a request in bytes.
    pub bytes: Option<u32>,
    /// Number of threads of all jobs together.
    pub threads: u32,
    /// Number of requests that each thread keeps in flight.
    pub iodepth: Option<u32>,
    /// fio's name for the access pattern, such as `randread`.
    pub rw: Option<&'static str>,
    /// Requests a second that all jobs together offer; `None` if some of them have no rate.
    pub offered_iops: Option<f64>,
}

impl LineLabel {
    /// Returns the sizes of jobs that run together.
    pub fn of(jobs: &[Job]) -> LineLabel {
        LineLabel {
            bytes: shared(jobs.iter().flat_map(Job::sizes)),
            threads: jobs.iter().map(|job| job.threads).sum(),
            iodepth: shared(jobs.iter().map(|job| job.iodepth)),
            rw: shared(jobs.iter().map(Job::rw)).flatten(),
            offered_iops: jobs.iter().map(offered_iops).sum::<Option<f64>>().filter(|iops| *iops > 0.0),
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

/// Returns the requests a second that a job offers; `None` for a job that issues the next request after a completion.
fn offered_iops(job: &Job) -> Option<f64> {
    let of_thread = [(job.rate_iops_read, job.read_percent > 0.0), (job.rate_iops_write, job.read_percent < 100.0)];
    let of_kind = |(rate, is_there): (Option<f64>, bool)| if is_there { rate } else { Some(0.0) };
    Some(f64::from(job.threads) * of_thread.into_iter().map(of_kind).sum::<Option<f64>>()?)
}

/// Returns the value that all of `values` have in common; none if they differ or there are none.
pub fn shared<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut values = values.into_iter();
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
