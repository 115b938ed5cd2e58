//! `phaselink trace`: draws every packet and activity of one request.

use std::path::PathBuf;

use clap::Args;
use phaselink_core::drive_file::shipped;
use phaselink_studies::stream::EqualRequestStream;

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure};
use crate::input;
use crate::output::{self, Target};

const EXAMPLES: &str = include_str!("../help/trace.txt");

/// Draw the packets and activities of one simulated request as a ladder diagram, with time running down.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drive file, or name of a shipped drive (`phaselink check` lists them), whose packets are drawn
    #[arg(value_name = "DRIVE", default_value = shipped::default_drive_name())]
    drive: String,
    /// Block size of the drawn request in bytes, as in 4k (fio's bs)
    #[arg(long, value_name = "BYTES", default_value = "4k")]
    bs: String,
    /// Access pattern of the drawn request's job (fio's rw): read, write, rw, randread, randwrite or randrw
    #[arg(long, default_value = "randread")]
    rw: String,
    /// Number of requests that the drawn request's job keeps in flight (fio's iodepth)
    #[arg(long, value_name = "N", default_value = "1")]
    iodepth: String,
    /// Number of requests of the job that precede the drawn request, at most 10000
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(..=10_000))]
    skip: u64,
    /// Write a timeline of the drawn request and of requests after it to FILE, for https://ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Number of requests in the timeline of --perfetto, of which the drawn request is the first; no effect without
    /// --perfetto
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    requests: u64,
    /// Seed of the simulation's random numbers, such as request offsets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Runs `phaselink trace`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let described = input::drive(&arguments.drive, &arguments.flags.resolve()?)?;
    let timeline = arguments.perfetto.as_deref().map(|path| Target::create("--perfetto", path)).transpose()?;
    let steps = arguments.stream().record(described.drive())?;
    if let Some(timeline) = timeline {
        timeline.write(&steps.perfetto())?;
    }
    output::print(&steps.ladder())?;
    Ok(CommandEnding::Fine)
}

impl Arguments {
    fn stream(&self) -> EqualRequestStream<'_> {
        EqualRequestStream {
            rw: &self.rw,
            bs: &self.bs,
            iodepth: &self.iodepth,
            skip: self.skip,
            requests: if self.perfetto.is_some() { self.requests } else { 1 },
            seed: self.seed,
        }
    }
}
