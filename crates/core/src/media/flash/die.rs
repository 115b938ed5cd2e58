//! Flash die: host reads, and operations in the background that no request waits for.
//!
//! Programs, erases and reads for garbage collection wait in a queue. A host read goes before those that have not begun
//! and, where the die supports it, suspends the one that is running. So that reads cannot keep the die from ever
//! finishing it, an operation is delayed for as long as it takes itself at most, and then runs to its end: whoever
//! waits for as long as what he delays takes never spends more than twice the least (the ski-rental rule, as in
//! [`crate::media::bank`]).
//!
//! The end that is predicted for an operation is right if no read comes. Reads make it later; what waits for the
//! operation keeps the first prediction, and operations queued behind it get later ones.
//!
//! ```text
//!     program   [======]            [==========]             suspended, then resumed
//!     read             [s][read][read]                       s: time to suspend, paid once
//! ```

use std::collections::VecDeque;

use crate::time::{Span, Time};

/// Largest number of planes of a die.
pub const PLANES_MAX: usize = 16;

/// Range of planes that a read needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planes {
    /// First plane.
    pub first: usize,
    /// Last plane, included.
    pub last: usize,
}

/// Die with its running operation, its queue and its reads.
#[derive(Clone, Debug, Default)]
pub struct Die {
    running: Option<RunningOperation>,
    waiting: VecDeque<DieOperation>,
    /// Time until which reads hold each plane.
    read_until: [Time; PLANES_MAX],
    /// End of the last operation.
    done_at: Time,
    /// End of all queued operations, if no more reads come, and start of the last of them.
    over_at: Time,
    last_begins_at: Time,
    work: DieWork,
}

/// Work that has been handed to a die, in times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DieWork {
    /// Time for which nothing else can happen on the die: operations in the background, and reads that delay them.
    pub whole: Span,
    /// Time for which other reads hold planes, summed over the planes.
    pub planes: Span,
}

#[derive(Clone, Copy, Debug)]
struct DieOperation {
    ready_at: Time,
    length: Span,
}

#[derive(Clone, Copy, Debug)]
struct RunningOperation {
    until: Time,
    /// Time by which reads may still delay it.
    delay_left: Span,
}

impl Die {
    /// Starts a read that is handed over at `now` and ready at `at`, when its planes and the die are free. It takes
    /// `length`, and `suspend` more if it has to suspend an operation; without `suspend` it waits for the end of that
    /// operation. Returns when the read starts.
    pub fn read(&mut self, now: Time, at: Time, planes: Planes, length: Span, suspend: Option<Span>) -> Time {
        self.advance(now);
        let free_at = self.read_until[planes.first..=planes.last].iter().copied().max().unwrap_or(at).max(at);
        let (from, start) = match (self.running, suspend) {
            (Some(running), _) if running.until <= free_at => (free_at, free_at),
            (Some(running), Some(suspend)) if !running.delay_left.is_zero() => {
                let is_suspended = self.reads_until() >= free_at;
                (free_at, if is_suspended { free_at } else { free_at + suspend })
            }
            (Some(running), _) => (running.until, running.until),
            (None, _) => (free_at, free_at),
        };
        self.hold(planes, from, start + length);
        start
    }

    /// Holds the planes of a read until its data has left them.
    pub fn hold_until(&mut self, planes: Planes, until: Time) {
        let from = self.read_until[planes.first];
        self.hold(planes, from, until);
    }

    /// Queues an operation that no request waits for, from `ready_at` on. Returns when it ends.
    pub fn enqueue(&mut self, now: Time, ready_at: Time, length: Span) -> Time {
        self.advance(now);
        self.last_begins_at = self.over_at.max(ready_at).max(self.reads_until());
        self.over_at = self.last_begins_at + length;
        self.work.whole += length;
        self.waiting.push_back(DieOperation { ready_at, length });
        self.advance(now);
        self.over_at
    }

    /// Returns when the registers of the die can take data for another program: once the last operation has begun.
    pub fn takes_data_at(&self, now: Time) -> Time {
        self.last_begins_at.max(now)
    }

    /// Returns when all operations and reads have ended, if no more come.
    pub fn is_free_at(&self) -> Time {
        self.over_at.max(self.reads_until())
    }

    /// Returns the work that the die has done by `now`.
    pub fn work_done(&self, now: Time) -> DieWork {
        let mut then = self.clone();
        then.advance(now);
        let running = then.running.map_or(Span::ZERO, |running| running.until.since(now));
        let waiting: Span = then.waiting.iter().map(|operation| operation.length).sum();
        DieWork { whole: self.work.whole.saturating_sub(running + waiting), ..self.work }
    }

    fn hold(&mut self, planes: Planes, from: Time, until: Time) {
        let before = self.reads_until();
        self.read_until[planes.first..=planes.last].iter_mut().for_each(|held| *held = until.max(*held));
        let delay = self.reads_until().since(before.max(from).min(self.reads_until()));
        if let Some(running) = self.running.as_mut().filter(|running| running.until > from) {
            running.until += delay;
            running.delay_left = running.delay_left.saturating_sub(delay);
            self.over_at += delay;
            self.work.whole += delay;
        } else if !self.waiting.is_empty() {
            self.over_at += delay;
            self.work.whole += delay;
        } else {
            self.work.planes += until.since(from) * (planes.last - planes.first + 1) as u64;
        }
    }

    fn reads_until(&self) -> Time {
        self.read_until.iter().copied().max().unwrap_or(Time::ZERO)
    }

    /// Starts and ends the operations whose time has come by `now`.
    fn advance(&mut self, now: Time) {
        loop {
            match self.running {
                Some(running) if running.until > now => return,
                Some(running) => (self.done_at, self.running) = (running.until, None),
                None => {}
            }
            let Some(next) = self.waiting.front() else { return };
            let start = next.ready_at.max(self.done_at).max(self.reads_until());
            if start > now {
                return;
            }
            self.running = Some(RunningOperation { until: start + next.length, delay_left: next.length });
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANE_0: Planes = Planes { first: 0, last: 0 };
    const PLANE_1: Planes = Planes { first: 1, last: 1 };
    const US: fn(u64) -> Span = Span::from_us;

    fn at(us: u64) -> Time {
        Time::ZERO + US(us)
    }

    #[test]
    fn read_suspends_a_program_which_ends_later_by_as_much() {
        let mut die = Die::default();
        assert_eq!(die.enqueue(at(0), at(0), US(500)), at(500));
        assert_eq!(die.read(at(100), at(100), PLANE_0, US(50), Some(US(5))), at(105));
        // The program goes on at 155, having run for 100.
        assert_eq!(die.enqueue(at(100), at(100), US(10)), at(565));
        assert_eq!(die.read(at(554), at(554), PLANE_0, US(50), None), at(555));
    }

    #[test]
    fn second_read_needs_no_second_suspension_and_planes_read_in_parallel() {
        let mut die = Die::default();
        die.enqueue(at(0), at(0), US(500));
        assert_eq!(die.read(at(100), at(100), PLANE_0, US(50), Some(US(5))), at(105));
        assert_eq!(die.read(at(110), at(110), PLANE_0, US(50), Some(US(5))), at(155));
        assert_eq!(die.read(at(110), at(110), PLANE_1, US(50), Some(US(5))), at(110));
    }

    #[test]
    fn without_suspension_reads_wait_but_go_before_operations_not_begun() {
        let mut die = Die::default();
        die.enqueue(at(0), at(0), US(500));
        assert_eq!(die.enqueue(at(0), at(0), US(500)), at(1000));
        assert_eq!(die.read(at(100), at(100), PLANE_0, US(50), None), at(500));
        assert_eq!(die.read(at(549), at(549), PLANE_0, US(50), None), at(550));
        assert_eq!(die.read(at(700), at(700), PLANE_0, US(50), None), at(1100));
    }

    #[test]
    fn read_at_the_end_of_an_operation_finds_the_next_one_running() {
        let mut die = Die::default();
        die.enqueue(at(0), at(0), US(500));
        die.enqueue(at(0), at(0), US(500));
        let earlier = at(500) - Span::from_ps(1);
        assert_eq!(die.clone().read(earlier, earlier, PLANE_0, US(50), None), at(500));
        assert_eq!(die.read(at(500), at(500), PLANE_0, US(50), None), at(1000));
    }

    #[test]
    fn work_done_counts_background_operations_reads_that_delay_them_and_planes_of_other_reads() {
        let mut die = Die::default();
        die.read(at(0), at(0), Planes { first: 0, last: 1 }, US(50), None);
        assert_eq!(die.work_done(at(50)), DieWork { whole: US(0), planes: US(100) });
        die.enqueue(at(100), at(100), US(500));
        die.enqueue(at(100), at(100), US(500));
        die.read(at(200), at(200), PLANE_0, US(50), Some(US(5)));
        assert_eq!(die.work_done(at(255)).whole, US(155));
        assert_eq!(die.work_done(at(700)).whole, US(600));
        assert_eq!(die.work_done(at(2000)).whole, US(1055));
    }

    #[test]
    fn reads_delay_an_operation_by_its_own_length_at_most() {
        let mut die = Die::default();
        die.enqueue(at(0), at(0), US(100));
        assert_eq!(die.read(at(10), at(10), PLANE_0, US(60), Some(US(0))), at(10));
        assert_eq!(die.read(at(10), at(10), PLANE_0, US(60), Some(US(0))), at(70));
        // The operation has been delayed by 120, and goes on from 130 until 220.
        assert_eq!(die.read(at(10), at(10), PLANE_0, US(60), Some(US(0))), at(220));
    }
}
