//! Flow of requests: number per second, queue depth, and sequential streams.

use crate::number::{index, real};
use crate::request::Io;
use crate::time::Span;
use std::collections::BTreeMap;

const PS_PER_S: u64 = 1_000_000_000_000;
/// Number of seconds whose requests are counted at the same time, because files are only nearly in order.
const SECONDS_MAX: usize = 1024;

/// Numbers of requests in each of the latest seconds, and in the busiest second so far.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestsPerSecond {
    seconds: BTreeMap<u64, u64>,
    busiest: u64,
}

impl RequestsPerSecond {
    /// Counts a request that arrives at `at`, in units of `unit`.
    pub(super) fn add(&mut self, at: u64, unit: Span) {
        let second = match unit.as_ps() {
            unit if unit >= PS_PER_S => at.saturating_mul(unit / PS_PER_S),
            unit => at / (PS_PER_S / unit.max(1)),
        };
        let count = self.seconds.entry(second).or_default();
        *count += 1;
        self.busiest = self.busiest.max(*count);
        if self.seconds.len() > SECONDS_MAX {
            self.seconds.pop_first();
        }
    }

    /// Returns the number of requests in the busiest second.
    pub(super) fn busiest(&self) -> u64 {
        self.busiest
    }
}

/// Number of sequential streams that are recognised on each device: as many ends of requests are remembered.
const STREAMS: usize = 16;

/// End offsets of the last sixteen streams of requests to each device.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    ends: Vec<[u64; STREAMS]>,
    next: Vec<u8>,
}

impl Streams {
    /// True if a request starts where one of the last requests to its device ended. Remembers the end of the request.
    pub(super) fn follows(&mut self, device: u32, io: Io) -> bool {
        let place = index(device);
        if self.ends.len() <= place {
            // End 0 marks an unused stream, because no request ends at offset 0.
            self.ends.resize(place + 1, [0; STREAMS]);
            self.next.resize(place + 1, 0);
        }
        let (ends, next) = (&mut self.ends[place], &mut self.next[place]);
        let end = io.offset.saturating_add(io.bytes.into());
        match ends.iter_mut().find(|other| **other == io.offset && io.offset > 0) {
            Some(other) => {
                *other = end;
                true
            }
            None => {
                ends[usize::from(*next)] = end;
                *next = (*next + 1) % STREAMS as u8;
                false
            }
        }
    }
}

/// Integral of the queue depth of the recorded device over time.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueDepthIntegral {
    issued: u64,
    completed: u64,
    now: u64,
    most: u64,
    last: u64,
    /// Integral of the queue depth over time, in requests times units of the format.
    area: u128,
    /// Sum of the recorded response times, in units of the format; `responded` is their number.
    responses: u128,
    responded: u64,
}

/// Queue depth and response time of the recorded device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedQueueDepth {
    /// Mean number of requests in flight, over the time of the trace.
    pub mean: f64,
    /// Largest number of requests in flight, if the trace records when requests were submitted to the driver and
    /// completed.
    pub most: Option<u64>,
    /// Mean response time of a request on the recorded device.
    pub response: Span,
}

impl QueueDepthIntegral {
    pub(super) fn issued(&mut self, at: u64) {
        self.go_on(at);
        self.issued += 1;
        self.now += 1;
        self.most = self.most.max(self.now);
    }

    pub(super) fn completed(&mut self, at: u64) {
        self.go_on(at);
        self.completed += 1;
        self.now = self.now.saturating_sub(1);
    }

    pub(super) fn response(&mut self, units: u64) {
        self.responses = self.responses.saturating_add(units.into());
        self.responded += 1;
    }

    fn go_on(&mut self, at: u64) {
        self.area += u128::from(self.now) * u128::from(at.saturating_sub(self.last));
        self.last = self.last.max(at);
    }

    /// Returns the queue depth over a trace of `units` units of time, if at most 1 % of the requests lack a completion.
    /// Otherwise it follows from recorded response times by Little's law; none if there are none.
    pub(super) fn over(&self, units: u64, unit: Span) -> Option<RecordedQueueDepth> {
        let mean = |sum: u128, count: u64| {
            let ps = sum.saturating_mul(unit.as_ps().into()) / u128::from(count.max(1));
            Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
        };
        let is_paired = self.completed > 0 && self.issued.abs_diff(self.completed) <= self.issued / 100;
        let (sum, count) = if is_paired { (self.area, self.issued) } else { (self.responses, self.responded) };
        let depth = || RecordedQueueDepth {
            mean: sum as f64 / real(units),
            most: is_paired.then_some(self.most),
            response: mean(sum, count),
        };
        (count > 0 && units > 0).then(depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;

    #[test]
    fn busiest_second_is_found_with_late_requests() {
        let mut rate = RequestsPerSecond::default();
        for at in [0, 900_000, 1_000_000, 2_000_000, 1_100_000, 1_999_999] {
            rate.add(at, Span::from_us(1));
        }
        assert_eq!(rate.busiest(), 3);
        rate.add(7, Span::from_s(1));
        assert_eq!(rate.busiest(), 3);
    }

    #[test]
    fn parallel_sequential_streams_are_recognised() {
        let mut streams = Streams::default();
        let mut follows = |device, offset| streams.follows(device, Io { op: Op::Read, offset, bytes: 512 });
        assert!(!follows(0, 0) && !follows(0, 8192) && follows(0, 512) && follows(0, 8704) && !follows(0, 0));
        assert!(!follows(1, 1024), "another device has other streams");
        assert!(follows(0, 1024));
    }

    #[test]
    fn queue_depth_follows_from_completions_or_responses() {
        let mut depth = QueueDepthIntegral::default();
        depth.issued(0);
        depth.issued(10);
        depth.completed(30);
        depth.completed(40);
        let found = depth.over(40, Span::from_ns(1)).expect("paired");
        assert_eq!((found.mean, found.most, found.response), (60.0 / 40.0, Some(2), Span::from_ns(30)));
        depth.completed(50);
        assert_eq!(depth.over(50, Span::from_ns(1)), None, "a third of the issues is missing");
        depth.response(25);
        depth.response(75);
        let found = depth.over(50, Span::from_ns(1)).expect("responses");
        assert_eq!((found.mean, found.most, found.response), (2.0, None, Span::from_ns(50)));
    }
}
