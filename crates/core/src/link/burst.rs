//! Burst in flight: the packets of one write, read or completion, with their sizes and times on the wire.

use super::measure::Measure;
use super::wire::CreditClass;
use crate::time::{Span, Time};
use crate::tlp::Packet;

/// Burst between its sender and its receiver.
#[derive(Clone, Debug, Default)]
pub struct PacketBurst {
    /// Description of the packets.
    pub packet: Packet,
    /// Number of this burst in the order of sending.
    pub(super) serial: u64,
    /// Flow-control class whose credits its packets use.
    pub(super) class: CreditClass,
    /// Queue in which the burst waits for the wire: that of its class, or the posted one if it must not pass writes.
    pub(super) queue: CreditClass,
    /// Sizes and times of the packets on the wire.
    pub(super) measure: Measure,
    /// Number of packets put on the wire so far, and of those delivered to the receiver.
    pub(super) sent: u32,
    pub(super) arrived: u32,
    /// True from the reservation of the table entry until it is freed.
    pub(super) in_use: bool,
    /// Delivery time of the last packet, once that is known; `watched` is true if an event for it is scheduled.
    pub(super) arrives_at: Time,
    pub(super) watched: bool,
    /// Arrival of a read's first packet, set by the receiver.
    pub first_arrival: Time,
    /// Number of packets of a write that are in memory, counted by the receiver.
    pub settled: u32,
    /// Time at which the first packet went on the wire, and the time at which the device's writes that had left by then
    /// will be in memory.
    pub(super) started: Time,
    pub(super) posted_until: Time,
}

impl PacketBurst {
    /// Returns the number of this burst in the order of sending.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the number of packets in the burst.
    pub fn count(&self) -> u32 {
        self.measure.count
    }

    /// Returns when the first packet went on the wire.
    pub fn started(&self) -> Time {
        self.started
    }

    /// Returns when the device's strictly ordered writes that left before this burst will be in memory.
    pub fn posted_until(&self) -> Time {
        self.posted_until
    }

    /// Returns the wire time of each packet but the last.
    pub fn each(&self) -> Span {
        self.measure.each
    }

    /// Returns the bytes of the burst on the wire, headers and framing included.
    pub fn wire_bytes(&self) -> u32 {
        self.measure.whole.payload + self.measure.whole.header
    }

    /// Returns the wire time of the packets that have not left yet.
    pub fn time_left(&self) -> Span {
        self.measure.whole.time.saturating_sub(self.measure.each * u64::from(self.sent))
    }

    /// Returns the wire time of all packets of the burst.
    pub fn wire_time(&self) -> Span {
        self.measure.whole.time
    }
}
