//! The jobs of a comparison: every combination of the sizes that are asked for.

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::{Job, Limits, has_end};

use super::label::Label;
use crate::input;
use crate::run::workload::{JobFlags, Written};

/// Requests of a line of which nothing says when it ends.
const IOS_DEFAULT: u64 = 20_000;
const BLOCKS_DEFAULT: [&str; 2] = ["512", "4k"];
/// One thread alone, and one on each core of the hosts whose drives are compared by default.
const THREADS_DEFAULT: [&str; 2] = ["1", "8"];
/// More cells than this are a mistake, or work for a script.
const CELLS_MAX: usize = 10_000;

/// Sizes of jobs, as typed: every combination of them is a group of lines.
#[derive(Args, Debug)]
#[command(next_help_heading = "Workload, in the terms of fio")]
pub struct PointFlags {
    /// Block sizes, separated by commas [default: 512,4k]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    bs: Vec<String>,
    /// Numbers of requests that a thread keeps outstanding, separated by commas [default: 1; 32 for a replay]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    iodepth: Vec<String>,
    /// Numbers of threads, separated by commas [default: 1,8; 1 with --iodepth]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    numjobs: Vec<String>,
    /// Requests for each line of the table, over all its threads [default: 20000 if nothing else ends the job]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["number_ios", "size", "runtime", "fio", "trace"])]
    ios: Option<u64>,
    #[command(flatten)]
    job: JobFlags,
}

/// Jobs that run together, on each drive whose queues are long enough for them.
pub struct Point {
    pub label: Label,
    pub jobs: Vec<Option<Vec<Job>>>,
    /// The jobs as they are written.
    pub written: Written,
}

/// Sizes of one job: names and values of options.
type Sizes<'a> = Vec<(&'a str, &'a str)>;

impl PointFlags {
    /// The points in the order in which they are printed, where nothing else says otherwise each with `ios_default`
    /// requests.
    ///
    /// # Errors
    /// Everything that is wrong with the jobs, and everything but short queues that keeps them from any of the drives.
    pub fn resolve(&self, drives: &[Drive], ios_default: Option<u64>) -> Result<Vec<Point>, Problems> {
        let combinations = self.combinations()?;
        let cells = combinations.len() * drives.len();
        if cells > CELLS_MAX {
            let found = format!("{cells} combinations of drive, block size, threads and depth");
            return Err(Problem::new("command line", None, found, format!("at most {CELLS_MAX}")).into());
        }
        let ios = self.ios.or(ios_default).unwrap_or(IOS_DEFAULT);
        input::all(combinations.iter().map(|sizes| self.point(sizes, ios, drives)))
    }

    /// Options besides the sizes, as `name=value`; nothing of job files.
    pub fn options(&self) -> Result<Vec<String>, Problems> {
        let given = self.job.given()?;
        let others = given.iter().filter(|(name, _)| !["rw", "readwrite"].contains(name));
        Ok(others.map(|(name, value)| format!("{name}={value}")).collect())
    }

    fn combinations(&self) -> Result<Vec<Sizes<'_>>, Problems> {
        let mut combinations = vec![Vec::new()];
        if self.job.has_files() {
            return Ok(combinations);
        }
        let given = self.job.given()?;
        let has = |names: &[&str]| given.iter().any(|(name, _)| names.contains(name));
        let replays = has(&["read_iolog"]);
        let (sized, threaded) = (has(&["bs", "blocksize", "bssplit"]), has(&["numjobs"]) || !self.iodepth.is_empty());
        let axes = [
            ("bs", &self.bs, &BLOCKS_DEFAULT[..], replays || sized),
            ("numjobs", &self.numjobs, &THREADS_DEFAULT[..], replays || threaded),
            ("iodepth", &self.iodepth, &[], true),
        ];
        for (name, typed, defaults, is_settled) in axes {
            let values: Vec<&str> = match typed.is_empty() && !is_settled {
                true => defaults.to_vec(),
                false => typed.iter().map(String::as_str).collect(),
            };
            if !values.is_empty() {
                combinations = product(&combinations, name, &values);
            }
        }
        Ok(combinations)
    }

    fn point(&self, sizes: &Sizes, ios: u64, drives: &[Drive]) -> Result<Point, Problems> {
        let ios = self.ios_of_a_thread(sizes, ios)?;
        let mut options = sizes.clone();
        options.extend(ios.as_ref().map(|ios| ("number_ios", ios.as_str())));
        let written = self.job.written(&options)?;
        let jobs: Vec<Option<Vec<Job>>> = input::all(drives.iter().map(|drive| jobs_on(drive, &written)))?;
        if let Some(first) = jobs.iter().flatten().next() {
            return Ok(Point { label: Label::of(first), jobs, written });
        }
        // No queue is long enough: each says so.
        let problems = input::all(drives.iter().map(|drive| written.on(&drive.limits())));
        Err(problems.err().unwrap_or_default())
    }

    /// The requests of a line are divided among its threads.
    fn ios_of_a_thread(&self, sizes: &Sizes, ios: u64) -> Result<Option<String>, Problems> {
        if self.job.has_files() || has_end(&self.job.given()?) {
            return Ok(None);
        }
        let threads = sizes.iter().find(|(name, _)| *name == "numjobs").and_then(|(_, value)| value.parse().ok());
        Ok(Some(ios.div_ceil(threads.unwrap_or(1).max(1)).to_string()))
    }
}

/// Each combination with each value.
fn product<'a>(combinations: &[Sizes<'a>], name: &'a str, values: &[&'a str]) -> Vec<Sizes<'a>> {
    let with = |sizes: &Sizes<'a>, value| sizes.iter().copied().chain([(name, value)]).collect();
    combinations.iter().flat_map(|sizes| values.iter().map(move |value| with(sizes, *value))).collect()
}

/// The jobs on a drive; none if only the drive's queues are too short for them.
fn jobs_on(drive: &Drive, written: &Written) -> Result<Option<Vec<Job>>, Problems> {
    let limits = drive.limits();
    let problems = match written.on(&limits) {
        Ok(jobs) => return Ok(Some(jobs)),
        Err(problems) => problems,
    };
    let endless = Limits { queue_entries: u32::MAX, ..limits };
    match written.on(&endless) {
        Ok(_) => Ok(None),
        Err(_) => Err(problems),
    }
}
