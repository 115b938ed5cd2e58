//! Due times of the reads, or the writes, of a job with a rate (fio `rate_iops`, `rate_process`).

use super::RateProcess;
use super::addresses::unit;
use crate::number::whole;
use crate::time::{Span, Time};
use rand_xoshiro::Xoshiro256PlusPlus;

const PS_PER_S: u128 = 1_000_000_000_000;

/// Due times of the reads, or of the writes, of a thread with a rate.
#[derive(Clone, Debug)]
pub(super) struct RateDueTimes {
    due: Time,
    gap: Gap,
}

/// Times between the requests of a thread with a rate.
#[derive(Clone, Debug)]
enum Gap {
    /// Request k is due at k / rate, rounded down to a picosecond, without drift: the period and the time passed are
    /// kept in units of 2^-64 ps.
    Linear { period: u128, passed: u128 },
    /// Times between requests are exponentially distributed with this mean in picoseconds.
    Poisson { mean_ps: f64 },
}

impl RateDueTimes {
    /// Makes due times for `rate_iops` requests a second, above zero. A linear rate starts at time zero, as fio's does.
    /// A Poisson process starts with a gap, so that arrivals in any window have its distribution.
    pub(super) fn new(rate_iops: f64, process: RateProcess, random: &mut Xoshiro256PlusPlus) -> RateDueTimes {
        match process {
            RateProcess::Linear => {
                RateDueTimes { due: Time::ZERO, gap: Gap::Linear { period: period(rate_iops), passed: 0 } }
            }
            RateProcess::Poisson => {
                let mut pace =
                    RateDueTimes { due: Time::ZERO, gap: Gap::Poisson { mean_ps: PS_PER_S as f64 / rate_iops } };
                pace.advance(random);
                pace
            }
        }
    }

    /// Returns the time at which the next request is due.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Moves the due time on to that of the following request.
    #[inline(never)]
    pub(super) fn advance(&mut self, random: &mut Xoshiro256PlusPlus) {
        match &mut self.gap {
            Gap::Linear { period, passed } => {
                *passed = passed.saturating_add(*period);
                self.due = Time::from_ps((*passed >> 64) as u64);
            }
            Gap::Poisson { mean_ps } => self.due += exponential(*mean_ps, random),
        }
    }
}

/// Returns 1 / rate in units of 2^-64 ps. The result is rounded up for whole rates, so that a due time that is a whole
/// number of picoseconds is met exactly.
fn period(rate_iops: f64) -> u128 {
    if rate_iops.fract() == 0.0 && rate_iops >= 1.0 {
        (PS_PER_S << 64).div_ceil(rate_iops as u128)
    } else {
        (PS_PER_S as f64 / rate_iops * (1u128 << 64) as f64) as u128
    }
}

/// Draws an exponentially distributed time between two requests, by inversion of its cumulative distribution 1 - exp(-t
/// / mean). The mean is in picoseconds.
pub(super) fn exponential(mean_ps: f64, random: &mut Xoshiro256PlusPlus) -> Span {
    Span::from_ps(whole((-libm::log1p(-unit(random)) * mean_ps).round())).min(Span::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn dues(rate_iops: f64, process: RateProcess, count: usize) -> Vec<u64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut pace = RateDueTimes::new(rate_iops, process, &mut random);
        let mut next = || {
            let due = pace.due().as_ps();
            pace.advance(&mut random);
            due
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn linear_rate_does_not_drift() {
        for rate in [1u64, 3, 7, 1000, 333_333, 1_400_000, 999_999_999] {
            for (k, due) in dues(rate as f64, RateProcess::Linear, 10_000).into_iter().enumerate() {
                assert_eq!(u128::from(due), k as u128 * PS_PER_S / u128::from(rate), "request {k} at {rate}/s");
            }
        }
    }

    #[test]
    fn fractional_linear_rate_keeps_its_grid() {
        assert_eq!(dues(0.5, RateProcess::Linear, 3), [0, 2_000_000_000_000, 4_000_000_000_000]);
    }

    #[test]
    fn poisson_gaps_are_exponentially_distributed() {
        let count = 200_000;
        let dues = dues(1e6, RateProcess::Poisson, count);
        let gaps: Vec<f64> = dues.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64;
        // For n exponential gaps, the standard error of the mean is 1 / sqrt(n), that of the variance sqrt(8 / n).
        assert!((mean - 1.0).abs() < 5.0 / (count as f64).sqrt(), "mean {mean}");
        assert!((variance - 1.0).abs() < 5.0 * (8.0 / count as f64).sqrt(), "variance {variance}");
        let beyond_two = gaps.iter().filter(|&&gap| gap > 2.0).count() as f64 / gaps.len() as f64;
        assert!((beyond_two - libm::exp(-2.0)).abs() < 0.004, "share beyond twice the mean {beyond_two}");
    }
}
