//! Question of `knee`: a drive, a job, and the loads at which the job runs.

use serde::Deserialize;

use super::answer::{KneeAnswer, LoadPoint};
use crate::report::outside;
use crate::results::units::parse_count;
use crate::simulations::{SimulateEach, simulated};
use phaselink_core::drive::Drive;
use phaselink_core::engine::simulation::Simulation;
use phaselink_core::ledger::Outcome;
use phaselink_core::number::real_length;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::{Job, UnresolvedJobs};

/// Loads of a question that gives none, as shares of the throughput at the job's queue depth.
const SHARES: [f64; 12] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0];
/// Number of loads of a question that gives the lowest and the highest one.
const POINTS: usize = 12;
/// Largest number of loads of a question.
const POINTS_MAX: usize = 100;

/// Question of `knee`: how does the latency of a job grow with its load, and up to which load does its tail stay short?
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KneeQuestion {
    /// Loads in requests a second, as in `10k,50k,100k`, or the lowest and the highest of twelve, as in `10k:200k`. Empty
    /// for 5 % to 100 % of the throughput at the job's queue depth.
    pub rates: String,
    /// Seed of the runs' random numbers.
    pub seed: u64,
}

impl Default for KneeQuestion {
    fn default() -> KneeQuestion {
        KneeQuestion { rates: String::new(), seed: 1 }
    }
}

/// Study of one question: the drive, the job as written, and the loads, if the question gives them.
#[derive(Clone, Debug)]
pub struct KneeStudy {
    drive: Drive,
    written: UnresolvedJobs,
    job: Job,
    rates: Vec<f64>,
    seed: u64,
}

impl KneeQuestion {
    /// Returns the study of this question for a drive and a job.
    ///
    /// # Errors
    /// Rates that are none, and jobs that the drive cannot run or whose load cannot be set.
    pub fn study(&self, drive: &Drive, written: UnresolvedJobs) -> Result<KneeStudy, Problems> {
        let rates = if self.rates.trim().is_empty() { Vec::new() } else { parse_offered_rates(&self.rates)? };
        let jobs = written.on(&drive.limits())?;
        // Try any load, to find out whether the job's load can be set at all.
        written.clone().offering(1000.0).on(&drive.limits())?;
        Ok(KneeStudy { drive: drive.clone(), written, job: jobs[0].clone(), rates, seed: self.seed })
    }
}

/// Parses loads in requests a second: a list such as `10k,50k`, or the lowest and the highest one, as in `10k:200k`.
///
/// # Errors
/// A text that is neither.
pub fn parse_offered_rates(text: &str) -> Result<Vec<f64>, Problem> {
    let wrong = || {
        let allowed =
            "requests a second in rising order, as in 10k,50k,100k, or the lowest and the highest, as in 10k:200k";
        Problem::new("command line", None, format!("--rates {text}"), allowed)
    };
    let rate = |text: &str| parse_count(text).filter(|rate| *rate >= 1.0);
    let rates: Option<Vec<f64>> = match text.split_once(':') {
        None => text.split(',').map(rate).collect(),
        Some((low, high)) => rate(low).zip(rate(high)).map(|(low, high)| {
            (0..POINTS).map(|place| low + (high - low) * real_length(place) / real_length(POINTS - 1)).collect()
        }),
    };
    let rates = rates.ok_or_else(wrong)?;
    match outside("--rates, number of loads", rates.len(), 2..=POINTS_MAX) {
        Some(problem) => Err(problem),
        None if rates.windows(2).any(|pair| pair[0] >= pair[1]) => Err(wrong()),
        None => Ok(rates),
    }
}

impl KneeStudy {
    /// Returns the largest number of simulations of the study.
    pub fn simulations(&self) -> usize {
        if self.rates.is_empty() { SHARES.len() + 1 } else { self.rates.len() }
    }

    /// Runs the job at each load, with `each`, and returns the answer. `None` if the caller left out some of the runs.
    ///
    /// # Errors
    /// What keeps the job from the drive.
    pub fn answer(&self, each: SimulateEach, stop: &(dyn Fn() -> bool + Sync)) -> Result<Option<KneeAnswer>, Problems> {
        let (mut rates, mut saturated_iops) = (self.rates.clone(), None);
        if rates.is_empty() {
            let jobs = self.written.on(&self.drive.limits())?;
            let Some(outcomes) = simulated(each, 1, |_| self.run(&jobs, stop)) else { return Ok(None) };
            let Some(outcome) = outcomes.into_iter().next().transpose()?.flatten() else { return Ok(None) };
            saturated_iops = Some(outcome.iops());
            rates = SHARES.map(|share| share * outcome.iops()).into();
        }
        let run = |place: usize| self.run(&self.written.clone().offering(rates[place]).on(&self.drive.limits())?, stop);
        let Some(outcomes) = simulated(each, rates.len(), run) else { return Ok(None) };
        let outcomes: Option<Vec<Outcome>> = outcomes.into_iter().collect::<Result<Option<_>, Problems>>()?;
        let Some(outcomes) = outcomes else { return Ok(None) };
        let points = rates.iter().zip(&outcomes).map(|(offered, outcome)| LoadPoint::new(*offered, outcome));
        Ok(Some(KneeAnswer::new(&self.drive, &self.job, self.seed, saturated_iops, points.collect())))
    }

    /// Runs jobs to their end; `None` if `stop` says so before.
    fn run(&self, jobs: &[Job], stop: &(dyn Fn() -> bool + Sync)) -> Result<Option<Outcome>, Problems> {
        let mut simulation = Simulation::new(&self.drive, jobs, self.seed)?;
        while simulation.step(1 << 16) {
            if stop() {
                return Ok(None);
            }
        }
        Ok(Some(simulation.outcome()))
    }
}
