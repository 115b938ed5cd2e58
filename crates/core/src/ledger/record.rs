//! Conversion of what the engine sees into records of a trace.

use super::stage::{Ledger, SystemPart};
use super::trace::{Name, Record, Step, Trace};
use crate::time::Time;

/// A burst of packets that has arrived.
#[derive(Clone, Debug)]
pub struct RecordedBurst {
    /// Name of what the packets carry.
    pub name: &'static str,
    /// True if it travelled from device to host.
    pub up: bool,
    /// Number of packets.
    pub packets: u32,
    /// Number of bytes on the wire.
    pub wire_bytes: u32,
    /// Instant at which its first symbol entered the wire.
    pub from: Time,
    /// Instant at which its last packet was usable at the other end.
    pub to: Time,
    /// First host address, and number of bytes from there on.
    pub memory: (u64, u32),
}

impl Trace {
    /// Records the journey of a burst.
    pub fn keep_burst(&mut self, burst: RecordedBurst, request: Option<u64>) {
        let RecordedBurst { name, up, packets, wire_bytes, from, to, memory } = burst;
        let what = Name::Borrowed(name);
        let step = match up {
            true => Step::Up { what, packets, wire_bytes },
            false => Step::Down { what, packets, wire_bytes },
        };
        self.push(Record { request, from, to, step, memory: Some(memory) });
    }

    /// Records the steps of a finished request outside the link.
    pub fn keep_request(&mut self, number: u64, ledger: &Ledger, stack: &[String]) {
        for (stage, from, to) in ledger.steps() {
            let name = Name::Owned(stage.name(stack).to_owned());
            let step = match stage.part() {
                SystemPart::Host => Step::Host(name),
                SystemPart::Device => Step::Device(name),
                SystemPart::Media => Step::Media(name),
                SystemPart::Link => continue,
            };
            self.push(Record { request: Some(number), from, to, step, memory: None });
        }
    }
}
