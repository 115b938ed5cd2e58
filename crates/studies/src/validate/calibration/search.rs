//! Search for the constants whose predictions are nearest to given measurements (weighted least squares).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Calibration;
use crate::fit::principal_axes;
use crate::reproduce::experiment::ExperimentRun;
use crate::validate::agreement::ratio;
use crate::validate::pattern::{Captures, TextPattern};
use crate::validate::{ValidatedRow, Validation};
use phaselink_core::drive_file::KeyOverride;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problems, all};

/// Step for derivatives, as a logarithm of the parameter.
const STEP: f64 = 0.08;
/// Relative error of the model that counts as one deviation. Errors above three deviations have less weight.
const MODEL_ERROR: f64 = 0.1;
/// Largest total weight of a source, in measurements. Measurements of one source share a machine, a kernel and a
/// method, so that their errors are not independent. Four was chosen after thirty had predicted the kernel paths of
/// left-out sources worse. So the errors of the folds are not quite those of unseen measurements.
const ROWS_OF_SOURCE: f64 = 4.0;
/// Largest number of runs of each source of measurements that one estimate simulates. If a source has more, evenly
/// spaced ones are used.
const RUNS_OF_SOURCE_MAX: usize = 24;
/// Largest number of steps towards an estimate. The next constant is the number of step sizes that are tried for each.
const STEPS_MAX: usize = 2;
const SIZES_MAX: usize = 3;
/// Number of times that measurements are weighted anew on the way to the minimum of the linearised sum.
const WEIGHTINGS: usize = 12;
/// Function of the caller that simulates runs and returns their outcomes in order. Its text says what the runs are for.
/// It returns `None` if the user has stopped it.
pub type SimulateRuns<'a> = &'a dyn Fn(&str, &[ExperimentRun]) -> Option<Vec<Outcome>>;

/// Returns at most [`RUNS_OF_SOURCE_MAX`] of the given runs, evenly spaced.
fn evenly_spaced(runs: &BTreeSet<usize>) -> impl Iterator<Item = usize> {
    let step = runs.len().div_ceil(RUNS_OF_SOURCE_MAX).max(1);
    runs.iter().copied().step_by(step)
}

/// Estimation of a calibration's parameters by simulating the runs that predict its measurements.
pub(super) struct CalibrationSearch<'a> {
    pub(super) calibration: &'a Calibration,
    pub(super) validation: &'a Validation,
    pub(super) simulate: SimulateRuns<'a>,
}

/// Logarithm of predicted over measured value of each measurement, with all parameters in the middle of their ranges,
/// and its derivatives by each parameter.
pub(super) struct ResidualsAtPrior {
    residuals: HashMap<usize, f64>,
    slopes: Vec<HashMap<usize, f64>>,
}

impl ResidualsAtPrior {
    pub(super) fn slope(&self, parameter: usize, row: usize) -> f64 {
        self.slopes[parameter].get(&row).copied().unwrap_or(0.0)
    }
}

impl CalibrationSearch<'_> {
    /// Returns the indices of all measurements that have a run and whose identifier matches one of the patterns.
    pub(super) fn rows_of(&self, patterns: &[TextPattern]) -> Vec<usize> {
        let is_match = |id: &str| patterns.iter().any(|pattern| pattern.matches(id, &mut Captures::new()));
        let rows = self.validation.rows.iter().enumerate();
        rows.filter(|(_, row)| row.run.is_some() && is_match(row.measurement.id())).map(|(place, _)| place).collect()
    }

    /// Returns the measurements to estimate parameters from: those that match one of the patterns, reduced to a limited
    /// number of runs per source.
    pub(super) fn training_rows(&self, patterns: &[TextPattern]) -> Vec<usize> {
        let rows = self.rows_of(patterns);
        let mut runs_of: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for row in &rows {
            runs_of.entry(self.source(*row)).or_default().extend(self.validation.rows[*row].run);
        }
        let kept: BTreeSet<usize> = runs_of.values().flat_map(evenly_spaced).collect();
        rows.into_iter().filter(|row| self.validation.rows[*row].run.is_some_and(|run| kept.contains(&run))).collect()
    }

    /// Returns all measurements that are used for estimates: by any fold, by the curve, or by the estimate from all
    /// folds together.
    fn all_training_rows(&self) -> Vec<usize> {
        let folds = &self.calibration.folds;
        let folds = folds.iter().chain(&self.calibration.curve);
        let each = folds.flat_map(|fold| self.training_rows(&fold.train));
        let rows: BTreeSet<usize> = each.chain(self.training_rows(&self.calibration.judged_patterns())).collect();
        rows.into_iter().collect()
    }

    /// Returns the overrides that set a run's drive to the parameter values of an estimate.
    fn overrides(&self, run: &ExperimentRun, estimate: &[f64]) -> Result<Vec<KeyOverride>, Problems> {
        let moved = self
            .calibration
            .parameters
            .iter()
            .zip(estimate)
            .filter(|(parameter, _)| parameter.has_required_setting(run));
        let keys: Vec<&str> = moved.clone().flat_map(|(parameter, _)| parameter.keys()).collect();
        let mut numbers = run.drive.numeric_values_of(&keys).into_iter();
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
        all(texts.iter().map(|text| KeyOverride::parse(text).map_err(Problems::from)))
    }

    /// Simulates the runs with an estimate. Returns the logarithm of predicted over measured value for each measurement
    /// that has one; `None` if the user has stopped it.
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

    /// Simulates the runs of measurements with an estimate. Returns the measurements with predicted values; `None` if
    /// the user has stopped it.
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
            run.with_overrides(&self.overrides(run, estimate)?)
        });
        let moved = all(moved)?;
        let Some(outcomes) = (self.simulate)(purpose, &moved) else { return Ok(None) };
        let judged = rows.iter().map(|row| {
            let row = &self.validation.rows[*row];
            row.judged(row.run.map(|run| (&moved[places[&run]], &outcomes[places[&run]])))
        });
        Ok(Some(judged.collect()))
    }

    /// Simulates all measurements with every parameter in the middle of its range, and then each parameter moved alone.
    /// Returns the residuals and their derivatives.
    pub(super) fn residuals_at_prior(&self) -> Result<Option<ResidualsAtPrior>, Problems> {
        let parameters = &self.calibration.parameters;
        let rows = self.all_training_rows();
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
                run.is_some_and(|run| parameter.can_change(run))
            };
            let moved: Vec<usize> = rows.iter().filter(has_it).copied().collect();
            let Some(moved) = self.residuals(&purpose, &estimate, &moved)? else { return Ok(None) };
            let slope = |(row, value): (&usize, &f64)| Some((*row, (value - residuals.get(row)?) / STEP));
            slopes.push(moved.iter().filter_map(slope).filter(|(_, slope)| *slope != 0.0).collect());
        }
        Ok(Some(ResidualsAtPrior { residuals, slopes }))
    }

    /// Returns the weight of each measurement. No source weighs more than a few measurements, and large errors weigh
    /// less.
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

    /// Returns the sum that an estimate minimises: weighted squared residuals, plus the squared distance from the
    /// prior.
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

    /// Estimates the parameters from these measurements by a few simulated steps. `None` if the user has stopped it.
    pub(super) fn estimate(
        &self,
        purpose: &str,
        rows: &[usize],
        prior: &ResidualsAtPrior,
    ) -> Result<Option<Vec<f64>>, Problems> {
        let mut estimate = vec![0.0; self.calibration.parameters.len()];
        let known = rows.iter().filter_map(|row| Some((*row, *prior.residuals.get(row)?)));
        let mut residuals: HashMap<usize, f64> = known.collect();
        let mut sum = self.sum(&estimate, &residuals);
        for _ in 0..STEPS_MAX {
            let minimum = self.linearised_minimum(&estimate, &residuals, prior);
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

    /// Returns the estimate at which the sum would be least if residuals were linear in it. `residuals` are those of
    /// the estimate `from`.
    fn linearised_minimum(&self, from: &[f64], residuals: &HashMap<usize, f64>, prior: &ResidualsAtPrior) -> Vec<f64> {
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

    /// Returns the Gauss-Newton step from an estimate, with weights from these residuals.
    fn step(&self, estimate: &[f64], residuals: &HashMap<usize, f64>, prior: &ResidualsAtPrior) -> Vec<f64> {
        let (matrix, right) = self.normal_equations(estimate, residuals, prior);
        principal_axes(&matrix).solve(&right, 1e-9)
    }

    fn normal_equations(
        &self,
        estimate: &[f64],
        residuals: &HashMap<usize, f64>,
        prior: &ResidualsAtPrior,
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

    /// Returns the correlation between the errors of every two parameters after an estimate from these measurements,
    /// linearised. Near -1, the measurements determine only their sum.
    pub(super) fn correlations(&self, estimate: &[f64], rows: &[usize], prior: &ResidualsAtPrior) -> Vec<Vec<f64>> {
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
