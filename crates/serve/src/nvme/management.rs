//! Admin commands that change namespaces, and Sanitize (Base Specification 2.0, sections 5.22 to 5.24 and 8.21). Their
//! handlers check and queue them; [`Controller::update`], which has the store, executes them.

use phaselink_core::protocol::nvme::commands::command::ALL_NAMESPACES;
use phaselink_core::protocol::nvme::rules::BlockMetadataFormat;
use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::rules::reservation::NamespaceAccess;
use phaselink_core::protocol::nvme::spec::fields::{namespace as fields, sanitize};
use phaselink_core::protocol::nvme::spec::identify::{IdList, NewNamespace};
use phaselink_core::protocol::nvme::spec::layout::Layout;
use phaselink_core::protocol::nvme::spec::logs::{
    ChangeNamespaceEvent, FormatCompletionEvent, SanitizeCompletionEvent, SanitizeStartEvent,
};
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};

use super::admin::AdminCommandOutcome;
use super::command::copy_in;
use super::controller::{Controller, PendingWork, RequestedHandles};
use super::event_log::event;
use super::events::AsyncEvent;
use super::host::AdminHost;
use super::identify::{IDENTIFY_BYTES, Identity, SANITIZE_CAPABILITIES};
use super::subsystem::{NamespaceBlockFormat, Sanitize, SanitizeOperationState, Subsystem};
use crate::device::store::Store;
use crate::device::tally::locked;

/// Value of SEL in dword 10 of Namespace Management that creates a namespace. The next ones delete it and, for
/// Namespace Attachment, attach and detach it.
const CREATE: u32 = 0;
const DELETE: u32 = 1;
const ATTACH: u32 = 0;
const DETACH: u32 = 1;
/// Value of SANACT in dword 10 of Sanitize that leaves the failure mode; `BLOCK_ERASE` starts a block erase.
const EXIT_FAILURE_MODE: u32 = 1;
const BLOCK_ERASE: u32 = 2;

impl Controller {
    /// Checks Namespace Management (section 5.23) and queues it. It creates a namespace with the size and format in the
    /// host's data structure, or deletes one or all.
    pub(super) fn queue_namespace_management(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let SubmissionEntry { command_id, namespace_id: namespace, .. } = *command;
        self.check_no_sanitize()?;
        let work = match command.get(fields::SELECT) {
            CREATE => {
                let group = self.identity.namespace_kind_row().endurance_group();
                let (blocks, (format, metadata), handles) = decode_new_namespace(command, group, host)?;
                let format = self.identity.choose(format, metadata, false)?;
                PendingWork::Create { command_id, blocks, format, handles }
            }
            DELETE => {
                if namespace != ALL_NAMESPACES {
                    self.identity.subsystem.namespace(namespace)?;
                }
                self.refuse_if_reserved(namespace)?;
                PendingWork::Delete { command_id, namespace }
            }
            _ => return Err(Status::INVALID_FIELD),
        };
        self.pending.push_back(work);
        Ok(AdminCommandOutcome::Pending)
    }

    /// Checks Namespace Attachment (section 5.22) and queues it. Controller List Invalid unless the list has exactly
    /// this controller, the only one that the host knows.
    pub(super) fn queue_namespace_attachment(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let SubmissionEntry { command_id, namespace_id: namespace, .. } = *command;
        let is_attached = match command.get(fields::SELECT) {
            ATTACH => true,
            DETACH => false,
            _ => return Err(Status::INVALID_FIELD),
        };
        self.check_no_sanitize()?;
        self.identity.subsystem.namespace(namespace)?;
        let mut list = [0; IDENTIFY_BYTES];
        copy_in(command, host, &mut list)?;
        let list = IdList::over(list);
        if (list.get(IdList::COUNT), list.get(IdList::IDS.element(0))) != (1, self.identity.controller_id()) {
            return Err(Status::CONTROLLER_LIST_INVALID);
        }
        self.pending.push_back(PendingWork::Attach { command_id, namespace, is_attached });
        Ok(AdminCommandOutcome::Pending)
    }

    /// Executes Sanitize (section 5.24): completes the command at once, and queues the operation.
    pub(super) fn begin_sanitize_operation(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let dword10 = command.dwords[0];
        self.check_no_sanitize()?;
        let subsystem = &self.identity.subsystem;
        match command.get(sanitize::ACTION) {
            BLOCK_ERASE => {
                subsystem.set_sanitize_operation(Sanitize { state: SanitizeOperationState::Running, dword10 });
                let start = SanitizeStartEvent::zeros()
                    .with(SanitizeStartEvent::CAPABILITIES, SANITIZE_CAPABILITIES)
                    .with(SanitizeStartEvent::DWORD_10, dword10)
                    .with(SanitizeStartEvent::DWORD_11, command.dwords[1])
                    .into_bytes();
                locked(&subsystem.events).push(event::SANITIZE_START, self.features.timestamp(host.now_ms()), &start);
                self.pending.push_back(PendingWork::Sanitize { dword10 });
            }
            EXIT_FAILURE_MODE => {
                let Sanitize { state, dword10 } = subsystem.sanitize();
                if state == SanitizeOperationState::Failed {
                    if sanitize::UNRESTRICTED_EXIT.of_dword(dword10) == 0 {
                        return Err(Status::SANITIZE_FAILED);
                    }
                    subsystem.set_sanitize_operation(Sanitize::default());
                    self.pending.push_back(PendingWork::SaveSanitize);
                }
            }
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(AdminCommandOutcome::Done(0))
    }

    /// Refuses with Reservation Conflict a command that changes a namespace, or all of them, if a reservation does not
    /// let the host write there.
    pub(super) fn refuse_if_reserved(&self, namespace: u32) -> Result<(), Status> {
        let (Identity { subsystem, host, .. }, count) = (&self.identity, self.identity.limits.namespaces);
        let mut meant = (1..=count).filter(|id| [*id, ALL_NAMESPACES].contains(&namespace));
        match meant.all(|id| subsystem.reservations.access(id, *host).access == NamespaceAccess::Write) {
            true => Ok(()),
            false => Err(Status::RESERVATION_CONFLICT),
        }
    }

    /// Refuses a command with Sanitize In Progress while a sanitize operation runs.
    pub(super) fn check_no_sanitize(&self) -> Result<(), Status> {
        match self.identity.subsystem.sanitize().state {
            SanitizeOperationState::Running => Err(Status::SANITIZE_IN_PROGRESS),
            _ => Ok(()),
        }
    }

    /// Executes the queued work of admin commands that needs the store, and completes the commands.
    #[inline]
    pub(super) fn execute_pending_work(&mut self, host: &mut impl AdminHost, store: &Store) {
        while let Some(work) = self.pending.pop_front() {
            self.execute_work(work, host, store);
        }
    }

    #[cold]
    fn execute_work(&mut self, work: PendingWork, host: &mut impl AdminHost, store: &Store) {
        let timestamp = self.features.timestamp(host.now_ms());
        if let Some(history) = self.identity.subsystem.history()
            && work.affects_blocks()
        {
            history.give_up("format, sanitize or divide the drive");
        }
        let (command_id, done) = match work {
            PendingWork::Format { command_id, namespace, format } => {
                (command_id, self.format(namespace, format, timestamp, store))
            }
            PendingWork::Create { command_id, blocks, format, handles } => {
                (command_id, self.create(blocks, format, &handles, timestamp, store))
            }
            PendingWork::Delete { command_id, namespace } => (command_id, self.delete(namespace, timestamp, store)),
            PendingWork::Attach { command_id, namespace, is_attached } => {
                let (subsystem, number) = (&self.identity.subsystem, self.identity.number);
                let attached = restore_on_failure(subsystem, || {
                    subsystem.attach(namespace, number, is_attached)?;
                    subsystem.save(store).map_err(|_| Status::INTERNAL_ERROR)
                });
                (command_id, attached.map(|()| 0))
            }
            PendingWork::ReportBlocks { command } => {
                (command.command_id, self.execute_block_status(&command, host, store))
            }
            PendingWork::Sanitize { dword10 } => return self.sanitize(dword10, timestamp, store),
            // If saving fails, the settings are lost when the server ends, so ignore the error.
            PendingWork::SaveReservations => return drop(self.identity.subsystem.reservations.save(store)),
            PendingWork::SaveSettings => return drop(self.identity.subsystem.kind.save(store)),
            // If the store cannot save that the host has left failure mode (Exit Failure Mode), the sanitize operation counts
            // as failed again at the next start.
            PendingWork::SaveSanitize => return drop(self.identity.subsystem.save_sanitize_operation(store)),
        };
        match done {
            Ok(result) => self.post_admin_completion(command_id, Status::SUCCESS, result, host),
            Err(status @ Status::WRITE_FAULT) => self.post_admin_completion(command_id, status, 0, host),
            Err(status) => self.post_admin_completion(command_id, refusal(status), 0, host),
        }
    }

    /// Formats a namespace, or all of them. Afterwards they durably read as zeros.
    fn format(
        &mut self,
        namespace: u32,
        format: NamespaceBlockFormat,
        timestamp: [u8; 8],
        store: &Store,
    ) -> Result<u32, Status> {
        let subsystem = &self.identity.subsystem;
        restore_on_failure(subsystem, || {
            format.make_room(true, store).map_err(|_| Status::WRITE_FAULT)?;
            for (start, bytes) in subsystem.format(namespace, format)? {
                store.zero(start, bytes, false).map_err(|_| Status::WRITE_FAULT)?;
                subsystem.kind.note_erased_range(start, bytes);
            }
            store.clear_command_set_state();
            store.flush().and_then(|()| subsystem.save(store)).map_err(|_| Status::WRITE_FAULT)
        })?;
        let completion = FormatCompletionEvent::zeros().with(FormatCompletionEvent::NAMESPACE, namespace).into_bytes();
        locked(&subsystem.events).push(event::FORMAT_COMPLETION, timestamp, &completion);
        // The event log is informational, so a format succeeds even if its event cannot be saved.
        let _ = subsystem.save_event_log(store);
        Ok(0)
    }

    /// Creates a namespace that reads as zeros, and returns its identifier.
    fn create(
        &mut self,
        blocks: u64,
        format: NamespaceBlockFormat,
        handles: &[u16],
        timestamp: [u8; 8],
        store: &Store,
    ) -> Result<u32, Status> {
        let subsystem = &self.identity.subsystem;
        let (id, namespace) = restore_on_failure(subsystem, || {
            format.make_room(true, store).map_err(|_| Status::WRITE_FAULT)?;
            let differs = |id| {
                subsystem
                    .namespace(id)
                    .is_ok_and(|other| other.format.matching_lba_format() != format.matching_lba_format())
            };
            let id = subsystem.kind.create(handles, differs, || subsystem.create(blocks, format))?;
            subsystem.kind.save(store).map_err(|_| Status::WRITE_FAULT)?;
            subsystem.raise_version();
            let namespace = subsystem.namespace(id)?;
            let zeroed = store.zero(namespace.start, namespace.bytes, false).and_then(|()| store.flush());
            zeroed.and_then(|()| subsystem.save(store)).map_err(|_| Status::WRITE_FAULT)?;
            Ok((id, namespace))
        })?;
        self.add_change_event(CREATE, id, namespace.blocks(), timestamp, store);
        Ok(id)
    }

    /// Deletes a namespace, or all of them, and saves the change in the store.
    fn delete(&mut self, namespace: u32, timestamp: [u8; 8], store: &Store) -> Result<u32, Status> {
        let subsystem = &self.identity.subsystem;
        restore_on_failure(subsystem, || {
            subsystem.delete(namespace)?;
            subsystem.save(store).map_err(|_| Status::INTERNAL_ERROR)
        })?;
        subsystem.kind.delete(|id| namespace == ALL_NAMESPACES || namespace == id);
        subsystem.reservations.delete(|id| namespace == ALL_NAMESPACES || namespace == id);
        subsystem.raise_version();
        // Save that the handles of the deleted namespace are free, for the next start of the server.
        let _ = subsystem.kind.save(store);
        self.add_change_event(DELETE, namespace, 0, timestamp, store);
        Ok(0)
    }

    /// Adds a Change Namespace event to the persistent event log. `selected` is the value of SEL, `blocks` the
    /// namespace's size.
    fn add_change_event(&self, selected: u32, namespace: u32, blocks: u64, timestamp: [u8; 8], store: &Store) {
        let data = ChangeNamespaceEvent::zeros()
            .with(ChangeNamespaceEvent::SELECT, selected)
            .with(ChangeNamespaceEvent::BLOCKS, blocks)
            .with(ChangeNamespaceEvent::CAPACITY, blocks)
            .with(ChangeNamespaceEvent::NAMESPACE, namespace)
            .into_bytes();
        let subsystem = &self.identity.subsystem;
        locked(&subsystem.events).push(event::CHANGE_NAMESPACE, timestamp, &data);
        // The change is valid even if its event cannot be saved.
        let _ = subsystem.save_event_log(store);
    }

    /// Erases all data of the drive, also outside namespaces, and records the outcome of the sanitize operation.
    fn sanitize(&mut self, dword10: u32, timestamp: [u8; 8], store: &Store) {
        let subsystem = &self.identity.subsystem;
        let keeps_space = sanitize::NO_DEALLOCATE.of_dword(dword10) == 1;
        // Save the state before changing any data: if the server ends during the operation, it counts as failed.
        let begun = subsystem.save_sanitize_operation(store);
        let erased = begun.and_then(|()| store.zero(0, store.geometry().capacity_bytes, keeps_space)).and_then(|()| {
            store.clear_command_set_state();
            subsystem.kind.note_erased_range(0, store.geometry().capacity_bytes);
            store.flush()
        });
        let state = if erased.is_ok() { SanitizeOperationState::Completed } else { SanitizeOperationState::Failed };
        subsystem.set_sanitize_operation(Sanitize { state, dword10 });
        let completion = SanitizeCompletionEvent::zeros()
            .with(SanitizeCompletionEvent::PROGRESS, u16::MAX)
            .with(SanitizeCompletionEvent::STATE, state as u16)
            .into_bytes();
        locked(&subsystem.events).push(event::SANITIZE_COMPLETION, timestamp, &completion);
        // If the store cannot save the records, the state is lost when the server ends.
        let _ = subsystem.save_sanitize_operation(store).and_then(|()| subsystem.save_event_log(store));
        self.events.raise(AsyncEvent::SanitizeEnd);
    }
}

/// Runs `change` on the namespaces of a drive, and restores them as they were if it fails.
fn restore_on_failure<T>(subsystem: &Subsystem, change: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
    let before = subsystem.namespaces();
    change().inspect_err(|_| subsystem.restore(before))
}

/// Decodes a namespace to be created from the host's data structure: number of blocks, number of its LBA format with
/// metadata settings, and reclaim unit handles, which need an endurance group.
fn decode_new_namespace(
    command: &SubmissionEntry,
    endurance_group: u16,
    host: &mut impl AdminHost,
) -> Result<(u64, (usize, BlockMetadataFormat), RequestedHandles), Status> {
    let mut structure = [0; IDENTIFY_BYTES];
    copy_in(command, host, &mut structure)?;
    let structure = NewNamespace::over(structure);
    let blocks = structure.get(NewNamespace::BLOCKS);
    if command.has(fields::COMMAND_SET) || command.namespace_id != 0 || blocks == 0 {
        return Err(Status::INVALID_FIELD);
    }
    if structure.get(NewNamespace::CAPACITY) != blocks {
        return Err(Status::THIN_PROVISIONING_NOT_SUPPORTED);
    }
    // Metadata is always transferred in a separate buffer; extended logical blocks are not supported (FLBAS).
    if structure.get(NewNamespace::EXTENDED) {
        return Err(Status::INVALID_FORMAT);
    }
    let metadata = BlockMetadataFormat::of_dps_value(structure.get(NewNamespace::PROTECTION))?;
    let handles = if endurance_group > 0 { structure.get(NewNamespace::HANDLES) } else { 0 };
    if structure.get(NewNamespace::ENDURANCE_GROUP) > endurance_group {
        return Err(Status::INVALID_FIELD);
    }
    // The Placement Handle List has 128 entries.
    if handles > 128 {
        return Err(Status::INVALID_PLACEMENT_HANDLES);
    }
    let handle = |place| structure.get(NewNamespace::UNIT_HANDLES.element(place));
    let handles = (0..usize::from(handles)).map(handle).collect();
    let format = structure.get(NewNamespace::FORMAT_LOW) | structure.get(NewNamespace::FORMAT_HIGH) << 4;
    Ok((blocks, (usize::from(format), metadata), handles))
}
