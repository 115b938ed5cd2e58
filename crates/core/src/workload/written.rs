//! Jobs with the traces that they replay, before a drive is known.

use std::collections::{BTreeMap, BTreeSet};

use super::trace::{NamedTrace, Trace};
use super::{Job, JobFile, Limits};
use crate::problem::{Problems, all};

/// Jobs as they are written, with the traces that they replay.
#[derive(Clone, Debug)]
pub struct UnresolvedJobs {
    /// The jobs of one file each, with the traces that they name.
    parts: Vec<(JobFile, BTreeMap<NamedTrace, Trace>)>,
    /// True if all jobs are measured from the first request on.
    are_bursts: bool,
}

impl UnresolvedJobs {
    /// The jobs of some files. `trace` reads those that they name.
    ///
    /// # Errors
    /// Everything that is wrong with the traces.
    pub fn new(
        files: impl IntoIterator<Item = JobFile>,
        trace: impl Fn(&NamedTrace) -> Result<Trace, Problems>,
    ) -> Result<UnresolvedJobs, Problems> {
        let with_traces = |file: JobFile| {
            // Jobs that replay the same trace share one reading of it.
            let wanted: BTreeSet<NamedTrace> = file.wanted_traces().collect();
            let read = wanted.into_iter().map(|wanted| trace(&wanted).map(|trace| (wanted, trace)));
            let traces = all(read)?.into_iter().collect();
            Ok((file, traces))
        };
        Ok(UnresolvedJobs { parts: all(files.into_iter().map(with_traces))?, are_bursts: false })
    }

    /// Returns the jobs so that all are measured from the first request on if `are_bursts` is true, whatever they say.
    pub fn as_bursts(self, are_bursts: bool) -> UnresolvedJobs {
        UnresolvedJobs { are_bursts, ..self }
    }

    /// The jobs on a drive with these limits. On a drive that has a steady state, they are measured in it unless they say `burst=1`.
    ///
    /// # Errors
    /// Everything that the drive cannot do.
    pub fn on(&self, limits: &Limits) -> Result<Vec<Job>, Problems> {
        let mut jobs = all(self.parts.iter().map(|(file, traces)| file.resolve(limits, traces)))?.concat();
        if self.are_bursts {
            jobs.iter_mut().for_each(|job| job.steady = Some(false));
        }
        jobs.iter_mut().for_each(|job| job.measure_steadily(limits));
        Ok(jobs)
    }

    /// The names of the jobs, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(|(file, _)| file.names())
    }

    /// The traces by their names, those of each file in the order of their paths.
    pub fn traces(&self) -> impl Iterator<Item = (&NamedTrace, &Trace)> {
        self.parts.iter().flat_map(|(_, traces)| traces.iter())
    }
}
