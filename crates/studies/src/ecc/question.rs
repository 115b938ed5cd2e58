//! Question of `ecc`: numbers of damaged sectors, in tasks that callers run in parallel.

use phaselink_core::media::ecc::rates::{SampledDecoderRates, sample};
use phaselink_core::media::ecc::{DecodeOutcomeCounts, SectorCodec, SectorDamage, inject};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::random::mix;
use serde::Deserialize;

use super::EccAnswer;

/// Raw bit error rates for which the answer has a row.
const RAW_RATES: [f64; 8] = [1e-6, 1e-5, 1e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2];
/// Number of sectors with injected damage that one task decodes, which takes a fraction of a second.
const PIECE: u64 = 20_000;
/// Largest number of sectors for each row.
const SECTORS_MAX: u64 = 1_000_000_000;

/// Question of `ecc`: how often is a damaged sector not corrected?
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EccQuestion {
    /// Number of sectors with random bit errors that are decoded for each of eight raw bit error rates.
    pub trials: u64,
    /// Number of sectors that are damaged and decoded for each of eight kinds of damage.
    pub inject: u64,
    /// Seed of the random data and of the random damage of sectors.
    pub seed: u64,
}

/// Part of the trials of a question, which runs independently of the others.
#[derive(Clone, Copy, Debug)]
pub enum EccTask {
    /// Decodes sectors with random bit errors.
    Sample {
        /// Raw bit error rate of the sectors.
        raw_bit_error_rate: f64,
        /// Number of decoded sectors.
        trials: u64,
        /// Seed of data and bit errors.
        seed: u64,
    },
    /// Decodes sectors with one kind of damage.
    Inject {
        /// Kind of damage of the sectors.
        damage: SectorDamage,
        /// Number of decoded sectors.
        trials: u64,
        /// Seed of data and damage.
        seed: u64,
    },
}

/// Result of a task.
#[derive(Clone, Copy, Debug)]
pub enum EccTaskResult {
    /// Error rates of sectors at a raw bit error rate.
    Sampled(f64, SampledDecoderRates),
    /// Outcomes of decoding sectors with one kind of damage.
    Injected(SectorDamage, DecodeOutcomeCounts),
}

impl Default for EccQuestion {
    fn default() -> EccQuestion {
        EccQuestion { trials: 2000, inject: 2000, seed: 1 }
    }
}

impl EccQuestion {
    /// Returns the trials of the question as tasks.
    ///
    /// # Errors
    /// Numbers of sectors that are 0 or more than a billion.
    pub fn tasks(&self) -> Result<Vec<EccTask>, Problems> {
        let numbers = [("--trials", self.trials), ("--inject", self.inject)];
        let wrong = numbers.iter().filter(|(_, number)| !(1..=SECTORS_MAX).contains(number));
        let problem = |(flag, number): &(&str, u64)| {
            Problem::new("command line", None, format!("{flag} is {number}"), format!("1 to {SECTORS_MAX}"))
        };
        Problems(wrong.map(problem).collect()).or(())?;
        let EccQuestion { trials, seed, .. } = *self;
        let sampled =
            RAW_RATES.into_iter().map(|raw_bit_error_rate| EccTask::Sample { raw_bit_error_rate, trials, seed });
        let injected = SectorDamage::ALL.into_iter().flat_map(|damage| self.damage_trials_in_tasks(damage));
        Ok(sampled.chain(injected).collect())
    }

    /// Returns the trials with one kind of damage in tasks of at most [`PIECE`] sectors, each with its own seed.
    fn damage_trials_in_tasks(&self, damage: SectorDamage) -> impl Iterator<Item = EccTask> {
        let EccQuestion { inject, seed, .. } = *self;
        (0..inject.div_ceil(PIECE)).map(move |piece| EccTask::Inject {
            damage,
            trials: PIECE.min(inject - piece * PIECE),
            seed: mix(seed) ^ piece,
        })
    }

    /// Returns the answer from the results of all tasks, in the order of the tasks.
    pub fn answer(&self, results: &[EccTaskResult]) -> EccAnswer {
        EccAnswer::new(self, results)
    }
}

impl EccTask {
    /// Decodes the sectors of the task.
    pub fn run(&self, codec: &SectorCodec) -> EccTaskResult {
        match *self {
            EccTask::Sample { raw_bit_error_rate, trials, seed } => {
                EccTaskResult::Sampled(raw_bit_error_rate, sample(codec, raw_bit_error_rate, trials, seed))
            }
            EccTask::Inject { damage, trials, seed } => {
                EccTaskResult::Injected(damage, inject(codec, damage, trials, seed))
            }
        }
    }
}
