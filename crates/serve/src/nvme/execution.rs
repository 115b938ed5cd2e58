//! Execution and completion of the commands that a [`QueueSet`] has fetched, with the faults that are injected into
//! them.

use std::io;
use std::sync::Arc;

use phaselink_core::protocol::nvme::commands::command::ALL_NAMESPACES;
use phaselink_core::protocol::nvme::commands::{CancelTarget, ChangedState};
use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::rules::reservation::ReservationCommand;
use phaselink_core::protocol::nvme::spec::Status;
use phaselink_core::request::Op;

use super::command::{Command, copy_to_host};
use super::host::Host;
use super::queue_set::QueueSet;
use super::recorded_commands::StoreZoneStates;
use super::{namespace, recorded_commands};
use crate::device::faults::FaultEffect;
use crate::device::history::History;
use crate::device::store::{Store, StoredCommandSetState};
use crate::planted::{PlantableBug, is_planted};

/// Progress of a command after its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandProgress {
    /// The completion has been posted, or placed for [`QueueSet::write_batched_completions`], with this status.
    Completed(Status),
    /// The completion waits for a flush of the store, after which [`QueueSet::complete_flushed`] posts it.
    NeedsFlush,
}

impl QueueSet {
    /// Executes a command and posts its completion, unless a flush has to come first. `space` is a buffer for the
    /// longest transfer.
    #[inline]
    pub fn execute(
        &mut self,
        command: &Command,
        host: &mut impl Host,
        store: &Store,
        space: &mut [u8],
    ) -> CommandProgress {
        let done = self.perform(command, host, store, space);
        let progress = self.complete(command, done, host);
        self.write_batched_completions(host);
        progress
    }

    /// Executes a command without posting its completion. The caller passes the result to [`QueueSet::complete`].
    ///
    /// # Errors
    /// The status of a command that is refused or fails, and Command Abort Requested if its submission queue is
    /// deleted.
    #[inline]
    pub fn perform(
        &mut self,
        command: &Command,
        host: &mut impl Host,
        store: &Store,
        space: &mut [u8],
    ) -> Result<(), Status> {
        self.pass.enter();
        let done = match self.namespaces.history() {
            None => self.perform_unrecorded(command, host, store, space),
            Some(history) => self.execute_and_record(&Arc::clone(history), command, host, (store, space)),
        };
        self.pass.leave();
        done
    }

    /// Executes a command and adds its changes to the recorded history of the drive.
    #[cold]
    fn execute_and_record(
        &mut self,
        history: &History,
        command: &Command,
        host: &mut impl Host,
        (store, space): (&Store, &mut [u8]),
    ) -> Result<(), Status> {
        let key = (command.queue, command.entry().command_id);
        let (done, tickets) = history.note_all(store, || {
            let before = StoreZoneStates::note(command, store);
            let done = self.perform_unrecorded(command, host, store, space);
            let placed = self.results.get(&key).copied().unwrap_or(0);
            let needs_flush = command.needs_flush(self.write_cache);
            let changes = done.map(|()| recorded_commands::changes(command, placed, &before, store, needs_flush));
            (done, changes.unwrap_or_default())
        });
        if command.checked.as_ref().is_ok_and(|checked| checked.row.changes == ChangedState::MadeUnreadable) {
            history.give_up("make blocks unreadable");
        }
        if !tickets.is_empty() {
            self.recorded.insert(key, tickets);
        }
        done
    }

    #[inline]
    fn perform_unrecorded(
        &mut self,
        command: &Command,
        host: &mut impl Host,
        store: &Store,
        space: &mut [u8],
    ) -> Result<(), Status> {
        if !self.has_queue_of(command) && !is_planted(PlantableBug::ResetIgnored) {
            return Err(Status::ABORT_REQUESTED);
        }
        let current = if self.is_outdated(command) { Some(self.recheck_namespace(command, host)?) } else { None };
        let (is_anew, command) = (current.is_some(), current.as_ref().unwrap_or(command));
        if let Ok(checked) = &command.checked {
            if let Some(cancellation) = checked.action.cancellation() {
                return self.execute_cancel(command, cancellation, host);
            }
            if let Some(reservation) = checked.action.reservation() {
                return self.execute_reservation_command(command, reservation, host, store);
            }
        }
        if is_planted(PlantableBug::WriteLost) && is_anew {
            return Ok(());
        }
        let journal = &mut self.journal;
        let result = match store.command_set_state() {
            StoredCommandSetState::Blocks => {
                return namespace::blocks::execute(command, self.namespaces.kind(), host, store, space, journal);
            }
            StoredCommandSetState::Zones(zones) => {
                namespace::zones::execute(command, zones, host, store, space, journal)?
            }
            StoredCommandSetState::Keys(keys) => {
                let reports_missing = self.namespaces.kind().key_settings()?.reports_missing();
                namespace::keys::execute(command, keys, reports_missing, host, store, space, journal)?
            }
        };
        if result > 0 {
            self.results.insert((command.queue, command.entry().command_id), result);
        }
        Ok(())
    }

    /// Executes Cancel: aborts commands of its submission queue that an injected fault has left without a completion.
    /// Other commands end by themselves, and count as not eligible. The completion returns the number of aborted
    /// commands.
    ///
    /// # Errors
    /// Invalid Field for another submission queue, or if the command to be aborted is of another namespace.
    #[cold]
    fn execute_cancel(
        &mut self,
        command: &Command,
        cancelled: CancelTarget,
        host: &mut impl Host,
    ) -> Result<(), Status> {
        let (queue, entry) = (command.queue, command.entry());
        let is_of_namespace = |of: u32| [of, ALL_NAMESPACES].contains(&entry.namespace_id);
        let named = cancelled.command_id.and_then(|id| self.unanswered.get(&(queue, id)));
        if cancelled.queue != queue || named.is_some_and(|of| !is_of_namespace(*of)) {
            return Err(refusal(Status::INVALID_FIELD));
        }
        let is_meant = |id, of| cancelled.command_id.is_none_or(|named| named == id) && is_of_namespace(of);
        let aborted = self.abort_hung_commands(queue, is_meant, host);
        if aborted > 0 {
            self.results.insert((queue, entry.command_id), aborted.into());
        }
        Ok(())
    }

    /// Executes a reservation command: reports, or changes registrants or reservation for all controllers of the drive.
    /// After a change, no command executes that was allowed before and no longer is.
    ///
    /// # Errors
    /// As [`Reservations::execute`](phaselink_core::protocol::nvme::rules::reservation::Reservations::execute). Host
    /// Identifier Inconsistent Format for a report with host identifiers of another length than the host has set.
    #[cold]
    fn execute_reservation_command(
        &mut self,
        command: &Command,
        reservation: ReservationCommand,
        host: &mut impl Host,
        store: &Store,
    ) -> Result<(), Status> {
        let checked = command.checked.as_ref().map_err(|status| *status)?;
        let (namespace, own) = (command.entry().namespace_id, self.namespaces.host());
        let subsystem = Arc::clone(self.namespaces.subsystem());
        if let ReservationCommand::Report { bytes, is_long } = reservation {
            if own.is_inconsistent_with(is_long) {
                return Err(refusal(Status::HOST_IDENTIFIER_INCONSISTENT));
            }
            let report = subsystem.reservations.report(namespace, bytes, is_long);
            return copy_to_host(&checked.data, &report, host);
        }
        let version = (subsystem.version() + 1, store);
        subsystem.reservations.execute(namespace, reservation, command.keys(), own, version).map_err(refusal)?;
        self.pass.leave();
        if is_planted(PlantableBug::ReservationUnseen) {
            return Ok(());
        }
        subsystem.raise_version_and_wait();
        Ok(())
    }

    /// Removes and returns the value for dwords 0 and 1 of a command's completion; 0 if it has none.
    #[inline]
    fn take_completion_result(&mut self, command: &Command) -> u64 {
        if self.results.is_empty() {
            return 0;
        }
        self.results.remove(&(command.queue, command.entry().command_id)).unwrap_or(0)
    }

    /// Returns true if namespaces have changed since a command was checked, so that it must be checked again. A command
    /// that the check refused stays refused.
    #[inline]
    fn is_outdated(&self, command: &Command) -> bool {
        let is_outdated = !self.namespaces.is_unchanged_since(command.version);
        command.checked.is_ok() && is_outdated && !is_planted(PlantableBug::CheckOutdated)
    }

    /// Checks a command again, against the namespaces as they are now, because they have changed while it was in
    /// flight.
    ///
    /// # Errors
    /// Sanitize In Progress if the drive was sanitized meanwhile (Base Specification 2.0, section 8.21), Command Aborted
    /// due to Preempt and Abort if another host has aborted the commands of this one.
    #[cold]
    fn recheck_namespace(&mut self, command: &Command, host: &mut impl Host) -> Result<Command, Status> {
        if self.namespaces.is_sanitized_since(command.version) {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        if self.namespaces.is_aborted_since(command.entry().namespace_id, command.version) {
            return Err(Status::PREEMPTED);
        }
        self.namespaces.follow();
        Ok(self.recheck_reachability(command, host))
    }

    /// Executes the part of a command that an injected fault lets through, without posting its completion.
    ///
    /// # Errors
    ///
    /// The status of a command that is refused or fails. Write Fault or Unrecovered Read Error if the fault makes the
    /// command fail.
    #[cold]
    pub fn execute_with_fault(
        &mut self,
        command: &Command,
        effect: FaultEffect,
        host: &mut impl Host,
        store: &Store,
        space: &mut [u8],
    ) -> Result<(), Status> {
        let current = if self.is_outdated(command) { Some(self.recheck_namespace(command, host)?) } else { None };
        let command = current.as_ref().unwrap_or(command);
        let is_write = command.io().is_some_and(|io| io.op == Op::Write);
        // A read whose completion is dropped still transfers its data. A read that fails transfers none.
        if let Some(torn) = command.torn(effect, store.geometry().block_bytes).filter(|_| is_write || !effect.fails) {
            self.perform(&torn, host, store, space)?;
        }
        match (effect.fails, is_write) {
            (false, _) => Ok(()),
            (true, true) => Err(Status::WRITE_FAULT),
            (true, false) => Err(Status::UNRECOVERED_READ_ERROR),
        }
    }

    /// Posts a second completion for a command, as an injected fault demands.
    #[cold]
    pub fn post_second_completion(&mut self, command: &Command, done: Result<(), Status>, host: &mut impl Host) {
        if self.has_queue_of(command) {
            let status = command.completion_status_field(done.err().unwrap_or(Status::SUCCESS));
            let command_id = command.entry().command_id;
            let result = self.results.get(&(command.queue, command_id)).copied().unwrap_or(0);
            self.post(command.queue, command_id, status, result, host);
        }
    }

    /// Ends a command without a completion, as an injected fault demands. Its queue entry counts as free. The host may
    /// still [abort](QueueSet::abort_hung_commands) the command.
    #[cold]
    pub fn drop_without_completion(&mut self, command: &Command) {
        let entry = command.entry();
        if self.has_queue_of(command) {
            self.in_flight[usize::from(command.queue)] -= 1;
            self.unanswered.insert((command.queue, entry.command_id), entry.namespace_id);
        }
        self.take_completion_result(command);
    }

    /// Completes commands of a submission queue that a fault has left without a completion, with the status Command
    /// Abort Requested: those for whose command identifier and namespace `is_meant` is true. Returns their number.
    /// [`QueueSet::write_batched_completions`] writes the completions.
    #[cold]
    pub(super) fn abort_hung_commands(
        &mut self,
        queue: u16,
        is_meant: impl Fn(u16, u32) -> bool,
        host: &mut impl Host,
    ) -> u16 {
        let is_aborted = |of: &(u16, u16), namespace: &u32| of.0 == queue && is_meant(of.1, *namespace);
        let unanswered = self.unanswered.iter().filter(|(of, namespace)| is_aborted(of, namespace));
        let aborted: Vec<u16> = unanswered.map(|((_, id), _)| *id).collect();
        for id in &aborted {
            self.unanswered.remove(&(queue, *id));
            self.place(queue, *id, Status::ABORT_REQUESTED, 0, host);
        }
        u16::try_from(aborted.len()).unwrap_or(u16::MAX)
    }

    /// Completes an executed command, whose completion queue entry [`QueueSet::write_batched_completions`] writes. Does nothing
    /// yet if the store has to be flushed first, nor if the command's submission queue has been deleted.
    #[inline]
    pub fn complete(&mut self, command: &Command, done: Result<(), Status>, host: &mut impl Host) -> CommandProgress {
        if !self.has_queue_of(command) {
            return CommandProgress::Completed(Status::ABORT_REQUESTED);
        }
        if done.is_ok() && command.needs_flush(self.write_cache) {
            return CommandProgress::NeedsFlush;
        }
        CommandProgress::Completed(self.complete_and_journal(command, done, host))
    }

    /// Posts the completion of a command that needed a flush, with the result of that flush. Does nothing if the
    /// command's submission queue has been deleted.
    pub fn complete_flushed(&mut self, command: &Command, flushed: io::Result<()>, host: &mut impl Host) -> Status {
        if !self.has_queue_of(command) {
            return Status::ABORT_REQUESTED;
        }
        let status = self.complete_and_journal(command, flushed.map_err(|_| command.flush_failure_status()), host);
        self.write_batched_completions(host);
        status
    }

    /// Returns true if the submission queue that a command was fetched from still exists.
    #[inline]
    fn has_queue_of(&self, command: &Command) -> bool {
        let queue = self.submissions[usize::from(command.queue)].as_ref();
        queue.is_some_and(|queue| queue.generation == command.generation)
    }

    /// Completes a command as [`QueueSet::complete`] does, records its failure, and returns its status.
    #[inline]
    fn complete_and_journal(&mut self, command: &Command, done: Result<(), Status>, host: &mut impl Host) -> Status {
        let queue = command.queue;
        self.in_flight[usize::from(queue)] -= 1;
        let status = done.err().unwrap_or(Status::SUCCESS);
        if status != Status::SUCCESS {
            self.record_failure(queue, &command.entry(), status);
        }
        let result = self.take_completion_result(command);
        self.note_recorded_completion(command);
        self.place(queue, command.entry().command_id, command.completion_status_field(status), result, host);
        status
    }

    /// Tells the recorded history of the drive, if there is one, that a command is about to complete.
    #[inline]
    fn note_recorded_completion(&mut self, command: &Command) {
        if let Some(history) = self.namespaces.history() {
            let tickets = self.recorded.remove(&(command.queue, command.entry().command_id));
            history.record_completions(tickets.into_iter().flatten());
        }
    }
}
