//! `phaselink trace`: every packet and activity of one request.

use std::path::PathBuf;

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::ledger::Trace;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::report;
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::fio;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::output::{self, Target};
use crate::{describe, input};

/// Steps recorded at most: some ten thousand requests of the largest size.
const STEPS_MAX: usize = 4 << 20;

const EXAMPLES: &str = include_str!("../help/trace.txt");

/// Draw the packets of one request, with time running down: who sends what to whom, and when.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Drive file, or name of a shipped drive
    #[arg(value_name = "DRIVE", default_value = shipped::usual())]
    drive: String,
    /// Block size
    #[arg(long, value_name = "BYTES", default_value = "4k")]
    bs: String,
    /// What is done: read, write, rw, randread, randwrite or randrw
    #[arg(long, default_value = "randread")]
    rw: String,
    /// Requests kept outstanding
    #[arg(long, value_name = "N", default_value = "1")]
    iodepth: String,
    /// Requests before the one that is drawn
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(..=10_000))]
    skip: u64,
    /// Write a timeline for https://ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Requests of the timeline
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    requests: u64,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Run the command.
pub fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let mut drive = input::drive(&arguments.drive, &arguments.flags.resolve()?)?;
    // One request stands for all: its software takes its mean time.
    drive.host.variation = 0.0;
    let timeline = arguments.perfetto.as_deref().map(|path| Target::create("--perfetto", path)).transpose()?;
    let trace = arguments.record(&drive)?;
    let requests = requests(&trace);
    let chosen = requests.get(arguments.skip as usize..).unwrap_or_default();
    let Some(first) = chosen.first() else {
        let found = format!("request {} left no steps", arguments.skip + 1);
        return Err(Problem::new(drive.name, None, found, "a smaller --skip or --bs").into());
    };
    if let Some(timeline) = timeline {
        let window = window(&trace, &chosen[..chosen.len().min(arguments.requests as usize)]);
        timeline.write(&report::perfetto(&window))?;
    }
    output::print(&report::ladder(&trace.of_request(*first), &arguments.title(&drive)))?;
    Ok(Ending::Fine)
}

impl Arguments {
    /// All steps from the start to the end of the last request that is wanted.
    fn record(&self, drive: &Drive) -> Result<Trace, Problems> {
        let wanted = if self.perfetto.is_some() { self.requests } else { 1 };
        // As many again follow the last one, so that it is one of a stream to its end.
        let ios = (self.skip + wanted + 64).to_string();
        let options = [
            ("rw", self.rw.as_str()),
            ("bs", &self.bs),
            ("iodepth", &self.iodepth),
            ("number_ios", &ios),
            ("io_size", "1024p"),
        ];
        let jobs = fio::from_flags(&options)?.resolve(&drive.limits(), &Default::default())?;
        let mut simulation = Simulation::new(drive, &jobs, self.seed)?;
        simulation.record(STEPS_MAX);
        while simulation.step(1 << 16) && !simulation.trace().is_full() {}
        Ok(simulation.trace().clone())
    }

    fn title(&self, drive: &Drive) -> String {
        format!(
            "{}: request {} of {}, bs={}, iodepth={}",
            drive.name,
            self.skip + 1,
            describe::requests(&self.rw),
            self.bs,
            self.iodepth
        )
    }
}

/// The requests in the order in which their first steps begin.
fn requests(trace: &Trace) -> Vec<u64> {
    let mut seen = std::collections::BTreeSet::new();
    let owners = trace.in_order().into_iter().filter_map(|record| record.request);
    owners.filter(|request| seen.insert(*request)).collect()
}

/// The steps of some requests, and those of nobody that fall between their first and their last.
fn window(trace: &Trace, requests: &[u64]) -> Trace {
    let wanted: std::collections::BTreeSet<u64> = requests.iter().copied().collect();
    let own = || trace.records().iter().filter(|record| record.request.is_some_and(|owner| wanted.contains(&owner)));
    let from = own().map(|record| record.from).min();
    let to = own().map(|record| record.to).max();
    let mut window = Trace::new(trace.records().len());
    for record in trace.records() {
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
