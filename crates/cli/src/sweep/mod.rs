//! `phaselink sweep`: runs all points of a plan in parallel, and saves finished runs in a file.

mod choice;
mod drawn;
mod report;
mod search;
mod state_file;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use phaselink_core::number::length;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::simulation::Simulation;
use phaselink_studies::results::units;
use phaselink_studies::sweep::page::page;
use phaselink_studies::sweep::text::{self, FinishedPoint};
use phaselink_studies::sweep::{Figures, Files, Hash, Plan, PointProblems, Sweep};
use rayon::prelude::*;

use crate::ending::{CommandEnding, Failure};
use crate::intervals::IntervalFlags;
use crate::output::claims::{self, Role};
use crate::output::{Report, ReportFlags, Target};
use crate::progress::Progress;
use crate::{input, interrupt, notes, output, precision, traces};
use choice::RowChoiceFlags;
use drawn::{PointConstantDraws, Work};
use search::{SearchFlags, SearchPoints};
use state_file::StateFile;

const EXAMPLES: &str = include_str!("../../help/sweep.txt");

/// Simulate all points of a plan that varies keys of a drive and a job, and print a row with the figures of each point.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Plan of the sweep (TOML): a drive, a job, and axes with the values of varied keys (docs/sweep.md)
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Figures in the columns of the sweep's table, separated by commas, in place of the plan's columns (docs/sweep.md
    /// lists all figures)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Print results of the sweep as comma-separated values in place of the table; with =FILE, print the table and
    /// write the values to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    csv: Option<Option<PathBuf>>,
    /// Print results of the sweep as JSON in place of the table; with =FILE, print the table and write the JSON to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
    /// File that keeps the results of finished runs, so that a stopped sweep can continue [default: beside the plan]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// End the run of each point once the 95 % confidence intervals of mean and p99 latency are within this share of
    /// the values, as in 1%. A job without an end then ends after 50 million requests of each thread
    #[arg(long, value_name = "PERCENT", value_parser = precision::share)]
    precision: Option<f64>,
    #[command(flatten)]
    intervals: IntervalFlags,
    /// Delete the results of earlier runs from the state file, and run all points of the plan again
    #[arg(long)]
    fresh: bool,
    /// List points of the plan that cannot run on standard error, and run the others; without --skip-invalid, such
    /// points are an error
    #[arg(long)]
    skip_invalid: bool,
    /// Print all assumptions of the sweep below the table: the plan, the job, and the drive of the first point
    #[arg(long, conflicts_with_all = ["csv", "json", "markdown", "target"])]
    explain: bool,
    /// Print only the table of the sweep, in Markdown
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    report: ReportFlags,
    #[command(flatten)]
    choice: RowChoiceFlags,
    #[command(flatten)]
    search: SearchFlags,
}

/// Indices of a plan's points that can run, in ascending order, each with the hash that identifies the run.
type RunnablePoints = Vec<(usize, Hash)>;

/// Runs `phaselink sweep`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    arguments.check()?;
    let (choice, target) = (arguments.choice.read()?, arguments.search.target()?);
    let sweep = arguments.sweep()?;
    let points = arguments.runnable_points(&sweep)?;
    let state_path = arguments.state_path();
    claims::claim(Role::Runs, "--state", &state_path)?;
    let targets = arguments.open()?;
    let mut state = StateFile::open(&state_path, arguments.fresh)?;
    let stopped = interrupt::flag();
    if let Some(target) = target {
        let among = SearchPoints { plan: &arguments.plan, sweep: &sweep, points: &points };
        let document = arguments.json.as_ref().map(|_| targets.json);
        return arguments.search.command(&target, &among, &mut state, &stopped, document);
    }
    let drawn = match arguments.intervals.draws() {
        Some(count) => drawn::of(&sweep, &points, count)?,
        None => Vec::new(),
    };
    let work: Vec<Work> = points
        .iter()
        .map(|(point, hash)| Work { point: *point, draw: None, hash: *hash })
        .chain(drawn.iter().flat_map(PointConstantDraws::work))
        .collect();
    let pending = pending(&work, &state);
    let noun = if drawn.is_empty() { "points" } else { "runs" };
    report_saved_runs(work.len() - pending.len(), work.len(), noun, &state);
    run(&sweep, arguments.precision, &drawn, &pending, &mut state, &stopped)?;
    let done = work.iter().filter(|work| state.figures(work.hash).is_some()).count();
    if done < work.len() {
        report_interrupted_sweep(done, work.len(), noun, &state);
        return Ok(CommandEnding::Interrupted);
    }
    let intervals: Vec<_> = drawn.iter().map(|drawn| drawn.intervals(sweep.plan(), &state)).collect();
    let row = |(place, (point, hash)): (usize, &(usize, Hash))| {
        let intervals = intervals.get(place).map(Vec::as_slice);
        Some(FinishedPoint { point: *point, hash: *hash, figures: state.figures(*hash)?, intervals, verdict: None })
    };
    let rows: Vec<FinishedPoint> = choice.of(points.iter().enumerate().filter_map(row).collect());
    arguments.print(&sweep, &rows, targets)?;
    Ok(CommandEnding::Fine)
}

/// Output files of `phaselink sweep`: comma-separated values, JSON and report.
struct SweepOutputs {
    csv: Option<Target>,
    json: Option<Target>,
    report: Option<Report>,
}

impl Arguments {
    fn check(&self) -> Result<(), Problem> {
        let asked =
            [("--csv", self.csv == Some(None)), ("--json", self.json == Some(None)), ("--markdown", self.markdown)];
        let asked: Vec<&str> = asked.into_iter().filter_map(|(flag, is_asked)| is_asked.then_some(flag)).collect();
        if asked.len() < 2 {
            return Ok(());
        }
        let found = format!("{} both to standard output", asked[..2].join(" and "));
        Err(Problem::new("command line", None, found, "one of them, or --csv=FILE or --json=FILE"))
    }

    /// Reads the plan of the sweep, and all files that the plan names.
    fn sweep(&self) -> Result<Sweep, Problems> {
        let file = self.plan.display().to_string();
        let mut plan = Plan::parse(&file, &input::description(&file)?)?;
        if let Some(names) = &self.columns {
            plan.set_columns(names)?;
        }
        if self.precision.is_some() {
            plan.add_precision_column(precision::IOS_MAX);
        }
        let folder = self.plan.parent().unwrap_or(Path::new(""));
        let files = Files::read(&plan, folder, BTreeMap::new(), input::description, traces::read)?;
        Ok(Sweep::new(plan, files)?.until(self.precision))
    }

    /// Returns all points of the plan that can run, with the hashes of their runs.
    ///
    /// # Errors
    ///
    /// If a point of the plan cannot run, unless `--skip-invalid` is given and another point can run; all problems are
    /// listed.
    fn runnable_points(&self, sweep: &Sweep) -> Result<RunnablePoints, Problems> {
        let plan = sweep.plan();
        let checked = (0..plan.points()).into_par_iter();
        let checked = checked.map_init(|| sweep.resolver(), |resolver, point| (point, resolver.check(point)));
        let (mut points, mut refusals) = (RunnablePoints::new(), PointProblems::default());
        for (point, result) in checked.collect::<Vec<_>>() {
            match result {
                Ok(hash) => points.push((point, hash)),
                Err(problems) => refusals.add(point, problems),
            }
        }
        let problems = refusals.problems(plan);
        if !self.skip_invalid || points.is_empty() {
            return problems.or(points);
        }
        for problem in &problems.0 {
            eprintln!("skipped: {problem}");
        }
        Ok(points)
    }

    fn state_path(&self) -> PathBuf {
        self.state.clone().unwrap_or_else(|| self.plan.with_extension("state.jsonl"))
    }

    fn open(&self) -> Result<SweepOutputs, Problems> {
        let create = |flag, path: &Option<Option<PathBuf>>| {
            path.iter().flatten().next().map(|path| Target::create(flag, path)).transpose()
        };
        Ok(SweepOutputs {
            csv: create("--csv", &self.csv)?,
            json: create("--json", &self.json)?,
            report: self.report.open()?,
        })
    }

    fn print(&self, sweep: &Sweep, rows: &[FinishedPoint], targets: SweepOutputs) -> Result<(), Failure> {
        let plan = sweep.plan();
        if let Some(target) = targets.csv {
            target.write(&text::csv(plan, rows))?;
        }
        if let Some(target) = targets.json {
            target.write(&text::json(plan, rows))?;
        }
        if let Some(report) = targets.report {
            report.write_with_document_text(&page(plan, rows), &text::json(plan, rows))?;
        }
        let text = match (&self.csv, &self.json) {
            (Some(None), _) => text::csv(plan, rows),
            (_, Some(None)) => text::json(plan, rows),
            _ if self.markdown => text::rows_table(plan, rows).markdown(),
            _ => report::text(sweep, rows, self.explain),
        };
        Ok(output::print(&text)?)
    }
}

/// Returns the runs of a sweep that have no saved result. Of runs with equal hashes, returns only the first.
fn pending(work: &[Work], state: &StateFile) -> Vec<Work> {
    let mut seen = BTreeSet::new();
    let is_new = |work: &&Work| state.figures(work.hash).is_none() && seen.insert(work.hash);
    work.iter().filter(is_new).copied().collect()
}

/// Runs `pending` in parallel, and saves each result, until all are done or `stopped` is set.
///
/// # Errors
///
/// If a run fails, or the state file cannot be written. Results that were written before are kept.
fn run(
    sweep: &Sweep,
    precision: Option<f64>,
    drawn: &[PointConstantDraws],
    pending: &[Work],
    state: &mut StateFile,
    stopped: &AtomicBool,
) -> Result<(), Problems> {
    let progress = Progress::of(pending.len());
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let is_over = || stopped.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
    let shared = Mutex::new((state, Problems::default()));
    // All threads take points from one queue in order. Neighbouring points share drives, and no point waits behind a
    // long run.
    rayon::broadcast(|_| {
        let mut resolver = sweep.resolver();
        while let Some(work) = pending.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !is_over()) {
            let ran = work
                .simulation(&mut resolver, drawn)
                .map(|simulation| run_to_figures(simulation, precision, &progress, is_over));
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            // If a trace has changed during the run, the result is wrong, so do not keep it.
            let ran = ran.and_then(|outcome| traces::failures().or(outcome));
            let kept = ran.and_then(|figures| figures.map_or(Ok(()), |figures| shared.0.add(work.hash, figures)));
            if let Err(problems) = kept {
                shared.1.0.extend(problems.0);
                failed.store(true, Ordering::Relaxed);
            }
        }
    });
    progress.finish();
    shared.into_inner().unwrap_or_else(PoisonError::into_inner).1.or(())
}

/// Runs a simulation to its end, or to the precision of `--precision`, and returns the figures. None if the user has
/// stopped the simulation.
fn run_to_figures(
    mut simulation: Simulation,
    wanted: Option<f64>,
    progress: &Progress,
    is_over: impl Fn() -> bool,
) -> Option<Figures> {
    let Some(share) = wanted else {
        progress.drive(&mut simulation, is_over);
        let outcome = simulation.outcome();
        return outcome.finished.then(|| Figures::of(&outcome));
    };
    let measurement = precision::measure(&mut simulation, share, is_over);
    progress.one();
    let outcome = simulation.outcome();
    let known = measurement.estimate().ok().map(|estimate| estimate.share());
    (outcome.finished || measurement.is_known()).then(|| Figures::of(&outcome).with_relative_precision(known))
}

/// Reports on standard error how many runs of a sweep have saved results.
fn report_saved_runs(kept: usize, points: usize, noun: &str, state: &StateFile) {
    if kept > 0 {
        let (kept, points) = (units::grouped(length(kept)), units::grouped(length(points)));
        notes::tell(&format!("{kept} of {points} {noun} have run before ({}; --fresh forgets them)", state.path()));
    }
}

/// Reports on standard error how many runs are finished, and how to continue.
fn report_interrupted_sweep(done: usize, points: usize, noun: &str, state: &StateFile) {
    let (done, points) = (units::grouped(length(done)), units::grouped(length(points)));
    eprintln!("stopped: {done} of {points} {noun} are in {}; the same command goes on from there", state.path());
}
