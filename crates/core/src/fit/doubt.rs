//! How sure the values are, and which of them the figures do not tell apart.
//!
//! Measuring again would give figures that are off by chance, and values that are off by what these figures pull. Each seed
//! plays such a measurement: with `pull` the values' answer to figures that are off, the covariance of the values is the mean
//! over the seeds of `pull(off) * pull(off)'`. Figures may go together as they like, since whole measurements are played. To
//! that come, for each figure by itself, the class of a percentile and by how much the model is taken to be off. Where the
//! figures differ by more than all that explains, the model is off by more: by a share that is the same for all figures, in
//! units of their deviations, and that makes up the rest of the sum of squares.
//!
//! The ends of an interval lie as many deviations away as Student's distribution says for nine cases of ten, on the scale of
//! the values: most are times, and these add up. Where something else becomes the limit as soon as a key goes further, figures
//! bend: each end is the farther one of those that follow from the derivatives to either side of all keys. A last step that was
//! not taken belongs to the interval. Where no figure depends on a key any more, it has no end on that side.

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
/// Part of the best-known axis' information up to which nothing is known of an axis, and the variance that stands for it: of
/// values that may be anything from a hundredth to a hundred times as much.
const UNKNOWN_MOST: f64 = 1e-6;
const UNKNOWN_VARIANCE: f64 = 20.0;
/// Keys whose sides are chosen each by itself.
const SIDES_MAX: usize = 6;
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
pub enum FitFinding {
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
    let alone = question.alone();
    let seen: Vec<usize> = (0..question.keys.len()).filter(|key| is_seen(&solution.slopes.both[*key])).collect();
    let slopes: Rows = seen.iter().map(|key| solution.slopes.both[*key].clone()).collect();
    let misfit = Misfit::of(question, solution, &slopes, &alone);
    let variances = Sides::of(solution, &seen, &alone, misfit.variance);
    let student = STUDENT[misfit.freedom.clamp(1, STUDENT.len()) - 1];
    let fitted = |(place, key): (usize, &Key)| {
        let value = libm::exp(solution.place[place]);
        let variances = seen.iter().position(|seen| *seen == place).map_or([f64::INFINITY; 2], |at| variances.0[at]);
        let deviations = variances.map(|variance| libm::sqrt(variance + TOLERANCE * TOLERANCE));
        let [below, above] = deviations.map(|deviation| (student * deviation + solution.left[place].abs()) * value);
        let [is_open_below, is_open_above] = open_ends(solution, place);
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
    fn of(question: &Question, solution: &Solution, slopes: &Rows, alone: &[f64]) -> Misfit {
        let axes = axes(&information(slopes, &solution.weights));
        let left = |off: &[f64]| {
            let moved = axes.solve(&pull(slopes, &solution.weights, off), KNOWN_LEAST);
            let explained =
                |figure: usize| moved.iter().zip(slopes).map(|(moved, slope)| moved * slope[figure]).sum::<f64>();
            let rest: Vec<f64> = off.iter().enumerate().map(|(figure, off)| off - explained(figure)).collect();
            squares(&rest, &solution.weights)
        };
        let chance: Vec<f64> = solution.chance.iter().map(|seed| left(seed)).collect();
        let by_themselves = squares(alone, &solution.weights);
        let mean = chance.iter().sum::<f64>() / chance.len() as f64 + by_themselves;
        // Four times the mean of their squares: two deviations of them all.
        let most = chance.iter().copied().fold(0.0, f64::max) + 4.0 * by_themselves;
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

/// The larger variance of each seen value downwards, and upwards.
struct Sides(Vec<[f64; 2]>);

impl Sides {
    /// From every choice of sides of the keys. With many keys, only as many choices as `SIDES_MAX` keys have.
    fn of(solution: &Solution, seen: &[usize], alone: &[f64], misfit: f64) -> Sides {
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
        Sides(largest)
    }
}

/// Variance of each value with these derivatives.
fn variances(solution: &Solution, slopes: &Rows, alone: &[f64], misfit: f64) -> Vec<f64> {
    let weights = &solution.weights;
    let axes = axes(&information(slopes, weights));
    let moved = |off: &[f64]| axes.solve(&pull(slopes, weights, off), KNOWN_LEAST);
    let by_chance: Rows = solution.chance.iter().map(|seed| moved(seed)).collect();
    let by_figure = |figure: usize| {
        let mut figures = vec![0.0; alone.len()];
        figures[figure] = libm::hypot(alone[figure], libm::sqrt(misfit / weights[figure]));
        moved(&figures)
    };
    let by_themselves: Rows = (0..alone.len()).map(by_figure).collect();
    let squares = |moves: &Rows, key: usize| moves.iter().map(|moved| moved[key] * moved[key]).sum::<f64>();
    // Nothing pulls along an axis of which nothing is known: there, any value is as good.
    let longest = axes.lengths.iter().copied().fold(0.0, f64::max);
    let unknown = axes.lengths.iter().zip(&axes.axes).filter(|(length, _)| **length <= UNKNOWN_MOST * longest);
    let unknown: Vec<&Vec<f64>> = unknown.map(|(_, axis)| axis).collect();
    let by_nothing = |key: usize| unknown.iter().map(|axis| axis[key] * axis[key]).sum::<f64>() * UNKNOWN_VARIANCE;
    let variance =
        |key: usize| squares(&by_chance, key) / by_chance.len() as f64 + squares(&by_themselves, key) + by_nothing(key);
    (0..slopes.len()).map(variance).collect()
}

fn findings(solution: &Solution, keys: &[Fitted], seen: &[usize], slopes: &Rows, is_checked: bool) -> Vec<FitFinding> {
    let unseen =
        (0..keys.len()).filter(|key| !seen.contains(key)).map(|key| FitFinding::Unseen(keys[key].key.name.clone()));
    let mut findings: Vec<FitFinding> = unseen.collect();
    let open = |it: &&Fitted| it.is_open_below || it.is_open_above;
    let one_sided = |it: &Fitted| FitFinding::OneSided { key: it.key.name.clone(), is_least: it.is_open_above };
    findings.extend(keys.iter().filter(open).map(one_sided));
    findings.extend(together(solution, keys, seen, slopes));
    let is_at = |bound: f64, value: f64| libm::log(bound / value).abs() < AT_BOUND;
    let ends = keys.iter().filter(|it| is_at(it.key.low, it.value) || is_at(it.key.high, it.value));
    findings.extend(ends.map(|it| FitFinding::AtBound(it.key.name.clone())));
    findings.extend((!is_checked).then_some(FitFinding::Unchecked));
    findings
}

/// Keys whose effects on the figures are so alike that another of them could stand for each.
fn together(solution: &Solution, keys: &[Fitted], seen: &[usize], slopes: &Rows) -> Vec<FitFinding> {
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
        if is_known { FitFinding::Weakly { keys, ratio } } else { FitFinding::Together { keys, ratio } }
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
