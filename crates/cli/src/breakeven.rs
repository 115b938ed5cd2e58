//! `phaselink breakeven`: computes the time between accesses beyond which a block costs less on the drive than in
//! memory.

use clap::Args;
use phaselink_core::problem::Problems;
use phaselink_studies::breakeven::{BreakEvenQuestion, Description};

use crate::ending::{CommandEnding, Failure, print_answer};
use crate::input;
use crate::output::ReportFlags;

const EXAMPLES: &str = include_str!("../help/breakeven.txt");

/// Compute the time between accesses from which on a block costs less on a drive than in memory (five-minute rule)
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// File with prices and rates of drive, memory and host (TOML), or name of a shipped description
    #[arg(value_name = "DESCRIPTION", default_value = "slc-cpu")]
    description: String,
    /// Block sizes in bytes for which the break-even time is computed, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "512,1k,2k,4k", value_parser = input::block_size)]
    bs: Vec<u32>,
    /// Share of the drive's largest IOPS that is used, above 0 and at most 1; replaces `utilisation` of the description
    #[arg(long, value_name = "SHARE")]
    utilisation: Option<f64>,
    /// Largest number of I/O operations a second of the host, over all drives; replaces host.iops of the description,
    /// without which the host sets no limit
    #[arg(long, value_name = "N")]
    host_iops: Option<f64>,
    /// Number of drives that share the I/O operations of the host; replaces host.drives of the description
    #[arg(long, value_name = "N")]
    drives: Option<u32>,
    /// Print the relative change of the break-even time for each input that grows by a tenth, at the first block size
    /// of --bs
    #[arg(long)]
    sensitivity: bool,
    /// Print break-even times of the five-minute rule since 1987, for the years with published prices and rates
    #[arg(long)]
    history: bool,
    /// Print break-even times as JSON in place of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportFlags,
}

/// Runs `phaselink breakeven`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let answer = arguments.question()?.answer()?;
    print_answer(&answer, arguments.json, arguments.report.open()?)?;
    Ok(CommandEnding::Fine)
}

impl Arguments {
    fn question(&self) -> Result<BreakEvenQuestion, Problems> {
        let word = &self.description;
        let is_file = Description::shipped(word).is_none() && input::is_path(word);
        Ok(BreakEvenQuestion {
            description: Some(word.clone()),
            text: is_file.then(|| input::description(word)).transpose()?,
            bs: self.bs.clone(),
            utilisation: self.utilisation,
            host_iops: self.host_iops,
            drives: self.drives,
            sensitivity: self.sensitivity,
            history: self.history,
        })
    }
}
