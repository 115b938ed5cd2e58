//! Predictions by closed forms, for Python.

use phaselink_core::problem::Problems;
use phaselink_studies::predict as forms;
use phaselink_studies::report::headed;
use pyo3::prelude::*;

use crate::doubt;
use crate::drive::Drive;
use crate::input::{self, Jobs};

/// Returns the document that `phaselink predict --json` prints of a drive, and the text for people.
///
/// # Errors
/// Everything that keeps the jobs from the drive.
#[pyfunction]
#[pyo3(signature = (drive, jobs, draws))]
pub(crate) fn predict(py: Python<'_>, drive: &Drive, jobs: &Jobs, draws: Option<usize>) -> PyResult<(String, String)> {
    let predicted = || -> Result<_, Problems> {
        let (described, written) = (drive.0.drive(), jobs.written(&[])?);
        let prediction = forms::predict(described, &written.on(&described.limits())?);
        let mut document = forms::json(&prediction, drive.resolved());
        if let Some(draws) = draws {
            let drawn = |drive: &phaselink_core::drive::Drive| {
                Some(forms::predict(drive, &written.on(&drive.limits()).ok()?).figures())
            };
            document.intervals =
                Some(doubt::prediction_intervals(&drive.0, draws, prediction.figures(), drawn).document());
        }
        let document = headed("predict", forms::document([document]));
        Ok((document.to_string(), forms::text(&prediction)))
    };
    py.detach(predicted).map_err(|problems| input::error(py, &problems))
}
