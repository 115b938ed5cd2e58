//! Flash die: host reads, and operations in the background that no request waits for.
//!
//! Programs, erases and reads for garbage collection wait in a queue. A host read goes before operations that have not
//! begun and, if the die supports it, suspends the running one. Reads must not keep a die from ever finishing an
//! operation. Reads therefore delay an operation by its own length at most, and then it runs to its end: a wait that
//! ends when it has cost as much as it might save never costs more than twice the optimum (the ski-rental rule, as in
//! [`crate::media::bank`]). A drive may also limit the number of suspensions of one operation.
//!
//! The predicted end of an operation is right if no read comes. Reads make it later. A client of the operation keeps
//! the first prediction, and operations queued behind it get later ones.
//!
//! ```text
//!     program   [======]            [==========]             suspended, then resumed
//!     read             [s][read][read]                       s: time to suspend, paid once
//! ```

use std::collections::VecDeque;

use crate::config::Media;
use crate::number::length;
use crate::time::{Span, Time};

/// Largest number of planes in a flash die.
pub const PLANES_MAX: usize = 16;

/// Range of planes of one die that a read uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneRange {
    /// Number of the first plane.
    pub first: usize,
    /// Number of the last plane, which belongs to the range.
    pub last: usize,
}

/// Suspension of a running program or erase operation, so that a read need not wait for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationSuspension {
    /// Time to suspend an operation, which the first read of a suspension pays.
    time: Span,
    /// Length of the pulses of an erase, which is suspended only between two of them; zero if it is suspended as a
    /// program is.
    erase_pulse: Span,
    /// Largest number of suspensions of one operation.
    count_max: u32,
}

impl OperationSuspension {
    /// Returns the suspension of the dies of a flash memory; `None` if they cannot suspend.
    pub fn of(media: &Media) -> Option<OperationSuspension> {
        let count_max = if media.suspensions_max == 0 { u32::MAX } else { media.suspensions_max };
        (!media.suspend.is_zero()).then_some(OperationSuspension {
            time: media.suspend,
            erase_pulse: media.erase_pulse,
            count_max,
        })
    }

    /// True if an operation is suspended only between two of its pulses.
    fn is_between_pulses(&self, kind: DieWorkKind) -> bool {
        kind == DieWorkKind::Erase && !self.erase_pulse.is_zero()
    }

    /// Returns the time from `at` until a running operation is suspended: a fixed time, or for an erase with pulses the
    /// rest of the pulse that is running.
    fn wait(&self, running: &RunningDieOperation, at: Time) -> Span {
        match self.is_between_pulses(running.kind) {
            true => running.until.since(at) % self.erase_pulse,
            false => self.time,
        }
    }
}

/// Flash die: its running operation, its queue of background operations, and the times for which reads hold its planes.
#[derive(Clone, Debug, Default)]
pub struct FlashDie {
    running: Option<RunningDieOperation>,
    waiting: VecDeque<QueuedDieOperation>,
    /// Time until which reads hold each plane, by plane number.
    read_until: [Time; PLANES_MAX],
    /// End of the last background operation that has ended.
    done_at: Time,
    /// Predicted end of all queued operations, if no more reads come.
    over_at: Time,
    /// Predicted start of the last queued operation.
    last_begins_at: Time,
    work: DieWorkTime,
}

/// Work that has been queued on a die, as the time for which it is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DieWorkTime {
    /// Time for which nothing else can happen on the die: background operations, and reads that delay them.
    pub whole: Span,
    /// Time for which reads that delay no operation hold planes, summed over the planes.
    pub planes: Span,
}

/// Kind of a background operation of a die, which decides what a host read does that finds it running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DieWorkKind {
    /// Array reads and the transfer of their data, which nothing suspends.
    Read,
    /// Program of a word line.
    Program,
    /// Erase of a block.
    Erase,
}

#[derive(Clone, Copy, Debug)]
struct QueuedDieOperation {
    kind: DieWorkKind,
    ready_at: Time,
    length: Span,
}

#[derive(Clone, Copy, Debug)]
struct RunningDieOperation {
    kind: DieWorkKind,
    until: Time,
    /// Time by which reads may still delay the die's running program or erase operation; at first the operation's own
    /// length.
    delay_left: Span,
    /// Number of times that the operation has been suspended for reads.
    suspensions: u32,
    /// Time from which the last suspension lets reads begin.
    suspended_at: Time,
}

impl FlashDie {
    /// Starts a read of `planes` when they and the die are free, not before `at`; `now` is the time of the call. The
    /// read takes `length`, and the time of the `suspension` more if it has to suspend a running operation. It waits for
    /// the end of that operation if `suspension` is `None`, or if the operation has been delayed for long enough or been
    /// suspended often enough. Returns the start of the read.
    pub fn read(
        &mut self,
        now: Time,
        at: Time,
        planes: PlaneRange,
        length: Span,
        suspension: Option<OperationSuspension>,
    ) -> Time {
        self.advance(now);
        let free_at = self.read_until[planes.first..=planes.last].iter().copied().max().unwrap_or(at).max(at);
        let is_suspended = self.reads_end_at() >= free_at;
        let (from, start) = match (&mut self.running, suspension) {
            (Some(running), _) if running.until <= free_at => (free_at, free_at),
            (Some(running), _) if running.kind == DieWorkKind::Read => (running.until, running.until),
            (Some(running), Some(_)) if is_suspended && !running.delay_left.is_zero() => {
                let start = free_at.max(running.suspended_at);
                (start, start)
            }
            (Some(running), Some(suspension))
                if running.suspensions < suspension.count_max && !running.delay_left.is_zero() =>
            {
                let wait = suspension.wait(running, free_at);
                (running.suspensions, running.suspended_at) = (running.suspensions + 1, free_at + wait);
                // A pulse runs to its end. An operation without pulses makes no progress while it is being suspended.
                let is_between_pulses = suspension.is_between_pulses(running.kind);
                (if is_between_pulses { running.suspended_at } else { free_at }, running.suspended_at)
            }
            (Some(running), _) => (running.until, running.until),
            (None, _) => (free_at, free_at),
        };
        self.hold_planes(planes, from, start + length);
        start
    }

    /// Holds the planes of the last read until `until`, when its data has left them.
    pub fn hold_until(&mut self, planes: PlaneRange, until: Time) {
        let from = self.read_until[planes.first];
        self.hold_planes(planes, from, until);
    }

    /// Returns the predicted start of an operation that is queued next and may begin at `ready_at`.
    pub fn begins_at(&self, ready_at: Time) -> Time {
        self.over_at.max(ready_at).max(self.reads_end_at())
    }

    /// Queues a background operation that may begin at `ready_at` and takes `length`. Returns its predicted end, if no
    /// more reads delay it.
    pub fn enqueue(&mut self, now: Time, kind: DieWorkKind, ready_at: Time, length: Span) -> Time {
        self.advance(now);
        self.last_begins_at = self.begins_at(ready_at);
        self.over_at = self.last_begins_at + length;
        self.work.whole += length;
        self.waiting.push_back(QueuedDieOperation { kind, ready_at, length });
        self.advance(now);
        self.over_at
    }

    /// Queues background reads that may begin at `ready_at` and take `length`, before all queued operations that have not
    /// begun, but behind earlier reads of this kind. Returns their predicted end.
    pub fn enqueue_reads_first(&mut self, now: Time, ready_at: Time, length: Span) -> Time {
        self.advance(now);
        let begins_at = self.first_begins_at(now, ready_at);
        let place = self.queued_leading_reads().count();
        self.over_at = self.over_at.max(begins_at) + length;
        self.last_begins_at = if place == self.waiting.len() { begins_at } else { self.last_begins_at + length };
        self.work.whole += length;
        self.waiting.insert(place, QueuedDieOperation { kind: DieWorkKind::Read, ready_at, length });
        self.advance(now);
        begins_at + length
    }

    /// Returns the predicted start of reads that go first and may begin at `ready_at`, as in [`FlashDie::enqueue_reads_first`].
    pub fn first_begins_at(&self, now: Time, ready_at: Time) -> Time {
        let free_at = self.running.map_or(now, |running| running.until.max(now)).max(self.reads_end_at());
        let before: Span = self.queued_leading_reads().map(|operation| operation.length).sum();
        (free_at + before).max(ready_at)
    }

    /// Queued reads before the first program or erase.
    fn queued_leading_reads(&self) -> impl Iterator<Item = &QueuedDieOperation> {
        self.waiting.iter().take_while(|operation| operation.kind == DieWorkKind::Read)
    }

    /// Returns the time at which the registers of the die can take data for another program: once the last queued
    /// operation has begun.
    pub fn registers_free_at(&self, now: Time) -> Time {
        self.last_begins_at.max(now)
    }

    /// Returns the time at which the die has ended all queued operations and all reads, if no more come.
    pub fn is_free_at(&self) -> Time {
        self.over_at.max(self.reads_end_at())
    }

    /// Returns the time for which the die has been busy until `now`. The remaining time of queued operations does not
    /// count.
    pub fn busy_time_until(&self, now: Time) -> DieWorkTime {
        let mut then = self.clone();
        then.advance(now);
        let running = then.running.map_or(Span::ZERO, |running| running.until.since(now));
        let waiting: Span = then.waiting.iter().map(|operation| operation.length).sum();
        DieWorkTime { whole: self.work.whole.saturating_sub(running + waiting), ..self.work }
    }

    fn hold_planes(&mut self, planes: PlaneRange, from: Time, until: Time) {
        let before = self.reads_end_at();
        self.read_until[planes.first..=planes.last].iter_mut().for_each(|held| *held = until.max(*held));
        let delay = self.reads_end_at().since(before.max(from).min(self.reads_end_at()));
        if let Some(running) = self.running.as_mut().filter(|running| running.until > from) {
            running.until += delay;
            running.delay_left = running.delay_left.saturating_sub(delay);
            self.over_at += delay;
            self.work.whole += delay;
        } else if !self.waiting.is_empty() {
            self.over_at += delay;
            self.work.whole += delay;
        } else {
            self.work.planes += until.since(from) * length(planes.last - planes.first + 1);
        }
    }

    fn reads_end_at(&self) -> Time {
        self.read_until.iter().copied().max().unwrap_or(Time::ZERO)
    }

    /// Ends the running operation and starts queued ones, as far as their times have come by `now`.
    fn advance(&mut self, now: Time) {
        loop {
            match self.running {
                Some(running) if running.until > now => return,
                Some(running) => (self.done_at, self.running) = (running.until, None),
                None => {}
            }
            let Some(next) = self.waiting.front() else { return };
            let start = next.ready_at.max(self.done_at).max(self.reads_end_at());
            if start > now {
                return;
            }
            self.running = Some(RunningDieOperation {
                kind: next.kind,
                until: start + next.length,
                delay_left: next.length,
                suspensions: 0,
                suspended_at: Time::ZERO,
            });
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANE_0: PlaneRange = PlaneRange { first: 0, last: 0 };
    const PLANE_1: PlaneRange = PlaneRange { first: 1, last: 1 };
    const PROGRAM: DieWorkKind = DieWorkKind::Program;
    const US: fn(u64) -> Span = Span::from_us;

    /// Suspension that takes this time.
    fn suspension(us: u64) -> Option<OperationSuspension> {
        Some(OperationSuspension { time: US(us), erase_pulse: Span::ZERO, count_max: u32::MAX })
    }

    fn at(us: u64) -> Time {
        Time::ZERO + US(us)
    }

    #[test]
    fn read_suspends_a_running_program() {
        let mut die = FlashDie::default();
        assert_eq!(die.enqueue(at(0), PROGRAM, at(0), US(500)), at(500));
        assert_eq!(die.read(at(100), at(100), PLANE_0, US(50), suspension(5)), at(105));
        // The program has run for 100 us when the read suspends it, and resumes at 155 us.
        assert_eq!(die.enqueue(at(100), PROGRAM, at(100), US(10)), at(565));
        assert_eq!(die.read(at(554), at(554), PLANE_0, US(50), None), at(555));
    }

    #[test]
    fn second_read_shares_the_suspension_and_planes_read_in_parallel() {
        let mut die = FlashDie::default();
        die.enqueue(at(0), PROGRAM, at(0), US(500));
        assert_eq!(die.read(at(100), at(100), PLANE_0, US(50), suspension(5)), at(105));
        assert_eq!(die.read(at(110), at(110), PLANE_0, US(50), suspension(5)), at(155));
        assert_eq!(die.read(at(110), at(110), PLANE_1, US(50), suspension(5)), at(110));
    }

    #[test]
    fn reads_wait_once_the_suspension_limit_is_reached() {
        let starts = |suspensions_max: u32| {
            let suspension = OperationSuspension::of(&Media { suspend: US(5), suspensions_max, ..Media::default() });
            let mut die = FlashDie::default();
            die.enqueue(at(0), PROGRAM, at(0), US(500));
            // The second read joins the first suspension, which ends at 205 us, so the operation ends at 605 us.
            [100, 110, 300, 400].map(|us| die.read(at(us), at(us), PLANE_0, US(50), suspension))
        };
        assert_eq!(starts(1), [at(105), at(155), at(605), at(655)]);
        assert_eq!(starts(2), [at(105), at(155), at(305), at(660)]);
        assert_eq!(starts(0), [at(105), at(155), at(305), at(405)]);
    }

    #[test]
    fn reads_precede_pending_operations_without_suspension() {
        let mut die = FlashDie::default();
        die.enqueue(at(0), PROGRAM, at(0), US(500));
        assert_eq!(die.enqueue(at(0), PROGRAM, at(0), US(500)), at(1000));
        assert_eq!(die.read(at(100), at(100), PLANE_0, US(50), None), at(500));
        assert_eq!(die.read(at(549), at(549), PLANE_0, US(50), None), at(550));
        assert_eq!(die.read(at(700), at(700), PLANE_0, US(50), None), at(1100));
    }

    #[test]
    fn read_after_an_operation_waits_for_the_next_one() {
        let mut die = FlashDie::default();
        die.enqueue(at(0), PROGRAM, at(0), US(500));
        die.enqueue(at(0), PROGRAM, at(0), US(500));
        let earlier = at(500) - Span::from_ps(1);
        assert_eq!(die.clone().read(earlier, earlier, PLANE_0, US(50), None), at(500));
        assert_eq!(die.read(at(500), at(500), PLANE_0, US(50), None), at(1000));
    }

    #[test]
    fn die_work_time_includes_background_operations_and_delays() {
        let mut die = FlashDie::default();
        die.read(at(0), at(0), PlaneRange { first: 0, last: 1 }, US(50), None);
        assert_eq!(die.busy_time_until(at(50)), DieWorkTime { whole: US(0), planes: US(100) });
        die.enqueue(at(100), PROGRAM, at(100), US(500));
        die.enqueue(at(100), PROGRAM, at(100), US(500));
        die.read(at(200), at(200), PLANE_0, US(50), suspension(5));
        assert_eq!(die.busy_time_until(at(255)).whole, US(155));
        assert_eq!(die.busy_time_until(at(700)).whole, US(600));
        assert_eq!(die.busy_time_until(at(2000)).whole, US(1055));
    }

    #[test]
    fn reads_delay_an_operation_by_at_most_their_length() {
        let mut die = FlashDie::default();
        die.enqueue(at(0), PROGRAM, at(0), US(100));
        assert_eq!(die.read(at(10), at(10), PLANE_0, US(60), suspension(0)), at(10));
        assert_eq!(die.read(at(10), at(10), PLANE_0, US(60), suspension(0)), at(70));
        // The operation has been delayed by 120 us in total. It resumes at 130 us and ends at 220 us.
        assert_eq!(die.read(at(10), at(10), PLANE_0, US(60), suspension(0)), at(220));
    }

    #[test]
    fn read_waits_for_an_erase_pulse_and_for_a_whole_read() {
        let pulses = Some(OperationSuspension { time: US(5), erase_pulse: US(300), count_max: u32::MAX });
        let mut die = FlashDie::default();
        die.enqueue(at(0), DieWorkKind::Erase, at(0), US(900));
        // The erase has pulses of 300 us, so it stops at 300 us and resumes at 350 us.
        assert_eq!(die.read(at(100), at(100), PLANE_0, US(50), pulses), at(300));
        assert_eq!(die.read(at(120), at(120), PLANE_1, US(50), pulses), at(300));
        assert_eq!(die.read(at(400), at(400), PLANE_0, US(50), None), at(950));
        let mut die = FlashDie::default();
        die.enqueue(at(0), DieWorkKind::Read, at(0), US(200));
        assert_eq!(die.read(at(10), at(10), PLANE_0, US(50), pulses), at(200));
    }

    #[test]
    fn erase_without_pulses_is_suspended_like_a_program() {
        let mut die = FlashDie::default();
        die.enqueue(at(0), DieWorkKind::Erase, at(0), US(900));
        assert_eq!(die.read(at(100), at(100), PLANE_0, US(50), suspension(5)), at(105));
        // The erase makes no progress while it is being suspended either, and resumes at 155 us.
        assert_eq!(die.read(at(400), at(400), PLANE_0, US(50), None), at(955));
    }

    #[test]
    fn prioritised_collection_reads_keep_their_order() {
        let mut die = FlashDie::default();
        die.enqueue(at(0), PROGRAM, at(0), US(500));
        assert_eq!(die.enqueue(at(0), PROGRAM, at(0), US(500)), at(1000));
        assert_eq!(die.first_begins_at(at(10), at(10)), at(500));
        assert_eq!(die.enqueue_reads_first(at(10), at(10), US(100)), at(600));
        assert_eq!(die.enqueue_reads_first(at(10), at(10), US(100)), at(700));
        assert_eq!(die.enqueue(at(10), PROGRAM, at(10), US(500)), at(1700));
        let mut idle = FlashDie::default();
        assert_eq!(idle.enqueue_reads_first(at(10), at(10), US(100)), at(110));
        assert_eq!(idle.enqueue_reads_first(at(10), at(300), US(100)), at(400));
    }
}
