//! One thread of a benchmark job: submits requests at their planned instants, and counts completions.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::number::{index, low_u8};
use phaselink_core::random::mix;
use phaselink_core::request::{NextRequest, Op};
use phaselink_core::time::Time;
use phaselink_core::workload::{Job, OpenQuery, RequestGenerator, Rounds};

use super::target::{LoadConnection, Measurement, max_request_bytes};
use crate::clock::Clock;

/// State of one thread of a benchmark job, with its connection to the server.
pub(super) struct LoadThread<C> {
    connection: C,
    generator: RequestGenerator,
    ramp_end: Time,
    /// Requests in flight by slot, each with the instant at which the job planned to submit it.
    in_flight: Vec<Option<NextRequest>>,
    free: Vec<usize>,
    next: Option<NextRequest>,
    ended: bool,
    /// True while a flush is in flight. The thread submits nothing else meanwhile, as if it were blocked in a system
    /// call.
    is_flushing: bool,
    rounds: Rounds,
    /// Present query of a job with queries. `query_ios` is the number of requests in each query; 0 for a job without
    /// queries.
    query: OpenQuery,
    query_ios: u32,
    /// Bytes that every write sends, as many as the longest request has.
    data: Vec<u8>,
    completed: Vec<(usize, bool)>,
    measured: Measurement,
}

impl<C: LoadConnection> LoadThread<C> {
    /// Makes the state of a thread whose job begins when the clock shows `starts_at`.
    pub(super) fn new(connection: C, job: &Job, generator: RequestGenerator, starts_at: Time) -> LoadThread<C> {
        let depth = index(job.iodepth);
        LoadThread {
            connection,
            generator: generator.starting_at(starts_at).flushing(job.flushes, true),
            ramp_end: starts_at + job.ramp_time,
            in_flight: vec![None; depth],
            free: (0..depth).collect(),
            next: None,
            ended: false,
            is_flushing: false,
            rounds: Rounds::of(job),
            query: OpenQuery::NEW,
            query_ios: job.query_ios(),
            data: (0..u64::from(max_request_bytes(job))).map(|place| low_u8(mix(place))).collect(),
            completed: Vec::new(),
            measured: Measurement { starts_at, ..Measurement::default() },
        }
    }

    /// Runs the job to its end, or until `stop` is true. Returns the measurement once every request has completed.
    ///
    /// # Errors
    /// If the connection breaks.
    pub(super) fn run(mut self, clock: &Clock, stop: &AtomicBool) -> io::Result<Measurement> {
        let mut now = clock.now();
        loop {
            self.ended |= stop.load(Ordering::Relaxed);
            let due = self.fill(now)?;
            if self.ended && self.free.len() == self.in_flight.len() {
                self.connection.end()?;
                return Ok(self.measured);
            }
            self.connection.wait(due, clock)?;
            self.connection.reap(&mut self.completed)?;
            now = clock.now();
            self.count(now)?;
        }
    }

    /// Submits every request whose planned instant has come, while there are free slots. Returns the planned instant of
    /// the next request; none if it is unknown or must wait for a completion.
    fn fill(&mut self, now: Time) -> io::Result<Option<Time>> {
        while !self.ended && !self.free.is_empty() && !self.is_flushing && self.rounds.may_issue(self.in_flight()) {
            self.next = self.next.or_else(|| self.generator.next(now));
            match self.next {
                None if self.free.len() < self.in_flight.len() => break,
                None => match self.generator.end(now) {
                    Some(last) => self.submit(last)?,
                    None => self.ended = true,
                },
                Some(next) if next.due > now => return Ok(Some(next.due)),
                Some(next) => self.submit(next)?,
            }
        }
        Ok(None)
    }

    /// Returns the number of the thread's requests in flight.
    fn in_flight(&self) -> u32 {
        (self.in_flight.len() - self.free.len()) as u32
    }

    fn submit(&mut self, next: NextRequest) -> io::Result<()> {
        let Some(slot) = self.free.pop() else { return Ok(()) };
        let data = if next.io.op == Op::Write { &self.data[..index(next.io.bytes)] } else { &[][..] };
        self.connection.submit(slot, next.io, data)?;
        self.in_flight[slot] = Some(next);
        self.rounds.on_issue();
        self.is_flushing = next.io.op == Op::Flush;
        self.next = None;
        Ok(())
    }

    /// Counts the requests whose completions the thread saw at `now`, and frees their slots.
    fn count(&mut self, now: Time) -> io::Result<()> {
        for (slot, is_fine) in self.completed.drain(..) {
            let request = self.in_flight.get_mut(slot).and_then(Option::take);
            let next = request.ok_or_else(|| io::Error::other("a completion of no request"))?;
            self.free.push(slot);
            self.is_flushing &= next.io.op != Op::Flush;
            self.measured.last = now;
            self.measured.tally.errors += u64::from(!is_fine);
            if self.query_ios > 0
                && let Some(begin) = self.query.complete(next.due, self.query_ios)
                && begin >= self.ramp_end
            {
                self.measured.queries.record(now.since(begin));
            }
            if next.due >= self.ramp_end && is_fine {
                self.measured.tally.direction(next.io.op).count(next.io.bytes.into(), now.since(next.due));
            }
        }
        Ok(())
    }
}
