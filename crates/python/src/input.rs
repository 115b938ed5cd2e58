//! Inputs of Python calls: overrides, jobs and the files that they name. All problems of an input are reported
//! together.

use std::fs;

use phaselink_core::drive_file::{self, KeyOverride};
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_core::workload::trace::{self, File, NamedJobTrace};
use phaselink_core::workload::{Trace, UnresolvedJobs, add_default_options, fio, has_end};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    phaselink,
    InputError,
    PyValueError,
    "What is wrong with an input, all of it at once.\n\n\
     The text has a line for each problem, as the program prints them: place, what was found, what is allowed.\n\
     `problems` is a list of (file, line or None, found, allowed)."
);

/// Returns the names of the sections of a drive.
#[pyfunction]
pub(crate) fn sections() -> Vec<String> {
    let schema = drive_file::schema();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.filter(|(_, schema)| schema["type"] == "object").map(|(name, _)| name.clone()).collect()
}

/// Returns the Python exception for the problems of an input.
pub(crate) fn error(py: Python<'_>, problems: &Problems) -> PyErr {
    let problems = problems.without_flags("arguments");
    let error = InputError::new_err(problems.to_string());
    let each = problems.0.iter().map(|it| (&it.file, it.line, &it.found, &it.allowed)).collect::<Vec<_>>();
    match error.value(py).setattr("problems", each) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// Parses overrides in the syntax of `--set`.
///
/// # Errors
///
/// If an override is no key with a value; all problems are listed.
pub(crate) fn overrides(texts: &[String]) -> Result<Vec<KeyOverride>, Problems> {
    all(texts.iter().map(|text| KeyOverride::parse(text).map_err(Problems::from)))
}

/// Reads the text of a file.
///
/// # Errors
/// If it cannot be read, or is no text.
pub(crate) fn text(path: &str) -> Result<String, Problem> {
    fs::read_to_string(path).map_err(|error| Problem::new(path, None, format!("cannot be read: {error}"), ""))
}

/// Reads a block trace.
///
/// # Errors
///
/// If the trace cannot be read or is invalid; all problems are listed.
pub(crate) fn trace(wanted: &NamedJobTrace) -> Result<Trace, Problems> {
    let path = &wanted.path;
    let bytes = fs::read(path).map_err(|error| Problem::new(path, None, format!("cannot be read: {error}"), ""))?;
    trace::read(&[File::in_memory(path, &bytes)], &wanted.selection)
}

/// Options of a job, as pairs of name and value.
pub(crate) type Options = Vec<(String, String)>;

/// Jobs before a drive is known: options of one job, or fio job files.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Jobs {
    /// Options of the one job; empty if there are files.
    pub options: Options,
    /// Jobs of fio job files; none if options describe the one job.
    pub files: Option<UnresolvedJobs>,
}

#[pymethods]
impl Jobs {
    /// Makes jobs of the options of one job, or of the texts of job files with their names.
    #[new]
    fn new(py: Python<'_>, options: Options, files: Vec<(String, String)>) -> PyResult<Jobs> {
        let parse = || {
            let parsed = all(files.iter().map(|(name, text)| fio::parse(name, text)))?;
            UnresolvedJobs::new(parsed, trace)
        };
        let written = (!files.is_empty()).then(parse).transpose().map_err(|problems| error(py, &problems))?;
        Ok(Jobs { options, files: written })
    }
}

impl Jobs {
    /// Returns the options as pairs of name and value.
    pub fn given(&self) -> Vec<(&str, &str)> {
        self.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Returns the jobs: those of the files, or one of the options and `more`, with defaults for omitted options.
    ///
    /// # Errors
    ///
    /// If options or traces are invalid; all problems are listed.
    pub fn written(&self, more: &[(&str, &str)]) -> Result<UnresolvedJobs, Problems> {
        if let Some(written) = &self.files {
            return Ok(written.clone());
        }
        let given = [self.given().as_slice(), more].concat();
        UnresolvedJobs::new([fio::job_from_flags(&add_default_options(&given))?], trace)
    }

    /// Returns the jobs, ending after `ios` requests of each thread unless another option ends them.
    ///
    /// # Errors
    ///
    /// Errors of [`Jobs::written`].
    pub fn ending_after(&self, ios: u64) -> Result<UnresolvedJobs, Problems> {
        match has_end(&self.given()) {
            true => self.written(&[]),
            false => self.written(&[("number_ios", &ios.to_string())]),
        }
    }
}
