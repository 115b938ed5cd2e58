//! Question of `export`: a drive, and the conditions at which its latencies are simulated.

use std::collections::BTreeSet;

use phaselink_core::drive::Drive;
use phaselink_core::engine::simulation::Simulation;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_core::workload::{Job, UnresolvedJobs, fio};
use serde::Deserialize;

use super::answer::{ExportAnswer, ExportCondition, ExportLoad, LoadPlan, PERCENTS};
use super::checks;
use crate::report::{block_sizes, outside};
use crate::results::documents::Description;
use crate::simulations::{SimulateEach, simulated};

/// Sizes of requests in bytes of a question that gives none.
const SIZES: [u32; 3] = [4096, 16_384, 131_072];
/// Requests in flight of each thread of a question that gives none.
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Shares of reads in per cent of a question that gives none.
const READ_PERCENTS: [f64; 3] = [100.0, 70.0, 0.0];
/// Largest number of conditions of a question.
const CONDITIONS_MAX: usize = 2000;

/// Question of `export`: which latency has a request of each mix, size, and number of requests in flight?
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExportQuestion {
    /// Access pattern of all conditions: `randrw` (random) or `rw` (sequential).
    pub rw: String,
    /// Sizes of requests in bytes. Empty for 4 KiB, 16 KiB and 128 KiB.
    #[serde(deserialize_with = "block_sizes")]
    pub bs: Vec<u32>,
    /// Numbers of requests that each thread keeps in flight. Empty for the powers of two from 1 to 128.
    pub iodepth: Vec<u32>,
    /// Shares of reads in per cent. Empty for 100, 70 and 0.
    pub rwmixread: Vec<f64>,
    /// Number of threads that share the requests.
    pub numjobs: u32,
    /// Number of requests that are simulated at each condition, over all threads.
    pub ios: u64,
    /// Seed of the simulations' random numbers.
    pub seed: u64,
    /// True if requests count from the first one on, before a steady state.
    pub burst: bool,
}

impl Default for ExportQuestion {
    fn default() -> ExportQuestion {
        let (bs, iodepth, rwmixread) = (Vec::new(), Vec::new(), Vec::new());
        ExportQuestion {
            rw: String::from("randrw"),
            bs,
            iodepth,
            rwmixread,
            numjobs: 1,
            ios: 20_000,
            seed: 1,
            burst: false,
        }
    }
}

/// Mix of reads and writes, size in bytes, and requests in flight of each thread.
#[derive(Clone, Copy, Debug)]
struct ExportPoint {
    read_percent: f64,
    bytes: u32,
    iodepth: u32,
}

/// Study of one question: a drive, and the simulations that its table needs.
#[derive(Clone, Debug)]
pub struct ExportStudy {
    drive: Drive,
    question: ExportQuestion,
    conditions: Vec<ExportPoint>,
}

impl ExportQuestion {
    /// Returns the study of this question for a drive.
    ///
    /// # Errors
    /// Values outside their ranges, and conditions that the drive cannot run.
    pub fn study(&self, drive: &Drive) -> Result<ExportStudy, Problems> {
        let question = ExportQuestion {
            bs: rising(&self.bs, &SIZES),
            iodepth: rising(&self.iodepth, &DEPTHS),
            rwmixread: falling(&self.rwmixread),
            ..self.clone()
        };
        question.check()?;
        let conditions: Vec<ExportPoint> = question.conditions().collect();
        let study = ExportStudy { drive: drive.clone(), question, conditions };
        all(study.conditions.iter().map(|condition| study.jobs(*condition).map(drop)))?;
        Ok(study)
    }

    fn conditions(&self) -> impl Iterator<Item = ExportPoint> {
        let sizes = |read_percent: f64| self.bs.iter().map(move |bytes| (read_percent, *bytes));
        self.rwmixread.iter().flat_map(move |percent| sizes(*percent)).flat_map(|(read_percent, bytes)| {
            self.iodepth.iter().map(move |iodepth| ExportPoint { read_percent, bytes, iodepth: *iodepth })
        })
    }

    fn check(&self) -> Result<(), Problems> {
        let percents = self.rwmixread.iter().filter_map(|percent| outside("--rwmixread", *percent, 0.0..=100.0));
        let conditions = self.rwmixread.len() * self.bs.len() * self.iodepth.len();
        let others = [
            outside("--numjobs", self.numjobs, 1..=256),
            outside("--ios", self.ios, 1000..=100_000_000),
            outside("conditions:", conditions, 1..=CONDITIONS_MAX),
            (!["randrw", "rw"].contains(&self.rw.as_str()))
                .then(|| Problem::new("command line", None, format!("--rw {}", self.rw), "randrw or rw")),
        ];
        Problems(percents.chain(others.into_iter().flatten()).collect()).or(())
    }
}

/// Returns the values in rising order, each once; the defaults if there are none.
fn rising(values: &[u32], defaults: &[u32]) -> Vec<u32> {
    let values = if values.is_empty() { defaults } else { values };
    BTreeSet::from_iter(values.iter().copied()).into_iter().collect()
}

/// Returns the shares of reads in falling order, each once; the defaults if there are none.
fn falling(values: &[f64]) -> Vec<f64> {
    let mut values: Vec<f64> = if values.is_empty() { READ_PERCENTS.into() } else { values.into() };
    values.sort_by(|one, other| other.total_cmp(one));
    values.dedup();
    values
}

impl ExportStudy {
    /// Returns the number of simulations of the study.
    pub fn simulations(&self) -> usize {
        self.conditions.len() + (checks::LOADS.len() + checks::CHECKED_LOADS.len()) * self.mix_and_size_count()
    }

    /// Number of mixes and sizes, each of which has its own largest throughput.
    fn mix_and_size_count(&self) -> usize {
        self.question.rwmixread.len() * self.question.bs.len()
    }

    /// Simulates every condition and the loads of the checks, with `each`. `None` if the caller left out some of the runs.
    ///
    /// # Errors
    /// Jobs that the drive cannot run.
    pub fn answer(
        &self,
        each: SimulateEach,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<ExportAnswer>, Problems> {
        let question = &self.question;
        let run = |place: usize| self.run(&self.jobs(self.conditions[place])?.on(&self.drive.limits())?, stop, 0);
        let Some(outcomes) = finished_outcomes(simulated(each, self.conditions.len(), run))? else { return Ok(None) };
        let of = |(condition, outcome): (&ExportPoint, &Outcome)| {
            let in_flight = condition.iodepth * question.numjobs;
            ExportCondition::new(condition.read_percent, condition.bytes, in_flight, outcome)
        };
        let mut answer = ExportAnswer {
            drive: self.drive.title(),
            pattern: question.rw.clone(),
            threads: question.numjobs,
            requests: question.ios,
            seed: question.seed,
            percents: PERCENTS.into(),
            conditions: self.conditions.iter().zip(&outcomes).map(of).collect(),
            loads: Vec::new(),
            left_out: Vec::new(),
            checks: Vec::new(),
            description: Description(self.drive.resolved()),
        };
        let plans = checks::check_load_plans(&answer, &checks::LOADS);
        let run = |place: usize| self.run_load(&plans[place], stop, 0);
        let Some(outcomes) = finished_outcomes(simulated(each, plans.len(), run))? else { return Ok(None) };
        answer.loads = plans.iter().zip(&outcomes).map(|(plan, outcome)| ExportLoad::new(plan, outcome)).collect();
        let plans = checks::check_load_plans(&answer, &checks::CHECKED_LOADS);
        let run = |place: usize| self.run_load(&plans[place], stop, 1);
        let Some(outcomes) = finished_outcomes(simulated(each, plans.len(), run))? else { return Ok(None) };
        let checked = plans.iter().zip(&outcomes).flat_map(|(plan, outcome)| plan.check(&answer, outcome)).collect();
        Ok(Some(ExportAnswer { left_out: checks::left_out(&answer), checks: checked, ..answer }))
    }

    /// Runs the drive at a load. `more` is added to the seed.
    fn run_load(
        &self,
        plan: &LoadPlan,
        stop: &(dyn Fn() -> bool + Sync),
        more: u64,
    ) -> Result<Option<Outcome>, Problems> {
        let iodepth = self.question.iodepth.last().copied().unwrap_or(1);
        let condition = ExportPoint { read_percent: plan.read_percent, bytes: plan.bytes, iodepth };
        self.run(&self.jobs(condition)?.offering(plan.offered_iops).on(&self.drive.limits())?, stop, more)
    }

    fn jobs(&self, condition: ExportPoint) -> Result<UnresolvedJobs, Problems> {
        let question = &self.question;
        let texts = [
            ("rw", question.rw.clone()),
            ("rwmixread", condition.read_percent.to_string()),
            ("bs", condition.bytes.to_string()),
            ("iodepth", condition.iodepth.to_string()),
            ("numjobs", question.numjobs.to_string()),
            ("number_ios", question.ios.div_ceil(u64::from(question.numjobs)).to_string()),
        ];
        let options: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let no_trace = |_: &_| Err(Problem::new("question", None, "a trace", "a job without a trace").into());
        let written = UnresolvedJobs::new([fio::job_from_flags(&options)?], no_trace)?.with_bursts(question.burst);
        written.on(&self.drive.limits())?;
        Ok(written)
    }

    /// Runs jobs to their end; `None` if `stop` says so before.
    fn run(&self, jobs: &[Job], stop: &(dyn Fn() -> bool + Sync), more: u64) -> Result<Option<Outcome>, Problems> {
        let mut simulation = Simulation::new(&self.drive, jobs, self.question.seed.wrapping_add(more))?;
        while simulation.step(1 << 16) {
            if stop() {
                return Ok(None);
            }
        }
        Ok(Some(simulation.outcome()))
    }
}

/// Returns the outcomes of all runs; `None` if one was left out or stopped.
fn finished_outcomes(
    outcomes: Option<Vec<Result<Option<Outcome>, Problems>>>,
) -> Result<Option<Vec<Outcome>>, Problems> {
    outcomes.map_or(Ok(None), |outcomes| outcomes.into_iter().collect())
}
