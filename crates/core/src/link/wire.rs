//! One wire: its queues, the segment on it, and the cutting of segments.
//!
//! A burst goes out as a *train*: one segment whose end is known when it starts. A packet of another class that is
//! queued meanwhile cuts the train at the next packet boundary, and the rest of the train is queued again at the head
//! of its class. In packet granularity every segment is one packet, which gives the same order as cutting at each
//! boundary.
//!
//! ```text
//!     posted train   [p0][p1][p2][p3][p4]             planned: ends after p4
//!                          ^ a completion is queued
//!     on the wire    [p0][p1][c ][p2][p3][p4]         cut after p1; the rest is queued again, classes take turns
//! ```

use std::collections::VecDeque;

use crate::number::{index, narrow};
use crate::time::{Span, Time};

/// Flow-control class of a packet, in the order of arbitration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditClass {
    #[default]
    /// Memory writes and messages.
    Posted,
    /// Memory reads.
    NonPosted,
    /// Completions, whose credits are infinite.
    Completion,
}

/// Number of flow-control classes.
pub const CLASSES: usize = 3;

impl CreditClass {
    /// Returns the class whose turn is after this one's.
    #[inline]
    fn next(self) -> CreditClass {
        match self {
            CreditClass::Posted => CreditClass::NonPosted,
            CreditClass::NonPosted => CreditClass::Completion,
            CreditClass::Completion => CreditClass::Posted,
        }
    }
}

/// Packets of one burst that go on the wire without a gap.
#[derive(Clone, Copy, Debug)]
pub struct WireSegment {
    /// Burst that the packets belong to.
    pub packet: u32,
    /// Class in whose queue the burst waits if the segment is cut.
    pub class: CreditClass,
    /// Number of packets in the segment.
    pub count: u32,
    /// Wire time of each packet but the last, which may be shorter.
    pub each: Span,
    /// Time at which the first packet starts.
    pub started: Time,
    /// Time at which the last packet ends.
    pub end: Time,
}

/// Sender's side of one wire: its queues and its timer.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    /// Bursts that wait, by class.
    queues: [VecDeque<u32>; CLASSES],
    waiting: u32,
    /// Segment on the wire, as long as it might be cut.
    sending: Option<WireSegment>,
    /// Time at which the wire is free.
    free_at: Time,
    /// Time of the next look at the queues, if a timer for it is set.
    wake_at: Option<Time>,
    /// Class that was served last.
    last: CreditClass,
    /// Wire time of ACK and UpdateFC packets that have not found a gap yet.
    owed: Span,
}

/// Number of bursts for which the queue of a class has room from the beginning.
const QUEUE_ROOM: usize = 64;

impl Wire {
    /// Returns an idle wire whose queues need no memory for as many bursts as a usual drive has.
    pub fn idle_with_room() -> Wire {
        Wire { queues: std::array::from_fn(|_| VecDeque::with_capacity(QUEUE_ROOM)), ..Wire::default() }
    }

    /// Returns when the segment on the wire, if any, has passed.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Returns true if nothing is queued or on the wire.
    pub fn idle(&self, now: Time) -> bool {
        self.waiting == 0 && self.free_at <= now
    }

    /// Queues a burst behind those of its class.
    pub fn push(&mut self, class: CreditClass, packet: u32) {
        self.queues[class as usize].push_back(packet);
        self.waiting += 1;
    }

    /// Queues the rest of a cut burst before those of its class.
    pub fn push_front(&mut self, class: CreditClass, packet: u32) {
        self.queues[class as usize].push_front(packet);
        self.waiting += 1;
    }

    /// Returns the classes in the order of their turns, the one that was served last at the end.
    #[inline]
    pub fn turns(&self) -> impl Iterator<Item = CreditClass> + use<> {
        let mut class = self.last;
        (0..CLASSES).map(move |_| {
            class = class.next();
            class
        })
    }

    /// Returns the first burst of `class` that waits.
    pub fn head(&self, class: CreditClass) -> Option<u32> {
        self.queues[class as usize].front().copied()
    }

    /// Removes the first burst of `class`, which is served now.
    #[inline(always)] // Every packet that waits is taken once.
    pub fn take(&mut self, class: CreditClass) {
        let taken = self.queues[class as usize].pop_front();
        assert!(taken.is_some(), "a burst is taken from an empty queue");
        self.waiting -= 1;
    }

    /// Returns true if a burst waits in the queue of another class.
    pub fn has_others(&self, class: CreditClass) -> bool {
        index(self.waiting) > self.queues[class as usize].len()
    }

    /// Returns true if a burst waits in any queue.
    pub fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Returns all bursts that wait, class by class.
    pub fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.queues.iter().flatten().copied()
    }

    /// Returns when a segment that is ready at `now` can start: ACK and UpdateFC packets that found no gap go first.
    pub fn start_time(&mut self, now: Time) -> Time {
        assert!(self.free_at <= now, "a segment starts while another one is on the wire");
        let gap = now.since(self.free_at);
        let owed = self.owed.saturating_sub(gap);
        self.owed = Span::ZERO;
        now + owed
    }

    /// Puts a segment on the wire.
    pub fn occupy(&mut self, segment: WireSegment) {
        self.free_at = segment.end;
        self.last = segment.class;
        self.sending = if segment.count > 1 { Some(segment) } else { None };
    }

    /// Puts a single packet on the wire.
    pub fn occupy_single(&mut self, class: CreditClass, end: Time) {
        (self.free_at, self.last, self.sending) = (end, class, None);
    }

    /// Blocks the wire until `until`: a replay, or a retraining.
    pub fn block(&mut self, until: Time) {
        self.free_at = self.free_at.max(until);
        self.sending = None;
    }

    /// Cuts the train on the wire at the next packet boundary for a packet of `class`. Returns the segment as it was,
    /// and the number of its packets that stay behind; `None` if there is nothing to cut.
    pub fn cut(&mut self, now: Time, class: CreditClass) -> Option<(WireSegment, u32)> {
        let segment = self.sending.filter(|s| s.class != class && s.end > now)?;
        let passed = now.since(segment.started).as_ps() / segment.each.as_ps().max(1) + 1;
        let sent = narrow::<u32, u64>(u64::from(segment.count).min(passed));
        if sent == segment.count {
            return None;
        }
        self.free_at = segment.started + segment.each * u64::from(sent);
        self.sending = None;
        Some((segment, segment.count - sent))
    }

    /// Adds wire time of packets that acknowledge what came the other way.
    pub fn owe(&mut self, span: Span) {
        self.owed += span;
    }

    /// Asks for a look at the queues at `at`. Returns that time if a new timer is needed for it.
    pub fn wake(&mut self, at: Time) -> Option<Time> {
        if self.wake_at.is_some_and(|set| set <= at) {
            return None;
        }
        self.wake_at = Some(at);
        Some(at)
    }

    /// Handles a timer that fired at `now`. Returns true if it is the one that counts, and not an older one.
    pub fn timer_counts(&mut self, now: Time) -> bool {
        let counts = self.wake_at == Some(now);
        if counts {
            self.wake_at = None;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "another one is on the wire")]
    fn starting_a_segment_on_a_busy_wire_panics() {
        let mut wire = Wire::default();
        wire.occupy_single(CreditClass::Posted, Time::from_ps(2));
        wire.start_time(Time::from_ps(1));
    }
}
