//! Replays of a recorded application on other drives: each request waits for the event for which it waited when it was
//! recorded.
//!
//! A recording states when requests arrived, not why. [`depend`] infers it: a request waits for the completion that
//! came last before its arrival, and for the time between the two, in which the application computed or slept.
//! [`AttachedDrive::replay`] then issues each request that long after the completion of the same request on another
//! drive. A faster drive thus makes the application faster; pauses stay, and requests that were in flight together
//! still are.

mod answer;
mod question;
mod words;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use answer::{DrivePays, RankedDrive, WhatIfAnswer};
pub use question::{RecordedDrive, Recording, WhatIfQuestion, WhatIfStudy};

use phaselink_core::drive::Drive;
use phaselink_core::engine::{Engine, Input};
use phaselink_core::number::{index, length, real, real_length, short_length, whole, wide_index};
use phaselink_core::random::Random;
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::trace::{TimedTraceRequest, TraceRequests};

/// Largest number of requests in flight in a replay.
const DEPTH: u32 = 32;
/// Time from the start of the simulated machine to the first request, in which the host finishes its own start.
const START: Span = Span::from_us(100);

/// Window of a recorded block trace: consecutive requests, of which the first arrives at time zero.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedWindow {
    /// Requests of this window of a recorded block trace, in the order of arrival.
    pub requests: Vec<TimedTraceRequest>,
    /// Recorded time from the window's first request to the request that follows its last, or to the last one of the
    /// recording.
    pub recorded: Span,
}

/// Draws windows at random from a recording: one with all of it if it has at most `requests` requests. Otherwise draws
/// `windows` windows with `requests` requests together, one from each of as many equal parts of the recording.
pub fn windows(recording: &TraceRequests, requests: u64, windows: u64, seed: u64) -> Vec<RecordedWindow> {
    let all = recording.summary().request_count_with_flushes();
    let (windows, length) = if all <= requests { (1, all) } else { (windows, (requests / windows).max(1)) };
    let part = all / windows;
    let mut random = Random::stream(seed, "windows of a recording");
    let mut first = |window: u64| window * part + whole(random.unit() * real(part - length + 1));
    let firsts: Vec<u64> = (0..windows).map(&mut first).collect();
    let mut drawn: Vec<RecordedWindow> = Vec::new();
    let mut place = 0;
    for (number, entry) in (0u64..).zip(recording.iter()) {
        while firsts.get(place).is_some_and(|first| number >= first + length) {
            end(&mut drawn[place], entry.at);
            place += 1;
        }
        match firsts.get(place) {
            None => break,
            Some(first) if number < *first => {}
            Some(first) => {
                if number == *first {
                    drawn.push(RecordedWindow { requests: Vec::new(), recorded: Span::ZERO });
                }
                drawn[place].requests.push(entry);
            }
        }
    }
    if let Some(last) = drawn.get_mut(place) {
        let at = last.requests[last.requests.len() - 1].at;
        end(last, at);
    }
    drawn
}

/// Ends a window before a request that arrives at `at`, and makes its arrival times count from its first request.
fn end(window: &mut RecordedWindow, at: Time) {
    let first = window.requests[0].at;
    window.recorded = at.since(first);
    window.requests.iter_mut().for_each(|entry| entry.at = Time::ZERO + entry.at.since(first));
}

/// Request of a replay, with the completion for which it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DependentRequest {
    /// Operation, offset and length of the request.
    pub io: Io,
    /// Index of the request for whose completion this one waits; none if it waits for the start of the replay.
    pub waits_for: Option<u32>,
    /// Pause before this request: time from the completion for which it waits, or from the start of the replay, to its
    /// arrival.
    pub pause: Span,
}

/// Infers the completion for which each request waits, from the times at which requests arrived and completed (`done`)
/// on the recorded system. If the recorder's drive took no time, `done` are the arrival times.
pub fn infer_dependences(requests: &[TimedTraceRequest], done: &[Time]) -> Vec<DependentRequest> {
    let mut in_flight: BinaryHeap<Reverse<(Time, u32)>> = BinaryHeap::new();
    let mut last: Option<(Time, u32)> = None;
    let mut dependent = Vec::with_capacity(requests.len());
    for (place, (entry, done)) in (0u32..).zip(requests.iter().zip(done)) {
        // Requests that complete at the arrival time of another request do not precede it.
        while let Some(Reverse(completed)) = in_flight.peek().copied().filter(|Reverse((at, _))| *at < entry.at) {
            last = Some(completed);
            in_flight.pop();
        }
        let since = last.map_or(Time::ZERO, |(at, _)| at);
        let waits_for = last.map(|(_, place)| place);
        dependent.push(DependentRequest { io: entry.io, waits_for, pause: entry.at.since(since) });
        in_flight.push(Reverse((*done, place)));
    }
    dependent
}

/// Number and summed latency of the reads, of the writes or of the flushes of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencySums {
    /// Number of requests of this kind.
    pub requests: u64,
    /// Sum of the latencies of the requests in seconds.
    pub seconds: f64,
}

impl LatencySums {
    /// Returns the mean latency in seconds; none without requests.
    pub fn mean_s(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.seconds / real(self.requests))
    }
}

/// Result of replaying a window (consecutive requests of a recorded block trace) on a drive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayedWindow {
    /// Time at which each request completed, counted from the start of the replay.
    pub done: Vec<Time>,
    /// Time from the start of the replay until the last request completed.
    pub elapsed: Span,
    /// Time in which at least one request was in flight.
    pub waited: Span,
    /// Latencies of reads, of writes and of flushes, in this order.
    pub latencies: [LatencySums; 3],
}

/// Simulated drive before the first request of a replay.
#[derive(Clone, Debug)]
pub struct AttachedDrive {
    engine: Engine,
    thread: u16,
    has_flush: bool,
}

impl AttachedDrive {
    /// Sets up a drive with an empty write buffer for replays.
    pub fn new(drive: &Drive, seed: u64) -> AttachedDrive {
        let drive = drive.preconditioned_for(&[]);
        let mut engine = Engine::new(&drive, seed);
        let limits = drive.limits();
        let thread = engine.add_client(DEPTH.min(limits.queue_capacity()));
        AttachedDrive { engine, thread, has_flush: limits.supports(Op::Flush) && limits.is_volatile }
    }

    /// Issues each request at its recorded time, whether or not earlier ones have completed, and returns the completion
    /// times and latencies. `None` if the drive leaves requests incomplete.
    pub fn replay_at_recorded_times(&self, requests: &[TimedTraceRequest]) -> Option<ReplayedWindow> {
        let at_start = |entry: &TimedTraceRequest| DependentRequest {
            io: entry.io,
            waits_for: None,
            pause: entry.at.since(Time::ZERO),
        };
        self.replay(&requests.iter().map(at_start).collect::<Vec<_>>())
    }

    /// Issues each request once the completion for which it waits has happened and its pause has passed. `None` if the
    /// drive leaves requests incomplete.
    pub fn replay(&self, requests: &[DependentRequest]) -> Option<ReplayedWindow> {
        let AttachedDrive { mut engine, thread, has_flush } = self.clone();
        let start = Time::ZERO + START;
        let mut replay = DependentReplay::new(requests, start);
        while let Some(at) = replay.run_until_next_due(&mut engine) {
            let Some(place) = replay.pop(at) else { continue };
            let io = requests[index(place)].io;
            replay.issued[index(place)] = at;
            // If acknowledged writes are durable, the drive has no flush command, so complete the flush at once.
            match io.op == Op::Flush && !has_flush {
                true => replay.complete(place, at),
                false => engine.inject(at, Input::Request { thread, io, token: place }),
            }
            while let Some(completed) = engine.take_completed() {
                replay.complete(completed.token, completed.at);
            }
        }
        replay.result(start)
    }
}

/// State of a replay in progress.
struct DependentReplay<'a> {
    requests: &'a [DependentRequest],
    /// For each request, indices of the requests that wait for its completion.
    waiting: Vec<Vec<u32>>,
    /// Time and index of each request that is due to be issued, the earliest first.
    due: BinaryHeap<Reverse<(Time, u32)>>,
    issued: Vec<Time>,
    done: Vec<Option<Time>>,
    open: usize,
}

impl<'a> DependentReplay<'a> {
    fn new(requests: &'a [DependentRequest], start: Time) -> DependentReplay<'a> {
        let mut waiting = vec![Vec::new(); requests.len()];
        let mut due = BinaryHeap::new();
        for (place, request) in (0u32..).zip(requests) {
            match request.waits_for {
                Some(other) => waiting[index(other)].push(place),
                None => due.push(Reverse((start + request.pause, place))),
            }
        }
        let (issued, done) = (vec![start; requests.len()], vec![None; requests.len()]);
        DependentReplay { requests, waiting, due, issued, done, open: requests.len() }
    }

    /// Runs the drive until the next request is due, and returns that time. `None` if all requests have completed, or if
    /// nothing is left that could complete one.
    fn run_until_next_due(&mut self, engine: &mut Engine) -> Option<Time> {
        while self.open > 0 {
            let until = self.due.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
            let (is_through, completed) = engine.run_events_until_completed(until, u64::MAX);
            match completed {
                Some(completed) => self.complete(completed.token, completed.at),
                None if is_through => return (until < Time::NEVER).then_some(until),
                None => {}
            }
        }
        None
    }

    fn pop(&mut self, at: Time) -> Option<u32> {
        let Reverse((due, place)) = self.due.pop()?;
        assert!(due == at, "the request that is due is the next one");
        Some(place)
    }

    fn complete(&mut self, place: u32, at: Time) {
        self.done[index(place)] = Some(at);
        self.open -= 1;
        for other in std::mem::take(&mut self.waiting[index(place)]) {
            self.due.push(Reverse((at + self.requests[index(other)].pause, other)));
        }
    }

    fn result(&self, start: Time) -> Option<ReplayedWindow> {
        let done = self.done.iter().copied().collect::<Option<Vec<Time>>>()?;
        let mut result = ReplayedWindow { waited: self.time_in_flight(&done), ..ReplayedWindow::default() };
        for ((request, issued), done) in self.requests.iter().zip(&self.issued).zip(&done) {
            let sums = &mut result.latencies[kind(request.io.op)];
            sums.requests += 1;
            sums.seconds += done.since(*issued).as_s();
            result.elapsed = result.elapsed.max(done.since(start));
        }
        result.done = done.into_iter().map(|at| Time::ZERO + at.since(start)).collect();
        Some(result)
    }

    /// Returns the time in which at least one request was in flight: the length of the union of all intervals from
    /// submission to completion.
    fn time_in_flight(&self, done: &[Time]) -> Span {
        let mut spans: Vec<(Time, Time)> = self.issued.iter().copied().zip(done.iter().copied()).collect();
        spans.sort();
        let (mut sum, mut end) = (Span::ZERO, Time::ZERO);
        for (from, to) in spans {
            let from = from.max(end);
            if to > from {
                sum += to.since(from);
                end = to;
            }
        }
        sum
    }
}

fn kind(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Flush => 2,
        _ => 1,
    }
}

/// Returns the weight of each window in a draw of the bootstrap (Efron 1979): the number of times that it is chosen if
/// as many windows as there are are chosen at random. In draw 0, and with a single window, all weights are 1.
pub fn bootstrap_weights(windows: usize, draw: usize, seed: u64) -> Vec<f64> {
    if draw == 0 || windows == 1 {
        return vec![1.0; windows];
    }
    let mut random = Random::stream(seed.wrapping_add(length(draw)), "choice of windows");
    let mut weights = vec![0.0; windows];
    for _ in 0..windows {
        weights[wide_index(whole(random.unit() * real_length(windows)))] += 1.0;
    }
    weights
}

/// Returns the number of requests of all windows of a recorded block trace.
pub fn total_window_requests(windows: &[RecordedWindow]) -> u32 {
    windows.iter().map(|window| short_length(window.requests.len())).sum()
}

#[cfg(test)]
mod tests;
