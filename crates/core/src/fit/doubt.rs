//! How sure the values are, and which of them the figures do not tell apart.
//!
//! Measuring again would give figures that are off by chance, and values that are off by what these figures pull. Each seed
//! plays such a measurement: with `pull` the values' answer to figures that are off, the covariance of the values is the mean
//! over the seeds of `pull(off) * pull(off)'`. Figures may go together as they like, since whole measurements are played. To
//! that come classes of percentiles, each by itself. Where the figures differ by more than in any of the seeds, the
//! model is off as well: by a share that is the same for all figures, in units of their deviations, and that makes up the rest of
//! the sum of squares.
//!
//! The ends of an interval lie as many deviations away as Student's distribution says for nine cases of ten, on the scale of
//! the values: most are times, and these add up. Where something else becomes the limit as soon as a key goes further, the
//! figures no longer depend on it, and the interval has no end on that side.

use super::matrix::{Rows, axes, dot};
use super::search::{KNOWN_LEAST, SEEDS, Solution, TOLERANCE, information, pull, squares};
use super::{Fit, Key, Question};

/// 95 % points of Student's distribution for 1, 2, … degrees of freedom.
const STUDENT: [f64; 11] = [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796];
/// Least length of an axis of the information, that of each key being 1: for two keys, a correlation of 0.95.
const APART_LEAST: f64 = 0.05;
/// Part of such an axis along a key that makes the key belong to it.
const PART_LEAST: f64 = 0.25;
/// Keys are told apart, if weakly, where none of them is in doubt by more than this share.
const DOUBT_MOST: f64 = 0.1;
/// A part of a sum counts as much as the others if it does within this share.
const ALIKE: f64 = 0.1;
/// Deviation, as a share, from which on a value is not determined at all.
const UNDETERMINED: f64 = 1.0;
/// Part of the effect to one side below which a key has none to the other.
const EFFECT_LEAST: f64 = 0.1;
/// Logarithmic distance to a bound that counts as none.
const AT_BOUND: f64 = 1e-6;

/// A key with its value.
#[derive(Clone, Debug)]
pub struct Fitted {
    pub key: Key,
    pub value: f64,
    /// The ends of its 90 % interval.
    pub low: f64,
    pub high: f64,
    /// Whether the interval says anything.
    pub is_determined: bool,
    /// Whether figures no longer depend on it where it is smaller, or larger: that end is as far as was looked.
    pub is_open_below: bool,
    pub is_open_above: bool,
}

/// What is to be said of some keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// No figure depends on it.
    Unseen(String),
    /// It is at least what was found, or at most: beyond, no figure depends on it.
    OneSided { key: String, is_least: bool },
    /// Only a combination of them is known; of two keys, with how much the second counts beside the first.
    Together { keys: Vec<String>, ratio: Option<f64> },
    /// They are known, but one is larger where the other is smaller.
    Weakly { keys: Vec<String>, ratio: Option<f64> },
    /// It has gone as far as it may.
    AtBound(String),
    /// There are no more figures than keys, so that nothing shows whether the model fits.
    Unchecked,
}

/// What is to be said of a solution.
pub(super) fn judge(question: &Question, solution: &Solution, simulations: u64) -> Fit {
    let resolutions: Vec<f64> = question.figures().map(|figure| figure.resolution).collect();
    let seen: Vec<usize> = (0..question.keys.len()).filter(|key| is_seen(&solution.slopes.both[*key])).collect();
    let slopes: Rows = seen.iter().map(|key| solution.slopes.both[*key].clone()).collect();
    let misfit = Misfit::of(question, solution, &slopes, &resolutions);
    let variances = variances(solution, &slopes, &resolutions, misfit.variance);
    let student = STUDENT[misfit.freedom.clamp(1, STUDENT.len()) - 1];
    let fitted = |(place, key): (usize, &Key)| {
        let value = libm::exp(solution.place[place]);
        let variance = seen.iter().position(|seen| *seen == place).map_or(f64::INFINITY, |place| variances[place]);
        let deviation = libm::sqrt(variance + TOLERANCE * TOLERANCE);
        let half = student * deviation * value;
        let [is_open_below, is_open_above] = open_ends(solution, place);
        Fitted {
            key: key.clone(),
            value,
            low: if is_open_below { key.low } else { (value - half).clamp(key.low, value) },
            high: if is_open_above { key.high } else { (value + half).clamp(value, key.high) },
            is_determined: deviation < UNDETERMINED,
            is_open_below,
            is_open_above,
        }
    };
    let keys: Vec<Fitted> = question.keys.iter().enumerate().map(fitted).collect();
    let findings = findings(solution, &keys, &seen, &slopes, misfit.is_checked);
    let figures = question.figures().zip(&solution.figures).map(|(figure, log)| (figure.clone(), libm::exp(*log)));
    Fit { findings, figures: figures.collect(), misfit: misfit.share(), keys, simulations }
}

fn is_seen(slope: &[f64]) -> bool {
    slope.iter().any(|part| *part != 0.0)
}

/// Whether the figures depend on a key to the other side alone: below, and above.
fn open_ends(solution: &Solution, key: usize) -> [bool; 2] {
    let effect = |slopes: &Rows| libm::sqrt(squares(&slopes[key], &solution.weights));
    let (down, up) = (effect(&solution.slopes.down), effect(&solution.slopes.up));
    [down < EFFECT_LEAST * up, up < EFFECT_LEAST * down]
}

/// What differs beyond chance.
struct Misfit {
    /// In units of the deviations that the weights stand for.
    variance: f64,
    mean_weight: f64,
    /// Degrees of freedom of what the intervals rest upon.
    freedom: usize,
    is_checked: bool,
}

impl Misfit {
    fn of(question: &Question, solution: &Solution, slopes: &Rows, resolutions: &[f64]) -> Misfit {
        let axes = axes(&information(slopes, &solution.weights));
        let left = |off: &[f64]| {
            let moved = axes.solve(&pull(slopes, &solution.weights, off), KNOWN_LEAST);
            let explained =
                |figure: usize| moved.iter().zip(slopes).map(|(moved, slope)| moved * slope[figure]).sum::<f64>();
            let rest: Vec<f64> = off.iter().enumerate().map(|(figure, off)| off - explained(figure)).collect();
            squares(&rest, &solution.weights)
        };
        let chance: Vec<f64> = solution.chance.iter().map(|seed| left(seed)).collect();
        let classes = squares(resolutions, &solution.weights);
        let mean = chance.iter().sum::<f64>() / chance.len() as f64 + classes;
        // Four times the mean of squares of classes: two deviations of them all.
        let most = chance.iter().copied().fold(0.0, f64::max) + 4.0 * classes;
        let found = left(&solution.residuals);
        let free = question.figures().map(|figure| figure.share()).sum::<f64>() - slopes.len() as f64;
        let is_checked = free >= 0.5;
        let variance = if is_checked && found > most { (found - mean) / free } else { 0.0 };
        let freedom = if variance > 0.0 { free as usize } else { SEEDS as usize - 1 };
        let mean_weight = solution.weights.iter().sum::<f64>() / solution.weights.len() as f64;
        Misfit { variance, mean_weight, freedom, is_checked }
    }

    /// The misfit of a figure of mean weight.
    fn share(&self) -> Option<f64> {
        (self.variance > 0.0).then(|| libm::sqrt(self.variance / self.mean_weight))
    }
}

/// Variance of each value that is seen.
fn variances(solution: &Solution, slopes: &Rows, resolutions: &[f64], misfit: f64) -> Vec<f64> {
    let weights = &solution.weights;
    let axes = axes(&information(slopes, weights));
    let moved = |off: &[f64]| axes.solve(&pull(slopes, weights, off), KNOWN_LEAST);
    let by_chance: Rows = solution.chance.iter().map(|seed| moved(seed)).collect();
    let alone = |figure: usize, off: f64| {
        let mut figures = vec![0.0; resolutions.len()];
        figures[figure] = off;
        moved(&figures)
    };
    let by_classes: Rows = (0..resolutions.len()).map(|figure| alone(figure, resolutions[figure])).collect();
    let by_model: Rows = (0..weights.len()).map(|figure| alone(figure, libm::sqrt(misfit / weights[figure]))).collect();
    let squares = |moves: &Rows, key: usize| moves.iter().map(|moved| moved[key] * moved[key]).sum::<f64>();
    let variance = |key: usize| {
        squares(&by_chance, key) / by_chance.len() as f64 + squares(&by_classes, key) + squares(&by_model, key)
    };
    (0..slopes.len()).map(variance).collect()
}

fn findings(solution: &Solution, keys: &[Fitted], seen: &[usize], slopes: &Rows, is_checked: bool) -> Vec<Finding> {
    let unseen =
        (0..keys.len()).filter(|key| !seen.contains(key)).map(|key| Finding::Unseen(keys[key].key.name.clone()));
    let mut findings: Vec<Finding> = unseen.collect();
    let open = |it: &&Fitted| it.is_open_below || it.is_open_above;
    let one_sided = |it: &Fitted| Finding::OneSided { key: it.key.name.clone(), is_least: it.is_open_above };
    findings.extend(keys.iter().filter(open).map(one_sided));
    findings.extend(together(solution, keys, seen, slopes));
    let is_at = |bound: f64, value: f64| libm::log(bound / value).abs() < AT_BOUND;
    let ends = keys.iter().filter(|it| is_at(it.key.low, it.value) || is_at(it.key.high, it.value));
    findings.extend(ends.map(|it| Finding::AtBound(it.key.name.clone())));
    findings.extend((!is_checked).then_some(Finding::Unchecked));
    findings
}

/// Keys whose effects on the figures are so alike that another of them could stand for each.
fn together(solution: &Solution, keys: &[Fitted], seen: &[usize], slopes: &Rows) -> Vec<Finding> {
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
        if is_known { Finding::Weakly { keys, ratio } } else { Finding::Together { keys, ratio } }
    };
    short.map(finding).collect()
}

/// How much the second key counts beside the first, each by its own unit.
fn ratio(solution: &Solution, [first, second]: [(&Vec<f64>, f64); 2]) -> Option<f64> {
    let by_unit = |(slope, value): (&Vec<f64>, f64)| -> Vec<f64> { slope.iter().map(|part| part / value).collect() };
    let (first, second) = (by_unit(first), by_unit(second));
    let weighted: Vec<f64> = first.iter().zip(&solution.weights).map(|(part, weight)| part * weight).collect();
    let ratio = dot(&weighted, &second) / dot(&weighted, &first);
    let rounded = libm::copysign(1.0, ratio);
    Some(if (ratio - rounded).abs() < ALIKE { rounded } else { ratio })
}
