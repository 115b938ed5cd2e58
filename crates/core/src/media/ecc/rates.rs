//! Probability that a sector is uncorrectable or wrong, for a raw bit error rate.
//!
//! Bits are wrong independently of each other, with equal probability. The number of wrong bits in a sector is
//! therefore binomial, and decides whether the sector is corrected. Failures of whole chips are not part of these
//! rates.

use super::inject::{SectorDecodeOutcome, run_bit_flip_trial};
use super::sector::{CORRECTED_BITS, SECTOR_BYTES, STORED_BITS, SectorCodec};
use super::{CHIPS, find_crossing};
use crate::number::{real, real_length};
use crate::random::Random;

/// Distance of the 95 % confidence limits from the mean, in standard errors.
const STANDARD_ERRORS: f64 = 1.959_964;
/// Number of events that bounds a rate whose event never happened in n trials: the rate is below this number / n with
/// 95 % confidence (0.05 = e^-3).
const NEVER_SEEN: f64 = 3.0;

/// Returns the probability that more than `tolerated` of `symbols` are wrong. Each is wrong with probability `wrong`,
/// independently of the others.
pub fn probability_more_wrong(symbols: usize, wrong: f64, tolerated: usize) -> f64 {
    let term = |count| libm::exp(log_binomial_probability(symbols, wrong, count));
    if real_length(symbols) * wrong > real_length(tolerated) {
        return 1.0 - (0..=tolerated).map(term).sum::<f64>().min(1.0);
    }
    // Above the mean each term is a smaller fraction of the one before, so stop when a term no longer changes the sum.
    let mut sum = 0.0;
    for term in (tolerated + 1..=symbols).map(term) {
        sum += term;
        if term <= sum * f64::EPSILON {
            break;
        }
    }
    sum
}

/// Returns the natural logarithm of the probability that exactly `count` of `symbols` are wrong, each with probability
/// `wrong`.
fn log_binomial_probability(symbols: usize, wrong: f64, count: usize) -> f64 {
    let power = |base_log: f64, exponent: usize| if exponent == 0 { 0.0 } else { base_log * real_length(exponent) };
    log_binomial(symbols, count) + power(libm::log(wrong), count) + power(libm::log1p(-wrong), symbols - count)
}

fn log_binomial(symbols: usize, count: usize) -> f64 {
    let log_factorial = |number: usize| libm::lgamma(real_length(number) + 1.0);
    log_factorial(symbols) - log_factorial(count) - log_factorial(symbols - count)
}

/// Returns the probability that a sector is not corrected at this raw bit error rate. It is exact, because more wrong
/// bits than [`CORRECTED_BITS`] are never corrected.
pub fn uncorrectable_sector_probability(raw_bit_error_rate: f64) -> f64 {
    probability_more_wrong(STORED_BITS, raw_bit_error_rate, CORRECTED_BITS)
}

/// Returns the number of uncorrectable errors per user bit read (UBER) at this raw bit error rate. A sector counts as
/// one error, as in JESD218.
pub fn uncorrectable_bit_error_rate(raw_bit_error_rate: f64) -> f64 {
    uncorrectable_sector_probability(raw_bit_error_rate) / real_length(SECTOR_BYTES * 8)
}

/// Returns the raw bit error rate at which the uncorrectable bit error rate (UBER) is `target`.
pub fn raw_error_rate_for_target(target: f64) -> f64 {
    let of_log = |log: f64| uncorrectable_bit_error_rate(libm::exp(log));
    // Search from 1e-15 to 1/2. At lower rates, the probability of 40 wrong bits in a sector is below the smallest
    // double.
    libm::exp(find_crossing(libm::log(1e-15), libm::log(0.5), target, of_log))
}

/// Returns the base-2 logarithm of the share of all words that the decoder turns into some codeword. There are 2^512
/// syndromes, and one of them for each pattern of 39 wrong bits or fewer.
///
/// This share is the probability that a word far from the codeword that was written is miscorrected, if the syndromes
/// of such words are uniform. For 40 wrong bits it is too high, because the distance of 80 excludes miscorrection
/// there.
pub fn log2_decodable_share() -> f64 {
    let patterns: f64 = (0..=CORRECTED_BITS).map(|count| libm::exp(log_binomial(STORED_BITS, count))).sum();
    libm::log2(patterns) - real_length(STORED_BITS / CHIPS)
}

/// Returns the probability that a sector is decoded wrongly with a good verdict, at this raw bit error rate. Assumes
/// uniform syndromes, as [`log2_decodable_share`] does.
pub fn miscorrection_probability(raw_bit_error_rate: f64) -> f64 {
    let beyond = probability_more_wrong(STORED_BITS, raw_bit_error_rate, CORRECTED_BITS + 1);
    beyond * libm::exp2(log2_decodable_share())
}

/// Probability measured by random trials, with its 95 % confidence limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialProbability {
    /// Mean of the trials: the estimate of the probability.
    pub mean: f64,
    /// Lower 95 % confidence limit of the measured probability.
    pub low: f64,
    /// Upper 95 % confidence limit of the measured probability.
    pub high: f64,
}

/// Failure probabilities of the sector decoder at one raw bit error rate, measured by trials with real bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledDecoderRates {
    /// Probability that a sector is reported as uncorrectable, or is wrong without a report.
    pub uncorrectable: TrialProbability,
    /// Probability that a sector is wrong although the decoder's verdict is good.
    pub miscorrected: TrialProbability,
}

/// Measures the failure probabilities of the sector decoder by decoding `trials` damaged sectors, with importance
/// sampling.
///
/// The number of wrong bits is drawn at a raw bit error rate that is high enough for failures: 40 wrong bits a sector
/// on average, or the given rate if it is higher. Each trial is weighted with the ratio of the two probabilities of its
/// number. The rate of an event that never happens is bounded by the weight of 40 wrong bits, the greatest weight
/// beyond the code's power, times 3 / trials.
pub fn sample(codec: &SectorCodec, raw_bit_error_rate: f64, trials: u64, seed: u64) -> SampledDecoderRates {
    let mut random = Random::stream(seed, "bit errors");
    let interesting = real_length(CORRECTED_BITS + 1) / real_length(STORED_BITS);
    let drawn_at = raw_bit_error_rate.max(interesting);
    let numbers = WrongBitCounts::new(drawn_at);
    let weight = |count| {
        let log = log_binomial_probability(STORED_BITS, raw_bit_error_rate, count);
        libm::exp(log - log_binomial_probability(STORED_BITS, drawn_at, count))
    };
    let (mut failed, mut wrong) = (WeightedTrialSum::default(), WeightedTrialSum::default());
    for _ in 0..trials {
        let count = numbers.draw(&mut random);
        let outcome = run_bit_flip_trial(codec, count, &mut random);
        failed.add(weight(count), outcome != SectorDecodeOutcome::Corrected);
        wrong.add(weight(count), outcome == SectorDecodeOutcome::Miscorrected);
    }
    let unseen = weight(CORRECTED_BITS + 1);
    SampledDecoderRates { uncorrectable: failed.estimate(trials, unseen), miscorrected: wrong.estimate(trials, unseen) }
}

/// Cumulative distribution of the number of wrong bits in a sector, by that number, at one raw bit error rate.
struct WrongBitCounts(Vec<f64>);

impl WrongBitCounts {
    fn new(raw_bit_error_rate: f64) -> WrongBitCounts {
        let mut sum = 0.0;
        let below = (0..=STORED_BITS).map(|count| {
            sum += libm::exp(log_binomial_probability(STORED_BITS, raw_bit_error_rate, count));
            sum
        });
        WrongBitCounts(below.collect())
    }

    fn draw(&self, random: &mut Random) -> usize {
        let share = random.unit();
        self.0.partition_point(|&below| below <= share).min(STORED_BITS)
    }
}

/// Sum of the weights of the trials in which an event happened, and sum of their squares.
#[derive(Default)]
struct WeightedTrialSum {
    weights: f64,
    squares: f64,
}

impl WeightedTrialSum {
    fn add(&mut self, weight: f64, happened: bool) {
        if happened {
            self.weights += weight;
            self.squares += weight * weight;
        }
    }

    fn estimate(&self, trials: u64, unseen_weight: f64) -> TrialProbability {
        let trials = real(trials.max(1));
        if self.weights == 0.0 {
            return TrialProbability { mean: 0.0, low: 0.0, high: (unseen_weight * NEVER_SEEN / trials).min(1.0) };
        }
        let mean = self.weights / trials;
        let variance = (self.squares / trials - mean * mean).max(0.0);
        let margin = STANDARD_ERRORS * libm::sqrt(variance / trials);
        TrialProbability { mean, low: (mean - margin).max(0.0), high: (mean + margin).min(1.0) }
    }
}
