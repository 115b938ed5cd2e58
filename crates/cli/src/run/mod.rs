//! `phaselink run`: one drive under one workload, in detail.

pub mod workload;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Args;
use phaselink_core::drive_file::shipped;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::Problems;
use phaselink_core::report;
use phaselink_core::simulation::Simulation;
use serde_json::Value;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::output::{self, Target};
use crate::progress::Progress;
use crate::{input, interrupt};
use workload::WorkloadFlags;

/// Steps of a timeline: as many as the viewer shows without delay.
const TIMELINE_STEPS_MAX: usize = 200_000;

const EXAMPLES: &str = include_str!("../../help/run.txt");

/// Simulate one drive under one workload, and say where the time of its requests goes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Drive file, or name of a shipped drive
    #[arg(value_name = "DRIVE", default_value = shipped::usual())]
    drive: String,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Move real bytes, and check what every read returns
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    results: ResultFlags,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Where results go besides the terminal.
#[derive(Args, Debug)]
#[command(next_help_heading = "Results")]
struct ResultFlags {
    /// Print JSON in the shape of fio's instead of tables; with =FILE, write it there as well
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
    /// Write DIR/index.html, one page with plots, and DIR/result.json
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Write a timeline of the first 200,000 steps, for https://ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
}

/// The files to write.
struct Targets {
    documents: Vec<Target>,
    page: Option<Target>,
    timeline: Option<Target>,
}

/// Run the command.
pub fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let drive = input::drive(&arguments.drive, &arguments.flags.resolve()?)?;
    let workload = arguments.workload.resolve(&drive.limits())?;
    let mut simulation = match arguments.verify {
        true => Simulation::with_data(&drive, &workload.jobs, arguments.seed)?,
        false => Simulation::new(&drive, &workload.jobs, arguments.seed)?,
    };
    let stopped = interrupt::flag();
    let targets = arguments.results.open()?;
    if targets.timeline.is_some() {
        simulation.record(TIMELINE_STEPS_MAX);
    }
    let progress = Progress::of(1);
    progress.drive(&mut simulation, || stopped.load(Ordering::Relaxed));
    progress.finish();
    let outcome = simulation.outcome();
    let document = output::headed("run", report::json(&outcome, drive.resolved()));
    targets.write(&simulation, &outcome, &document)?;
    match arguments.results.json {
        Some(None) => output::print_json(&document)?,
        _ => output::print(&format!("{}{}", workload.summary, report::summary(&outcome)))?,
    }
    for problem in simulation.data_problems() {
        eprintln!("error: {problem}");
    }
    Ok(match outcome.finished {
        false => Ending::Interrupted,
        true if simulation.data_problems().is_empty() => Ending::Fine,
        true => Ending::Off,
    })
}

impl ResultFlags {
    fn open(&self) -> Result<Targets, Problems> {
        let in_report = |name: &str| self.report.as_ref().map(|directory| directory.join(name));
        let create = |flag, path: Option<&Path>| path.map(|path| Target::create(flag, path)).transpose();
        if let Some(directory) = &self.report {
            output::create_directory(directory)?;
        }
        let documents = [("--json", self.json.clone().flatten()), ("--report", in_report("result.json"))];
        let documents = documents.iter().filter_map(|(flag, path)| create(flag, path.as_deref()).transpose());
        Ok(Targets {
            documents: input::all(documents.map(|document| document.map_err(Problems::from)))?,
            page: create("--report", in_report("index.html").as_deref())?,
            timeline: create("--perfetto", self.perfetto.as_deref())?,
        })
    }
}

impl Targets {
    fn write(self, simulation: &Simulation, outcome: &Outcome, document: &Value) -> Result<(), Problems> {
        for target in self.documents {
            target.write(&output::json_text(document))?;
        }
        if let Some(page) = self.page {
            page.write(&report::html(outcome, &simulation.drive().resolved()))?;
        }
        if let Some(timeline) = self.timeline {
            timeline.write(&report::perfetto(simulation.trace()))?;
        }
        Ok(())
    }
}
