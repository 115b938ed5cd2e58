//! Answer of `ecc` as one type: the JSON document, from which the text is made.

use phaselink_core::media::ecc::endurance::{
    CELLS_OF_A_CHIP, CellEnduranceSpread, Endurance, EnduranceDistribution, least_endurance_spread,
};
use phaselink_core::media::ecc::rates::{self, SampledDecoderRates, TrialProbability};
use phaselink_core::media::ecc::{CORRECTED_BITS, DecodeOutcomeCounts, SectorDamage, latency};
use schemars::JsonSchema;
use serde::Serialize;

use super::{EccQuestion, EccTaskResult};

/// Uncorrectable bit error rate that a drive must stay below: "better than 10^-16", section 1 of the paper on the PSS
/// prototype drive.
const UBER: f64 = 1e-16;

/// JSON document of `phaselink ecc`: error rates of the code of a sector, and the endurance of cells that they allow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EccAnswer {
    /// Number of wrong bits anywhere in a sector that the code corrects.
    pub corrected_bits: usize,
    /// Number of sectors with random bit errors that were decoded for each raw bit error rate.
    pub trials: u64,
    /// Seed of the random data and of the random damage of sectors.
    pub seed: u64,
    /// Error rates of sectors, one row for each raw bit error rate.
    pub rates: Vec<ErrorRates>,
    /// Outcomes of decoding damaged sectors, one row for each kind of damage.
    pub injected: Vec<InjectedDamage>,
    /// Raw bit error rate at which the uncorrectable bit error rate reaches its target.
    pub raw_bit_error_rate_tolerated: f64,
    /// Uncorrectable errors per bit read (UBER) that a drive must stay below.
    pub uncorrectable_bit_error_rate_target: f64,
    /// Spreads of the endurance of cells that the statements of a paper need, one row for each statement and number of
    /// cells.
    pub endurance: Vec<CellSpread>,
    /// Number of sectors that were decoded for each kind of damage.
    #[serde(skip)]
    pub(super) injected_each: u64,
}

/// Error rates of sectors at one raw bit error rate, from formulas and from decoded sectors.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorRates {
    /// Probability that a bit is wrong before correction.
    pub raw_bit_error_rate: f64,
    /// Probability by the formula that a sector is not corrected.
    pub uncorrectable_sector_rate: f64,
    /// Uncorrectable errors per bit read (UBER) by the formula.
    pub uncorrectable_bit_error_rate: f64,
    /// Probability that a sector is not corrected, measured by decoding damaged sectors.
    pub uncorrectable_sector_rate_sampled: SampledProbability,
    /// Probability by the formula that a sector is wrong although the decoder's verdict is good.
    pub miscorrected_sector_rate: f64,
    /// Probability that a sector is wrong although the decoder's verdict is good, measured by decoding damaged sectors.
    pub miscorrected_sector_rate_sampled: SampledProbability,
    /// Mean latency of the decoder in ns.
    pub decode_ns_mean: f64,
}

/// Outcomes of decoding sectors with one kind of damage, compared with the original sectors.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InjectedDamage {
    /// Kind of damage in words, such as `1 to 39 wrong bits anywhere`.
    pub fault: String,
    /// True if the code corrects every sector with this kind of damage.
    pub within_power: bool,
    /// Number of damaged sectors that were decoded correctly.
    pub corrected: u64,
    /// Number of damaged sectors that were reported as uncorrectable.
    pub reported: u64,
    /// Number of damaged sectors that were wrong although the verdict was good (silent corruption).
    pub miscorrected: u64,
}

/// Probability measured by random trials, with its 95 % confidence limits.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct SampledProbability {
    /// Mean of the trials: the estimate of the probability.
    pub mean: f64,
    /// Lower 95 % confidence limit of the probability.
    pub low: f64,
    /// Upper 95 % confidence limit of the probability.
    pub high: f64,
}

/// Spread of the endurance of cells that a statement of a paper needs, if the first worn cell is one of some cells.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CellSpread {
    /// Statement of the paper in words.
    pub claim: String,
    /// Number of write cycles after which the first cell is worn.
    pub first_error_cycles: f64,
    /// Number of write cycles until which the code corrects enough for the target.
    pub corrected_until_cycles: f64,
    /// Part of the memory in which the first worn cell is observed, such as `a chip`.
    pub first_error_of: String,
    /// Number of cells of this part.
    pub cells: f64,
    /// Standard deviation of the natural logarithm of a lognormal endurance; null if no deviation fits.
    pub lognormal_sigma_needed: Option<f64>,
    /// Shape of a Weibull endurance; null if no shape fits.
    pub weibull_shape_needed: Option<f64>,
}

/// Statement of a paper on the write cycles of a chip before the first error, and those that the code makes it endure.
struct PaperStatement {
    words: &'static str,
    first_cycles: f64,
    until_cycles: f64,
}

/// Statements on write cycles in sections 1 and 3 a of the PSS paper. "Several million" and "tens of millions" are read
/// as 3 and 30 million.
const STATEMENTS: [PaperStatement; 2] = [
    PaperStatement { words: "NVMW 2014, section 1: 10^6, with correction 10^9", first_cycles: 1e6, until_cycles: 1e9 },
    PaperStatement { words: "NVMW 2014, section 3: measured, 3 and 30 million", first_cycles: 3e6, until_cycles: 3e7 },
];

/// Numbers of cells in which the first worn-out cell is observed. A part of a chip has its first error later than the
/// whole chip.
const WATCHED: [(&str, f64); 3] =
    [("a chip", CELLS_OF_A_CHIP), ("1024 sectors", 1024.0 * 4608.0), ("a sector", 4608.0)];

impl EccAnswer {
    pub(super) fn new(question: &EccQuestion, results: &[EccTaskResult]) -> EccAnswer {
        let sampled = results.iter().filter_map(|result| match result {
            EccTaskResult::Sampled(raw, rates) => Some(ErrorRates::new(*raw, rates)),
            EccTaskResult::Injected(..) => None,
        });
        let injected = SectorDamage::ALL.into_iter().map(|damage| {
            let counts = results.iter().filter_map(|result| match result {
                EccTaskResult::Injected(other, counts) if *other == damage => Some(*counts),
                _ => None,
            });
            InjectedDamage::new(damage, counts.sum())
        });
        EccAnswer {
            corrected_bits: CORRECTED_BITS,
            trials: question.trials,
            seed: question.seed,
            rates: sampled.collect(),
            injected: injected.collect(),
            raw_bit_error_rate_tolerated: rates::raw_error_rate_for_target(UBER),
            uncorrectable_bit_error_rate_target: UBER,
            endurance: STATEMENTS.iter().flat_map(PaperStatement::cell_spread_rows).collect(),
            injected_each: question.inject,
        }
    }

    /// True if every sector was corrected whose damage the code can correct.
    pub fn keeps_its_promise(&self) -> bool {
        self.injected.iter().filter(|it| it.within_power).all(|it| it.reported + it.miscorrected == 0)
    }
}

impl ErrorRates {
    fn new(raw: f64, sampled: &SampledDecoderRates) -> ErrorRates {
        ErrorRates {
            raw_bit_error_rate: raw,
            uncorrectable_sector_rate: rates::uncorrectable_sector_probability(raw),
            uncorrectable_bit_error_rate: rates::uncorrectable_bit_error_rate(raw),
            uncorrectable_sector_rate_sampled: SampledProbability::from(sampled.uncorrectable),
            miscorrected_sector_rate: rates::miscorrection_probability(raw),
            miscorrected_sector_rate_sampled: SampledProbability::from(sampled.miscorrected),
            decode_ns_mean: latency::mean_decode_ns(raw),
        }
    }
}

impl InjectedDamage {
    fn new(damage: SectorDamage, counts: DecodeOutcomeCounts) -> InjectedDamage {
        let DecodeOutcomeCounts { corrected, reported, miscorrected } = counts;
        let (fault, within_power) = (damage.description().into(), damage.is_within_power());
        InjectedDamage { fault, within_power, corrected, reported, miscorrected }
    }
}

impl From<TrialProbability> for SampledProbability {
    fn from(TrialProbability { mean, low, high }: TrialProbability) -> SampledProbability {
        SampledProbability { mean, low, high }
    }
}

impl PaperStatement {
    fn spread(&self, family: EnduranceDistribution, cells: f64) -> Option<CellEnduranceSpread> {
        least_endurance_spread(family, cells, self.until_cycles / self.first_cycles, UBER)
    }

    fn cell_spread_rows(&self) -> impl Iterator<Item = CellSpread> {
        WATCHED.iter().map(|(watched, cells)| CellSpread {
            claim: self.words.into(),
            first_error_cycles: self.first_cycles,
            corrected_until_cycles: self.until_cycles,
            first_error_of: (*watched).into(),
            cells: *cells,
            lognormal_sigma_needed: self.spread(EnduranceDistribution::Lognormal, *cells).map(value),
            weibull_shape_needed: self.spread(EnduranceDistribution::Weibull, *cells).map(value),
        })
    }
}

impl CellSpread {
    /// Returns the lognormal endurance of the cells that agrees with the statement, or none if there is none.
    pub(super) fn lognormal_endurance(&self) -> Option<Endurance> {
        let spread = CellEnduranceSpread::Lognormal { deviation: self.lognormal_sigma_needed? };
        Some(Endurance { cells: self.cells, first_cycles: self.first_error_cycles, spread })
    }
}

fn value(spread: CellEnduranceSpread) -> f64 {
    match spread {
        CellEnduranceSpread::Lognormal { deviation } => deviation,
        CellEnduranceSpread::Weibull { shape } => shape,
    }
}
