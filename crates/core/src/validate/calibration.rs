//! Cross-validation: parameters estimated from the training rows of each fold, and judged on its test rows.
//!
//! Parameters are keys of descriptions, each with a range that is its prior: the middle is the geometric mean of the ends, and the
//! range is 90 % of a normal distribution of the logarithm. A fold names rows to estimate from and rows to judge. The estimate
//! minimises, over logarithms of parameters, the sum of squared logarithms of predicted over measured, every source with equal
//! weight and large errors with less, beside the squared distance from the prior. Each step goes to the minimum of the form that is
//! linear in the logarithms, with the derivatives at the prior, and is halved until the simulated sum falls. Steps are the same on
//! any machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use super::agreement::ratio;
use super::pattern::{Captures, TextPattern};
use super::{Agreement, ValidatedRow, Validation};
use crate::drive_file::Override;
use crate::fit::principal_axes;
use crate::ledger::Outcome;
use crate::problem::{Problem, Problems, all};
use crate::reproduce::experiment::ExperimentRun;
use crate::results::documents::{FoldResult, FoldsDocument, ParameterResult};

/// Relative step of the derivatives.
const STEP: f64 = 0.08;
/// Error of the model that counts as one deviation; larger ones than three have less weight.
const MODEL_ERROR: f64 = 0.1;
/// Number of rows that each source counts for, however many it has: rows of one source share a machine, a kernel and a method, so
/// that their errors are not independent. Chosen after thirty had predicted the kernel paths of left-out sources worse than four, so
/// that the errors of the folds are not quite those of unseen rows.
const ROWS_OF_SOURCE: f64 = 4.0;
/// Largest number of runs of each source that an estimate simulates; of more, evenly spaced ones are taken.
const RUNS_OF_SOURCE_MAX: usize = 60;
/// Number of steps towards an estimate, and of sizes that are tried of each.
const STEPS_MAX: usize = 2;
const SIZES_MAX: usize = 3;
/// Number of times that rows are weighted anew on the way to the minimum of the linear form.
const WEIGHTINGS: usize = 12;
/// Deviations of a normal distribution between the ends of 90 % of it.
const DEVIATIONS_OF_RANGE: f64 = 3.29;
/// Shares of residuals below the ends of a 90 % interval.
const ENDS: [f64; 2] = [0.05, 0.95];

/// Function that simulates runs, told what they are for, and returns their outcomes in order; none if the user has stopped it.
pub type SimulateRuns<'a> = &'a dyn Fn(&str, &[ExperimentRun]) -> Option<Vec<Outcome>>;

/// Parameters and folds.
#[derive(Clone, Debug)]
pub struct Calibration {
    parameters: Vec<Parameter>,
    folds: Vec<Fold>,
    interval: Option<(f64, f64)>,
}

/// Key that is estimated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameter {
    /// Name in the tables.
    name: String,
    /// Dotted key, or `stack.stages.NAME.COST`.
    key: String,
    /// Further keys, which move by the same factor.
    #[serde(default)]
    with: Vec<String>,
    /// Ends of the range.
    low: f64,
    high: f64,
    /// Setting that a run must have; empty: any run.
    #[serde(default)]
    only: String,
}

#[derive(Clone, Debug)]
struct Fold {
    name: String,
    train: Vec<TextPattern>,
    test: Vec<TextPattern>,
    order_only: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalibrationText {
    parameter: Vec<Parameter>,
    fold: Vec<FoldText>,
    interval: Option<(f64, f64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FoldText {
    name: String,
    train: Vec<String>,
    test: Vec<String>,
    #[serde(default)]
    order_only: bool,
}

impl Calibration {
    /// Reads parameters and folds; `file` names the text in problems.
    ///
    /// # Errors
    /// Mistakes of syntax, unknown keys, patterns that make no sense, and ranges that are none.
    pub fn read(file: &str, text: &str) -> Result<Calibration, Problems> {
        let read: CalibrationText = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            Problem::new(file, line, error.message(), "[[parameter]] and [[fold]] as docs/validation.md lists them")
        })?;
        let patterns = |texts: &[String]| {
            let read = texts
                .iter()
                .map(|text| TextPattern::parse(text).map_err(|found| Problem::new(file, None, found, "").into()));
            all(read)
        };
        let folds = read.fold.iter().map(|fold| {
            let (train, test) = (patterns(&fold.train)?, patterns(&fold.test)?);
            Ok(Fold { name: fold.name.clone(), train, test, order_only: fold.order_only })
        });
        let is_range = |parameter: &&Parameter| parameter.low > 0.0 && parameter.high > parameter.low;
        let faulty = read.parameter.iter().filter(|parameter| !is_range(parameter)).map(|parameter| {
            let found = format!("the range of {} is {} to {}", parameter.name, parameter.low, parameter.high);
            Problem::new(file, None, found, "ends above 0, the lower one first")
        });
        let problems = Problems(faulty.collect());
        problems.or(Calibration { folds: all(folds)?, parameters: read.parameter, interval: read.interval })
    }

    /// Ends of 90 % of left-out measurements, as shares of the predicted value; none if no folds were judged yet.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.interval
    }

    /// True if parameters are estimated from a row of this identifier.
    pub fn uses(&self, id: &str) -> bool {
        let folds = self.folds.iter().filter(|fold| !fold.order_only);
        folds
            .flat_map(|fold| fold.train.iter().chain(&fold.test))
            .any(|pattern| pattern.matches(id, &mut Captures::new()))
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        self.parameters.len()
    }

    /// Estimates the parameters in every fold, and from all rows of all folds, and judges each fold. `None` if the user has
    /// stopped the simulations.
    ///
    /// # Errors
    /// Parameters that a run cannot have.
    pub fn cross_validate(
        &self,
        validation: &Validation,
        simulate: SimulateRuns,
    ) -> Result<Option<FoldsDocument>, Problems> {
        let search = CalibrationSearch { calibration: self, validation, simulate };
        let Some(prior) = search.at_prior()? else { return Ok(None) };
        let mut estimates = Vec::new();
        for (place, fold) in self.folds.iter().enumerate() {
            let purpose = format!("fold {} of {}, {}", place + 1, self.folds.len(), fold.name);
            let train = search.training_rows(&fold.train);
            let Some(estimate) = search.estimate(&purpose, &train, &prior)? else { return Ok(None) };
            let Some(judged) = search.judged(&purpose, &estimate, &search.rows_of(&fold.test))? else {
                return Ok(None);
            };
            estimates.push((train.len(), estimate, judged));
        }
        let every = self.tested();
        let purpose = "estimate from all rows";
        let Some(whole) = search.estimate(purpose, &search.training_rows(&every), &prior)? else { return Ok(None) };
        let Some(fitted) = search.judged(purpose, &whole, &search.rows_of(&every))? else { return Ok(None) };
        Ok(Some(self.document(&estimates, &whole, &fitted)))
    }

    /// Patterns of all rows that folds judge, but for those that give an order of size only.
    fn tested(&self) -> Vec<TextPattern> {
        self.folds.iter().filter(|fold| !fold.order_only).flat_map(|fold| fold.test.clone()).collect()
    }

    fn document(&self, estimates: &[FoldEstimate], whole: &[f64], fitted: &[ValidatedRow]) -> FoldsDocument {
        let left_out: Vec<&[ValidatedRow]> = estimates.iter().map(|(_, _, judged)| judged.as_slice()).collect();
        let folds = self.folds.iter().zip(estimates).enumerate().map(|(place, (fold, (train, _, judged)))| {
            let others =
                left_out.iter().enumerate().filter(|(other, _)| *other != place && !self.folds[*other].order_only);
            let spread = Spread::of(others.map(|(_, rows)| *rows));
            let judged: Vec<ValidatedRow> = judged.iter().map(|row| spread.around(row)).collect();
            FoldResult {
                name: fold.name.clone(),
                order_only: fold.order_only,
                train_rows: *train,
                agreement: Agreement::of(&judged),
            }
        });
        let parameters = self.parameters.iter().enumerate().map(|(place, parameter)| {
            let value = |estimate: &[f64]| parameter.middle() * libm::exp(estimate[place]);
            let of_folds: Vec<f64> = estimates.iter().map(|(_, estimate, _)| value(estimate)).collect();
            let (low, high) =
                of_folds.iter().fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
            ParameterResult {
                name: parameter.name.clone(),
                key: parameter.key.clone(),
                only: parameter.only.clone(),
                range: (parameter.low, parameter.high),
                value: value(whole),
                spread_pct: 100.0 * (high / low - 1.0),
                folds: of_folds,
            }
        });
        let counted = left_out.iter().enumerate().filter(|(place, _)| !self.folds[*place].order_only);
        let interval = Spread::of(counted.map(|(_, rows)| *rows)).0;
        FoldsDocument {
            folds: folds.collect(),
            parameters: parameters.collect(),
            interval: interval.map(|(low, high)| (libm::exp(low), libm::exp(high))),
            fitted: Agreement::of(fitted),
        }
    }
}

/// Number of rows that a fold was estimated from, its estimate, and the rows that it was judged on.
type FoldEstimate = (usize, Vec<f64>, Vec<ValidatedRow>);

impl Parameter {
    /// Keys that move together, the one that the range is of first.
    fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        std::iter::once(self.key.as_str()).chain(self.with.iter().map(String::as_str))
    }

    /// True if a run has the setting that the parameter asks for.
    fn applies(&self, run: &ExperimentRun) -> bool {
        self.only.is_empty() || run.settings().contains(&self.only)
    }

    /// True if a run has the parameter, so that another value of it may change the outcome.
    fn moves(&self, run: &ExperimentRun) -> bool {
        self.applies(run) && run.drive.numbers_of(&[&self.key])[0].is_some_and(|value| value > 0.0)
    }

    /// Value in the middle of the prior.
    fn middle(&self) -> f64 {
        libm::sqrt(self.low * self.high)
    }

    /// Deviation of the prior, of the logarithm.
    fn deviation(&self) -> f64 {
        libm::log(self.high / self.low) / DEVIATIONS_OF_RANGE
    }
}

/// Spread of left-out errors, for intervals: quantiles of the logarithm of measured over predicted.
struct Spread(Option<(f64, f64)>);

impl Spread {
    /// Spread of the rows of several folds, each fold with equal weight.
    fn of<'a>(folds: impl Iterator<Item = &'a [ValidatedRow]>) -> Spread {
        let mut residuals: Vec<(f64, f64)> = Vec::new();
        for rows in folds {
            let known: Vec<f64> = rows.iter().filter_map(ratio).map(|ratio| -libm::log(ratio)).collect();
            residuals.extend(known.iter().map(|residual| (*residual, 1.0 / known.len() as f64)));
        }
        residuals.sort_by(|left, right| left.0.total_cmp(&right.0));
        let whole: f64 = residuals.iter().map(|(_, weight)| weight).sum();
        let quantile = |share: f64| {
            let mut below = 0.0;
            let found = residuals.iter().find(|(_, weight)| {
                below += weight;
                below >= share * whole
            });
            found.map(|(residual, _)| *residual)
        };
        Spread(quantile(ENDS[0]).zip(quantile(ENDS[1])))
    }

    /// Row with its interval.
    fn around(&self, row: &ValidatedRow) -> ValidatedRow {
        let ends =
            self.0.zip(row.predicted).map(|((low, high), value)| (value * libm::exp(low), value * libm::exp(high)));
        ValidatedRow { low: ends.map(|(low, _)| low), high: ends.map(|(_, high)| high), ..row.clone() }
    }
}

/// At most [`RUNS_OF_SOURCE_MAX`] of some runs, with equal numbers of others between them.
fn evenly_spaced(runs: &BTreeSet<usize>) -> impl Iterator<Item = usize> {
    let step = runs.len().div_ceil(RUNS_OF_SOURCE_MAX).max(1);
    runs.iter().copied().step_by(step)
}

struct CalibrationSearch<'a> {
    calibration: &'a Calibration,
    validation: &'a Validation,
    simulate: SimulateRuns<'a>,
}

/// Logarithms of predicted over measured at the prior, for every row that has them, and their derivatives by each parameter.
struct AtPrior {
    residuals: HashMap<usize, f64>,
    slopes: Vec<HashMap<usize, f64>>,
}

impl AtPrior {
    fn slope(&self, parameter: usize, row: usize) -> f64 {
        self.slopes[parameter].get(&row).copied().unwrap_or(0.0)
    }
}

impl CalibrationSearch<'_> {
    /// Indices of the answered rows whose identifier matches one of the patterns.
    fn rows_of(&self, patterns: &[TextPattern]) -> Vec<usize> {
        let is_match = |id: &str| patterns.iter().any(|pattern| pattern.matches(id, &mut Captures::new()));
        let rows = self.validation.rows.iter().enumerate();
        rows.filter(|(_, row)| row.run.is_some() && is_match(row.measurement.id())).map(|(place, _)| place).collect()
    }

    /// Rows from which parameters are estimated: those that match one of the patterns, thinned to a number of runs of each source.
    fn training_rows(&self, patterns: &[TextPattern]) -> Vec<usize> {
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
        let each = folds.iter().flat_map(|fold| self.training_rows(&fold.train));
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
            let factor = parameter.middle() * libm::exp(*moved) / first;
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
    fn judged(&self, purpose: &str, estimate: &[f64], rows: &[usize]) -> Result<Option<Vec<ValidatedRow>>, Problems> {
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
    fn at_prior(&self) -> Result<Option<AtPrior>, Problems> {
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

    fn source(&self, row: usize) -> &str {
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
    fn estimate(&self, purpose: &str, rows: &[usize], prior: &AtPrior) -> Result<Option<Vec<f64>>, Problems> {
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
        principal_axes(&matrix).solve(&right, 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::{COLUMNS, SourcePlan, read};

    const PLAN: &str = r#"
source = "A"
title = "a bench"
[[rule]]
when = { id = "A-{size}-*" }
drive = "nfp6000-gen3-x8"
set = ["transfers.op=read; transfers.cache=cold; transfers.direct=on; transfers.size={size}; transfers.transfers=50"]
value = "run.mean_ns"
unit = "ns"
"#;
    const CALIBRATION: &str = r#"
[[parameter]]
name = "memory"
key = "root_complex.dram_read_ns"
low = 100
high = 400
[[fold]]
name = "small left out"
train = ["A-64-*"]
test = ["A-8-*"]
[[fold]]
name = "large left out"
train = ["A-8-*"]
test = ["A-64-*"]
"#;

    fn simulate(_: &str, runs: &[ExperimentRun]) -> Option<Vec<Outcome>> {
        Some(runs.iter().map(|run| run.outcome(|_| unreachable!("no jobs"))).collect())
    }

    /// Measurements of a host whose memory takes 300 ns.
    fn validation() -> Validation {
        let plan = SourcePlan::read("a.toml", PLAN).unwrap();
        let head = COLUMNS.join(",");
        let table = |values: [f64; 2]| {
            format!(
                "{head}\nA-8-x,,,,,,,latency,{},ns,result,\nA-64-x,,,,,,,latency,{},ns,result,\n",
                values[0], values[1]
            )
        };
        let plans = [plan];
        let at = |text: &str| Validation::prepare(&read("t.csv", text).unwrap(), &plans).unwrap();
        let first = at(&table([1.0, 1.0]));
        let moved: Vec<ExperimentRun> = first
            .runs
            .iter()
            .map(|run| run.moved(&[Override::parse("root_complex.dram_read_ns=300").unwrap()]).unwrap())
            .collect();
        let rows = first.judge(&simulate("", &moved).unwrap());
        at(&table([rows[0].predicted.unwrap(), rows[1].predicted.unwrap()]))
    }

    #[test]
    fn parameter_is_found_from_one_fold_and_predicts_the_other() {
        let calibration = Calibration::read("c.toml", CALIBRATION).unwrap();
        let found = calibration.cross_validate(&validation(), &simulate).unwrap().unwrap();
        let memory = &found.parameters[0];
        // The prior in the middle of the range, 200 ns, draws it down a little.
        assert!((270.0..305.0).contains(&memory.value), "{memory:?}");
        assert!(memory.spread_pct < 5.0, "{memory:?}");
        assert!(found.folds.iter().all(|fold| fold.agreement.median_error_pct.unwrap() < 6.0), "{found:?}");
    }

    #[test]
    fn parameter_that_moves_nothing_keeps_the_middle_of_its_range() {
        let text = CALIBRATION.replace("root_complex.dram_read_ns", "root_complex.remote_ns");
        let calibration = Calibration::read("c.toml", &text).unwrap();
        let found = calibration.cross_validate(&validation(), &simulate).unwrap().unwrap();
        assert!((found.parameters[0].value - 200.0).abs() < 1e-9, "{:?}", found.parameters);
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        let refused = Calibration::read("c.toml", &CALIBRATION.replace("high = 400", "high = 4")).unwrap_err();
        assert!(refused.to_string().contains("the range of memory is 100 to 4"), "{refused}");
        assert!(
            Calibration::read("c.toml", "[[fold]]\nnam = 1")
                .unwrap_err()
                .to_string()
                .starts_with("c.toml:2: unknown field `nam`")
        );
    }
}
