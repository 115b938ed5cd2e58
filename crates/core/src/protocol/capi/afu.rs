//! Simulated CAPI device: the accelerator (AFU), which fetches work elements and moves cache lines through the
//! processor service layer (PSL).
//!
//! Every command of a work element is completed by one status, and the status of a read stays behind its lines. A write
//! completes once its lines are in the AFU's buffer (CAPI: 2.9 us over either memory), or in the cells if the drive
//! file says so (`media.acknowledge`).

use super::Role;
use super::buffer::WriteBuffer;
use super::driver::CapiAreas;
use super::spec::{
    COMMANDS_MAX, Command, DOORBELL_REGISTER, LINE_BYTES, Operation, STATUS_BYTES, Status, decode_element,
};
use crate::config::Acknowledge;
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::number::{index, length, low_u8, low_u16};
use crate::protocol::halves::{self, PollNames};
use crate::protocol::ports::{Ports, begin_media_read};
use crate::protocol::reads::Reads;
use crate::random::Random;
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet, Payload};

/// Kinds of the AFU's timers: a bus command of the AFU has passed the PSL, or an operation in the AFU has ended.
mod timer {
    pub(super) const FETCH: u8 = 0;
    pub(super) const PAYLOAD: u8 = 1;
    pub(super) const CLAIM: u8 = 2;
    pub(super) const DATA: u8 = 3;
    pub(super) const STATUS: u8 = 4;
    /// Timer that expires when the lines of a read are available in the AFU.
    pub(super) const READ: u8 = 5;
    /// Timer that expires when the lines of a write are in the AFU's buffer, or in the cells if only they count.
    pub(super) const WRITTEN: u8 = 6;
    /// Timer that expires when a command has been parsed that is a write, which reads its lines from the host, or is
    /// refused, which only sends its status.
    pub(super) const PARSED: u8 = 7;
}

/// Size in bytes that the completion of a claim of ownership carries for each line (assumed: a tag).
pub const CLAIM_BYTES: u32 = 4;
/// Number of low bits of a page-table read's context that hold the command's number. The higher bits hold the kind of
/// its timer.
const NUMBER_BITS: u32 = 24;

/// AFU's record of a work element: its round of use, the times of its doorbell and fetch, and its commands in flight.
#[derive(Clone, Copy, Debug, Default)]
struct WorkElementRecord {
    /// Round of use of the element whose commands were executed last.
    round: u32,
    /// Time of the current round's doorbell.
    rung: Time,
    /// Time at which the current round's commands were fetched.
    fetched: Time,
    is_busy: bool,
    left: u8,
}

/// Command of a work element that the AFU has fetched and not completed.
#[derive(Clone, Copy, Debug)]
struct FetchedCommand {
    command: Command,
    element: u16,
    place: u8,
    request: Option<RequestId>,
    status: Status,
}

/// Counters of the CAPI accelerator (AFU): commands, work elements, refusals and translation misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of commands whose status the AFU has sent, refused ones included.
    pub commands: u64,
    /// Number of work elements that the AFU has fetched from host memory.
    pub elements: u64,
    /// Number of commands that the AFU refused, whose status was [`Status::Refused`].
    pub refused: u64,
    /// Number of accesses for which the PSL had to read the page table.
    pub translation_misses: u64,
}

/// Accelerator (AFU) with its processor service layer (PSL): work elements, commands in flight, write buffer and
/// counters.
#[derive(Clone, Debug)]
pub struct Afu {
    areas: CapiAreas,
    elements: Vec<WorkElementRecord>,
    active: Table<FetchedCommand>,
    reads: Reads,
    buffer: WriteBuffer,
    acknowledge: Acknowledge,
    psl: Span,
    claim_lines: bool,
    translation_miss_ratio: f64,
    random: Random,
    parse: Span,
    parser_free_at: Time,
    capacity_lines: u64,
    max_transfer_bytes: u32,
    /// Counters of the CAPI accelerator (AFU) since the start of the run.
    pub counts: Counts,
}

impl Afu {
    /// Returns an idle AFU. `areas` holds the addresses of the host's work elements and status lines.
    pub(super) fn new(drive: &Drive, areas: CapiAreas, seed: u64) -> Afu {
        let capi = &drive.capi;
        Afu {
            areas,
            elements: vec![WorkElementRecord::default(); capi.elements.into()],
            active: Table::default(),
            reads: Reads::new(drive.link.read_tags, LINE_BYTES),
            buffer: WriteBuffer::new(u64::from(capi.buffer_kib) * 1024),
            acknowledge: drive.media.acknowledge,
            psl: capi.psl,
            claim_lines: capi.claim_lines,
            translation_miss_ratio: capi.translation_miss_ratio,
            random: Random::stream(seed, "capi translation"),
            parse: capi.parse,
            parser_free_at: Time::ZERO,
            capacity_lines: drive.media.capacity_bytes() / u64::from(LINE_BYTES),
            max_transfer_bytes: capi.max_transfer_kib * 1024,
            counts: Counts::default(),
        }
    }

    /// Passes a bus command of the AFU to the PSL. A timer of this kind and context expires when the command has
    /// passed.
    fn issue(&self, now: Time, kind: u8, context: u32, ports: &mut Ports) {
        ports.shared.scheduler.after(now, self.psl, Event::Controller { kind, context });
    }

    /// Handles a bus command of the AFU that has passed the PSL: sends it over the link, or reads the page table first
    /// if the PSL cannot translate its address.
    fn on_bus_command_passed(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        ports.shared.requests.charge(self.request(timer), Stage::Psl, now);
        // The claim of the lines has already translated their address.
        let is_translated = timer.kind == timer::DATA && self.claim_lines;
        if is_translated || !self.draw_translation_miss() {
            return self.send_command_packets(now, timer, ports);
        }
        self.counts.translation_misses += 1;
        let token = Role::PAGE_TABLE.token(u32::from(timer.kind) << NUMBER_BITS | timer.context);
        self.reads.request(Packet::read(self.areas.elements, LINE_BYTES, LINE_BYTES, token), ports.link, ports.shared);
    }

    /// Draws at random whether the PSL cannot translate an address. Returns true if it must read the page table.
    fn draw_translation_miss(&mut self) -> bool {
        self.translation_miss_ratio > 0.0 && self.random.unit() < self.translation_miss_ratio
    }

    /// Returns the request to which a bus command's time is charged. Returns none for the fetch of a work element,
    /// which is charged to all its requests. Also returns none for the status of a read, which is sent while its lines
    /// travel.
    fn request(&self, timer: Timer) -> Option<RequestId> {
        if timer.kind == timer::FETCH {
            return None;
        }
        let active = &self.active[index(timer.context)];
        let is_behind_lines = timer.kind == timer::STATUS && active.command.operation == Operation::Read;
        active.request.filter(|_| !is_behind_lines)
    }

    /// Sends the packets of a bus command, whose address is translated, to the host.
    fn send_command_packets(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        match timer.kind {
            timer::FETCH => self.fetch(now, timer.context, ports),
            timer::PAYLOAD => self.read_lines(timer.context, ports),
            timer::CLAIM => self.send_ownership_claims(timer.context, ports),
            timer::DATA => self.send_read_lines(now, timer.context, ports),
            timer::STATUS => self.send_command_status(timer.context, ports),
            other => unreachable!("the AFU has no command {other}"),
        }
    }

    fn fetch(&mut self, now: Time, number: u32, ports: &mut Ports) {
        self.elements[index(number)].fetched = now;
        let address = self.areas.elements + u64::from(number) * u64::from(LINE_BYTES);
        let token = Role::ELEMENT.token(number);
        self.reads.request(Packet::read(address, LINE_BYTES, LINE_BYTES, token), ports.link, ports.shared);
    }

    /// Handles a work element that has been fetched: parses and starts its commands one after the other. An element
    /// whose round was executed before is ignored.
    fn start_fetched_element(&mut self, now: Time, number: u32, payload: &Payload, ports: &mut Ports) {
        let element = &mut self.elements[index(number)];
        let (round, commands) = decode_element(&payload.bytes()[..index(LINE_BYTES)]);
        let commands: smallvec::SmallVec<[Command; COMMANDS_MAX]> = commands.collect();
        if round == element.round || commands.is_empty() {
            element.is_busy = false;
            return;
        }
        (element.round, element.left) = (round, commands.len() as u8);
        let (rung, fetched) = (element.rung, element.fetched);
        self.counts.elements += 1;
        for (place, command) in commands.into_iter().enumerate() {
            let request = ports.slots.bound(index(number), place);
            ports.shared.requests.charge(request, Stage::Doorbell, rung);
            ports.shared.requests.charge(request, Stage::Psl, rung + self.psl);
            ports.shared.requests.charge(request, Stage::Translation, fetched);
            ports.shared.requests.charge(request, Stage::Fetch, now);
            ports.shared.requests.accepted = request;
            let status = self.command_refusal_status(&command);
            let active = FetchedCommand { command, element: low_u16(number), place: place as u8, request, status };
            self.parser_free_at = self.parser_free_at.max(now) + self.parse;
            self.start(self.parser_free_at, active, ports);
        }
    }

    /// Returns `Done` for a valid command: known operation, allowed length, lines within the device. Otherwise returns
    /// `Refused`.
    fn command_refusal_status(&self, command: &Command) -> Status {
        let Command { operation, line, lines, .. } = *command;
        let is_known = operation != Operation::Unknown;
        let is_there = line.saturating_add(lines.into()) <= self.capacity_lines;
        let is_small = u32::from(lines) * LINE_BYTES <= self.max_transfer_bytes;
        if is_known && lines > 0 && is_there && is_small { Status::Done } else { Status::Refused }
    }

    /// Starts a command at `parsed`, the end of its parsing. A read goes to the media now, with that later time, as the
    /// parser works in order.
    fn start(&mut self, parsed: Time, active: FetchedCommand, ports: &mut Ports) {
        ports.shared.requests.charge(active.request, Stage::Parse, parsed);
        let id = self.active.insert(active);
        assert!(id < 1 << NUMBER_BITS, "there are no more commands than elements hold");
        let (offset, bytes) = active.device_extent();
        let (kind, at) = match (active.status, active.command.operation) {
            (Status::Done, Operation::Read) => {
                (timer::READ, begin_media_read(parsed, offset, bytes, LINE_BYTES, active.request, ports))
            }
            _ => (timer::PARSED, parsed),
        };
        ports.shared.scheduler.at(at, Event::Controller { kind, context: id });
    }

    /// Handles the end of parsing: a write reads its lines from the host, and a refused command only sends its status.
    fn on_element_parsed(&mut self, now: Time, id: u32, ports: &mut Ports) {
        match self.active[index(id)].status {
            Status::Done => self.issue(now, timer::PAYLOAD, id, ports),
            Status::Refused => {
                self.counts.refused += 1;
                self.issue(now, timer::STATUS, id, ports);
            }
        }
    }

    fn read_lines(&mut self, id: u32, ports: &mut Ports) {
        let active = &self.active[index(id)];
        let (offset, bytes) = active.device_extent();
        let token = Role::PAYLOAD.token(id);
        let packet = Packet::read(active.command.buffer, bytes, LINE_BYTES, token).user_data(offset, active.request);
        self.reads.request(packet, ports.link, ports.shared);
    }

    /// Handles the lines of a write that have arrived from the host. The write completes once the AFU's buffer has room
    /// for them, or once they are in the cells, as the drive file says.
    fn on_write_lines_arrived(&mut self, now: Time, id: u32, packet: &Packet, ports: &mut Ports) {
        let active = self.active[index(id)];
        let (offset, bytes) = active.device_extent();
        assert_eq!(packet.bytes, bytes, "the host sends as many lines as a write asks for");
        let admitted = self.buffer.admit(now, bytes);
        let timing = ports.media.write(admitted, offset, bytes);
        self.buffer.leave(timing.buffered_at, bytes);
        let written = match self.acknowledge {
            Acknowledge::Early => {
                ports.shared.requests.charge(active.request, Stage::MediaWait, admitted);
                admitted
            }
            Acknowledge::Late => {
                ports.shared.requests.charge(active.request, Stage::MediaWait, timing.started);
                ports.shared.requests.charge(active.request, Stage::Media, timing.programmed_at);
                timing.programmed_at
            }
        };
        ports.shared.scheduler.at(written, Event::Controller { kind: timer::WRITTEN, context: id });
    }

    /// Handles the lines of a read, which are available in the AFU. If the drive file says so, the AFU first claims the
    /// host's lines, so that no cache keeps a copy of them.
    fn on_read_lines_available(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let kind = if self.claim_lines { timer::CLAIM } else { timer::DATA };
        self.issue(now, kind, id, ports);
    }

    /// Sends claims for the ownership of a read's lines in the host, one packet for each line. The completions arrive
    /// together.
    fn send_ownership_claims(&mut self, id: u32, ports: &mut Ports) {
        let command = self.active[index(id)].command;
        let token = Role::CLAIM.token(id);
        let bytes = u32::from(command.lines) * CLAIM_BYTES;
        ports.link.send(Packet::read(command.buffer, bytes, CLAIM_BYTES, token), ports.shared);
    }

    /// Writes a read's lines to host memory. The PSL acknowledges them at once, so the command's status may follow.
    fn send_read_lines(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let active = self.active[index(id)];
        let (offset, bytes) = active.device_extent();
        let token = Role::DATA.token(id);
        let packet = Packet::write(Direction::Up, active.command.buffer, bytes, LINE_BYTES, token);
        ports.link.send(packet.user_data(offset, active.request), ports.shared);
        ports.shared.scheduler.after(now, self.psl, Event::Controller { kind: timer::STATUS, context: id });
    }

    /// Writes the status of a command to its status line in host memory. Strict ordering keeps the status behind the
    /// command's lines.
    fn send_command_status(&mut self, id: u32, ports: &mut Ports) {
        let active = self.active.take(id);
        self.counts.commands += 1;
        let element = &mut self.elements[usize::from(active.element)];
        element.left -= 1;
        element.is_busy = element.left > 0;
        let line = self.areas.statuses + u64::from(active.element) * u64::from(LINE_BYTES);
        let mut status = [0; STATUS_BYTES];
        status[..4].copy_from_slice(&element.round.to_le_bytes());
        status[4..].copy_from_slice(&(active.status as u32).to_le_bytes());
        let token = Role::STATUS.token(u32::from(active.element) << 8 | u32::from(active.place));
        ports.link.write(
            Direction::Up,
            line + u64::from(active.place) * length(STATUS_BYTES),
            &status,
            token,
            ports.shared,
        );
    }
}

impl halves::Controller for Afu {
    /// Handles a doorbell write by fetching the work element of this number. Writes to another address, and of an
    /// element that does not exist or is still in use, are ignored.
    fn on_register_write(&mut self, now: Time, address: u64, value: u32, ports: &mut Ports) {
        let Some(element) = self.elements.get_mut(index(value)).filter(|_| address == DOORBELL_REGISTER) else {
            return;
        };
        if !std::mem::replace(&mut element.is_busy, true) {
            element.rung = now;
            self.issue(now, timer::FETCH, value, ports);
        }
    }

    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        match timer.kind {
            timer::READ => self.on_read_lines_available(now, timer.context, ports),
            timer::WRITTEN => self.issue(now, timer::STATUS, timer.context, ports),
            timer::PARSED => self.on_element_parsed(now, timer.context, ports),
            _ => self.on_bus_command_passed(now, timer, ports),
        }
    }

    fn on_answer(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        let (role, context) = (Role::of(packet), packet.token.context);
        if role != Role::CLAIM {
            self.reads.answered(packet.bytes, ports.link, ports.shared);
        }
        match role {
            Role::ELEMENT => self.start_fetched_element(now, context, payload, ports),
            Role::PAYLOAD => self.on_write_lines_arrived(now, context, packet, ports),
            Role::CLAIM => {
                ports.shared.requests.charge(self.active[index(context)].request, Stage::Claim, now);
                self.issue(now, timer::DATA, context, ports);
            }
            Role::PAGE_TABLE => {
                let number = context & ((1 << NUMBER_BITS) - 1);
                let timer = Timer { kind: low_u8(context >> NUMBER_BITS), context: number };
                ports.shared.requests.charge(self.request(timer), Stage::Translation, now);
                self.send_command_packets(now, timer, ports);
            }
            other => unreachable!("the AFU reads nothing in the role {other:?}"),
        }
    }

    fn packet_name(&self, packet: &Packet) -> &'static str {
        Role::of(packet).name(packet.kind).unwrap_or("data")
    }

    fn poll_names(&self, packet: &Packet) -> Option<PollNames> {
        (Role::of(packet) == Role::ELEMENT).then_some(PollNames { read: "fetch element", empty: None })
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("commands", self.counts.commands),
            ("elements", self.counts.elements),
            ("refused", self.counts.refused),
            ("translation_misses", self.counts.translation_misses),
        ]
    }
}

impl FetchedCommand {
    /// Returns the command's first byte on the device and its length in bytes.
    fn device_extent(&self) -> (u64, u32) {
        (self.command.line * u64::from(LINE_BYTES), u32::from(self.command.lines) * LINE_BYTES)
    }
}
