//! Measurements of real machines beside the model's values, for Python.

use std::result::Result;
use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::ledger::Outcome;
use phaselink_core::problem::Problems;
use phaselink_studies::report::read_question;
use phaselink_studies::reproduce::experiment::ExperimentRun;
use phaselink_studies::validate::{MeasurementSet, NamedText, PACKED_MEASUREMENTS, ValidateQuestion};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::answers::{Renderings, rendered};
use crate::input;
use crate::interrupt::{Progress, outcome, watched};

/// Texts of a folder of measurements: name of the folder, plans, and parameters and folds of the cross-validation.
type FolderTexts = (String, Vec<NamedText>, Option<NamedText>);

/// Returns the table of measurements that comes with the package, packed by gzip.
#[pyfunction]
pub(crate) fn packed_measurements() -> &'static [u8] {
    PACKED_MEASUREMENTS
}

/// Answers a question of `validate` for a table of measurements: with the plans of a folder, or with those that come with
/// the package.
///
/// # Errors
/// Everything in the texts and the question that makes no sense; what a signal handler raises.
#[pyfunction]
#[pyo3(signature = (table, folder, question, progress))]
pub(crate) fn validate(
    py: Python<'_>,
    table: NamedText,
    folder: Option<FolderTexts>,
    question: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Renderings> {
    let ready = || -> Result<_, Problems> {
        let question: ValidateQuestion = read_question(question)?;
        let set = match &folder {
            Some((name, plans, folds)) => MeasurementSet::parse(name, &table, plans, folds.as_ref())?,
            None => MeasurementSet::shipped(&table.1)?,
        };
        Ok((question.study(&set)?, question.worst))
    };
    let (validation, worst) = py.detach(ready).map_err(|problems| input::error(py, &problems))?;
    let progress = Progress::new(progress, validation.runs.len());
    let rendering = watched(py, &progress, |stopped| {
        let outcomes = outcomes(&validation.runs, stopped, &progress)?;
        Some(rendered(&validation.answer(&outcomes, worst)))
    })?;
    // Runs are left out only after an exception, which `watched` has returned.
    Ok(rendering.unwrap_or_default())
}

/// Runs all experiments in parallel, and returns their outcomes in order. None if `stopped` is set.
fn outcomes(runs: &[ExperimentRun], stopped: &AtomicBool, progress: &Progress) -> Option<Vec<Outcome>> {
    let run = |run: &ExperimentRun| {
        let outcome =
            (!stopped.load(Ordering::Relaxed)).then(|| run.outcome(|simulation| outcome(simulation, stopped)));
        progress.advance();
        outcome.filter(|_| !stopped.load(Ordering::Relaxed))
    };
    runs.par_iter().map(run).collect()
}
