//! Latencies of a drive as tables for other simulators, for Python.

use std::sync::atomic::Ordering;

use phaselink_core::problem::Problems;
use phaselink_studies::export::ExportQuestion;
use phaselink_studies::report::read_question;
use pyo3::prelude::*;

use crate::answers::{Renderings, rendered};
use crate::drive::Drive;
use crate::input;
use crate::interrupt::{Progress, watched};

/// Name and text of each file that the program writes.
type ExportedFiles = Vec<(&'static str, String)>;

/// Simulates a drive at all conditions of a question, on all processors.
///
/// # Errors
/// Everything in the question that the drive cannot run; what a signal handler raises.
#[pyfunction]
pub(crate) fn export(
    py: Python<'_>,
    drive: &Drive,
    question: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Renderings, ExportedFiles)> {
    let ready = || -> Result<_, Problems> { read_question::<ExportQuestion>(question)?.study(drive.0.drive()) };
    let study = py.detach(ready).map_err(|problems| input::error(py, &problems))?;
    let progress = Progress::new(progress, study.simulations());
    let answered = watched(py, &progress, |stopped| {
        let each = |count: usize, run: &(dyn Fn(usize) + Sync)| progress.each(count, run);
        study.answer(&each, &|| stopped.load(Ordering::Relaxed))
    })?;
    let answer = answered.map_err(|problems| input::error(py, &problems))?;
    // Runs end early only after an exception, which `watched` has returned.
    Ok(answer.map(|answer| (rendered(&answer), answer.files().into())).unwrap_or_default())
}
