//! `phaselink run`: simulates one drive under one workload, and shows the results in detail.

mod distributions;
mod page;
pub(crate) mod workload;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{Described, shipped};
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::Problems;
use phaselink_core::simulation::Simulation;
use phaselink_core::timeline::RunTimeline;
use phaselink_studies::compare::{RunConclusionText, conclude_run};
use phaselink_studies::evidence;
use phaselink_studies::precision::{Measurement, PrecisionGoal};
use phaselink_studies::report;
use phaselink_studies::results::documents::value;
use phaselink_studies::results::{Figures, words};
use phaselink_studies::uncertainty::ConstantDraws;
use serde_json::Value;

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure};
use crate::intervals::{IntervalFlags, IntervalSubject, RunFigureIntervals};
use crate::output::{self, Report, ReportFlags, Target, TextStyle, styled_for_stdout};
use crate::progress::Progress;
use crate::{describe, input, interrupt, intervals, precision};
use distributions::Distribution;
use workload::{Workload, WorkloadFlags};

/// Maximum number of simulated steps in a timeline of `--perfetto`, which the viewer shows without delay.
const TIMELINE_STEPS_MAX: usize = 200_000;

/// Maximum simulated time of a run in days: 2^63 ps.
const END_DAYS: u32 = 106;

const EXAMPLES: &str = include_str!("../../help/run.txt");

/// Simulate one drive under one workload, and print throughput, latency, and the parts of a request's latency.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drive file, or name of a shipped drive (`phaselink check` lists them), to simulate
    #[arg(value_name = "DRIVE", default_value = shipped::default_drive_name())]
    drive: String,
    /// Seed of the simulation's random numbers, such as offsets and service times; draws of --intervals always use seed
    /// 1
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulate with real data, and check the bytes that each read returns; a wrong byte is an error (exit code 1)
    #[arg(long)]
    verify: bool,
    /// End the run once the 95 % confidence intervals of mean and p99 latency are within this share of the values, as
    /// in 1%, or that of a percentile, as in p99.99=10% or read_p99_9=5%. A job without an end then ends after 50
    /// million requests of each thread
    #[arg(long, value_name = "[PERCENTILE=]PERCENT", value_parser = PrecisionGoal::parse)]
    precision: Option<PrecisionGoal>,
    #[command(flatten)]
    intervals: IntervalFlags,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    results: ResultFlags,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Options of `phaselink run` that choose the format of the results and further output files.
#[derive(Args, Debug)]
#[command(next_help_heading = "Results")]
struct ResultFlags {
    /// Print results as JSON in fio's format in place of tables; with =FILE, print tables and write the JSON to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
    #[command(flatten)]
    report: ReportFlags,
    /// Print only the table of requests (throughput and latency of each job), in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Write the latency distributions of each job into folder DIR, as JOB-read.hgrm and JOB-write.hgrm for the tools
    /// of HdrHistogram
    #[arg(long, value_name = "DIR")]
    hgrm: Option<PathBuf>,
    /// Write a timeline of the first 200,000 simulated steps (packets and activities) to FILE, for
    /// https://ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
}

/// Output files of `phaselink run`: JSON result, report, timeline and latency distributions.
struct Targets {
    document: Option<Target>,
    report: Option<Report>,
    perfetto: Option<Target>,
    distributions: Vec<Distribution>,
}

/// Uncertainty of a run's figures: measured precision with `--precision`, and prediction intervals with `--intervals`.
struct RunUncertainty {
    measurement: Option<Measurement>,
    doubted: Option<RunFigureIntervals>,
}

/// Runs `phaselink run`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let described = input::drive(&arguments.drive, &arguments.flags.resolve()?)?;
    let drive = described.drive();
    let workload = arguments.workload(drive)?;
    let mut simulation = match arguments.verify {
        true => Simulation::with_data(drive, &workload.jobs, arguments.seed)?,
        false => Simulation::new(drive, &workload.jobs, arguments.seed)?,
    };
    let stopped = interrupt::flag();
    let targets = arguments.results.open(&workload)?;
    if targets.perfetto.is_some() {
        simulation.record(TIMELINE_STEPS_MAX);
    }
    let progress = Progress::of(1);
    let mut timeline = RunTimeline::default();
    let watched = targets.report.as_ref().map(|_| &mut timeline);
    let measurement = arguments.run(&mut simulation, watched, &progress, &stopped);
    progress.finish();
    let mut outcome = simulation.outcome();
    outcome.finished |= measurement.as_ref().is_some_and(Measurement::is_known);
    let doubted = outcome
        .finished
        .then(|| arguments.run_prediction_intervals(&described, &workload, &outcome, &stopped))
        .flatten();
    outcome.finished &= !stopped.load(Ordering::Relaxed);
    let trust = RunUncertainty { measurement, doubted };
    let mut document = output::headed("run", report::json(&outcome, drive.resolved()));
    let concluded = conclude_run(drive, &workload.jobs, outcome.clone());
    concluded.add_to(&mut document);
    arguments.add_uncertainty(&mut document["phaselink"], &trust);
    let contents = page::RunPageSources { drive, workload: &workload, outcome: &outcome, timeline: &timeline };
    let page = || contents.page(&concluded, trust.doubted.as_ref(), arguments.seed);
    targets.write(&simulation, &outcome, &document, page)?;
    match arguments.results.json {
        Some(None) => output::print_json(&document)?,
        _ if arguments.results.markdown => output::print(&report::summary::requests(&outcome).markdown())?,
        _ => {
            let trust = arguments.uncertainty_text(&trust);
            let tables = report::summary_for_width(&outcome, output::width::columns());
            let first = run_conclusion(&concluded, &outcome);
            output::print(&format!("{first}{}{tables}{trust}", workload.summary))?;
        }
    }
    Ok(run_ending(&simulation, outcome.finished, stopped.load(Ordering::Relaxed)))
}

/// Prints errors of read data, and an error if the run has reached the maximum simulated time. Returns the ending of
/// `phaselink run`.
fn run_ending(simulation: &Simulation, is_finished: bool, is_stopped: bool) -> CommandEnding {
    for problem in simulation.data_problems() {
        eprintln!("error: {problem}");
    }
    match (is_finished, is_stopped) {
        (false, true) => CommandEnding::Interrupted,
        (false, false) => {
            eprintln!(
                "error: simulated time has reached its end after {END_DAYS} days: take fewer requests (--number-ios)"
            );
            CommandEnding::Off
        }
        _ if simulation.data_problems().is_empty() => CommandEnding::Fine,
        _ => CommandEnding::Off,
    }
}

/// Returns the conclusion of a run, the state in which the drive was measured, and the evidence for the model.
fn run_conclusion(concluded: &RunConclusionText, outcome: &Outcome) -> String {
    let sentences =
        concluded.findings.iter().map(|it| styled_for_stdout(&describe::wrapped(&it.sentence, ""), TextStyle::Bold));
    let state = words::measured(outcome.measured).map(|state| describe::wrapped(&format!("Measured {state}."), ""));
    let behind = describe::wrapped(&evidence::sentence(&concluded.evidence), "");
    sentences.chain(state).chain([behind, String::from("\n")]).collect()
}

impl Arguments {
    /// Returns the jobs that run on the drive. With `--precision`, each thread of a job without an end gets a limit of
    /// requests (`precision::IOS_MAX`).
    fn workload(&self, drive: &Drive) -> Result<Workload, Problems> {
        let limits = drive.limits();
        let workload = match self.precision {
            Some(_) => self.workload.ending_after(precision::IOS_MAX).resolve(&limits)?,
            None => self.workload.resolve(&limits)?,
        };
        workload::tell_engine_without_effect([(drive, &workload.jobs[..])].into_iter());
        self.precision.map_or(Ok(()), |_| precision::check(&workload.jobs))?;
        Ok(workload)
    }

    /// Runs the simulation until its figures have the precision of `--precision`, or until its jobs end. Without
    /// `--precision`, records a timeline if one is given.
    fn run(
        &self,
        simulation: &mut Simulation,
        timeline: Option<&mut RunTimeline>,
        progress: &Progress,
        stopped: &AtomicBool,
    ) -> Option<Measurement> {
        let stop = || stopped.load(Ordering::Relaxed);
        match (self.precision, timeline) {
            (Some(goal), _) => return Some(precision::measure(simulation, goal, stop)),
            (None, Some(timeline)) => progress.watch(simulation, timeline, stop),
            (None, None) => progress.drive(simulation, stop),
        }
        None
    }

    /// Returns the prediction intervals of all figures of a run, or none without `--intervals`.
    fn run_prediction_intervals(
        &self,
        described: &Described,
        workload: &Workload,
        outcome: &Outcome,
        stopped: &AtomicBool,
    ) -> Option<RunFigureIntervals> {
        let draws = self.intervals.draws_for_drive(described.drive())?;
        let progress = Progress::of(draws.count());
        let drawn = |_: &(), draws: &ConstantDraws, draw| {
            let drive = input::drive_of_draw(described, draws, draw)?;
            let mut simulation = Simulation::new(&drive, &workload.on(&drive.limits())?, self.seed).ok()?;
            self.run(&mut simulation, None, &progress, stopped);
            Some(intervals::of_run(&Figures::of(&simulation.outcome())))
        };
        let central = intervals::of_run(&Figures::of(outcome));
        let doubted = intervals::intervals(vec![IntervalSubject { draws, central, subject: () }], drawn).pop();
        progress.finish();
        doubted
    }

    fn add_uncertainty(&self, document: &mut Value, trust: &RunUncertainty) {
        if let Some(measurement) = &trust.measurement {
            document["precision"] = value(&precision::document(measurement));
        }
        if let Some(doubted) = &trust.doubted {
            document["intervals"] = value(&doubted.document());
        }
    }

    fn uncertainty_text(&self, trust: &RunUncertainty) -> String {
        let measurement = trust.measurement.as_ref().zip(self.precision);
        let known = measurement
            .map(|(measurement, goal)| format!("\n{}", describe::wrapped(&precision::text(measurement, goal), "  ")));
        let doubted = trust.doubted.as_ref().map(|doubted| format!("\n{}", intervals::run_interval_text(doubted)));
        [known, doubted].into_iter().flatten().collect()
    }
}

impl ResultFlags {
    fn open(&self, workload: &Workload) -> Result<Targets, Problems> {
        let create = |flag, path: Option<&Path>| path.map(|path| Target::create(flag, path)).transpose();
        Ok(Targets {
            document: create("--json", self.json.as_ref().and_then(Option::as_deref))?,
            report: self.report.open()?,
            perfetto: create("--perfetto", self.perfetto.as_deref())?,
            distributions: distributions::open(self.hgrm.as_deref(), workload)?,
        })
    }
}

impl Targets {
    fn write(
        self,
        simulation: &Simulation,
        outcome: &Outcome,
        document: &Value,
        page: impl FnOnce() -> String,
    ) -> Result<(), Problems> {
        if let Some(target) = self.document {
            target.write(&output::json_text(document))?;
        }
        if let Some(report) = self.report {
            report.write(&page(), document)?;
        }
        if let Some(target) = self.perfetto {
            target.write(&report::perfetto(simulation.trace()))?;
        }
        distributions::write(self.distributions, outcome)
    }
}
