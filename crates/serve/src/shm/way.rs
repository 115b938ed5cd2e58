//! How long the way between a client and the device is, so that timing can be the model's and not the model's plus that.
//!
//! Probes are reads that no model delays. A client sends each as soon as it has the data of the one before, so that
//! their distance at the device is one way there and back: publishing, polling, copying, looking at tags, copying out.
//! The time is the device's own; a client that dawdles makes its own answers early, and nobody else's.

use phaselink_client::PROBE_BYTES;
use phaselink_core::time::{Span, Time};

/// Distances that are kept for each length.
const SAMPLES: usize = 64;
/// A longer way is none: something else had the processor (assumed; the limits of two threads are 0.6 and 1.4 us).
const WAY_MAX: Span = Span::from_us(5);

/// The way of one client.
#[derive(Clone, Debug, Default)]
pub struct Way {
    last: Option<(u32, Time)>,
    samples: [Vec<Span>; 2],
    /// For the lengths of [`PROBE_BYTES`].
    spans: [Span; 2],
}

impl Way {
    /// A probe of `bytes` has been found at `now`.
    pub fn on_probe(&mut self, bytes: u32, now: Time) {
        let before = self.last.replace((bytes, now)).filter(|(before, _)| *before == bytes);
        let place = PROBE_BYTES.iter().position(|probe| *probe == bytes);
        let (Some((_, before)), Some(place)) = (before, place) else { return };
        let samples = &mut self.samples[place];
        if samples.len() < SAMPLES {
            samples.push(now.since(before));
            samples.sort_unstable();
            self.spans[place] = samples[samples.len() / 2].min(WAY_MAX);
        }
    }

    /// There and back with so many bytes: on the line through what has been measured, and none if nothing has.
    pub fn span(&self, bytes: u32) -> Span {
        let [short, long] = self.spans;
        let [short_bytes, long_bytes] = PROBE_BYTES;
        let beyond = u64::from(bytes.saturating_sub(short_bytes));
        let slope = long.saturating_sub(short).as_ps() * beyond / u64::from(long_bytes - short_bytes);
        (short + Span::from_ps(slope)).min(WAY_MAX * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(distances: [u64; 2]) -> Way {
        let (mut way, mut now) = (Way::default(), Time::ZERO);
        for (bytes, distance_ns) in PROBE_BYTES.into_iter().zip(distances) {
            for number in 0..20 {
                way.on_probe(bytes, now);
                // One in five is late, which the median does not mind.
                now += Span::from_ns(if number % 5 == 4 { 100_000 } else { distance_ns });
            }
        }
        way
    }

    #[test]
    fn the_way_is_a_line_through_the_medians_of_both_lengths() {
        let way = probed([600, 1300]);
        assert_eq!(way.span(512), Span::from_ns(600));
        assert_eq!(way.span(4096), Span::from_ns(1300));
        assert_eq!(way.span(512 + 1792), Span::from_ns(950));
        assert_eq!(way.span(4096 + 3584), Span::from_ns(2000));
    }

    #[test]
    fn nothing_measured_is_nothing_absorbed_and_no_probe_absorbs_more_than_the_limit() {
        assert_eq!(Way::default().span(4096), Span::ZERO);
        assert_eq!(probed([1_000_000, 1_000_000]).span(512), WAY_MAX);
    }
}
