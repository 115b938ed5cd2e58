//! `phaselink ecc`: computes error rates of the sector code, and the endurance that they allow.

mod text;

use clap::Args;
use phaselink_core::media::ecc::rates::{self, SampledRates};
use phaselink_core::media::ecc::{OutcomeCounts, SectorCodec, SectorDamage, inject};
use phaselink_core::random::mix;
use rayon::prelude::*;

use crate::ending::{Ending, Failure};
use crate::output;

const EXAMPLES: &str = include_str!("../../help/ecc.txt");

/// Raw bit error rates for which the table of `phaselink ecc` has a row.
const RAW_RATES: [f64; 8] = [1e-6, 1e-5, 1e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2];
/// Number of damaged sectors that one parallel task decodes, which takes a fraction of a second.
const PIECE: u64 = 20_000;

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

/// Results of `phaselink ecc`: error rates by raw bit error rate, and decoding outcomes by kind of damage.
struct EccFindings {
    rates: Vec<(f64, SampledRates)>,
    faults: Vec<(SectorDamage, OutcomeCounts)>,
}

/// Runs `phaselink ecc`. Ends with `Off` (exit code 1) if damage that the code can correct is not always corrected.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let codec = SectorCodec::new();
    let sample = |&raw: &f64| (raw, rates::sample(&codec, raw, arguments.trials, arguments.seed));
    let findings = EccFindings {
        rates: RAW_RATES.par_iter().map(sample).collect(),
        faults: SectorDamage::ALL.iter().map(|&fault| (fault, arguments.damage(&codec, fault))).collect(),
    };
    match arguments.json {
        true => output::print_json(&output::headed("ecc", text::document(arguments, &findings)))?,
        false => output::print(&text::text(arguments, &findings))?,
    }
    let is_off =
        findings.faults.iter().any(|(fault, counts)| fault.is_within_power() && counts.corrected < counts.total());
    Ok(if is_off { Ending::Off } else { Ending::Fine })
}

impl Arguments {
    /// Damages and decodes all sectors for one kind of damage, in parallel tasks, each with its own seed.
    fn damage(&self, codec: &SectorCodec, fault: SectorDamage) -> OutcomeCounts {
        let pieces = self.inject.div_ceil(PIECE);
        let trials = |piece| PIECE.min(self.inject - piece * PIECE);
        let run = |piece: u64| inject(codec, fault, trials(piece), mix(self.seed) ^ piece);
        (0..pieces).into_par_iter().map(run).sum()
    }
}
