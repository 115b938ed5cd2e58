//! Commands of I/O queues. The core's [rules] check them; this module executes them on the store and in the host's
//! memory.

use std::io;

use phaselink_client::chunk::AHEAD_BYTES;
use phaselink_core::number::{index, length, low_u32, wide_index};
use phaselink_core::protocol::nvme::commands::{
    self, Action, Changes, CommandSet, DataUse, Extent, ListKind, MediaUse, command, opcode,
};
use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::rules::{Data, Limits};
use phaselink_core::protocol::nvme::spec::{SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry};
use phaselink_core::request::Io;

use super::host::Host;
use super::journal::Journal;
use super::queues::EntryBytes;
use super::subsystem::{ActiveNamespace, NamespaceView};
use crate::device::faults::FaultEffect;
use crate::device::store::{Store, StoreAccess};

/// I/O command that has been copied from its queue and checked, with its PRP lists, SGL segments and ranges. Host
/// memory is not read for them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub(super) queue: u16,
    pub(super) generation: u32,
    /// Version of the subsystem's namespaces against which the command was checked.
    pub(super) version: u64,
    /// Submission queue entry as the host wrote it.
    pub bytes: EntryBytes,
    /// Checked command, whose blocks lie within the namespace, or the status with which it is refused.
    pub checked: Result<commands::Command, Status>,
    /// Ranges of the drive that a Dataset Management command deallocates or a Copy reads: offset and length in bytes.
    pub ranges: Vec<(u64, u64)>,
    /// PRP lists, SGL segments and range lists in the order in which they were read, or none if the command has none.
    pub lists: Option<Vec<u8>>,
    /// Binary logarithm of the block size in bytes of the command's namespace.
    pub(super) block_shift: u32,
    /// Submission queue entry for a model that knows only the namespaces of the drive description. None if the host's
    /// entry means the same blocks there.
    pub modelled: Option<Box<EntryBytes>>,
}

impl Command {
    /// Returns a refused command without an entry. The caller copies a submission queue entry to [`Command::bytes`] and
    /// calls [`Command::check`].
    pub(super) fn blank() -> Command {
        let checked = Err(Status::INVALID_OPCODE);
        let (bytes, ranges) = ([0; SUBMISSION_ENTRY_BYTES], Vec::new());
        let (queue, generation, version, block_shift) = (0, 0, 0, 0);
        Command { queue, generation, version, bytes, checked, ranges, lists: None, block_shift, modelled: None }
    }

    /// Decodes and checks the submission queue entry in [`Command::bytes`], and reads its PRP lists, SGL segments and
    /// ranges. `queue` and `generation` name the submission queue of the entry. Replaces everything but the entry.
    #[inline]
    pub(super) fn check(&mut self, queue: u16, generation: u32, namespaces: &NamespaceView, host: &mut impl Host) {
        let mut entry = SubmissionEntry::decode(&self.bytes);
        let found = namespaces.find(entry.namespace_id);
        if found.is_ok() {
            // The rules treat each namespace as a drive of its own.
            entry.namespace_id = command::NAMESPACE;
        }
        let limits = found.map_or(namespaces.without_namespaces(), |namespace| &namespace.limits);
        self.checked = commands::Command::check(&entry, limits);
        if let (Err(Status::INVALID_NAMESPACE), Err(other)) = (&self.checked, found) {
            self.checked = Err(other);
        }
        (self.queue, self.generation, self.version) = (queue, generation, namespaces.version());
        (self.lists, self.modelled, self.block_shift) = (None, None, limits.block_shift);
        self.ranges.clear();
        if let Err(status) = self.read_lists(limits, host) {
            self.checked = Err(status);
        }
        if let Ok(namespace) = found {
            self.place(namespace, namespaces);
        }
    }

    /// Translates offsets within a namespace to offsets on the drive, and makes the entry for the model if the
    /// namespace is not one of the drive description.
    #[inline]
    fn place(&mut self, namespace: &ActiveNamespace, namespaces: &NamespaceView) {
        if namespace.is_plain && namespace.start == 0 {
            return;
        }
        let Ok(checked) = &mut self.checked else { return };
        if checked.row.extent != Extent::None {
            checked.offset += namespace.start;
        }
        self.ranges.iter_mut().for_each(|(offset, _)| *offset += namespace.start);
        if !namespace.is_plain {
            let entry = namespaces.kind().plain_entry(&SubmissionEntry::decode(&self.bytes), checked);
            self.modelled = Some(Box::new(modelled(&entry, checked, namespaces.plain_limits())));
        }
    }

    #[inline]
    fn read_lists(&mut self, limits: &Limits, host: &mut impl Host) -> Result<(), Status> {
        let Ok(checked) = &mut self.checked else { return Ok(()) };
        let is_list = checked.row.list().is_some() && !checked.data.is_empty();
        if checked.data.next_list_part().is_none() && !is_list {
            return Ok(());
        }
        let lists = self.lists.insert(Vec::new());
        read_data_lists(&mut checked.data, lists, host)?;
        if !is_list {
            return Ok(());
        }
        let list = read_data(&checked.data, host)?;
        lists.extend(&list);
        match checked.row.list() {
            Some(ListKind::Sources) => {
                self.ranges = checked.take_sources(&list, limits)?;
            }
            Some(ListKind::Identifiers) => {
                limits.kind.placement()?.listed(&list)?;
            }
            Some(ListKind::Ranges) | None => {
                self.ranges = command::ranges(&list, checked.namespace, limits)?;
                if checked.action == (Action::Deallocate { is_hint: true }) {
                    self.ranges.clear();
                }
            }
        }
        Ok(())
    }

    /// Returns the identifier of the submission queue that the command was fetched from.
    pub fn queue(&self) -> u16 {
        self.queue
    }

    /// Returns the fields of the submission queue entry.
    #[inline]
    pub fn entry(&self) -> SubmissionEntry {
        SubmissionEntry::decode(&self.bytes)
    }

    /// Returns operation, offset in bytes and size in bytes of the command. None if the command is refused, or
    /// transfers neither blocks nor a value. The offset of a deallocation means nothing (see its ranges), nor does that
    /// of a value.
    pub fn io(&self) -> Option<Io> {
        let checked = self.checked.as_ref().ok().filter(|checked| !checked.row.is_management())?;
        let is_nothing = checked.row.set == CommandSet::Keys && checked.bytes == 0;
        (!is_nothing).then_some(Io { op: checked.op(), offset: checked.offset, bytes: checked.bytes })
    }

    /// Returns the part of the command that still reaches the store under a torn-write fault, or none if nothing does.
    /// A Copy is never torn. A value that would be torn is not stored at all.
    #[cold]
    pub fn torn(&self, effect: FaultEffect, block_bytes: u32) -> Option<Command> {
        let mut torn = self.clone();
        let Ok(checked) = &mut torn.checked else { return Some(torn) };
        if checked.row.changes == Changes::Keys {
            return (effect.kept_bytes(checked.bytes, 1) == checked.bytes).then_some(torn);
        }
        if checked.row.writes_media() && checked.row.list().is_none() {
            checked.bytes = effect.kept_bytes(checked.bytes, block_bytes);
            checked.data.truncate(checked.bytes);
        }
        (checked.bytes > 0).then_some(torn)
    }

    /// Returns true if the completion promises durability, so that the store is flushed before the completion is
    /// posted.
    #[inline]
    pub(super) fn needs_flush(&self, write_cache: bool) -> bool {
        self.checked.as_ref().is_ok_and(|checked| checked.must_be_durable(write_cache))
    }

    /// Returns the status of the command if the flush of the store before its completion fails.
    pub(super) fn flush_failure(&self) -> Status {
        let is_flush = self.checked.as_ref().is_ok_and(|checked| checked.row.media == MediaUse::Flush);
        if is_flush { Status::INTERNAL_ERROR } else { Status::WRITE_FAULT }
    }

    /// Returns the status field of the command's completion queue entry. A refused command also has Do Not Retry set.
    #[inline]
    pub(super) fn completion_status(&self, status: Status) -> Status {
        if self.checked.is_err() { refusal(status) } else { status }
    }

    /// Returns offset and length in bytes of the blocks on the drive that a Read transfers, before its entry is checked
    /// in full, so that they can be prefetched. None if the entry is no Read of blocks, or any of them is outside its
    /// namespace.
    #[inline]
    pub(super) fn blocks_to_read(bytes: &EntryBytes, namespaces: &NamespaceView) -> Option<(u64, u32)> {
        let entry = SubmissionEntry::decode(bytes);
        if entry.opcode != opcode::READ {
            return None;
        }
        let ActiveNamespace { limits, start, .. } = namespaces.find(entry.namespace_id).ok()?;
        let offset = limits.place(command::NAMESPACE, entry.slba(), entry.blocks()).ok()?;
        limits.kind.offers(CommandSet::Blocks).then_some((start + offset, entry.blocks() << limits.block_shift))
    }

    /// Prefetches the cache lines that a Read or a short Write needs: those of the first page of the host's buffer and,
    /// for a Write, of the store.
    #[inline]
    pub(super) fn prefetch(&self, host: &mut impl Host, store: &Store) {
        let Ok(commands::Command { row, offset, bytes, data, .. }) = &self.checked else { return };
        let ([(address, length), ..], ahead) = (data.runs(), (*bytes).min(AHEAD_BYTES as u32)) else { return };
        match (row.data, row.media) {
            (DataUse::ToHost, MediaUse::Read) => host.prefetch_to_write(*address, ahead.min(*length)),
            (DataUse::FromHost, MediaUse::Write) => {
                store.prefetch_to_write(*offset, *bytes);
                host.prefetch(*address, ahead.min(*length));
            }
            _ => {}
        }
    }

    /// Executes the command on the store and in the host's memory, without posting a completion. `space` is a buffer
    /// for the longest transfer.
    ///
    /// # Errors
    ///
    /// The status of a command that is refused or fails.
    #[inline]
    pub(super) fn execute(
        &self,
        host: &mut impl Host,
        store: &Store,
        space: &mut [u8],
        journal: &mut Journal,
    ) -> Result<(), Status> {
        let commands::Command { row, action, offset, bytes, data, .. } = match &self.checked {
            Ok(checked) => checked,
            Err(status) => return Err(*status),
        };
        let (offset, bytes) = (*offset, *bytes);
        match action {
            Action::Read => read(offset, data, store, &mut space[..index(bytes)], host)?,
            Action::Compare => compare(offset, data, store, &mut space[..index(bytes)], host)?,
            Action::Write => write(offset, data, store, &mut space[..index(bytes)], host)?,
            Action::Verify => verify(offset, bytes.into(), store, space)?,
            Action::Copy => copy(&self.ranges, offset, store)?,
            Action::Zero { keep_space } => {
                store.zero(offset, bytes.into(), *keep_space).map_err(|error| write_status(&error))?;
            }
            Action::Flush => {}
            Action::WriteUncorrectable => {
                store.make_unreadable(offset, bytes.into()).map_err(|error| write_status(&error))?;
            }
            Action::Deallocate { .. } => {
                for (offset, bytes) in &self.ranges {
                    store.zero(*offset, *bytes, false).map_err(|error| write_status(&error))?;
                }
            }
            // The store lacks zones, keys or data placement, although the controller reports them.
            _ => Err(Status::INTERNAL_ERROR)?,
        }
        journal.count(row, bytes);
        Ok(())
    }
}

/// Returns a command's entry with the namespace and blocks of the drive description that hold its bytes, for a model
/// that knows only those. Bytes beyond the end of that namespace are cut.
#[cold]
fn modelled(entry: &SubmissionEntry, checked: &commands::Command, plain: &Limits) -> EntryBytes {
    if checked.bytes == 0 {
        return SubmissionEntry { namespace_id: command::NAMESPACE, ..*entry }.encode();
    }
    let (namespace, within) = (checked.offset / plain.capacity_bytes(), checked.offset % plain.capacity_bytes());
    let blocks = low_u32(u64::from(checked.bytes).div_ceil(1 << plain.block_shift));
    let entry = SubmissionEntry { namespace_id: low_u32(namespace) + 1, ..*entry };
    let entry = plain.kind.without_checks(entry, checked.row.metadata, checked.metadata_transfer().is_some());
    entry.of_blocks(within >> plain.block_shift, blocks).encode()
}

/// Copies blocks from `offset` on the drive to the host's buffer: directly from the store if the host's memory is
/// mapped here, else through `space`.
#[inline]
fn read(offset: u64, data: &Data, store: &Store, space: &mut [u8], host: &mut impl Host) -> Result<(), Status> {
    let mut offset = offset;
    for &(address, bytes) in data.runs() {
        let copied = store.lend(offset, bytes, StoreAccess::Read, |words| host.write_words(address, words));
        if copied != Some(true) {
            let space = &mut space[..index(bytes)];
            store.read(offset, space).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
            host.write(address, space)?;
        }
        offset += u64::from(bytes);
    }
    Ok(())
}

/// Copies the host's data to the store from `offset` on. If host memory becomes unreachable, the data before that stays
/// written.
#[inline]
pub(super) fn write(
    offset: u64,
    data: &Data,
    store: &Store,
    space: &mut [u8],
    host: &mut impl Host,
) -> Result<(), Status> {
    let mut offset = offset;
    for &(address, bytes) in data.runs() {
        let copied = store.lend(offset, bytes, StoreAccess::Write, |words| host.read_words(address, words));
        if copied != Some(true) {
            let space = &mut space[..index(bytes)];
            host.read(address, space)?;
            store.write(offset, space).map_err(|error| write_status(&error))?;
        }
        offset += u64::from(bytes);
    }
    Ok(())
}

/// Compares the host's data with the drive's content from `offset` on; Compare Failure if they differ.
fn compare(offset: u64, data: &Data, store: &Store, space: &mut [u8], host: &mut impl Host) -> Result<(), Status> {
    copy_from_host(data, space, host)?;
    let mut stored = vec![0; space.len()];
    store.read(offset, &mut stored).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
    if stored == space { Ok(()) } else { Err(Status::COMPARE_FAILURE) }
}

/// Reads a range of the drive and discards the data, in pieces of the size of `space`. Unrecovered Read Error if a
/// block cannot be read.
fn verify(offset: u64, bytes: u64, store: &Store, space: &mut [u8]) -> Result<(), Status> {
    let mut done = 0;
    while done < bytes {
        let piece = (bytes - done).min(length(space.len()));
        let space = &mut space[..wide_index(piece)];
        store.read(offset + done, space).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
        done += piece;
    }
    Ok(())
}

/// Copies ranges of the drive to its byte offset `to`. All sources are read first, since the destination may overlap
/// them.
fn copy(sources: &[(u64, u64)], to: u64, store: &Store) -> Result<(), Status> {
    let mut copied = vec![0; sources.iter().map(|(_, bytes)| wide_index(*bytes)).sum()];
    let mut rest = &mut copied[..];
    for (offset, bytes) in sources {
        let (source, others) = rest.split_at_mut(wide_index(*bytes));
        store.read(*offset, source).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
        rest = others;
    }
    store.write(to, &copied).map_err(|error| write_status(&error))
}

/// Reads the PRP lists or SGL segments of a data pointer, and appends their bytes to `lists`.
#[inline]
fn read_data_lists(data: &mut Data, lists: &mut Vec<u8>, host: &mut impl Host) -> Result<(), Status> {
    while let Some((address, bytes)) = data.next_list_part() {
        let start = lists.len();
        lists.resize(start + index(bytes), 0);
        if host.read(address, &mut lists[start..]).is_err() {
            lists.truncate(start);
            return Err(Status::DATA_TRANSFER_ERROR);
        }
        data.on_list(&lists[start..])?;
    }
    Ok(())
}

/// Returns the ranges of host memory that the data pointer of an admin command names for `bytes` bytes. Reads its PRP
/// lists or SGL segments.
fn admin_data(entry: &SubmissionEntry, bytes: usize, host: &mut impl Host) -> Result<Data, Status> {
    let mut data = Data::of(entry, bytes as u32)?;
    read_data_lists(&mut data, &mut Vec::new(), host)?;
    Ok(data)
}

/// Copies the data of an admin command from the host into `into`.
pub(super) fn copy_in(entry: &SubmissionEntry, host: &mut impl Host, into: &mut [u8]) -> Result<(), Status> {
    copy_from_host(&admin_data(entry, into.len(), host)?, into, host)
}

/// Copies `from` to the host's buffer that the data pointer of an admin command names.
pub(super) fn copy_out(entry: &SubmissionEntry, host: &mut impl Host, from: &[u8]) -> Result<(), Status> {
    copy_to_host(&admin_data(entry, from.len(), host)?, from, host)
}

/// Copies the host memory of a command's data to a new vector. The PRP lists or SGL segments must have been read.
fn read_data(data: &Data, host: &mut impl Host) -> Result<Vec<u8>, Status> {
    let mut bytes = vec![0; data.runs().iter().map(|(_, bytes)| index(*bytes)).sum()];
    copy_from_host(data, &mut bytes, host)?;
    Ok(bytes)
}

/// Copies the host memory that a command's data pointer names into `into`.
#[inline]
pub(super) fn copy_from_host(data: &Data, mut into: &mut [u8], host: &mut impl Host) -> Result<(), Status> {
    for (address, bytes) in data.runs() {
        let (run, others) = into.split_at_mut(index(*bytes));
        host.read(*address, run)?;
        into = others;
    }
    Ok(())
}

/// Copies `from` into the host memory that a command's data pointer names.
#[inline]
pub(super) fn copy_to_host(data: &Data, mut from: &[u8], host: &mut impl Host) -> Result<(), Status> {
    for (address, bytes) in data.runs() {
        let (run, others) = from.split_at(index(*bytes));
        host.write(*address, run)?;
        from = others;
    }
    Ok(())
}

/// Returns the completion status for a write that the store refused with this I/O error.
pub(super) fn write_status(error: &io::Error) -> Status {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Status::CAPACITY_EXCEEDED,
        _ => Status::WRITE_FAULT,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use phaselink_core::drive::Drive;
    use phaselink_core::protocol::nvme::rules::{BlockParts, MetadataFormat, NamespaceKind};

    use super::super::array_host::ArrayHost;
    use super::super::subsystem::{BlockFormat, Subsystem};
    use super::*;

    /// The store's methods assert that blocks lie within it.
    #[test]
    fn unchecked_entries_name_no_blocks_outside_their_namespace() {
        let limits = Limits::of(&Drive::shipped("nvme").unwrap()).divided(2);
        let namespaces = NamespaceView::new(&Arc::new(Subsystem::new(&limits)), 0);
        for namespace_id in [0, 1, 2, 3, u32::MAX] {
            for slba in [0, limits.blocks - 1, limits.blocks, u64::MAX - 1, u64::MAX] {
                for blocks in [1, 2, 1 << 16] {
                    let entry = SubmissionEntry { opcode: opcode::READ, namespace_id, ..SubmissionEntry::default() };
                    let entry = entry.of_blocks(slba, blocks).encode();
                    if let Some((offset, bytes)) = Command::blocks_to_read(&entry, &namespaces) {
                        let end = offset + u64::from(bytes);
                        assert!(end <= 2 * limits.capacity_bytes(), "{namespace_id} {slba} {blocks}");
                    }
                }
            }
        }
    }

    #[test]
    fn model_of_protected_blocks_moves_no_metadata_for_a_namespace_without_any() {
        let metadata = Some(MetadataFormat::of(1, false).unwrap());
        let kind = NamespaceKind::Blocks(BlockParts { metadata, placement: None });
        let limits = Limits { kind, ..Limits::of(&Drive::shipped("nvme").unwrap()) };
        let subsystem = Arc::new(Subsystem::new(&limits));
        subsystem.format(1, BlockFormat { block_shift: 9, metadata: None }).unwrap();
        let namespaces = NamespaceView::new(&subsystem, 0);
        let mut host = ArrayHost::new(1 << 16, &limits);
        for opcode in [opcode::READ, opcode::WRITE, opcode::VERIFY, opcode::WRITE_ZEROES] {
            let entry = SubmissionEntry { opcode, namespace_id: 1, prp1: 4096, ..SubmissionEntry::default() };
            let mut entry = entry.of_blocks(8, 1);
            // Set bits that these commands do not define.
            entry.dwords[2] |= 0b0101 << 26;
            let mut command = Command { bytes: entry.encode(), ..Command::blank() };
            command.check(1, 1, &namespaces, &mut host);
            let modelled = SubmissionEntry::decode(&command.modelled.expect("the model has another format"));
            let checked = commands::Command::check(&modelled, &limits).expect("the model accepts the command");
            assert_eq!(checked.metadata.expect("blocks with metadata").buffer, None, "{opcode:x}");
        }
    }

    #[test]
    fn full_disk_is_reported_as_capacity_exceeded_and_failed_disk_as_write_fault() {
        let told =
            [libc::ENOSPC, libc::EDQUOT, libc::EIO].map(|number| write_status(&io::Error::from_raw_os_error(number)));
        assert_eq!(told, [Status::CAPACITY_EXCEEDED, Status::CAPACITY_EXCEEDED, Status::WRITE_FAULT]);
    }
}
