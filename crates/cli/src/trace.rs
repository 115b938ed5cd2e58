//! `phaselink trace`: draws every packet and activity of one request.

use std::path::PathBuf;

use clap::Args;
use phaselink_core::drive_file::shipped;
use phaselink_studies::stream::RequestStream;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::input;
use crate::output::{self, Target};

const EXAMPLES: &str = include_str!("../help/trace.txt");

/// Draw the packets of one request, with time running down: who sends what to whom, and when.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drive file, or name of a shipped drive
    #[arg(value_name = "DRIVE", default_value = shipped::usual())]
    drive: String,
    /// Block size
    #[arg(long, value_name = "BYTES", default_value = "4k")]
    bs: String,
    /// Operation: read, write, rw, randread, randwrite or randrw
    #[arg(long, default_value = "randread")]
    rw: String,
    /// Requests kept outstanding
    #[arg(long, value_name = "N", default_value = "1")]
    iodepth: String,
    /// Number of requests before the one that is drawn
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(..=10_000))]
    skip: u64,
    /// Write a timeline for https://ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Requests of the timeline
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    requests: u64,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Runs `phaselink trace`.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let described = input::drive(&arguments.drive, &arguments.flags.resolve()?)?;
    let timeline = arguments.perfetto.as_deref().map(|path| Target::create("--perfetto", path)).transpose()?;
    let steps = arguments.stream().record(described.drive())?;
    if let Some(timeline) = timeline {
        timeline.write(&steps.perfetto())?;
    }
    output::print(&steps.ladder())?;
    Ok(Ending::Fine)
}

impl Arguments {
    fn stream(&self) -> RequestStream<'_> {
        RequestStream {
            rw: &self.rw,
            bs: &self.bs,
            iodepth: &self.iodepth,
            skip: self.skip,
            requests: if self.perfetto.is_some() { self.requests } else { 1 },
            seed: self.seed,
        }
    }
}
