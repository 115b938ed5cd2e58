//! Jobs with the traces that they replay, before the drive on which they run is known.

use std::collections::{BTreeMap, BTreeSet};

use super::trace::{NamedJobTrace, Trace};
use super::{Job, Limits, WrittenJobFile};
use crate::problem::{Problem, Problems, all};

/// Jobs as written, with the traces that they replay, before they are resolved for a drive.
#[derive(Clone, Debug)]
pub struct UnresolvedJobs {
    /// Jobs of each file or command line, with the traces that they name.
    parts: Vec<(WrittenJobFile, BTreeMap<NamedJobTrace, Trace>)>,
    /// True if all jobs are measured from their first request on, without waiting for a steady state.
    are_bursts: bool,
    /// Requests a second that the job offers at random times, in place of its own pace; `None` for its own pace.
    offered_iops: Option<f64>,
}

impl UnresolvedJobs {
    /// Makes the jobs of some files or command lines. `trace` reads a trace that a job names; jobs of one file that
    /// replay the same trace share it.
    ///
    /// # Errors
    /// All problems of the traces.
    pub fn new(
        files: impl IntoIterator<Item = WrittenJobFile>,
        trace: impl Fn(&NamedJobTrace) -> Result<Trace, Problems>,
    ) -> Result<UnresolvedJobs, Problems> {
        let with_traces = |file: WrittenJobFile| {
            // Read each trace once, even if several jobs replay it.
            let wanted: BTreeSet<NamedJobTrace> = file.wanted_traces().collect();
            let read = wanted.into_iter().map(|wanted| trace(&wanted).map(|trace| (wanted, trace)));
            let traces = all(read)?.into_iter().collect();
            Ok((file, traces))
        };
        Ok(UnresolvedJobs { parts: all(files.into_iter().map(with_traces))?, are_bursts: false, offered_iops: None })
    }

    /// Returns the jobs with `are_bursts` set. If it is true, all jobs are measured from their first request on,
    /// whatever their options say.
    pub fn with_bursts(self, are_bursts: bool) -> UnresolvedJobs {
        UnresolvedJobs { are_bursts, ..self }
    }

    /// Returns the jobs at a load in place of a depth: all threads together offer `iops` requests a second at random times
    /// (Poisson process), whose latencies count from their planned times. Queue depth limits the requests in flight.
    pub fn offering(self, iops: f64) -> UnresolvedJobs {
        UnresolvedJobs { offered_iops: Some(iops), ..self }
    }

    /// Resolves the jobs for a drive with these limits. On a drive that has a steady state or credits, jobs are
    /// measured in the steady state unless they say `burst=1`.
    ///
    /// # Errors
    /// All problems of jobs that the drive cannot run.
    pub fn on(&self, limits: &Limits) -> Result<Vec<Job>, Problems> {
        let mut jobs = all(self.parts.iter().map(|(file, traces)| file.resolve(limits, traces)))?.concat();
        if self.are_bursts {
            jobs.iter_mut().for_each(|job| job.steady = Some(false));
        }
        if let Some(iops) = self.offered_iops {
            let [job] = &mut jobs[..] else { return Err(problem("several jobs").into()) };
            *job = job.offering(iops).ok_or_else(|| problem("a job with a pace of its own"))?;
        }
        jobs.iter_mut().for_each(|job| job.measure_in_steady_state(limits));
        Ok(jobs)
    }

    /// Returns the names of the jobs, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(|(file, _)| file.names())
    }

    /// Returns each trace with its name; the traces of each file are in the order of their paths.
    pub fn traces(&self) -> impl Iterator<Item = (&NamedJobTrace, &Trace)> {
        self.parts.iter().flat_map(|(_, traces)| traces.iter())
    }
}

/// Returns the problem of jobs that cannot run at a load.
fn problem(found: &str) -> Problem {
    let allowed = "one job without rate_iops, thinktime, flushes, query_rounds, group_commit and trace";
    Problem::new("command line", None, format!("{found}, whose load is to be set"), allowed)
}
