//! Experiments of published papers with judged results, for Python.

use phaselink_core::problem::{Problems, all};
use phaselink_studies::report::headed;
use phaselink_studies::reproduce as judged;
use phaselink_studies::reproduce::experiment::Experiments;
use phaselink_studies::reproduce::papers::{self as shipped, Paper};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::input;
use crate::interrupt::{interruptible, outcome};

/// Returns the names of all papers.
#[pyfunction]
pub(crate) fn papers() -> Vec<&'static str> {
    shipped::reproduction_papers().map(|paper| paper.name).collect()
}

/// Runs the experiments of some papers, on all processors, and returns the document that `phaselink reproduce --json`
/// prints.
///
/// # Errors
/// Names that no paper has; what a signal handler raises.
#[pyfunction]
pub(crate) fn reproduce(py: Python<'_>, papers: Vec<String>) -> PyResult<String> {
    let judged = interruptible(py, |stopped| -> Result<String, Problems> {
        let found = all(papers.iter().map(|name| shipped::find(name)))?;
        let prepared = all(found.iter().map(Paper::load).map(|paper| paper.and_then(Experiments::prepare)))?;
        let mut rows = Vec::new();
        for paper in &prepared {
            let outcomes: Vec<_> =
                paper.runs.par_iter().map(|run| run.outcome(|simulation| outcome(simulation, stopped))).collect();
            rows.extend(paper.judge(&outcomes));
        }
        Ok(headed("reproduce", judged::document(&rows)).to_string())
    })?;
    judged.map_err(|problems| input::error(py, &problems))
}
