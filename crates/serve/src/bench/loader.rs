//! One thread of a job: it submits requests that are due, and counts completions.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::random::mix;
use phaselink_core::request::{Next, Op};
use phaselink_core::time::Time;
use phaselink_core::workload::{Generator, Job, OpenQuery, Rounds};

use super::target::{LoadConnection, Measurement, longest_bytes};
use crate::clock::Clock;

/// State of the thread.
pub(super) struct Loader<C> {
    connection: C,
    generator: Generator,
    ramp_end: Time,
    /// Requests in flight by slot, each with the instant at which it was due.
    in_flight: Vec<Option<Next>>,
    free: Vec<usize>,
    next: Option<Next>,
    ended: bool,
    /// True while a flush is in flight, which the thread waits for as for a system call.
    is_flushing: bool,
    rounds: Rounds,
    /// Present query of a job that makes some, and the number of its requests.
    query: OpenQuery,
    query_ios: u32,
    /// Data of writes.
    data: Vec<u8>,
    completed: Vec<(usize, bool)>,
    measured: Measurement,
}

impl<C: LoadConnection> Loader<C> {
    /// Makes the state of a thread that begins at `starts_at`.
    pub(super) fn new(connection: C, job: &Job, generator: Generator, starts_at: Time) -> Loader<C> {
        let depth = job.iodepth as usize;
        Loader {
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
            data: (0..u64::from(longest_bytes(job))).map(|place| mix(place) as u8).collect(),
            completed: Vec::new(),
            measured: Measurement { starts_at, ..Measurement::default() },
        }
    }

    /// Runs to the end of the job, or until `stop` is true and every request has completed.
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

    /// Submits every request that is due and has a slot. Returns the instant of the next request, if it is known.
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

    /// Returns the number of requests in flight.
    fn in_flight(&self) -> u32 {
        (self.in_flight.len() - self.free.len()) as u32
    }

    fn submit(&mut self, next: Next) -> io::Result<()> {
        let Some(slot) = self.free.pop() else { return Ok(()) };
        let data = if next.io.op == Op::Write { &self.data[..next.io.bytes as usize] } else { &[][..] };
        self.connection.submit(slot, next.io, data)?;
        self.in_flight[slot] = Some(next);
        self.rounds.on_issue();
        self.is_flushing = next.io.op == Op::Flush;
        self.next = None;
        Ok(())
    }

    /// Counts completions that were seen at `now`, and frees their slots.
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
