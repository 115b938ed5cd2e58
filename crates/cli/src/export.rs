//! `phaselink export`: a drive's latencies as a table that other simulators read.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use phaselink_studies::export::{ExportAnswer, ExportQuestion};

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure, print_answer};
use crate::output::{Target, create_directory};
use crate::progress::Progress;
use crate::{input, interrupt};

const EXAMPLES: &str = include_str!("../help/export.txt");

/// Simulate a drive at many sizes, mixes and numbers of requests in flight, and write its latencies as quantiles for
/// other simulators: JSON, CSV, a C header, and a Python module with a drive for SimPy
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drive file, or name of a shipped drive, whose latencies are simulated
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Folder for the files: latency.json, latency.csv, phaselink_latency.h and phaselink_latency.py
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Access pattern (fio's rw): randrw (random) or rw (sequential)
    #[arg(long, default_value = "randrw", value_parser = ["randrw", "rw"])]
    rw: String,
    /// Sizes of requests in bytes, separated by commas [default: 4k,16k,128k]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = input::block_size)]
    bs: Vec<u32>,
    /// Numbers of requests that each thread keeps in flight, separated by commas [default: 1,2,4,8,16,32,64,128]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    iodepth: Vec<u32>,
    /// Shares of reads in per cent, separated by commas [default: 100,70,0]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    rwmixread: Vec<f64>,
    /// Number of threads that share the requests (fio's numjobs)
    #[arg(long, value_name = "N", default_value_t = 1)]
    numjobs: u32,
    /// Number of requests at each condition, over all threads
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    ios: u64,
    /// Count requests from the first one on, with an empty write buffer, in place of the steady state
    #[arg(long)]
    burst: bool,
    /// Seed of the simulations' random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the table of all conditions as JSON in place of the checks
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Runs `phaselink export`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let drive = input::drive(&arguments.drive, &arguments.flags.resolve()?)?.into_drive();
    let study = arguments.question().study(&drive)?;
    let targets = arguments.targets()?;
    let stopped = interrupt::flag();
    let progress = Progress::of(study.simulations());
    let each = |count: usize, run: &(dyn Fn(usize) + Sync)| progress.each(count, run);
    let answer = study.answer(&each, &|| stopped.load(Ordering::Relaxed))?;
    progress.finish();
    let Some(answer) = answer else { return Ok(CommandEnding::Interrupted) };
    for (target, (_, text)) in targets.into_iter().zip(answer.files()) {
        target.write(&text)?;
    }
    print_answer(&answer, arguments.json, None)?;
    Ok(CommandEnding::Fine)
}

impl Arguments {
    fn question(&self) -> ExportQuestion {
        ExportQuestion {
            rw: self.rw.clone(),
            bs: self.bs.clone(),
            iodepth: self.iodepth.clone(),
            rwmixread: self.rwmixread.clone(),
            numjobs: self.numjobs,
            ios: self.ios,
            seed: self.seed,
            burst: self.burst,
        }
    }

    /// Checks before the simulations that all files can be written; no files without a folder.
    fn targets(&self) -> Result<Vec<Target>, Failure> {
        let Some(directory) = &self.out else { return Ok(Vec::new()) };
        create_directory(directory)?;
        let create = |name: &str| Target::create("--out", &directory.join(name)).map_err(Failure::from);
        ExportAnswer::FILES.into_iter().map(create).collect()
    }
}
