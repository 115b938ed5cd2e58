//! Write amplification of the second half of the writes of a run, when garbage collection has settled: of the drive, and
//! of each placement handle.

use crate::number::narrow;

/// Number of samples of a run's progress at which every other one is dropped.
const SAMPLES_MAX: usize = 64;
/// Number of samples that a run takes until it has written as many bytes as are in use on the drive.
const FIRST_SAMPLES: u64 = 16;

/// Totals of a run so far: bytes that hosts have written, and bytes that were programmed for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) written: u64,
    pub(super) programmed: u64,
}

/// Samples of the progress of the drive and of its streams at equal distances in bytes written. Their number stays
/// bounded: when there are many, every other one is dropped, and the distance doubles.
#[derive(Clone, Debug)]
pub(super) struct WriteProgressSamples {
    /// Progress of the drive, followed by that of each host-selected stream, at each sample.
    samples: Vec<Vec<Progress>>,
    /// Number of bytes that are in use on the drive.
    used_bytes: u64,
    /// Number of bytes written between two samples.
    every: u64,
    /// Number of bytes written at which the next sample is due.
    due: u64,
}

impl WriteProgressSamples {
    /// Creates the empty history of a drive of which `used_bytes` bytes are in use.
    pub(super) fn new(used_bytes: u64) -> WriteProgressSamples {
        let every = used_bytes.div_ceil(FIRST_SAMPLES);
        WriteProgressSamples { samples: Vec::new(), used_bytes, every, due: every }
    }

    /// True if a sample is due after `written` bytes.
    #[inline]
    pub(super) fn is_due(&self, written: u64) -> bool {
        written >= self.due
    }

    /// Adds a sample of the progress after `written` bytes.
    #[cold]
    pub(super) fn add(&mut self, written: u64, progress: Vec<Progress>) {
        self.samples.push(progress);
        if self.samples.len() == SAMPLES_MAX {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.every *= 2;
        }
        self.due = written + self.every;
    }

    /// Returns the write amplification, in percent, of the writes since the sample that is nearest to half of `now`: of
    /// the drive, and then of each stream, `None` for one that has not been written since. Empty if the run has not
    /// overwritten the drive once, so that garbage collection has not settled.
    pub(super) fn second_half_amplification_percent(&self, now: &[Progress]) -> Vec<Option<u64>> {
        let written = now.first().map_or(0, |drive| drive.written);
        let samples = self.samples.iter().filter(|_| written >= self.used_bytes);
        let nearest = samples.min_by_key(|sample| sample[0].written.abs_diff(written / 2));
        let since = |(now, then): (&Progress, &Progress)| {
            let (written, programmed) = (now.written - then.written, now.programmed - then.programmed);
            (written > 0).then(|| narrow::<u64, u128>(u128::from(programmed) * 100 / u128::from(written)))
        };
        nearest.map_or(Vec::new(), |then| now.iter().zip(then).map(since).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplification_of_the_second_half_is_known_for_any_run_length() {
        for runs in [10_u64, 100, 100_000] {
            let mut history = WriteProgressSamples::new(10_000);
            // Of what the host writes in the first half of the run, the drive programs as much; in the second half,
            // three times as much.
            let progress =
                |at: u64| Progress { written: at * 1000, programmed: 1000 * (at + 2 * at.saturating_sub(runs / 2)) };
            for at in 1..=runs {
                if history.is_due(at * 1000) {
                    history.add(at * 1000, vec![progress(at), Progress::default()]);
                }
            }
            let found = history.second_half_amplification_percent(&[progress(runs), Progress::default()]);
            assert!((280..=300).contains(&found[0].unwrap()), "{runs}: {found:?}");
            assert_eq!((found[1], history.samples.len() < SAMPLES_MAX), (None, true));
        }
        assert_eq!(WriteProgressSamples::new(10_000).second_half_amplification_percent(&[Progress::default()]), []);
    }
}
