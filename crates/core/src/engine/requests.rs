//! Single requests of a run, kept on demand: the first ones that were counted, up to a limit.

use crate::ledger::StageTimes;
use crate::request::Io;
use crate::time::Time;

/// Completed request of a run, with its latency and stages.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptRequestRecord {
    /// Number of the request in the order of issue, from 1; requests of a ramp are numbered too.
    pub number: u64,
    /// Index of the request's job in [`Outcome::jobs`](crate::ledger::Outcome::jobs).
    pub job: usize,
    /// Operation, offset and length of the request.
    pub io: Io,
    /// Instant at which the application wanted to issue the request; its latency counts from here.
    pub wanted: Time,
    /// Instant at which the application had the result of the request.
    pub done: Time,
    /// Time in each stage of the request, which sum to its latency.
    pub stages: StageTimes,
}

/// Completed requests of a run, up to a limit, in the order of completion.
#[derive(Clone, Debug, Default)]
pub struct KeptRequestRecords {
    kept: Vec<KeptRequestRecord>,
    limit: usize,
    left_out: u64,
}

impl KeptRequestRecords {
    /// Returns an empty list for up to `limit` requests; memory is allocated as they come.
    pub fn new(limit: usize) -> KeptRequestRecords {
        KeptRequestRecords { limit, ..KeptRequestRecords::default() }
    }

    #[cold]
    pub(super) fn keep(&mut self, request: KeptRequestRecord) {
        match self.kept.len() < self.limit {
            true => self.kept.push(request),
            false => self.left_out += 1,
        }
    }

    /// Returns the completed requests that the run has kept, in the order of completion.
    pub fn kept(&self) -> &[KeptRequestRecord] {
        &self.kept
    }

    /// Returns the number of requests that were not kept because the limit was reached.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Drive;
    use crate::simulation::Simulation;
    use crate::time::Span;
    use crate::workload::fio;

    fn run(limit: usize) -> Simulation {
        let drive = Drive::shipped("nvme").unwrap();
        let options = [("rw", "randrw"), ("bs", "4k"), ("iodepth", "4"), ("number_ios", "300"), ("ramp_time", "100us")];
        let jobs = fio::job_from_flags(&options).unwrap().resolve(&drive.limits(), &Default::default()).unwrap();
        let mut simulation = Simulation::new(&drive, &jobs, 3).unwrap();
        simulation.keep_requests(limit);
        while simulation.step(1000) {}
        simulation
    }

    #[test]
    fn kept_requests_are_counted_ones_with_stages_adding_up() {
        let mut simulation = run(1000);
        let (outcome, kept) = (simulation.outcome(), simulation.take_requests().unwrap());
        let job = &outcome.jobs[0];
        assert_eq!((kept.kept().len() as u64, kept.left_out()), (job.read.ios + job.write.ios, 0));
        let latency = |kept: &KeptRequestRecord| kept.done.since(kept.wanted);
        assert!(kept.kept().iter().all(|it| it.stages.total() == latency(it) && it.job == 0));
        let sum: u128 = kept.kept().iter().map(|it| u128::from(latency(it).as_ps())).sum();
        assert_eq!(sum, simulation.latency().sum_ps());
        assert!(kept.kept().iter().all(|it| it.wanted >= Time::ZERO + Span::from_us(100)));
    }

    #[test]
    fn requests_beyond_the_kept_limit_are_only_counted() {
        let (mut whole, mut short) = (run(1000), run(10));
        let (all, first) = (whole.take_requests().unwrap(), short.take_requests().unwrap());
        assert_eq!(first.kept(), &all.kept()[..10]);
        assert_eq!(first.left_out(), all.kept().len() as u64 - 10);
        assert_eq!(short.outcome(), whole.outcome());
        // The Python package and docs/python.md state this size.
        assert_eq!(size_of::<KeptRequestRecord>(), 472);
    }
}
