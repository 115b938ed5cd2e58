//! Windows of a trace in which the drive is simulated, and the simulation of one.
//!
//! The trace is cut into as many parts as there are windows, and one window of consecutive requests is drawn from each part. The
//! first requests of a window bring queues up and do not count.

use super::tiers::{DriveAccess, RequestParts};
use crate::config::Precondition;
use crate::drive::Drive;
use crate::engine::{Engine, Input};
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

/// Times of the accesses in a window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowTimes {
    /// For each request, the time from its arrival until its last read was done; none if it read nothing.
    pub read_waits: Vec<Option<Span>>,
    /// Time from the first access to the last completion.
    pub busy: Span,
    /// Bytes that were read and written.
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

    /// Simulates a window with its requests at their own times or, if `is_closed`, as fast as the drive does them.
    pub fn run(&self, work: &WindowWork, is_closed: bool) -> WindowTimes {
        let CacheDrive { mut engine, threads } = self.clone();
        // Whatever the host does at its start is over by then.
        let start = engine.now() + Span::from_us(100);
        let arrival = |request: u32| {
            let at = work.requests[request as usize].at;
            start + if is_closed { Span::ZERO } else { at }
        };
        let waits = vec![None; work.requests.len()];
        let mut times = WindowTimes { read_waits: waits, busy: Span::ZERO, bytes: 0 };
        let mut done = 0;
        for (token, piece) in (0..).zip(&work.pieces) {
            let thread = threads[token as usize % threads.len()];
            times.bytes += u64::from(piece.io.bytes);
            engine.inject(arrival(piece.request), Input::Request { thread, io: piece.io, token });
            while let Some(completed) = engine.take_completed() {
                done += 1;
                let piece = &work.pieces[completed.token as usize];
                times.note(piece, completed.at.since(arrival(piece.request)), completed.at.since(start));
            }
        }
        while done < work.pieces.len() {
            let (_, completed) = engine.run_some_until_completed(Time::NEVER, EVENTS);
            let Some(completed) = completed else { continue };
            done += 1;
            let piece = &work.pieces[completed.token as usize];
            times.note(piece, completed.at.since(arrival(piece.request)), completed.at.since(start));
        }
        times
    }
}

impl WindowTimes {
    /// Notes an access that is done: how long after the arrival of its request, and how long after the start.
    fn note(&mut self, piece: &DrivePiece, wait: Span, since_start: Span) {
        if piece.io.op == Op::Read {
            let longest = &mut self.read_waits[piece.request as usize];
            *longest = Some(longest.map_or(wait, |longest| longest.max(wait)));
        }
        self.busy = self.busy.max(since_start);
    }
}

/// Adds the accesses of a request to a window.
pub(super) fn add_pieces(work: &mut WindowWork, drives: StripedDrives, access: &DriveAccess) {
    let request = short_length(work.requests.len());
    work.pieces.extend(drives.pieces(access).map(|io| DrivePiece { request, io }));
}
