//! One thread of a job: what is due is asked for, what is done is counted.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use phaselink_core::random::mix;
use phaselink_core::request::{Next, Op};
use phaselink_core::time::Time;
use phaselink_core::workload::{Generator, Job};

use super::{Connection, Measured, longest_bytes};
use crate::model::wall::Clock;

/// The thread's state.
pub(super) struct Loader<C> {
    connection: C,
    generator: Generator,
    ramp_end: Time,
    /// By slot: what is under way, and since when it was wanted.
    under_way: Vec<Option<Next>>,
    free: Vec<usize>,
    next: Option<Next>,
    ended: bool,
    /// What writes write.
    data: Vec<u8>,
    done: Vec<(usize, bool)>,
    measured: Measured,
}

impl<C: Connection> Loader<C> {
    /// Nothing under way yet.
    pub(super) fn new(connection: C, job: &Job, generator: Generator, starts_at: Time) -> Loader<C> {
        let depth = job.iodepth as usize;
        Loader {
            connection,
            generator: generator.starting_at(starts_at),
            ramp_end: starts_at + job.ramp_time,
            under_way: vec![None; depth],
            free: (0..depth).collect(),
            next: None,
            ended: false,
            data: (0..u64::from(longest_bytes(job))).map(|place| mix(place) as u8).collect(),
            done: Vec::new(),
            measured: Measured { starts_at, ..Measured::default() },
        }
    }

    /// Run to the end of the job, or until `stop` says so and everything under way is done.
    ///
    /// # Errors
    /// If the connection breaks.
    pub(super) fn run(mut self, clock: &Clock, stop: &AtomicBool) -> io::Result<Measured> {
        let mut now = clock.now();
        loop {
            self.ended |= stop.load(Ordering::Relaxed);
            let due = self.fill(now)?;
            if self.ended && self.free.len() == self.under_way.len() {
                self.connection.end()?;
                return Ok(self.measured);
            }
            self.connection.wait(due, clock)?;
            self.connection.reap(&mut self.done)?;
            now = clock.now();
            self.count(now)?;
        }
    }

    /// Ask for everything that is due and has a slot; when the next one is due, if that is known.
    fn fill(&mut self, now: Time) -> io::Result<Option<Time>> {
        while !self.ended && !self.free.is_empty() {
            if self.next.is_none() {
                self.next = self.generator.next(now);
            }
            match self.next {
                None => self.ended = true,
                Some(next) if next.due > now => return Ok(Some(next.due)),
                Some(next) => self.ask(next)?,
            }
        }
        Ok(None)
    }

    fn ask(&mut self, next: Next) -> io::Result<()> {
        let Some(slot) = self.free.pop() else { return Ok(()) };
        let data = if next.io.op == Op::Read { &[][..] } else { &self.data[..next.io.bytes as usize] };
        self.connection.ask(slot, next.io, data)?;
        self.under_way[slot] = Some(next);
        self.next = None;
        Ok(())
    }

    /// Count what is done by `now`; its slots are free.
    fn count(&mut self, now: Time) -> io::Result<()> {
        for (slot, is_fine) in self.done.drain(..) {
            let asked = self.under_way.get_mut(slot).and_then(Option::take);
            let next = asked.ok_or_else(|| io::Error::other("an answer to nothing that was asked"))?;
            self.free.push(slot);
            self.measured.last = now;
            self.measured.tally.errors += u64::from(!is_fine);
            if next.due >= self.ramp_end && is_fine {
                self.measured.tally.direction(next.io.op).count(next.io.bytes, now.since(next.due));
            }
        }
        Ok(())
    }
}
