//! Closed forms.

use phaselink_core::predict as forms;
use phaselink_core::problem::Problems;
use phaselink_core::report::headed;
use pyo3::prelude::*;

use crate::drive::Drive;
use crate::input::{self, Jobs};

/// The object that `phaselink predict --json` prints of a drive, and the text for people.
///
/// # Errors
/// Everything that keeps the jobs from the drive.
#[pyfunction]
pub fn predict(py: Python<'_>, drive: &Drive, jobs: &Jobs) -> PyResult<(String, String)> {
    let predicted = || -> Result<_, Problems> {
        let described = drive.0.drive();
        let prediction = forms::predict(described, &jobs.written(&[])?.on(&described.limits())?);
        let document = headed("predict", forms::json(&prediction, drive.resolved()));
        Ok((document.to_string(), forms::text(&prediction)))
    };
    py.detach(predicted).map_err(|problems| input::error(py, &problems))
}
