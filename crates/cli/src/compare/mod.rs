//! `phaselink compare`: drives side by side, over block sizes and queue depths.

mod causes;
mod findings;
mod json;
mod text;

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::ledger::{DirectionOutcome, Outcome};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::{Job, JobFile, Limits, fio};
use rayon::prelude::*;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::progress::Progress;
use crate::{input, output};

/// What is compared when no drive is named.
const SET_DEFAULT: &str = "interfaces";
/// More cells than this are a mistake, or work for a script.
const CELLS_MAX: usize = 10_000;

const EXAMPLES: &str = include_str!("../../help/compare.txt");

/// Run the same requests on several drives and print them side by side.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Drive files, or names of shipped drives
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,
    /// Block sizes, separated by commas
    #[arg(long, value_name = "LIST", default_value = "512,4k", value_delimiter = ',')]
    bs: Vec<String>,
    /// Numbers of requests kept outstanding, separated by commas
    #[arg(long, value_name = "LIST", default_value = "1,32", value_delimiter = ',')]
    iodepth: Vec<String>,
    /// What is done: read, write, rw, randread, randwrite or randrw
    #[arg(long, default_value = "randread")]
    rw: String,
    /// Requests for each line of the table
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    ios: u64,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: DriveFlags,
}

/// What is run: every job on every drive.
struct Comparison {
    drives: Vec<Drive>,
    /// Jobs of one size and depth, in the order in which they are printed.
    points: Vec<Point>,
    rw: String,
    ios: u64,
    seed: u64,
    /// Overrides as typed.
    set: Vec<String>,
}

/// A block size and a queue depth, with the job on each drive whose queues are long enough for it.
struct Point {
    bytes: u32,
    iodepth: u32,
    jobs: Vec<Option<Job>>,
}

/// The result of one drive at one point.
struct Cell {
    outcome: Outcome,
    /// Reads and writes together.
    figures: DirectionOutcome,
}

/// The results of all drives, in their order, at one point; none of a drive whose queues are too short for it.
struct Group {
    bytes: u32,
    iodepth: u32,
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
        let cells = self.bs.len() * self.iodepth.len() * drives.len();
        if cells > CELLS_MAX {
            let found = format!("{cells} combinations of drive, block size and depth");
            return Err(Problem::new("command line", None, found, format!("at most {CELLS_MAX}")).into());
        }
        let points = self.bs.iter().flat_map(|bs| self.iodepth.iter().map(move |iodepth| (bs, iodepth)));
        Ok(Comparison {
            points: input::all(points.map(|(bs, iodepth)| self.point(bs, iodepth, &drives)))?,
            drives,
            rw: self.rw.clone(),
            ios: self.ios,
            seed: self.seed,
            set: self.flags.texts(),
        })
    }

    fn point(&self, bs: &str, iodepth: &str, drives: &[Drive]) -> Result<Point, Problems> {
        let ios = self.ios.to_string();
        // Only the number of requests ends a job: without io_size it would end with the drive's last byte.
        let options =
            [("rw", self.rw.as_str()), ("bs", bs), ("iodepth", iodepth), ("number_ios", &ios), ("io_size", "1024p")];
        let file = fio::from_flags(&options)?;
        let jobs: Vec<Option<Job>> = input::all(drives.iter().map(|drive| job_on(drive, &file)))?;
        if let Some(job) = jobs.iter().flatten().next() {
            return Ok(Point { bytes: job.read_blocks[0].bytes, iodepth: job.iodepth, jobs });
        }
        // No queue is long enough: each says so.
        let problems = input::all(drives.iter().map(|drive| file.resolve(&drive.limits(), &Default::default())));
        Err(problems.err().unwrap_or_default())
    }
}

/// The job on a drive; none if only the drive's queues are too short for it.
fn job_on(drive: &Drive, file: &JobFile) -> Result<Option<Job>, Problems> {
    let limits = drive.limits();
    let problems = match file.resolve(&limits, &Default::default()) {
        Ok(jobs) => return Ok(jobs.into_iter().next()),
        Err(problems) => problems,
    };
    let endless = Limits { queue_entries: u32::MAX, ..limits };
    match file.resolve(&endless, &Default::default()) {
        Ok(_) => Ok(None),
        Err(_) => Err(problems),
    }
}

impl Comparison {
    /// Run all of it, on all processors.
    fn run(&self) -> Result<Vec<Group>, Problems> {
        let pairs = self.points.iter().flat_map(|point| self.drives.iter().zip(&point.jobs));
        let simulation = |drive, job: &Option<Job>| {
            job.as_ref().map(|job| Simulation::new(drive, std::slice::from_ref(job), self.seed)).transpose()
        };
        let mut simulations = input::all(pairs.map(|(drive, job)| simulation(drive, job)))?;
        let progress = Progress::of(simulations.iter().flatten().count());
        simulations.par_iter_mut().flatten().for_each(|simulation| progress.drive(simulation, || false));
        progress.finish();
        let mut cells = simulations.iter().map(|simulation| simulation.as_ref().map(|run| Cell::from(run.outcome())));
        let group = |point: &Point| Group {
            bytes: point.bytes,
            iodepth: point.iodepth,
            cells: cells.by_ref().take(self.drives.len()).collect(),
        };
        Ok(self.points.iter().map(group).collect())
    }
}

impl From<Outcome> for Cell {
    fn from(outcome: Outcome) -> Cell {
        let mut figures = DirectionOutcome::default();
        for (_, direction) in outcome.jobs.iter().flat_map(|job| job.directions()) {
            figures.ios += direction.ios;
            figures.bytes += direction.bytes;
            figures.runtime = figures.runtime.max(direction.runtime);
            figures.total.merge(&direction.total);
            figures.stages.add(&direction.stages);
        }
        Cell { outcome, figures }
    }
}

impl Cell {
    /// The busier direction of the link, 0 to 1.
    fn link_busy(&self) -> f64 {
        let elapsed = self.outcome.elapsed;
        self.outcome.upstream.busy_share(elapsed).max(self.outcome.downstream.busy_share(elapsed))
    }
}
