//! When bursts are handed over at the other end.

use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet};

/// What decides it.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    pub one_way: Span,
    /// From the arrival of the device's posted writes to their being in memory. Bursts are handed over then, so that one
    /// event stands for both instants.
    pub settle: Span,
    /// When the device's strictly ordered writes that have left so far will be in memory, and the same without the last.
    pub posted_until: Time,
    pub posted_before: Time,
}

impl Arrivals {
    /// When a burst whose last packet leaves the wire at `end` is handed over: on arrival, or once in memory.
    #[inline(always)]
    pub(super) fn of(&mut self, packet: &Packet, end: Time) -> Time {
        let at = end + self.one_way;
        if packet.direction == Direction::Down || packet.kind != Kind::MemoryWrite {
            // What an answer has pushed in front of it is in memory when the processor has the answer.
            let pushes = packet.behind_writes && packet.kind == Kind::Completion;
            return if pushes { at.max(self.posted_until) } else { at };
        }
        if !packet.relaxed {
            self.posted_before = self.posted_until;
            self.posted_until = at + self.settle;
        }
        at + self.settle
    }
}
