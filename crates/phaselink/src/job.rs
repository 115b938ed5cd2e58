//! Workloads in the options of fio.

use std::fmt::Display;

use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::trace::NamedJobTrace;
use phaselink_core::workload::{self, Trace, UnresolvedJobs, add_default_options, fio};

use crate::drive::Drive;

/// Workload of one job, in the options and units of fio: `rw`, `bs`, `iodepth`, `numjobs`, `rwmixread`, `number_ios`.
#[derive(Clone, Debug)]
pub struct Job {
    options: Vec<(String, String)>,
}

impl Job {
    /// Returns a job with this pattern of requests (fio's `rw`), such as `randread`, and phaselink's defaults.
    pub fn new(rw: &str) -> Job {
        Job { options: vec![(String::from("rw"), String::from(rw))] }
    }

    /// Returns the job with one more option of fio. The options are checked when the job meets a drive.
    #[must_use]
    pub fn with(mut self, option: &str, value: impl Display) -> Job {
        self.options.push((String::from(option), value.to_string()));
        self
    }

    /// Returns the job as a drive can run it.
    ///
    /// # Errors
    /// All options that do not exist, values that fio does not allow, and what the drive cannot run.
    pub(crate) fn on(&self, drive: &Drive) -> Result<Vec<workload::Job>, Problems> {
        self.unresolved()?.on(&drive.model().limits()).map_err(|problems| problems.without_flags("job"))
    }

    /// Returns the job before it meets a drive.
    pub(crate) fn unresolved(&self) -> Result<UnresolvedJobs, Problems> {
        let given: Vec<_> = self.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let job =
            fio::job_from_flags(&add_default_options(&given)).map_err(|problems| problems.without_flags("job"))?;
        UnresolvedJobs::new([job], no_traces)
    }
}

fn no_traces(wanted: &NamedJobTrace) -> Result<Trace, Problems> {
    Err(Problem::new(&wanted.path, None, "jobs of the library replay no traces", "the program's `--read_iolog`").into())
}
