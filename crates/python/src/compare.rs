//! Comparison of drives under the same jobs, for Python.

use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::drive;
use phaselink_core::drive_file::Described;
use phaselink_core::problem::{Problems, all};
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::Job;
use phaselink_studies::compare::{
    Cell, ComparedGroup, ComparedPoint, EqualLoadGroup, RequestedSizes, document, lines_at_equal_load,
};
use phaselink_studies::precision::{self, PrecisionGoal};
use phaselink_studies::report::headed;
use phaselink_studies::results::units;
use phaselink_studies::uncertainty::of_run;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::doubt;
use crate::drive::Drive;
use crate::input::{self, Jobs};
use crate::interrupt::{Progress, outcome, watched};
use crate::run::goal;

/// Options of a comparison, as Python passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CompareQuestion {
    bs: Vec<String>,
    iodepth: Vec<String>,
    numjobs: Vec<String>,
    /// Number of requests of each line over all its threads.
    ios: Option<u64>,
    seed: u64,
    /// Goal of precision at which a run may end, such as `1%` or `p99.99=10%`.
    precision: Option<String>,
    /// Load at which the drives are compared, in place of a depth, such as `iops=100k`.
    at: Option<String>,
    /// Overrides that all drives have been loaded with.
    set: Vec<String>,
    /// Number of draws of the uncertain constants.
    draws: Option<usize>,
}

/// Runs the same jobs on several drives, on all processors, and returns the document that `phaselink compare --json`
/// prints.
///
/// # Errors
/// Everything that keeps the jobs from any drive; what a signal handler raises.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    drives: Vec<Py<Drive>>,
    jobs: &Jobs,
    question: CompareQuestion,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let CompareQuestion { bs, iodepth, numjobs, ios, seed, precision, at, set, draws } = question;
    let precision = goal(precision.as_deref())?;
    let at = at.as_deref().map(load).transpose()?;
    let described: Vec<&Described> = drives.iter().map(|drive| &drive.get().0).collect();
    let drives: Vec<drive::Drive> = described.iter().map(|described| described.drive().clone()).collect();
    let grid = RequestedSizes { bs, iodepth, numjobs, ios: ios.or(precision.map(|_| precision::IOS_MAX)) };
    let grid = if at.is_some() { grid.at_load(&jobs.given()) } else { grid };
    let points = points(&grid, jobs, at, &drives).map_err(|problems| input::error(py, &problems))?;
    let progress = Progress::new(progress, points.len() * drives.len());
    let ran = watched(py, &progress, |stopped| -> Result<String, Problems> {
        let lines: Vec<&[Option<Vec<Job>>]> = points.iter().map(|point| &point.jobs[..]).collect();
        let cells_of = |lines: &[&[Option<Vec<Job>>]]| cells(lines, &drives, (seed, precision), stopped, &progress);
        let cells = cells_of(&lines)?;
        let group = |(point, cells): (&ComparedPoint, _)| ComparedGroup { label: point.label.clone(), cells };
        let mut groups: Vec<ComparedGroup> = points.iter().zip(cells).map(group).collect();
        let loads = lines_at_equal_load(&points, &groups);
        let lines: Vec<&[Option<Vec<Job>>]> = loads.iter().map(|load| &load.jobs[..]).collect();
        let at_load = cells_of(&lines)?.into_iter();
        let loaded: Vec<EqualLoadGroup> =
            loads.into_iter().zip(at_load).map(|(load, cells)| load.with_cells(cells)).collect();
        if let Some(draws) = draws {
            add_intervals(&mut groups, &points, &described, draws, (seed, precision), stopped);
        }
        let compared = document(seed, (&options(jobs), &set), &drives, &groups, &loaded);
        Ok(headed("compare", compared).to_string())
    })?;
    ran.map_err(|problems| input::error(py, &problems))
}

/// Reads a load such as `iops=100k`.
///
/// # Errors
/// A text that is none.
fn load(text: &str) -> PyResult<f64> {
    let iops = units::parse_count(text.strip_prefix("iops=").unwrap_or(text)).filter(|iops| *iops >= 1.0);
    iops.ok_or_else(|| input::InputError::new_err(format!("at is {text}; allowed: requests a second, as in iops=100k")))
}

fn points(
    grid: &RequestedSizes,
    jobs: &Jobs,
    at: Option<f64>,
    drives: &[drive::Drive],
) -> Result<Vec<ComparedPoint>, Problems> {
    let point = |options: &[(&str, &str)]| {
        let written = jobs.written(options)?;
        ComparedPoint::new(at.map_or(written.clone(), |iops| written.offering(iops)), drives)
    };
    match jobs.files {
        Some(_) => Ok(vec![point(&[])?]),
        None => grid.lines(&jobs.given(), drives.len(), point),
    }
}

/// Returns the options of the jobs, other than their sizes, as `name=value`.
fn options(jobs: &Jobs) -> Vec<String> {
    let others = jobs.options.iter().filter(|(name, _)| !["rw", "readwrite"].contains(&name.as_str()));
    others.map(|(name, value)| format!("{name}={value}")).collect()
}

/// Runs the jobs of several lines on all drives, in parallel, and returns the results of the drives for each line.
fn cells(
    lines: &[&[Option<Vec<Job>>]],
    drives: &[drive::Drive],
    (seed, precision): (u64, Option<PrecisionGoal>),
    stopped: &AtomicBool,
    progress: &Progress,
) -> Result<Vec<Vec<Option<Cell>>>, Problems> {
    let pairs = || lines.iter().flat_map(|jobs| drives.iter().zip(*jobs));
    let simulation = |(drive, jobs): (&drive::Drive, &Option<Vec<_>>)| {
        jobs.as_ref().map(|jobs| Simulation::new(drive, jobs, seed)).transpose()
    };
    let simulations = all(pairs().map(simulation))?;
    let cell = |((drive, jobs), simulation): ((&drive::Drive, &Option<Vec<_>>), Option<Simulation>)| {
        let (mut simulation, jobs) = (simulation?, jobs.as_ref()?);
        let stop = || stopped.load(Ordering::Relaxed);
        let measurement = precision.map(|goal| precision::measure(&mut simulation, goal, stop));
        let outcome = if measurement.is_some() { simulation.outcome() } else { outcome(simulation, stopped) };
        progress.advance();
        Some(Cell { measurement, ..Cell::new(drive, jobs, outcome) })
    };
    let pairs: Vec<_> = pairs().zip(simulations).collect();
    let mut cells = pairs.into_par_iter().map(cell).collect::<Vec<_>>().into_iter();
    Ok(lines.iter().map(|_| cells.by_ref().take(drives.len()).collect()).collect())
}

/// Adds prediction intervals of the figures to every cell.
fn add_intervals(
    groups: &mut [ComparedGroup],
    points: &[ComparedPoint],
    described: &[&Described],
    draws: usize,
    (seed, precision): (u64, Option<PrecisionGoal>),
    stopped: &AtomicBool,
) {
    for (group, point) in groups.iter_mut().zip(points) {
        for (cell, described) in group.cells.iter_mut().zip(described) {
            let Some(cell) = cell else { continue };
            let drawn = |drive: &drive::Drive| {
                let jobs = point.written.on(&drive.limits()).ok()?;
                Some(doubt::figures(Simulation::new(drive, &jobs, seed).ok()?, precision, stopped))
            };
            cell.doubted = Some(doubt::prediction_intervals(described, draws, of_run(&cell.figures), drawn));
        }
    }
}
