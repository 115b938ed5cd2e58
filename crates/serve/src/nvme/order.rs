//! Commands of I/O queues: checked into orders, and obeyed (NVM Command Set Specification 1.0, section 3).

use std::io;

use phaselink_core::protocol::nvme::spec::{Status, opcode};
use phaselink_core::request::Op;

use super::command::Command;
use super::host::Host;
use super::identify::{Identity, NAMESPACE};
use super::prp::{self, Runs};
use super::{TRANSFER_BYTES_MAX, logs::Journal};
use crate::device::store::Store;

/// Every namespace, where a command may mean that.
const ALL_NAMESPACES: u32 = u32::MAX;
/// FUA, in dword 12: the data is durable when the command is answered.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// DEAC, in dword 12 of Write Zeroes: give the space back.
const DEALLOCATE: u32 = 1 << 25;
/// AD, in dword 11 of Dataset Management: give the space back.
const ATTRIBUTE_DEALLOCATE: u32 = 1 << 2;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Flush,
    Read,
    Write {
        force: bool,
    },
    Compare,
    Zero {
        keep_space: bool,
        force: bool,
    },
    /// Give space back: offset and bytes of each part.
    Deallocate(Vec<(u64, u64)>),
}

/// A command that has been checked: its place on the drive lies within it, and its data somewhere in the host's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub(super) queue: u16,
    pub(super) generation: u32,
    pub(super) command_id: u16,
    pub action: Action,
    /// First byte on the drive; of a flush or deallocation, 0.
    pub offset: u64,
    /// Length in bytes; of a flush or deallocation, 0.
    pub bytes: u32,
    runs: Runs,
}

impl Order {
    /// What a command asks for. `queue` and `generation` say to whom the answer goes.
    ///
    /// # Errors
    /// The status that its malformed field, or its place, calls for.
    #[inline]
    pub fn check(
        command: &Command,
        queue: u16,
        generation: u32,
        identity: &Identity,
        host: &mut impl Host,
    ) -> Result<Order, Status> {
        command.check_flags()?;
        let entry = &command.entry;
        let action = action(command)?;
        let may_be_all = action == Action::Flush && entry.namespace_id == ALL_NAMESPACES;
        if entry.namespace_id != NAMESPACE && !may_be_all {
            return Err(Status::INVALID_NAMESPACE);
        }
        let mut order =
            Order { queue, generation, command_id: entry.command_id, action, offset: 0, bytes: 0, runs: Runs::new() };
        match &mut order.action {
            Action::Flush => {}
            Action::Deallocate(parts) => *parts = ranges(command, identity, host)?,
            Action::Zero { .. } => order.set_place(command, identity)?,
            Action::Read | Action::Write { .. } | Action::Compare => {
                order.set_place(command, identity)?;
                if order.bytes > TRANSFER_BYTES_MAX {
                    return Err(Status::INVALID_FIELD);
                }
                order.runs = prp::runs(entry.prp1, entry.prp2, order.bytes, host)?;
            }
        }
        Ok(order)
    }

    #[inline]
    fn set_place(&mut self, command: &Command, identity: &Identity) -> Result<(), Status> {
        let blocks = command.entry.blocks;
        self.offset = place(command.entry.slba, blocks, identity)?;
        // Up to 65,536 blocks of up to 64 KiB: one byte too many in the extreme.
        self.bytes = u32::try_from(u64::from(blocks) << identity.block_shift).map_err(|_| Status::INVALID_FIELD)?;
        Ok(())
    }

    /// What the order is in a model; nothing if it is none that drives are modelled with.
    pub fn op(&self) -> Option<Op> {
        match self.action {
            Action::Read | Action::Compare => Some(Op::Read),
            Action::Write { .. } | Action::Zero { .. } => Some(Op::Write),
            Action::Flush | Action::Deallocate(_) => None,
        }
    }

    /// fio's word for it, in traces.
    pub fn word(&self) -> &'static str {
        match self.action {
            Action::Read | Action::Compare => "read",
            Action::Write { .. } | Action::Zero { .. } => "write",
            Action::Flush => "datasync",
            Action::Deallocate(_) => "trim",
        }
    }

    /// Whether the answer says that something is durable: then the store is flushed between [`Order::obey`] and it.
    #[inline]
    pub(super) fn waits_for_disk(&self, write_cache: bool) -> bool {
        match self.action {
            Action::Flush => true,
            Action::Write { force } | Action::Zero { force, .. } => force || !write_cache,
            Action::Read | Action::Compare | Action::Deallocate(_) => false,
        }
    }

    /// What the host is told if the disk does not keep what it waits for.
    pub(super) fn loss(&self) -> Status {
        if self.action == Action::Flush { Status::INTERNAL_ERROR } else { Status::WRITE_FAULT }
    }

    /// Do it, as far as the store goes; `space` has room for the largest transfer.
    #[inline]
    pub(super) fn obey(
        &self,
        host: &mut impl Host,
        store: &Store,
        space: &mut [u8],
        journal: &mut Journal,
    ) -> Result<(), Status> {
        match &self.action {
            Action::Read => {
                self.read(host, store, space)?;
                journal.note_read(self.bytes.into());
            }
            Action::Compare => {
                self.compare(host, store, space)?;
                journal.note_read(self.bytes.into());
            }
            Action::Write { .. } => {
                self.write(host, store, space)?;
                journal.note_write(self.bytes.into());
            }
            Action::Zero { keep_space, .. } => {
                store.zero(self.offset, self.bytes.into(), *keep_space).map_err(|error| written(&error))?;
            }
            Action::Flush => {}
            Action::Deallocate(parts) => {
                for (offset, bytes) in parts {
                    store.zero(*offset, *bytes, false).map_err(|error| written(&error))?;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn read(&self, host: &mut impl Host, store: &Store, space: &mut [u8]) -> Result<(), Status> {
        let space = &mut space[..self.bytes as usize];
        store.read(self.offset, space).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
        let mut rest = &space[..];
        for (address, bytes) in &self.runs {
            let (run, others) = rest.split_at(*bytes as usize);
            host.write(*address, run)?;
            rest = others;
        }
        Ok(())
    }

    #[inline]
    fn write(&self, host: &mut impl Host, store: &Store, space: &mut [u8]) -> Result<(), Status> {
        let space = &mut space[..self.bytes as usize];
        self.fetch(host, space)?;
        store.write(self.offset, space).map_err(|error| written(&error))
    }

    fn compare(&self, host: &mut impl Host, store: &Store, space: &mut [u8]) -> Result<(), Status> {
        let space = &mut space[..self.bytes as usize];
        self.fetch(host, space)?;
        let mut held = vec![0; space.len()];
        store.read(self.offset, &mut held).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
        if held == space { Ok(()) } else { Err(Status::COMPARE_FAILURE) }
    }

    /// Copy the host's data.
    #[inline]
    fn fetch(&self, host: &mut impl Host, mut space: &mut [u8]) -> Result<(), Status> {
        for (address, bytes) in &self.runs {
            let (run, others) = space.split_at_mut(*bytes as usize);
            host.read(*address, run)?;
            space = others;
        }
        Ok(())
    }
}

/// What an opcode asks for; the ranges of a deallocation are read later.
#[inline]
fn action(command: &Command) -> Result<Action, Status> {
    let force = command.dwords[2] & FORCE_UNIT_ACCESS != 0;
    match command.entry.opcode {
        opcode::READ => Ok(Action::Read),
        opcode::WRITE => Ok(Action::Write { force }),
        opcode::COMPARE => Ok(Action::Compare),
        opcode::WRITE_ZEROES => Ok(Action::Zero { keep_space: command.dwords[2] & DEALLOCATE == 0, force }),
        opcode::FLUSH => Ok(Action::Flush),
        opcode::DATASET_MANAGEMENT => Ok(Action::Deallocate(Vec::new())),
        _ => Err(Status::INVALID_OPCODE),
    }
}

/// First byte of so many blocks.
#[inline]
fn place(slba: u64, blocks: u32, identity: &Identity) -> Result<u64, Status> {
    match slba.checked_add(blocks.into()) {
        Some(end) if end <= identity.blocks => Ok(slba << identity.block_shift),
        _ => Err(Status::LBA_OUT_OF_RANGE),
    }
}

/// The ranges of a Dataset Management command, none if they are only hints (section 3.2.3).
fn ranges(command: &Command, identity: &Identity, host: &mut impl Host) -> Result<Vec<(u64, u64)>, Status> {
    let count = (command.dwords[0] & 0xff) as usize + 1;
    let mut list = vec![0; count * 16];
    copy_in(command, host, &mut list)?;
    let range = |range: &[u8; 16]| {
        let [_, blocks, low, high] = [0, 1, 2, 3].map(|word| u32::from_le_bytes(range.as_chunks().0[word]));
        let offset = place(u64::from(low) | u64::from(high) << 32, blocks, identity)?;
        Ok((offset, u64::from(blocks) << identity.block_shift))
    };
    let ranges: Vec<_> = list.as_chunks().0.iter().map(range).collect::<Result<_, Status>>()?;
    Ok(if command.dwords[1] & ATTRIBUTE_DEALLOCATE != 0 { ranges } else { Vec::new() })
}

/// Copy the data that comes with a command.
pub(super) fn copy_in(command: &Command, host: &mut impl Host, mut into: &mut [u8]) -> Result<(), Status> {
    for (address, bytes) in prp::runs(command.entry.prp1, command.entry.prp2, into.len() as u32, host)? {
        let (run, others) = into.split_at_mut(bytes as usize);
        host.read(address, run)?;
        into = others;
    }
    Ok(())
}

/// Hand out the data that a command asks for.
pub(super) fn copy_out(command: &Command, host: &mut impl Host, mut from: &[u8]) -> Result<(), Status> {
    for (address, bytes) in prp::runs(command.entry.prp1, command.entry.prp2, from.len() as u32, host)? {
        let (run, others) = from.split_at(bytes as usize);
        host.write(address, run)?;
        from = others;
    }
    Ok(())
}

/// Why the store has not taken a write.
fn written(error: &io::Error) -> Status {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Status::CAPACITY_EXCEEDED,
        _ => Status::WRITE_FAULT,
    }
}
