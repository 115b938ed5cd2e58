//! Conversion of bursts of packets and finished requests into records of the simulation's trace.

use super::stage::{Ledger, SystemPart};
use super::trace::{Name, Record, Step, Trace};
use crate::time::Time;

/// Burst of packets that has arrived, as a trace records it.
#[derive(Clone, Debug)]
pub struct RecordedBurst {
    /// Name of the data that the packets carry.
    pub name: &'static str,
    /// True if the burst travelled from device to host.
    pub up: bool,
    /// Number of packets in the burst.
    pub packets: u32,
    /// Number of bytes of the burst on the wire, headers and framing included.
    pub wire_bytes: u32,
    /// Instant at which the first symbol of the burst entered the wire.
    pub from: Time,
    /// Instant at which the last packet of the burst was usable at the other end.
    pub to: Time,
    /// Host address of the burst's first byte, and the number of bytes from there on.
    pub memory: (u64, u32),
}

impl Trace {
    /// Adds a burst that has arrived to the trace, as a record of the request number `request` if it belongs to one.
    pub fn keep_arrived_burst(&mut self, burst: RecordedBurst, request: Option<u64>) {
        let RecordedBurst { name, up, packets, wire_bytes, from, to, memory } = burst;
        let what = Name::Borrowed(name);
        let step = match up {
            true => Step::Up { what, packets, wire_bytes },
            false => Step::Down { what, packets, wire_bytes },
        };
        self.push(Record { request, from, to, step, memory: Some(memory) });
    }

    /// Adds the recorded steps of a finished request to the trace. Leaves out stages on the link, which bursts show.
    pub fn keep_finished_request(&mut self, number: u64, ledger: &Ledger, stack: &[String]) {
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
