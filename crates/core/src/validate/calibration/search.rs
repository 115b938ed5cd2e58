//! Search for the parameters that come nearest to some rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Calibration;
use crate::drive_file::Override;
use crate::fit::principal_axes;
use crate::ledger::Outcome;
use crate::problem::{Problems, all};
use crate::reproduce::experiment::ExperimentRun;
use crate::validate::agreement::ratio;
use crate::validate::pattern::{Captures, TextPattern};
use crate::validate::{ValidatedRow, Validation};

/// Relative step of the derivatives.
const STEP: f64 = 0.08;
/// Error of the model that counts as one deviation; larger ones than three have less weight.
const MODEL_ERROR: f64 = 0.1;
/// Number of rows that each source counts for, however many it has: rows of one source share a machine, a kernel and a method, so
/// that their errors are not independent. Chosen after thirty had predicted the kernel paths of left-out sources worse than four, so
/// that the errors of the folds are not quite those of unseen rows.
const ROWS_OF_SOURCE: f64 = 4.0;
/// Largest number of runs of each source that an estimate simulates; of more, evenly spaced ones are taken.
const RUNS_OF_SOURCE_MAX: usize = 24;
/// Number of steps towards an estimate, and of sizes that are tried of each.
const STEPS_MAX: usize = 2;
const SIZES_MAX: usize = 3;
/// Number of times that rows are weighted anew on the way to the minimum of the linear form.
const WEIGHTINGS: usize = 12;
/// Function that simulates runs, told what they are for, and returns their outcomes in order; none if the user has stopped it.
pub type SimulateRuns<'a> = &'a dyn Fn(&str, &[ExperimentRun]) -> Option<Vec<Outcome>>;

/// At most [`RUNS_OF_SOURCE_MAX`] of some runs, with equal numbers of others between them.
fn evenly_spaced(runs: &BTreeSet<usize>) -> impl Iterator<Item = usize> {
    let step = runs.len().div_ceil(RUNS_OF_SOURCE_MAX).max(1);
    runs.iter().copied().step_by(step)
}

/// Simulations of a calibration's rows.
pub(super) struct CalibrationSearch<'a> {
    pub(super) calibration: &'a Calibration,
    pub(super) validation: &'a Validation,
    pub(super) simulate: SimulateRuns<'a>,
}

/// Logarithms of predicted over measured at the prior, for every row that has them, and their derivatives by each parameter.
pub(super) struct AtPrior {
    residuals: HashMap<usize, f64>,
    slopes: Vec<HashMap<usize, f64>>,
}

impl AtPrior {
    pub(super) fn slope(&self, parameter: usize, row: usize) -> f64 {
        self.slopes[parameter].get(&row).copied().unwrap_or(0.0)
    }
}

impl CalibrationSearch<'_> {
    /// Indices of the answered rows whose identifier matches one of the patterns.
    pub(super) fn rows_of(&self, patterns: &[TextPattern]) -> Vec<usize> {
        let is_match = |id: &str| patterns.iter().any(|pattern| pattern.matches(id, &mut Captures::new()));
        let rows = self.validation.rows.iter().enumerate();
        rows.filter(|(_, row)| row.run.is_some() && is_match(row.measurement.id())).map(|(place, _)| place).collect()
    }

    /// Rows from which parameters are estimated: those that match one of the patterns, thinned to a number of runs of each source.
    pub(super) fn training_rows(&self, patterns: &[TextPattern]) -> Vec<usize> {
        let rows = self.rows_of(patterns);
        let mut runs_of: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for row in &rows {
            runs_of.entry(self.source(*row)).or_default().extend(self.validation.rows[*row].run);
        }
        let kept: BTreeSet<usize> = runs_of.values().flat_map(evenly_spaced).collect();
        rows.into_iter().filter(|row| self.validation.rows[*row].run.is_some_and(|run| kept.contains(&run))).collect()
    }

    /// Rows from which parameters are estimated in one fold or another, or from all folds.
    fn every_training_row(&self) -> Vec<usize> {
        let folds = &self.calibration.folds;
        let folds = folds.iter().chain(&self.calibration.curve);
        let each = folds.flat_map(|fold| self.training_rows(&fold.train));
        let rows: BTreeSet<usize> = each.chain(self.training_rows(&self.calibration.tested())).collect();
        rows.into_iter().collect()
    }

    /// Overrides of a run for an estimate.
    fn overrides(&self, run: &ExperimentRun, estimate: &[f64]) -> Result<Vec<Override>, Problems> {
        let moved = self.calibration.parameters.iter().zip(estimate).filter(|(parameter, _)| parameter.applies(run));
        let keys: Vec<&str> = moved.clone().flat_map(|(parameter, _)| parameter.keys()).collect();
        let mut numbers = run.drive.numbers_of(&keys).into_iter();
        let mut values: Vec<(&str, f64)> = Vec::new();
        for (parameter, moved) in moved {
            let own: Vec<(&str, Option<f64>)> = parameter.keys().zip(&mut numbers).collect();
            let Some(first) = own[0].1.filter(|value| *value > 0.0) else { continue };
            let factor = parameter.value(*moved) / first;
            values.extend(own.iter().filter_map(|(key, value)| Some((*key, (*value)? * factor))));
        }
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let texts = run.drive.override_texts(&values);
        all(texts.iter().map(|text| Override::parse(text).map_err(Problems::from)))
    }

    /// Logarithm of predicted over measured for each of the rows that has one.
    fn residuals(
        &self,
        purpose: &str,
        estimate: &[f64],
        rows: &[usize],
    ) -> Result<Option<HashMap<usize, f64>>, Problems> {
        let judged = self.judged(purpose, estimate, rows)?;
        Ok(judged.map(|judged| {
            let known = rows.iter().zip(&judged).filter_map(|(row, judged)| Some((*row, libm::log(ratio(judged)?))));
            known.collect()
        }))
    }

    /// Rows with the values of an estimate.
    pub(super) fn judged(
        &self,
        purpose: &str,
        estimate: &[f64],
        rows: &[usize],
    ) -> Result<Option<Vec<ValidatedRow>>, Problems> {
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        rows.iter().filter_map(|row| self.validation.rows[*row].run).for_each(|run| {
            let next = places.len();
            places.entry(run).or_insert(next);
        });
        let mut runs: Vec<(usize, usize)> = places.iter().map(|(run, place)| (*place, *run)).collect();
        runs.sort_unstable();
        let moved = runs.iter().map(|(_, run)| {
            let run = &self.validation.runs[*run];
            run.moved(&self.overrides(run, estimate)?)
        });
        let moved = all(moved)?;
        let Some(outcomes) = (self.simulate)(purpose, &moved) else { return Ok(None) };
        let judged = rows.iter().map(|row| {
            let row = &self.validation.rows[*row];
            row.judged(row.run.map(|run| (&moved[places[&run]], &outcomes[places[&run]])))
        });
        Ok(Some(judged.collect()))
    }

    /// Residuals at the prior, and their derivatives: each parameter is moved by itself, in the runs that have it.
    pub(super) fn at_prior(&self) -> Result<Option<AtPrior>, Problems> {
        let parameters = &self.calibration.parameters;
        let rows = self.every_training_row();
        let prior = vec![0.0; parameters.len()];
        let Some(residuals) = self.residuals("all parameters in the middle of their ranges", &prior, &rows)? else {
            return Ok(None);
        };
        let mut slopes = Vec::new();
        for (place, parameter) in parameters.iter().enumerate() {
            let purpose = format!("parameter {} of {}, {}", place + 1, parameters.len(), parameter.name);
            let mut estimate = prior.clone();
            estimate[place] = STEP;
            let has_it = |row: &&usize| {
                let run = self.validation.rows[**row].run.map(|run| &self.validation.runs[run]);
                run.is_some_and(|run| parameter.moves(run))
            };
            let moved: Vec<usize> = rows.iter().filter(has_it).copied().collect();
            let Some(moved) = self.residuals(&purpose, &estimate, &moved)? else { return Ok(None) };
            let slope = |(row, value): (&usize, &f64)| Some((*row, (value - residuals.get(row)?) / STEP));
            slopes.push(moved.iter().filter_map(slope).filter(|(_, slope)| *slope != 0.0).collect());
        }
        Ok(Some(AtPrior { residuals, slopes }))
    }

    /// Weight of each row: sources count alike, and large errors count less.
    fn weights(&self, residuals: &HashMap<usize, f64>) -> HashMap<usize, f64> {
        let mut rows_of: BTreeMap<&str, f64> = BTreeMap::new();
        residuals.keys().for_each(|row| *rows_of.entry(self.source(*row)).or_default() += 1.0);
        let weight = |(row, residual): (&usize, &f64)| {
            let robust = (3.0 * MODEL_ERROR / residual.abs()).min(1.0);
            let share = (ROWS_OF_SOURCE / rows_of[self.source(*row)]).min(1.0);
            (*row, robust * share / (MODEL_ERROR * MODEL_ERROR))
        };
        residuals.iter().map(weight).collect()
    }

    pub(super) fn source(&self, row: usize) -> &str {
        self.validation.rows[row].measurement.source()
    }

    /// Sum that an estimate minimises, with the weights of its own residuals.
    fn sum(&self, estimate: &[f64], residuals: &HashMap<usize, f64>) -> f64 {
        let weights = self.weights(residuals);
        let mut rows: Vec<usize> = residuals.keys().copied().collect();
        rows.sort_unstable();
        let data: f64 = rows.iter().map(|row| weights[row] * residuals[row] * residuals[row]).sum();
        let prior = self.calibration.parameters.iter().zip(estimate).map(|(parameter, moved)| {
            let share = moved / parameter.deviation();
            share * share
        });
        data + prior.sum::<f64>()
    }

    /// Estimates the parameters from some rows.
    pub(super) fn estimate(
        &self,
        purpose: &str,
        rows: &[usize],
        prior: &AtPrior,
    ) -> Result<Option<Vec<f64>>, Problems> {
        let mut estimate = vec![0.0; self.calibration.parameters.len()];
        let known = rows.iter().filter_map(|row| Some((*row, *prior.residuals.get(row)?)));
        let mut residuals: HashMap<usize, f64> = known.collect();
        let mut sum = self.sum(&estimate, &residuals);
        for _ in 0..STEPS_MAX {
            let minimum = self.linear_minimum(&estimate, &residuals, prior);
            let mut step: Vec<f64> = minimum.iter().zip(&estimate).map(|(to, from)| to - from).collect();
            let mut is_better = false;
            for _ in 0..SIZES_MAX {
                let next: Vec<f64> = estimate.iter().zip(&step).map(|(value, step)| value + step).collect();
                let Some(found) = self.residuals(purpose, &next, rows)? else { return Ok(None) };
                let next_sum = self.sum(&next, &found);
                if next_sum < sum {
                    (estimate, residuals, sum, is_better) = (next, found, next_sum, true);
                    break;
                }
                step.iter_mut().for_each(|part| *part /= 2.0);
            }
            if !is_better {
                break;
            }
        }
        Ok(Some(estimate))
    }

    /// Estimate at which the sum is least, if residuals were linear in the estimate; `residuals` are those at `from`.
    fn linear_minimum(&self, from: &[f64], residuals: &HashMap<usize, f64>, prior: &AtPrior) -> Vec<f64> {
        let (mut estimate, mut linear) = (from.to_vec(), residuals.clone());
        for _ in 0..WEIGHTINGS {
            let step = self.step(&estimate, &linear, prior);
            estimate.iter_mut().zip(&step).for_each(|(value, step)| *value += step);
            for (row, residual) in &mut linear {
                let moved = step.iter().enumerate().map(|(place, step)| step * prior.slope(place, *row));
                *residual += moved.sum::<f64>();
            }
        }
        estimate
    }

    /// Step of Gauss and Newton, with the weights of these residuals.
    fn step(&self, estimate: &[f64], residuals: &HashMap<usize, f64>, prior: &AtPrior) -> Vec<f64> {
        let (matrix, right) = self.normal_equations(estimate, residuals, prior);
        principal_axes(&matrix).solve(&right, 1e-9)
    }

    fn normal_equations(
        &self,
        estimate: &[f64],
        residuals: &HashMap<usize, f64>,
        prior: &AtPrior,
    ) -> (Vec<Vec<f64>>, Vec<f64>) {
        let weights = self.weights(residuals);
        let mut rows: Vec<usize> = residuals.keys().copied().collect();
        rows.sort_unstable();
        let count = estimate.len();
        let (mut matrix, mut right) = (vec![vec![0.0; count]; count], vec![0.0; count]);
        for (place, parameter) in self.calibration.parameters.iter().enumerate() {
            let weight = 1.0 / (parameter.deviation() * parameter.deviation());
            matrix[place][place] = weight;
            right[place] = -weight * estimate[place];
        }
        for row in rows {
            let met: Vec<(usize, f64)> =
                (0..count).map(|place| (place, prior.slope(place, row))).filter(|(_, it)| *it != 0.0).collect();
            for (left, left_slope) in &met {
                right[*left] -= weights[&row] * left_slope * residuals[&row];
                met.iter().for_each(|(other, it)| matrix[*left][*other] += weights[&row] * left_slope * it);
            }
        }
        (matrix, right)
    }

    /// Correlation between the errors of every two parameters after an estimate from these rows, in the linear form: near -1,
    /// the rows tell their sum alone.
    pub(super) fn correlations(&self, estimate: &[f64], rows: &[usize], prior: &AtPrior) -> Vec<Vec<f64>> {
        let residual = |row: &usize| {
            let moved = estimate.iter().enumerate().map(|(place, moved)| moved * prior.slope(place, *row));
            Some((*row, prior.residuals.get(row)? + moved.sum::<f64>()))
        };
        let residuals: HashMap<usize, f64> = rows.iter().filter_map(residual).collect();
        let (matrix, _) = self.normal_equations(estimate, &residuals, prior);
        let (axes, count) = (principal_axes(&matrix), estimate.len());
        let unit = |place: usize| (0..count).map(|other| f64::from(u8::from(other == place))).collect::<Vec<f64>>();
        let inverse: Vec<Vec<f64>> = (0..count).map(|place| axes.solve(&unit(place), 1e-9)).collect();
        let of_pair =
            |left: usize, right: usize| inverse[left][right] / libm::sqrt(inverse[left][left] * inverse[right][right]);
        (0..count).map(|left| (0..count).map(|right| of_pair(left, right)).collect()).collect()
    }
}
