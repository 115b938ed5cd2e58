//! Resolution of a sweep's points: from the number of a point to its drive, its jobs and its seed.

use super::Plan;
use super::axis::AxisTarget;
use super::files::Files;
use super::hash::Hash;
use super::plan::{JobText, PlanText};
use crate::precision;
use crate::uncertainty::Draws;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{Override, shipped};
use phaselink_core::engine::simulation::Simulation;
use phaselink_core::problem::Problems;
use phaselink_core::workload::{Job, JobFile, JobPlace, fio, has_end, with_defaults};

/// Plan of a sweep together with all files that it names.
#[derive(Clone, Debug)]
pub struct Sweep {
    plan: Plan,
    files: Files,
    /// Job of the sweep's plan before any axis changes its options.
    job: JobFile,
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
            JobText::File(_) => files.job.take().expect("the plan's job file has been read"),
            JobText::Options(place, given) => {
                let place = JobPlace::new(&*place.file, place.line);
                let options = plan.spelt_job(given);
                let lines: Vec<_> = options
                    .iter()
                    .map(|(name, text)| {
                        let line = given.iter().find(|given| given.name == *name).and_then(|given| given.line);
                        (name.as_str(), text.as_str(), line)
                    })
                    .collect();
                fio::from_lines(place, &lines)?
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
    pub fn resolver(&self) -> Resolver<'_> {
        Resolver { sweep: self, last: None }
    }
}

impl Plan {
    /// Returns all options of the plan's job as text, with defaults for options that are neither given nor swept.
    pub(super) fn spelt_job(&self, given: &[PlanText]) -> Vec<(String, String)> {
        let mut options: Vec<(String, String)> =
            given.iter().map(|given| (given.name.clone(), given.text.clone())).collect();
        for swept in self.swept_keys() {
            if let AxisTarget::Job(option) = swept.target() {
                options.retain(|(name, _)| name != option);
                options.push((option.into(), swept.text(0)));
            }
        }
        if let Some(ios) = self.ios_default.filter(|_| !has_end(&pairs(&options))) {
            options.push((String::from("number_ios"), ios.to_string()));
        }
        with_defaults(&pairs(&options)).into_iter().map(|(name, text)| (name.into(), text.into())).collect()
    }
}

/// Resolver of a sweep's points, one after another. It keeps the last drive, which consecutive points mostly share.
#[derive(Debug)]
pub struct Resolver<'a> {
    sweep: &'a Sweep,
    /// Last drive that was resolved, with the indices of the axis values that it was made from.
    last: Option<(Vec<usize>, Drive)>,
}

impl Resolver<'_> {
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
    /// As [`Resolver::check`].
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
    /// As [`Resolver::check`].
    pub fn draws(&mut self, point: usize, count: usize, seed: u64) -> Result<Draws, Problems> {
        let (drive, _) = self.resolve(point)?;
        Ok(Draws::of([drive], count, seed))
    }

    /// Returns the hash, the drive and the jobs of a sweep's point with the uncertain constants of draw number `draw`.
    /// `None` if the jobs cannot run on that drive.
    ///
    /// # Panics
    /// If the sweep has no point of this number.
    pub fn point_of_draw(&mut self, point: usize, draws: &Draws, draw: usize) -> Option<(Hash, Drive, Vec<Job>)> {
        let seed = self.sweep.plan.seed(point);
        let overrides = draws.overrides(self.resolve(point).ok()?.0, draw);
        let drive = self.drive(point, &overrides).ok()?;
        let jobs = jobs(self.sweep, point, &drive).ok()?;
        Some((self.sweep.hash(&drive, &jobs, seed), drive, jobs))
    }

    /// Returns the simulation of a sweep's point with the uncertain constants of draw number `draw`. `None` if it
    /// cannot run.
    pub fn drawn_simulation(&mut self, point: usize, draws: &Draws, draw: usize) -> Option<Simulation> {
        let (_, drive, jobs) = self.point_of_draw(point, draws, draw)?;
        Simulation::new(&drive, &jobs, self.sweep.plan.seed(point)).ok()
    }

    /// Returns the drive and the jobs of a sweep's point.
    ///
    /// # Errors
    /// As [`Resolver::check`].
    ///
    /// # Panics
    /// If the sweep has no point of this number.
    pub fn resolve(&mut self, point: usize) -> Result<(&Drive, Vec<Job>), Problems> {
        let key = self.drive_key(point);
        let drive = match self.last.take() {
            Some((last, drive)) if last == key => drive,
            _ => self.drive(point, &[])?,
        };
        let (_, drive) = self.last.insert((key, drive));
        let jobs = jobs(self.sweep, point, drive)?;
        Ok((drive, jobs))
    }

    fn drive_key(&self, point: usize) -> Vec<usize> {
        let mut key = Vec::new();
        self.sweep.plan.visit(point, |swept, place| {
            if !matches!(swept.target(), AxisTarget::Job(_)) {
                key.push(place);
            }
        });
        key
    }

    fn drive(&self, point: usize, drawn: &[Override]) -> Result<Drive, Problems> {
        let text = &self.sweep.plan.text;
        let mut name = text.drive.as_ref().map(|word| word.text.clone()).unwrap_or_default();
        let mut overrides = text.set.clone();
        self.sweep.plan.visit(point, |swept, place| match swept.target() {
            AxisTarget::Drive => name = swept.text(place),
            AxisTarget::Description(key) => overrides.push(Override::at(key, &swept.values[place])),
            AxisTarget::Job(_) => {}
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

fn pairs(options: &[(String, String)]) -> Vec<(&str, &str)> {
    options.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
}

fn jobs(sweep: &Sweep, point: usize, drive: &Drive) -> Result<Vec<Job>, Problems> {
    let mut options: Vec<(String, String, Option<usize>)> = Vec::new();
    sweep.plan.visit(point, |swept, place| {
        if let AxisTarget::Job(option) = swept.target() {
            options.push((option.into(), swept.text(place), swept.values[place].place.line));
        }
    });
    let options: Vec<_> = options.iter().map(|(name, text, line)| (name.as_str(), text.as_str(), *line)).collect();
    let file = sweep.job.with(&sweep.plan.text.file, &options)?;
    let limits = drive.limits();
    let mut jobs = file.resolve(&limits, &sweep.files.traces)?;
    jobs.iter_mut().for_each(|job| job.measure_steadily(&limits));
    Ok(jobs)
}
