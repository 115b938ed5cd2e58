//! Loading a device in shared memory: a thread's connection to it. It looks at what is under way, and sleeps only if nothing is.

use std::fmt;
use std::hint;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use phaselink_client::{Client, Options, Queue, Slot};
use phaselink_core::problem::Problem;
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::{Job, Limits};
use phaselink_ring::layout::{ENTRIES_MAX, TRANSFER_BYTES_MAX};

use super::CLIENTS_MAX;
use crate::bench::{Connection, Load, Measured, Target, longest_bytes};
use crate::front::Parsed;
use crate::model::wall::Clock;

/// Looks at everything under way before the caller is asked whether to stop.
const LOOKS: u32 = 4096;
/// Shorter pauses are spent looking, and longer ones slept in pieces of this: the caller is asked in between.
const SLEEP_MIN: Span = Span::from_us(60);
const SLEEP_MAX: Duration = Duration::from_millis(10);

/// The socket of a device.
#[derive(Debug)]
struct Socket(PathBuf);

/// Read an address.
pub(super) fn parse(text: &str) -> Option<Parsed> {
    Some(match text.strip_prefix("shm:")? {
        "" => Err(Problem::new(text, None, "the socket has no path", "shm:PATH")),
        path => Ok(Box::new(Socket(path.into()))),
    })
}

impl Target for Socket {
    /// Each thread is a client.
    fn limits(&self) -> io::Result<Limits> {
        let options = Options { depth: 1, transfer_bytes: 4096, writes: false, ..Options::default() };
        let client = Client::connect(&self.0, &options)?;
        let (capacity_bytes, block_bytes) = (client.capacity_bytes(), client.block_bytes());
        let (queue_pairs, queue_entries) = (CLIENTS_MAX as u32, ENTRIES_MAX);
        Ok(Limits { queue_pairs, queue_entries, ..Limits::new(capacity_bytes, block_bytes) })
    }

    fn measure(&self, load: &Load<'_>) -> io::Result<Vec<(usize, Measured)>> {
        load.measure(|job| Line::connect(&self.0, job))
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shm:{}", self.0.display())
    }
}

/// A request under way.
struct Asked {
    slot: usize,
    place: Slot,
    /// Bytes of data to copy out at its end: those of a read.
    bytes: usize,
}

/// A connection with one queue.
pub(super) struct Line {
    queue: Queue,
    /// In the order of asking, so that what is done first is looked at first.
    under_way: Vec<Asked>,
    done: Vec<(usize, bool)>,
    into: Vec<u8>,
}

impl Line {
    pub(super) fn connect(path: &Path, job: &Job) -> io::Result<Line> {
        let bytes = longest_bytes(job);
        if bytes > TRANSFER_BYTES_MAX {
            let found = format!("{}: a request of {bytes} bytes; at most {TRANSFER_BYTES_MAX} fit the ring", job.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, found));
        }
        let transfer_bytes = bytes.next_multiple_of(512).max(512);
        let options = Options { queues: 1, depth: job.iodepth, transfer_bytes, writes: writes(job) };
        let queue = Client::connect(path, &options)?.take_queue();
        let queue = queue.ok_or_else(|| io::Error::other("the device gives no queue"))?;
        Ok(Line { queue, under_way: Vec::new(), done: Vec::new(), into: vec![0; bytes as usize] })
    }

    /// Look at everything under way once.
    fn look(&mut self) -> io::Result<()> {
        let Line { queue, under_way, done, into } = self;
        let mut broken = None;
        under_way.retain(|asked| match queue.complete(asked.place, &mut into[..asked.bytes]) {
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

/// Whether a job may write: a read-only share refuses clients that would.
fn writes(job: &Job) -> bool {
    job.read_percent < 100.0 || job.trace.as_ref().is_some_and(|trace| trace.summary().has_writes())
}

impl Connection for Line {
    fn ask(&mut self, slot: usize, io: Io, data: &[u8]) -> io::Result<()> {
        let (place, bytes) = match io.op {
            Op::Read => (self.queue.submit_read(io.offset, io.bytes)?, io.bytes as usize),
            Op::Write => (self.queue.submit_write(io.offset, data)?, 0),
            op => return Err(io::Error::other(format!("a queue in shared memory has no {}", op.name()))),
        };
        let place = place.ok_or_else(|| io::Error::other("the queue is full"))?;
        self.under_way.push(Asked { slot, place, bytes });
        Ok(())
    }

    fn wait(&mut self, until: Option<Time>, clock: &Clock) -> io::Result<()> {
        for _ in 0..LOOKS {
            self.look()?;
            if !self.done.is_empty() {
                return Ok(());
            }
            if let Some(until) = until {
                let left = until.since(clock.now());
                if left > SLEEP_MIN && self.under_way.is_empty() {
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
