//! Pace of software: a random factor on the time of each piece, which is larger while the other hardware thread of the
//! core runs too.
//!
//! With constant times, handlers and completions lock into each other's phase, so that a faster part may make the whole
//! slower; no real machine does that. Each piece of software (the way down, the way up, a handler) takes its time times
//! a factor of mean 1. Its distribution is the sum of four uniform ones, which is near enough to the normal one, has no
//! values beyond 3.5 deviations, and costs one draw.

use crate::config;
use crate::number::low_u32;
use crate::random::Random;

/// Factor of 1 in units of 2^-16.
pub(super) const ONE: u32 = 1 << 16;
/// Mean and standard deviation of the sum of four uniform numbers of 16 bits: 4 (2^16 - 1) / 2 and
/// sqrt(4 (2^32 - 1) / 12).
const SUM_MEAN: i64 = 131_070;
const SUM_DEVIATION: f64 = 37_836.7;

/// Random paces of the pieces of software of a host.
#[derive(Clone, Debug)]
pub(super) struct SoftwarePaces {
    /// Change of the factor for one unit of the sum of random numbers, in units of 2^-32; 0 if the pace never varies.
    per_unit: i64,
    /// Factor on a core whose two hardware threads both run, in units of 2^-16.
    shared: u32,
    random: Random,
}

impl SoftwarePaces {
    /// Creates the paces of this host's software.
    pub(super) fn new(host: &config::Host, seed: u64) -> SoftwarePaces {
        let per_unit = host.variation / SUM_DEVIATION * f64::from(ONE) * f64::from(ONE);
        // Two threads on one core together run 1 + yield times as fast as one thread alone.
        let shared = if host.threads_per_core > 1 { 2.0 / (1.0 + host.thread_yield) } else { 1.0 };
        SoftwarePaces {
            per_unit: per_unit.round() as i64,
            shared: (shared * f64::from(ONE)).round() as u32,
            random: Random::stream(seed, "pace of software"),
        }
    }

    /// True if software takes exactly its configured time, without random variation and without a slower second
    /// hardware thread.
    pub(super) fn is_even(&self) -> bool {
        self.per_unit == 0 && self.shared == ONE
    }

    /// Draws the factor, in units of 2^-16, of a piece of software that has its core alone.
    pub(super) fn draw(&mut self) -> u32 {
        match self.per_unit {
            0 => ONE,
            per_unit => (i64::from(ONE) + (((self.sum() - SUM_MEAN) * per_unit) >> 16)) as u32,
        }
    }

    /// Draws the factor, in units of 2^-16, of a piece of software on a core whose other hardware thread runs too.
    #[inline(never)]
    pub(super) fn draw_sibling_pace(&mut self) -> u32 {
        low_u32((u64::from(self.draw()) * u64::from(self.shared)) >> 16)
    }

    fn sum(&mut self) -> i64 {
        let bits = self.random.bits();
        let pairs = (bits & 0x0000_ffff_0000_ffff) + ((bits >> 16) & 0x0000_ffff_0000_ffff);
        ((pairs & 0xffff_ffff) + (pairs >> 32)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(variation: f64, threads_per_core: u8) -> SoftwarePaces {
        SoftwarePaces::new(
            &config::Host { variation, threads_per_core, thread_yield: 0.42, ..config::Host::default() },
            1,
        )
    }

    #[test]
    fn pace_factors_have_mean_one_and_the_given_deviation() {
        let mut pace = pace(0.09, 1);
        let factors: Vec<f64> = (0..100_000).map(|_| f64::from(pace.draw()) / f64::from(ONE)).collect();
        let mean = factors.iter().sum::<f64>() / 1e5;
        let deviation = (factors.iter().map(|factor| (factor - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
        assert!((mean - 1.0).abs() < 1e-3, "{mean}");
        assert!((deviation - 0.09).abs() < 1e-3, "{deviation}");
        assert!(factors.iter().all(|factor| (factor - 1.0).abs() < 3.5 * 0.09));
    }

    #[test]
    fn pace_is_constant_without_variation_and_siblings() {
        assert!(pace(0.0, 1).is_even());
        assert!(!pace(0.01, 1).is_even() && !pace(0.0, 2).is_even());
        assert_eq!(pace(0.0, 1).draw(), ONE);
    }

    #[test]
    fn sibling_threads_share_a_core_by_the_configured_yield() {
        let shared = f64::from(pace(0.0, 2).draw_sibling_pace()) / f64::from(ONE);
        assert!((2.0 / shared - 1.42).abs() < 1e-4, "{shared}");
    }
}
