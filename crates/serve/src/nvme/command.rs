//! Commands of I/O queues. The core's [rules] check them; this module executes them on the store and in the host's
//! memory.

use std::io;

use phaselink_client::chunk::AHEAD_BYTES;
use phaselink_core::number::{index, length, wide_index};
use phaselink_core::protocol::nvme::commands::{
    self, Action, ChangedState, CommandSet, DataPointerUse, Extent, MediaUse, ParameterListContent, command, opcode,
};
use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::rules::reservation::{NamespaceAccess, ReservationKeys};
use phaselink_core::protocol::nvme::rules::{Data, Limits};
use phaselink_core::protocol::nvme::served::{ServedCommandLists, ServedHostCommand};
use phaselink_core::protocol::nvme::spec::{SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry};
use phaselink_core::request::Io;

use super::host::Host;
use super::journal::CommandJournal;
use super::queues::SubmissionEntryBytes;
use super::subsystem::{AttachedNamespace, AttachedNamespaceView};
use crate::device::faults::FaultEffect;
use crate::device::store::{Store, StoreCopyDirection};
use crate::planted::{PlantableBug, is_planted};

/// I/O command that has been copied from its queue and checked, with its PRP lists, SGL segments and ranges. Host
/// memory is not read for them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub(super) queue: u16,
    pub(super) generation: u32,
    /// Version of the subsystem's namespaces against which the command was checked.
    pub(super) version: u64,
    /// Submission queue entry as the host wrote it.
    pub bytes: SubmissionEntryBytes,
    /// Checked command, whose blocks lie within the namespace, or the status with which it is refused.
    pub checked: Result<commands::Command, Status>,
    /// Ranges of the drive that a Dataset Management command deallocates or a Copy reads: offset and length in bytes.
    pub ranges: Vec<(u64, u64)>,
    /// Command before its PRP lists, SGL segments and list of parameters were read, and what these have added; none if
    /// it has none of them.
    pub(super) lists: Option<Box<ReadCommandLists>>,
    /// Binary logarithm of the block size in bytes of the command's namespace.
    pub(super) block_shift: u32,
    /// Reclaim unit handles of the namespace's placement handles, for a model that knows only the former. None if they
    /// are the same.
    pub(super) unit_handles: Option<Vec<u8>>,
}

/// Lists of a command that have been read from the host's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadCommandLists {
    /// Command as its submission queue entry alone describes it.
    before: commands::Command,
    read: ServedCommandLists,
}

impl Command {
    /// Returns a refused command without an entry. The caller copies a submission queue entry to [`Command::bytes`] and
    /// calls [`Command::check`].
    pub(super) fn blank() -> Command {
        let checked = Err(Status::INVALID_OPCODE);
        let (bytes, ranges) = ([0; SUBMISSION_ENTRY_BYTES], Vec::new());
        let (queue, generation, version, block_shift) = (0, 0, 0, 0);
        Command { queue, generation, version, bytes, checked, ranges, lists: None, block_shift, unit_handles: None }
    }

    /// Decodes and checks the submission queue entry in [`Command::bytes`], and reads its PRP lists, SGL segments and
    /// ranges. `queue` and `generation` name the submission queue of the entry. Replaces everything but the entry.
    #[inline]
    pub(super) fn check(
        &mut self,
        queue: u16,
        generation: u32,
        namespaces: &AttachedNamespaceView,
        host: &mut impl Host,
    ) {
        let mut entry = SubmissionEntry::decode(&self.bytes);
        let (id, found) = (entry.namespace_id, namespaces.find(entry.namespace_id));
        if found.is_ok() {
            // The checks of the model know a single namespace that is the whole drive.
            entry.namespace_id = command::NAMESPACE;
        }
        let limits = found.map_or(namespaces.limits_without_namespaces(), |namespace| &namespace.limits);
        self.checked = commands::Command::check(&entry, limits);
        if let (Err(Status::INVALID_NAMESPACE), Err(other)) = (&self.checked, found) {
            self.checked = Err(other);
        }
        self.check_reservation_access(id, found.ok(), namespaces);
        (self.queue, self.generation, self.version) = (queue, generation, namespaces.version());
        (self.lists, self.unit_handles, self.block_shift) = (None, None, limits.block_shift);
        self.ranges.clear();
        if let Err(status) = self.read_lists(limits, host) {
            self.checked = Err(status);
        }
        if let Ok(namespace) = found
            && !(namespace.is_plain && namespace.start == 0)
        {
            self.place(namespace.start);
            self.unit_handles = if namespace.is_plain { None } else { namespaces.kind().unit_handles(id) };
        }
    }

    /// Refuses the command if a reservation does not leave the access that it needs to the host.
    #[inline]
    fn check_reservation_access(
        &mut self,
        id: u32,
        found: Option<&AttachedNamespace>,
        namespaces: &AttachedNamespaceView,
    ) {
        let Ok(checked) = &self.checked else { return };
        let is_free = found.is_some_and(|namespace| namespace.reserved.access == NamespaceAccess::Write);
        if !is_free && let Some(status) = namespaces.reservation_conflict(id, checked.row.access()) {
            self.checked = Err(status);
        }
    }

    /// Translates offsets within a namespace that begins at byte `start` of the drive to offsets on the drive.
    fn place(&mut self, start: u64) {
        let before = self.lists.as_mut().map(|lists| &mut lists.before);
        for command in self.checked.as_mut().ok().into_iter().chain(before) {
            command.offset += if command.row.extent == Extent::None { 0 } else { start };
        }
        self.ranges.iter_mut().for_each(|(offset, _)| *offset += start);
    }

    #[inline]
    fn read_lists(&mut self, limits: &Limits, host: &mut impl Host) -> Result<(), Status> {
        let Ok(checked) = &mut self.checked else { return Ok(()) };
        let is_list = checked.row.list().is_some() && !checked.data.is_empty();
        if checked.data.next_list_part().is_none() && !is_list {
            return Ok(());
        }
        let lists = ReadCommandLists { before: checked.clone(), read: ServedCommandLists::default() };
        let read = &mut self.lists.insert(Box::new(lists)).read;
        read_data_lists(&mut checked.data, host, |step| read.steps.push_back(step))?;
        if !is_list {
            return Ok(());
        }
        read.content = copy_command_data(&checked.data, host).and_then(|list| checked.take_list(&list, limits));
        let content = read.content.as_ref().map_err(|status| *status)?;
        if checked.action != (Action::Deallocate { is_hint: true }) {
            self.ranges = content.ranges().to_vec();
        }
        Ok(())
    }

    /// Returns true if the command has PRP lists, SGL segments or a list of parameters that were read from the host's
    /// memory.
    pub fn has_memory_lists(&self) -> bool {
        self.lists.is_some()
    }

    /// Returns the pairs of reclaim group and placement handle in the list of an I/O Management Send.
    pub(super) fn identifiers(&self) -> &[(u8, u8)] {
        match self.lists.as_deref().map(|lists| &lists.read.content) {
            Some(Ok(ParameterListContent::Identifiers(listed))) => listed,
            _ => &[],
        }
    }

    /// Returns the keys in the data of a reservation command; keys of 0 for other commands.
    pub(super) fn keys(&self) -> ReservationKeys {
        match self.lists.as_deref().map(|lists| &lists.read.content) {
            Some(Ok(ParameterListContent::Keys(keys))) => *keys,
            _ => ReservationKeys::default(),
        }
    }

    /// Returns the command as it enters the model, which knows no namespaces but for reservations, and no placement
    /// handles: with ranges of the drive, and reclaim unit handles.
    pub fn to_model_command(&self) -> ServedHostCommand {
        let command_id = self.entry().command_id;
        let lists = self.lists.as_ref().map(|lists| Box::new(self.lists_to_model(lists)));
        let before = self.lists.as_ref().map(|lists| lists.before.clone());
        let mut checked = before.map_or_else(|| self.checked.clone(), Ok);
        if let Ok(commands::Command { placement, action, namespace, .. }) = &mut checked {
            placement.handle = self.reclaim_unit_handle(placement.handle);
            if action.reservation().is_some() {
                *namespace = self.entry().namespace_id;
            }
        }
        ServedHostCommand { command_id, checked, lists }
    }

    fn lists_to_model(&self, lists: &ReadCommandLists) -> ServedCommandLists {
        let mut read = lists.read.clone();
        match &mut read.content {
            Ok(ParameterListContent::Ranges(ranges)) => *ranges = self.ranges.iter().copied().collect(),
            Ok(ParameterListContent::Sources { ranges, .. }) => ranges.clone_from(&self.ranges),
            Ok(ParameterListContent::Identifiers(listed)) => {
                listed.iter_mut().for_each(|(_, handle)| *handle = self.reclaim_unit_handle(*handle));
            }
            Ok(ParameterListContent::Keys(_)) | Err(_) => {}
        }
        read
    }

    /// Returns the reclaim unit handle of a placement handle, or 0 if the namespace does not have it.
    fn reclaim_unit_handle(&self, handle: u8) -> u8 {
        let known = |handles: &Vec<u8>| handles.get(usize::from(handle)).copied().unwrap_or(0);
        self.unit_handles.as_ref().map_or(handle, known)
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
        if checked.row.changes == ChangedState::Keys {
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
    pub(super) fn flush_failure_status(&self) -> Status {
        let is_flush = self.checked.as_ref().is_ok_and(|checked| checked.row.media == MediaUse::Flush);
        if is_flush { Status::INTERNAL_ERROR } else { Status::WRITE_FAULT }
    }

    /// Returns the status field of the command's completion queue entry. A refused command also has Do Not Retry set.
    #[inline]
    pub(super) fn completion_status_field(&self, status: Status) -> Status {
        // A status about the path is not final, because the host may retry on another path.
        let is_final = self.checked.is_err() && !status.is_of_path();
        if is_final { refusal(status) } else { status }
    }

    /// Returns offset and length in bytes of the blocks on the drive that a Read transfers, before its entry is checked
    /// in full, so that they can be prefetched. None if the entry is no Read of blocks, or any of them is outside its
    /// namespace.
    #[inline]
    pub(super) fn readable_block_range(
        bytes: &SubmissionEntryBytes,
        namespaces: &AttachedNamespaceView,
    ) -> Option<(u64, u32)> {
        let entry = SubmissionEntry::decode(bytes);
        if entry.opcode != opcode::READ {
            return None;
        }
        let AttachedNamespace { limits, start, .. } = namespaces.find(entry.namespace_id).ok()?;
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
            (DataPointerUse::ToHost, MediaUse::Read) => host.prefetch_to_write(*address, ahead.min(*length)),
            (DataPointerUse::FromHost, MediaUse::Write) => {
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
        journal: &mut CommandJournal,
    ) -> Result<(), Status> {
        let commands::Command { row, action, offset, bytes, data, .. } = match &self.checked {
            Ok(checked) => checked,
            Err(status) => return Err(*status),
        };
        let (offset, bytes) = (*offset, *bytes);
        match action {
            Action::Read => read(offset, data, store, &mut space[..index(bytes)], host)?,
            Action::Compare => compare_blocks(offset, data, store, &mut space[..index(bytes)], host)?,
            Action::Write => write(offset, data, store, &mut space[..index(bytes)], host)?,
            Action::Verify => verify_blocks(offset, bytes.into(), store, space)?,
            Action::Copy => copy_blocks(&self.ranges, offset, store)?,
            Action::Zero { keep_space } => {
                store.zero(offset, bytes.into(), *keep_space).map_err(|error| status_of_write_error(&error))?;
            }
            Action::Flush => {}
            Action::WriteUncorrectable => {
                store.make_unreadable(offset, bytes.into()).map_err(|error| status_of_write_error(&error))?;
            }
            Action::Deallocate { .. } => {
                for (offset, bytes) in &self.ranges {
                    store.zero(*offset, *bytes, false).map_err(|error| status_of_write_error(&error))?;
                }
            }
            // The controller reports zones, keys or placement, but the store lacks them, so this is an internal error.
            _ => Err(Status::INTERNAL_ERROR)?,
        }
        journal.count(row, bytes);
        Ok(())
    }
}

/// Copies blocks from `offset` on the drive to the host's buffer: directly from the store if the host's memory is
/// mapped here, else through `space`.
#[inline]
fn read(offset: u64, data: &Data, store: &Store, space: &mut [u8], host: &mut impl Host) -> Result<(), Status> {
    let mut offset = offset;
    for &(address, bytes) in data.runs() {
        let copied = store.lend(offset, bytes, StoreCopyDirection::Read, |words| host.write_words(address, words));
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
        let copied = store.lend(offset, bytes, StoreCopyDirection::Write, |words| host.read_words(address, words));
        if copied != Some(true) {
            let space = &mut space[..index(bytes)];
            host.read(address, space)?;
            store.write(offset, space).map_err(|error| status_of_write_error(&error))?;
        }
        offset += u64::from(bytes);
    }
    Ok(())
}

/// Compares the host's data with the drive's content from `offset` on; Compare Failure if they differ.
fn compare_blocks(
    offset: u64,
    data: &Data,
    store: &Store,
    space: &mut [u8],
    host: &mut impl Host,
) -> Result<(), Status> {
    copy_from_host(data, space, host)?;
    let mut stored = vec![0; space.len()];
    store.read(offset, &mut stored).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
    let is_equal = stored == space || is_planted(PlantableBug::CompareIgnored);
    if is_equal { Ok(()) } else { Err(Status::COMPARE_FAILURE) }
}

/// Reads a range of the drive and discards the data, in pieces of the size of `space`. Unrecovered Read Error if a
/// block cannot be read.
fn verify_blocks(offset: u64, bytes: u64, store: &Store, space: &mut [u8]) -> Result<(), Status> {
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
fn copy_blocks(sources: &[(u64, u64)], to: u64, store: &Store) -> Result<(), Status> {
    let mut copied = vec![0; sources.iter().map(|(_, bytes)| wide_index(*bytes)).sum()];
    let mut rest = &mut copied[..];
    for (offset, bytes) in sources {
        let (source, others) = rest.split_at_mut(wide_index(*bytes));
        store.read(*offset, source).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
        rest = others;
    }
    store.write(to, &copied).map_err(|error| status_of_write_error(&error))
}

/// Reads the PRP lists or SGL segments of a data pointer. Calls `on_step` after each part with the host memory that is
/// known by then, or the status of a part that is invalid or cannot be read.
#[inline]
fn read_data_lists(
    data: &mut Data,
    host: &mut impl Host,
    mut on_step: impl FnMut(Result<Data, Status>),
) -> Result<(), Status> {
    let mut part = Vec::new();
    while let Some((address, bytes)) = data.next_list_part() {
        part.resize(index(bytes), 0);
        let read = host.read(address, &mut part).map_err(|_| Status::DATA_TRANSFER_ERROR);
        let read = read.and_then(|()| data.add_prp_list_part(&part));
        on_step(read.map(|()| data.clone()));
        read?;
    }
    Ok(())
}

/// Returns the ranges of host memory that the data pointer of an admin command names for `bytes` bytes. Reads its PRP
/// lists or SGL segments.
fn admin_data_ranges(entry: &SubmissionEntry, bytes: usize, host: &mut impl Host) -> Result<Data, Status> {
    let mut data = Data::of(entry, bytes as u32)?;
    read_data_lists(&mut data, host, |_| ())?;
    Ok(data)
}

/// Copies the data of an admin command from the host into `into`.
pub(super) fn copy_in(entry: &SubmissionEntry, host: &mut impl Host, into: &mut [u8]) -> Result<(), Status> {
    copy_from_host(&admin_data_ranges(entry, into.len(), host)?, into, host)
}

/// Copies `from` to the host's buffer that the data pointer of an admin command names.
pub(super) fn copy_out(entry: &SubmissionEntry, host: &mut impl Host, from: &[u8]) -> Result<(), Status> {
    copy_to_host(&admin_data_ranges(entry, from.len(), host)?, from, host)
}

/// Copies the host memory of a command's data to a new vector. The PRP lists or SGL segments must have been read.
fn copy_command_data(data: &Data, host: &mut impl Host) -> Result<Vec<u8>, Status> {
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
pub(super) fn status_of_write_error(error: &io::Error) -> Status {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Status::CAPACITY_EXCEEDED,
        _ => Status::WRITE_FAULT,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use phaselink_core::drive::Drive;
    use phaselink_core::protocol::nvme::rules::reservation::ReservingHost;
    use phaselink_core::protocol::nvme::rules::{BlockMetadataFormat, BlockNamespaceParts, NamespaceKind};
    use phaselink_core::protocol::nvme::spec::fields::blocks;

    use super::super::array_host::ArrayHost;
    use super::super::subsystem::{NamespaceBlockFormat, Subsystem};
    use super::*;

    const HOST: ReservingHost = ReservingHost::OfController(0);

    /// The store's methods assert that blocks lie within it.
    #[test]
    fn unchecked_entries_name_only_blocks_of_their_namespace() {
        let limits = Limits::of(&Drive::shipped("nvme").unwrap()).divided(2);
        let namespaces = AttachedNamespaceView::new(&Arc::new(Subsystem::new(&limits)), 0, (0, HOST));
        for namespace_id in [0, 1, 2, 3, u32::MAX] {
            for slba in [0, limits.blocks - 1, limits.blocks, u64::MAX - 1, u64::MAX] {
                for blocks in [1, 2, 1 << 16] {
                    let entry = SubmissionEntry { opcode: opcode::READ, namespace_id, ..SubmissionEntry::default() };
                    let entry = entry.of_blocks(slba, blocks).encode();
                    if let Some((offset, bytes)) = Command::readable_block_range(&entry, &namespaces) {
                        let end = offset + u64::from(bytes);
                        assert!(end <= 2 * limits.capacity_bytes(), "{namespace_id} {slba} {blocks}");
                    }
                }
            }
        }
    }

    #[test]
    fn model_transfers_no_metadata_for_namespaces_without_any() {
        let metadata = Some(BlockMetadataFormat::of(1, false).unwrap());
        let kind = NamespaceKind::Blocks(BlockNamespaceParts { metadata, placement: None });
        let limits = Limits { kind, ..Limits::of(&Drive::shipped("nvme").unwrap()) };
        let subsystem = Arc::new(Subsystem::new(&limits));
        subsystem.format(1, NamespaceBlockFormat { block_shift: 9, metadata: None }).unwrap();
        let namespaces = AttachedNamespaceView::new(&subsystem, 0, (0, HOST));
        let mut host = ArrayHost::new(1 << 16, &limits);
        for opcode in [opcode::READ, opcode::WRITE, opcode::VERIFY, opcode::WRITE_ZEROES] {
            let entry = SubmissionEntry { opcode, namespace_id: 1, prp1: 4096, ..SubmissionEntry::default() };
            let mut entry = entry.of_blocks(8, 1);
            // Set bits that these commands do not define.
            entry = entry.with(blocks::PROTECTION, 0b0101);
            let mut command = Command { bytes: entry.encode(), ..Command::blank() };
            command.check(1, 1, &namespaces, &mut host);
            let modelled = command.to_model_command().checked.expect("the model accepts the command");
            assert_eq!((modelled.metadata, modelled.bytes), (None, 512), "{opcode:x}");
        }
    }

    #[test]
    fn full_disk_is_capacity_exceeded_and_failed_disk_a_write_fault() {
        let told = [libc::ENOSPC, libc::EDQUOT, libc::EIO]
            .map(|number| status_of_write_error(&io::Error::from_raw_os_error(number)));
        assert_eq!(told, [Status::CAPACITY_EXCEEDED, Status::CAPACITY_EXCEEDED, Status::WRITE_FAULT]);
    }
}
