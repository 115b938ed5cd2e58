//! Simulated PSS block driver: places descriptors in the shared area of host memory, and consumes their completion
//! records.

use crate::drive::Drive;
use crate::memory::HostMemory;
use crate::number::{index, length, low_u16};
use crate::protocol::command_slots::CommandSlots;
use crate::protocol::halves::{self, Driver as _};
use crate::protocol::ports::{HostPorts, Settled};
use crate::request::Io;
use std::collections::VecDeque;

use super::Role;
use super::spec::{
    CompletionRecord, DESCRIPTOR_BYTES, Descriptor, METADATA_BYTES, RECORD_BYTES, SECTOR_BYTES, SharedRingArea,
    TAIL_REGISTER,
};
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::request::Op;
use crate::request::RequestId;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet};

/// Simulated PSS block driver, with the state of its descriptors, completion records and buffers.
#[derive(Clone, Debug)]
pub struct Driver {
    area: SharedRingArea,
    /// Number of descriptors that the driver has added since the start, modulo 2^32.
    tail: u32,
    /// Number of completion records that the driver has consumed since the start, modulo 2^32.
    taken: u32,
    free_ids: Vec<u16>,
    /// Requests, and parts of split requests, that wait for a free descriptor identifier.
    waiting: VecDeque<RequestId>,
    /// Request in flight, by the identifier of its descriptor.
    requests: CommandSlots<RequestId>,
    /// Bus address of the data buffers, one for each descriptor identifier.
    buffers: u64,
    /// Bus address of the metadata buffers, one for each descriptor identifier.
    metadata: u64,
    metadata_stride: u64,
    max_transfer_bytes: u32,
    mmio_write: Span,
    /// Number of writes to the card's tail register, one for each descriptor.
    pub doorbells: u64,
}

impl Driver {
    /// Returns a driver with no command in flight. Allocates the shared area and the buffers in host memory.
    pub fn new(drive: &Drive, memory: &mut HostMemory) -> Driver {
        let entries = drive.pss.descriptors;
        let max_transfer_bytes = drive.pss.max_transfer_kib * 1024;
        let metadata_stride = u64::from(max_transfer_bytes / SECTOR_BYTES) * length(METADATA_BYTES);
        let area = SharedRingArea {
            descriptors: memory.allocate_zeroed(u64::from(entries) * length(DESCRIPTOR_BYTES)),
            records: memory.allocate_zeroed(u64::from(entries) * length(RECORD_BYTES)),
            entries,
        };
        Driver {
            area,
            tail: 0,
            taken: 0,
            free_ids: (0..entries).rev().map(low_u16).collect(),
            waiting: VecDeque::new(),
            requests: CommandSlots::new(index(entries)),
            buffers: memory.reserve(u64::from(entries) * u64::from(max_transfer_bytes)),
            metadata: memory.reserve(u64::from(entries) * metadata_stride),
            metadata_stride,
            max_transfer_bytes,
            mmio_write: drive.host.register_write_time(),
            doorbells: 0,
        }
    }

    /// Returns the addresses of the descriptors and completion records in host memory.
    pub fn area(&self) -> SharedRingArea {
        self.area
    }

    /// Handles a completion record that has become visible in host memory. If threads poll, consumes all new records;
    /// if threads sleep, they wait for the interrupt.
    fn on_record_settled(&mut self, now: Time, packet: &Packet, polling: bool, ports: &mut HostPorts) {
        if polling {
            return self.reap(now, Stage::CompletionEntry, ports);
        }
        let record = read_record(packet.address, ports.memory);
        let request = self.requests.get(usize::from(record.id));
        ports.shared.requests.charge(request, Stage::CompletionEntry, now);
    }

    fn reap(&mut self, now: Time, stage: Stage, ports: &mut HostPorts) {
        while let Some(record) = self.next_record(ports.memory) {
            let request = self.requests.complete(usize::from(record.id));
            assert!(self.tail.wrapping_sub(self.taken) < self.area.entries, "a record comes behind its descriptor");
            self.free_ids.push(record.id);
            ports.shared.requests.charge(Some(request), stage, now);
            ports.complete(request);
        }
        while !self.free_ids.is_empty()
            && let Some(request) = self.waiting.pop_front()
        {
            ports.shared.requests.charge(Some(request), Stage::Queued, now);
            self.submit(now, request, ports);
        }
    }

    fn next_record(&mut self, memory: &HostMemory) -> Option<CompletionRecord> {
        let expected = self.taken.wrapping_add(1);
        let record = read_record(self.area.record(self.taken), memory);
        if record.sequence != expected {
            return None;
        }
        self.taken = expected;
        Some(record)
    }
}

impl halves::Driver for Driver {
    fn submit_work(&self, _: &Io, _: u16, ledger: &mut Ledger) {
        ledger.spend(Stage::Driver, self.mmio_write);
    }

    fn max_transfer_bytes(&self) -> u32 {
        self.max_transfer_bytes
    }

    fn submit(&mut self, _: Time, request: RequestId, ports: &mut HostPorts) {
        let Some(id) = self.free_ids.pop() else { return self.waiting.push_back(request) };
        self.requests.submit(usize::from(id), request);
        let buffer = self.buffers + u64::from(id) * u64::from(self.max_transfer_bytes);
        ports.shared.requests[request].buffer = buffer;
        ports.fill_write_buffer(request);
        let io = ports.shared.requests[request].io;
        let descriptor = Descriptor {
            write: io.op == Op::Write,
            id,
            sectors: io.bytes / SECTOR_BYTES,
            sector: io.offset / u64::from(SECTOR_BYTES),
            buffer,
            metadata: self.metadata + u64::from(id) * self.metadata_stride,
        };
        ports.memory.write(self.area.descriptor(self.tail), &descriptor.encode());
        ports.slots.bind(0, index(self.tail % self.area.entries), request);
        self.tail = self.tail.wrapping_add(1);
        self.doorbells += 1;
        let token = Role::TAIL.token(0);
        ports.link.write(Direction::Down, TAIL_REGISTER, &self.tail.to_le_bytes(), token, ports.shared);
    }

    fn on_settled(&mut self, now: Time, settled: &Settled, polling: bool, ports: &mut HostPorts) {
        match Role::of(&settled.packet) {
            Role::DATA => settled.charge_data(now, ports.shared),
            Role::RECORD => self.on_record_settled(now, &settled.packet, polling, ports),
            _ => {}
        }
    }

    fn on_handled(&mut self, now: Time, _vector: u16, ports: &mut HostPorts) -> Option<Time> {
        self.reap(now, Stage::Interrupt, ports);
        None
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("doorbells", self.doorbells)]
    }
}

fn read_record(address: u64, memory: &HostMemory) -> CompletionRecord {
    let mut bytes = [0; RECORD_BYTES];
    memory.read(address, &mut bytes);
    CompletionRecord::decode(bytes)
}
