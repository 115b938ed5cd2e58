//! Runs of one drive under one workload, for Python.

use std::sync::OnceLock;

use phaselink_core::drive;
use phaselink_core::ledger::{Latency, Outcome};
use phaselink_core::problem::Problems;
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;
use phaselink_core::workload::{Job, UnresolvedJobs};
use phaselink_studies::compare::{RunConclusionText, conclude_run};
use phaselink_studies::precision::{self, Measurement, PrecisionGoal};
use phaselink_studies::report;
use phaselink_studies::results::documents::value;
use phaselink_studies::results::{self, Figures};
use phaselink_studies::uncertainty::{RunFigureIntervals, of_run};
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::Value;

use crate::doubt;
use crate::drive::Drive;
use crate::input::{self, Jobs};
use crate::interrupt::{EVENTS, Progress, interruptible};
use crate::requests::Requests;

/// Number of steps of a measurement between two checks for signals.
const LOOKS: usize = 64;

/// Result of a run.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Result {
    drive: Py<Drive>,
    outcome: Outcome,
    figures: OnceLock<Figures>,
    /// Conclusion of the run: findings, utilisation of resources, and evidence.
    concluded: RunConclusionText,
    /// Measurement of the figures whose precision may have ended the run.
    measured: Option<Measurement>,
    /// Prediction intervals of the figures from uncertain constants, if they were requested.
    doubted: Option<RunFigureIntervals>,
    /// Single requests of the run, if they were to be kept.
    requests: Option<Requests>,
}

/// Options of a run, as Python passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RunQuestion {
    seed: u64,
    /// True if real bytes move, and every read is checked.
    verify: bool,
    /// Goal of precision at which the run may end, such as `1%` or `p99.99=10%`.
    precision: Option<String>,
    /// Number of draws of the uncertain constants.
    draws: Option<usize>,
    /// Number of single requests to keep.
    requests: Option<usize>,
}

/// Reads a goal of precision.
///
/// # Errors
/// A text that is none.
pub(crate) fn goal(text: Option<&str>) -> PyResult<Option<PrecisionGoal>> {
    let wrong =
        |allowed| input::InputError::new_err(format!("precision is {}; allowed: {allowed}", text.unwrap_or_default()));
    text.map(PrecisionGoal::parse).transpose().map_err(wrong)
}

/// Simulates jobs on a drive.
///
/// # Errors
/// Everything that keeps the jobs from the drive; what a signal handler raises; a read that returned what it may not.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    drive: Py<Drive>,
    jobs: &Jobs,
    question: RunQuestion,
    progress: Option<Py<PyAny>>,
) -> PyResult<Result> {
    let RunQuestion { seed, verify, precision, draws, requests } = question;
    let precision = goal(precision.as_deref())?;
    let described = &drive.get().0;
    let ready = || -> std::result::Result<(UnresolvedJobs, Vec<Job>, Simulation), Problems> {
        let written = match precision {
            Some(_) => jobs.ending_after(precision::IOS_MAX)?,
            None => jobs.written(&[])?,
        };
        let drive = described.drive();
        let jobs = written.on(&drive.limits())?;
        let data = if verify { Simulation::with_data } else { Simulation::new };
        let simulation = data(drive, &jobs, seed)?;
        Ok((written, jobs, simulation))
    };
    let (written, jobs, mut simulation) = py.detach(ready).map_err(|problems| input::error(py, &problems))?;
    if let Some(limit) = requests {
        simulation.keep_requests(limit);
    }
    let measured = finish(py, &mut simulation, precision, &Progress::new(progress, 1))?;
    if let [first, ..] = simulation.data_problems() {
        return Err(PyRuntimeError::new_err(first.clone()));
    }
    let mut outcome = py.detach(|| simulation.outcome());
    outcome.finished |= measured.as_ref().is_some_and(Measurement::is_known);
    let doubted = match draws {
        None => None,
        Some(draws) => Some(interruptible(py, |stopped| {
            let drawn = |drive: &drive::Drive| {
                let simulation = Simulation::new(drive, &written.on(&drive.limits()).ok()?, seed).ok()?;
                Some(doubt::figures(simulation, precision, stopped))
            };
            doubt::prediction_intervals(described, draws, of_run(&Figures::of(&outcome)), drawn)
        })?),
    };
    let requests = simulation.take_requests().map(|kept| Requests::of(kept, &outcome));
    let concluded = py.detach(|| conclude_run(described.drive(), &jobs, outcome.clone()));
    Ok(Result { drive, outcome, figures: OnceLock::new(), concluded, measured, doubted, requests })
}

/// Runs a simulation to its end, or to the requested precision, with checks for signals. Returns the measurement and
/// the precision if one was requested.
fn finish(
    py: Python<'_>,
    simulation: &mut Simulation,
    precision: Option<PrecisionGoal>,
    progress: &Progress,
) -> PyResult<Option<Measurement>> {
    let Some(goal) = precision else {
        while py.detach(|| simulation.step(EVENTS)) {
            py.check_signals()?;
            progress.tell(py, simulation.progress().unwrap_or(0.0))?;
        }
        progress.tell(py, 1.0)?;
        return Ok(None);
    };
    let mut measurement = Measurement::until_precision(goal);
    while py.detach(|| (0..LOOKS).all(|_| measurement.advance(simulation))) {
        py.check_signals()?;
        progress.tell(py, simulation.progress().unwrap_or(0.0))?;
    }
    progress.tell(py, 1.0)?;
    Ok(Some(measurement))
}

#[pymethods]
impl Result {
    /// Returns the document that `phaselink run --json` prints.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| self.document().to_string())
    }

    /// Returns the single requests that were kept, if any were to be.
    fn requests(&self) -> Option<Requests> {
        self.requests.clone()
    }

    /// Returns a figure of all requests together; the names are those of a sweep's columns.
    fn figure(&self, name: &str) -> PyResult<Option<f64>> {
        let figure = results::find(name).ok_or_else(|| PyKeyError::new_err(String::from(name)))?;
        Ok(self.figures.get_or_init(|| Figures::of(&self.outcome)).get(figure))
    }

    #[getter]
    fn finished(&self) -> bool {
        self.outcome.finished
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.outcome.seed
    }

    #[getter]
    fn drive(&self, py: Python<'_>) -> Py<Drive> {
        self.drive.clone_ref(py)
    }

    #[getter]
    fn elapsed_ns(&self) -> f64 {
        self.outcome.elapsed.as_ns()
    }

    #[getter]
    fn events(&self) -> u64 {
        self.outcome.events
    }

    /// Returns sentences that say what was found.
    fn findings(&self) -> Vec<&str> {
        self.concluded.findings.iter().map(|finding| finding.sentence.as_str()).collect()
    }

    /// Returns the mean time in ns of each job, direction and stage; the stages of a direction sum to its mean latency.
    fn stages(&self) -> Vec<(&str, &'static str, &str, f64)> {
        let mut stages = Vec::new();
        for job in &self.outcome.jobs {
            for (direction, figures) in job.directions() {
                let ios = figures.ios.max(1) as f64;
                let named = figures.stages.named(&self.outcome.stack_stages);
                stages.extend(named.map(|(stage, span)| (job.name.as_str(), direction, stage, span.as_ns() / ios)));
            }
        }
        stages
    }

    /// Returns the distribution of latencies: the longest of each class in ns, and its number of requests; float64 and
    /// uint64 in the machine's byte order. `kind` is total, submission or completion, `direction` read, write or
    /// nothing for both.
    fn histogram(&self, kind: &str, direction: Option<&str>) -> PyResult<(Vec<u8>, Vec<u8>)> {
        let latency = self.latency(kind, direction)?;
        let (spans, counts): (Vec<_>, Vec<_>) = latency.classes().unzip();
        let ns = spans.into_iter().flat_map(|span| span.as_ns().to_ne_bytes()).collect();
        Ok((ns, counts.into_iter().flat_map(u64::to_ne_bytes).collect()))
    }

    /// Returns the latency in ns that this percentage of requests does not exceed; none if no request lies beyond.
    fn percentile(&self, percent: f64, kind: &str, direction: Option<&str>) -> PyResult<Option<f64>> {
        Ok(self.latency(kind, direction)?.supported_percentile(percent).map(Span::as_ns))
    }

    /// Returns the tables that `phaselink run` prints.
    fn summary(&self) -> String {
        report::summary(&self.outcome)
    }

    /// Returns the page that `phaselink run --report` writes.
    fn html(&self) -> String {
        report::html(&report::html::Run::new(&self.outcome, &self.drive.get().resolved()))
    }
}

impl Result {
    /// Returns the latencies of one kind (total, submission or completion) of reads, writes or both, over all jobs.
    fn latency(&self, kind: &str, direction: Option<&str>) -> PyResult<Latency> {
        if !matches!(direction, None | Some("read" | "write")) {
            return Err(PyValueError::new_err("a direction is \"read\", \"write\" or None"));
        }
        let mut latency = Latency::default();
        for (name, figures) in self.outcome.jobs.iter().flat_map(|job| job.directions()) {
            let of_kind = match kind {
                "total" => &figures.total,
                "submission" => &figures.submission,
                "completion" => &figures.completion,
                _ => return Err(PyValueError::new_err("a kind is \"total\", \"submission\" or \"completion\"")),
            };
            if direction.is_none_or(|wanted| wanted == name) {
                latency.merge(of_kind);
            }
        }
        Ok(latency)
    }

    fn document(&self) -> Value {
        let mut document = report::headed("run", report::json(&self.outcome, self.drive.get().resolved()));
        self.concluded.add_to(&mut document);
        if let Some(measurement) = &self.measured {
            document["phaselink"]["precision"] = value(&precision::document(measurement));
        }
        if let Some(doubted) = &self.doubted {
            document["phaselink"]["intervals"] = value(&doubted.document());
        }
        document
    }
}
