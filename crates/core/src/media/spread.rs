//! Spread of service times: array reads that are repeated, and operations that take less or more than their mean.
//!
//! Data that the error correction code cannot correct is read again from the cells at other voltages. The time of one
//! array read or program depends on the cells, which the model does not follow one by one: it draws a time around the
//! mean, uniformly. The mean of the draws is the configured time; repeated reads come on top of it. A request over
//! several banks waits for the slowest of them, so that its mean latency grows with the spread.

use crate::config;
use crate::random::Random;
use crate::time::Span;

/// Largest number of read retries of one array read.
const RETRIES_MAX: u32 = 16;

/// Random spread of array read and program times, and the rate of read retries.
#[derive(Clone, Debug)]
pub struct ArrayTimeSpread {
    read: f64,
    program: f64,
    retry_rate: f64,
    retry_again: f64,
    /// Time of one read retry; zero if a retry takes as long as the mean first read.
    retry: Span,
    random: Random,
}

impl ArrayTimeSpread {
    /// Creates the spread of a media configuration; `None` if every array operation takes its mean time.
    pub fn of(media: &config::Media, seed: u64) -> Option<ArrayTimeSpread> {
        let has_any = media.read_spread > 0.0 || media.program_spread > 0.0 || media.read_retry_rate > 0.0;
        has_any.then(|| ArrayTimeSpread {
            read: media.read_spread,
            program: media.program_spread,
            retry_rate: media.read_retry_rate,
            retry_again: media.read_retry_again,
            retry: media.read_retry,
            random: Random::stream(seed, "spread of array times"),
        })
    }

    /// Draws the time of an array read, retries included. `mean` is the mean time of a read without retries.
    pub fn read(&mut self, mean: Span) -> Span {
        let mut time = around(mean, self.read, &mut self.random);
        let retry = if self.retry.is_zero() { mean } else { self.retry };
        let mut chance = self.retry_rate;
        for _ in 0..RETRIES_MAX {
            if chance == 0.0 || self.random.unit() >= chance {
                break;
            }
            time += retry;
            chance = self.retry_again;
        }
        time
    }

    /// Draws the time of an array write or erase whose mean time is `mean`.
    pub fn program(&mut self, mean: Span) -> Span {
        around(mean, self.program, &mut self.random)
    }
}

/// Draws a time uniformly from the interval of `mean` plus or minus `share` times `mean`.
pub fn around(mean: Span, share: f64, random: &mut Random) -> Span {
    match share {
        0.0 => mean,
        _ => mean.scale(1.0 + share * (2.0 * random.unit() - 1.0)),
    }
}

impl config::Media {
    /// Returns this media configuration without random spread: read times include the mean time of their retries.
    pub fn in_the_mean(&self) -> config::Media {
        let mut mean = self.clone();
        let further = self.read_retry_rate / (1.0 - self.read_retry_again);
        for read in [&mut mean.read, &mut mean.read_centre, &mut mean.read_upper] {
            let retry = if self.read_retry.is_zero() { *read } else { self.read_retry };
            if !read.is_zero() {
                *read += retry.scale(further);
            }
        }
        (mean.read_spread, mean.program_spread, mean.read_retry_rate) = (0.0, 0.0, 0.0);
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media() -> config::Media {
        config::Media {
            read: Span::from_us(50),
            read_spread: 0.2,
            program_spread: 0.5,
            read_retry_rate: 0.1,
            read_retry_again: 0.5,
            read_retry: Span::from_us(30),
            ..config::Media::default()
        }
    }

    #[test]
    fn random_array_times_keep_their_mean_and_bounds() {
        let mut spread = ArrayTimeSpread::of(&media(), 1).unwrap();
        let reads: Vec<f64> = (0..200_000).map(|_| spread.read(Span::from_us(50)).as_us()).collect();
        let mean = reads.iter().sum::<f64>() / reads.len() as f64;
        // One read in ten is retried, twice on average, at 30 us per retry: 6 us on top of 50 us.
        assert!((mean - media().in_the_mean().read.as_us()).abs() < 0.1 && (mean - 56.0).abs() < 0.1, "{mean}");
        let repeated = reads.iter().filter(|read| **read > 60.0).count() as f64 / reads.len() as f64;
        assert!((repeated - 0.1).abs() < 0.003, "{repeated}");
        assert!(reads.iter().all(|read| *read >= 40.0 && (*read <= 60.0 || *read >= 70.0)));
        let programs: Vec<f64> = (0..1000).map(|_| spread.program(Span::from_us(100)).as_us()).collect();
        let (least, most) =
            programs.iter().fold((f64::MAX, 0.0_f64), |(least, most), it| (least.min(*it), most.max(*it)));
        assert!((50.0..52.0).contains(&least) && (148.0..150.0).contains(&most), "{least} to {most}");
    }

    #[test]
    fn memory_without_spread_draws_no_random_numbers() {
        assert!(ArrayTimeSpread::of(&config::Media::default(), 1).is_none());
        assert_eq!(config::Media::default().in_the_mean().read, config::Media::default().read);
    }

    #[test]
    fn seed_decides_random_array_times() {
        let draw = |seed| {
            let mut spread = ArrayTimeSpread::of(&media(), seed).unwrap();
            (0..100).map(|_| spread.read(Span::from_us(50))).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
