//! Drives for Python: reading, overrides, explanations.

use phaselink_core::drive_file::{self, Described, presets as rows};
use phaselink_core::problem::Problems;
use phaselink_studies::evidence;
use pyo3::prelude::*;
use serde_json::Value;

use crate::input;

/// Drive with the text that it was read from.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Drive(pub Described);

#[pymethods]
impl Drive {
    /// Reads the text of a drive file; overrides are those of `--set`.
    #[new]
    fn new(py: Python<'_>, file: &str, text: &str, overrides: Vec<String>) -> PyResult<Drive> {
        let read = || Described::read(file, text, &input::overrides(&overrides)?, input::text);
        py.detach(read).map(Drive).map_err(|problems: Problems| input::error(py, &problems))
    }

    /// Returns every key with its value, as JSON.
    fn json(&self) -> String {
        self.0.drive().resolved().to_string()
    }

    fn to_toml(&self) -> String {
        self.0.drive().to_toml()
    }

    fn explain(&self) -> String {
        let drive = self.0.drive();
        drive.explain_within(100, &evidence::sentence(&evidence::of_drives([drive])))
    }

    /// Returns the fitted keys and the assumed keys.
    fn doubts(&self) -> (Vec<String>, Vec<String>) {
        let drive = self.0.drive();
        let keys = |doubts: &[phaselink_core::config::UncertainConstant]| {
            doubts.iter().map(|doubt| doubt.key.clone()).collect()
        };
        (keys(&drive.fitted), keys(&drive.assumed))
    }

    fn __eq__(&self, other: &Drive) -> bool {
        self.0.drive() == other.0.drive()
    }
}

impl Drive {
    /// Returns every key of the drive with its value, as a JSON object.
    pub fn resolved(&self) -> Value {
        self.0.drive().resolved()
    }
}

/// Returns name, file and text of each drive that comes with the package.
#[pyfunction]
pub(crate) fn shipped() -> Vec<(&'static str, &'static str, &'static str)> {
    drive_file::shipped::all().map(|drive| (drive.name, drive.file, drive.text)).collect()
}

/// Returns the names of a set of drives.
#[pyfunction]
pub(crate) fn set(name: &str) -> Vec<&'static str> {
    drive_file::shipped::set(name)
}

/// Returns section, name and summary of each preset.
#[pyfunction]
pub(crate) fn presets() -> Vec<(&'static str, String, String)> {
    rows::all().into_iter().map(|preset| (preset.section, preset.name, preset.summary)).collect()
}

/// Returns the exception for a word that names no drive.
#[pyfunction]
pub(crate) fn unknown_drive(py: Python<'_>, word: &str) -> PyErr {
    input::error(py, &drive_file::shipped::unknown(word).into())
}
