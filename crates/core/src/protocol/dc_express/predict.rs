//! When the next command will be there to be read (section 4: "we can adjust the endpoint polling to anticipate the
//! times of arrival of new commands").
//!
//! All the endpoint can know is which of its queue reads came back empty and which did not, so that each command's
//! arrival lies between the last miss and the first hit. Counted from the end of the previous read's data, these
//! brackets agree in a tight loop and are halved until they are a few nanoseconds wide; with random arrivals they
//! contradict each other, and the endpoint goes on polling as often as it can.

use crate::time::{Span, Time};

/// Width at which a bracket is narrow enough.
const WIDTH: i64 = 4_000;
/// Brackets in a row that must agree before they are believed.
const BELIEF: u8 = 3;
/// After so many hits in a row the endpoint tries whether commands come earlier by now.
const PROBE_EVERY: u16 = 1024;
/// Size classes, by the power of two of a read's packets: the host's turn-around depends on them.
const CLASSES: usize = 16;

/// What is known of one size class: commands arrive within (`after`, `before`] picoseconds of the last data's end.
#[derive(Clone, Copy, Debug, Default)]
struct Bracket {
    after: i64,
    before: i64,
    belief: u8,
    hits: u16,
}

/// The endpoint's expectation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Predictor {
    brackets: [Bracket; CLASSES],
}

/// Signed distance in picoseconds.
fn offset(at: Time, from: Time) -> i64 {
    at.as_ps() as i64 - from.as_ps() as i64
}

impl Predictor {
    /// When to read the queue after data of `packets` packets that ends at `ready_at`; none if nothing can be said.
    pub fn target(&self, packets: u32, ready_at: Time) -> Option<Time> {
        let bracket = &self.brackets[class(packets)];
        if bracket.belief < BELIEF {
            return None;
        }
        let width = bracket.before - bracket.after;
        let at = if width > WIDTH { bracket.before - width / 2 } else { bracket.before };
        Some(match at {
            0.. => ready_at + Span::from_ps(at as u64),
            _ => ready_at - Span::from_ps(at.unsigned_abs()),
        })
    }

    /// A command was there for a read issued at `hit`, but not for one issued at `miss`.
    pub fn observe(&mut self, packets: u32, ready_at: Time, miss: Time, hit: Time) {
        let (after, before) = (offset(miss, ready_at), offset(hit, ready_at));
        let bracket = &mut self.brackets[class(packets)];
        if after >= bracket.before || before <= bracket.after || bracket.belief == 0 {
            *bracket = Bracket { after, before, belief: 1, hits: 0 };
            return;
        }
        bracket.after = bracket.after.max(after);
        bracket.before = bracket.before.min(before);
        bracket.belief = (bracket.belief + 1).min(BELIEF);
        bracket.hits += 1;
        if bracket.hits >= PROBE_EVERY {
            bracket.hits = 0;
            bracket.after = bracket.before - 4 * WIDTH;
        }
    }
}

fn class(packets: u32) -> usize {
    (packets.max(1).ilog2() as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    /// An endpoint that polls every `period` ns where it has no target, and a host that enqueues `gap` ns after the data.
    fn tight_loop(predictor: &mut Predictor, gap: impl Fn(u64) -> u64, period: u64, rounds: u64) -> Vec<u64> {
        (0..rounds)
            .map(|round| {
                let ready = at(round * 100_000);
                let arrival = ready + Span::from_ns(gap(round));
                let target = predictor.target(4, ready);
                let mut miss = ready - Span::from_ns(100);
                // As the endpoint does: at the expected time if that is nearer than a period, else after one.
                let after = |miss: Time| {
                    let soon = miss + Span::from_ns(period);
                    target.filter(|&at| at > miss && at <= soon).unwrap_or(soon)
                };
                while after(miss) < arrival {
                    miss = after(miss);
                }
                let poll = after(miss);
                predictor.observe(4, ready, miss, poll);
                poll.since(arrival).as_ps() / 1000
            })
            .collect()
    }

    #[test]
    fn a_tight_loop_is_met_within_the_width_of_a_bracket() {
        let mut predictor = Predictor::default();
        let waits = tight_loop(&mut predictor, |_| 333, 700, 100);
        assert!(waits[90..].iter().all(|&wait| wait <= 4), "{:?}", &waits[90..]);
    }

    #[test]
    fn a_changed_loop_is_learnt_again() {
        let mut predictor = Predictor::default();
        tight_loop(&mut predictor, |_| 333, 700, 100);
        let waits = tight_loop(&mut predictor, |_| 450, 700, 100);
        assert!(waits[90..].iter().all(|&wait| wait <= 4), "{:?}", &waits[90..]);
        let waits = tight_loop(&mut predictor, |_| 425, 700, 4 * 1024);
        assert!(waits[4000..].iter().all(|&wait| wait <= 29), "{:?}", &waits[4000..4010]);
    }

    #[test]
    fn arrivals_without_a_pattern_are_met_after_half_a_period_on_average() {
        let mut predictor = Predictor::default();
        let waits = tight_loop(&mut predictor, |round| 5_000 + crate::random::mix(round) % 20_000, 700, 2_000);
        let mean = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
        assert!((300.0..400.0).contains(&mean), "{mean}");
    }
}
