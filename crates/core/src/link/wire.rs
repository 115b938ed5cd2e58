//! One wire: who sends next, for how long, and what may cut in.
//!
//! A burst goes out as a *train*: one segment whose end is known when it starts. A packet of another class that is
//! queued meanwhile cuts the train at the next packet boundary, and the rest of the train queues again at the head
//! of its class. In packet granularity every segment is one packet, which is the same as cutting at each boundary.

use std::collections::VecDeque;

use crate::time::{Span, Time};

/// Flow-control classes, in the order of arbitration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    #[default]
    Posted,
    NonPosted,
    Completion,
}

pub const CLASSES: usize = 3;

impl Class {
    /// The class whose turn is after this one's.
    #[inline]
    fn next(self) -> Class {
        match self {
            Class::Posted => Class::NonPosted,
            Class::NonPosted => Class::Completion,
            Class::Completion => Class::Posted,
        }
    }
}

/// A segment on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub packet: u32,
    pub class: Class,
    /// Packets in the segment, and the time of each but the last, which may be shorter.
    pub count: u32,
    pub each: Span,
    pub started: Time,
    pub end: Time,
}

/// The sender's side of one wire.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    /// Bursts that wait, by class.
    queues: [VecDeque<u32>; CLASSES],
    waiting: u32,
    /// The segment on the wire, as long as it might be cut.
    sending: Option<Segment>,
    free_at: Time,
    /// When the wire looks at its queues next, if a timer for it is set.
    wake_at: Option<Time>,
    /// Class that was served last.
    last: Class,
    /// Wire time of ACK and flow-control packets that have not found a gap yet.
    owed: Span,
}

impl Wire {
    /// When the packet on the wire, if any, has passed.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Whether nothing is queued or on the wire.
    pub fn idle(&self, now: Time) -> bool {
        self.waiting == 0 && self.free_at <= now
    }

    /// Queue a burst behind those of its class.
    pub fn push(&mut self, class: Class, packet: u32) {
        self.queues[class as usize].push_back(packet);
        self.waiting += 1;
    }

    /// Queue the rest of a burst before those of its class.
    pub fn push_front(&mut self, class: Class, packet: u32) {
        self.queues[class as usize].push_front(packet);
        self.waiting += 1;
    }

    /// The classes, those first that have waited longest for their turn.
    #[inline]
    pub fn turns(&self) -> impl Iterator<Item = Class> + use<> {
        let mut class = self.last;
        (0..CLASSES).map(move |_| {
            class = class.next();
            class
        })
    }

    /// The first burst of `class` that waits.
    pub fn head(&self, class: Class) -> Option<u32> {
        self.queues[class as usize].front().copied()
    }

    /// Take the head of `class`, which is served now.
    #[inline(always)] // Every packet that waits is taken once.
    pub fn take(&mut self, class: Class) {
        self.queues[class as usize].pop_front();
        self.waiting -= 1;
    }

    /// Whether anything waits in another class's queue.
    pub fn has_others(&self, class: Class) -> bool {
        self.waiting as usize > self.queues[class as usize].len()
    }

    /// Whether anything waits.
    pub fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// All bursts that wait, class by class.
    pub fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.queues.iter().flatten().copied()
    }

    /// When a segment that is ready at `now` can start: ACK and flow-control packets that found no gap go first.
    pub fn start_at(&mut self, now: Time) -> Time {
        let gap = now.since(self.free_at);
        let owed = self.owed.saturating_sub(gap);
        self.owed = Span::ZERO;
        now + owed
    }

    /// Put a segment on the wire.
    pub fn occupy(&mut self, segment: Segment) {
        self.free_at = segment.end;
        self.last = segment.class;
        self.sending = if segment.count > 1 { Some(segment) } else { None };
    }

    /// Put a single packet on the wire.
    pub fn occupy_single(&mut self, class: Class, end: Time) {
        (self.free_at, self.last, self.sending) = (end, class, None);
    }

    /// The wire is lost until `until` (a replay).
    pub fn block(&mut self, until: Time) {
        self.free_at = self.free_at.max(until);
        self.sending = None;
    }

    /// Cut the train on the wire for a packet of `class` at the next packet boundary: the segment as it was, and the
    /// packets of it that now stay behind. None if there is nothing to cut.
    pub fn cut(&mut self, now: Time, class: Class) -> Option<(Segment, u32)> {
        let segment = self.sending.filter(|s| s.class != class && s.end > now)?;
        let passed = now.since(segment.started).as_ps() / segment.each.as_ps().max(1) + 1;
        let sent = u64::from(segment.count).min(passed) as u32;
        if sent == segment.count {
            return None;
        }
        self.free_at = segment.started + segment.each * u64::from(sent);
        self.sending = None;
        Some((segment, segment.count - sent))
    }

    /// Owe the wire time of packets that acknowledge what came the other way.
    pub fn owe(&mut self, span: Span) {
        self.owed += span;
    }

    /// Ask to be woken when the wire is free; the instant if a new timer is needed for it.
    pub fn wake(&mut self, at: Time) -> Option<Time> {
        if self.wake_at.is_some_and(|set| set <= at) {
            return None;
        }
        self.wake_at = Some(at);
        Some(at)
    }

    /// A timer has fired at `now`: whether it is the one that counts.
    pub fn woken(&mut self, now: Time) -> bool {
        let counts = self.wake_at == Some(now);
        if counts {
            self.wake_at = None;
        }
        counts
    }
}
