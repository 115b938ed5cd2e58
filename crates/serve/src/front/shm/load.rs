//! Client's end of shared memory for benchmarks: one queue per thread, which spins while requests are in flight.

use std::fmt;
use std::hint;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use phaselink_client::{Client, Options, Queue, Slot};
use phaselink_core::number::index;
use phaselink_core::problem::Problem;
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::{Job, Limits};
use phaselink_ring::layout::{ENTRIES_MAX, TRANSFER_BYTES_MAX};

use super::share::CLIENTS_MAX;
use crate::bench::target::{Load, LoadConnection, Measurement, Target, max_request_bytes};
use crate::clock::Clock;
use crate::front::kind::ParsedBenchTarget;

/// Number of polls of all requests in flight before a wait returns, so that the caller can check for a request to stop.
const ROUNDS: u32 = 4096;
/// Shortest time to the next request for which a thread sleeps; it spins during the last part, and during shorter
/// times.
const SLEEP_MIN: Span = Span::from_us(60);
/// Longest sleep of a benchmark thread, after which the caller checks for a request to stop.
const SLEEP_MAX: Duration = Duration::from_millis(10);

/// Path of the socket of a device in shared memory, as a benchmark target.
#[derive(Debug)]
struct ShmTarget(PathBuf);

/// Parses the address of a device in shared memory; returns none if the text does not begin with `shm:`.
pub(super) fn parse(text: &str) -> Option<ParsedBenchTarget> {
    Some(match text.strip_prefix("shm:")? {
        "" => Err(Problem::new(text, None, "the socket has no path", "shm:PATH")),
        path => Ok(Box::new(ShmTarget(path.into()))),
    })
}

impl Target for ShmTarget {
    /// Returns the limits of the drive, with as many queues as the server allows clients: each thread is a client with
    /// one queue.
    fn limits(&self) -> io::Result<Limits> {
        let options = Options { depth: 1, transfer_bytes: 4096, writes: false, ..Options::default() };
        let client = Client::connect(&self.0, &options)?;
        let (capacity_bytes, block_bytes) = (client.capacity_bytes(), client.block_bytes());
        let (queue_pairs, queue_entries) = (CLIENTS_MAX as u32, ENTRIES_MAX);
        Ok(Limits { queue_pairs, queue_entries, ..Limits::new(capacity_bytes, block_bytes).flushed(true) })
    }

    fn measure(&self, load: &Load<'_>) -> io::Result<Vec<(usize, Measurement)>> {
        load.measure(|job| LoadQueue::connect(&self.0, job))
    }
}

impl fmt::Display for ShmTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shm:{}", self.0.display())
    }
}

/// Request of a benchmark thread that is in flight.
struct LoadRequest {
    slot: usize,
    place: Slot,
    /// Number of bytes of a read that are copied out when it completes; 0 for other requests.
    bytes: usize,
}

/// Queue of one benchmark thread, with its requests in flight.
pub(super) struct LoadQueue {
    queue: Queue,
    /// Requests in flight in the order of submission, so that the first to complete is polled first.
    in_flight: Vec<LoadRequest>,
    done: Vec<(usize, bool)>,
    into: Vec<u8>,
}

impl LoadQueue {
    pub(super) fn connect(path: &Path, job: &Job) -> io::Result<LoadQueue> {
        let bytes = max_request_bytes(job);
        if bytes > TRANSFER_BYTES_MAX {
            let found = format!("{}: a request of {bytes} bytes; at most {TRANSFER_BYTES_MAX} fit the ring", job.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, found));
        }
        let transfer_bytes = bytes.next_multiple_of(512).max(512);
        let options = Options { queues: 1, depth: job.iodepth, transfer_bytes, writes: writes(job) };
        let queue = Client::connect(path, &options)?.take_queue();
        let queue = queue.ok_or_else(|| io::Error::other("the device gives no queue"))?;
        Ok(LoadQueue { queue, in_flight: Vec::new(), done: Vec::new(), into: vec![0; index(bytes)] })
    }

    /// Polls every request in flight once, and moves those that have completed to `done`.
    fn poll_in_flight(&mut self) -> io::Result<()> {
        let LoadQueue { queue, in_flight, done, into } = self;
        let mut broken = None;
        in_flight.retain(|asked| match queue.complete(asked.place, &mut into[..asked.bytes]) {
            Ok(false) => true,
            Ok(true) => {
                done.push((asked.slot, true));
                false
            }
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                broken = Some(error);
                true
            }
            Err(_) => {
                done.push((asked.slot, false));
                false
            }
        });
        broken.map_or(Ok(()), Err)
    }
}

/// Returns true if a job may write. A read-only share refuses clients that may write.
fn writes(job: &Job) -> bool {
    job.read_percent < 100.0 || job.trace.as_ref().is_some_and(|trace| trace.summary().has_writes())
}

impl LoadConnection for LoadQueue {
    fn submit(&mut self, slot: usize, io: Io, data: &[u8]) -> io::Result<()> {
        let (place, bytes) = match io.op {
            Op::Read => (self.queue.submit_read(io.offset, io.bytes)?, index(io.bytes)),
            Op::Write => (self.queue.submit_write(io.offset, data)?, 0),
            Op::Flush => (self.queue.submit_flush()?, 0),
            op => return Err(io::Error::other(format!("a queue in shared memory has no {}", op.name()))),
        };
        let place = place.ok_or_else(|| io::Error::other("the queue is full"))?;
        self.in_flight.push(LoadRequest { slot, place, bytes });
        Ok(())
    }

    fn wait(&mut self, until: Option<Time>, clock: &Clock) -> io::Result<()> {
        for _ in 0..ROUNDS {
            self.poll_in_flight()?;
            if !self.done.is_empty() {
                return Ok(());
            }
            if let Some(until) = until {
                let left = until.since(clock.now());
                if left > SLEEP_MIN && self.in_flight.is_empty() {
                    let pause = left.saturating_sub(SLEEP_MIN);
                    thread::sleep(Duration::from_nanos(pause.as_ps() / 1000).min(SLEEP_MAX));
                    return Ok(());
                }
                if left == Span::ZERO {
                    return Ok(());
                }
            }
            hint::spin_loop();
        }
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<(usize, bool)>) -> io::Result<()> {
        done.append(&mut self.done);
        Ok(())
    }

    fn end(self) -> io::Result<()> {
        Ok(())
    }
}
