//! Looking for the values.

use std::cell::Cell;

use super::matrix::{Rows, axes, dot};
use super::{Answer, Each, Question};
use crate::problem::Problems;
use crate::random::Random;

/// Seeds by which chance is known: first roughly, for weights, and then where the search has ended.
const SEEDS_FIRST: u64 = 4;
pub(super) const SEEDS: u64 = 12;
/// Seeds over which a derivative at the end is averaged.
const SEEDS_SLOPE: u64 = 4;
/// Logarithmic steps for derivatives, in the search and at its end: far beyond what chance leaves of a difference with the same
/// seed, and small enough that what bends is lost in it.
const STEP_FIRST: f64 = 0.1;
const STEP: f64 = 0.2;
/// Other starts: at most so many, and so far off in logarithms (three times as much, or as little).
const STARTS_MAX: usize = 8;
const START_REACH: f64 = 1.1;
/// Square of a difference, in deviations, that is good enough for a start.
const ENOUGH: f64 = 2.0;
/// Longest step of the search: e times as much, or as little.
const STEP_MAX: f64 = 1.0;
/// Steps of the search, tries for each, and rounds at its end.
const STEPS_MAX: usize = 20;
const TRIES_MAX: usize = 6;
const ROUNDS_MAX: usize = 6;
/// A step that is shorter is none.
pub(super) const TOLERANCE: f64 = 1e-4;
/// The search ends with a step of this length, or one that makes so little better: its seeds are not those of the end.
const TOLERANCE_FIRST: f64 = 0.002;
/// Part of a value's deviation below which a step is not worth it.
const WORTH: f64 = 0.05;
/// Part of the best-known direction's information below which a direction is as good as unknown.
pub(super) const KNOWN_LEAST: f64 = 1e-9;
/// Standard errors below which a derivative may be chance.
const CHANCE_ERRORS: f64 = 2.0;

/// Figures of all runs: for one point of values, as logarithms.
type Figures = Vec<f64>;

pub(super) struct Search<'a> {
    question: &'a Question,
    each: Each<'a>,
    measured: Figures,
    simulations: Cell<u64>,
}

/// Where the search has ended, and what is known there.
pub(super) struct Solution {
    /// Logarithms of the values.
    pub place: Vec<f64>,
    /// Mean figures.
    pub figures: Figures,
    /// Measured less simulated.
    pub residuals: Figures,
    pub slopes: Slopes,
    /// For each seed what a measurement that differs in chance alone would be off.
    pub chance: Rows,
    pub weights: Vec<f64>,
    /// The next step, by key, if the search was not over.
    pub left: Vec<f64>,
}

/// Derivatives of each figure, by key: from the mean of two sides, and to each of them.
#[derive(Default)]
pub(super) struct Slopes {
    pub both: Rows,
    pub down: Rows,
    pub up: Rows,
}

impl<'a> Search<'a> {
    pub(super) fn new(question: &'a Question, each: Each<'a>) -> Search<'a> {
        let measured = question.figures().map(|figure| libm::log(figure.value)).collect();
        Search { question, each, measured, simulations: Cell::new(0) }
    }

    pub(super) fn simulations(&self) -> u64 {
        self.simulations.get()
    }

    pub(super) fn solution(&self) -> Result<Solution, Problems> {
        let start: Vec<f64> = self.question.keys.iter().map(|key| libm::log(key.start)).collect();
        let first = self.figures(&start, 0..SEEDS_FIRST)?;
        let weights = self.weights(&self.chance(&first, &mean(&first)));
        self.settle(self.best(start, &weights)?)
    }

    /// Where the walk from the start ends, or, while that explains the figures badly, the best end of walks from other places: a
    /// walk ends where a key that something else hides can be anything.
    fn best(&self, start: Vec<f64>, weights: &[f64]) -> Result<Vec<f64>, Problems> {
        let enough = ENOUGH * self.question.figures().map(|figure| figure.share()).sum::<f64>();
        let mut random = Random::stream(self.question.effort.seed, "starts");
        let (mut best, mut least) = self.walk(start.clone(), weights)?;
        for _ in 0..STARTS_MAX {
            if least < enough {
                break;
            }
            let off: Vec<f64> = start.iter().map(|_| START_REACH * (2.0 * random.unit() - 1.0)).collect();
            // Values that do not go together are no start.
            if let Ok((place, sum)) = self.walk(self.within(&start, &off), weights)
                && sum < least
            {
                (best, least) = (place, sum);
            }
        }
        Ok(best)
    }

    /// Levenberg and Marquardt's steps, with one seed: where they end, and the sum of squares there.
    fn walk(&self, mut place: Vec<f64>, weights: &[f64]) -> Result<(Vec<f64>, f64), Problems> {
        let mut damping = 1e-3;
        let mut residuals = self.residuals(&self.figures(&place, 0..1)?[0]);
        for _ in 0..STEPS_MAX {
            let slopes = self.slopes(&place, 0..1, STEP_FIRST)?.both;
            let sum = squares(&residuals, weights);
            let mut better = None;
            for _ in 0..TRIES_MAX {
                let next = self.within(&place, &step(&slopes, weights, &residuals, damping));
                // Values that do not go together are a step too far.
                let tried = self.figures(&next, 0..1).map(|figures| self.residuals(&figures[0]));
                better = tried.ok().filter(|tried| squares(tried, weights) < sum).map(|tried| (next, tried));
                if better.is_some() {
                    damping /= 10.0;
                    break;
                }
                damping *= 10.0;
            }
            let Some((next, tried)) = better else { break };
            let length = distance(&place, &next);
            let is_little = squares(&tried, weights) > sum * (1.0 - TOLERANCE_FIRST);
            (place, residuals) = (next, tried);
            if length < TOLERANCE_FIRST || is_little {
                break;
            }
        }
        Ok((place, squares(&residuals, weights)))
    }

    /// The last steps, with many seeds and good derivatives.
    fn settle(&self, mut place: Vec<f64>) -> Result<Solution, Problems> {
        let mut slopes = self.slopes(&place, 0..SEEDS_SLOPE, STEP)?;
        let mut moved: f64 = 0.0;
        for round in 1.. {
            let seeds = self.figures(&place, 0..SEEDS)?;
            let figures = mean(&seeds);
            let chance = self.chance(&seeds, &figures);
            let weights = self.weights(&chance);
            let residuals = self.residuals(&figures);
            let left = step(&slopes.both, &weights, &residuals, 0.0);
            let next = self.within(&place, &left);
            let deviations = deviations(&slopes.both, &weights, &chance);
            let is_worth =
                |(key, (from, to)): (usize, (&f64, &f64))| (to - from).abs() > TOLERANCE.max(WORTH * deviations[key]);
            if round == ROUNDS_MAX || !place.iter().zip(&next).enumerate().any(is_worth) {
                return Ok(Solution { place, figures, residuals, slopes, chance, weights, left });
            }
            moved += distance(&place, &next);
            place = next;
            if moved > STEP / 4.0 {
                slopes = self.slopes(&place, 0..SEEDS_SLOPE, STEP)?;
                moved = 0.0;
            }
        }
        unreachable!("the last round returns")
    }

    /// The figures at a place, for each seed.
    fn figures(&self, place: &[f64], seeds: std::ops::Range<u64>) -> Result<Rows, Problems> {
        self.figures_of(&[place.to_vec()], seeds).remove(0)
    }

    /// The figures at several places, all at once.
    fn figures_of(&self, places: &[Vec<f64>], seeds: std::ops::Range<u64>) -> Vec<Result<Rows, Problems>> {
        let question = self.question;
        let values: Rows = places.iter().map(|place| place.iter().map(|log| libm::exp(*log)).collect()).collect();
        let of_place =
            |values: &Vec<f64>| seeds.clone().flat_map(|seed| question.trials(values, seed)).collect::<Vec<_>>();
        let trials: Vec<_> = values.iter().flat_map(of_place).collect();
        self.simulations.set(self.simulations.get() + trials.len() as u64);
        let answers: Vec<Answer> = (self.each)(&trials, &|trial| question.answer(trial));
        let mut answers = answers.into_iter();
        let mut of_seed = || {
            let runs: Vec<Answer> = answers.by_ref().take(question.runs.len()).collect();
            runs.into_iter().collect::<Result<Vec<_>, _>>().map(|runs| runs.concat())
        };
        places.iter().map(|_| seeds.clone().map(|_| of_seed()).collect::<Vec<_>>().into_iter().collect()).collect()
    }

    /// Derivatives by each key.
    fn slopes(&self, place: &[f64], seeds: std::ops::Range<u64>, step: f64) -> Result<Slopes, Problems> {
        let mut places = vec![place.to_vec()];
        for (key, bounds) in self.question.keys.iter().enumerate() {
            for end in [(place[key] - step).max(libm::log(bounds.low)), (place[key] + step).min(libm::log(bounds.high))]
            {
                let mut moved = place.to_vec();
                moved[key] = end;
                places.push(moved);
            }
        }
        let mut found = self.figures_of(&places, seeds).into_iter();
        let here = found.next().unwrap_or(Ok(Vec::new()))?;
        let mut slopes = Slopes::default();
        for key in 0..place.len() {
            let ends = [1 + 2 * key, 2 + 2 * key].map(|end| (places[end][key], found.next().unwrap_or(Ok(Vec::new()))));
            // Values that do not go together: the other side says enough.
            if let [(_, Err(problems)), (_, Err(_))] = &ends {
                return Err(problems.clone());
            }
            let [down, up] = ends.map(|(end, figures)| figures.map_or((place[key], here.clone()), |it| (end, it)));
            slopes.down.push(slope(&down.1, &here, place[key] - down.0));
            slopes.up.push(slope(&here, &up.1, up.0 - place[key]));
            slopes.both.push(slope(&down.1, &up.1, up.0 - down.0));
        }
        Ok(slopes)
    }

    fn residuals(&self, figures: &Figures) -> Figures {
        self.measured.iter().zip(figures).map(|(measured, figure)| measured - figure).collect()
    }

    /// For each seed what its figures differ from the mean, as much as a measurement of so many requests does from the mean of so
    /// many seeds.
    fn chance(&self, seeds: &Rows, mean: &Figures) -> Rows {
        let count = seeds.len() as f64;
        let scales = self.question.runs.iter().zip(&self.question.jobs).flat_map(|(run, (_, ios))| {
            let scale = libm::sqrt((*ios as f64 / run.ios.max(1) as f64 + 1.0 / count) * count / (count - 1.0));
            run.figures.iter().map(move |_| scale)
        });
        let scales: Vec<f64> = scales.collect();
        let off = |figures: &Figures| -> Figures {
            figures.iter().zip(mean).zip(&scales).map(|((figure, mean), scale)| (figure - mean) * scale).collect()
        };
        seeds.iter().map(off).collect()
    }

    fn weights(&self, chance: &Rows) -> Vec<f64> {
        let alone = self.question.alone();
        let weight = |(place, figure): (usize, &super::Figure)| {
            let noise = chance.iter().map(|seed| seed[place] * seed[place]).sum::<f64>() / chance.len() as f64;
            figure.share() / (noise + alone[place] * alone[place])
        };
        self.question.figures().enumerate().map(weight).collect()
    }

    /// A step, not too long and not out of bounds.
    fn within(&self, place: &[f64], step: &[f64]) -> Vec<f64> {
        let longest = step.iter().fold(0.0, |longest: f64, part| longest.max(part.abs()));
        let scale = if longest > STEP_MAX { STEP_MAX / longest } else { 1.0 };
        let ends = self.question.keys.iter().map(|key| (libm::log(key.low), libm::log(key.high)));
        place.iter().zip(step).zip(ends).map(|((at, part), (low, high))| (at + scale * part).clamp(low, high)).collect()
    }
}

/// Derivatives of the figures from those at two places `apart`, for the same seeds; those that may be chance are none.
fn slope(down: &Rows, up: &Rows, apart: f64) -> Figures {
    if apart <= 0.0 {
        return vec![0.0; down.first().map_or(0, Vec::len)];
    }
    let count = down.len() as f64;
    let of_figure = |figure: usize| {
        let differences: Vec<f64> = down.iter().zip(up).map(|(down, up)| up[figure] - down[figure]).collect();
        let mean = differences.iter().sum::<f64>() / count;
        let spread: f64 = differences.iter().map(|difference| (difference - mean) * (difference - mean)).sum();
        let error = libm::sqrt(spread / (count * (count - 1.0).max(1.0)));
        if mean.abs() < CHANCE_ERRORS * error { 0.0 } else { mean / apart }
    };
    (0..down.first().map_or(0, Vec::len)).map(of_figure).collect()
}

/// What the figures tell of the keys: `slopes' * weights * slopes`.
pub(super) fn information(slopes: &Rows, weights: &[f64]) -> Rows {
    let cell = |a: &Figures, b: &Figures| a.iter().zip(b).zip(weights).map(|((a, b), weight)| a * b * weight).sum();
    slopes.iter().map(|a| slopes.iter().map(|b| cell(a, b)).collect()).collect()
}

/// `slopes' * weights * values`.
pub(super) fn pull(slopes: &Rows, weights: &[f64], values: &[f64]) -> Vec<f64> {
    let weighted: Vec<f64> = values.iter().zip(weights).map(|(value, weight)| value * weight).collect();
    slopes.iter().map(|slope| dot(slope, &weighted)).collect()
}

/// The step that makes the sum of squares least if figures follow their slopes, the shorter the more it is damped. What nothing is
/// known of does not move.
fn step(slopes: &Rows, weights: &[f64], residuals: &[f64], damping: f64) -> Vec<f64> {
    let mut matrix = information(slopes, weights);
    for (key, row) in matrix.iter_mut().enumerate() {
        row[key] += damping * row[key] + UNKNOWN;
    }
    axes(&matrix).solve(&pull(slopes, weights, residuals), 0.0)
}

/// Information of a key of which nothing is known: next to none, so that what is hardly known still moves.
const UNKNOWN: f64 = 0.01;

/// Deviation of each value by chance.
fn deviations(slopes: &Rows, weights: &[f64], chance: &Rows) -> Vec<f64> {
    let axes = axes(&information(slopes, weights));
    let moves: Rows = chance.iter().map(|seed| axes.solve(&pull(slopes, weights, seed), KNOWN_LEAST)).collect();
    let deviation =
        |key: usize| libm::sqrt(moves.iter().map(|moved| moved[key] * moved[key]).sum::<f64>() / moves.len() as f64);
    (0..slopes.len()).map(deviation).collect()
}

/// The weighted sum of squares.
pub(super) fn squares(residuals: &[f64], weights: &[f64]) -> f64 {
    residuals.iter().zip(weights).map(|(residual, weight)| weight * residual * residual).sum()
}

fn distance(from: &[f64], to: &[f64]) -> f64 {
    from.iter().zip(to).map(|(from, to)| (to - from).abs()).fold(0.0, f64::max)
}

fn mean(seeds: &Rows) -> Figures {
    let count = seeds.len() as f64;
    let figures = 0..seeds.first().map_or(0, Vec::len);
    figures.map(|figure| seeds.iter().map(|seed| seed[figure]).sum::<f64>() / count).collect()
}
