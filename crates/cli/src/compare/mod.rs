//! `phaselink compare`: drives side by side, doing the same work.

mod causes;
mod findings;
mod json;
mod label;
mod points;
mod text;

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::ledger::{DirectionOutcome, Outcome};
use phaselink_core::predict::{Usage, usage};
use phaselink_core::problem::Problems;
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::Job;
use rayon::prelude::*;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::progress::Progress;
use crate::{input, output};
use label::{Label, Named};
use points::{Point, PointFlags};

/// What is compared when no drive is named.
const SET_DEFAULT: &str = "interfaces";

const EXAMPLES: &str = include_str!("../../help/compare.txt");

/// Run the same requests on several drives and print them side by side.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Drive files, or names of shipped drives
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    points: PointFlags,
    #[command(flatten)]
    flags: DriveFlags,
}

/// What is run: every point on every drive.
struct Comparison {
    drives: Vec<Drive>,
    points: Vec<Point>,
    /// Options of the jobs besides their sizes, as `name=value`.
    options: Vec<String>,
    seed: u64,
    /// Overrides as typed.
    set: Vec<String>,
}

/// The result of one drive at one point.
struct Cell {
    outcome: Outcome,
    /// Reads and writes of all jobs together.
    figures: DirectionOutcome,
    /// How busy each resource was, the busiest first.
    usage: Vec<Usage>,
}

/// The results of all drives, in their order, at one point; none of a drive whose queues are too short for it.
struct Group {
    label: Label,
    cells: Vec<Option<Cell>>,
}

/// Run the command.
pub fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let comparison = arguments.resolve()?;
    let groups = comparison.run()?;
    match arguments.json {
        true => output::print_json(&output::headed("compare", json::document(&comparison, &groups)))?,
        false => output::print(&text::text(&comparison, &groups))?,
    }
    Ok(Ending::Fine)
}

impl Arguments {
    fn resolve(&self) -> Result<Comparison, Problems> {
        let overrides = self.flags.resolve()?;
        let drives = match self.drives.is_empty() {
            true => {
                let names: Vec<String> = shipped::set(SET_DEFAULT).into_iter().map(String::from).collect();
                input::drives(&names, &overrides)?
            }
            false => input::drives(&self.drives, &overrides)?,
        };
        Ok(Comparison {
            points: self.points.resolve(&drives)?,
            options: self.points.options()?,
            drives,
            seed: self.seed,
            set: self.flags.texts(),
        })
    }
}

impl Comparison {
    /// Run all of it, on all processors.
    fn run(&self) -> Result<Vec<Group>, Problems> {
        let pairs = self.points.iter().flat_map(|point| self.drives.iter().zip(&point.jobs));
        let simulation = |(drive, jobs): (_, &Option<Vec<Job>>)| {
            jobs.as_ref().map(|jobs| Simulation::new(drive, jobs, self.seed)).transpose()
        };
        let mut simulations = input::all(pairs.clone().map(simulation))?;
        let progress = Progress::of(simulations.iter().flatten().count());
        simulations.par_iter_mut().flatten().for_each(|simulation| progress.drive(simulation, || false));
        progress.finish();
        let cell = |(simulation, (drive, jobs)): (&Option<Simulation>, (&Drive, &Option<Vec<Job>>))| {
            Some(Cell::new(drive, jobs.as_ref()?, simulation.as_ref()?.outcome()))
        };
        let mut cells = simulations.iter().zip(pairs).map(cell);
        let group = |point: &Point| Group {
            label: point.label.clone(),
            cells: cells.by_ref().take(self.drives.len()).collect(),
        };
        Ok(self.points.iter().map(group).collect())
    }
}

/// Which sizes of the jobs are worth naming.
fn named(groups: &[Group]) -> Named {
    Named::of(groups.iter().map(|group| &group.label))
}

impl Cell {
    fn new(drive: &Drive, jobs: &[Job], outcome: Outcome) -> Cell {
        let mut figures = DirectionOutcome::default();
        for (_, direction) in outcome.jobs.iter().flat_map(|job| job.directions()) {
            figures.ios += direction.ios;
            figures.bytes += direction.bytes;
            figures.runtime = figures.runtime.max(direction.runtime);
            figures.total.merge(&direction.total);
            figures.stages.add(&direction.stages);
        }
        Cell { usage: usage(drive, jobs, &outcome), outcome, figures }
    }
}

impl Cell {
    /// The busier direction of the link, 0 to 1.
    fn link_busy(&self) -> f64 {
        let elapsed = self.outcome.elapsed;
        self.outcome.upstream.busy_share(elapsed).max(self.outcome.downstream.busy_share(elapsed))
    }
}
