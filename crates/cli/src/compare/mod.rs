//! `phaselink compare`: runs the same workload on several drives and shows the results side by side.

mod curves;
mod page;
mod points;
mod text;
mod trust;

use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{Described, shipped};
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::Problems;
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::Job;
use phaselink_studies::compare::{self, Cell, ComparedGroup, EqualLoadGroup, SET_DEFAULT};
use phaselink_studies::precision::{Measurement, PrecisionGoal};
use phaselink_studies::results::Figures;
use rayon::prelude::*;
use serde_json::Value;

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure};
use crate::intervals::{IntervalFlags, IntervalSubject};
use crate::output::ReportFlags;
use crate::progress::Progress;
use crate::run::workload::tell_engine_without_effect;
use crate::{input, interrupt, intervals, notes, output, precision};
use points::{Line, PointFlags};

const EXAMPLES: &str = include_str!("../../help/compare.txt");

/// Simulate one workload on several drives, and print their throughput, latency and busy cores side by side.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drives to compare: drive files, names of shipped drives, or names of sets of shipped drives (2012, 2018, 2026,
    /// cloud); without any, eight interfaces over equal memory
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,
    /// Seed of the simulations' random numbers, such as offsets and service times; draws of --intervals always use seed
    /// 1
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print results of the comparison as JSON in place of the table
    #[arg(long)]
    json: bool,
    /// Print only the table of the comparison, in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[command(flatten)]
    report: ReportFlags,
    /// Add two columns to the table: energy of the whole server for each request in joules, and the part of this energy
    /// above the idle server's
    #[arg(long)]
    energy: bool,
    /// Print all assumptions of the comparison below the table: completion methods, memories, links, hosts and
    /// interfaces of the drives
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    explain: bool,
    /// End each run once the 95 % confidence intervals of mean and p99 latency are within this share of the values, as
    /// in 1%, or that of a percentile, as in p99.99=10% or read_p99_9=5%. A job without an end then ends after 50
    /// million requests
    #[arg(long, value_name = "[PERCENTILE=]PERCENT", value_parser = PrecisionGoal::parse)]
    precision: Option<PrecisionGoal>,
    #[command(flatten)]
    intervals: IntervalFlags,
    #[command(flatten)]
    points: PointFlags,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Outcome of one simulated run of a comparison, and the measured precision of the run's figures if `--precision` is
/// given.
type RanCell = (Outcome, Option<Measurement>);

/// Drives, lines and settings of `phaselink compare`; the jobs of each line run on every drive.
struct Comparison {
    described: Vec<Described>,
    drives: Vec<Drive>,
    intervals: IntervalFlags,
    /// Figures and their relative precision at which a run ends, or none without `--precision`.
    precision: Option<PrecisionGoal>,
    lines: Vec<Line>,
    /// Options of the jobs, other than their sizes, as `name=value`.
    options: Vec<String>,
    seed: u64,
    /// Overrides of drive keys from the command line, as `KEY=VALUE`.
    set: Vec<String>,
    /// True if the table of the comparison has columns of energy (`--energy`).
    energy: bool,
    /// True if the text of the comparison lists all assumptions (`--explain`).
    explain: bool,
}

/// Runs `phaselink compare`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let mut comparison = arguments.resolve()?;
    comparison.tell_engine_without_effect();
    let report = arguments.report.open()?;
    let stopped = interrupt::flag();
    let mut groups = comparison.run(&stopped)?;
    let loaded = comparison.rerun_at_equal_load(&groups, &stopped)?;
    comparison.add_intervals(&mut groups, &stopped);
    let is_stopped = stopped.load(Ordering::Relaxed);
    if is_stopped {
        notes::tell(&comparison.finished(&groups));
        let is_text = !arguments.json && !arguments.markdown;
        comparison.drop_unfinished_lines(&mut groups, is_text);
    }
    let document = || output::headed("compare", comparison.document(&groups, &loaded));
    if let Some(report) = report {
        report.write(&page::page(&comparison, &groups, &loaded), &document())?;
    }
    match (arguments.json, arguments.markdown) {
        (true, _) => output::print_json(&document())?,
        (_, true) => output::print(&text::table(&comparison, &groups).markdown())?,
        _ => output::print(&text::text(&comparison, &groups, &loaded))?,
    }
    Ok(if is_stopped { CommandEnding::Interrupted } else { CommandEnding::Fine })
}

impl Arguments {
    fn resolve(&self) -> Result<Comparison, Problems> {
        let overrides = self.flags.resolve()?;
        let described = input::drives_to_compare(&self.drive_names_of_sets(), &overrides)?;
        let drives: Vec<Drive> = described.iter().map(|described| described.drive().clone()).collect();
        Ok(Comparison {
            lines: self.points.resolve(&drives, self.precision.map(|_| precision::IOS_MAX))?,
            options: self.points.options()?,
            intervals: self.intervals,
            precision: self.precision,
            described,
            drives,
            seed: self.seed,
            set: self.flags.texts(),
            energy: self.energy,
            explain: self.explain,
        })
    }
}

impl Arguments {
    /// Returns the drives to compare, with the names of sets replaced by their drives.
    fn drive_names_of_sets(&self) -> Vec<String> {
        let of_set = |name: &str| -> Vec<String> { shipped::set(name).into_iter().map(String::from).collect() };
        if self.drives.is_empty() {
            return of_set(SET_DEFAULT);
        }
        let named = |name: &String| Some(of_set(name)).filter(|set| !set.is_empty()).unwrap_or(vec![name.clone()]);
        self.drives.iter().flat_map(named).collect()
    }
}

impl Comparison {
    fn document(&self, groups: &[ComparedGroup], loaded: &[EqualLoadGroup]) -> Value {
        compare::document(self.seed, (&self.options, &self.set), &self.drives, groups, loaded)
    }

    fn tell_engine_without_effect(&self) {
        let Some(line) = self.lines.first() else { return };
        let jobs = self.drives.iter().zip(&line.point.jobs);
        tell_engine_without_effect(jobs.filter_map(|(drive, jobs)| Some((drive, jobs.as_deref()?))));
    }

    /// Simulates all lines of the comparison on all drives.
    fn run(&self, stopped: &AtomicBool) -> Result<Vec<ComparedGroup>, Problems> {
        let jobs: Vec<&[Option<Vec<Job>>]> = self.lines.iter().map(|line| &line.point.jobs[..]).collect();
        let cells = self.simulate_lines(&jobs, stopped)?;
        let group = |(line, cells): (&Line, _)| ComparedGroup { label: line.point.label.clone(), cells };
        Ok(self.lines.iter().zip(cells).map(group).collect())
    }

    /// Simulates the lines whose drives differ much in throughput once more, at equal load. Returns none of them if the
    /// user stops that.
    fn rerun_at_equal_load(
        &self,
        groups: &[ComparedGroup],
        stopped: &AtomicBool,
    ) -> Result<Vec<EqualLoadGroup>, Problems> {
        let is_whole = self.lines.iter().zip(groups).all(|(line, group)| is_finished(line, group));
        let points = self.lines.iter().map(|line| &line.point);
        let loads = if is_whole { compare::lines_at_equal_load(points, groups) } else { Vec::new() };
        let jobs: Vec<&[Option<Vec<Job>>]> = loads.iter().map(|load| &load.jobs[..]).collect();
        let cells = self.simulate_lines(&jobs, stopped)?;
        let is_stopped = stopped.load(Ordering::Relaxed);
        Ok(loads.into_iter().zip(cells).filter(|_| !is_stopped).map(|(load, cells)| load.with_cells(cells)).collect())
    }

    /// Simulates the jobs of several lines on all drives, in parallel. Returns the results of the drives for each line;
    /// runs that the user has stopped have none.
    fn simulate_lines(
        &self,
        lines: &[&[Option<Vec<Job>>]],
        stopped: &AtomicBool,
    ) -> Result<Vec<Vec<Option<Cell>>>, Problems> {
        let pairs = lines.iter().flat_map(|jobs| self.drives.iter().zip(*jobs));
        let simulation = |(drive, jobs): (_, &Option<Vec<Job>>)| {
            let Some(jobs) = jobs else { return Ok(None) };
            self.precision.map_or(Ok(()), |_| precision::check(jobs))?;
            Simulation::new(drive, jobs, self.seed).map(Some)
        };
        let mut simulations = input::all(pairs.clone().map(simulation))?;
        let progress = Progress::of(simulations.iter().flatten().count());
        let ran = simulations.iter_mut().enumerate().par_bridge().map(|(place, simulation)| {
            let ran = simulation.as_mut().filter(|_| !stopped.load(Ordering::Relaxed)).map(|simulation| {
                let measurement = self.run_until_end_or_stop(simulation, &progress, stopped);
                (simulation.outcome(), measurement)
            });
            (place, ran.filter(|_| !stopped.load(Ordering::Relaxed)))
        });
        let mut ran: Vec<(usize, Option<RanCell>)> = ran.collect();
        progress.finish();
        ran.sort_by_key(|(place, _)| *place);
        let mut cells = ran.into_iter().zip(pairs).map(|((_, ran), (drive, jobs))| {
            let (outcome, measurement) = ran?;
            Some(Cell { measurement, ..Cell::new(drive, jobs.as_ref()?, outcome) })
        });
        Ok(lines.iter().map(|_| cells.by_ref().take(self.drives.len()).collect()).collect())
    }
}

impl Comparison {
    /// Returns a note with the number of runs that were finished when the user stopped the comparison.
    fn finished(&self, groups: &[ComparedGroup]) -> String {
        let runs = self.lines.iter().flat_map(|line| &line.point.jobs).flatten().count();
        let finished = groups.iter().flat_map(|group| &group.cells).flatten().count();
        format!("stopped: {finished} of {runs} runs are finished")
    }

    /// Removes unfinished lines of a comparison that the user has stopped: lines without a result of a drive that can
    /// run their jobs. With `partly`, keeps each line with a result of at least one drive.
    fn drop_unfinished_lines(&mut self, groups: &mut Vec<ComparedGroup>, partly: bool) {
        let is_kept = |line: &Line, group: &ComparedGroup| {
            is_finished(line, group) || (partly && group.cells.iter().any(Option::is_some))
        };
        let kept: Vec<bool> = self.lines.iter().zip(&*groups).map(|(line, group)| is_kept(line, group)).collect();
        let mut of_lines = kept.iter();
        self.lines.retain(|_| of_lines.next() == Some(&true));
        let mut of_groups = kept.iter();
        groups.retain(|_| of_groups.next() == Some(&true));
    }

    /// Runs a simulation to its end, to the precision of `--precision`, or until the user stops it.
    fn run_until_end_or_stop(
        &self,
        simulation: &mut Simulation,
        progress: &Progress,
        stopped: &AtomicBool,
    ) -> Option<Measurement> {
        let stop = || stopped.load(Ordering::Relaxed);
        match self.precision {
            Some(goal) => Some(precision::measure(simulation, goal, stop)),
            None => {
                progress.drive(simulation, stop);
                None
            }
        }
    }

    /// Adds the prediction intervals of `--intervals` to the figures of every cell. Adds none if the user stops the
    /// computation.
    fn add_intervals(&self, groups: &mut [ComparedGroup], stopped: &AtomicBool) {
        let pairs = self.lines.iter().flat_map(|line| self.described.iter().map(move |it| (&line.point, it)));
        let cells = groups.iter().flat_map(|group| &group.cells);
        let subjects = pairs.zip(cells).filter_map(|(subject, cell)| {
            let central = intervals::of_run(&cell.as_ref()?.figures);
            Some(IntervalSubject { draws: self.intervals.draws_for_drive(subject.1.drive())?, central, subject })
        });
        let subjects: Vec<_> = subjects.collect();
        let progress = Progress::of(subjects.iter().map(|subject| subject.draws.count()).sum());
        let doubted = intervals::intervals(subjects, |(point, described), draws, draw| {
            let drive = input::drive_of_draw(described, draws, draw).filter(|_| !stopped.load(Ordering::Relaxed))?;
            let mut simulation = Simulation::new(&drive, &point.written.on(&drive.limits()).ok()?, self.seed).ok()?;
            self.run_until_end_or_stop(&mut simulation, &progress, stopped);
            Some(intervals::of_run(&Figures::of(&simulation.outcome())))
        });
        progress.finish();
        if stopped.load(Ordering::Relaxed) {
            return;
        }
        let cells = groups.iter_mut().flat_map(|group| group.cells.iter_mut().flatten());
        cells.zip(doubted).for_each(|(cell, doubted)| cell.doubted = Some(doubted));
    }
}

/// Returns true if each drive that can run the jobs of a line has a result.
fn is_finished(line: &Line, group: &ComparedGroup) -> bool {
    line.point.jobs.iter().zip(&group.cells).all(|(jobs, cell)| jobs.is_some() == cell.is_some())
}
