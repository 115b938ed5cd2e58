//! From what the engine sees to what a trace keeps.

use super::stage::{Ledger, Part};
use super::trace::{Name, Record, Step, Trace};
use crate::time::Time;

/// A burst of packets that has arrived.
#[derive(Clone, Debug)]
pub struct Burst {
    pub name: &'static str,
    pub up: bool,
    pub packets: u32,
    pub wire_bytes: u32,
    pub from: Time,
    pub to: Time,
    /// First address, and bytes from there on.
    pub memory: (u64, u32),
}

impl Trace {
    /// Keep a burst's journey.
    pub fn keep_burst(&mut self, burst: Burst, request: Option<u64>) {
        let Burst { name, up, packets, wire_bytes, from, to, memory } = burst;
        let what = Name::Borrowed(name);
        let step = match up {
            true => Step::Up { what, packets, wire_bytes },
            false => Step::Down { what, packets, wire_bytes },
        };
        self.push(Record { request, from, to, step, memory: Some(memory) });
    }

    /// Keep what a finished request did outside the link.
    pub fn keep_request(&mut self, number: u64, ledger: &Ledger, stack: &[String]) {
        for (stage, from, to) in ledger.steps() {
            let name = Name::Owned(stage.name(stack).to_owned());
            let step = match stage.part() {
                Part::Host => Step::Host(name),
                Part::Device => Step::Device(name),
                Part::Media => Step::Media(name),
                Part::Link => continue,
            };
            self.push(Record { request: Some(number), from, to, step, memory: None });
        }
    }
}
