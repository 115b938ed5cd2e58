//! Host memory of a controller in a fabric, which the connections of its queues stand for.
//!
//! | bits of an address | meaning |
//! |---|---|
//! | 56 to 63 | submission queue, completion queue, or data of a command |
//! | 48 to 55 | identifier of the queue |
//! | 32 to 47 | slot of the command, for data |
//! | 0 to 31 | offset in bytes |

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use phaselink_client::chunk::Word;
use phaselink_core::config::{Fault, FaultAction};
use phaselink_core::number::{index, low_u8, low_u16, low_u32};
use phaselink_core::protocol::nvme::spec::SUBMISSION_ENTRY_BYTES;

use super::connection::HostConnection;
use crate::device::faults::ConnectionFault;
use crate::front::nvme_command::{CommandFate, QueueHost};
use crate::nvme::registers::ControllerRegisters;
use crate::nvme::{AdminHost, Host, QUEUE_PAIRS_MAX, UnreachableMemory};

/// Number of the part of the memory with submission queues, in the highest bits of an address.
const SUBMISSIONS: u64 = 1;
/// Number of the part with completion queues.
const COMPLETIONS: u64 = 2;
/// Number of the part with the data of commands.
const DATA: u64 = 3;

const REGION_AT: u32 = 56;
const QUEUE_AT: u32 = 48;
const SLOT_AT: u32 = 32;

fn address(region: u64, queue: u16, slot: u16) -> u64 {
    region << REGION_AT | u64::from(queue) << QUEUE_AT | u64::from(slot) << SLOT_AT
}

/// Returns the addresses of the submission queue and the completion queue of a connection.
pub(super) fn queue_ring_addresses(queue: u16) -> (u64, u64) {
    (address(SUBMISSIONS, queue, 0), address(COMPLETIONS, queue, 0))
}

/// Returns the address of the data of a command in a slot.
pub(super) fn slot_data_address(queue: u16, slot: u16) -> u64 {
    address(DATA, queue, slot)
}

/// Queues that one thread owns, as connections by the identifiers of their queues.
#[derive(Debug)]
pub(super) struct OwnedQueueConnections {
    connections: [Option<Box<HostConnection>>; QUEUE_PAIRS_MAX + 1],
    /// True if completions are sent as soon as they are made, since a model says when they are due.
    pub is_timed: bool,
}

impl OwnedQueueConnections {
    pub(super) fn new(is_timed: bool) -> OwnedQueueConnections {
        OwnedQueueConnections { connections: [const { None }; QUEUE_PAIRS_MAX + 1], is_timed }
    }

    #[inline]
    pub(super) fn get(&mut self, queue: u16) -> Option<&mut HostConnection> {
        self.connections.get_mut(usize::from(queue))?.as_deref_mut()
    }

    pub(super) fn put(&mut self, queue: u16, connection: Box<HostConnection>) {
        self.connections[usize::from(queue)] = Some(connection);
    }

    pub(super) fn take(&mut self, queue: u16) -> Option<Box<HostConnection>> {
        self.connections.get_mut(usize::from(queue))?.take()
    }

    /// Returns all connections with the identifiers of their queues.
    #[inline]
    pub(super) fn all(&mut self) -> impl Iterator<Item = (u16, &mut HostConnection)> {
        (0..).zip(&mut self.connections).filter_map(|(queue, connection)| Some((queue, connection.as_deref_mut()?)))
    }

    /// Sends the output of all connections.
    #[inline]
    pub(super) fn flush(&mut self) {
        self.connections.iter_mut().flatten().for_each(|connection| connection.flush());
    }

    /// Moves the connections of another thread here.
    pub(super) fn join(&mut self, mut other: OwnedQueueConnections) {
        for (place, connection) in self.connections.iter_mut().zip(&mut other.connections) {
            *place = place.take().or_else(|| connection.take());
        }
    }

    #[inline]
    fn at(&mut self, address: u64, region: u64) -> Option<(&mut HostConnection, u16, usize)> {
        if address >> REGION_AT != region {
            return None;
        }
        let (slot, offset) = (low_u16(address >> SLOT_AT), index(low_u32(address)));
        self.get(low_u8(address >> QUEUE_AT).into()).map(|connection| (connection, slot, offset))
    }

    #[inline]
    fn data(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let (connection, slot, offset) = self.at(address, DATA)?;
        connection.session.writable(slot, offset, bytes)
    }
}

impl Host for OwnedQueueConnections {
    #[inline]
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), UnreachableMemory> {
        if self.read_mapped(address, into) {
            return Ok(());
        }
        let (connection, slot, offset) = self.at(address, DATA).ok_or(UnreachableMemory)?;
        into.copy_from_slice(connection.session.readable(slot, offset, into.len()).ok_or(UnreachableMemory)?);
        Ok(())
    }

    #[inline]
    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), UnreachableMemory> {
        self.data(address, from.len()).ok_or(UnreachableMemory)?.copy_from_slice(from);
        Ok(())
    }

    #[inline]
    fn read_words(&mut self, address: u64, stored: &[AtomicU64]) -> bool {
        let found = self.at(address, DATA);
        let bytes =
            found.and_then(|(connection, slot, offset)| connection.session.readable(slot, offset, size_of_val(stored)));
        bytes.map(|bytes| AtomicU64::store_all(stored, bytes)).is_some()
    }

    #[inline]
    fn write_words(&mut self, address: u64, stored: &[AtomicU64]) -> bool {
        self.data(address, size_of_val(stored)).map(|bytes| AtomicU64::load_all(stored, bytes)).is_some()
    }

    /// Copies entries of a submission queue: these are here, unlike data.
    #[inline]
    fn read_mapped(&mut self, address: u64, into: &mut [u8]) -> bool {
        let found = self.at(address, SUBMISSIONS);
        let entry = found.and_then(|(connection, _, offset)| {
            connection.session.submission_ring_entry(offset / SUBMISSION_ENTRY_BYTES).map(|entry| entry.encode())
        });
        match entry {
            Some(entry) if into.len() == entry.len() => into.copy_from_slice(&entry),
            _ => return false,
        }
        true
    }

    #[inline]
    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), UnreachableMemory> {
        let (connection, ..) = self.at(address, COMPLETIONS).ok_or(UnreachableMemory)?;
        connection.session.complete(entry);
        Ok(())
    }

    #[inline]
    fn peek(&mut self, address: u64) -> Option<u32> {
        let (connection, _, offset) = self.at(address, SUBMISSIONS)?;
        let entry = connection.session.submission_ring_entry(offset / SUBMISSION_ENTRY_BYTES)?;
        (offset % SUBMISSION_ENTRY_BYTES == 0).then(|| u32::from(entry.opcode))
    }

    fn poke(&mut self, _address: u64, _value: u32) {}

    #[inline]
    fn doorbells(&self, queue: u16) -> (u32, u32) {
        let connection = self.connections.get(usize::from(queue)).and_then(Option::as_ref);
        connection.map_or((0, 0), |connection| connection.session.doorbells())
    }

    fn interrupt(&mut self, _vector: u16) {}
}

impl QueueHost for OwnedQueueConnections {
    /// Sends the completions of a batch, if a model has said when they are due.
    #[inline]
    fn end_batch(&mut self) {
        if self.is_timed {
            self.flush();
        }
    }

    fn can_disturb(&self, queue: u16, fault: &Fault) -> bool {
        let connection = self.connections.get(usize::from(queue)).and_then(Option::as_ref);
        connection.is_some_and(|connection| {
            fault.action != FaultAction::DigestError || connection.session.has_digest(fault.digest)
        })
    }

    #[cold]
    fn disturb(&mut self, queue: u16, command_id: u16, fault: ConnectionFault) -> CommandFate {
        self.get(queue).map_or(CommandFate::Dropped, |connection| connection.disturb(command_id, fault))
    }
}

/// Host of a controller: its connections and the properties of the controller.
#[derive(Debug)]
pub(super) struct NvmeTcpFabricHost {
    /// Connections that are not lent to another thread.
    pub queues: OwnedQueueConnections,
    /// Properties of the controller.
    pub registers: ControllerRegisters,
    /// Instant at which the host connected.
    pub begun: Instant,
}

/// Forwards the access to memory to the connections.
impl Host for NvmeTcpFabricHost {
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), UnreachableMemory> {
        self.queues.read(address, into)
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), UnreachableMemory> {
        self.queues.write(address, from)
    }

    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), UnreachableMemory> {
        self.queues.post(address, entry)
    }

    fn peek(&mut self, address: u64) -> Option<u32> {
        self.queues.peek(address)
    }

    fn poke(&mut self, address: u64, value: u32) {
        self.queues.poke(address, value);
    }

    fn doorbells(&self, queue: u16) -> (u32, u32) {
        self.queues.doorbells(queue)
    }

    fn interrupt(&mut self, _vector: u16) {}
}

impl AdminHost for NvmeTcpFabricHost {
    fn clear_doorbells(&mut self, queue: u16, tail: bool, head: bool) {
        if let Some(connection) = self.queues.get(queue) {
            connection.session.reset_ring_positions(tail, head);
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn registers(&mut self) -> &mut ControllerRegisters {
        &mut self.registers
    }
}
