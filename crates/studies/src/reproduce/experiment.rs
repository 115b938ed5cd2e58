//! Experiments of one paper: drives and jobs ready to run, as described or with uncertain constants set to other
//! values.

use super::{Facts, PaperFigure, Reproduction, Row, RunSpec};
use phaselink_core::dma::{Question, SECTIONS};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{Described, KeyOverride, refuse_files, shipped};
use phaselink_core::engine::simulation::Simulation;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_core::workload::{Job, fio};

/// One run of an experiment, ready to start. Its simulation is set up only when its turn comes, because all of them
/// together could take more memory than there is.
#[derive(Clone, Debug)]
pub struct ExperimentRun {
    spec: RunSpec,
    /// Drive of the run, with all overrides applied.
    pub drive: Drive,
    asked: RunWork,
}

/// Work of a run: jobs on a drive, or DMA transfers of a device.
#[derive(Clone, Debug)]
enum RunWork {
    Jobs(Vec<Job>),
    Transfers(Question),
}

/// Reproduction of a paper, with all its runs ready to start.
#[derive(Clone, Debug)]
pub struct Experiments {
    /// Plan of the experiments, with the published results.
    pub reproduction: Reproduction,
    /// Runs of the plan, in the plan's order.
    pub runs: Vec<ExperimentRun>,
    facts: Vec<Facts>,
}

impl ExperimentRun {
    /// Prepares a run of a plan, with further overrides in `moved`, which set uncertain constants to other values.
    ///
    /// # Errors
    /// Anything that keeps the run from starting.
    pub fn prepare(spec: &RunSpec, moved: &[KeyOverride]) -> Result<ExperimentRun, Problems> {
        let mut overrides = all(spec.set.iter().map(|text| KeyOverride::parse(text).map_err(Problems::from)))?;
        overrides.extend_from_slice(moved);
        match &spec.transfers {
            Some(options) => ExperimentRun::of_transfers(spec, options, &overrides),
            None => ExperimentRun::of_jobs(spec, &overrides),
        }
    }

    fn of_jobs(spec: &RunSpec, overrides: &[KeyOverride]) -> Result<ExperimentRun, Problems> {
        let drive = Described::shipped(&spec.drive, overrides, refuse_files)?.into_drive();
        let jobs = ExperimentRun::resolve_jobs_on_drive(spec, &drive)?;
        Ok(ExperimentRun { spec: spec.clone(), drive, asked: RunWork::Jobs(jobs) })
    }

    fn resolve_jobs_on_drive(spec: &RunSpec, drive: &Drive) -> Result<Vec<Job>, Problems> {
        let mut jobs = Vec::new();
        for job in [Some(&spec.job), spec.beside.as_ref()].into_iter().flatten() {
            let options: Vec<(&str, &str)> = job.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            jobs.extend(fio::job_from_flags(&options)?.resolve(&drive.limits(), &Default::default())?);
        }
        Simulation::check(drive, &jobs)?;
        Ok(jobs)
    }

    fn of_transfers(
        spec: &RunSpec,
        options: &[(String, String)],
        overrides: &[KeyOverride],
    ) -> Result<ExperimentRun, Problems> {
        let shipped = shipped::find_device(&spec.drive).ok_or_else(|| shipped::unknown_device(&spec.drive))?;
        let device = Drive::device_from_toml(shipped.file, shipped.text, overrides)?;
        let question = Question::from_option_texts(options)?;
        question.check(&device)?;
        Ok(ExperimentRun { spec: spec.clone(), drive: question.applied(&device), asked: RunWork::Transfers(question) })
    }

    /// Prepares this run again, with overrides that set uncertain constants to other values.
    ///
    /// # Errors
    /// Anything that keeps the run from starting with these overrides.
    pub fn with_overrides(&self, overrides: &[KeyOverride]) -> Result<ExperimentRun, Problems> {
        ExperimentRun::prepare(&self.spec, overrides)
    }

    /// Checks that the run is possible on `drive`, which is its own drive with constants set to other values.
    ///
    /// # Errors
    /// Anything that keeps the run from starting there.
    pub fn check_runs_on(&self, drive: &Drive) -> Result<(), Problems> {
        match &self.asked {
            RunWork::Jobs(_) => ExperimentRun::resolve_jobs_on_drive(&self.spec, drive).map(drop),
            RunWork::Transfers(question) => question.check(drive),
        }
    }

    /// Returns the outcome of the run; `finish` runs a simulation to its end.
    ///
    /// # Panics
    /// Never for a prepared run, because it has been checked.
    pub fn outcome(&self, finish: impl FnOnce(Simulation) -> Outcome) -> Outcome {
        let seed = self.spec.seed;
        match &self.asked {
            RunWork::Jobs(jobs) => {
                finish(Simulation::new(&self.drive, jobs, seed).expect("checked when it was prepared"))
            }
            RunWork::Transfers(question) => question.ask(&self.drive, seed).expect("checked when it was prepared"),
        }
    }

    /// Returns the overrides of the drive that the plan gives, as texts; none of them moves an uncertain constant.
    pub fn settings(&self) -> &[String] {
        &self.spec.set
    }

    /// True if the run consists of DMA transfers alone, which are not simulated step by step.
    pub fn is_of_transfers(&self) -> bool {
        matches!(self.asked, RunWork::Transfers(_))
    }

    /// Returns the properties of the run's drive that a verdict needs. For a run of transfers, only constants of the
    /// sections that take part in transfers are uncertain.
    pub(super) fn facts(&self) -> Facts {
        let mut facts = Facts::from(&self.drive);
        if matches!(self.asked, RunWork::Transfers(_)) {
            facts.doubts.retain(|(_, key)| key.split_once('.').is_some_and(|(section, _)| SECTIONS.contains(&section)));
        }
        facts
    }
}

impl Experiments {
    /// Prepares all runs of a plan.
    ///
    /// # Errors
    /// Anything that keeps a run from starting, with the place of its experiment in the plan.
    pub fn prepare(reproduction: Reproduction) -> Result<Experiments, Problems> {
        let runs = reproduction.runs().iter().enumerate().map(|(place, spec)| {
            // Report each problem at the place of its experiment in the plan.
            let placed =
                |problem: &Problem| reproduction.run_problem_at_experiment(place, &problem.found, &problem.allowed);
            ExperimentRun::prepare(spec, &[]).map_err(|problems| Problems(problems.0.iter().map(placed).collect()))
        });
        let runs = all(runs)?;
        let facts: Vec<Facts> = runs.iter().map(ExperimentRun::facts).collect();
        reproduction.check(&facts)?;
        Ok(Experiments { reproduction, runs, facts })
    }

    /// Returns the verdict on every published row; `outcomes` are those of the runs, in order.
    pub fn judge(&self, outcomes: &[Outcome]) -> Vec<Row> {
        self.reproduction.judge(&outcomes.iter().collect::<Vec<_>>(), &self.facts)
    }

    /// Returns the figures of the plan; `outcomes` are those of the runs, in order.
    pub fn figures(&self, outcomes: &[Outcome]) -> Vec<PaperFigure> {
        self.reproduction.figures(&outcomes.iter().collect::<Vec<_>>(), &self.facts)
    }

    /// True if the dependences of the simulated values were measured for exactly the constants that are uncertain now.
    pub fn is_measured(&self) -> bool {
        self.reproduction.is_measured(&self.facts)
    }

    /// Returns the simulated value of each published row, in their order; `outcomes` are those of the runs, in order.
    pub fn values(&self, outcomes: &[Outcome]) -> Vec<Option<f64>> {
        self.reproduction.values(&outcomes.iter().collect::<Vec<_>>(), &self.facts)
    }

    /// Returns the simulated value of each row with constants set to other values in the runs to repeat;
    /// `moved` returns the overrides for a drive. For all other runs, and where there are no overrides, the outcome in
    /// `outcomes` stands. `finish` runs a simulation to its end.
    ///
    /// # Errors
    /// Constants that cannot be set to these values.
    pub fn row_values_with_moved_constants(
        &self,
        outcomes: &[Outcome],
        runs_to_repeat: &[bool],
        moved: impl Fn(&Drive) -> Vec<KeyOverride>,
        finish: impl Fn(Simulation) -> Outcome,
    ) -> Result<Vec<Option<f64>>, Problems> {
        let mut fresh: Vec<Option<(Outcome, Facts)>> = Vec::new();
        for (run, is_repeated) in self.runs.iter().zip(runs_to_repeat) {
            let overrides = if *is_repeated { moved(&run.drive) } else { Vec::new() };
            fresh.push(match overrides.is_empty() {
                true => None,
                false => {
                    let run = run.with_overrides(&overrides)?;
                    Some((run.outcome(&finish), run.facts()))
                }
            });
        }
        let pairs = fresh.iter().zip(outcomes.iter().zip(&self.facts));
        let pairs = pairs.map(|(fresh, (outcome, facts))| match fresh {
            Some((outcome, facts)) => (outcome, facts.clone()),
            None => (outcome, facts.clone()),
        });
        let (outcomes, facts): (Vec<&Outcome>, Vec<Facts>) = pairs.unzip();
        Ok(self.reproduction.values(&outcomes, &facts))
    }
}
