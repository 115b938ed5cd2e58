//! Confidence intervals of fitted values, and keys that the figures cannot distinguish.
//!
//! A repeated measurement would give figures that differ by randomness, and fitted values that follow these
//! differences. Each seed simulates such a measurement. With `pull` the response of the values to differences in the
//! figures, the covariance of the values is the mean over the seeds of `pull(off) * pull(off)'`. Figures may be
//! correlated in any way, because whole measurements are simulated. Two further errors are added for each figure by
//! itself: the class width of a percentile, and the assumed error of the model. If the figures differ by more than all
//! of that explains, the model's error is larger. A share that is equal for all figures, in units of their deviations,
//! then explains the rest of the sum of squares.
//!
//! Student's distribution says how many deviations away the ends of a 90 % interval are, on the scale of the values:
//! most are times, which add up. If another resource becomes the bottleneck as soon as a key goes further, figures
//! bend. Therefore each end is the farther one of those that follow from the derivatives to either side of all keys. A
//! last step that was not taken belongs to the interval. If no figure depends on a key any more, the interval has no
//! end on that side.

use super::matrix::{Rows, axes, scalar_product};
use super::search::{FitSolution, KNOWN_LEAST, SEEDS, TOLERANCE, gradient_by_keys, information, squares};
use super::{Fit, FitKey, FitTask};
use phaselink_core::number::{real_length, whole, wide_index};

/// Quantiles of Student's distribution for 95 % with 1, 2, … degrees of freedom, for two-sided intervals of 90 %.
const STUDENT: [f64; 11] = [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796];
/// Least eigenvalue of the information matrix, scaled to 1 for each key, at which keys count as distinguishable. For
/// two keys, that is a correlation of 0.95.
const APART_LEAST: f64 = 0.05;
/// Least component of a poorly known axis along a key that makes the key part of the combination.
const PART_LEAST: f64 = 0.25;
/// Largest relative deviation of keys that count as known although their combination is poorly known.
const DOUBT_MOST: f64 = 0.1;
/// Relative difference within which two keys of a combination count as having equal weight.
const ALIKE: f64 = 0.1;
/// Relative standard deviation from which on a fitted value counts as not determined.
const UNDETERMINED: f64 = 1.0;
/// Fraction of the information on the best-known axis up to which an axis counts as unknown.
const UNKNOWN_MOST: f64 = 1e-6;
/// Variance of logarithms that is assumed along an unknown axis: values may differ by a factor of a hundred up or down.
const UNKNOWN_VARIANCE: f64 = 20.0;
/// Largest number of fitted keys for which all combinations of one-sided derivatives are tried. Each key has one
/// towards larger and one towards smaller values.
const SIDES_MAX: usize = 6;
/// Fraction of a key's effect in one direction below which it counts as having no effect in the other.
const EFFECT_LEAST: f64 = 0.1;
/// Logarithmic distance to a bound of the search below which a value counts as at that bound.
const AT_BOUND: f64 = 1e-6;

/// Result of a fit for one key: value and confidence interval.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// Key of the drive that was fitted, with its start value and search range.
    pub key: FitKey,
    /// Fitted value of the key, in the key's unit.
    pub value: f64,
    /// Lower end of the value's 90 % confidence interval, in the key's unit.
    pub low: f64,
    /// Upper end of the value's 90 % confidence interval, in the key's unit.
    pub high: f64,
    /// True if the figures determine the value, at least from one side.
    pub is_determined: bool,
    /// True if no measured figure depends on the key at smaller values, so that `low` is the lower end of the search
    /// range.
    pub is_open_below: bool,
    /// True if no measured figure depends on the key at larger values, so that `high` is the upper end of the search
    /// range.
    pub is_open_above: bool,
}

/// Remark of a fit on the keys that it cannot determine, or not well.
#[derive(Clone, Debug, PartialEq)]
pub enum FitRemark {
    /// No measured figure depends on this key, so that it keeps its start value.
    Unseen(String),
    /// Value is only a lower or upper limit: beyond it, no measured figure depends on the key.
    OneSided {
        /// Full name of the key, as in a drive file.
        key: String,
        /// True if the value is a lower limit of the key, false if it is an upper one.
        is_least: bool,
    },
    /// Only a combination of these keys is known, none of them by itself.
    Together {
        /// Full names of the keys, as in a drive file.
        keys: Vec<String>,
        /// Weight of the second key relative to the first; `None` unless there are two keys.
        ratio: Option<f64>,
    },
    /// Keys are known, but strongly correlated: their combination is known better than each of them.
    Weakly {
        /// Full names of the keys, as in a drive file.
        keys: Vec<String>,
        /// Weight of the second key relative to the first; `None` unless there are two keys.
        ratio: Option<f64>,
    },
    /// Fitted value of this key is at a bound of the search.
    AtBound(String),
    /// Figures are no more than keys, so that nothing shows if the model fits.
    Unchecked,
}

/// Computes confidence intervals and remarks for a solution of the search.
pub(super) fn judge(question: &FitTask, solution: &FitSolution, simulations: u64) -> Fit {
    let alone = question.non_random_errors();
    let seen: Vec<usize> =
        (0..question.keys.len()).filter(|key| affects_any_figure(&solution.slopes.both[*key])).collect();
    let slopes: Rows = seen.iter().map(|key| solution.slopes.both[*key].clone()).collect();
    let misfit = UnexplainedMisfit::of(question, solution, &slopes, &alone);
    let variances = ValueVariances::of(solution, &seen, &alone, misfit.variance);
    let student = STUDENT[misfit.freedom.clamp(1, STUDENT.len()) - 1];
    let fitted = |(place, key): (usize, &FitKey)| {
        let value = libm::exp(solution.place[place]);
        let variances = seen.iter().position(|seen| *seen == place).map_or([f64::INFINITY; 2], |at| variances.0[at]);
        let deviations = variances.map(|variance| libm::sqrt(variance + TOLERANCE * TOLERANCE));
        let [below, above] = deviations.map(|deviation| (student * deviation + solution.left[place].abs()) * value);
        let [is_open_below, is_open_above] = undetermined_sides(solution, place);
        Fitted {
            key: key.clone(),
            value,
            low: if is_open_below { key.low } else { (value - below).clamp(key.low, value) },
            high: if is_open_above { key.high } else { (value + above).clamp(value, key.high) },
            is_determined: deviations.iter().any(|deviation| *deviation < UNDETERMINED),
            is_open_below,
            is_open_above,
        }
    };
    let keys: Vec<Fitted> = question.keys.iter().enumerate().map(fitted).collect();
    let findings = findings(solution, &keys, &seen, &slopes, misfit.is_checked);
    let figures = question.figures().zip(&solution.figures).map(|(figure, log)| (figure.clone(), libm::exp(*log)));
    Fit { findings, figures: figures.collect(), misfit: misfit.share(), keys, simulations }
}

/// True if any measured figure depends on a key, given the derivatives of all figures by it.
fn affects_any_figure(slope: &[f64]) -> bool {
    slope.iter().any(|part| *part != 0.0)
}

/// Returns two flags, for smaller and for larger values of a key: true if no measured figure depends on the key in that
/// direction.
fn undetermined_sides(solution: &FitSolution, key: usize) -> [bool; 2] {
    let effect = |slopes: &Rows| libm::sqrt(squares(&slopes[key], &solution.weights));
    let (down, up) = (effect(&solution.slopes.down), effect(&solution.slopes.up));
    [down < EFFECT_LEAST * up, up < EFFECT_LEAST * down]
}

/// Difference between measured and fitted figures that randomness does not explain.
struct UnexplainedMisfit {
    /// Additional variance of each figure, in units of the variance that its weight stands for; 0 if there is no
    /// misfit.
    variance: f64,
    mean_weight: f64,
    /// Degrees of freedom of Student's distribution for the intervals.
    freedom: usize,
    is_checked: bool,
}

impl UnexplainedMisfit {
    fn of(question: &FitTask, solution: &FitSolution, slopes: &Rows, alone: &[f64]) -> UnexplainedMisfit {
        let axes = axes(&information(slopes, &solution.weights));
        let left = |off: &[f64]| {
            let moved = axes.solve(&gradient_by_keys(slopes, &solution.weights, off), KNOWN_LEAST);
            let explained =
                |figure: usize| moved.iter().zip(slopes).map(|(moved, slope)| moved * slope[figure]).sum::<f64>();
            let rest: Vec<f64> = off.iter().enumerate().map(|(figure, off)| off - explained(figure)).collect();
            squares(&rest, &solution.weights)
        };
        let chance: Vec<f64> = solution.chance.iter().map(|seed| left(seed)).collect();
        let by_themselves = squares(alone, &solution.weights);
        let mean = chance.iter().sum::<f64>() / real_length(chance.len()) + by_themselves;
        // The summed independent variation rarely exceeds two standard deviations, so its sum of squares rarely exceeds
        // four times the mean.
        let most = chance.iter().copied().fold(0.0, f64::max) + 4.0 * by_themselves;
        let found = left(&solution.residuals);
        let free = question.figures().map(|figure| figure.share()).sum::<f64>() - real_length(slopes.len());
        let is_checked = free >= 0.5;
        let variance = if is_checked && found > most { (found - mean) / free } else { 0.0 };
        let freedom = if variance > 0.0 { wide_index(whole(free)) } else { wide_index(SEEDS) - 1 };
        let mean_weight = solution.weights.iter().sum::<f64>() / real_length(solution.weights.len());
        UnexplainedMisfit { variance, mean_weight, freedom, is_checked }
    }

    /// Returns the misfit of a figure of mean weight, as a relative difference; `None` if there is no misfit.
    fn share(&self) -> Option<f64> {
        (self.variance > 0.0).then(|| libm::sqrt(self.variance / self.mean_weight))
    }
}

/// Largest variance of each fitted value over all choices of derivatives: towards smaller, and towards larger values.
struct ValueVariances(Vec<[f64; 2]>);

impl ValueVariances {
    /// Computes variances for every choice of upward or downward derivatives of the keys. With more than `SIDES_MAX`
    /// keys, some keys share their choice.
    fn of(solution: &FitSolution, seen: &[usize], alone: &[f64], misfit: f64) -> ValueVariances {
        let mut largest = vec![[0.0; 2]; seen.len()];
        for choice in 0..1_usize << seen.len().min(SIDES_MAX) {
            let is_up = |at: usize| choice >> (at % SIDES_MAX) & 1 == 1;
            let side = |(at, key): (usize, &usize)| {
                let slopes = if is_up(at) { &solution.slopes.up } else { &solution.slopes.down };
                slopes[*key].clone()
            };
            let slopes: Rows = seen.iter().enumerate().map(side).collect();
            for (at, variance) in variances(solution, &slopes, alone, misfit).into_iter().enumerate() {
                let end: &mut f64 = &mut largest[at][usize::from(is_up(at))];
                *end = end.max(variance);
            }
        }
        ValueVariances(largest)
    }
}

/// Returns the variance of each value's logarithm for these derivatives, from randomness, model error and unknown axes.
fn variances(solution: &FitSolution, slopes: &Rows, alone: &[f64], misfit: f64) -> Vec<f64> {
    let weights = &solution.weights;
    let axes = axes(&information(slopes, weights));
    let moved = |off: &[f64]| axes.solve(&gradient_by_keys(slopes, weights, off), KNOWN_LEAST);
    let by_chance: Rows = solution.chance.iter().map(|seed| moved(seed)).collect();
    let by_figure = |figure: usize| {
        let mut figures = vec![0.0; alone.len()];
        figures[figure] = libm::hypot(alone[figure], libm::sqrt(misfit / weights[figure]));
        moved(&figures)
    };
    let by_themselves: Rows = (0..alone.len()).map(by_figure).collect();
    let squares = |moves: &Rows, key: usize| moves.iter().map(|moved| moved[key] * moved[key]).sum::<f64>();
    // Measurements do not determine values along a short axis, so these keep their full uncertainty.
    let longest = axes.lengths.iter().copied().fold(0.0, f64::max);
    let unknown = axes.lengths.iter().zip(&axes.axes).filter(|(length, _)| **length <= UNKNOWN_MOST * longest);
    let unknown: Vec<&Vec<f64>> = unknown.map(|(_, axis)| axis).collect();
    let by_nothing = |key: usize| unknown.iter().map(|axis| axis[key] * axis[key]).sum::<f64>() * UNKNOWN_VARIANCE;
    let variance = |key: usize| {
        squares(&by_chance, key) / real_length(by_chance.len()) + squares(&by_themselves, key) + by_nothing(key)
    };
    (0..slopes.len()).map(variance).collect()
}

fn findings(
    solution: &FitSolution,
    keys: &[Fitted],
    seen: &[usize],
    slopes: &Rows,
    is_checked: bool,
) -> Vec<FitRemark> {
    let unseen =
        (0..keys.len()).filter(|key| !seen.contains(key)).map(|key| FitRemark::Unseen(keys[key].key.name.clone()));
    let mut findings: Vec<FitRemark> = unseen.collect();
    let open = |it: &&Fitted| it.is_open_below || it.is_open_above;
    let one_sided = |it: &Fitted| FitRemark::OneSided { key: it.key.name.clone(), is_least: it.is_open_above };
    findings.extend(keys.iter().filter(open).map(one_sided));
    findings.extend(interchangeable_keys(solution, keys, seen, slopes));
    let is_at = |bound: f64, value: f64| libm::log(bound / value).abs() < AT_BOUND;
    let ends = keys.iter().filter(|it| is_at(it.key.low, it.value) || is_at(it.key.high, it.value));
    findings.extend(ends.map(|it| FitRemark::AtBound(it.key.name.clone())));
    findings.extend((!is_checked).then_some(FitRemark::Unchecked));
    findings
}

/// Returns remarks on groups of keys whose effects on the figures are nearly interchangeable.
fn interchangeable_keys(solution: &FitSolution, keys: &[Fitted], seen: &[usize], slopes: &Rows) -> Vec<FitRemark> {
    let information = information(slopes, &solution.weights);
    let length = |key: usize| libm::sqrt(information[key][key]);
    let alike: Rows = (0..seen.len())
        .map(|a| (0..seen.len()).map(|b| information[a][b] / (length(a) * length(b))).collect())
        .collect();
    let axes = axes(&alike);
    let short = axes.lengths.iter().zip(&axes.axes).filter(|(length, _)| **length < APART_LEAST);
    let finding = |(_, axis): (&f64, &Vec<f64>)| {
        let members: Vec<usize> = (0..seen.len()).filter(|key| axis[*key].abs() > PART_LEAST).collect();
        let ratio = match members[..] {
            [a, b] => ratio(solution, [a, b].map(|key| (&slopes[key], keys[seen[key]].value))),
            _ => None,
        };
        let is_known = members.iter().all(|key| {
            let fitted = &keys[seen[*key]];
            fitted.high - fitted.low < 2.0 * DOUBT_MOST * fitted.value
        });
        let keys = members.iter().map(|key| keys[seen[*key]].key.name.clone()).collect();
        if is_known { FitRemark::Weakly { keys, ratio } } else { FitRemark::Together { keys, ratio } }
    };
    short.map(finding).collect()
}

/// Returns the weight of the second key relative to the first in their effect on the figures, per unit of each. It is
/// exactly 1 or -1 if near that.
fn ratio(solution: &FitSolution, [first, second]: [(&Vec<f64>, f64); 2]) -> Option<f64> {
    let by_unit = |(slope, value): (&Vec<f64>, f64)| -> Vec<f64> { slope.iter().map(|part| part / value).collect() };
    let (first, second) = (by_unit(first), by_unit(second));
    let weighted: Vec<f64> = first.iter().zip(&solution.weights).map(|(part, weight)| part * weight).collect();
    let ratio = scalar_product(&weighted, &second) / scalar_product(&weighted, &first);
    let rounded = libm::copysign(1.0, ratio);
    Some(if (ratio - rounded).abs() < ALIKE { rounded } else { ratio })
}
