//! `phaselink endurance`: computes the lifetime of a drive's memory.

use clap::Args;
use phaselink_studies::endurance::{EnduranceQuestion, bytes_per_day};

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure, print_answer};
use crate::input;

const EXAMPLES: &str = include_str!("../help/endurance.txt");

/// Compute the lifetime of a drive's memory: for flash, bytes written (TBW) and drive writes a day; for other memories,
/// line writes with and without Start-Gap wear levelling
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drive file, or name of a shipped drive, whose memory lifetime is computed
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Write patterns for which the lifetime is computed, separated by commas: sequential, random (flash); uniform,
    /// hot-range, zipf, hammer (other memories); all if not given
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    workload: Vec<String>,
    /// Sizes of writes to flash in bytes, separated by commas, as in 4k,64k [default: 128k for sequential, 4k for
    /// random writes]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = input::block_size)]
    bs: Vec<u32>,
    /// Bytes written to flash a day, as in 500g; adds a column with the lifetime at this rate
    #[arg(long, value_name = "SIZE", value_parser = per_day)]
    per_day: Option<u64>,
    /// Seed of the random order of lines in randomised Start-Gap wear levelling; not for flash [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Print lifetimes as JSON in place of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Runs `phaselink endurance`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let drive = input::drive(&arguments.drive, &arguments.flags.resolve()?)?.into_drive();
    let question = EnduranceQuestion {
        workload: arguments.workload.clone(),
        bs: arguments.bs.clone(),
        per_day: arguments.per_day,
        seed: arguments.seed,
    };
    print_answer(&question.answer(&drive)?, arguments.json, None)?;
    Ok(CommandEnding::Fine)
}

fn per_day(text: &str) -> Result<u64, String> {
    bytes_per_day(text).ok_or_else(|| String::from("a size as in 500g"))
}
