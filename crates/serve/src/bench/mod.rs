//! Loading a served device: jobs in fio's terms, measured at the client. The ways there are the front-ends' own.
//!
//! Each thread of a job has a connection of its own and keeps up to `iodepth` requests under way. Latencies count from
//! when the job wanted a request, so that a job with a rate pays for what comes late.

mod loader;
mod target;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use phaselink_core::ledger::{CpuUse, Energy, JobOutcome, Outcome, WireUse};
use phaselink_core::request::Io;
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::{Generator, Job, side_by_side};

use crate::device::tally::Tally;
use crate::model::wall::Clock;
use loader::Loader;

pub use target::{Target, parse};

/// The way of one thread to the device. Requests are known by their slot, below the job's depth.
pub trait Connection: Send {
    /// Ask for this in a free slot; `data` is a write's.
    fn ask(&mut self, slot: usize, io: Io, data: &[u8]) -> io::Result<()>;

    /// Send what has been asked, and wait until something has been done, or may have been, or it is `until`.
    fn wait(&mut self, until: Option<Time>, clock: &Clock) -> io::Result<()>;

    /// Add the slots that are done to `done`, and whether each has succeeded.
    fn reap(&mut self, done: &mut Vec<(usize, bool)>) -> io::Result<()>;

    /// Part from the server; nothing is under way.
    fn end(self) -> io::Result<()>;
}

/// What one thread has measured.
#[derive(Debug, Default)]
pub struct Measured {
    tally: Tally,
    starts_at: Time,
    last: Time,
}

/// What is to be asked of a target.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    jobs: &'a [Job],
    capacity_bytes: u64,
    seed: u64,
    stop: &'a AtomicBool,
}

/// Run `jobs` against the server at `target` until they are done or `stop` says so.
///
/// # Errors
/// If a connection cannot be made or breaks, or a job asks for transfers that the target does not take.
pub fn run(target: &dyn Target, jobs: &[Job], seed: u64, stop: &AtomicBool) -> io::Result<Outcome> {
    let capacity_bytes = target.limits()?.capacity_bytes;
    let measured = target.measure(&Load { jobs, capacity_bytes, seed, stop })?;
    Ok(outcome(target, jobs, seed, &measured, !stop.load(Ordering::Relaxed)))
}

impl Load<'_> {
    /// Every thread of every job with a connection of its own: what they have measured, with the places of their jobs.
    ///
    /// # Errors
    /// If a connection cannot be made, or breaks.
    pub fn measure<C: Connection>(
        &self,
        connect: impl Fn(&Job) -> io::Result<C>,
    ) -> io::Result<Vec<(usize, Measured)>> {
        let clock = Clock::start();
        let (mut measured, mut first) = (Vec::new(), 0);
        for jobs in side_by_side(self.jobs) {
            let of_group = self.measure_group(jobs, &clock, &connect)?;
            measured.extend(of_group.into_iter().map(|(place, measured)| (first + place, measured)));
            first += jobs.len();
        }
        Ok(measured)
    }

    /// The same for jobs that run at the same time.
    fn measure_group<C: Connection>(
        &self,
        jobs: &[Job],
        clock: &Clock,
        connect: &impl Fn(&Job) -> io::Result<C>,
    ) -> io::Result<Vec<(usize, Measured)>> {
        let &Load { capacity_bytes, seed, stop, .. } = self;
        let threads = (0..jobs.len()).flat_map(|place| (0..jobs[place].threads).map(move |number| (place, number)));
        let connected = threads.map(|(place, number)| Ok((place, number, connect(&jobs[place])?)));
        let connected = connected.collect::<io::Result<Vec<_>>>()?;
        let now = clock.now();
        let loaders = connected.into_iter().map(|(place, number, connection)| {
            let job = &jobs[place];
            let generator = Generator::new(job, number, capacity_bytes, seed);
            (place, Loader::new(connection, job, generator, now.max(Time::ZERO + job.start_delay)))
        });
        thread::scope(|scope| {
            let start = |(place, loader): (usize, Loader<C>)| {
                let clock = clock.clone();
                (place, scope.spawn(move || loader.run(&clock, stop)))
            };
            let running: Vec<_> = loaders.map(start).collect();
            let joined = running.into_iter().map(|(place, thread)| {
                let measured = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has failed")))?;
                Ok((place, measured))
            });
            joined.collect()
        })
    }
}

/// The longest transfer of a job, in bytes.
pub fn longest_bytes(job: &Job) -> u32 {
    let blocks = job.read_blocks.iter().chain(&job.write_blocks).map(|share| share.bytes);
    let replayed = job.trace.iter().map(|trace| trace.summary().largest_bytes);
    blocks.chain(replayed).max().unwrap_or(0)
}

fn outcome(target: &dyn Target, jobs: &[Job], seed: u64, measured: &[(usize, Measured)], finished: bool) -> Outcome {
    let errors = measured.iter().map(|(_, measured)| measured.tally.errors).sum();
    let last = measured.iter().map(|(_, measured)| measured.last).max().unwrap_or(Time::ZERO);
    Outcome {
        drive: target.to_string(),
        seed,
        elapsed: last.since(Time::ZERO),
        jobs: job_outcomes(jobs, measured),
        upstream: WireUse::default(),
        downstream: WireUse::default(),
        cpu: CpuUse::default(),
        energy: Energy::default(),
        memory_j: None,
        stack_stages: Vec::new(),
        counters: vec![("errors", errors)],
        events: 0,
        finished,
    }
}

fn job_outcomes(jobs: &[Job], measured: &[(usize, Measured)]) -> Vec<JobOutcome> {
    let groups = (0..).zip(side_by_side(jobs));
    let grouped = groups.flat_map(|(group, jobs)| jobs.iter().map(move |job| (group, job)));
    grouped.enumerate().map(|(place, (group, job))| job_outcome(place, group, job, measured)).collect()
}

fn job_outcome(place: usize, group: u32, job: &Job, measured: &[(usize, Measured)]) -> JobOutcome {
    let (mut sum, mut last, mut starts_at) = (Tally::default(), Time::ZERO, Time::NEVER);
    for (_, measured) in measured.iter().filter(|(of, _)| *of == place) {
        sum.merge(&measured.tally);
        last = last.max(measured.last);
        starts_at = starts_at.min(measured.starts_at);
    }
    let runtime: Span = last.since(starts_at).saturating_sub(job.ramp_time);
    JobOutcome {
        group,
        name: job.name.clone(),
        iodepth: job.iodepth,
        threads: job.threads,
        options: job.options(),
        read: sum.read.outcome(runtime),
        write: sum.write.outcome(runtime),
        ..JobOutcome::default()
    }
}
