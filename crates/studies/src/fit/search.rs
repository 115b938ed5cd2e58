//! Search for the values of keys that fit measured figures best (least squares).

use std::cell::Cell;

use super::matrix::{Rows, axes, scalar_product};
use super::{FitTask, SimulateEach, TrialFigures};
use phaselink_core::number::{length, real, real_length};
use phaselink_core::problem::Problems;
use phaselink_core::random::Random;

/// Number of seeds from which randomness is estimated for the first weights.
const SEEDS_FIRST: u64 = 4;
/// Number of seeds from which randomness is estimated at the end of the search.
pub(super) const SEEDS: u64 = 12;
/// Number of seeds over which a derivative is averaged at the end of the search.
const SEEDS_SLOPE: u64 = 4;
/// Logarithmic step for derivatives during the search. It is far larger than the randomness that equal seeds leave in a
/// difference, and small enough for curvature not to matter.
const STEP_FIRST: f64 = 0.1;
/// Logarithmic step for derivatives of the figures by a key, at the end of the search.
const STEP: f64 = 0.2;
/// Largest number of additional starting points of the least-squares search.
const STARTS_MAX: usize = 8;
/// Largest logarithmic distance of additional starting points from the first: a factor of three up or down.
const START_REACH: f64 = 1.1;
/// Weighted sum of squares per figure below which the end of a walk is good enough, so that no other start is tried.
const ENOUGH: f64 = 2.0;
/// Longest logarithmic step of the search: a factor of e up or down.
const STEP_MAX: f64 = 1.0;
/// Largest number of steps of one walk of the least-squares search.
const STEPS_MAX: usize = 20;
/// Largest number of attempts for each step of the search, each with more damping.
const TRIES_MAX: usize = 6;
/// Largest number of final rounds, with many seeds and accurate derivatives.
const ROUNDS_MAX: usize = 6;
/// Logarithmic length below which a step of the search counts as zero.
pub(super) const TOLERANCE: f64 = 1e-4;
/// Logarithmic length of a step, or relative improvement, below which a walk ends. The final rounds use other seeds.
const TOLERANCE_FIRST: f64 = 0.002;
/// Fraction of a value's standard deviation below which a final step is not taken.
const WORTH: f64 = 0.05;
/// Fraction of the information on the best-known direction below which a direction counts as unknown.
pub(super) const KNOWN_LEAST: f64 = 1e-9;
/// Number of standard errors below which a derivative may be random and counts as zero.
const CHANCE_ERRORS: f64 = 2.0;

/// Logarithms of the figures of all runs at one set of key values.
type Figures = Vec<f64>;

/// Least-squares search of one fit, with the number of simulations so far.
pub(super) struct FitSearch<'a> {
    question: &'a FitTask,
    each: SimulateEach<'a>,
    measured: Figures,
    simulations: Cell<u64>,
}

/// Set of key values at which the search has ended, with figures, derivatives and randomness there.
pub(super) struct FitSolution {
    /// Logarithms of the fitted values of the keys.
    pub place: Vec<f64>,
    /// Logarithms of the simulated figures, averaged over the seeds.
    pub figures: Figures,
    /// Differences of measured minus simulated figures, as logarithms.
    pub residuals: Figures,
    /// Derivatives of the logarithms of figures by the logarithms of keys.
    pub slopes: FigureDerivatives,
    /// For each seed, the deviation of each figure in a measurement that differs by randomness alone.
    pub chance: Rows,
    /// Weight of each measured figure in the sum of squares that the fit minimises.
    pub weights: Vec<f64>,
    /// Step that the search would take next for each key, as a logarithm.
    pub left: Vec<f64>,
}

/// Derivatives of each figure by each key, all as logarithms; one row for each key.
#[derive(Default)]
pub(super) struct FigureDerivatives {
    /// Derivatives from the figures on both sides of the point (central differences).
    pub both: Rows,
    /// Derivatives from the figures at smaller values of the key (backward differences).
    pub down: Rows,
    /// Derivatives from the figures at larger values of the key (forward differences).
    pub up: Rows,
}

impl<'a> FitSearch<'a> {
    pub(super) fn new(question: &'a FitTask, each: SimulateEach<'a>) -> FitSearch<'a> {
        let measured = question.figures().map(|figure| libm::log(figure.value)).collect();
        FitSearch { question, each, measured, simulations: Cell::new(0) }
    }

    pub(super) fn simulations(&self) -> u64 {
        self.simulations.get()
    }

    pub(super) fn solution(&self) -> Result<FitSolution, Problems> {
        let start: Vec<f64> = self.question.keys.iter().map(|key| libm::log(key.start)).collect();
        let first = self.figures(&start, 0..SEEDS_FIRST)?;
        let weights = self.weights(&self.deviations_by_seed(&first, &mean(&first)));
        self.refine_solution(self.best(start, &weights)?)
    }

    /// Returns the end of the walk from `start`. If that explains the figures badly, it returns the best end of walks
    /// from several other points. A walk may end where one key hides the effect of another, which can then have any
    /// value.
    fn best(&self, start: Vec<f64>, weights: &[f64]) -> Result<Vec<f64>, Problems> {
        let enough = ENOUGH * self.question.figures().map(|figure| figure.share()).sum::<f64>();
        let mut random = Random::stream(self.question.effort.seed, "starts");
        let (mut best, mut least) = self.descend_from(start.clone(), weights)?;
        for _ in 0..STARTS_MAX {
            if least < enough {
                break;
            }
            let off: Vec<f64> = start.iter().map(|_| START_REACH * (2.0 * random.unit() - 1.0)).collect();
            // Skip start values that break a condition between keys.
            if let Ok((place, sum)) = self.descend_from(self.limited_step(&start, &off), weights)
                && sum < least
            {
                (best, least) = (place, sum);
            }
        }
        Ok(best)
    }

    /// Walks downhill from `place` by Levenberg and Marquardt's steps with one seed. Returns the end and its weighted
    /// sum of squares.
    fn descend_from(&self, mut place: Vec<f64>, weights: &[f64]) -> Result<(Vec<f64>, f64), Problems> {
        let mut damping = 1e-3;
        let mut residuals = self.residuals(&self.figures(&place, 0..1)?[0]);
        for _ in 0..STEPS_MAX {
            let slopes = self.slopes(&place, 0..1, STEP_FIRST)?.both;
            let sum = squares(&residuals, weights);
            let mut better = None;
            for _ in 0..TRIES_MAX {
                let next = self.limited_step(&place, &step(&slopes, weights, &residuals, damping));
                // If a step ends at values that break a condition between keys, try a shorter one.
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

    /// Takes the last steps of the search from `place`, with many seeds and accurate derivatives.
    fn refine_solution(&self, mut place: Vec<f64>) -> Result<FitSolution, Problems> {
        let mut slopes = self.slopes(&place, 0..SEEDS_SLOPE, STEP)?;
        let mut moved: f64 = 0.0;
        for round in 1.. {
            let seeds = self.figures(&place, 0..SEEDS)?;
            let figures = mean(&seeds);
            let chance = self.deviations_by_seed(&seeds, &figures);
            let weights = self.weights(&chance);
            let residuals = self.residuals(&figures);
            let left = step(&slopes.both, &weights, &residuals, 0.0);
            let next = self.limited_step(&place, &left);
            let deviations = deviations(&slopes.both, &weights, &chance);
            let is_worth =
                |(key, (from, to)): (usize, (&f64, &f64))| (to - from).abs() > TOLERANCE.max(WORTH * deviations[key]);
            if round == ROUNDS_MAX || !place.iter().zip(&next).enumerate().any(is_worth) {
                return Ok(FitSolution { place, figures, residuals, slopes, chance, weights, left });
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

    /// Simulates all runs at one set of key values. Returns the figures for each seed.
    fn figures(&self, place: &[f64], seeds: std::ops::Range<u64>) -> Result<Rows, Problems> {
        self.figures_at_places(&[place.to_vec()], seeds).remove(0)
    }

    /// Simulates all runs at several sets of key values in one batch. Returns the figures of each set for each seed.
    fn figures_at_places(&self, places: &[Vec<f64>], seeds: std::ops::Range<u64>) -> Vec<Result<Rows, Problems>> {
        let question = self.question;
        let values: Rows = places.iter().map(|place| place.iter().map(|log| libm::exp(*log)).collect()).collect();
        let of_place =
            |values: &Vec<f64>| seeds.clone().flat_map(|seed| question.trials(values, seed)).collect::<Vec<_>>();
        let trials: Vec<_> = values.iter().flat_map(of_place).collect();
        self.simulations.set(self.simulations.get() + length(trials.len()));
        let answers: Vec<TrialFigures> = (self.each)(&trials, &|trial| question.simulate_fit_trial(trial));
        let mut answers = answers.into_iter();
        let mut of_seed = || {
            let runs: Vec<TrialFigures> = answers.by_ref().take(question.runs.len()).collect();
            runs.into_iter().collect::<Result<Vec<_>, _>>().map(|runs| runs.concat())
        };
        places.iter().map(|_| seeds.clone().map(|_| of_seed()).collect::<Vec<_>>().into_iter().collect()).collect()
    }

    /// Returns the derivatives of the figures by each key, from differences over the logarithmic `step`.
    fn slopes(&self, place: &[f64], seeds: std::ops::Range<u64>, step: f64) -> Result<FigureDerivatives, Problems> {
        let mut places = vec![place.to_vec()];
        for (key, bounds) in self.question.keys.iter().enumerate() {
            for end in [(place[key] - step).max(libm::log(bounds.low)), (place[key] + step).min(libm::log(bounds.high))]
            {
                let mut moved = place.to_vec();
                moved[key] = end;
                places.push(moved);
            }
        }
        let mut found = self.figures_at_places(&places, seeds).into_iter();
        let here = found.next().unwrap_or(Ok(Vec::new()))?;
        let mut slopes = FigureDerivatives::default();
        for key in 0..place.len() {
            let ends = [1 + 2 * key, 2 + 2 * key].map(|end| (places[end][key], found.next().unwrap_or(Ok(Vec::new()))));
            // If one side breaks a condition between keys, use the difference to the other side alone.
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

    /// Returns, for each seed, the difference of its figures from the mean. It is scaled to the difference of one
    /// measurement from the mean of all seeds.
    fn deviations_by_seed(&self, seeds: &Rows, mean: &Figures) -> Rows {
        let count = real_length(seeds.len());
        let scales = self.question.runs.iter().zip(&self.question.jobs).flat_map(|(run, (_, ios))| {
            let scale = libm::sqrt((real(*ios) / real(run.ios.max(1)) + 1.0 / count) * count / (count - 1.0));
            run.figures.iter().map(move |_| scale)
        });
        let scales: Vec<f64> = scales.collect();
        let off = |figures: &Figures| -> Figures {
            figures.iter().zip(mean).zip(&scales).map(|((figure, mean), scale)| (figure - mean) * scale).collect()
        };
        seeds.iter().map(off).collect()
    }

    fn weights(&self, chance: &Rows) -> Vec<f64> {
        let alone = self.question.non_random_errors();
        let weight = |(place, figure): (usize, &super::MeasuredFigure)| {
            let noise = chance.iter().map(|seed| seed[place] * seed[place]).sum::<f64>() / real_length(chance.len());
            figure.share() / (noise + alone[place] * alone[place])
        };
        self.question.figures().enumerate().map(weight).collect()
    }

    /// Returns the point after a step, whose length is limited and which stays in the search ranges.
    fn limited_step(&self, place: &[f64], step: &[f64]) -> Vec<f64> {
        let longest = step.iter().fold(0.0, |longest: f64, part| longest.max(part.abs()));
        let scale = if longest > STEP_MAX { STEP_MAX / longest } else { 1.0 };
        let ends = self.question.keys.iter().map(|key| (libm::log(key.low), libm::log(key.high)));
        place.iter().zip(step).zip(ends).map(|((at, part), (low, high))| (at + scale * part).clamp(low, high)).collect()
    }
}

/// Returns the derivatives of the figures from simulations at two points that are `apart`, with equal seeds.
/// Derivatives that may be random are zero.
fn slope(down: &Rows, up: &Rows, apart: f64) -> Figures {
    if apart <= 0.0 {
        return vec![0.0; down.first().map_or(0, Vec::len)];
    }
    let count = real_length(down.len());
    let of_figure = |figure: usize| {
        let differences: Vec<f64> = down.iter().zip(up).map(|(down, up)| up[figure] - down[figure]).collect();
        let mean = differences.iter().sum::<f64>() / count;
        let spread: f64 = differences.iter().map(|difference| (difference - mean) * (difference - mean)).sum();
        let error = libm::sqrt(spread / (count * (count - 1.0).max(1.0)));
        if mean.abs() < CHANCE_ERRORS * error { 0.0 } else { mean / apart }
    };
    (0..down.first().map_or(0, Vec::len)).map(of_figure).collect()
}

/// Returns the information matrix of the keys: `slopes' * weights * slopes`.
pub(super) fn information(slopes: &Rows, weights: &[f64]) -> Rows {
    let cell = |a: &Figures, b: &Figures| a.iter().zip(b).zip(weights).map(|((a, b), weight)| a * b * weight).sum();
    slopes.iter().map(|a| slopes.iter().map(|b| cell(a, b)).collect()).collect()
}

/// Returns `slopes' * weights * values`: the gradient by which differences in the figures change the keys.
pub(super) fn gradient_by_keys(slopes: &Rows, weights: &[f64], values: &[f64]) -> Vec<f64> {
    let weighted: Vec<f64> = values.iter().zip(weights).map(|(value, weight)| value * weight).collect();
    slopes.iter().map(|slope| scalar_product(slope, &weighted)).collect()
}

/// Returns the step that minimises the weighted sum of squares if figures follow their derivatives. Stronger damping
/// makes it shorter. Keys that affect no figure do not move.
fn step(slopes: &Rows, weights: &[f64], residuals: &[f64], damping: f64) -> Vec<f64> {
    let mut matrix = information(slopes, weights);
    for (key, row) in matrix.iter_mut().enumerate() {
        row[key] += damping * row[key] + UNKNOWN;
    }
    axes(&matrix).solve(&gradient_by_keys(slopes, weights, residuals), 0.0)
}

/// Information that is added for each key, so that a key without any does not move. It is small enough for a poorly
/// known key to move.
const UNKNOWN: f64 = 0.01;

/// Returns the standard deviation of each value's logarithm that randomness causes.
fn deviations(slopes: &Rows, weights: &[f64], chance: &Rows) -> Vec<f64> {
    let axes = axes(&information(slopes, weights));
    let moves: Rows =
        chance.iter().map(|seed| axes.solve(&gradient_by_keys(slopes, weights, seed), KNOWN_LEAST)).collect();
    let deviation = |key: usize| {
        libm::sqrt(moves.iter().map(|moved| moved[key] * moved[key]).sum::<f64>() / real_length(moves.len()))
    };
    (0..slopes.len()).map(deviation).collect()
}

/// Returns the weighted sum of squared residuals.
pub(super) fn squares(residuals: &[f64], weights: &[f64]) -> f64 {
    residuals.iter().zip(weights).map(|(residual, weight)| weight * residual * residual).sum()
}

fn distance(from: &[f64], to: &[f64]) -> f64 {
    from.iter().zip(to).map(|(from, to)| (to - from).abs()).fold(0.0, f64::max)
}

fn mean(seeds: &Rows) -> Figures {
    let count = real_length(seeds.len());
    let figures = 0..seeds.first().map_or(0, Vec::len);
    figures.map(|figure| seeds.iter().map(|seed| seed[figure]).sum::<f64>() / count).collect()
}
