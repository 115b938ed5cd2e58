//! Cross-validation: parameters are estimated from the training measurements of each fold, and judged on its test
//! measurements.
//!
//! Parameters are keys of drives, each with a range that is its prior. The middle is the geometric mean of the ends,
//! and the range is 90 % of a normal distribution of the logarithm. A fold names rows to estimate from and rows to
//! judge. The estimate minimises a sum over logarithms of parameters: the squared logarithms of predicted over
//! measured, plus the squared distance from the prior. Sources have similar weights, and large errors less. Each step
//! goes to the minimum of the linearised sum, with the derivatives at the prior, and is halved until the simulated sum
//! falls. Steps are equal on any machine.
//!
//! Points of a curve are folds, too. They leave out equal rows, with the parameters estimated from none or one of the
//! other sources.

mod search;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

pub use self::search::SimulateRuns;
use self::search::{CalibrationSearch, ResidualsAtPrior};
use super::agreement::{agreement_of, ratio};
use super::pattern::TextPattern;
use super::{ValidatedRow, Validation};
use crate::reproduce::experiment::ExperimentRun;
use crate::results::documents::{
    ConfoundedPair, CurvePoint, FoldResult, FoldsDocument, ParameterResult, SingleConstant, SourceResult,
};
use phaselink_core::number::real_length;
use phaselink_core::problem::{Problem, Problems, all};

/// Width of the range that holds 90 % of a normal distribution, in standard deviations.
const DEVIATIONS_OF_RANGE: f64 = 3.29;
/// Quantiles of the prediction errors at the ends of a 90 % interval: 5 % and 95 %.
const ENDS: [f64; 2] = [0.05, 0.95];
/// Correlation beyond which the measurements cannot distinguish two parameters.
const CONFOUNDED: f64 = 0.6;

/// Calibration file: parameters to estimate, folds of measurements, and constants that single sources determine.
#[derive(Clone, Debug)]
pub struct Calibration {
    parameters: Vec<Parameter>,
    folds: Vec<CalibrationFold>,
    curve: Vec<CalibrationFold>,
    /// Names of sources that have measurements which some fold estimates from or judges.
    sources: BTreeSet<String>,
    singles: Vec<SingleConstant>,
    interval: Option<(f64, f64)>,
}

/// Parameter of a calibration: keys of a drive that are estimated together, with their range.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameter {
    /// Name of the parameter in the tables of results.
    name: String,
    /// Key of the drive that the range applies to: dotted, or `stack.stages.NAME.COST`.
    key: String,
    /// Further keys, which are multiplied by the same factor as the first one.
    #[serde(default)]
    with: Vec<String>,
    /// Lower end of the parameter's range. The next field is the upper end.
    low: f64,
    high: f64,
    /// Setting that a run must have for the parameter to apply; empty for any run.
    #[serde(default)]
    only: String,
}

/// Fold of the cross-validation: constants are estimated from the measurements that match `train`, and judged by those
/// that match `test`.
#[derive(Clone, Debug)]
struct CalibrationFold {
    name: String,
    train: Vec<TextPattern>,
    test: Vec<TextPattern>,
    order_only: bool,
}

/// Content of the TOML file that describes a calibration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalibrationText {
    parameter: Vec<Parameter>,
    fold: Vec<FoldText>,
    #[serde(default)]
    point: Vec<FoldText>,
    #[serde(default)]
    single: Vec<SingleConstant>,
    interval: Option<(f64, f64)>,
}

/// Fold of the cross-validation as written in the TOML file.
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
    /// Parses parameters and folds from TOML. `file` is the name of the text in problems.
    ///
    /// # Errors
    /// Syntax errors, unknown keys, invalid patterns, and ranges that are empty or not above 0.
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
        let fold = |fold: &FoldText| {
            let (train, test) = (patterns(&fold.train)?, patterns(&fold.test)?);
            Ok(CalibrationFold { name: fold.name.clone(), train, test, order_only: fold.order_only })
        };
        let (folds, curve) = (read.fold.iter().map(fold), read.point.iter().map(fold));
        let counting = read.fold.iter().filter(|fold| !fold.order_only);
        let named = counting.flat_map(|fold| fold.train.iter().chain(&fold.test));
        let sources = named.filter_map(|pattern| pattern.split('-').next()).map(String::from).collect();
        let is_range = |parameter: &&Parameter| parameter.low > 0.0 && parameter.high > parameter.low;
        let faulty = read.parameter.iter().filter(|parameter| !is_range(parameter)).map(|parameter| {
            let found = format!("the range of {} is {} to {}", parameter.name, parameter.low, parameter.high);
            Problem::new(file, None, found, "ends above 0, the lower one first")
        });
        let problems = Problems(faulty.collect());
        let (folds, curve) = (all(folds)?, all(curve)?);
        problems.or(Calibration {
            folds,
            curve,
            sources,
            parameters: read.parameter,
            singles: read.single,
            interval: read.interval,
        })
    }

    /// Returns the ends of the range that holds 90 % of left-out measurements, as factors of the predicted value.
    /// `None` if no folds were judged yet.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.interval
    }

    /// True if parameters are estimated from measurements of this source. All its measurements share
    /// machine, software and drives, so that none of them is a prediction by the shipped drives.
    pub fn uses(&self, source: &str) -> bool {
        self.sources.contains(source)
    }

    /// Returns the number of parameters that the calibration estimates.
    pub fn parameters(&self) -> usize {
        self.parameters.len()
    }

    /// Estimates the parameters in every fold and from all folds together, and judges each fold. `with_curve` adds the
    /// points of the curve. `None` if the user has stopped the simulations.
    ///
    /// # Errors
    /// Parameter values that a run cannot have.
    pub fn cross_validate(
        &self,
        validation: &Validation,
        with_curve: bool,
        simulate: SimulateRuns,
    ) -> Result<Option<FoldsDocument>, Problems> {
        let search = CalibrationSearch { calibration: self, validation, simulate };
        let Some(prior) = search.residuals_at_prior()? else { return Ok(None) };
        let (mut estimates, mut points) = (Vec::new(), Vec::new());
        for (place, fold) in self.folds.iter().enumerate() {
            let purpose = format!("fold {} of {}, {}", place + 1, self.folds.len(), fold.name);
            let Some(estimate) = search.of_fold(&purpose, fold, &prior)? else { return Ok(None) };
            estimates.push(estimate);
        }
        for (place, fold) in self.curve.iter().enumerate().filter(|_| with_curve) {
            let purpose = format!("point {} of {}, {}", place + 1, self.curve.len(), fold.name);
            let Some(estimate) = search.of_fold(&purpose, fold, &prior)? else { return Ok(None) };
            let agreement = agreement_of(&estimate.judged);
            points.push(CurvePoint { name: fold.name.clone(), train_rows: estimate.train.len(), agreement });
        }
        let every = search.training_rows(&self.judged_patterns());
        let purpose = "estimate from all rows";
        let Some(whole) = search.estimate(purpose, &every, &prior)? else { return Ok(None) };
        let Some(fitted) = search.judged(purpose, &whole, &search.rows_of(&self.judged_patterns()))? else {
            return Ok(None);
        };
        let confounded = self.confounded_pairs(&search.correlations(&whole, &every, &prior));
        Ok(Some(FoldsDocument {
            parameters: self.estimated_parameters(&search, &prior, &every, &whole, &estimates),
            singles: self.singles.clone(),
            confounded,
            curve: points,
            fitted: agreement_of(&fitted),
            ..self.judged(&estimates)
        }))
    }

    /// Returns the results of all parameters: the estimate from all measurements, and that of each fold whose
    /// measurements depend on it.
    fn estimated_parameters(
        &self,
        search: &CalibrationSearch,
        prior: &ResidualsAtPrior,
        rows: &[usize],
        whole: &[f64],
        folds: &[FoldEstimate],
    ) -> Vec<ParameterResult> {
        let of_parameter = |(place, parameter): (usize, &Parameter)| {
            let moves = |row: &&usize| prior.slope(place, **row) != 0.0;
            let moved: Vec<usize> = rows.iter().filter(moves).copied().collect();
            let sources: BTreeSet<&str> = moved.iter().map(|row| search.source(*row)).collect();
            let of_fold =
                |fold: &FoldEstimate| fold.train.iter().find(moves).map(|_| parameter.value(fold.values[place]));
            let folds: Vec<Option<f64>> = folds.iter().map(of_fold).collect();
            ParameterResult {
                name: parameter.name.clone(),
                key: parameter.key.clone(),
                only: parameter.only.clone(),
                range: (parameter.low, parameter.high),
                rows: moved.len(),
                sources: sources.into_iter().map(String::from).collect(),
                value: parameter.value(whole[place]),
                spread_pct: spread_pct(&folds),
                folds,
            }
        };
        self.parameters.iter().enumerate().map(of_parameter).collect()
    }

    /// Returns the patterns of all measurements that folds judge, without folds that give an order of magnitude only.
    fn judged_patterns(&self) -> Vec<TextPattern> {
        self.folds.iter().filter(|fold| !fold.order_only).flat_map(|fold| fold.test.clone()).collect()
    }

    /// Returns the errors of left-out measurements by fold and by source, with prediction intervals from the other
    /// folds.
    fn judged(&self, estimates: &[FoldEstimate]) -> FoldsDocument {
        let left_out: Vec<&[ValidatedRow]> = estimates.iter().map(|estimate| estimate.judged.as_slice()).collect();
        let with_intervals: Vec<Vec<ValidatedRow>> = (0..left_out.len())
            .map(|place| {
                let others = left_out.iter().enumerate();
                let others = others.filter(|(other, _)| *other != place && !self.folds[*other].order_only);
                let spread = Spread::of(others.map(|(_, rows)| *rows));
                left_out[place].iter().map(|row| spread.with_interval(row)).collect()
            })
            .collect();
        let folds =
            self.folds.iter().zip(estimates).zip(&with_intervals).map(|((fold, estimate), judged)| FoldResult {
                name: fold.name.clone(),
                order_only: fold.order_only,
                train_rows: estimate.train.len(),
                agreement: agreement_of(judged),
            });
        let counted = || self.folds.iter().zip(&with_intervals).filter(|(fold, _)| !fold.order_only);
        let mut of_source: BTreeMap<&str, Vec<&ValidatedRow>> = BTreeMap::new();
        for row in counted().flat_map(|(_, rows)| rows) {
            of_source.entry(&row.source).or_default().push(row);
        }
        let sources = of_source
            .into_iter()
            .map(|(source, rows)| SourceResult { source: String::from(source), agreement: agreement_of(rows) });
        let interval = Spread::of(counted().map(|(_, rows)| rows.as_slice())).0;
        FoldsDocument {
            folds: folds.collect(),
            sources: sources.collect(),
            curve: Vec::new(),
            parameters: Vec::new(),
            singles: Vec::new(),
            confounded: Vec::new(),
            interval: interval.map(|(low, high)| (libm::exp(low), libm::exp(high))),
            fitted: agreement_of([] as [&ValidatedRow; 0]),
        }
    }

    /// Returns the pairs of parameters that the measurements cannot distinguish, by their correlations.
    fn confounded_pairs(&self, correlations: &[Vec<f64>]) -> Vec<ConfoundedPair> {
        let name = |place: usize| self.parameters[place].name.clone();
        let pairs = (0..correlations.len()).flat_map(|right| (0..right).map(move |left| (left, right)));
        let met = pairs.filter(|(left, right)| correlations[*left][*right].abs() >= CONFOUNDED);
        met.map(|(left, right)| ConfoundedPair {
            parameters: (name(left), name(right)),
            correlation: correlations[left][right],
        })
        .collect()
    }
}

/// Estimate of a fold: its training measurements, the parameters as logarithms relative to the middle of their ranges,
/// and its judged test measurements.
struct FoldEstimate {
    train: Vec<usize>,
    values: Vec<f64>,
    judged: Vec<ValidatedRow>,
}

impl CalibrationSearch<'_> {
    fn of_fold(
        &self,
        purpose: &str,
        fold: &CalibrationFold,
        prior: &ResidualsAtPrior,
    ) -> Result<Option<FoldEstimate>, Problems> {
        let train = self.training_rows(&fold.train);
        let Some(values) = self.estimate(purpose, &train, prior)? else { return Ok(None) };
        let judged = self.judged(purpose, &values, &self.rows_of(&fold.test))?;
        Ok(judged.map(|judged| FoldEstimate { train, values, judged }))
    }
}

/// Returns the ratio of largest to smallest value, less 1, in per cent; 0 if there are none.
fn spread_pct(values: &[Option<f64>]) -> f64 {
    let ends = values.iter().flatten().fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
    if ends.1 > 0.0 { 100.0 * (ends.1 / ends.0 - 1.0) } else { 0.0 }
}

impl Parameter {
    /// Returns the keys that the parameter moves together; the range applies to the first one.
    fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        std::iter::once(self.key.as_str()).chain(self.with.iter().map(String::as_str))
    }

    /// True if a run has the setting that the parameter requires.
    fn has_required_setting(&self, run: &ExperimentRun) -> bool {
        self.only.is_empty() || run.settings().contains(&self.only)
    }

    /// True if a run's drive has a value for the parameter, so that another value may change the outcome.
    fn can_change(&self, run: &ExperimentRun) -> bool {
        self.has_required_setting(run) && run.drive.numeric_values_of(&[&self.key])[0].is_some_and(|value| value > 0.0)
    }

    /// Returns the middle of the parameter's prior: the geometric mean of its range.
    fn prior_middle(&self) -> f64 {
        libm::sqrt(self.low * self.high)
    }

    /// Converts an estimate (logarithm relative to the middle of the range) to a value of the parameter.
    fn value(&self, moved: f64) -> f64 {
        self.prior_middle() * libm::exp(moved)
    }

    /// Returns the standard deviation of the parameter's prior, as a logarithm.
    fn deviation(&self) -> f64 {
        libm::log(self.high / self.low) / DEVIATIONS_OF_RANGE
    }
}

/// Errors of left-out measurements, from which intervals follow: 5 % and 95 % quantiles of the logarithm of measured
/// over predicted.
struct Spread(Option<(f64, f64)>);

impl Spread {
    /// Computes the quantiles over the measurements of several folds, each fold with equal weight.
    fn of<'a>(folds: impl Iterator<Item = &'a [ValidatedRow]>) -> Spread {
        let mut residuals: Vec<(f64, f64)> = Vec::new();
        for rows in folds {
            let known: Vec<f64> = rows.iter().filter_map(ratio).map(|ratio| -libm::log(ratio)).collect();
            residuals.extend(known.iter().map(|residual| (*residual, 1.0 / real_length(known.len()))));
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

    /// Returns the measurement with the prediction interval around its predicted value.
    fn with_interval(&self, row: &ValidatedRow) -> ValidatedRow {
        let ends =
            self.0.zip(row.predicted).map(|((low, high), value)| (value * libm::exp(low), value * libm::exp(high)));
        ValidatedRow { low: ends.map(|(low, _)| low), high: ends.map(|(_, high)| high), ..row.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::{COLUMNS, SourcePlan, read};
    use phaselink_core::drive_file::KeyOverride;
    use phaselink_core::ledger::Outcome;

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

    /// Returns measurements of a host whose memory takes 300 ns to read.
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
            .map(|run| run.with_overrides(&[KeyOverride::parse("root_complex.dram_read_ns=300").unwrap()]).unwrap())
            .collect();
        let rows = first.judge(&simulate("", &moved).unwrap());
        at(&table([rows[0].predicted.unwrap(), rows[1].predicted.unwrap()]))
    }

    #[test]
    fn parameter_fitted_in_one_fold_predicts_the_other() {
        let calibration = Calibration::read("c.toml", CALIBRATION).unwrap();
        let found = calibration.cross_validate(&validation(), false, &simulate).unwrap().unwrap();
        let memory = &found.parameters[0];
        // The prior at the middle of the range, 200 ns, makes the fitted value slightly smaller.
        assert!((270.0..305.0).contains(&memory.value), "{memory:?}");
        assert!(memory.spread_pct < 5.0, "{memory:?}");
        assert!(found.folds.iter().all(|fold| fold.agreement.median_error_pct.unwrap() < 6.0), "{found:?}");
    }

    #[test]
    fn parameter_without_effect_keeps_its_prior_middle() {
        let text = CALIBRATION.replace("root_complex.dram_read_ns", "root_complex.remote_ns");
        let calibration = Calibration::read("c.toml", &text).unwrap();
        let found = calibration.cross_validate(&validation(), false, &simulate).unwrap().unwrap();
        assert!((found.parameters[0].value - 200.0).abs() < 1e-9, "{:?}", found.parameters);
    }

    #[test]
    fn empty_or_inverted_parameter_ranges_are_refused() {
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
