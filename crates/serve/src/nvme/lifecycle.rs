//! Life cycle of a controller: enable, reset, shutdown and keep-alive; and the fetching and executing of admin
//! commands.

use std::time::Duration;

use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::spec::{SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry};

use super::admin::{self, AdminCommandOutcome};
use super::arbitration::WeightedRoundRobin;
use super::controller::{Controller, PendingWork};
use super::events::{AsyncEvent, AsyncEventQueue};
use super::features::FeatureValues;
use super::host::{AdminHost, Host};
use super::limits::QUEUE_PAIRS_MAX;
use super::queue_set::NextCommand;
use super::queues::{CompletionQueue, SubmissionEntryBytes, SubmissionQueue};
use crate::device::store::Store;

impl Controller {
    /// Disables the controller because the client has disconnected. The journal and the data stay.
    pub fn disable_after_disconnect(&mut self) {
        self.disable_controller();
    }

    /// Returns the keep-alive timeout, and true if the host has restarted the timer since the last call. None if the
    /// controller is disabled or the timer is off.
    pub fn poll_keep_alive(&mut self) -> Option<(Duration, bool)> {
        let is_restarted = std::mem::take(&mut self.is_kept_alive);
        let timeout = Duration::from_millis(self.features.keep_alive_ms.into());
        (self.is_enabled && !timeout.is_zero()).then_some((timeout, is_restarted))
    }

    /// Sets the fatal status because the keep-alive timer has expired (section 3.9).
    pub fn fail_for_keep_alive(&mut self, host: &mut impl AdminHost) {
        self.features.keep_alive_ms = 0;
        self.fail(host);
    }

    /// Returns true if [`Controller::update`] has work for which no queue set may be lent to another thread.
    #[inline]
    pub fn needs_update(&self, host: &mut impl AdminHost) -> bool {
        let registers = host.registers();
        let is_changed = registers.reset || registers.interrupts_unmasked || registers.is_enabled() != self.is_enabled;
        let is_shutting_down = registers.is_shutdown_requested() != registers.is_shut_down() && !registers.is_fatal();
        is_changed || is_shutting_down || !self.pending.is_empty() || self.sets[0].has_failed
    }

    /// Acts on changed registers (reset, enable, shutdown), executes pending work, reports asynchronous events, and
    /// sends interrupts.
    #[inline]
    pub fn update(&mut self, host: &mut impl AdminHost, store: &Store) {
        for behaviour in host.registers().take_undefined() {
            self.check_strictly(|checks| checks.count(behaviour));
        }
        self.end_faults(host);
        self.report_queue_errors(host);
        self.follow_register_changes(host, store);
        self.execute_pending_work(host, store);
        self.report_namespace_changes();
        self.report_discovery_change();
        self.complete_pending_events(host);
        self.send_interrupts(host);
        if self.sets.iter().any(|set| set.journal.has_failed_commands()) {
            self.collect_queue_journals();
        }
    }

    #[inline]
    fn follow_register_changes(&mut self, host: &mut impl AdminHost, store: &Store) {
        let registers = host.registers();
        if registers.reset {
            registers.reset = false;
            registers.set_ready(false);
            self.sets.iter_mut().for_each(|set| set.count_last_taken(host));
            self.disable_controller();
        }
        if host.registers().is_enabled() != self.is_enabled {
            self.follow_enable_bit(host);
        }
        let registers = host.registers();
        if registers.is_shutdown_requested() != registers.is_shut_down() && !registers.is_fatal() {
            self.follow_shutdown_request(host, store);
        }
        if std::mem::take(&mut host.registers().invalid_doorbell) {
            self.events.raise(AsyncEvent::InvalidDoorbell);
        }
        if std::mem::take(&mut host.registers().interrupts_unmasked) {
            self.sets.iter_mut().for_each(|set| set.mark_unread_interrupts(host));
        }
    }

    /// Disables the controller (section 3.7.2): removes queues, features, events and pending work. Journal, data and a
    /// sanitize operation stay.
    fn disable_controller(&mut self) {
        self.is_enabled = false;
        self.drop_queues();
        self.features = FeatureValues::new(&self.identity.limits);
        self.events = AsyncEventQueue::default();
        self.distribute_features();
        self.sets.iter_mut().for_each(|set| (set.shadow, set.arbitration) = (None, None));
        // A sanitize operation continues after the reset. Other commands that have not started are lost with their
        // queue.
        self.pending.retain(|work| matches!(work, PendingWork::Sanitize { .. } | PendingWork::SaveSanitize));
        self.changed_namespaces.clear();
        self.event_context = None;
        self.forget_reservation_notices();
    }

    /// Acts on a change of CC.EN. If it is set, creates the admin queue that the registers describe (section 3.5.1), or
    /// sets the fatal status if they are invalid.
    fn follow_enable_bit(&mut self, host: &mut impl AdminHost) {
        self.is_enabled = host.registers().is_enabled();
        if !self.is_enabled {
            return;
        }
        let registers = host.registers();
        let [(submission, submission_entries), (completion, completion_entries)] = registers.admin_queue_attributes();
        if !registers.is_configuration_valid() || submission_entries < 2 || completion_entries < 2 {
            return registers.set_fatal_status();
        }
        registers.set_ready(true);
        let arbitration =
            registers.is_arbitration_weighted().then(|| WeightedRoundRobin::new(self.features.arbitration));
        self.sets.iter_mut().for_each(|set| set.arbitration = arbitration);
        self.features.start_clock(host.now_ms());
        for queue in 0..=QUEUE_PAIRS_MAX as u16 {
            host.clear_doorbells(queue, true, true);
        }
        let generation = self.next_queue_generation();
        let admin = &mut self.sets[0];
        admin.add_completion_queue(0, CompletionQueue::new(completion, completion_entries, Some(0)));
        admin.add_submission_queue(0, SubmissionQueue::new(submission, submission_entries, 0, generation));
    }

    /// Acts on a change of CC.SHN (section 3.6). All data is durable when CSTS.SHST reports that the shutdown is
    /// complete. A host that clears CC.SHN sees CSTS.SHST cleared.
    fn follow_shutdown_request(&mut self, host: &mut impl AdminHost, store: &Store) {
        let is_requested = host.registers().is_shutdown_requested();
        let is_durable = !is_requested || store.flush().is_ok();
        if let Some(history) = self.identity.subsystem.history().filter(|_| is_requested) {
            history.flushed(store);
        }
        match is_durable {
            true => host.registers().set_shut_down(is_requested),
            false => host.registers().set_fatal_status(),
        }
    }

    /// Fetches the next command of a submission queue. An admin command is executed at once; an I/O command is only
    /// checked.
    #[inline]
    pub fn next_command(&mut self, queue: u16, host: &mut impl AdminHost) -> NextCommand {
        if queue == 0 {
            return self.next_admin_command(host);
        }
        let set = self.set_of_submission_queue(queue);
        let next =
            if set.poll_tail_doorbell(queue, host) { set.next_io_command(queue, host) } else { NextCommand::None };
        self.report_queue_errors(host);
        next
    }

    /// Fetches the next admin command and executes it.
    pub fn next_admin_command(&mut self, host: &mut impl AdminHost) -> NextCommand {
        let admin = &mut self.sets[0];
        let mut bytes = [0; SUBMISSION_ENTRY_BYTES];
        let fetched = if admin.poll_tail_doorbell(0, host) { admin.fetch(0, &mut bytes, host) } else { None };
        self.report_queue_errors(host);
        fetched.map_or(NextCommand::None, |generation| self.accept(0, generation, &bytes, host))
    }

    /// Polls the admin queue's doorbell. Returns true if the queue has commands.
    #[inline]
    pub fn has_admin_commands(&mut self, host: &mut impl Host) -> bool {
        self.sets[0].poll_tail_doorbell(0, host)
    }

    /// Takes the 64 bytes of a command as if they had been fetched from submission queue `queue` of this generation.
    /// Any bytes are allowed, so that a test or a fuzzer can begin here. The first generation is 1.
    ///
    /// # Panics
    /// If no queue can have this identifier.
    #[inline]
    pub fn accept(
        &mut self,
        queue: u16,
        generation: u32,
        bytes: &SubmissionEntryBytes,
        host: &mut impl AdminHost,
    ) -> NextCommand {
        if queue > 0 {
            let set = self.set_of_submission_queue(queue);
            let mut command = set.take_spare_command();
            command.bytes = *bytes;
            return NextCommand::Io(set.accept(queue, generation, command, host));
        }
        let entry = SubmissionEntry::decode(bytes);
        self.check_strictly(|checks| checks.on_command(queue, &entry, admin::reserved_bits(entry.opcode)));
        let outcome = self.execute_admin(&entry, host);
        self.report_queue_errors(host);
        match outcome {
            Ok(AdminCommandOutcome::Done(result)) => {
                self.post_admin_completion(entry.command_id, Status::SUCCESS, result, host)
            }
            Ok(AdminCommandOutcome::Pending) => {}
            Err(status) => {
                self.sets[0].record_failure(queue, &entry, status);
                self.post_admin_completion(entry.command_id, refusal(status), 0, host);
                return NextCommand::Admin(status);
            }
        }
        NextCommand::Admin(Status::SUCCESS)
    }

    /// Completes Asynchronous Event Requests for which events are pending, and posts completions that waited for a free
    /// queue entry.
    #[inline]
    fn complete_pending_events(&mut self, host: &mut impl AdminHost) {
        while let Some((command_id, result)) = self.events.next_completion() {
            self.post_admin_completion(command_id, Status::SUCCESS, result, host);
        }
        self.sets.iter_mut().for_each(|set| set.post_held(host));
        self.report_queue_errors(host);
    }
}
