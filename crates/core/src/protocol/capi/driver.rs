//! Simulated CAPI driver: threads write commands into work elements, write the doorbell, and poll the status lines.

use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::number::{index, length, low_u16};
use crate::protocol::halves;
use crate::protocol::ports::{HostPorts, Settled};
use crate::request::Io;
use smallvec::SmallVec;
use std::collections::VecDeque;

use super::Role;
use super::spec::{COMMANDS_MAX, Command, DOORBELL_REGISTER, LINE_BYTES, Operation, encode_element};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::request::Op;
use crate::request::RequestId;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet};

/// Driver's record of a work element: the requests of its commands, the number in flight, and the round of use.
#[derive(Clone, Debug, Default)]
struct WorkElement {
    requests: [Option<RequestId>; COMMANDS_MAX],
    under_way: u8,
    round: u32,
}

/// Simulated CAPI driver, with its work elements and the requests that wait for one.
#[derive(Clone, Debug)]
pub struct Driver {
    elements: Vec<WorkElement>,
    free: Vec<u16>,
    /// Requests that wait for a free work element, in the order of submission.
    waiting: VecDeque<RequestId>,
    commands_per_element: usize,
    pub(super) areas: CapiAreas,
    max_transfer_bytes: u32,
    fill: Span,
    /// Processor time per command that occupies the core without delaying the request: all but the time to write the
    /// command into its work element.
    command_time: Span,
    mmio_write: Span,
    /// Number of doorbell writes of the CAPI driver, one for each submitted work element.
    pub doorbells: u64,
    /// Number of commands in the work elements that the driver has submitted.
    pub commands: u64,
}

/// Bus addresses of the work elements, their status lines and data buffers, which the host gives the AFU when it
/// attaches.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapiAreas {
    pub elements: u64,
    pub statuses: u64,
    buffers: u64,
}

impl Driver {
    /// Returns a driver with no command in flight. Allocates work elements, status lines and data buffers in host
    /// memory.
    pub fn new(drive: &Drive, memory: &mut HostMemory) -> Driver {
        let capi = &drive.capi;
        let ratio = drive.host.nominal_clock_ratio();
        let max_transfer_bytes = capi.max_transfer_kib * 1024;
        let lines = u64::from(capi.elements) * u64::from(LINE_BYTES);
        let areas = CapiAreas {
            elements: memory.allocate_zeroed(lines),
            statuses: memory.allocate_zeroed(lines),
            buffers: memory.reserve(u64::from(capi.elements) * length(COMMANDS_MAX) * u64::from(max_transfer_bytes)),
        };
        Driver {
            elements: vec![WorkElement::default(); capi.elements.into()],
            free: (0..capi.elements).rev().collect(),
            waiting: VecDeque::new(),
            commands_per_element: capi.commands_per_element.into(),
            areas,
            max_transfer_bytes,
            fill: capi.fill.scale(ratio),
            command_time: capi.command.scale(ratio),
            mmio_write: drive.host.register_write_time(),
            doorbells: 0,
            commands: 0,
        }
    }

    /// Fills a free work element with as many waiting requests as fit, and writes the doorbell for it.
    fn send(&mut self, number: u16, ports: &mut HostPorts) {
        let count = self.waiting.len().min(self.commands_per_element);
        let requests: SmallVec<[RequestId; COMMANDS_MAX]> = self.waiting.drain(..count).collect();
        let requests = requests.into_iter().enumerate();
        let commands: SmallVec<[Command; COMMANDS_MAX]> =
            requests.map(|(place, request)| self.command(usize::from(number), place, request, ports)).collect();
        let element = &mut self.elements[usize::from(number)];
        element.round = element.round.wrapping_add(1);
        element.under_way = count as u8;
        let line = encode_element(element.round, &commands);
        ports.memory.write(self.areas.elements + u64::from(number) * u64::from(LINE_BYTES), &line);
        self.doorbells += 1;
        self.commands += length(count);
        let token = Role::DOORBELL.token(0);
        ports.link.write(Direction::Down, DOORBELL_REGISTER, &u32::from(number).to_le_bytes(), token, ports.shared);
    }

    /// Assigns a request and a data buffer to command `place` of work element `number`, and returns the command.
    fn command(&mut self, number: usize, place: usize, id: RequestId, ports: &mut HostPorts) -> Command {
        let in_flight = self.elements[number].requests[place].replace(id);
        assert!(in_flight.is_none(), "a place of an element carries one command at a time");
        let slot = length(number * COMMANDS_MAX + place);
        let buffer = self.areas.buffers + slot * u64::from(self.max_transfer_bytes);
        ports.shared.requests[id].buffer = buffer;
        ports.fill_write_buffer(id);
        ports.slots.bind(number, place, id);
        let now = ports.shared.scheduler.now();
        ports.shared.requests.charge_stage_until(Some(id), Stage::Queued, now);
        let io = ports.shared.requests[id].io;
        Command {
            operation: if io.op == Op::Read { Operation::Read } else { Operation::Write },
            buffer,
            line: io.offset / u64::from(LINE_BYTES),
            lines: low_u16(io.bytes / LINE_BYTES),
        }
    }

    /// Completes the request of a status that has become visible in host memory. If it is the last of its work element,
    /// sends the element again with waiting requests or frees it.
    fn on_status_settled(&mut self, now: Time, packet: &Packet, ports: &mut HostPorts) {
        let (number, place) = (packet.token.context >> 8, packet.token.context & 0xff);
        let element = &mut self.elements[index(number)];
        let request = element.requests[index(place)].take().expect("the AFU completes each command once");
        element.under_way -= 1;
        let is_done = element.under_way == 0;
        ports.shared.requests.charge(Some(request), Stage::CompletionEntry, now);
        ports.complete(request);
        match is_done {
            true if self.waiting.is_empty() => self.free.push(low_u16(number)),
            true => self.send(low_u16(number), ports),
            false => {}
        }
    }
}

impl halves::Driver for Driver {
    /// Charges the processor time to write a command into its work element, and to write the doorbell. If no element is
    /// free, the request shares its doorbell with the other commands of an element.
    fn submit_work(&self, _: &Io, _: u16, ledger: &mut Ledger) {
        let rings =
            if self.free.is_empty() { self.mmio_write / length(self.commands_per_element) } else { self.mmio_write };
        ledger.spend(Stage::Driver, self.fill + rings);
    }

    fn overlapped_work(&self, io: &Io) -> Span {
        self.command_time * u64::from(io.bytes.div_ceil(self.max_transfer_bytes).max(1))
    }

    fn max_transfer_bytes(&self) -> u32 {
        self.max_transfer_bytes
    }

    /// Submits a request at once if a work element is free. Otherwise the request waits, and goes with others in the
    /// next free element.
    fn submit(&mut self, _: Time, request: RequestId, ports: &mut HostPorts) {
        self.waiting.push_back(request);
        if let Some(element) = self.free.pop() {
            self.send(element, ports);
        }
    }

    fn on_settled(&mut self, now: Time, settled: &Settled, _polling: bool, ports: &mut HostPorts) {
        match Role::of(&settled.packet) {
            Role::DATA => settled.charge_data(now, ports.shared),
            Role::STATUS => self.on_status_settled(now, &settled.packet, ports),
            _ => {}
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("doorbells", self.doorbells)]
    }
}
