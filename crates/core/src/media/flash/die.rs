//! A flash die: reads that somebody waits for, and work that nobody does.
//!
//! Programs, erases and reads of what is moved wait in line. A read goes before those that have not begun and, where the
//! die can do that, interrupts the one that has. So that reads do not keep the die from ever finishing it, an operation is
//! held up for as long as it takes itself at most, and then runs to its end: whoever waits for as long as what he delays
//! takes never spends more than twice the least (the ski-rental rule, as in [`crate::media::bank`]).
//!
//! The end that is promised for work is right if no read comes. Reads make it later; what waits for it has been promised
//! the first, and the work behind it is promised later.

use std::collections::VecDeque;

use crate::time::{Span, Time};

/// Planes of a die at most.
pub const PLANES_MAX: usize = 16;

/// Planes that a read needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planes {
    pub first: usize,
    pub last: usize,
}

/// A die.
#[derive(Clone, Debug, Default)]
pub struct Die {
    running: Option<Running>,
    waiting: VecDeque<Work>,
    /// Until when reads hold each plane.
    read_until: [Time; PLANES_MAX],
    /// When the last operation has ended.
    done_at: Time,
    /// When all work is over, if no more reads come, and when the last of it begins.
    over_at: Time,
    last_begins_at: Time,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    ready_at: Time,
    length: Span,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    until: Time,
    /// For how long reads may still hold it up.
    patience: Span,
}

impl Die {
    /// When a read can begin that is handed over `now` and ready `at` some instant: the planes are free and the die is. It
    /// takes `length`, and what `suspend` is if it has to interrupt work; without, it waits for the end of that.
    pub fn read(&mut self, now: Time, at: Time, planes: Planes, length: Span, suspend: Option<Span>) -> Time {
        self.advance(now);
        let free_at = self.read_until[planes.first..=planes.last].iter().copied().max().unwrap_or(at).max(at);
        let (from, start) = match (self.running, suspend) {
            (Some(running), _) if running.until <= free_at => (free_at, free_at),
            (Some(running), Some(suspend)) if !running.patience.is_zero() => {
                let is_suspended = self.reads_until() >= free_at;
                (free_at, if is_suspended { free_at } else { free_at + suspend })
            }
            (Some(running), _) => (running.until, running.until),
            (None, _) => (free_at, free_at),
        };
        self.hold(planes, from, start + length);
        start
    }

    /// A read holds its planes until its data has left them.
    pub fn hold_until(&mut self, planes: Planes, until: Time) {
        let from = self.read_until[planes.first];
        self.hold(planes, from, until);
    }

    /// Do something that nobody waits for, from `ready_at` on: when it is over.
    pub fn work(&mut self, now: Time, ready_at: Time, length: Span) -> Time {
        self.advance(now);
        self.last_begins_at = self.over_at.max(ready_at).max(self.reads_until());
        self.over_at = self.last_begins_at + length;
        self.waiting.push_back(Work { ready_at, length });
        self.advance(now);
        self.over_at
    }

    /// When the registers of the die can take data for another program: once the last has begun.
    pub fn takes_data_at(&self, now: Time) -> Time {
        self.last_begins_at.max(now)
    }

    fn hold(&mut self, planes: Planes, from: Time, until: Time) {
        let before = self.reads_until();
        self.read_until[planes.first..=planes.last].iter_mut().for_each(|held| *held = until.max(*held));
        let delay = self.reads_until().since(before.max(from).min(self.reads_until()));
        if let Some(running) = self.running.as_mut().filter(|running| running.until > from) {
            running.until += delay;
            running.patience = running.patience.saturating_sub(delay);
            self.over_at += delay;
        } else if !self.waiting.is_empty() {
            self.over_at += delay;
        }
    }

    fn reads_until(&self) -> Time {
        self.read_until.iter().copied().max().unwrap_or(Time::ZERO)
    }

    /// Begin and end what has its time by `now`.
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
            self.running = Some(Running { until: start + next.length, patience: next.length });
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Planes = Planes { first: 0, last: 0 };
    const OTHER: Planes = Planes { first: 1, last: 1 };
    const US: fn(u64) -> Span = Span::from_us;

    fn at(us: u64) -> Time {
        Time::ZERO + US(us)
    }

    #[test]
    fn a_read_interrupts_a_program_which_ends_later_by_as_much() {
        let mut die = Die::default();
        assert_eq!(die.work(at(0), at(0), US(500)), at(500));
        assert_eq!(die.read(at(100), at(100), ONE, US(50), Some(US(5))), at(105));
        // The program goes on at 155, having run for 100.
        assert_eq!(die.work(at(100), at(100), US(10)), at(565));
        assert_eq!(die.read(at(554), at(554), ONE, US(50), None), at(555));
    }

    #[test]
    fn a_read_behind_another_needs_no_second_interruption_and_planes_may_read_at_a_time() {
        let mut die = Die::default();
        die.work(at(0), at(0), US(500));
        assert_eq!(die.read(at(100), at(100), ONE, US(50), Some(US(5))), at(105));
        assert_eq!(die.read(at(110), at(110), ONE, US(50), Some(US(5))), at(155));
        assert_eq!(die.read(at(110), at(110), OTHER, US(50), Some(US(5))), at(110));
    }

    #[test]
    fn a_die_that_cannot_interrupt_lets_reads_wait_but_takes_them_before_what_has_not_begun() {
        let mut die = Die::default();
        die.work(at(0), at(0), US(500));
        assert_eq!(die.work(at(0), at(0), US(500)), at(1000));
        assert_eq!(die.read(at(100), at(100), ONE, US(50), None), at(500));
        assert_eq!(die.read(at(549), at(549), ONE, US(50), None), at(550));
        assert_eq!(die.read(at(700), at(700), ONE, US(50), None), at(1100));
    }

    #[test]
    fn a_read_that_comes_as_one_operation_ends_finds_the_next_begun_and_a_picosecond_earlier_not() {
        let mut die = Die::default();
        die.work(at(0), at(0), US(500));
        die.work(at(0), at(0), US(500));
        let earlier = at(500) - Span::from_ps(1);
        assert_eq!(die.clone().read(earlier, earlier, ONE, US(50), None), at(500));
        assert_eq!(die.read(at(500), at(500), ONE, US(50), None), at(1000));
    }

    #[test]
    fn reads_hold_an_operation_up_for_as_long_as_it_takes_at_most() {
        let mut die = Die::default();
        die.work(at(0), at(0), US(100));
        assert_eq!(die.read(at(10), at(10), ONE, US(60), Some(US(0))), at(10));
        assert_eq!(die.read(at(10), at(10), ONE, US(60), Some(US(0))), at(70));
        // It has been held up for 120, and goes on from 130 until 220.
        assert_eq!(die.read(at(10), at(10), ONE, US(60), Some(US(0))), at(220));
    }
}
