//! Sampled windows of a trace in which the drive is simulated.
//!
//! The trace is divided into as many parts as there are windows, and one window of consecutive requests is drawn from
//! each part. The first requests of a window are a warm-up that fills queues, and do not count.

use super::tiers::{DriveAccess, RequestBlockParts};
use phaselink_core::config::Precondition;
use phaselink_core::drive::Drive;
use phaselink_core::engine::{Completed, Engine, Input};
use phaselink_core::number::{index, narrow, real, short_length, whole, wide_index};
use phaselink_core::random::Random;
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};

/// Smallest number of counted requests in a sampled window; `COUNTED_MAX` is the largest.
const COUNTED_MIN: u64 = 2;
const COUNTED_MAX: u64 = 64;
/// Divisor of the warm-up: one request for every so many counted ones in a window, or one of so many accesses.
const LEAD_IN: u64 = 4;
/// Number of threads that submit the cache's accesses. The next constant is the queue depth of each.
const THREADS: u32 = 8;
const DEPTH: u32 = 64;
/// Number of simulated events after which the loop checks for completions at the latest.
const EVENTS: u64 = 1 << 16;

/// Range of consecutive requests of a trace that is simulated, as request numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledWindow {
    /// Number in the trace of the first request of this sampled window, from 0.
    pub first: u64,
    /// Number of warm-up requests at the start of the sampled window, which do not count.
    pub lead_in: u64,
    /// Number of requests in the sampled window that count, after the warm-up.
    pub counted: u64,
}

impl SampledWindow {
    /// Draws at most `windows` windows from `requests` requests, one from each equal part. A request has about
    /// `pieces_per_request` drive accesses; each window counts as many requests as make about `pieces` accesses.
    pub fn draw(requests: u64, windows: u64, pieces_per_request: f64, pieces: u64, seed: u64) -> Vec<SampledWindow> {
        let mut random = Random::stream(seed, "windows");
        let windows = windows.min(requests / COUNTED_MIN).max(1);
        let part = requests / windows;
        let wanted = whole(real(pieces) / pieces_per_request.max(1e-9));
        let counted = wanted.clamp(COUNTED_MIN, COUNTED_MAX).min(part);
        let lead_in = (counted / LEAD_IN).max(1).min(part - counted);
        let room = part - counted - lead_in + 1;
        let first = |window: u64, random: &mut Random| window * part + whole(random.unit() * real(room));
        (0..windows).map(|window| SampledWindow { first: first(window, &mut random), lead_in, counted }).collect()
    }

    /// Returns the number in the trace of the first request after this sampled window.
    pub fn end(&self) -> u64 {
        self.first + self.lead_in + self.counted
    }
}

/// Request of a sampled window, with its arrival and the cached and computed blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowRequest {
    /// Arrival time of the request since the first request of its window.
    pub at: Span,
    /// True if the request counts; false in the warm-up at the start of the window.
    pub counts: bool,
    /// Cached and computed blocks of the request.
    pub parts: RequestBlockParts,
}

/// Read or write of one drive, as part of a request in a sampled window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrivePiece {
    /// Index in its window of the request that this access belongs to.
    pub request: u32,
    /// Operation of the access, its offset on the drive, and its length in bytes.
    pub io: Io,
}

/// Work of a sampled window: its requests, and their accesses to the first drive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowWork {
    /// Requests of the sampled window in the order of arrival.
    pub requests: Vec<WindowRequest>,
    /// Accesses of the window to the first of the striped drives, in the order of their requests.
    pub pieces: Vec<DrivePiece>,
}

impl WindowWork {
    /// Returns every n-th drive access of the sampled window, at most `pieces_max`. Even spacing keeps the mix of reads
    /// and writes.
    fn evenly_spaced_accesses(&self, pieces_max: usize) -> Vec<DrivePiece> {
        let stride = self.pieces.len().div_ceil(pieces_max.max(1)).max(1);
        self.pieces.iter().copied().step_by(stride).collect()
    }
}

/// Drives over which the cache's data is striped: consecutive chunks go to the drives in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripedDrives {
    /// Number of drives over which the cache's data is striped.
    pub count: u64,
    /// Bytes of a chunk, the largest access that one drive gets.
    pub chunk_bytes: u64,
}

impl StripedDrives {
    /// Returns the parts of a cache access that go to the first drive, as reads or writes at offsets on that drive.
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

/// Simulated drive in its initial state, with the threads that submit a cache's accesses to it.
#[derive(Clone, Debug)]
pub struct CacheDrive {
    engine: Engine,
    threads: Vec<u16>,
}

/// Read waits of a sampled window whose requests are simulated at the arrival times of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowTimes {
    /// Time from a request's arrival until its last drive read completes, for each request; `None` if it reads nothing.
    pub read_waits: Vec<Option<Span>>,
}

/// Time and bytes of a window's accesses when the drive runs at full rate, without the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullRateResult {
    /// Time from the end of the warm-up until all drive accesses of the sampled window are complete.
    pub busy: Span,
    /// Bytes of the drive accesses in a sampled window after the warm-up, reads and writes together.
    pub bytes: u64,
}

impl CacheDrive {
    /// Returns a drive ready to simulate windows. If the drive leaves preconditioning open, it is random for a cache
    /// that writes (steady state), sequential otherwise.
    pub fn new(drive: &Drive, writes: bool, seed: u64) -> CacheDrive {
        let mut drive = drive.as_only_drive();
        if drive.translation.precondition == Precondition::Auto {
            drive.translation.precondition = if writes { Precondition::Random } else { Precondition::Sequential };
        }
        let mut engine = Engine::new(&drive, seed);
        let threads = THREADS.min(drive.host.processors().into()).max(1);
        let depth = DEPTH.min(drive.limits().queue_capacity());
        let threads = (0..threads).map(|_| engine.add_client(depth)).collect();
        CacheDrive { engine, threads }
    }

    /// Simulates a sampled window with its requests at the arrival times of the trace. Returns their waits for drive
    /// reads.
    pub fn run(&self, work: &WindowWork) -> WindowTimes {
        let arrival = |piece: &DrivePiece| work.requests[index(piece.request)].at;
        let mut read_waits = vec![None; work.requests.len()];
        self.complete(&work.pieces, arrival, |piece, done| {
            if piece.io.op == Op::Read {
                let (longest, wait) = (&mut read_waits[index(piece.request)], done - arrival(piece));
                *longest = Some(longest.map_or(wait, |longest: Span| longest.max(wait)));
            }
        });
        WindowTimes { read_waits }
    }

    /// Simulates accesses of a window at full rate: all arrive at time 0. At most `pieces_max` evenly chosen accesses
    /// run. A warm-up fills queues and buffers, and does not count.
    pub fn simulate_at_full_rate(&self, work: &WindowWork, pieces_max: usize) -> FullRateResult {
        let pieces = work.evenly_spaced_accesses(pieces_max);
        let lead_in = pieces.len() / wide_index(LEAD_IN);
        let (mut done_before, mut begin, mut times) = (0, Span::ZERO, FullRateResult::default());
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

    /// Simulates accesses until all complete, from the drive's initial state. Calls `on_done` with each access and its
    /// completion time, which counts from 100 us after that state.
    fn complete(
        &self,
        pieces: &[DrivePiece],
        arrival: impl Fn(&DrivePiece) -> Span,
        mut on_done: impl FnMut(&DrivePiece, Span),
    ) {
        let CacheDrive { mut engine, threads } = self.clone();
        let start = engine.now() + Span::from_us(100);
        let mut left = pieces.len();
        let mut note = |completed: Completed| on_done(&pieces[index(completed.token)], completed.at.since(start));
        for (token, piece) in (0..).zip(pieces) {
            let thread = threads[index(token) % threads.len()];
            engine.inject(start + arrival(piece), Input::Request { thread, io: piece.io, token });
            while let Some(completed) = engine.take_completed() {
                note(completed);
                left -= 1;
            }
        }
        while left > 0 {
            let (_, completed) = engine.run_events_until_completed(Time::NEVER, EVENTS);
            if let Some(completed) = completed {
                note(completed);
                left -= 1;
            }
        }
    }
}

/// Adds the parts of a cache access that go to the first drive to a window, for the request that is added next.
pub(super) fn add_first_drive_pieces(work: &mut WindowWork, drives: StripedDrives, access: &DriveAccess) {
    let request = short_length(work.requests.len());
    work.pieces.extend(drives.pieces(access).map(|io| DrivePiece { request, io }));
}
