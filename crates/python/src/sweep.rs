//! Plans of many runs for Python: points by number, and results as lines of a state file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::problem::{Problems, all};
use phaselink_studies::results::{FIGURES, Figures};
use phaselink_studies::sweep::text::{self, FinishedPoint};
use phaselink_studies::sweep::{self, Files, Hash, PointProblems, PointResolver, Sweep, state};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::input;
use crate::interrupt::{Progress, interruptible, outcome, watched};

/// Plan with the files that it names.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Plan(Sweep);

/// Drive that a plan names: its name in the plan, the file name for messages, and its text.
type NamedDriveText = (String, String, String);

/// Valid points of a plan, each with its hash, and the problems of the other points.
type Checked = (Vec<(usize, String)>, Vec<String>);

#[pymethods]
impl Plan {
    /// Reads a plan; its paths count from `folder`, and `drives` need no file.
    #[new]
    fn new(
        py: Python<'_>,
        file: &str,
        text: &str,
        folder: &str,
        drives: Vec<NamedDriveText>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Plan> {
        let read = || -> Result<Sweep, Problems> {
            let mut plan = sweep::Plan::parse(file, text)?;
            if let Some(columns) = &columns {
                plan.set_columns(columns)?;
            }
            let at_hand: BTreeMap<_, _> = drives.into_iter().map(|(name, file, text)| (name, (file, text))).collect();
            let files = Files::read(&plan, Path::new(folder), at_hand, input::text, input::trace)?;
            Sweep::new(plan, files)
        };
        py.detach(read).map(Plan).map_err(|problems| input::error(py, &problems))
    }

    /// Returns the drive files of the plan: the name of each there, the file to name in messages, and the text.
    fn drives(&self) -> Vec<(&str, &str, &str)> {
        let drives = self.0.files().drives.iter();
        drives.map(|(name, (file, text))| (name.as_str(), file.as_str(), text.as_str())).collect()
    }

    /// Returns the number of points of the plan.
    fn points(&self) -> usize {
        self.0.plan().points()
    }

    /// Returns the valid points, each with its hash, and the problems of the others.
    ///
    /// # Errors
    /// The problems of any point, unless such points are to be skipped and one is left.
    fn check(&self, py: Python<'_>, skip_invalid: bool) -> PyResult<Checked> {
        let plan = self.0.plan();
        let checked: Vec<_> = interruptible(py, |_| {
            let points = (0..plan.points()).into_par_iter();
            points.map_init(|| self.0.resolver(), |resolver, point| (point, resolver.check(point))).collect()
        })?;
        let (mut points, mut refusals) = (Vec::new(), PointProblems::default());
        for (point, result) in checked {
            match result {
                Ok(hash) => points.push((point, hash.to_string())),
                Err(problems) => refusals.add(point, problems),
            }
        }
        let problems = refusals.problems(plan);
        match problems.0.is_empty() || (skip_invalid && !points.is_empty()) {
            true => Ok((points, problems.0.iter().map(ToString::to_string).collect())),
            false => Err(input::error(py, &problems)),
        }
    }

    /// Runs some points, on all processors or on this thread alone, and returns a line of the state file for each.
    ///
    /// # Errors
    /// What keeps a point from running; what a signal handler raises.
    #[pyo3(signature = (points, parallel, progress = None))]
    fn run(
        &self,
        py: Python<'_>,
        points: Vec<usize>,
        parallel: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<String>> {
        let progress = Progress::new(progress, points.len());
        let ran = match parallel {
            true => watched(py, &progress, |stopped| {
                let line = |resolver: &mut PointResolver, point: usize| {
                    let line = line(resolver, point, stopped);
                    progress.advance();
                    line
                };
                let lines = points.into_par_iter().map_init(|| self.0.resolver(), line);
                all(lines.collect::<Vec<_>>())
            })?,
            false => {
                let mut resolver = self.0.resolver();
                let mut lines = Vec::new();
                for point in points {
                    lines.push(py.detach(|| line(&mut resolver, point, &AtomicBool::new(false))));
                    py.check_signals()?;
                }
                all(lines)
            }
        };
        ran.map_err(|problems| input::error(py, &problems))
    }

    /// Returns the rows of these points, in the order given.
    ///
    /// # Errors
    /// If a line is malformed.
    fn rows(slf: Py<Self>, points: Vec<usize>, lines: Vec<String>) -> PyResult<Rows> {
        let row = |(point, line): (usize, &String)| {
            let (hash, figures) = state::parse_state_line(line.trim_end())?;
            Some((point, hash, figures))
        };
        let rows: Option<Vec<_>> = points.into_iter().zip(&lines).map(row).collect();
        rows.map(|rows| Rows { plan: slf, rows }).ok_or_else(|| PyValueError::new_err("a line that holds no run"))
    }
}

/// Runs a point to its end, and returns its line of the state file. Returns an empty line if `stopped` is set before.
fn line(resolver: &mut PointResolver, point: usize, stopped: &AtomicBool) -> Result<String, Problems> {
    if stopped.load(Ordering::Relaxed) {
        return Ok(String::new());
    }
    let hash = resolver.check(point)?;
    let outcome = outcome(resolver.simulation(point)?, stopped);
    Ok(state::line(hash, &Figures::of(&outcome)))
}

/// Rows of a sweep.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Rows {
    plan: Py<Plan>,
    rows: Vec<(usize, Hash, Figures)>,
}

#[pymethods]
impl Rows {
    /// Returns the document that `phaselink sweep --json` prints.
    fn json(&self) -> String {
        text::json(self.plan.get().0.plan(), &self.each())
    }

    fn csv(&self) -> String {
        text::csv(self.plan.get().0.plan(), &self.each())
    }

    fn table(&self) -> String {
        text::table(self.plan.get().0.plan(), &self.each())
    }

    fn heading(&self) -> String {
        text::heading(self.plan.get().0.plan(), self.rows.len())
    }

    /// Returns every row's value of a figure: float64 in the machine's byte order, NaN where it is unknown.
    fn column(&self, place: usize) -> PyResult<Vec<u8>> {
        let figure = FIGURES.get(place).ok_or_else(|| PyValueError::new_err("no such figure"))?;
        let values = self.rows.iter().map(|(_, _, figures)| figures.get(figure).unwrap_or(f64::NAN));
        Ok(values.flat_map(f64::to_ne_bytes).collect())
    }
}

impl Rows {
    fn each(&self) -> Vec<FinishedPoint<'_>> {
        self.rows
            .iter()
            .map(|(point, hash, figures)| FinishedPoint {
                point: *point,
                hash: *hash,
                figures,
                intervals: None,
                verdict: None,
            })
            .collect()
    }
}

/// Returns the reason why a state file with this first line is not read; none if it is.
#[pyfunction]
pub(crate) fn state_refusal(first_line: &str) -> Option<&'static str> {
    state::StateFileRefusal::of(first_line).map(state::StateFileRefusal::text)
}

/// Returns true if a line of a state file tells of a finished run.
#[pyfunction]
pub(crate) fn is_run(line: &str) -> bool {
    state::parse_state_line(line).is_some()
}

/// Returns name, heading and explanation of each figure, in the order in which rows keep them.
#[pyfunction]
pub(crate) fn figures() -> Vec<(&'static str, &'static str, &'static str)> {
    FIGURES.iter().map(|figure| (figure.name, figure.heading, figure.about)).collect()
}
