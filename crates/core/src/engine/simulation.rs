//! Runs of jobs on a drive, from the first request to the last.

use std::collections::BTreeMap;

use crate::data::check::BLOCK_BYTES;
use crate::drive::Drive;
use crate::engine::Engine;
use crate::engine::driver_end::DriverRecord;
use crate::engine::requests::KeptRequestRecords;
use crate::ledger::trace::Trace;
use crate::ledger::{Latency, Outcome};
use crate::number::{low_u32, real};
use crate::problem::{Problem, Problems};
use crate::time::{Span, Time};
use crate::workload::trace::TraceRequests;
use crate::workload::{Job, JobPlace, Limits, WrittenJobFile, combined_job_problems, side_by_side};

/// Run of jobs on a drive, about to begin or in progress.
#[derive(Clone, Debug)]
pub struct Simulation {
    drive: Drive,
    engine: Engine,
    seed: u64,
    /// Number of requests that all jobs will make; `runtime` is the longest time that they take. `None` where that is
    /// not known.
    ios: Option<u64>,
    runtime: Option<Span>,
}

impl Simulation {
    /// Sets up a run of `jobs` on `drive`.
    ///
    /// # Errors
    /// Everything that keeps the jobs from running on this drive.
    pub fn new(drive: &Drive, jobs: &[Job], seed: u64) -> Result<Simulation, Problems> {
        Simulation::check(drive, jobs)?;
        Ok(Simulation::set_up_run(drive, jobs, seed, Engine::new))
    }

    /// Sets up a run with real bytes, in which every read is verified; see [`Engine::with_data`]. With incomplete tags,
    /// the tags in the buffers decide, so that collisions are those of the data.
    ///
    /// # Errors
    /// As [`Simulation::new`], and writes of less than the 512 bytes by which contents are told apart.
    ///
    /// ```
    /// use phaselink_core::drive::Drive;
    /// use phaselink_core::simulation::Simulation;
    /// use phaselink_core::workload::fio;
    ///
    /// let drive = Drive::shipped("dc-express").unwrap();
    /// let file = fio::job_from_flags(&[("rw", "randrw"), ("bs", "512"), ("size", "1m"), ("number_ios", "1000")])?;
    /// let jobs = file.resolve(&drive.limits(), &Default::default())?;
    /// let mut simulation = Simulation::with_data(&drive, &jobs, 1)?;
    /// while simulation.step(1 << 20) {}
    /// assert_eq!(simulation.data_problems(), [""; 0]);
    /// # Ok::<(), phaselink_core::problem::Problems>(())
    /// ```
    pub fn with_data(drive: &Drive, jobs: &[Job], seed: u64) -> Result<Simulation, Problems> {
        let limits = drive.limits();
        let write_block_bytes = limits.write_block_bytes.max(low_u32(BLOCK_BYTES));
        problems(jobs, &Limits { write_block_bytes, ..limits })?;
        if drive.key_value.is_there() {
            let found =
                String::from("a run with real bytes of a drive that stores values, whose bytes no simulation keeps");
            let allowed = "a run without real bytes, a served drive, or a drive with logical blocks";
            return Err(Problem::new(drive.name.clone(), None, found, allowed).into());
        }
        Ok(Simulation::set_up_run(drive, jobs, seed, Engine::with_data))
    }

    /// Checks that these jobs can run on this drive.
    ///
    /// # Errors
    /// Everything that keeps them from it.
    pub fn check(drive: &Drive, jobs: &[Job]) -> Result<(), Problems> {
        problems(jobs, &drive.limits())
    }

    fn set_up_run(drive: &Drive, jobs: &[Job], seed: u64, engine: fn(&Drive, u64) -> Engine) -> Simulation {
        let drive = drive.preconditioned_for(jobs).into_owned();
        let mut engine = engine(&drive, seed);
        engine.add_jobs(jobs, &drive.limits(), seed);
        // If the number of requests is unknown or would overflow, leave it unknown.
        let of_thread = |job: &Job| job.ios.or_else(|| job.trace.as_ref().map(TraceRequests::count));
        let ios =
            jobs.iter().try_fold(0u64, |sum, job| sum.checked_add(of_thread(job)?.checked_mul(job.threads.into())?));
        let longest = |jobs: &[Job]| Some(jobs.iter().map(|job| job.runtime).max()?? + jobs[0].start_delay);
        let runtime = side_by_side(jobs).map(longest).try_fold(Span::ZERO, |sum, span| Some(sum + span?));
        Simulation { drive, engine, seed, ios, runtime }
    }

    /// Records up to `limit` steps of requests and packets, for a packet ladder or a timeline.
    pub fn record(&mut self, limit: usize) {
        self.engine.record(limit);
    }

    /// Keeps the first `limit` requests that are counted, about 400 bytes each.
    pub fn keep_requests(&mut self, limit: usize) {
        self.engine.keep_requests(limit);
    }

    /// Records the first `limit` requests that pass the drivers, with the instants of their submission and completion
    /// there.
    pub fn record_driver(&mut self, limit: usize) {
        self.engine.record_driver(limit);
    }

    /// Returns the requests that were recorded at the drivers, in the order of their submission.
    pub fn driver_records(&self) -> impl Iterator<Item = &DriverRecord> {
        self.engine.driver_records()
    }

    /// Returns the single requests that the run has kept, and keeps no more; `None` if none were to be kept.
    pub fn take_requests(&mut self) -> Option<KeptRequestRecords> {
        self.engine.take_requests()
    }

    /// Handles about `events` more events of the run. Returns false once all jobs are done.
    pub fn step(&mut self, events: u64) -> bool {
        if self.engine.is_warming_up() {
            return self.engine.warm_up(events, &self.drive);
        }
        self.engine.run(events)
    }

    /// True during the warm-up: the drive's write buffer has not been turned over, so that requests do not count yet.
    pub fn is_warming_up(&self) -> bool {
        self.engine.is_warming_up()
    }

    /// Returns the share of the run that is over (0 to 1), by requests or by time; `None` if the jobs tell neither.
    pub fn progress(&self) -> Option<f64> {
        let by_ios = self.ios.map(|ios| real(self.engine.counted_requests()) / real(ios.max(1)));
        let by_time = self.runtime.map(|span| real(self.engine.now().as_ps()) / real(span.as_ps().max(1)));
        let share = by_ios
            .into_iter()
            .chain(by_time)
            .fold(None, |most: Option<f64>, share| Some(most.map_or(share, |most| most.max(share))));
        share.map(|share| share.min(1.0))
    }

    /// Returns the number of completed requests, including failed ones.
    pub fn completed(&self) -> u64 {
        self.engine.completed()
    }

    /// Returns the number of events handled so far.
    pub fn events(&self) -> u64 {
        self.engine.events()
    }

    /// Returns the simulated instant of the last event.
    pub fn now(&self) -> Time {
        self.engine.now()
    }

    /// Returns the number of reads and writes counted so far, without those in a ramp.
    pub fn counted_requests(&self) -> u64 {
        self.engine.counted_requests()
    }

    /// Returns the latencies of all reads and writes counted so far.
    pub fn latency(&self) -> Latency {
        self.engine.latency()
    }

    /// Returns the outcome of the run so far.
    pub fn outcome(&self) -> Outcome {
        self.engine.outcome(&self.drive, self.seed)
    }

    /// Returns the steps of requests and packets recorded so far.
    pub fn trace(&self) -> &Trace {
        self.engine.trace()
    }

    /// Returns descriptions of the first reads that returned wrong bytes; none in a run without real bytes.
    pub fn data_problems(&self) -> &[String] {
        self.engine.data_problems()
    }

    /// Returns the number of the first request whose read returned wrong bytes; `None` if there was none.
    pub fn first_wrong_read(&self) -> Option<u64> {
        self.engine.first_wrong_read()
    }

    /// Returns a description of an inconsistency in the memory's own accounts, if there is one; see
    /// [`Engine::memory_problem`].
    pub fn memory_problem(&self) -> Option<String> {
        self.engine.memory_problem()
    }

    #[cfg(test)]
    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the drive of the run, in the initial state that the jobs need.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }
}

/// Returns everything that keeps jobs from running on a drive with these limits.
fn problems(jobs: &[Job], limits: &Limits) -> Result<(), Problems> {
    let place = JobPlace::new("jobs", None);
    let mut problems: Vec<_> = jobs.iter().flat_map(|job| job.problems(&place, limits)).collect();
    problems.extend(combined_job_problems(jobs, &place, limits));
    Problems(problems).or(())
}

/// Runs jobs to their end, and returns the outcome.
///
/// # Errors
/// Everything that keeps the jobs from running on this drive.
///
/// ```
/// use phaselink_core::drive::Drive;
/// use phaselink_core::simulation::simulate;
/// use phaselink_core::workload::fio;
///
/// let drive = Drive::shipped("dc-express").unwrap();
/// let file = fio::job_from_flags(&[("rw", "randread"), ("bs", "512"), ("number_ios", "10000")])?;
/// let jobs = file.resolve(&drive.limits(), &Default::default())?;
/// let outcome = simulate(&drive, &jobs, 1)?;
/// assert!(outcome.iops() > 700_000.0);
/// # Ok::<(), phaselink_core::problem::Problems>(())
/// ```
pub fn simulate(drive: &Drive, jobs: &[Job], seed: u64) -> Result<Outcome, Problems> {
    let mut simulation = Simulation::new(drive, jobs, seed)?;
    while simulation.step(1 << 20) {}
    Ok(simulation.outcome())
}

/// Runs the jobs of a job file that replays no traces to their end, and returns the outcome.
///
/// # Errors
/// Everything that is wrong with the jobs.
pub fn simulate_file(drive: &Drive, file: &WrittenJobFile, seed: u64) -> Result<Outcome, Problems> {
    let jobs = file.resolve(&drive.limits(), &BTreeMap::new())?;
    simulate(drive, &jobs, seed)
}
