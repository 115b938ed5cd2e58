//! Controller of the `ramdisk` protocol: parses commands one after the other, and passes each to the media as soon as
//! it is parsed.

use super::Role;
use super::command::{BLOCK_BYTES, COMMAND_BYTES, Command, STATUS_BYTES};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::number::{index, length, low_u32};
use crate::protocol::halves;
use crate::protocol::ports::{Ports, begin_media_read};
use crate::protocol::reads::Reads;
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::time::{Span, Time};
use crate::tlp::{Direction, Kind, Packet, Payload};

/// Kinds of the controller's timers. The context of each timer is the command's slot.
mod timer {
    /// Timer that expires when the command of a write is parsed, so that its data can be read from the host.
    pub(super) const PARSED: u8 = 0;
    /// Timer that expires when a read's data can be sent to the host without a gap.
    pub(super) const DATA_READY: u8 = 1;
    /// Timer that expires when a write is acknowledged, or when a refused command is parsed. The status is then
    /// written.
    pub(super) const WRITTEN: u8 = 2;
}

/// Controller of a `ramdisk` device, whose commands arrive in doorbell writes.
#[derive(Clone, Debug)]
pub struct Controller {
    parse: Span,
    parser_free_at: Time,
    /// Newest command of each slot. A slot keeps its command after completion, until the next one arrives.
    commands: Vec<Command>,
    statuses: u64,
    reads: Reads,
    max_payload_bytes: u32,
    max_transfer_bytes: u32,
    capacity_bytes: u64,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    commands: u64,
    refused: u64,
}

impl Controller {
    /// Returns an idle controller. `statuses` is the bus address in host memory of the status words, one for each slot.
    pub fn new(drive: &Drive, statuses: u64) -> Controller {
        Controller {
            parse: drive.ramdisk.parse,
            parser_free_at: Time::ZERO,
            commands: vec![Command::default(); drive.ramdisk.slots.into()],
            statuses,
            reads: Reads::at(&drive.link),
            max_payload_bytes: drive.link.max_payload_bytes,
            max_transfer_bytes: drive.ramdisk.max_transfer_kib * 1024,
            capacity_bytes: drive.media.capacity_bytes(),
            counts: Counts::default(),
        }
    }

    /// Accepts a command and starts to parse it. A command with an invalid slot is dropped, as no status could report
    /// it. One that is too large or beyond the device's capacity completes when it is parsed.
    fn accept_ramdisk_command(&mut self, now: Time, command: Command, ports: &mut Ports) {
        let Some(place) = self.commands.get_mut(usize::from(command.slot)) else {
            self.counts.refused += 1;
            return;
        };
        *place = command;
        let request = ports.slots.bound(0, command.slot.into());
        ports.shared.requests.charge(request, Stage::Doorbell, now);
        self.parser_free_at = now.max(self.parser_free_at) + self.parse;
        let parsed = self.parser_free_at;
        ports.shared.requests.charge(request, Stage::Parse, parsed);
        let (offset, bytes) = extent_of_command(&command);
        let (at, kind) = match command.write {
            _ if bytes > self.max_transfer_bytes.into() || offset.saturating_add(bytes) > self.capacity_bytes => {
                self.counts.refused += 1;
                (parsed, timer::WRITTEN)
            }
            true => (parsed, timer::PARSED),
            false => (
                begin_media_read(parsed, offset, low_u32(bytes), self.max_payload_bytes, request, ports),
                timer::DATA_READY,
            ),
        };
        ports.shared.scheduler.at(at, Event::Controller { kind, context: command.slot.into() });
    }

    fn ask_for_data(&mut self, command: Command, request: Option<RequestId>, ports: &mut Ports) {
        let (offset, bytes) = extent_of_command(&command);
        let token = Role::PAYLOAD.token(command.slot.into());
        let read = Packet::read(command.buffer, low_u32(bytes), self.reads.request_bytes_max(), token);
        self.reads.request(read.user_data(offset, request), ports.link, ports.shared);
    }

    fn send_data(&mut self, command: Command, request: Option<RequestId>, ports: &mut Ports) {
        let (offset, bytes) = extent_of_command(&command);
        let token = Role::DATA.token(command.slot.into());
        let data = Packet::write(Direction::Up, command.buffer, low_u32(bytes), self.max_payload_bytes, token);
        ports.link.send(data.user_data(offset, request), ports.shared);
        self.finish(command.slot, ports);
    }

    /// Writes the status of a completed command to host memory. The status stays behind any data that was sent before.
    fn finish(&mut self, slot: u16, ports: &mut Ports) {
        self.counts.commands += 1;
        let address = self.statuses + u64::from(slot) * length(STATUS_BYTES);
        let status = 1u32.to_le_bytes();
        ports.link.write(Direction::Up, address, &status, Role::STATUS.token(slot.into()), ports.shared);
    }
}

/// Returns a command's first byte on the device and its length in bytes.
fn extent_of_command(command: &Command) -> (u64, u64) {
    let block = u64::from(BLOCK_BYTES);
    (command.block.saturating_mul(block), u64::from(command.blocks) * block)
}

impl halves::Controller for Controller {
    fn on_packet(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        match packet.kind {
            Kind::Completion => self.on_answer(now, packet, payload, ports),
            _ => {
                let bytes: &[u8; COMMAND_BYTES] = payload.bytes().first_chunk().expect("a payload has 64 bytes");
                self.accept_ramdisk_command(now, Command::decode(bytes), ports);
            }
        }
    }

    /// Handles the data that the device has read from the host for a write, and writes it to the media.
    fn on_answer(&mut self, now: Time, packet: &Packet, _: &Payload, ports: &mut Ports) {
        self.reads.answered(packet.bytes, ports.link, ports.shared);
        let (_, bytes) = extent_of_command(&self.commands[index(packet.token.context)]);
        assert_eq!(u64::from(packet.bytes), bytes, "the host sends as many bytes as a write asks for");
        let timing = ports.media.write(now, packet.device_offset, packet.bytes);
        ports.shared.requests.charge_media_access(packet.request, timing.stages());
        let written = Event::Controller { kind: timer::WRITTEN, context: packet.token.context };
        ports.shared.scheduler.at(timing.acknowledged_at, written);
    }

    fn on_timer(&mut self, _: Time, timer: Timer, ports: &mut Ports) {
        let command = self.commands[index(timer.context)];
        let request = ports.slots.bound(0, command.slot.into());
        match timer.kind {
            timer::PARSED => self.ask_for_data(command, request, ports),
            timer::DATA_READY => self.send_data(command, request, ports),
            _ => self.finish(command.slot, ports),
        }
    }

    fn packet_name(&self, packet: &Packet) -> &'static str {
        Role::of(packet).name(packet.kind).unwrap_or("data")
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("commands", self.counts.commands), ("refused", self.counts.refused)]
    }
}
