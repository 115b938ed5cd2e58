//! Windows of a trace in which the drive is simulated, and the simulation of one.
//!
//! The trace is cut into as many parts as there are windows, and one window of consecutive requests is drawn from each part. The
//! first requests of a window bring queues up and do not count.

use super::tiers::{DriveAccess, RequestParts};
use crate::config::Precondition;
use crate::drive::Drive;
use crate::engine::{Completed, Engine, Input};
use crate::number::{narrow, short_length};
use crate::random::Random;
use crate::request::{Io, Op};
use crate::time::{Span, Time};

/// Requests of a window that count, at least and at most.
const COUNTED_MIN: u64 = 2;
const COUNTED_MAX: u64 = 64;
/// One request in so many leads in.
const LEAD_IN: u64 = 4;
/// Threads that issue the cache's accesses, and accesses in flight of each.
const THREADS: u32 = 8;
const DEPTH: u32 = 64;
/// Events between two looks at completions.
const EVENTS: u64 = 1 << 16;

/// Requests of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledWindow {
    /// Number of its first request.
    pub first: u64,
    /// Requests that do not count yet.
    pub lead_in: u64,
    /// Requests that count.
    pub counted: u64,
}

impl SampledWindow {
    /// Draws `windows` windows from `requests` requests, whose accesses are split into `pieces_per_request` pieces at most in the
    /// mean; a window has about `pieces` of them.
    pub fn draw(requests: u64, windows: u64, pieces_per_request: f64, pieces: u64, seed: u64) -> Vec<SampledWindow> {
        let mut random = Random::stream(seed, "windows");
        let windows = windows.min(requests / COUNTED_MIN).max(1);
        let part = requests / windows;
        let wanted = (pieces as f64 / pieces_per_request.max(1e-9)) as u64;
        let counted = wanted.clamp(COUNTED_MIN, COUNTED_MAX).min(part);
        let lead_in = (counted / LEAD_IN).max(1).min(part - counted);
        let room = part - counted - lead_in + 1;
        let first = |window: u64, random: &mut Random| window * part + (random.unit() * room as f64) as u64;
        (0..windows).map(|window| SampledWindow { first: first(window, &mut random), lead_in, counted }).collect()
    }

    /// Number of the request behind the last.
    pub fn end(&self) -> u64 {
        self.first + self.lead_in + self.counted
    }
}

/// A request of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowRequest {
    /// Arrival since the first request of the window.
    pub at: Span,
    /// True if the request counts.
    pub counts: bool,
    /// Cached and computed parts.
    pub parts: RequestParts,
}

/// A read or write of one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrivePiece {
    /// Place of its request in the window.
    pub request: u32,
    /// Operation, place and length.
    pub io: Io,
}

/// Everything that happens in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowWork {
    /// Requests in the order of arrival.
    pub requests: Vec<WindowRequest>,
    /// Accesses to one of the drives, in the order of their requests.
    pub pieces: Vec<DrivePiece>,
}

impl WindowWork {
    /// Every n-th access, so that there are so many at most: the mix of reads and writes stays that of the window.
    fn thinned(&self, pieces_max: usize) -> Vec<DrivePiece> {
        let stride = self.pieces.len().div_ceil(pieces_max.max(1)).max(1);
        self.pieces.iter().copied().step_by(stride).collect()
    }
}

/// Drives among which the tier's bytes are striped: chunks go to them in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripedDrives {
    /// Number of drives.
    pub count: u64,
    /// Bytes of a chunk, which are those of the largest piece as well.
    pub chunk_bytes: u64,
}

impl StripedDrives {
    /// Pieces of an access that go to the first drive.
    pub fn pieces(&self, access: &DriveAccess) -> impl Iterator<Item = Io> {
        let StripedDrives { count, chunk_bytes } = *self;
        let DriveAccess { op, offset, objects, object_bytes } = *access;
        let of_object = move |object: u64| {
            let (mut from, end) = (offset + object * object_bytes, offset + (object + 1) * object_bytes);
            std::iter::from_fn(move || {
                let chunk_end = (from / chunk_bytes + 1) * chunk_bytes;
                let piece = (from < end).then(|| (from, chunk_end.min(end)));
                from = chunk_end;
                piece
            })
        };
        let own = move |(from, to): (u64, u64)| {
            let chunk = from / chunk_bytes;
            let place = chunk / count * chunk_bytes + from % chunk_bytes;
            let io = Io { op, offset: place, bytes: narrow(to - from) };
            chunk.is_multiple_of(count).then_some(io)
        };
        (0..objects).flat_map(of_object).filter_map(own)
    }
}

/// Drive under the accesses of a cache, before the first of them.
#[derive(Clone, Debug)]
pub struct CacheDrive {
    engine: Engine,
    threads: Vec<u16>,
}

/// Times of the accesses in a window at their own times.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowTimes {
    /// For each request, the time from its arrival until its last read was done; none if it read nothing.
    pub read_waits: Vec<Option<Span>>,
}

/// Accesses of a window as fast as the drive does them, without those that bring queues up and fill buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullRateTimes {
    /// Time in which the accesses that count were done.
    pub busy: Span,
    /// Their bytes.
    pub bytes: u64,
}

impl CacheDrive {
    /// Sets up a drive in its steady state, if it has one and blocks are written.
    pub fn new(drive: &Drive, writes: bool, seed: u64) -> CacheDrive {
        let mut drive = drive.alone();
        if drive.translation.precondition == Precondition::Auto {
            drive.translation.precondition = if writes { Precondition::Random } else { Precondition::Sequential };
        }
        let mut engine = Engine::new(&drive, seed);
        let threads = THREADS.min(drive.host.processors().into()).max(1);
        let depth = DEPTH.min(drive.limits().queue_slots());
        let threads = (0..threads).map(|_| engine.add_client(depth)).collect();
        CacheDrive { engine, threads }
    }

    /// Simulates a window with its requests at their own times.
    pub fn run(&self, work: &WindowWork) -> WindowTimes {
        let arrival = |piece: &DrivePiece| work.requests[piece.request as usize].at;
        let mut read_waits = vec![None; work.requests.len()];
        self.complete(&work.pieces, arrival, |piece, done| {
            if piece.io.op == Op::Read {
                let (longest, wait) = (&mut read_waits[piece.request as usize], done - arrival(piece));
                *longest = Some(longest.map_or(wait, |longest: Span| longest.max(wait)));
            }
        });
        WindowTimes { read_waits }
    }

    /// Simulates accesses of a window, evenly chosen and `pieces_max` at most, as fast as the drive does them. The first part brings
    /// queues up and fills buffers, and does not count.
    pub fn run_at_full_rate(&self, work: &WindowWork, pieces_max: usize) -> FullRateTimes {
        let pieces = work.thinned(pieces_max);
        let lead_in = pieces.len() / LEAD_IN as usize;
        let (mut done_before, mut begin, mut times) = (0, Span::ZERO, FullRateTimes::default());
        self.complete(
            &pieces,
            |_| Span::ZERO,
            |piece, done| {
                match done_before < lead_in {
                    true => begin = done,
                    false => times.bytes += u64::from(piece.io.bytes),
                }
                times.busy = done - begin;
                done_before += 1;
            },
        );
        times
    }

    /// Simulates accesses until all are done. Times are since the start, once whatever the host does at its own start is over.
    fn complete(
        &self,
        pieces: &[DrivePiece],
        arrival: impl Fn(&DrivePiece) -> Span,
        mut on_done: impl FnMut(&DrivePiece, Span),
    ) {
        let CacheDrive { mut engine, threads } = self.clone();
        let start = engine.now() + Span::from_us(100);
        let mut left = pieces.len();
        let mut note = |completed: Completed| on_done(&pieces[completed.token as usize], completed.at.since(start));
        for (token, piece) in (0..).zip(pieces) {
            let thread = threads[token as usize % threads.len()];
            engine.inject(start + arrival(piece), Input::Request { thread, io: piece.io, token });
            while let Some(completed) = engine.take_completed() {
                note(completed);
                left -= 1;
            }
        }
        while left > 0 {
            let (_, completed) = engine.run_some_until_completed(Time::NEVER, EVENTS);
            if let Some(completed) = completed {
                note(completed);
                left -= 1;
            }
        }
    }
}

/// Adds the accesses of a request to a window.
pub(super) fn add_pieces(work: &mut WindowWork, drives: StripedDrives, access: &DriveAccess) {
    let request = short_length(work.requests.len());
    work.pieces.extend(drives.pieces(access).map(|io| DrivePiece { request, io }));
}
