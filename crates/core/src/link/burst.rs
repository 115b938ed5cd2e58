//! Burst in flight: the packets of one write, read or completion, with their sizes and times on the wire.

use super::measure::BurstMeasure;
use super::wire::FlowControlClass;
use crate::time::{Span, Time};
use crate::tlp::Packet;

/// Burst in flight on the link: its description, its wire times, and how many of its packets have been sent and have
/// arrived.
#[derive(Clone, Debug, Default)]
pub struct PacketBurst {
    /// Kind, direction, address and size of the packets of the burst.
    pub packet: Packet,
    /// Serial number of this burst, counted in the order of sending over the link.
    pub(super) serial: u64,
    /// Flow-control class (posted, non-posted, completion) whose credits the packets of the burst use.
    pub(super) class: FlowControlClass,
    /// Flow-control class in whose queue the burst waits for the wire: its own, or the posted one if it must not pass
    /// writes.
    pub(super) queue: FlowControlClass,
    /// Sizes of the burst's packets in bytes, and their wire times.
    pub(super) measure: BurstMeasure,
    /// Number of the burst's packets put on the wire so far; `arrived` counts those delivered to the receiver.
    pub(super) sent: u32,
    pub(super) arrived: u32,
    /// True while the entry of this burst in the table of bursts is reserved.
    pub(super) in_use: bool,
    /// Time at which the last packet of the burst is delivered; `Time::NEVER` until it is known. `watched` is true if
    /// an arrival event is scheduled.
    pub(super) arrives_at: Time,
    pub(super) watched: bool,
    /// Time from which the latency of a read of memory counts: arrival of its first packet, or when earlier writes are
    /// in memory.
    pub first_arrival: Time,
    /// Number of packets of a write burst that are in host memory so far, counted by the root complex.
    pub settled: u32,
    /// Time at which the first packet of the burst went on the wire. `posted_until` is when all strictly ordered writes
    /// that had left by then will be in memory.
    pub(super) started: Time,
    pub(super) posted_until: Time,
}

impl PacketBurst {
    /// Returns the serial number of this burst, counted in the order of sending over the link.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the number of packets in the burst.
    pub fn count(&self) -> u32 {
        self.measure.count
    }

    /// Returns the time at which the first packet of the burst went on the wire.
    pub fn started(&self) -> Time {
        self.started
    }

    /// Returns when the device's strictly ordered writes that left before this burst will be in memory.
    pub fn posted_until(&self) -> Time {
        self.posted_until
    }

    /// Returns the wire time of one packet of the burst, other than the last, which may be shorter.
    pub fn each(&self) -> Span {
        self.measure.each
    }

    /// Returns the bytes of the burst on the wire, headers and framing included.
    pub fn wire_bytes(&self) -> u32 {
        self.measure.whole.payload + self.measure.whole.header
    }

    /// Returns the wire time of the packets of the burst that have not been put on the wire yet.
    pub fn time_left(&self) -> Span {
        self.measure.whole.time.saturating_sub(self.measure.each * u64::from(self.sent))
    }

    /// Returns the wire time of all packets of the burst.
    pub fn wire_time(&self) -> Span {
        self.measure.whole.time
    }
}
