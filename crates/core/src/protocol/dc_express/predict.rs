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
/// Commands of one loop come so far apart from each other: packets of the link's own housekeeping pass before the data.
const JITTER: i64 = 32_000;
/// Brackets in a row that must agree before they are believed.
const BELIEF: u8 = 3;
/// After so many hits the endpoint tries whether commands come earlier by now: at first and as long as they do, and at
/// most, when it has tried in vain.
const PROBE_FIRST: u16 = 16;
const PROBE_LAST: u16 = 1024;
/// How much earlier it tries: at first, and at most.
const REACH_FIRST: i64 = 4 * WIDTH;
const REACH_LAST: i64 = 512_000;
/// Size classes, by the power of two of a read's packets: the host's turn-around depends on them.
const CLASSES: usize = 16;

/// What is known of one size class: commands arrive within (`after`, `before`] picoseconds of the last data's end.
#[derive(Clone, Copy, Debug, Default)]
struct Bracket {
    after: i64,
    before: i64,
    belief: u8,
    hits: u16,
    /// How far the last command that came late has moved the bracket.
    step: i64,
    /// Hits to the next probe, how far it goes, and whether the last one was too early at any time.
    period: u16,
    reach: i64,
    too_early: bool,
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

    /// A command that was expected after data of `packets` packets has not come.
    pub fn doubt(&mut self, packets: u32) {
        let bracket = &mut self.brackets[class(packets)];
        bracket.belief = bracket.belief.saturating_sub(1);
    }

    /// A read at the target was too soon for the command that was expected after data of `packets` packets.
    pub fn raise(&mut self, packets: u32) {
        let bracket = &mut self.brackets[class(packets)];
        let middle = bracket.before - (bracket.before - bracket.after) / 2;
        bracket.after = middle.min(bracket.before - WIDTH / 2).max(bracket.after);
        bracket.too_early = true;
    }

    /// A command was there for a read issued at `hit`, but not for one issued at `miss`, if there was one.
    pub fn observe(&mut self, packets: u32, ready_at: Time, miss: Option<Time>, hit: Time) {
        let before = offset(hit, ready_at);
        let bracket = &mut self.brackets[class(packets)];
        let Some(after) = miss.map(|miss| offset(miss, ready_at)) else {
            return bracket.count(before);
        };
        let is_far = after >= bracket.before + JITTER || before + JITTER <= bracket.after;
        if is_far || bracket.belief == 0 {
            *bracket = Bracket { after, before, belief: 1, period: PROBE_FIRST, reach: WIDTH, ..Bracket::default() };
            return;
        }
        bracket.belief = (bracket.belief + 1).min(BELIEF);
        if after >= bracket.before {
            return bracket.yield_to(after, before);
        }
        bracket.after = bracket.after.max(after);
        bracket.count(before);
    }
}

impl Bracket {
    /// A command was there by `before`.
    fn count(&mut self, before: i64) {
        self.before = self.before.min(before);
        self.after = self.after.min(self.before - WIDTH / 2);
        self.hits += u16::from(self.belief >= BELIEF);
        if self.hits >= self.period && self.belief >= BELIEF {
            self.probe();
        }
    }

    /// Look for commands that come earlier: further and sooner as long as that is so.
    fn probe(&mut self) {
        (self.period, self.reach) = match self.too_early {
            true => ((self.period * 4).min(PROBE_LAST), REACH_FIRST),
            false => (PROBE_FIRST, (self.reach * 2).clamp(REACH_FIRST, REACH_LAST)),
        };
        (self.hits, self.step, self.too_early) = (0, 0, false);
        self.after = self.before - self.reach;
    }

    /// A command has come a little later than any before: look for the next ones that much later and some more, and more
    /// still if that is not enough.
    fn yield_to(&mut self, after: i64, before: i64) {
        self.step = (self.step * 2).clamp(WIDTH, JITTER);
        (self.after, self.before) = (after, before.min(after + self.step));
        (self.hits, self.too_early) = (0, true);
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
                    if target == Some(miss) {
                        predictor.raise(4);
                    }
                }
                let poll = after(miss);
                predictor.observe(4, ready, Some(miss), poll);
                poll.since(arrival).as_ps() / 1000
            })
            .collect()
    }

    /// The share of waits of no more than `ns`.
    fn share_within(waits: &[u64], ns: u64) -> f64 {
        waits.iter().filter(|&&wait| wait <= ns).count() as f64 / waits.len() as f64
    }

    #[test]
    fn a_tight_loop_is_met_within_the_width_of_a_bracket() {
        let mut predictor = Predictor::default();
        let waits = tight_loop(&mut predictor, |_| 333, 700, 4_000);
        assert!(share_within(&waits[2_000..], 4) > 0.99, "{}", share_within(&waits[2_000..], 4));
    }

    #[test]
    fn a_loop_that_comes_a_little_earlier_or_later_each_time_is_met_within_as_much() {
        let mut predictor = Predictor::default();
        let gap = |round| 333 + crate::random::mix(round) % 13;
        let waits = tight_loop(&mut predictor, gap, 700, 8_000);
        assert!(share_within(&waits[4_000..], 30) > 0.97, "{}", share_within(&waits[4_000..], 30));
    }

    #[test]
    fn a_changed_loop_is_learnt_again() {
        let mut predictor = Predictor::default();
        for gap in [333, 450, 425, 150] {
            let waits = tight_loop(&mut predictor, |_| gap, 700, 16 * 1024);
            assert!(share_within(&waits[12_000..], 4) > 0.99, "{gap}: {}", share_within(&waits[12_000..], 4));
        }
    }

    #[test]
    fn arrivals_without_a_pattern_are_met_after_half_a_period_on_average() {
        let mut predictor = Predictor::default();
        let waits = tight_loop(&mut predictor, |round| 5_000 + crate::random::mix(round) % 20_000, 700, 2_000);
        let mean = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
        assert!((300.0..400.0).contains(&mean), "{mean}");
    }
}
