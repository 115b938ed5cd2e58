//! Fit of a drive's keys to fio results: values with confidence intervals.
//!
//! The fit minimises the sum over all figures of `share * (difference / deviation)^2`. A difference is that of the
//! logarithms, so that it is relative. The `deviation` of a figure combines chance, found from simulations with
//! different seeds, and the assumed error of the model for each figure by itself. The `share` is 1; mean latency and
//! throughput of a job carry equal information (Little's law) and have half each.
//!
//! Steps follow Levenberg and Marquardt over logarithms of the keys (Marquardt, *An Algorithm for Least-Squares
//! Estimation of Nonlinear Parameters*, SIAM 11, 1963). Derivatives are differences of whole simulations with equal
//! seeds. `doubt.rs` computes the intervals. No thread is started here: the caller runs the simulations of a step, in
//! parallel if it likes.

mod document;
mod doubt;
mod key;
mod matrix;
mod observed;
mod search;
pub mod sheet;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use document::{document, drive_file};
pub use doubt::{FitRemark, Fitted};
pub use key::{FitKey, keys};
pub use observed::{FigureKind, MeasuredFigure, ObservedRun, RequestDirection, read};
pub use text::text;

use phaselink_core::drive_file::{Described, KeyOverride};
use phaselink_core::ledger::Outcome;
use phaselink_core::number::length;
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_core::random::mix;
use phaselink_core::simulation::simulate;
use phaselink_core::workload::WrittenJobFile;
use search::FitSearch;

/// Computes the principal axes of a symmetric matrix, for solving linear equations.
pub(crate) use matrix::axes as principal_axes;

/// Default largest number of requests of each simulated run in a fit.
pub const NUMBER_IOS_DEFAULT: u64 = 20_000;

/// Default of the relative error that the model is assumed to have in each figure. Assumed; no model is known to be
/// closer.
pub const MODEL_ERROR_DEFAULT: f64 = 0.005;

/// Effort of a fit: length of its simulations, assumed model error, and seed.
#[derive(Clone, Copy, Debug)]
pub struct FitEffort {
    /// Approximate largest number of requests of each simulated run.
    pub ios_max: u64,
    /// Relative error that the model is assumed to have in each figure; above zero.
    pub model_error: f64,
    /// Seed of all random numbers of the fit.
    pub seed: u64,
}

/// Input of a fit: the drive, the keys to determine, and the measured runs.
#[derive(Clone, Debug)]
pub struct FitTask {
    described: Described,
    keys: Vec<FitKey>,
    runs: Vec<ObservedRun>,
    /// Jobs of each measured run in the form in which they are simulated, and their number of requests.
    jobs: Vec<(Vec<WrittenJobFile>, u64)>,
    effort: FitEffort,
}

/// One simulation of a fit: number of the measured run, values of the keys, and seed.
#[derive(Clone, Debug)]
pub struct FitTrial {
    run: usize,
    values: Vec<f64>,
    seed: u64,
}

/// Logarithms of the figures that a trial simulated, in the order of the run's figures.
pub type TrialFigures = Result<Vec<f64>, Problems>;

/// Function of the caller that simulates all given trials, possibly in parallel, and returns the results in their
/// order.
pub type SimulateEach<'a> = &'a dyn Fn(&[FitTrial], &(dyn Fn(&FitTrial) -> TrialFigures + Sync)) -> Vec<TrialFigures>;

/// Result of a fit: values of the keys with intervals, fitted figures, and remarks.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Fitted keys with their values and confidence intervals.
    pub keys: Vec<Fitted>,
    /// Measured figures of all runs, each with the value that the fitted drive gives.
    pub figures: Vec<(MeasuredFigure, f64)>,
    /// Remarks on the fitted keys, the most important first.
    pub findings: Vec<FitRemark>,
    /// Relative difference between measured and fitted figures beyond randomness. `None` if randomness explains all of
    /// it.
    pub misfit: Option<f64>,
    /// Number of simulations that the fit has run.
    pub simulations: u64,
}

impl FitTask {
    /// Prepares a fit of `keys` to the figures of the measured runs.
    ///
    /// # Errors
    /// All reasons why the drive cannot run these jobs.
    pub fn new(
        described: Described,
        keys: Vec<FitKey>,
        runs: Vec<ObservedRun>,
        effort: FitEffort,
    ) -> Result<FitTask, Problems> {
        let jobs = all(runs.iter().map(|run| run.jobs(effort.ios_max)))?;
        let question = FitTask { described, keys, runs, jobs, effort };
        let limits = question.described.drive().limits();
        let checked = question.jobs.iter().flat_map(|(jobs, _)| jobs).map(|job| job.resolve(&limits, &BTreeMap::new()));
        all(checked)?;
        Ok(question)
    }

    /// Returns overrides that set the keys to these values, as texts for `--set`.
    pub(crate) fn settings(&self, values: &[f64]) -> Vec<String> {
        let names = self.keys.iter().map(|key| key.name.as_str());
        self.described.drive().override_texts(&names.zip(values.iter().copied()).collect::<Vec<_>>())
    }

    /// Simulates one trial and returns the logarithms of its figures.
    fn simulate_fit_trial(&self, trial: &FitTrial) -> TrialFigures {
        let texts = self.settings(&trial.values);
        let overrides = all(texts.iter().map(|text| KeyOverride::parse(text).map_err(Problems::from)))?;
        let described = self.described.with(&overrides)?;
        let limits = described.drive().limits();
        let (files, _) = &self.jobs[trial.run];
        let jobs = all(files.iter().map(|file| file.resolve(&limits, &BTreeMap::new())))?.concat();
        let outcome = simulate(described.drive(), &jobs, trial.seed)?;
        let figures = self.runs[trial.run].figures.iter();
        figures.map(|figure| simulated(figure, &outcome)).collect::<Result<_, Problem>>().map_err(Problems::from)
    }

    /// Returns one trial for each measured run with these values. Each run gets its own random numbers, as measured
    /// runs have.
    fn trials(&self, values: &[f64], seed: u64) -> impl Iterator<Item = FitTrial> {
        let seed_of = move |run: usize| mix(self.effort.seed ^ mix(seed ^ mix(length(run))));
        (0..self.runs.len()).map(move |run| FitTrial { run, values: values.to_vec(), seed: seed_of(run) })
    }

    /// Returns the measured figures (latencies and throughputs) of all runs, in order.
    fn figures(&self) -> impl Iterator<Item = &MeasuredFigure> {
        self.runs.iter().flat_map(|run| &run.figures)
    }

    /// Returns the relative error of each figure apart from randomness: the resolution of fio's percentile classes, and
    /// the model's error.
    fn non_random_errors(&self) -> Vec<f64> {
        self.figures().map(|figure| libm::hypot(figure.resolution, self.effort.model_error)).collect()
    }
}

/// Fits the keys to the measured figures. `each` runs the simulations.
///
/// # Errors
/// Problems that prevent the drive from running at the start values, or near the fitted ones.
pub fn fit(question: &FitTask, each: SimulateEach) -> Result<Fit, Problems> {
    let search = FitSearch::new(question, each);
    let solution = search.solution()?;
    Ok(doubt::judge(question, &solution, search.simulations()))
}

/// Returns the logarithm of a figure in the outcome of a simulation. Fails if no request counted for it.
fn simulated(figure: &MeasuredFigure, outcome: &Outcome) -> Result<f64, Problem> {
    let value = outcome.jobs.get(figure.job).map_or(0.0, |job| {
        let direction = match figure.direction {
            RequestDirection::Read => &job.read,
            RequestDirection::Write => &job.write,
        };
        match figure.kind {
            FigureKind::Mean => direction.total.mean_ns(),
            FigureKind::P99 => direction.completion.percentile(99.0).as_ns(),
            FigureKind::Iops => direction.iops(),
        }
    });
    if value > 0.0 {
        return Ok(libm::log(value));
    }
    let found = format!("a simulation of job {} has no request for the figure {}", figure.name, figure.heading());
    Err(Problem::new("command line", None, found, "more requests a run, by --number-ios"))
}
