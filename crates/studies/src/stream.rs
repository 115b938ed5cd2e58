//! Steps of single requests out of a stream of equal requests, as a packet ladder or a timeline draws them.

use std::collections::BTreeSet;

use crate::report;
use crate::results::words;
use phaselink_core::drive::Drive;
use phaselink_core::engine::simulation::Simulation;
use phaselink_core::ledger::Trace;
use phaselink_core::number::wide_index;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::fio;

/// Largest number of recorded steps: enough for some ten thousand requests of the largest size.
const STEPS_MAX: usize = 4 << 20;
/// Number of further requests after the last one shown, so that this one meets the load of a stream until it completes.
const FOLLOWING: u64 = 64;

/// Stream of equal requests, and the range of requests in it whose steps are shown.
#[derive(Clone, Debug)]
pub struct EqualRequestStream<'a> {
    /// Access pattern of the requests, in fio's spelling: `randread`.
    pub rw: &'a str,
    /// Size of a request, in fio's spelling: `4k`.
    pub bs: &'a str,
    /// Number of requests in flight, in fio's spelling.
    pub iodepth: &'a str,
    /// Number of requests before the first one whose steps are shown.
    pub skip: u64,
    /// Number of requests whose steps are shown; at least one.
    pub requests: u64,
    /// Seed of the simulation's random numbers.
    pub seed: u64,
}

/// Recorded steps of a stream of requests, and the numbers of the requests that are shown.
#[derive(Clone, Debug)]
pub struct Steps {
    all: Trace,
    /// Numbers of the shown requests that left steps, in order of their first steps; never empty.
    wanted: Vec<u64>,
    title: String,
}

impl EqualRequestStream<'_> {
    /// Runs the stream on one drive alone, whose software takes exactly its mean time, and returns the recorded steps.
    ///
    /// # Errors
    /// Everything that keeps the requests from the drive, and a request that has left no steps.
    pub fn record(&self, drive: &Drive) -> Result<Steps, Problems> {
        let drives = drive.drives;
        let mut drive = drive.as_only_drive();
        drive.host.variation = 0.0;
        let mut simulation = self.simulation(&drive)?;
        simulation.record(STEPS_MAX);
        while simulation.step(1 << 16) && !simulation.trace().is_full() {}
        let all = simulation.trace().clone();
        let seen = requests(&all);
        let wanted: Vec<u64> = seen.into_iter().skip(wide_index(self.skip)).take(wide_index(self.requests)).collect();
        if wanted.is_empty() {
            let found = format!("request {} left no steps", self.skip + 1);
            return Err(Problem::new(drive.name, None, found, "a smaller --skip or --bs").into());
        }
        Ok(Steps { all, wanted, title: self.title(&drive, drives) })
    }

    fn simulation(&self, drive: &Drive) -> Result<Simulation, Problems> {
        let ios = (self.skip + self.requests + FOLLOWING).to_string();
        let options =
            [("rw", self.rw), ("bs", self.bs), ("iodepth", self.iodepth), ("number_ios", &ios), ("io_size", "1024p")];
        let jobs = fio::job_from_flags(&options)?.resolve(&drive.limits(), &Default::default())?;
        Simulation::new(drive, &jobs, self.seed)
    }

    fn title(&self, drive: &Drive, drives: u16) -> String {
        format!(
            "{}{}: request {} of {}, bs={}, iodepth={}",
            drive.name,
            if drives > 1 { format!(", one of {drives} drives, alone") } else { String::new() },
            self.skip + 1,
            words::requests(self.rw),
            self.bs,
            self.iodepth
        )
    }
}

impl Steps {
    /// Returns the steps of the first request that is shown.
    pub fn first(&self) -> Trace {
        self.all.of_request(self.wanted[0])
    }

    /// Returns a packet ladder of the first request that is shown, with time running down.
    pub fn ladder(&self) -> String {
        report::ladder(&self.first(), &self.title)
    }

    /// Returns a timeline of all requests that are shown, for Perfetto's viewer.
    pub fn perfetto(&self) -> String {
        report::perfetto(&self.window())
    }

    /// Returns the steps of the requests that are shown, and the steps of no request that fall between their first and
    /// their last.
    fn window(&self) -> Trace {
        let wanted: BTreeSet<u64> = self.wanted.iter().copied().collect();
        let records = self.all.records();
        let own = || records.iter().filter(|record| record.request.is_some_and(|owner| wanted.contains(&owner)));
        let from = own().map(|record| record.from).min();
        let to = own().map(|record| record.to).max();
        let mut window = Trace::new(records.len());
        for record in records {
            let belongs = match record.request {
                Some(owner) => wanted.contains(&owner),
                None => Some(record.from) <= to && Some(record.to) >= from,
            };
            if belongs {
                window.push(record.clone());
            }
        }
        window
    }
}

/// Returns the numbers of the requests in a trace, in the order in which their first steps begin.
fn requests(trace: &Trace) -> Vec<u64> {
    let mut seen = BTreeSet::new();
    let owners = trace.in_order().into_iter().filter_map(|record| record.request);
    owners.filter(|request| seen.insert(*request)).collect()
}
