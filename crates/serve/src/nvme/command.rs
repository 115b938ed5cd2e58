//! Commands of I/O queues: what the core's [rules] say of them, done on a store and in a host's memory.

use std::io;

use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::rules::{self, Action, Data, Limits, command};
use phaselink_core::protocol::nvme::spec::{SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry};
use phaselink_core::request::Io;
use phaselink_ring::chunk::AHEAD_BYTES;

use super::host::Host;
use super::logs::Journal;
use crate::device::faults::FaultEffect;
use crate::device::store::{Access, Store};

/// The bytes of a submission queue entry.
pub type Bytes = [u8; SUBMISSION_ENTRY_BYTES];

/// A command that has been copied, checked, and read the lists of: nothing of it is looked at again in the host's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub(super) queue: u16,
    pub(super) generation: u32,
    /// As it was sent.
    pub bytes: Bytes,
    /// What it asks for, or why it is refused: its place on the drive lies within it, and its data somewhere in the host's
    /// memory.
    pub checked: Result<rules::Command, Status>,
    /// What a deallocation gives back, or a copy reads: offset and bytes of each part.
    pub parts: Vec<(u64, u64)>,
    /// What was read of the host's memory to find all this, if anything was to be: lists of pages, and of ranges, in the
    /// order of reading.
    pub lists: Option<Vec<u8>>,
}

impl Command {
    /// What an entry asks for. `queue` and `generation` say to whom the answer goes.
    #[inline]
    pub fn check(bytes: &Bytes, queue: u16, generation: u32, limits: &Limits, host: &mut impl Host) -> Command {
        let mut command = Command {
            queue,
            generation,
            bytes: *bytes,
            checked: rules::Command::check(&SubmissionEntry::decode(bytes), limits),
            parts: Vec::new(),
            lists: None,
        };
        if let Err(status) = command.read_lists(limits, host) {
            command.checked = Err(status);
        }
        command
    }

    #[inline]
    fn read_lists(&mut self, limits: &Limits, host: &mut impl Host) -> Result<(), Status> {
        let Ok(checked) = &mut self.checked else { return Ok(()) };
        let is_list = matches!(checked.action, Action::Deallocate { .. } | Action::Copy { .. });
        if checked.data.wanted().is_none() && !is_list {
            return Ok(());
        }
        let lists = self.lists.insert(Vec::new());
        follow(&mut checked.data, lists, host)?;
        if !is_list {
            return Ok(());
        }
        let list = read_data(&checked.data, host)?;
        lists.extend(&list);
        match checked.action {
            Action::Copy { .. } => {
                (self.parts, checked.bytes) = command::sources(&list, checked.namespace, checked.offset, limits)?;
            }
            Action::Deallocate { is_hint: true } => drop(command::ranges(&list, checked.namespace, limits)?),
            _ => self.parts = command::ranges(&list, checked.namespace, limits)?,
        }
        Ok(())
    }

    /// The queue that it was in.
    pub fn queue(&self) -> u16 {
        self.queue
    }

    /// Its fields.
    #[inline]
    pub fn entry(&self) -> SubmissionEntry {
        SubmissionEntry::decode(&self.bytes)
    }

    /// What the command is to a memory; nothing if it does not get that far.
    pub fn io(&self) -> Option<Io> {
        let checked = self.checked.as_ref().ok()?;
        Some(Io { op: checked.op()?, offset: checked.offset, bytes: checked.bytes })
    }

    /// As much of it as reaches the store in a effect; none if that is nothing. What is copied within the drive is not torn.
    #[cold]
    pub fn torn(&self, effect: FaultEffect, block_bytes: u32) -> Option<Command> {
        let mut torn = self.clone();
        let Ok(checked) = &mut torn.checked else { return Some(torn) };
        if matches!(checked.action, Action::Write { .. } | Action::Zero { .. }) {
            checked.bytes = effect.kept_bytes(checked.bytes, block_bytes);
            checked.data.truncate(checked.bytes);
        }
        (checked.bytes > 0).then_some(torn)
    }

    /// fio's word for it, in traces.
    pub fn word(&self) -> &'static str {
        match self.checked.as_ref().map(|checked| checked.action) {
            Ok(Action::Read | Action::Compare | Action::Verify) => "read",
            Ok(Action::Write { .. } | Action::Zero { .. } | Action::Copy { .. }) => "write",
            Ok(Action::Deallocate { .. }) => "trim",
            Ok(Action::Flush) | Err(_) => "datasync",
        }
    }

    /// Whether the answer says that something is durable: then the store is flushed between [`Command::execute`] and it.
    #[inline]
    pub(super) fn waits_for_disk(&self, write_cache: bool) -> bool {
        match self.checked.as_ref().map(|checked| checked.action) {
            Ok(Action::Flush) => true,
            Ok(Action::Write { force } | Action::Zero { force, .. } | Action::Copy { force }) => force || !write_cache,
            Ok(Action::Read | Action::Compare | Action::Verify | Action::Deallocate { .. }) | Err(_) => false,
        }
    }

    /// What the host is told if the disk does not keep what it waits for.
    pub(super) fn loss(&self) -> Status {
        let is_flush = matches!(&self.checked, Ok(checked) if checked.action == Action::Flush);
        if is_flush { Status::INTERNAL_ERROR } else { Status::WRITE_FAULT }
    }

    /// The status that goes into the completion entry of a command that has come to `status`.
    #[inline]
    pub(super) fn posted(&self, status: Status) -> Status {
        if self.checked.is_err() { refusal(status) } else { status }
    }

    /// Begin to fetch what executing it will need: the store's bytes, and the host's lines.
    #[inline]
    pub(super) fn prefetch(&self, host: &mut impl Host, store: &Store) {
        let Ok(rules::Command { action: Action::Read, offset, bytes, data, .. }) = &self.checked else { return };
        let bytes = (*bytes).min(AHEAD_BYTES as u32);
        store.prefetch(*offset, bytes);
        if let [(address, length), ..] = data.runs() {
            host.prefetch_to_write(*address, bytes.min(*length));
        }
    }

    /// Do it, as far as the store goes; `space` has room for the largest transfer.
    ///
    /// # Errors
    /// The status of a command that is refused, or fails.
    #[inline]
    pub(super) fn execute(
        &self,
        host: &mut impl Host,
        store: &Store,
        space: &mut [u8],
        journal: &mut Journal,
    ) -> Result<(), Status> {
        let rules::Command { action, offset, bytes, data, .. } = match &self.checked {
            Ok(checked) => checked,
            Err(status) => return Err(*status),
        };
        match action {
            Action::Read => {
                read(*offset, data, store, &mut space[..*bytes as usize], host)?;
                journal.note_read((*bytes).into());
            }
            Action::Compare => {
                compare(*offset, data, store, &mut space[..*bytes as usize], host)?;
                journal.note_read((*bytes).into());
            }
            Action::Write { .. } => {
                write(*offset, data, store, &mut space[..*bytes as usize], host)?;
                journal.note_write((*bytes).into());
            }
            Action::Zero { keep_space, .. } => {
                store.zero(*offset, (*bytes).into(), *keep_space).map_err(|error| written(&error))?;
            }
            Action::Verify => {
                verify(*offset, (*bytes).into(), store, space)?;
                journal.note_read((*bytes).into());
            }
            Action::Copy { .. } => {
                copy(&self.parts, *offset, store)?;
                journal.note_write((*bytes).into());
            }
            Action::Flush => {}
            Action::Deallocate { .. } => {
                for (offset, bytes) in &self.parts {
                    store.zero(*offset, *bytes, false).map_err(|error| written(&error))?;
                }
            }
        }
        Ok(())
    }
}

/// Each run goes straight from the store to the host's memory if both are words in this process, and by `space` otherwise.
#[inline]
fn read(offset: u64, data: &Data, store: &Store, space: &mut [u8], host: &mut impl Host) -> Result<(), Status> {
    let mut offset = offset;
    for &(address, bytes) in data.runs() {
        let copied = store.lend(offset, bytes, Access::Read, |words| host.write_words(address, words));
        if copied != Some(true) {
            let space = &mut space[..bytes as usize];
            store.read(offset, space).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
            host.write(address, space)?;
        }
        offset += u64::from(bytes);
    }
    Ok(())
}

/// The other way. What cannot be read leaves what was there, but for the runs before it.
#[inline]
fn write(offset: u64, data: &Data, store: &Store, space: &mut [u8], host: &mut impl Host) -> Result<(), Status> {
    let mut offset = offset;
    for &(address, bytes) in data.runs() {
        let copied = store.lend(offset, bytes, Access::Write, |words| host.read_words(address, words));
        if copied != Some(true) {
            let space = &mut space[..bytes as usize];
            host.read(address, space)?;
            store.write(offset, space).map_err(|error| written(&error))?;
        }
        offset += u64::from(bytes);
    }
    Ok(())
}

fn compare(offset: u64, data: &Data, store: &Store, space: &mut [u8], host: &mut impl Host) -> Result<(), Status> {
    fetch(data, space, host)?;
    let mut held = vec![0; space.len()];
    store.read(offset, &mut held).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
    if held == space { Ok(()) } else { Err(Status::COMPARE_FAILURE) }
}

/// Read, as much at a time as there is space.
fn verify(offset: u64, bytes: u64, store: &Store, space: &mut [u8]) -> Result<(), Status> {
    let mut done = 0;
    while done < bytes {
        let piece = (bytes - done).min(space.len() as u64);
        let space = &mut space[..piece as usize];
        store.read(offset + done, space).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
        done += piece;
    }
    Ok(())
}

/// Read all of it before any is written: a copy may go over its own sources.
fn copy(sources: &[(u64, u64)], to: u64, store: &Store) -> Result<(), Status> {
    let mut copied = vec![0; sources.iter().map(|(_, bytes)| *bytes as usize).sum()];
    let mut rest = &mut copied[..];
    for (offset, bytes) in sources {
        let (source, others) = rest.split_at_mut(*bytes as usize);
        store.read(*offset, source).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
        rest = others;
    }
    store.write(to, &copied).map_err(|error| written(&error))
}

/// Read the lists of pages that data needs, and keep what they hold.
#[inline]
fn follow(data: &mut Data, lists: &mut Vec<u8>, host: &mut impl Host) -> Result<(), Status> {
    while let Some((address, bytes)) = data.wanted() {
        let start = lists.len();
        lists.resize(start + bytes as usize, 0);
        if host.read(address, &mut lists[start..]).is_err() {
            lists.truncate(start);
            return Err(Status::DATA_TRANSFER_ERROR);
        }
        data.on_list(&lists[start..])?;
    }
    Ok(())
}

/// The host's memory that a command names for so many bytes of an administrator's data.
fn described(entry: &SubmissionEntry, bytes: usize, host: &mut impl Host) -> Result<Data, Status> {
    let mut data = Data::of(entry, bytes as u32)?;
    follow(&mut data, &mut Vec::new(), host)?;
    Ok(data)
}

/// Copy the data that comes with a command.
pub(super) fn copy_in(entry: &SubmissionEntry, host: &mut impl Host, into: &mut [u8]) -> Result<(), Status> {
    fetch(&described(entry, into.len(), host)?, into, host)
}

/// Hand out the data that a command asks for.
pub(super) fn copy_out(entry: &SubmissionEntry, host: &mut impl Host, from: &[u8]) -> Result<(), Status> {
    put(&described(entry, from.len(), host)?, from, host)
}

fn read_data(data: &Data, host: &mut impl Host) -> Result<Vec<u8>, Status> {
    let mut bytes = vec![0; data.runs().iter().map(|(_, bytes)| *bytes as usize).sum()];
    fetch(data, &mut bytes, host)?;
    Ok(bytes)
}

/// Copy the host's data.
#[inline]
fn fetch(data: &Data, mut into: &mut [u8], host: &mut impl Host) -> Result<(), Status> {
    for (address, bytes) in data.runs() {
        let (run, others) = into.split_at_mut(*bytes as usize);
        host.read(*address, run)?;
        into = others;
    }
    Ok(())
}

/// Copy data to the host.
#[inline]
fn put(data: &Data, mut from: &[u8], host: &mut impl Host) -> Result<(), Status> {
    for (address, bytes) in data.runs() {
        let (run, others) = from.split_at(*bytes as usize);
        host.write(*address, run)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_told_whether_the_disk_has_no_room_or_has_failed() {
        let told = [libc::ENOSPC, libc::EDQUOT, libc::EIO].map(|number| written(&io::Error::from_raw_os_error(number)));
        assert_eq!(told, [Status::CAPACITY_EXCEEDED, Status::CAPACITY_EXCEEDED, Status::WRITE_FAULT]);
    }
}
