//! A burst on its way: the packets of one write, read or answer, and what they take on the wire.

use super::measure::Measure;
use super::wire::Class;
use crate::time::{Span, Time};
use crate::tlp::Packet;

/// A burst between its sender and its receiver.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    pub packet: Packet,
    /// Number of this burst in the order of sending.
    pub(super) serial: u64,
    pub(super) class: Class,
    /// The queue in which it waits for the wire.
    pub(super) queue: Class,
    pub(super) measure: Measure,
    /// Packets put on the wire so far, and handed to the receiver.
    pub(super) sent: u32,
    pub(super) arrived: u32,
    /// When the last packet arrives, once that is known, and whether an event will look.
    pub(super) arrives_at: Time,
    pub(super) watched: bool,
    /// For the receiver's use: a read's first packet's arrival, or packets settled so far.
    pub first_arrival: Time,
    pub settled: u32,
    /// When its first packet went on the wire, and when the device's writes that had left by then will be in memory.
    pub(super) started: Time,
    pub(super) posted_until: Time,
}

impl InFlight {
    /// Number of this burst in the order of sending.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Packets in the burst.
    pub fn count(&self) -> u32 {
        self.measure.count
    }

    /// When its first packet went on the wire.
    pub fn started(&self) -> Time {
        self.started
    }

    /// When the device's strictly ordered writes that left before it will be in memory.
    pub fn posted_until(&self) -> Time {
        self.posted_until
    }

    /// Wire time of each packet but the last.
    pub fn each(&self) -> Span {
        self.measure.each
    }

    /// Bytes of the burst on the wire, headers and framing included.
    pub fn wire_bytes(&self) -> u32 {
        self.measure.whole.payload + self.measure.whole.header
    }

    /// What its packets that have not left yet will take on the wire.
    pub fn time_left(&self) -> Span {
        self.measure.whole.time.saturating_sub(self.measure.each * u64::from(self.sent))
    }

    /// Time that the burst's own packets spend on the wire.
    pub fn wire_time(&self) -> Span {
        self.measure.whole.time
    }
}
