//! Drives side by side.

use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::compare::{Cell, Grid, Point, document, entry};
use phaselink_core::drive;
use phaselink_core::drive_file::Described;
use phaselink_core::precision;
use phaselink_core::problem::{Problems, all};
use phaselink_core::report::headed;
use phaselink_core::simulation::Simulation;
use phaselink_core::uncertainty::{Named, of_run};
use pyo3::prelude::*;
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::doubt;
use crate::drive::Drive;
use crate::input::{self, Jobs};
use crate::interrupt::{interruptible, outcome};

/// A cell of the document, and its figures if the job fits the drive.
type Ran = (Map<String, Value>, Option<Named>);

/// Run the same jobs on several drives, on all processors, and give the document that `phaselink compare --json` prints.
///
/// # Errors
/// Everything that keeps the jobs from any drive; what a signal handler raises.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called from Python with names")]
pub(crate) fn compare(
    py: Python<'_>,
    drives: Vec<Py<Drive>>,
    jobs: &Jobs,
    bs: Vec<String>,
    iodepth: Vec<String>,
    numjobs: Vec<String>,
    ios: Option<u64>,
    seed: u64,
    precision: Option<f64>,
    set: Vec<String>,
    draws: Option<usize>,
) -> PyResult<String> {
    let described: Vec<&Described> = drives.iter().map(|drive| &drive.get().0).collect();
    let drives: Vec<drive::Drive> = described.iter().map(|described| described.drive().clone()).collect();
    let grid = Grid { bs, iodepth, numjobs, ios: ios.or(precision.map(|_| precision::IOS_MAX)) };
    let ran = interruptible(py, |stopped| -> Result<String, Problems> {
        let points = points(&grid, jobs, &drives)?;
        let mut cells = cells(&points, &drives, (seed, precision), stopped)?;
        if let Some(draws) = draws {
            doubt_cells(&mut cells, &points, &described, draws, (seed, precision), stopped);
        }
        let cells = cells.into_iter().map(|(entry, _)| entry).collect();
        let rw = points.first().and_then(|point| point.label.rw);
        let compared = document((seed, rw), &options(jobs), &set, cells, &drives);
        Ok(headed("compare", compared).to_string())
    })?;
    ran.map_err(|problems| input::error(py, &problems))
}

fn points(grid: &Grid, jobs: &Jobs, drives: &[drive::Drive]) -> Result<Vec<Point>, Problems> {
    if jobs.files.is_some() {
        return Ok(vec![Point::new(jobs.written(&[])?, drives)?]);
    }
    let given = jobs.given();
    let combinations = grid.combinations(&given, drives.len())?;
    all(combinations.iter().map(|sizes| {
        let ios = grid.ios_of_a_thread(sizes, &given);
        let ios = ios.as_ref().map(|ios| ("number_ios", ios.as_str()));
        Point::new(jobs.written(&sizes.iter().copied().chain(ios).collect::<Vec<_>>())?, drives)
    }))
}

/// Options besides the sizes, as `name=value`.
fn options(jobs: &Jobs) -> Vec<String> {
    let others = jobs.options.iter().filter(|(name, _)| !["rw", "readwrite"].contains(&name.as_str()));
    others.map(|(name, value)| format!("{name}={value}")).collect()
}

fn cells(
    points: &[Point],
    drives: &[drive::Drive],
    (seed, precision): (u64, Option<f64>),
    stopped: &AtomicBool,
) -> Result<Vec<Ran>, Problems> {
    let pairs: Vec<_> = points
        .iter()
        .flat_map(|point| drives.iter().zip(&point.jobs).map(move |(drive, jobs)| (point, drive, jobs)))
        .collect();
    let simulation = |(_, drive, jobs): &(&Point, &drive::Drive, &Option<Vec<_>>)| {
        jobs.as_ref().map(|jobs| Simulation::new(drive, jobs, seed)).transpose()
    };
    let simulations = all(pairs.iter().map(simulation))?;
    let cell = |((point, drive, jobs), simulation): (&(&Point, &drive::Drive, &Option<Vec<_>>), Option<_>)| {
        let Some((mut simulation, jobs)) = simulation.zip(jobs.as_ref()) else {
            return (entry(&point.label, drive, None), None);
        };
        let stop = || stopped.load(Ordering::Relaxed);
        let measured = precision.map(|share| (precision::measure(&mut simulation, share, stop), share));
        let outcome = if measured.is_some() { simulation.outcome() } else { outcome(simulation, stopped) };
        let cell = Cell::new(drive, jobs, outcome);
        let mut entry = entry(&point.label, drive, Some(&cell));
        if let Some((measurement, share)) = measured {
            entry.insert(String::from("precision"), precision::json(&measurement, share));
        }
        (entry, Some(of_run(&cell.figures)))
    };
    Ok(pairs.par_iter().zip(simulations).map(cell).collect())
}

/// Give every cell the intervals of its figures.
fn doubt_cells(
    cells: &mut [Ran],
    points: &[Point],
    described: &[&Described],
    draws: usize,
    (seed, precision): (u64, Option<f64>),
    stopped: &AtomicBool,
) {
    let pairs = points.iter().flat_map(|point| described.iter().map(move |described| (point, described)));
    for ((entry, figures), (point, described)) in cells.iter_mut().zip(pairs) {
        let Some(figures) = figures.take() else { continue };
        let drawn = |drive: &drive::Drive| {
            let jobs = point.written.on(&drive.limits()).ok()?;
            Some(doubt::figures(Simulation::new(drive, &jobs, seed).ok()?, precision, stopped))
        };
        let doubted = doubt::doubted(described, draws, figures, drawn);
        entry.insert(String::from("intervals"), doubted.json());
    }
}
