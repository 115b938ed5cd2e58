//! From drawn figures to an interval and what contributes to it.

use serde::Serialize;

/// Share of the draws that lies beyond each end of the interval.
const BEYOND: f64 = 0.05;
/// Contributions that are kept.
const CONTRIBUTIONS: usize = 3;

/// Where a figure lies in nine draws of ten.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    /// Draws that it was found from.
    pub draws: usize,
    /// The constants that contribute most, the largest first.
    pub contributions: Vec<Contribution>,
}

/// How much of the doubt about a figure comes from one constant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contribution {
    pub key: String,
    /// Rank correlation of constant and figure over the draws (Spearman): 1 if the figure rises with it, -1 if it falls.
    pub correlation: f64,
}

impl Interval {
    /// From the figure in the middle and in each draw, and the level of each constant in each draw. The ends are those of
    /// the middle nine tenths of the draws; the figure in the middle belongs to the interval in any case.
    pub(super) fn of<'a>(
        central: f64,
        drawn: &[f64],
        inputs: impl Iterator<Item = (&'a str, Vec<f64>)>,
    ) -> Option<Interval> {
        if drawn.len() < 2 {
            return None;
        }
        let mut sorted = drawn.to_vec();
        sorted.sort_by(f64::total_cmp);
        let beyond = (BEYOND * sorted.len() as f64) as usize;
        let (low, high) = (sorted[beyond], sorted[sorted.len() - 1 - beyond]);
        Some(Interval {
            low: low.min(central),
            high: high.max(central),
            draws: drawn.len(),
            contributions: contributions(drawn, inputs),
        })
    }
}

/// Correlations beyond what chance gives in as many draws (two standard errors), the strongest first.
fn contributions<'a>(drawn: &[f64], inputs: impl Iterator<Item = (&'a str, Vec<f64>)>) -> Vec<Contribution> {
    let chance = 2.0 / libm::sqrt(drawn.len() as f64 - 1.0);
    let ranks_of_figure = ranks(drawn);
    let mut all: Vec<Contribution> = inputs
        .map(|(key, levels)| Contribution {
            key: String::from(key),
            correlation: correlation(&ranks(&levels), &ranks_of_figure),
        })
        .filter(|contribution| contribution.correlation.abs() > chance)
        .collect();
    all.sort_by(|a, b| b.correlation.abs().total_cmp(&a.correlation.abs()));
    all.truncate(CONTRIBUTIONS);
    all
}

/// The rank of each value, equal ones sharing the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut rank = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let mean = rank as f64 + (equal.len() - 1) as f64 / 2.0;
        equal.iter().for_each(|place| ranks[*place] = mean);
        rank += equal.len();
    }
    ranks
}

/// Pearson's correlation; 0 if either does not vary.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let pairs = || a.iter().zip(b).map(|(a, b)| (a - mean_a, b - mean_b));
    let together: f64 = pairs().map(|(a, b)| a * b).sum();
    let apart = pairs().map(|(a, _)| a * a).sum::<f64>() * pairs().map(|(_, b)| b * b).sum::<f64>();
    if apart == 0.0 { 0.0 } else { together / libm::sqrt(apart) }
}
