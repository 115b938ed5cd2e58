//! Jobs of a comparison: every combination of the given block sizes, queue depths and thread counts.

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::problem::Problems;
use phaselink_studies::compare::{ComparedPoint, RequestedSizes};
use phaselink_studies::results::units;

use crate::run::workload::{DescribedJobs, JobFlags};

/// Options of `phaselink compare` that list block sizes, queue depths and thread counts; every combination of values is
/// a line with a result for each drive.
#[derive(Args, Debug)]
#[command(next_help_heading = "Workload, in the terms of fio")]
pub(super) struct PointFlags {
    /// Block sizes of the compared jobs in bytes, separated by commas, as in 512,4k (fio's bs) [default: 4k]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    bs: Vec<String>,
    /// Numbers of requests that each thread of the compared jobs keeps in flight, separated by commas (fio's iodepth)
    /// [default: 1; 32 for a replay]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    iodepth: Vec<String>,
    /// Numbers of threads of the compared jobs, separated by commas (fio's numjobs) [default: 1,8; 1 with --iodepth]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    numjobs: Vec<String>,
    /// Number of requests for each combination of block size, queue depth and threads, over all threads of the job
    /// [default: 20000 if nothing else ends the job]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["number_ios", "size", "runtime", "fio", "trace"])]
    ios: Option<u64>,
    /// Compare at a load in place of a depth, as in iops=100k (100,000 requests a second, reads and writes of all threads
    /// together, at random times); threads and depth then only limit the requests in flight [4 threads, depth 64]
    #[arg(long, value_name = "iops=N", value_parser = parse_offered_load)]
    at: Option<f64>,
    #[command(flatten)]
    job: JobFlags,
}

/// Parses a load such as `iops=100k`.
fn parse_offered_load(text: &str) -> Result<f64, String> {
    let iops = text.strip_prefix("iops=").and_then(units::parse_count).filter(|iops| *iops >= 1.0);
    iops.ok_or_else(|| String::from("iops=N, requests a second, as in iops=100k"))
}

/// Line of a comparison: jobs of one combination of sizes, with a description in words.
pub(super) struct Line {
    pub point: ComparedPoint,
    pub summary: String,
}

impl PointFlags {
    /// Returns the lines of a comparison in the order of printing. A job without an end gets `ios_default` requests
    /// over all its threads, or 20000 if that is none.
    ///
    /// # Errors
    ///
    /// If a job is invalid, or one of the drives cannot run it for another reason than queues that are too short.
    pub(super) fn resolve(&self, drives: &[Drive], ios_default: Option<u64>) -> Result<Vec<Line>, Problems> {
        if self.job.has_files() {
            return Ok(vec![self.line(&[], drives)?]);
        }
        let given = self.job.given()?;
        let (bs, iodepth, numjobs) = (self.bs.clone(), self.iodepth.clone(), self.numjobs.clone());
        let grid = RequestedSizes { bs, iodepth, numjobs, ios: self.ios.or(ios_default) };
        let grid = if self.at.is_some() { grid.at_load(&given) } else { grid };
        grid.lines(&given, drives.len(), |options| self.line(options, drives))
    }

    /// Returns the options of the jobs other than their sizes, as `name=value`. Options in job files are not included.
    pub(super) fn options(&self) -> Result<Vec<String>, Problems> {
        let given = self.job.given()?;
        let others = given.iter().filter(|(name, _)| !["rw", "readwrite"].contains(name));
        Ok(others.map(|(name, value)| format!("{name}={value}")).collect())
    }

    fn line(&self, options: &[(&str, &str)], drives: &[Drive]) -> Result<Line, Problems> {
        let DescribedJobs { written, summary } = self.job.written(options)?;
        let written = match self.at {
            Some(iops) => written.offering(iops),
            None => written,
        };
        Ok(Line { point: ComparedPoint::new(written, drives)?, summary })
    }
}
