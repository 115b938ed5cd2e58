//! Resolution of a sweep's points: from the number of a point to its drive, its jobs and its seed.

use super::Plan;
use super::axis::SweptPlanPart;
use super::files::Files;
use super::hash::Hash;
use super::plan::{PlanJobText, PlanOption};
use crate::precision;
use crate::uncertainty::ConstantDraws;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::engine::simulation::Simulation;
use phaselink_core::problem::Problems;
use phaselink_core::workload::{Job, JobPlace, WrittenJobFile, add_default_options, fio, has_end};

/// Plan of a sweep together with all files that it names.
#[derive(Clone, Debug)]
pub struct Sweep {
    plan: Plan,
    files: Files,
    /// Job of the sweep's plan before any axis changes its options.
    job: WrittenJobFile,
    /// Relative precision of mean and p99 latency at which a run ends. `None` if runs end by their jobs alone.
    precision: Option<f64>,
}

impl Sweep {
    /// Combines a plan with the files that it names.
    ///
    /// # Errors
    /// Invalid options or sections of the job.
    ///
    /// # Panics
    /// If the plan names a job file that `files` does not have.
    pub fn new(plan: Plan, mut files: Files) -> Result<Sweep, Problems> {
        let job = match &plan.text.job {
            PlanJobText::File(_) => files.job.take().expect("the plan's job file has been read"),
            PlanJobText::Options(place, given) => {
                let place = JobPlace::new(&*place.file, place.line);
                let options = plan.job_options_with_defaults(given);
                let lines: Vec<_> = options
                    .iter()
                    .map(|(name, text)| {
                        let line = given.iter().find(|given| given.name == *name).and_then(|given| given.line);
                        (name.as_str(), text.as_str(), line)
                    })
                    .collect();
                fio::job_from_lines(place, &lines)?
            }
        };
        Ok(Sweep { plan, files, job, precision: None })
    }

    /// Lets each run end once its mean and p99 latency are known to the relative precision `share`. This changes the
    /// hashes of all runs.
    pub fn until(mut self, share: Option<f64>) -> Sweep {
        self.precision = share;
        self
    }

    fn hash(&self, drive: &Drive, jobs: &[Job], seed: u64) -> Hash {
        let hash = Hash::of(drive, jobs, seed);
        self.precision.map_or(hash, |share| hash.until(share))
    }

    /// Returns the plan of this sweep.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the files that the plan of this sweep names.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Returns a resolver of the sweep's points, for use by one thread.
    pub fn resolver(&self) -> PointResolver<'_> {
        PointResolver { sweep: self, last: None }
    }
}

impl Plan {
    /// Returns all options of the plan's job as text, with defaults for options that are neither given nor swept.
    pub(super) fn job_options_with_defaults(&self, given: &[PlanOption]) -> Vec<(String, String)> {
        let mut options: Vec<(String, String)> =
            given.iter().map(|given| (given.name.clone(), given.text.clone())).collect();
        for swept in self.swept_keys() {
            if let SweptPlanPart::Job(option) = swept.target() {
                options.retain(|(name, _)| name != option);
                options.push((option.into(), swept.text(0)));
            }
        }
        if let Some(ios) = self.ios_default.filter(|_| !has_end(&borrowed_option_pairs(&options))) {
            options.push((String::from("number_ios"), ios.to_string()));
        }
        add_default_options(&borrowed_option_pairs(&options))
            .into_iter()
            .map(|(name, text)| (name.into(), text.into()))
            .collect()
    }
}

/// Resolver of a sweep's points, one after another. It keeps the last drive, which consecutive points mostly share.
#[derive(Debug)]
pub struct PointResolver<'a> {
    sweep: &'a Sweep,
    /// Last drive that was resolved, with the indices of the axis values that it was made from.
    last: Option<(Vec<usize>, Drive)>,
}

impl PointResolver<'_> {
    /// Checks that a sweep's point can run, and returns the hash of its run.
    ///
    /// # Errors
    /// All reasons why the point cannot run.
    ///
    /// # Panics
    /// If the sweep has no point of this number.
    pub fn check(&mut self, point: usize) -> Result<Hash, Problems> {
        let sweep = self.sweep;
        let (drive, jobs) = self.resolve(point)?;
        if sweep.precision.is_some() {
            precision::check(&jobs)?;
        }
        Ok(sweep.hash(drive, &jobs, sweep.plan.seed(point)))
    }

    /// Returns the simulation of a sweep's point, ready to start.
    ///
    /// # Errors
    /// As [`PointResolver::check`].
    ///
    /// # Panics
    /// If the sweep has no point of this number.
    pub fn simulation(&mut self, point: usize) -> Result<Simulation, Problems> {
        let seed = self.sweep.plan.seed(point);
        let (drive, jobs) = self.resolve(point)?;
        Simulation::new(drive, &jobs, seed)
    }

    /// Draws `count` random values for each uncertain constant of the drive of a sweep's point.
    ///
    /// # Errors
    /// As [`PointResolver::check`].
    pub fn draws(&mut self, point: usize, count: usize, seed: u64) -> Result<ConstantDraws, Problems> {
        let (drive, _) = self.resolve(point)?;
        Ok(ConstantDraws::of([drive], count, seed))
    }

    /// Returns the hash, the drive and the jobs of a sweep's point with the uncertain constants of draw number `draw`.
    /// `None` if the jobs cannot run on that drive.
    ///
    /// # Panics
    /// If the sweep has no point of this number.
    pub fn drawn_point(&mut self, point: usize, draws: &ConstantDraws, draw: usize) -> Option<(Hash, Drive, Vec<Job>)> {
        let seed = self.sweep.plan.seed(point);
        let overrides = draws.overrides(self.resolve(point).ok()?.0, draw);
        let drive = self.drive(point, &overrides).ok()?;
        let jobs = jobs(self.sweep, point, &drive).ok()?;
        Some((self.sweep.hash(&drive, &jobs, seed), drive, jobs))
    }

    /// Returns the simulation of a sweep's point with the uncertain constants of draw number `draw`. `None` if it
    /// cannot run.
    pub fn drawn_simulation(&mut self, point: usize, draws: &ConstantDraws, draw: usize) -> Option<Simulation> {
        let (_, drive, jobs) = self.drawn_point(point, draws, draw)?;
        Simulation::new(&drive, &jobs, self.sweep.plan.seed(point)).ok()
    }

    /// Returns the drive and the jobs of a sweep's point.
    ///
    /// # Errors
    /// As [`PointResolver::check`].
    ///
    /// # Panics
    /// If the sweep has no point of this number.
    pub fn resolve(&mut self, point: usize) -> Result<(&Drive, Vec<Job>), Problems> {
        let key = self.drive_value_indices(point);
        let drive = match self.last.take() {
            Some((last, drive)) if last == key => drive,
            _ => self.drive(point, &[])?,
        };
        let (_, drive) = self.last.insert((key, drive));
        let jobs = jobs(self.sweep, point, drive)?;
        Ok((drive, jobs))
    }

    fn drive_value_indices(&self, point: usize) -> Vec<usize> {
        let mut key = Vec::new();
        self.sweep.plan.visit(point, |swept, place| {
            if !matches!(swept.target(), SweptPlanPart::Job(_)) {
                key.push(place);
            }
        });
        key
    }

    fn drive(&self, point: usize, drawn: &[KeyOverride]) -> Result<Drive, Problems> {
        let text = &self.sweep.plan.text;
        let mut name = text.drive.as_ref().map(|word| word.text.clone()).unwrap_or_default();
        let mut overrides = text.set.clone();
        self.sweep.plan.visit(point, |swept, place| match swept.target() {
            SweptPlanPart::Drive => name = swept.text(place),
            SweptPlanPart::Description(key) => overrides.push(KeyOverride::at(key, &swept.values[place])),
            SweptPlanPart::Job(_) => {}
        });
        overrides.extend_from_slice(drawn);
        let (file, text) = match (self.sweep.files.drives.get(&name), shipped::find(&name)) {
            (Some((file, text)), _) => (file.as_str(), text.as_str()),
            (None, Some(shipped)) => (shipped.file, shipped.text),
            (None, None) => panic!("the drive {name} of the plan has been read"),
        };
        Drive::from_files(file, text, &overrides, self.sweep.files.others)
    }
}

fn borrowed_option_pairs(options: &[(String, String)]) -> Vec<(&str, &str)> {
    options.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
}

fn jobs(sweep: &Sweep, point: usize, drive: &Drive) -> Result<Vec<Job>, Problems> {
    let mut options: Vec<(String, String, Option<usize>)> = Vec::new();
    sweep.plan.visit(point, |swept, place| {
        if let SweptPlanPart::Job(option) = swept.target() {
            options.push((option.into(), swept.text(place), swept.values[place].place.line));
        }
    });
    let options: Vec<_> = options.iter().map(|(name, text, line)| (name.as_str(), text.as_str(), *line)).collect();
    let file = sweep.job.with(&sweep.plan.text.file, &options)?;
    let limits = drive.limits();
    let mut jobs = file.resolve(&limits, &sweep.files.traces)?;
    jobs.iter_mut().for_each(|job| job.measure_in_steady_state(&limits));
    Ok(jobs)
}
