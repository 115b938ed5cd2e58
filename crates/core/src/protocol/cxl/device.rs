//! The device's half: a memory expander with persistent memory (a type 3 device, CXL, section 2.4).
//!
//! It owes the host one answer to each message: the line of a load, or the completion of a store once its line is within
//! the persistence domain, which is the buffer: a device flushes it when power fails (CXL, section 9.8).

use crate::drive::Drive;
use slab::Slab;

use super::{Buffer, LINE_BYTES, role};
use crate::ledger::Stage;
use crate::protocol::Ports;
use crate::scheduler::Event;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet, Token};

/// The device.
#[derive(Clone, Debug)]
pub struct Device {
    controller: Span,
    buffer: Buffer,
    /// Answers that wait for their data or for room in the buffer.
    answers: Slab<Packet>,
}

impl Device {
    /// An idle device with an empty buffer.
    pub fn new(drive: &Drive) -> Device {
        Device { controller: drive.cxl.controller, buffer: Buffer::new(&drive.cxl), answers: Slab::new() }
    }

    /// What has been counted, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.buffer.counts.named().to_vec()
    }

    /// A message of the host has arrived. As all take the controller as long, it can go to buffer and media now, as of
    /// then.
    pub fn on_packet(&mut self, now: Time, packet: &Packet, ports: &mut Ports) {
        let at = now + self.controller;
        let (answer, ready_at) = match packet.kind {
            Kind::MemoryRead => {
                ports.shared.requests.charge(packet.request, Stage::LineRequest, now);
                ports.shared.requests.charge(packet.request, Stage::Parse, at);
                let fetched = self.buffer.read(at, packet.device_offset, ports.media);
                ports.shared.requests.charge(packet.request, Stage::MediaWait, fetched.started);
                ports.shared.requests.charge(packet.request, Stage::Media, fetched.ready_at);
                (self.data(packet), fetched.ready_at)
            }
            _ => {
                ports.shared.requests.charge(packet.request, Stage::Parse, at);
                let admitted = self.buffer.write(at, packet.device_offset, ports.media);
                ports.shared.requests.charge(packet.request, Stage::MediaWait, admitted);
                (self.done(packet), admitted)
            }
        };
        let context = self.answers.insert(answer) as u32;
        ports.shared.scheduler.at(ready_at, Event::Controller { kind: 0, context });
    }

    fn data(&self, read: &Packet) -> Packet {
        let token = Token { role: role::DATA, ..read.token };
        let data = Packet::write(Direction::Up, read.address, read.bytes, LINE_BYTES, token);
        data.user_data(read.device_offset, read.request)
    }

    /// The completion of a store, which has no payload.
    fn done(&self, write: &Packet) -> Packet {
        let done = Packet::write(Direction::Up, write.address, 0, 0, Token { role: role::DONE, ..write.token });
        Packet { request: write.request, ..done }
    }

    /// An answer is ready.
    pub fn on_timer(&mut self, context: u32, ports: &mut Ports) {
        let answer = self.answers.remove(context as usize);
        ports.link.send_with(answer, &[], ports.shared);
    }
}
