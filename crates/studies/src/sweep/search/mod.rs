//! Search for the cheapest point of a sweep that meets a target, with few runs.
//!
//! Three rules save runs. A closed form rules out points before anything runs ([`Target::is_ruled_out`]). A point that
//! meets the target rules out all that cost as much or more. A point that clearly misses the target rules out all
//! points that are faster in no part. A faster part makes nothing slower, which `tests/sanity` checks, beyond a margin
//! for randomness. Each wave runs the points that leave the fewest open in the worse case. So the answer equals that of
//! running every point, as far as this law holds.

mod costs;
mod target;

pub use costs::{EXAMPLES, PriceList};
pub use target::{Bound, Target};

use super::axis::{SweptKey, SweptPlanPart as Key};
use super::{Figures, Plan};
use phaselink_core::config::document::Value;
use phaselink_core::number::wide_index;
use std::cmp::Ordering;

/// Number of points that run at the same time. It decides which points run, so that it does not depend on the machine.
pub const WAVE: usize = 4;
/// Largest number of open candidates (design points neither run nor ruled out) that are compared to choose the next one
/// to run.
const LOOKED_AT: usize = 512;

/// Keys of the drive for which a larger value is faster, as `tests/sanity` checks. The next list has keys for which a
/// smaller one is.
const MORE_IS_FASTER: [&str; 6] = [
    "link.generation",
    "link.lanes",
    "media.channels",
    "media.banks_per_channel",
    "media.bus_bytes_per_ns",
    "host.core_ghz",
];
const LESS_IS_FASTER: [&str; 2] = ["media.read_ns", "media.program_ns"];

/// Point of a sweep that may be the answer of the search, with its cost.
#[derive(Clone, Debug)]
pub struct SearchCandidate {
    /// Number of the sweep's point that is the candidate, from 0.
    pub point: usize,
    /// Cost of the candidate's drive, which the search minimises.
    pub cost: f64,
    speeds: Vec<Speed>,
}

/// Speed of one key's value, for comparing two candidates.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Speed {
    /// Number from the key's value that is larger for a faster part, such as lanes or a negated latency.
    Known(f64),
    /// Index of a value whose effect on speed is not known; only equal values compare.
    Unknown(usize),
}

/// State of a candidate in the search: open, run, or ruled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateState {
    /// Candidate has neither been run nor been ruled out by another one.
    Open,
    /// Candidate has run, and its figures meet the target.
    Met,
    /// Candidate has run, and its figures miss the target.
    Missed,
    /// Not run, because it is faster in no part than a candidate that clearly missed the target.
    Slower,
    /// Not run, because it costs no less than a candidate that met the target.
    Dearer,
}

/// Search for the cheapest candidate that meets the target, with the state of all candidates.
#[derive(Debug)]
pub struct Search {
    /// All candidates with their states, the cheapest first.
    candidates: Vec<(SearchCandidate, CandidateState)>,
}

impl SearchCandidate {
    /// Returns a candidate for a point of the plan, which costs `cost`.
    pub fn new(plan: &Plan, point: usize, cost: f64) -> SearchCandidate {
        let mut speeds = vec![Speed::Unknown(wide_index(plan.seed(point)))];
        plan.visit(point, |swept, place| speeds.push(speed(swept, place)));
        SearchCandidate { point, cost, speeds }
    }

    /// True if no part of this candidate is faster than that of `other`, and all parts without a known speed are equal.
    fn is_no_faster_in_any_part(&self, other: &SearchCandidate) -> bool {
        self.speeds.iter().zip(&other.speeds).all(|pair| match pair {
            (Speed::Known(own), Speed::Known(others)) => own <= others,
            (own, others) => own == others,
        })
    }
}

fn speed(swept: &SweptKey, place: usize) -> Speed {
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
    /// Returns a search among these candidates, all of which are open.
    pub fn new(candidates: impl IntoIterator<Item = SearchCandidate>) -> Search {
        let mut candidates: Vec<_> =
            candidates.into_iter().map(|candidate| (candidate, CandidateState::Open)).collect();
        candidates.sort_by(|(a, _), (b, _)| a.cost.total_cmp(&b.cost).then(a.point.cmp(&b.point)));
        Search { candidates }
    }

    /// Returns the points to run next, or none once the answer is known.
    pub fn wave(&self) -> Vec<usize> {
        let mut open: Vec<&SearchCandidate> = self
            .candidates
            .iter()
            .filter(|(_, state)| *state == CandidateState::Open)
            .map(|(candidate, _)| candidate)
            .collect();
        let mut wave = Vec::new();
        while wave.len() < WAVE {
            let Some(chosen) = choose_next_candidate(&open) else { break };
            wave.push(chosen.point);
            // Keep only candidates that the chosen one's result may fail to rule out: cheaper ones that are faster in
            // some part.
            open.retain(|other| is_better_answer(other, chosen) && !other.is_no_faster_in_any_part(chosen));
        }
        wave
    }

    /// Records the figures of a sweep's point that has run, and rules out other candidates by it.
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
                () if is_met && !is_better_answer(other, &told) => CandidateState::Dearer,
                () if !is_met && is_clear && other.is_no_faster_in_any_part(&told) => CandidateState::Slower,
                () => CandidateState::Open,
            };
        }
    }

    /// Returns the cheapest candidate that has run and met the target, or `None`.
    pub fn best(&self) -> Option<&SearchCandidate> {
        self.candidates.iter().find(|(_, state)| *state == CandidateState::Met).map(|(candidate, _)| candidate)
    }

    /// Returns the number of the search's candidates that are in this state, such as open or ruled out.
    pub fn count(&self, state: CandidateState) -> usize {
        self.candidates.iter().filter(|(_, other)| *other == state).count()
    }

    /// Returns the search's candidates that have run, with their states, the cheapest first.
    pub fn ran(&self) -> impl Iterator<Item = (&SearchCandidate, CandidateState)> {
        let ran =
            self.candidates.iter().filter(|(_, state)| matches!(state, CandidateState::Met | CandidateState::Missed));
        ran.map(|(candidate, state)| (candidate, *state))
    }
}

/// True if candidate `a` is a better answer than `b` in case both meet the target: cheaper, or earlier in the plan.
fn is_better_answer(a: &SearchCandidate, b: &SearchCandidate) -> bool {
    a.cost.total_cmp(&b.cost).then(a.point.cmp(&b.point)) == Ordering::Less
}

/// Returns the open candidate whose run leaves the fewest candidates open in the worse case; among equal ones the
/// cheapest.
fn choose_next_candidate<'a>(open: &[&'a SearchCandidate]) -> Option<&'a SearchCandidate> {
    let sample: Vec<&SearchCandidate> = open.iter().step_by(open.len().div_ceil(LOOKED_AT).max(1)).copied().collect();
    let spared = |candidate: &SearchCandidate| {
        let if_missed = sample.iter().filter(|other| other.is_no_faster_in_any_part(candidate)).count();
        let if_met = sample.iter().filter(|other| !is_better_answer(other, candidate)).count();
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
