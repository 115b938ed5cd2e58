//! Validation of the model: measurements of many machines beside simulated values.
//!
//! A table holds measured values with the conditions of each. A plan for each source has rules over these conditions.
//! They say which run of the model predicts a row, and which rows the model cannot predict. The caller runs the
//! simulations.
//!
//! ```text
//! read(table) + SourcePlan::read ── Validation::prepare ── runs() ── caller simulates ── answer()
//! ```

mod agreement;
mod calibration;
mod data;
mod evidence;
mod measurement;
mod pattern;
mod plan;
mod question;
pub mod tails;
mod unit;
mod words;

use std::collections::{BTreeMap, HashMap};

pub use crate::results::documents::{
    Agreement, MeasuredKind, Provenance, ValidateDocument, ValidatedRow, ValidatedSource,
};
pub use crate::results::documents::{ConfoundedPair, FoldsDocument};
pub use calibration::{Calibration, SimulateRuns};
pub use data::{MeasurementSet, NamedText, PACKED_MEASUREMENTS};
pub use measurement::{COLUMNS, MeasuredValue, read};
pub use plan::SourcePlan;
pub use question::ValidateQuestion;

use crate::reproduce::RunSpec;
use crate::reproduce::experiment::ExperimentRun;
use agreement::agreement_of;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems, all};
use plan::{PredictingRun, RowPlan};

/// Name of the summary over all sources of measurements.
const ALL_SOURCES: &str = "all";

/// Converts a value to the smallest unit of its kind: nanoseconds, requests per second or bytes per second.
pub fn to_smallest_unit(value: f64, unit: &str) -> f64 {
    value * unit::size(unit)
}

/// Measured values with the runs of the model that predict them, ready to be simulated.
#[derive(Clone, Debug)]
pub struct Validation {
    rows: Vec<ValidationRow>,
    /// Runs of the model that predict the measured values, each listed once.
    pub runs: Vec<ExperimentRun>,
    titles: Vec<(String, String)>,
    /// Ends of the 90 % prediction interval, as factors of the predicted value. `None` without a calibration.
    interval: Option<(f64, f64)>,
}

/// Measurement with the answer of its source's plan.
#[derive(Clone, Debug)]
struct ValidationRow {
    measurement: MeasuredValue,
    answer: RowPlan,
    /// True if constants of the shipped drives were estimated from this measurement, so that it is not a prediction.
    is_fitted: bool,
    /// Index of the run that predicts the measurement. `None` if the model cannot predict it.
    run: Option<usize>,
}

impl Validation {
    /// Finds the run that predicts each measurement. Measurements of sources without a plan are left out.
    ///
    /// # Errors
    /// Measurements that no rule matches, and runs that cannot start.
    pub fn prepare(measurements: &[MeasuredValue], plans: &[SourcePlan]) -> Result<Validation, Problems> {
        let mut problems = Problems::default();
        let (mut specs, mut places): (Vec<(RunSpec, PredictingRun)>, HashMap<RunSpec, usize>) = Default::default();
        let mut rows = Vec::new();
        for measurement in measurements {
            let Some(plan) = plans.iter().find(|plan| plan.source == measurement.source()) else { continue };
            match plan.answer(measurement) {
                Ok(answer) => {
                    let run = match &answer {
                        RowPlan::Left { .. } => None,
                        RowPlan::Run(run) => Some(*places.entry(run.spec.clone()).or_insert_with(|| {
                            specs.push((run.spec.clone(), (**run).clone()));
                            specs.len() - 1
                        })),
                    };
                    rows.push(ValidationRow { measurement: measurement.clone(), answer, is_fitted: false, run });
                }
                Err(problem) => problems.0.push(problem),
            }
        }
        let runs = problems.or(specs)?.iter().map(|(spec, first)| prepare_run(spec, first)).collect::<Vec<_>>();
        let titles = plans.iter().map(|plan| (plan.source.clone(), plan.title.clone())).collect();
        let validation = Validation { rows, runs: all(runs)?, titles, interval: None };
        validation.check()?;
        Ok(validation)
    }

    /// Marks the measurements from which constants of the shipped drives were estimated, which are no predictions. Also
    /// takes the prediction interval from the calibration's left-out folds.
    pub fn with_calibration(mut self, calibration: &Calibration) -> Validation {
        self.rows.iter_mut().for_each(|row| row.is_fitted = calibration.uses(row.measurement.source()));
        self.interval = calibration.interval();
        self
    }

    /// Checks that each run produces the figures from which the values of its measurements are computed.
    fn check(&self) -> Result<(), Problems> {
        let mut problems = Problems::default();
        for row in &self.rows {
            let (RowPlan::Run(answer), Some(run)) = (&row.answer, row.run) else { continue };
            let (file, line) = &answer.place;
            problems.0.extend(answer.value.check(file, *line, &self.runs[run]).err().into_iter().flat_map(|it| it.0));
        }
        problems.0.dedup();
        problems.or(())
    }

    /// Compares each measured value with the model's. `outcomes` has the outcome of each run, in order.
    ///
    /// # Panics
    /// If the numbers of outcomes and runs differ.
    pub fn judge(&self, outcomes: &[Outcome]) -> Vec<ValidatedRow> {
        assert_eq!(outcomes.len(), self.runs.len(), "one outcome for each run");
        let judged = |row: &ValidationRow| {
            let judged = row.judged(row.run.map(|run| (&self.runs[run], &outcomes[run])));
            let end = |share: fn((f64, f64)) -> f64| self.interval.and_then(|it| Some(judged.predicted? * share(it)));
            ValidatedRow { low: end(|it| it.0), high: end(|it| it.1), ..judged }
        };
        self.rows.iter().map(judged).collect()
    }

    /// Returns a summary for each source that has measurements, in the order of the plans, and one for all sources
    /// together.
    pub fn summaries(&self, rows: &[ValidatedRow]) -> (Vec<ValidatedSource>, ValidatedSource) {
        let unanswerable: BTreeMap<&str, bool> = self
            .rows
            .iter()
            .map(|row| (row.measurement.id(), matches!(row.answer, RowPlan::Left { is_answerable: false, .. })))
            .collect();
        let of = |source: &str, title: &str, rows: &[&ValidatedRow]| {
            let lost = rows.iter().filter(|row| unanswerable.get(row.id.as_str()) == Some(&true)).count();
            summary(source, title, rows, lost)
        };
        let sources = self.titles.iter().filter_map(|(source, title)| {
            let rows: Vec<&ValidatedRow> = rows.iter().filter(|row| row.source == *source).collect();
            (!rows.is_empty()).then(|| of(source, title, &rows))
        });
        (sources.collect(), of(ALL_SOURCES, "all sources", &rows.iter().collect::<Vec<_>>()))
    }

    /// Returns the answer from the outcome of each run, in order. Its text lists the `worst` measurements with the largest
    /// errors of each source.
    ///
    /// # Panics
    /// If the numbers of outcomes and runs differ.
    pub fn answer(&self, outcomes: &[Outcome], worst: usize) -> ValidateDocument {
        let rows = self.judge(outcomes);
        let (sources, total) = self.summaries(&rows);
        ValidateDocument { sources, total, rows, worst }
    }
}

fn prepare_run(spec: &RunSpec, first: &PredictingRun) -> Result<ExperimentRun, Problems> {
    let (file, line) = &first.place;
    let placed = |problem: Problem| Problem::new(file, *line, problem.to_string(), "a run that can start");
    ExperimentRun::prepare(spec, &[]).map_err(|problems| Problems(problems.0.into_iter().map(placed).collect()))
}

fn summary(source: &str, title: &str, rows: &[&ValidatedRow], unanswerable: usize) -> ValidatedSource {
    let answered: Vec<&ValidatedRow> = rows.iter().copied().filter(|row| row.predicted.is_some()).collect();
    let (mut left_out, mut provenance) = (BTreeMap::new(), BTreeMap::new());
    for row in rows {
        row.left_out.iter().for_each(|class| *left_out.entry(class.clone()).or_default() += 1);
        row.provenance.iter().for_each(|it| *provenance.entry(*it).or_default() += 1);
    }
    let predicted = answered.iter().copied().filter(|row| row.provenance == Some(Provenance::Predicted));
    ValidatedSource {
        source: String::from(source),
        title: String::from(title),
        rows: rows.len(),
        answered: answered.len(),
        unanswerable,
        left_out,
        provenance,
        all: agreement_of(answered.iter().copied()),
        predicted: agreement_of(predicted),
    }
}

impl ValidationRow {
    /// Returns the measurement with the model's value. `simulated` has the run that predicts the measurement and its
    /// outcome.
    fn judged(&self, simulated: Option<(&ExperimentRun, &Outcome)>) -> ValidatedRow {
        let measurement = &self.measurement;
        let answered = match (&self.answer, simulated) {
            (RowPlan::Run(answer), Some((run, outcome))) => {
                let value = answer.value.read(run, outcome);
                Some((answer, value.map(|value| value * answer.factor)))
            }
            _ => None,
        };
        let predicted = answered.and_then(|(_, value)| value);
        let left_out = match &self.answer {
            RowPlan::Left { class, .. } => Some(class.clone()),
            RowPlan::Run(_) => predicted.is_none().then(|| String::from("no finite value")),
        };
        ValidatedRow {
            id: String::from(measurement.id()),
            source: String::from(measurement.source()),
            quantity: String::from(measurement.quantity()),
            unit: String::from(measurement.unit()),
            figure: unit::kind_of(measurement.unit()),
            measured: measurement.value,
            predicted,
            error_pct: predicted
                .filter(|_| measurement.value != 0.0)
                .map(|value| 100.0 * (value - measurement.value) / measurement.value),
            low: None,
            high: None,
            provenance: answered.filter(|_| predicted.is_some()).map(|(answer, _)| match answer.provenance {
                Provenance::Predicted if self.is_fitted => Provenance::Fitted,
                provenance => provenance,
            }),
            left_out,
            because: answered.map_or(String::new(), |(answer, _)| answer.because.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
