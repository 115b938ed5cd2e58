//! The cheapest point of a plan that meets a target, with few runs.
//!
//! Three things spare runs. A closed form rules points out before anything runs ([`Target::is_ruled_out`]). A point that
//! meets the target rules out all that cost as much or more. And a point that misses it clearly rules out all that are
//! nowhere faster: a faster part makes nothing slower, as `tests/sanity` tries, beyond a margin that is left to chance.
//! Each wave runs the points that leave the fewest open, whichever way they turn out; so the answer is that of running
//! everything, as far as that law holds.

mod costs;
mod target;

pub use costs::{EXAMPLES, PriceList};
pub use target::{Bound, Target};

use super::axis::{AxisTarget as Key, Swept};
use super::{Figures, Plan};
use crate::config::document::Value;
use std::cmp::Ordering;

/// Points that run side by side. Their number decides which ones run, and so does not depend on the machine.
pub const WAVE: usize = 4;
/// Points that are looked at to choose the next ones, and against how many they are held.
const LOOKED_AT: usize = 512;

/// Keys of parts of which more is faster, and those of which less is: those that `tests/sanity` tries.
const MORE_IS_FASTER: [&str; 6] = [
    "link.generation",
    "link.lanes",
    "media.channels",
    "media.banks_per_channel",
    "media.bus_bytes_per_ns",
    "host.core_ghz",
];
const LESS_IS_FASTER: [&str; 2] = ["media.read_ns", "media.program_ns"];

/// A point that may be the answer.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Number of the point in the plan, counted from 0.
    pub point: usize,
    /// Cost of the point, which the search minimises.
    pub cost: f64,
    speeds: Vec<Speed>,
}

/// A value of one key, as far as it says how fast something is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Speed {
    /// The larger the faster.
    Known(f64),
    /// The place of a value among others of which nobody knows.
    Unknown(usize),
}

/// State of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateState {
    /// Not run yet, and not ruled out by another candidate.
    Open,
    /// Run, and its figures meet the target.
    Met,
    /// Run, and its figures miss the target.
    Missed,
    /// Slower than one that missed the target clearly.
    Slower,
    /// No cheaper than one that met it.
    Dearer,
}

/// A search under way.
#[derive(Debug)]
pub struct Search {
    /// The cheapest first.
    candidates: Vec<(Candidate, CandidateState)>,
}

impl Candidate {
    /// A point of a plan with its cost.
    pub fn new(plan: &Plan, point: usize, cost: f64) -> Candidate {
        let mut speeds = vec![Speed::Unknown(plan.seed(point) as usize)];
        plan.visit(point, |swept, place| speeds.push(speed(swept, place)));
        Candidate { point, cost, speeds }
    }

    /// True if no part of the candidate is faster than the other's, nor of another kind.
    fn is_nowhere_faster(&self, other: &Candidate) -> bool {
        self.speeds.iter().zip(&other.speeds).all(|pair| match pair {
            (Speed::Known(own), Speed::Known(others)) => own <= others,
            (own, others) => own == others,
        })
    }
}

fn speed(swept: &Swept, place: usize) -> Speed {
    let value = match swept.values[place].value {
        Value::Integer(integer) => integer as f64,
        Value::Float(float) => float,
        _ => return Speed::Unknown(place),
    };
    match swept.target() {
        Key::Description(key) if MORE_IS_FASTER.contains(&key) => Speed::Known(value),
        Key::Description(key) if LESS_IS_FASTER.contains(&key) => Speed::Known(-value),
        _ => Speed::Unknown(place),
    }
}

impl Search {
    /// A search among these.
    pub fn new(candidates: impl IntoIterator<Item = Candidate>) -> Search {
        let mut candidates: Vec<_> =
            candidates.into_iter().map(|candidate| (candidate, CandidateState::Open)).collect();
        candidates.sort_by(|(a, _), (b, _)| a.cost.total_cmp(&b.cost).then(a.point.cmp(&b.point)));
        Search { candidates }
    }

    /// The points to run next; none once the answer is known.
    pub fn wave(&self) -> Vec<usize> {
        let mut open: Vec<&Candidate> = self
            .candidates
            .iter()
            .filter(|(_, state)| *state == CandidateState::Open)
            .map(|(candidate, _)| candidate)
            .collect();
        let mut wave = Vec::new();
        while wave.len() < WAVE {
            let Some(chosen) = choose(&open) else { break };
            wave.push(chosen.point);
            // Whichever way the chosen one turns out, these stay open: cheaper, and somewhere faster.
            open.retain(|other| is_before(other, chosen) && !other.is_nowhere_faster(chosen));
        }
        wave
    }

    /// Takes the result of a run.
    pub fn tell(&mut self, point: usize, target: &Target, figures: &Figures) {
        let (is_met, is_clear) = (target.is_met(figures), target.is_missed_clearly(figures));
        self.settle(point, is_met, is_clear);
    }

    fn settle(&mut self, point: usize, is_met: bool, is_clear: bool) {
        let Some(place) = self.candidates.iter().position(|(candidate, _)| candidate.point == point) else { return };
        let told = self.candidates[place].0.clone();
        self.candidates[place].1 = if is_met { CandidateState::Met } else { CandidateState::Missed };
        for (other, state) in self.candidates.iter_mut().filter(|(_, state)| *state == CandidateState::Open) {
            *state = match () {
                () if is_met && !is_before(other, &told) => CandidateState::Dearer,
                () if !is_met && is_clear && other.is_nowhere_faster(&told) => CandidateState::Slower,
                () => CandidateState::Open,
            };
        }
    }

    /// The cheapest that has met the target.
    pub fn best(&self) -> Option<&Candidate> {
        self.candidates.iter().find(|(_, state)| *state == CandidateState::Met).map(|(candidate, _)| candidate)
    }

    /// Returns the number of candidates in a state.
    pub fn count(&self, state: CandidateState) -> usize {
        self.candidates.iter().filter(|(_, other)| *other == state).count()
    }

    /// Returns the candidates that have run, the cheapest first.
    pub fn ran(&self) -> impl Iterator<Item = (&Candidate, CandidateState)> {
        let ran =
            self.candidates.iter().filter(|(_, state)| matches!(state, CandidateState::Met | CandidateState::Missed));
        ran.map(|(candidate, state)| (candidate, *state))
    }
}

/// True if the first of two candidates that meet the target is the better answer.
fn is_before(a: &Candidate, b: &Candidate) -> bool {
    a.cost.total_cmp(&b.cost).then(a.point.cmp(&b.point)) == Ordering::Less
}

/// The one after which the fewest are open even if it turns out for the worse; of several the cheapest.
fn choose<'a>(open: &[&'a Candidate]) -> Option<&'a Candidate> {
    let sample: Vec<&Candidate> = open.iter().step_by(open.len().div_ceil(LOOKED_AT).max(1)).copied().collect();
    let spared = |candidate: &Candidate| {
        let if_missed = sample.iter().filter(|other| other.is_nowhere_faster(candidate)).count();
        let if_met = sample.iter().filter(|other| !is_before(other, candidate)).count();
        (if_missed.min(if_met), if_missed + if_met)
    };
    sample
        .iter()
        .map(|candidate| (spared(candidate), *candidate))
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
