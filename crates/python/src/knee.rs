//! Latency against load, for Python.

use std::sync::atomic::Ordering;

use phaselink_core::problem::Problems;
use phaselink_studies::knee::KneeQuestion;
use phaselink_studies::report::read_question;
use pyo3::prelude::*;

use crate::answers::{Renderings, rendered};
use crate::drive::Drive;
use crate::input::{self, Jobs};
use crate::interrupt::{Progress, watched};

/// Runs a job at rising loads on a drive, on all processors.
///
/// # Errors
/// Everything that keeps the job from the drive, or its load from being set; what a signal handler raises.
#[pyfunction]
pub(crate) fn knee(
    py: Python<'_>,
    drive: &Drive,
    jobs: &Jobs,
    question: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Renderings> {
    let ready = || -> Result<_, Problems> {
        read_question::<KneeQuestion>(question)?.study(drive.0.drive(), jobs.written(&[])?)
    };
    let study = py.detach(ready).map_err(|problems| input::error(py, &problems))?;
    let progress = Progress::new(progress, study.simulations());
    let answered = watched(py, &progress, |stopped| {
        let each = |count: usize, run: &(dyn Fn(usize) + Sync)| progress.each(count, run);
        study.answer(&each, &|| stopped.load(Ordering::Relaxed))
    })?;
    let answer = answered.map_err(|problems| input::error(py, &problems))?;
    // Runs end early only after an exception, which `watched` has returned.
    Ok(answer.as_ref().map(rendered).unwrap_or_default())
}
