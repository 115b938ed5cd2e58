//! Targets of a benchmark: what a front-end's client side implements, and how threads of jobs load it.

use std::fmt;
use std::io;
use std::sync::atomic::AtomicBool;
use std::thread;

use phaselink_core::ledger::Latency;
use phaselink_core::request::Io;
use phaselink_core::time::Time;
use phaselink_core::workload::{Generator, Job, Limits, side_by_side};

use super::loader::Loader;
use crate::clock::Clock;
use crate::device::tally::Tally;

/// Address of a served drive, in the form that `phaselink serve` prints.
pub trait Target: fmt::Debug + fmt::Display {
    /// Returns what jobs may ask for at this address: a device is volatile if it can be flushed.
    ///
    /// # Errors
    /// If no server answers there.
    fn limits(&self) -> io::Result<Limits>;

    /// Gives each thread of the load a connection, and returns what each has measured, with the place of its job.
    ///
    /// # Errors
    /// If a connection cannot be made or breaks, or a job asks for transfers that the server does not take.
    fn measure(&self, load: &Load<'_>) -> io::Result<Vec<(usize, Measurement)>>;
}

/// Connection of one thread of a job to the served device. Requests are known by their slot, below the job's depth.
pub trait LoadConnection: Send {
    /// Prepares a request in a free slot; `data` is that of a write.
    ///
    /// # Errors
    /// If the connection breaks.
    fn submit(&mut self, slot: usize, io: Io, data: &[u8]) -> io::Result<()>;

    /// Sends all prepared requests, and waits until one may have completed, or until the instant `until`.
    ///
    /// # Errors
    /// If the connection breaks.
    fn wait(&mut self, until: Option<Time>, clock: &Clock) -> io::Result<()>;

    /// Adds the slots of completed requests to `completed`, each with true if it has succeeded.
    ///
    /// # Errors
    /// If the connection breaks.
    fn reap(&mut self, completed: &mut Vec<(usize, bool)>) -> io::Result<()>;

    /// Disconnects from the server; no request is in flight.
    ///
    /// # Errors
    /// If the connection is broken already.
    fn end(self) -> io::Result<()>;
}

/// Measurement of one thread.
#[derive(Debug, Default)]
pub struct Measurement {
    pub(super) tally: Tally,
    /// Latencies of queries.
    pub(super) queries: Latency,
    pub(super) starts_at: Time,
    /// Instant of the last completion.
    pub(super) last: Time,
}

/// Jobs for a target.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    pub(super) jobs: &'a [Job],
    pub(super) capacity_bytes: u64,
    pub(super) seed: u64,
    /// Ends the load when it becomes true.
    pub(super) stop: &'a AtomicBool,
}

impl Load<'_> {
    /// Runs every thread of every job with a connection of its own. Returns what each has measured, with the place of its job.
    ///
    /// # Errors
    /// If a connection cannot be made, or breaks.
    pub fn measure<C: LoadConnection>(
        &self,
        connect: impl Fn(&Job) -> io::Result<C>,
    ) -> io::Result<Vec<(usize, Measurement)>> {
        let clock = Clock::start();
        let (mut measured, mut first) = (Vec::new(), 0);
        for jobs in side_by_side(self.jobs) {
            let of_group = self.measure_group(jobs, &clock, &connect)?;
            measured.extend(of_group.into_iter().map(|(place, measured)| (first + place, measured)));
            first += jobs.len();
        }
        Ok(measured)
    }

    /// Runs jobs that run at the same time.
    fn measure_group<C: LoadConnection>(
        &self,
        jobs: &[Job],
        clock: &Clock,
        connect: &impl Fn(&Job) -> io::Result<C>,
    ) -> io::Result<Vec<(usize, Measurement)>> {
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

/// Returns the longest transfer of a job, in bytes.
pub fn longest_bytes(job: &Job) -> u32 {
    let blocks = job.read_blocks.iter().chain(&job.write_blocks).map(|share| share.bytes);
    let replayed = job.trace.iter().map(|trace| trace.summary().largest_bytes);
    blocks.chain(replayed).max().unwrap_or(0)
}
