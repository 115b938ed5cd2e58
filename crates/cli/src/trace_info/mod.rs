//! `phaselink trace-info`: describes a block trace, and how to replay it.

mod advice;
mod json;
mod text;

use clap::Args;
use clap::builder::PossibleValuesParser;
use phaselink_core::workload::trace::{self, Format, TraceSelection};

use crate::ending::{CommandEnding, Failure};
use crate::{output, traces};

const EXAMPLES: &str = include_str!("../../help/trace-info.txt");

/// Describe a block trace: requests, rate, sizes, footprint, queue depth, and the command that replays the trace.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Block trace to describe, in any format that `phaselink run --trace` reads; also .gz and .zst
    #[arg(value_name = "FILE")]
    file: String,
    /// Device whose requests in the block trace are counted [default: all]
    #[arg(long, value_name = "ID")]
    trace_device: Option<String>,
    /// Format of the block trace to describe [default: as its content tells]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::word)))]
    trace_format: Option<String>,
    /// Print the description of the block trace as JSON in place of text
    #[arg(long)]
    json: bool,
}

/// Runs `phaselink trace-info`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let format = arguments.trace_format.as_deref().and_then(Format::named);
    let selection = TraceSelection { device: arguments.trace_device.clone(), format };
    let info = trace::info(&traces::files(&arguments.file), &selection)?;
    let advice = advice::of(&info, &arguments.file, format);
    match arguments.json {
        true => output::print_json(&json::document(&arguments.file, &info, &advice))?,
        false => output::print(&text::text(&arguments.file, &info, &advice))?,
    }
    Ok(CommandEnding::Fine)
}
