//! `phaselink knee`: runs a job at rising loads, and shows latency against load.

use std::sync::atomic::Ordering;

use clap::Args;
use phaselink_studies::knee::{KneeQuestion, parse_rates};
use rayon::prelude::*;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure, print_answer};
use crate::output::ReportFlags;
use crate::progress::Progress;
use crate::run::workload::WorkloadFlags;
use crate::{input, interrupt};

const EXAMPLES: &str = include_str!("../help/knee.txt");
/// Number of requests at each load over all threads of the job, if no other option ends it.
const IOS_DEFAULT: u64 = 40_000;

/// Simulate one workload at rising loads, and print latency against load: percentiles of reads and writes, and the knee
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drive file, or name of a shipped drive, whose latency is measured at each load
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Loads in requests a second, reads and writes of all threads together, as in 10k,50k,100k, or the lowest and the
    /// highest of twelve, as in 10k:200k [default: 5 % to 100 % of the throughput at the job's queue depth]
    #[arg(long, value_name = "LIST|LOW:HIGH", value_parser = rates)]
    rates: Option<String>,
    /// Seed of the simulations' random numbers, such as times of arrival, offsets and service times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print latency at each load as JSON in place of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportFlags,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Runs `phaselink knee`.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let report = arguments.report.open()?;
    let drive = input::drive(&arguments.drive, &arguments.flags.resolve()?)?.into_drive();
    let workload = arguments.workload.at_load(IOS_DEFAULT).resolve(&drive.limits())?;
    let question = KneeQuestion { rates: arguments.rates.clone().unwrap_or_default(), seed: arguments.seed };
    let study = question.study(&drive, workload.into_written())?;
    let stopped = interrupt::flag();
    let progress = Progress::of(study.simulations());
    let each = |count: usize, run: &(dyn Fn(usize) + Sync)| {
        (0..count).into_par_iter().for_each(|place| {
            run(place);
            progress.one();
        });
    };
    let answer = study.answer(&each, &|| stopped.load(Ordering::Relaxed))?;
    progress.finish();
    let Some(answer) = answer else { return Ok(Ending::Interrupted) };
    print_answer(&answer, arguments.json, report)?;
    Ok(Ending::Fine)
}

/// Checks the loads of `--rates`.
fn rates(text: &str) -> Result<String, String> {
    parse_rates(text).map(|_| String::from(text)).map_err(|problem| problem.allowed)
}
