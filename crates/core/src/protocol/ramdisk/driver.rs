//! Driver of the `ramdisk` protocol: each command has a slot, with a status word and a data buffer in host memory.

use std::collections::VecDeque;

use super::Role;
use super::command::{BLOCK_BYTES, Command, DOORBELL, STATUS_BYTES};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::ledger::stage::Ledger;
use crate::memory::HostMemory;
use crate::number::{length, low_u16};
use crate::protocol::command_slots::CommandSlots;
use crate::protocol::halves;
use crate::protocol::ports::{HostPorts, Settled};
use crate::request::{Io, Op, RequestId};
use crate::time::{Span, Time};
use crate::tlp::Direction;

/// Driver of a `ramdisk` device, which submits commands by doorbell writes and polls their status words.
#[derive(Clone, Debug)]
pub struct Driver {
    free: Vec<u16>,
    waiting: VecDeque<RequestId>,
    /// Request in flight in each command slot.
    requests: CommandSlots<RequestId>,
    statuses: u64,
    buffers: u64,
    max_transfer_bytes: u32,
    mmio_write: Span,
    doorbells: u64,
}

impl Driver {
    /// Returns a driver with no command in flight. Allocates a status word and a data buffer for each slot in host
    /// memory.
    pub fn new(drive: &Drive, memory: &mut HostMemory) -> Driver {
        let (slots, max_transfer_bytes) = (drive.ramdisk.slots, drive.ramdisk.max_transfer_kib * 1024);
        Driver {
            free: (0..slots).rev().collect(),
            waiting: VecDeque::new(),
            requests: CommandSlots::new(slots.into()),
            statuses: memory.allocate_zeroed(u64::from(slots) * length(STATUS_BYTES)),
            buffers: memory.reserve(u64::from(slots) * u64::from(max_transfer_bytes)),
            max_transfer_bytes,
            mmio_write: drive.host.register_write_time(),
            doorbells: 0,
        }
    }

    /// Returns the bus address of the first status word, which belongs to slot 0.
    pub fn statuses(&self) -> u64 {
        self.statuses
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
        let Some(slot) = self.free.pop() else { return self.waiting.push_back(request) };
        self.requests.submit(usize::from(slot), request);
        let buffer = self.buffers + u64::from(slot) * u64::from(self.max_transfer_bytes);
        ports.shared.requests[request].buffer = buffer;
        ports.fill_write_buffer(request);
        ports.slots.bind(0, slot.into(), request);
        let Io { op, offset, bytes } = ports.shared.requests[request].io;
        let (blocks, block) = (bytes / BLOCK_BYTES, offset / u64::from(BLOCK_BYTES));
        let command = Command { write: op == Op::Write, slot, blocks, block, buffer };
        self.doorbells += 1;
        ports.link.write(Direction::Down, DOORBELL, &command.encode(), Role::DOORBELL.token(0), ports.shared);
    }

    fn on_settled(&mut self, now: Time, settled: &Settled, _: bool, ports: &mut HostPorts) {
        if Role::of(&settled.packet) != Role::STATUS {
            return settled.charge_data(now, ports.shared);
        }
        let slot = low_u16(settled.packet.token.context);
        let request = self.requests.complete(usize::from(slot));
        ports.shared.requests.charge(Some(request), Stage::CompletionEntry, now);
        ports.complete(request);
        self.free.push(slot);
        if let Some(next) = self.waiting.pop_front() {
            self.submit(now, next, ports);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("doorbells", self.doorbells)]
    }
}
