//! Targets of a benchmark: traits that the client side of a front-end implements, and the threads of jobs that load it.

use std::fmt;
use std::io;
use std::sync::atomic::AtomicBool;
use std::thread;

use phaselink_core::ledger::Latency;
use phaselink_core::request::Io;
use phaselink_core::time::Time;
use phaselink_core::workload::{Job, Limits, RequestGenerator, side_by_side};

use super::loader::LoadThread;
use crate::clock::Clock;
use crate::device::tally::Tally;

/// Address of a served drive, in the form that `phaselink serve` prints.
pub trait Target: fmt::Debug + fmt::Display {
    /// Returns the limits that jobs must meet at this address, such as the drive's capacity. A device that can be
    /// flushed counts as volatile.
    ///
    /// # Errors
    /// If no server answers at the address.
    fn limits(&self) -> io::Result<Limits>;

    /// Runs the load with one connection per thread. Returns a pair for each thread: the index of its job and its
    /// measurement.
    ///
    /// # Errors
    /// If a connection cannot be made or breaks, or a job asks for transfers that the server does not take.
    fn measure(&self, load: &Load<'_>) -> io::Result<Vec<(usize, Measurement)>>;
}

/// Connection of one thread of a job to the server. A request is identified by its slot, a number below the job's
/// iodepth.
pub trait LoadConnection: Send {
    /// Prepares a request in a free slot, which the next `wait` sends. `data` holds the bytes of a write; it is empty
    /// otherwise.
    ///
    /// # Errors
    /// If the connection breaks.
    fn submit(&mut self, slot: usize, io: Io, data: &[u8]) -> io::Result<()>;

    /// Sends all prepared requests. Waits until a request may have completed, or until the clock shows `until`.
    ///
    /// # Errors
    /// If the connection breaks.
    fn wait(&mut self, until: Option<Time>, clock: &Clock) -> io::Result<()>;

    /// Adds the slot of each completed request to `completed`, with true if the request succeeded.
    ///
    /// # Errors
    /// If the connection breaks.
    fn reap(&mut self, completed: &mut Vec<(usize, bool)>) -> io::Result<()>;

    /// Disconnects from the server. No request may be in flight.
    ///
    /// # Errors
    /// If the connection is broken already.
    fn end(self) -> io::Result<()>;
}

/// Counts and latencies that one thread of a job has measured.
#[derive(Debug, Default)]
pub struct Measurement {
    pub(super) tally: Tally,
    /// Latencies of the job's queries, each from the planned instant of its first request to the last completion.
    pub(super) queries: Latency,
    pub(super) starts_at: Time,
    /// Instant at which the thread saw its last completion.
    pub(super) last: Time,
}

/// Jobs to run against one server, with the capacity of its drive and the seed of the requests.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    pub(super) jobs: &'a [Job],
    pub(super) capacity_bytes: u64,
    pub(super) seed: u64,
    /// Flag that ends the load early when it becomes true.
    pub(super) stop: &'a AtomicBool,
}

impl Load<'_> {
    /// Runs every thread of every job, each with a connection that `connect` makes. Returns a pair for each thread: the
    /// index of its job and its measurement.
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

    /// Runs one group of jobs at the same time. Returns a pair for each thread: the index of its job within the group,
    /// and its measurement.
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
            let generator = RequestGenerator::new(job, number, capacity_bytes, seed);
            (place, LoadThread::new(connection, job, generator, now.max(Time::ZERO + job.start_delay)))
        });
        thread::scope(|scope| {
            let start = |(place, loader): (usize, LoadThread<C>)| {
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

/// Returns the length of the longest request of a job, in bytes.
pub fn max_request_bytes(job: &Job) -> u32 {
    let blocks = job.read_blocks.iter().chain(&job.write_blocks).map(|share| share.bytes);
    let replayed = job.trace.iter().map(|trace| trace.summary().largest_bytes);
    blocks.chain(replayed).max().unwrap_or(0)
}
