//! The values of a drive's keys from what fio has measured, with their doubt.
//!
//! Least squares: the sum over all figures of `share * (difference / deviation)^2` is made least, where a difference is that
//! of the logarithms, so that it is relative. A figure's `deviation` is what chance leaves of it, found from simulations
//! that differ in their seed, and by which share the model itself may be off, by itself for each figure. Its `share` is one; mean and throughput
//! of a job say the same (Little's law) and have half each.
//!
//! Steps are those of Levenberg and Marquardt over logarithms of the keys (Marquardt, *An Algorithm for Least-Squares
//! Estimation of Nonlinear Parameters*, SIAM 11, 1963). Derivatives are differences of whole simulations with the same
//! seeds. `doubt.rs` says how sure the values are. No thread is started here: the caller runs the simulations of a step,
//! side by side if it likes.

mod document;
mod doubt;
mod key;
mod matrix;
mod observed;
mod search;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use document::{document, drive_file};
pub use doubt::{FitFinding, Fitted};
pub use key::{Key, keys};
pub use observed::{Direction, Figure, Kind, Run, read};
pub use text::text;

use crate::drive_file::{Described, Override};
use crate::ledger::Outcome;
use crate::problem::{Problem, Problems, all};
use crate::random::mix;
use crate::simulation::simulate;
use crate::workload::JobFile;
use search::Search;

/// Requests of a simulated run, unless more or fewer are asked for.
pub const NUMBER_IOS_DEFAULT: u64 = 20_000;

/// By which share of each figure the model is taken to be off, unless more or less is asked for: assumed; nobody's is closer.
pub const MODEL_ERROR_DEFAULT: f64 = 0.005;

/// How values are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// A simulated run has at most about so many requests.
    pub ios_max: u64,
    /// By which share of each figure the model is taken to be off; above zero.
    pub model_error: f64,
    pub seed: u64,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    described: Described,
    keys: Vec<Key>,
    runs: Vec<Run>,
    /// The jobs of each run as they are simulated, and their requests.
    jobs: Vec<(Vec<JobFile>, u64)>,
    effort: Effort,
}

/// One simulation: of a run, with values for the keys.
#[derive(Clone, Debug)]
pub struct Trial {
    run: usize,
    values: Vec<f64>,
    seed: u64,
}

/// Logarithms of the figures of a run, in its order.
pub type Answer = Result<Vec<f64>, Problems>;

/// Asks for each trial, and gives the answers in the same order.
pub type Each<'a> = &'a dyn Fn(&[Trial], &(dyn Fn(&Trial) -> Answer + Sync)) -> Vec<Answer>;

/// What is found.
#[derive(Clone, Debug)]
pub struct Fit {
    pub keys: Vec<Fitted>,
    /// The figures of all runs, with what the fitted drive gives.
    pub figures: Vec<(Figure, f64)>,
    /// What is to be said of the keys besides, in the order of importance.
    pub findings: Vec<FitFinding>,
    /// By how much figures differ beyond what chance explains, as a share; none if that much is not seen.
    pub misfit: Option<f64>,
    pub simulations: u64,
}

impl Question {
    /// Ask for values of `keys` with which the drive gives the figures of the runs.
    ///
    /// # Errors
    /// Everything that keeps the drive from these jobs.
    pub fn new(described: Described, keys: Vec<Key>, runs: Vec<Run>, effort: Effort) -> Result<Question, Problems> {
        let jobs = all(runs.iter().map(|run| run.jobs(effort.ios_max)))?;
        let question = Question { described, keys, runs, jobs, effort };
        let limits = question.described.drive().limits();
        let checked = question.jobs.iter().flat_map(|(jobs, _)| jobs).map(|job| job.resolve(&limits, &BTreeMap::new()));
        all(checked)?;
        Ok(question)
    }

    /// The fitted drive's keys as they would be typed with `--set`.
    pub(crate) fn settings(&self, values: &[f64]) -> Vec<String> {
        let names = self.keys.iter().map(|key| key.name.as_str());
        self.described.drive().moved_texts(&names.zip(values.iter().copied()).collect::<Vec<_>>())
    }

    fn answer(&self, trial: &Trial) -> Answer {
        let texts = self.settings(&trial.values);
        let overrides = all(texts.iter().map(|text| Override::parse(text).map_err(Problems::from)))?;
        let described = self.described.with(&overrides)?;
        let limits = described.drive().limits();
        let (files, _) = &self.jobs[trial.run];
        let jobs = all(files.iter().map(|file| file.resolve(&limits, &BTreeMap::new())))?.concat();
        let outcome = simulate(described.drive(), &jobs, trial.seed)?;
        let figures = self.runs[trial.run].figures.iter();
        figures.map(|figure| simulated(figure, &outcome)).collect::<Result<_, Problem>>().map_err(Problems::from)
    }

    /// The trials of all runs with these values. Runs have chance of their own, as measured ones have.
    fn trials(&self, values: &[f64], seed: u64) -> impl Iterator<Item = Trial> {
        let seed_of = move |run: usize| mix(self.effort.seed ^ mix(seed ^ mix(run as u64)));
        (0..self.runs.len()).map(move |run| Trial { run, values: values.to_vec(), seed: seed_of(run) })
    }

    fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.runs.iter().flat_map(|run| &run.figures)
    }

    /// By which share each figure is off, by itself: the width of the class in which fio keeps it, and the model.
    fn alone(&self) -> Vec<f64> {
        self.figures().map(|figure| libm::hypot(figure.resolution, self.effort.model_error)).collect()
    }
}

/// Answer the question; `each` runs the simulations.
///
/// # Errors
/// What keeps the drive from running where the keys start, or near where they end.
pub fn fit(question: &Question, each: Each) -> Result<Fit, Problems> {
    let search = Search::new(question, each);
    let solution = search.solution()?;
    Ok(doubt::judge(question, &solution, search.simulations()))
}

/// The logarithm of a figure in an outcome.
fn simulated(figure: &Figure, outcome: &Outcome) -> Result<f64, Problem> {
    let value = outcome.jobs.get(figure.job).map_or(0.0, |job| {
        let direction = match figure.direction {
            Direction::Read => &job.read,
            Direction::Write => &job.write,
        };
        match figure.kind {
            Kind::Mean => direction.total.mean_ns(),
            Kind::P99 => direction.completion.percentile(99.0).as_ns(),
            Kind::Iops => direction.iops(),
        }
    });
    if value > 0.0 {
        return Ok(libm::log(value));
    }
    let found = format!("no such request in a simulation of job {}, for {}", figure.name, figure.heading());
    Err(Problem::new("command line", None, found, "more requests a run, by --number-ios"))
}
