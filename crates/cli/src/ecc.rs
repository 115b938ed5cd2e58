//! `phaselink ecc`: computes error rates of the sector code, and the endurance that they allow.

use clap::Args;
use phaselink_core::media::ecc::SectorCodec;
use phaselink_studies::ecc::{EccQuestion, EccTaskResult};
use rayon::prelude::*;

use crate::ending::{CommandEnding, Failure, print_answer};

const EXAMPLES: &str = include_str!("../help/ecc.txt");

/// Test the error-correcting code of sectors in nine chips: rates of uncorrectable and miscorrected sectors, and the
/// endurance that follows.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Number of sectors with random bit errors that are decoded for each of eight raw bit error rates
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    trials: u64,
    /// Number of sectors that are damaged and decoded for each of eight kinds of damage, such as a failed chip
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    inject: u64,
    /// Seed of the random data and of the random damage of sectors
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print error rates and decoding outcomes as JSON in place of tables
    #[arg(long)]
    json: bool,
}

/// Runs `phaselink ecc`. Ends with `Off` (exit code 1) if damage that the code can correct is not always corrected.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let Arguments { trials, inject, seed, json } = *arguments;
    let (question, codec) = (EccQuestion { trials, inject, seed }, SectorCodec::new());
    let results: Vec<EccTaskResult> = question.tasks()?.par_iter().map(|task| task.run(&codec)).collect();
    let answer = question.answer(&results);
    print_answer(&answer, json, None)?;
    Ok(if answer.keeps_its_promise() { CommandEnding::Fine } else { CommandEnding::Off })
}
