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

use crate::number::narrow;
use crate::time::{Span, Time};

/// Flow-control class of a packet, in the order of arbitration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowControlClass {
    #[default]
    /// Posted class: memory writes and messages.
    Posted,
    /// Non-posted class: memory reads.
    NonPosted,
    /// Class of completions, whose credits are infinite.
    Completion,
}

/// Number of flow-control classes.
pub const CLASSES: usize = 3;

impl FlowControlClass {
    /// Returns all classes in the order of their turns after this one was served: this one comes last.
    #[inline]
    fn service_order_after(self) -> [FlowControlClass; CLASSES] {
        use FlowControlClass::{Completion, NonPosted, Posted};
        match self {
            Posted => [NonPosted, Completion, Posted],
            NonPosted => [Completion, Posted, NonPosted],
            Completion => [Posted, NonPosted, Completion],
        }
    }
}

/// Packets of one burst that go on the wire without a gap.
#[derive(Clone, Copy, Debug)]
pub struct WireSegment {
    /// Index of the burst of equal packets from which this segment takes its packets.
    pub packet: u32,
    /// Class in whose queue the burst waits if the segment is cut.
    pub class: FlowControlClass,
    /// Number of packets in the segment.
    pub count: u32,
    /// Wire time of each packet but the last, which may be shorter.
    pub each: Span,
    /// Time at which the first packet of the segment starts.
    pub started: Time,
    /// Time at which the last packet of the segment ends.
    pub end: Time,
}

/// Queue of the bursts of one flow-control class. The first one stands apart, as a second one seldom waits behind it.
#[derive(Clone, Debug, Default)]
struct FlowControlQueue {
    head: Option<u32>,
    others: VecDeque<u32>,
}

impl FlowControlQueue {
    #[inline]
    fn push(&mut self, packet: u32) {
        match self.head {
            None => self.head = Some(packet),
            Some(_) => self.others.push_back(packet),
        }
    }

    fn push_front(&mut self, packet: u32) {
        if let Some(second) = self.head.replace(packet) {
            self.others.push_front(second);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let head = self.head?;
        self.head = if self.others.is_empty() { None } else { self.others.pop_front() };
        Some(head)
    }

    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.head.iter().chain(&self.others).copied()
    }
}

/// Sender's side of one wire: its queues and its timer.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    /// Bursts that wait for this wire, by flow-control class.
    queues: [FlowControlQueue; CLASSES],
    /// Segment on the wire, as long as it might be cut.
    sending: Option<WireSegment>,
    /// Time at which the wire is free for the next segment.
    free_at: Time,
    /// Time of the timer at which the queues are served next, if it is set.
    wake_at: Option<Time>,
    /// Flow-control class that was served last.
    last: FlowControlClass,
    /// Wire time of ACK and UpdateFC packets that have not found a gap yet.
    owed: Span,
}

/// Number of bursts for which the queue of each flow-control class has capacity from the beginning.
const QUEUE_ROOM: usize = 64;

impl Wire {
    /// Returns an idle wire whose queues have capacity for 64 bursts each, so that they seldom allocate.
    pub fn idle_with_capacity() -> Wire {
        let queue = |_| FlowControlQueue { head: None, others: VecDeque::with_capacity(QUEUE_ROOM) };
        Wire { queues: std::array::from_fn(queue), ..Wire::default() }
    }

    /// Returns when the wire is free: when the segment on it has passed, or when a replay or retraining ends.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// True if nothing is queued for the wire or on it.
    pub fn idle(&self, now: Time) -> bool {
        self.free_at <= now && !self.has_waiting_bursts()
    }

    /// Queues a burst behind those of its flow-control class.
    pub fn push(&mut self, class: FlowControlClass, packet: u32) {
        self.queues[class as usize].push(packet);
    }

    /// Queues the rest of a cut burst at the head of the queue of its class.
    pub fn push_front(&mut self, class: FlowControlClass, packet: u32) {
        self.queues[class as usize].push_front(packet);
    }

    /// Returns the flow-control classes in the order of their turns, the one that was served last at the end.
    #[inline]
    pub fn turns(&self) -> [FlowControlClass; CLASSES] {
        self.last.service_order_after()
    }

    /// Returns the first burst of this flow-control class that waits for the wire; `None` if none waits.
    pub fn head(&self, class: FlowControlClass) -> Option<u32> {
        self.queues[class as usize].head
    }

    /// Returns the first burst that waits for the wire if bursts of one class alone wait; otherwise `None`.
    #[inline(always)]
    pub fn sole_waiting_head(&self) -> Option<u32> {
        use FlowControlClass::{Completion, NonPosted, Posted};
        match [Posted, NonPosted, Completion].map(|class| self.head(class)) {
            [Some(packet), None, None] | [None, Some(packet), None] | [None, None, Some(packet)] => Some(packet),
            _ => None,
        }
    }

    /// Removes the first burst of a flow-control class from its queue, since it is served now.
    // Inlined: called once for every packet that waits.
    #[inline(always)]
    pub fn take(&mut self, class: FlowControlClass) {
        let taken = self.queues[class as usize].pop();
        assert!(taken.is_some(), "a burst is taken from an empty queue");
    }

    /// True if a burst waits in the queue of another flow-control class.
    pub fn has_others(&self, class: FlowControlClass) -> bool {
        let [first, second, _] = class.service_order_after();
        self.head(first).is_some() || self.head(second).is_some()
    }

    /// True if a burst of any flow-control class waits for the wire.
    pub fn has_waiting_bursts(&self) -> bool {
        self.queues.iter().any(|queue| queue.head.is_some())
    }

    /// Returns all bursts that wait for the wire, class by class.
    pub fn waiting_bursts(&self) -> impl Iterator<Item = u32> + '_ {
        self.queues.iter().flat_map(FlowControlQueue::iter)
    }

    /// Returns when a segment that is ready at `now` can start: ACK and UpdateFC packets that found no gap go first.
    pub fn start_time(&mut self, now: Time) -> Time {
        assert!(self.free_at <= now, "a segment starts while another one is on the wire");
        let gap = now.since(self.free_at);
        let owed = self.owed.saturating_sub(gap);
        self.owed = Span::ZERO;
        now + owed
    }

    /// Puts a segment on the wire, which is busy until the segment ends.
    pub fn occupy(&mut self, segment: WireSegment) {
        self.free_at = segment.end;
        self.last = segment.class;
        self.sending = if segment.count > 1 { Some(segment) } else { None };
    }

    /// Puts a single packet on the wire, which is busy until `end`.
    pub fn occupy_single(&mut self, class: FlowControlClass, end: Time) {
        (self.free_at, self.last, self.sending) = (end, class, None);
    }

    /// Blocks the wire until `until`, for a replay or a retraining.
    pub fn block(&mut self, until: Time) {
        self.free_at = self.free_at.max(until);
        self.sending = None;
    }

    /// Cuts the train on the wire at the next packet boundary for a packet of another class, `class`. Returns the
    /// segment as it was, and the number of its packets that stay behind; `None` if there is nothing to cut.
    pub fn cut(&mut self, now: Time, class: FlowControlClass) -> Option<(WireSegment, u32)> {
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

    /// Adds wire time of ACK and UpdateFC packets that acknowledge packets of the opposite direction.
    pub fn add_ack_time(&mut self, span: Span) {
        self.owed += span;
    }

    /// Requests a timer at `at`, when the queues of the wire are served. Returns `at` if the caller must schedule it;
    /// `None` if an earlier timer is set.
    pub fn wake(&mut self, at: Time) -> Option<Time> {
        if self.wake_at.is_some_and(|set| set <= at) {
            return None;
        }
        self.wake_at = Some(at);
        Some(at)
    }

    /// True if the timer that fires at `now` is the valid one, which is then cleared, and not one that an earlier timer
    /// replaced.
    pub fn is_valid_timer(&mut self, now: Time) -> bool {
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
    fn segment_on_a_busy_wire_panics() {
        let mut wire = Wire::default();
        wire.occupy_single(FlowControlClass::Posted, Time::from_ps(2));
        wire.start_time(Time::from_ps(1));
    }
}
