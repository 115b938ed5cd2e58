//! Delivery time of bursts: the instant at which the link hands a burst to its receiver.

use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet};

/// Computes the delivery time of each burst, and remembers when the device's posted writes will be in memory.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// Time from the last symbol leaving the sender to the packet being usable at the receiver.
    pub one_way: Span,
    /// Time from the arrival of a device's posted write to its data being in host memory. The link delivers writes at
    /// that later instant, so that one event stands for both.
    pub settle: Span,
    /// Instant at which all of the device's strictly ordered writes that have left so far will be in memory.
    /// `posted_before` leaves out the last of them, which may still be cut from the wire.
    pub posted_until: Time,
    pub posted_before: Time,
}

impl Delivery {
    /// Returns when a burst is delivered whose last packet leaves the wire at `end`: on arrival, or once its data is in
    /// memory.
    #[inline(always)]
    pub(super) fn delivery_time(&mut self, packet: &Packet, end: Time) -> Time {
        let at = end + self.one_way;
        if packet.direction == Direction::Down || packet.kind != Kind::MemoryWrite {
            // PCIe ordering: a read completion pushes earlier posted writes, so these are in memory when the processor
            // gets its data.
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
