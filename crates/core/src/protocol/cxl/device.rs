//! Simulated CXL.mem device: a memory expander with persistent memory (a type 3 device, CXL, section 2.4).
//!
//! The device sends one response to each message. A load gets its line. A store completes once its line is in the
//! buffer or the cache, a flush once its bytes are in the cells. The drive file says whether the buffer is within the
//! persistence domain, so that no flush is needed. A device flushes such a buffer when power fails (CXL, section 9.8).

use super::{CxlDeviceMemory, Flush, LINE_BYTES, Role};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::protocol::halves;
use crate::protocol::ports::Ports;
use crate::scheduler::Event;
use crate::scheduler::Timer;
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::Payload;
use crate::tlp::{Direction, Kind, Packet};

/// CXL memory expander with persistent memory: its controller, its buffer or cache, and its responses to come.
#[derive(Clone, Debug)]
pub struct Device {
    controller: Span,
    memory: CxlDeviceMemory,
    /// Responses that wait for their data, for room in the buffer, or for the end of a flush.
    answers: Table<Packet>,
}

impl Device {
    /// Returns an idle device, whose buffer or cache has its content at the start of a run.
    pub fn new(drive: &Drive) -> Device {
        Device { controller: drive.cxl.controller, memory: CxlDeviceMemory::new(drive), answers: Table::default() }
    }

    fn data(&self, read: &Packet) -> Packet {
        let token = Role::DATA.token(read.token.context);
        let data = Packet::write(Direction::Up, read.address, read.bytes, LINE_BYTES, token);
        data.user_data(read.device_offset, read.request)
    }

    /// Returns the completion message of a store or a flush, which has no payload.
    fn done(&self, write: &Packet, role: Role) -> Packet {
        let done = Packet::write(Direction::Up, write.address, 0, 0, role.token(write.token.context));
        Packet { request: write.request, ..done }
    }
}

impl halves::Controller for Device {
    /// Handles a load, store or flush from the host, and schedules the response. As the controller takes the same time
    /// for all messages, buffer and media are accessed now with the later time.
    fn on_packet(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        let at = now + self.controller;
        let (answer, ready_at) = match (packet.kind, Role::of(packet)) {
            (Kind::MemoryRead, _) => {
                ports.shared.requests.charge(packet.request, Stage::LineRequest, now);
                ports.shared.requests.charge(packet.request, Stage::Parse, at);
                let fetched = self.memory.read(at, packet.device_offset, ports.media);
                let times = [fetched.dispatched, fetched.admitted, fetched.started, fetched.read_at];
                ports.shared.requests.charge_media_access(packet.request, times);
                if fetched.ready_at > fetched.read_at {
                    ports.shared.requests.charge(packet.request, Stage::DeviceCache, fetched.ready_at);
                }
                (self.data(packet), fetched.ready_at)
            }
            (_, Role::FLUSH) => {
                ports.shared.requests.charge(packet.request, Stage::Doorbell, now);
                ports.shared.requests.charge(packet.request, Stage::Parse, at);
                let Flush { offset, bytes } = Flush::decode(payload.bytes());
                let flushed = self.memory.flush(at, offset, bytes, ports.media);
                ports.shared.requests.charge(packet.request, Stage::Media, flushed);
                (self.done(packet, Role::FLUSHED), flushed)
            }
            _ => {
                ports.shared.requests.charge(packet.request, Stage::Parse, at);
                let admitted = self.memory.write(at, packet.device_offset, ports.media);
                ports.shared.requests.charge(packet.request, Stage::MediaWait, admitted);
                (self.done(packet, Role::DONE), admitted)
            }
        };
        let context = self.answers.insert(answer);
        ports.shared.scheduler.at(ready_at, Event::Controller { kind: 0, context });
    }

    /// Sends a response to the host when its data, or its store or flush, is ready.
    fn on_timer(&mut self, _: Time, timer: Timer, ports: &mut Ports) {
        let answer = self.answers.take(timer.context);
        ports.link.send_with(answer, &[], ports.shared);
    }

    fn packet_name(&self, packet: &Packet) -> &'static str {
        Role::of(packet).name(packet.kind).unwrap_or("data")
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.memory.counters()
    }
}
