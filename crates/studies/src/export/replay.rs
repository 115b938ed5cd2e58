//! Replica of a drive that only has the table, as another simulator would use it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::table::SimulatedLatencyTable;
use phaselink_core::ledger::Latency;
use phaselink_core::random::Random;
use phaselink_core::time::{Span, Time};

/// Random arrivals of requests of one size, of which latencies are drawn from tables.
#[derive(Clone, Debug)]
pub(super) struct DrawnLoad<'a> {
    /// Latencies of reads and of writes; `None` without such requests.
    pub(super) tables: [Option<SimulatedLatencyTable<'a>>; 2],
    pub(super) read_percent: f64,
    pub(super) bytes: u32,
    /// Rate of arrivals in requests a second.
    pub(super) iops: f64,
    /// Largest number of requests in flight; further requests wait in order of their arrival.
    pub(super) in_flight_max: usize,
    pub(super) requests: u64,
    pub(super) seed: u64,
}

impl DrawnLoad<'_> {
    /// Draws the latency of each request for the requests that it finds in flight, itself included. Returns latencies of
    /// reads and of writes, counted from arrival.
    pub(super) fn run(&self) -> [Latency; 2] {
        let mut random = Random::stream(self.seed, "export");
        let mut latencies = [Latency::default(), Latency::default()];
        let (mut now, mut ends, mut waiting) = (Time::ZERO, BinaryHeap::new(), VecDeque::new());
        for _ in 0..self.requests {
            now += Span::from_ns_f64(1e9 * random.exponential() / self.iops);
            while let Some(Reverse(end)) = ends.peek().copied().filter(|Reverse(end)| *end <= now) {
                ends.pop();
                if let Some(arrival) = waiting.pop_front() {
                    self.start(arrival, end, &mut ends, &mut random, &mut latencies);
                }
            }
            match ends.len() < self.in_flight_max {
                true => self.start(now, now, &mut ends, &mut random, &mut latencies),
                false => waiting.push_back(now),
            }
        }
        while let (Some(Reverse(end)), Some(arrival)) = (ends.pop(), waiting.pop_front()) {
            self.start(arrival, end, &mut ends, &mut random, &mut latencies);
        }
        latencies
    }

    /// Starts a request that arrived at `arrival`, and counts its latency.
    fn start(
        &self,
        arrival: Time,
        start: Time,
        ends: &mut BinaryHeap<Reverse<Time>>,
        random: &mut Random,
        latencies: &mut [Latency; 2],
    ) {
        let direction = usize::from(100.0 * random.unit() >= self.read_percent);
        let Some(table) = &self.tables[direction] else { return };
        let in_flight = table.covered(ends.len() + 1);
        let Some(ns) = table.ns(f64::from(self.bytes), in_flight, random.unit()) else { return };
        let end = start + Span::from_ns_f64(ns);
        ends.push(Reverse(end));
        latencies[direction].record(end.since(arrival));
    }
}
