//! Admin commands of an NVMe controller: their table, handlers and checks (Base Specification 2.0, section 5).

use phaselink_core::number::{index, length, low_u8, low_u16, wide_index};
use phaselink_core::protocol::nvme::commands::command::{ALL_NAMESPACES, check_entry_flags};
use phaselink_core::protocol::nvme::commands::rows_of;
use phaselink_core::protocol::nvme::rules::{BlockMetadataFormat, ShadowDoorbellPages};
use phaselink_core::protocol::nvme::spec::fields::{cancel, feature, format, identify, log, queue as fields};
use phaselink_core::protocol::nvme::spec::layout::{ReservedDwordBits, all_but};
use phaselink_core::protocol::nvme::spec::{
    COMPLETION_ENTRY_BYTES, PAGE_BYTES, SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry, admin,
};

use super::arbitration::QueuePriorityClass;
use super::command::{copy_in, copy_out};
use super::controller::{Controller, PendingWork};
use super::event_log::LogReporter;
use super::events::AsyncEvent;
use super::features::FeatureValues;
use super::host::AdminHost;
use super::identify::{IDENTIFY_BYTES, IdentifySelection, VENDOR, bits_from_numbers};
use super::kinds::{AdminAvailability, EVENTS_FEATURE, KEY_VALUE_FEATURE, PLACEMENT_FEATURE, RESERVATION_FEATURES};
use super::limits::interrupt_vectors;
use super::log_pages::{self, LogPageSources, effect, log_page};
use super::queues::{CompletionQueue, SubmissionQueue};
use super::strict;
use crate::device::tally::locked;

/// Binary logarithms of the entry sizes of submission and completion queues, in bytes, that CC must hold when the host
/// creates a queue.
const ENTRY_SIZES: (u32, u32) = (6, 4);
/// Maximum length in bytes of the part of a log page that one command returns.
pub(super) const LOG_BYTES_MAX: u64 = 1 << 20;

/// Outcome of an admin command that ends without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminCommandOutcome {
    /// The command completes now, with this value in dword 0 of its completion queue entry.
    Done(u32),
    /// The command completes later: when an event occurs, or when the store has formatted, sanitized or reported
    /// blocks.
    Pending,
}

/// Row of the table of admin commands: everything that Identify, log pages and strict checks ask about a command.
#[derive(Clone, Copy, Debug)]
pub struct AdminRow {
    /// Opcode of the command.
    pub opcode: u8,
    /// Effects of the command, other than that it is supported, in the bits of the Commands Supported and Effects log
    /// page: see [`effect`](log_pages::effect).
    pub effects: u8,
    /// Bit of OACS that announces the command, or none if no bit does.
    pub optional_bit: Option<u16>,
    /// Reserved bits of command dwords 10 to 15 (sections 5.1 to 5.7); none are checked if all masks are 0.
    pub reserved: ReservedDwordBits,
    /// Drives whose controllers have the command.
    pub offered: AdminAvailability,
    /// Controllers in a fabric that have the command.
    pub in_fabric: FabricAvailability,
}

/// Controllers in a fabric that have an admin command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricAvailability {
    /// No controller, because the command is about queues in host memory.
    Never,
    /// Controllers of the drive.
    OfDrives,
    /// All controllers, those of discovery included.
    Always,
}

impl AdminRow {
    /// Row of a command without effects that every controller has; the rows of the table say what differs.
    const PLAIN: AdminRow = AdminRow {
        opcode: 0,
        effects: effect::NONE,
        optional_bit: None,
        reserved: [0; 6],
        offered: AdminAvailability::Always,
        in_fabric: FabricAvailability::OfDrives,
    };
}

/// Makes the table of admin commands and their dispatcher. Each row has an opcode, what differs from
/// [`AdminRow::PLAIN`], and a handler.
macro_rules! admin_commands {
    ($(
        $opcode:ident { $($field:ident: $value:expr),* } =>
            |$controller:ident, $command:ident, $host:ident| $handler:expr;
    )*) => {
        /// Admin commands that controllers of some drive execute.
        pub const ADMIN_COMMANDS: &[AdminRow] =
            &[$(AdminRow { opcode: admin::$opcode, $($field: $value,)* ..AdminRow::PLAIN }),*];

        /// Calls the handler of an admin command; refuses an unknown opcode with Invalid Command Opcode.
        fn dispatch_admin_command(
            controller: &mut Controller,
            command: &SubmissionEntry,
            host: &mut impl AdminHost,
        ) -> Result<AdminCommandOutcome, Status> {
            match command.opcode {
                $(admin::$opcode => {
                    let ($controller, $command, $host) = (controller, command, host);
                    $handler
                })*
                _ => Err(Status::INVALID_OPCODE),
            }
        }
    };
}

/// Reserved bits of a command whose only parameter is a queue identifier in the low half of dword 10.
const ONE_IDENTIFIER: ReservedDwordBits = all_but(&[&[fields::ID]]);

admin_commands! {
    DELETE_SUBMISSION_QUEUE { reserved: ONE_IDENTIFIER, in_fabric: FabricAvailability::Never } => |controller, command, _host| controller.delete_submission_queue(command);
    CREATE_SUBMISSION_QUEUE { in_fabric: FabricAvailability::Never } => |controller, command, host| controller.create_submission_queue(command, host);
    GET_LOG_PAGE { in_fabric: FabricAvailability::Always } => |controller, command, host| controller.get_log_page(command, host);
    DELETE_COMPLETION_QUEUE { reserved: ONE_IDENTIFIER, in_fabric: FabricAvailability::Never } => |controller, command, host| controller.delete_io_completion_queue(command, host);
    CREATE_COMPLETION_QUEUE { in_fabric: FabricAvailability::Never } => |controller, command, host| controller.create_completion_queue(command, host);
    IDENTIFY { in_fabric: FabricAvailability::Always } => |controller, command, host| controller.identify(command, host);
    ABORT { reserved: all_but(&[&[cancel::QUEUE, cancel::COMMAND_ID]]), in_fabric: FabricAvailability::Always } => |controller, command, host| controller.abort(command, host);
    SET_FEATURES { in_fabric: FabricAvailability::Always } => |controller, command, host| controller.set_features(command, host);
    GET_FEATURES { in_fabric: FabricAvailability::Always } => |controller, command, host| controller.get_features(command, host);
    ASYNC_EVENT_REQUEST { reserved: all_but(&[]), in_fabric: FabricAvailability::Always } => |controller, command, _host| controller.hold_event_request(command);
    KEEP_ALIVE { reserved: all_but(&[]), in_fabric: FabricAvailability::Always } => |controller, _command, _host| controller.keep_alive();
    DOORBELL_BUFFER_CONFIG { optional_bit: Some(8), in_fabric: FabricAvailability::Never } => |controller, command, host| controller.configure_doorbell_buffer(command, host);
    FORMAT_NVM { effects: effect::BLOCKS | effect::NAMESPACE, optional_bit: Some(1) } => |controller, command, _host| controller.queue_format(command);
    NAMESPACE_MANAGEMENT { effects: effect::BLOCKS | effect::INVENTORY, optional_bit: Some(3), offered: AdminAvailability::Divisible } => |controller, command, host| controller.queue_namespace_management(command, host);
    NAMESPACE_ATTACHMENT { effects: effect::INVENTORY, optional_bit: Some(3), offered: AdminAvailability::Divisible } => |controller, command, host| controller.queue_namespace_attachment(command, host);
    GET_LBA_STATUS { optional_bit: Some(9), offered: AdminAvailability::WithBlocks } => |controller, command, _host| controller.queue_block_status(command);
    SANITIZE { effects: effect::BLOCKS } => |controller, command, host| controller.begin_sanitize_operation(command, host);
    DIRECTIVE_SEND { optional_bit: Some(5), offered: AdminAvailability::WithPlacement } => |controller, command, _host| controller.send_directive(command);
    DIRECTIVE_RECEIVE { optional_bit: Some(5), offered: AdminAvailability::WithPlacement } => |controller, command, host| controller.receive_directive(command, host);
}

/// Returns the reserved bits of an admin command (sections 5.1 to 5.7). Unknown opcodes have none.
pub(super) fn reserved_bits(opcode: u8) -> ReservedDwordBits {
    ADMIN_COMMANDS.iter().find(|row| row.opcode == opcode).map_or([0; 6], |row| row.reserved)
}

/// Byte offset and length of the part of a log page that one Get Log Page command returns.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogPageRange {
    offset: u64,
    bytes: u64,
}

impl LogPageRange {
    /// Decodes offset and length of the part of a log page from a Get Log Page command.
    ///
    /// # Errors
    ///
    /// Invalid Field if the offset is no multiple of 4 bytes, or the part is longer than [`LOG_BYTES_MAX`].
    pub(super) fn of(command: &SubmissionEntry) -> Result<LogPageRange, Status> {
        let words = u64::from(command.get(log::DWORDS_LOW) | command.get(log::DWORDS_HIGH) << 16) + 1;
        let part = LogPageRange { offset: command.joined_u64([log::OFFSET_LOW, log::OFFSET_HIGH]), bytes: words * 4 };
        let is_valid = part.offset.is_multiple_of(4) && part.bytes <= LOG_BYTES_MAX;
        if is_valid { Ok(part) } else { Err(Status::INVALID_FIELD) }
    }

    /// Cuts this part out of a whole log page. Bytes beyond the end of the page are zeros.
    ///
    /// # Errors
    /// Invalid Field if the part begins beyond the end of the page.
    pub(super) fn cut(self, page: Vec<u8>) -> Result<Vec<u8>, Status> {
        if self.offset > length(page.len()) {
            return Err(Status::INVALID_FIELD);
        }
        let mut part = page[wide_index(self.offset)..].to_vec();
        part.resize(wide_index(self.bytes), 0);
        Ok(part)
    }
}

/// Outcome of an admin command that completes with 0 in dword 0.
const DONE: AdminCommandOutcome = AdminCommandOutcome::Done(0);

impl Controller {
    /// Executes an admin command, without posting its completion.
    pub(super) fn execute_admin(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        // Commands in a fabric describe their data by an SGL descriptor, so allow one.
        check_entry_flags(command, self.identity.fabric.is_some())?;
        if !self.admin_commands().any(|row| row.opcode == command.opcode) {
            return Err(Status::INVALID_OPCODE);
        }
        dispatch_admin_command(self, command, host)
    }

    /// Iterates over the admin commands that this controller's drive supports.
    pub(super) fn admin_commands(&self) -> impl Iterator<Item = &'static AdminRow> {
        let offered = self.identity.namespace_kind_row().admin;
        let is_reached = match &self.identity.fabric {
            None => |_| true,
            Some(fabric) if fabric.discovery.is_none() => |within| within != FabricAvailability::Never,
            Some(_) => |within| within == FabricAvailability::Always,
        };
        ADMIN_COMMANDS.iter().filter(move |row| offered.contains(&row.offered) && is_reached(row.in_fabric))
    }

    /// Returns OACS: the bits that announce the optional admin commands of this controller.
    fn oacs_bits(&self) -> u16 {
        bits_from_numbers(self.admin_commands().map(|row| row.optional_bit))
    }

    /// Executes Identify (section 5.17): copies the data structure that CNS selects to the host.
    fn identify(&self, command: &SubmissionEntry, host: &mut impl AdminHost) -> Result<AdminCommandOutcome, Status> {
        let selected = IdentifySelection {
            cns: low_u8(command.get(identify::STRUCTURE)),
            command_set: low_u8(command.get(identify::COMMAND_SET)),
            namespace: command.namespace_id,
            first_controller: low_u16(command.get(identify::CONTROLLER)),
            first_group: low_u16(command.get(identify::SPECIFIC_ID)),
        };
        let page = self.identity.structure(selected, self.oacs_bits())?;
        copy_out(command, host, &page[..])?;
        Ok(DONE)
    }

    /// Executes Get Log Page (section 5.16): returns a part of a log page, with zeros beyond the page's end. LBA Status
    /// Information completes later, since only the store knows it.
    fn get_log_page(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let (log, command_set) = (low_u8(command.get(log::ID)), low_u8(command.get(log::COMMAND_SET)));
        // Check the command first: if it is refused, it must not have created telemetry data or a context of the
        // persistent event log.
        let part = LogPageRange::of(command)?;
        if let Some(discovery) = self.identity.discovery() {
            let page = if log == log_pages::DISCOVERY {
                discovery.page(self.identity.reached())
            } else {
                return Err(Status::INVALID_LOG_PAGE);
            };
            copy_out(command, host, &part.cut(page)?)?;
            return Ok(self.finish_log_page(command));
        }
        if log == log_pages::BLOCK_STATUS && self.identity.namespace_kind_row().logs.contains(&log) {
            self.pending.push_back(PendingWork::ReportBlocks { command: Box::new(*command) });
            return Ok(AdminCommandOutcome::Pending);
        }
        self.collect_queue_journals();
        if log == log_pages::RESERVATION_NOTICES {
            self.fetch_reservation_notices();
        }
        let (specific, group) = (command.get(log::SPECIFIC), command.get(log::SPECIFIC_ID));
        let page = match self.identity.namespace_kind_row().commands_of(command_set) {
            Some(sets) if log == log_pages::EFFECTS => {
                let admin_commands = self.admin_commands().map(|row| (row.opcode, row.effects));
                log_pages::command_effects_log(admin_commands, &rows_of(sets))
            }
            None if log == log_pages::EFFECTS => return Err(Status::INVALID_FIELD),
            _ if log_pages::PLACEMENT_LOGS.contains(&log) => self.placement_log_page(log, group, specific)?,
            _ => self.log_page(log, specific, host.now_ms())?,
        };
        copy_out(command, host, &part.cut(page)?)?;
        Ok(self.finish_log_page(command))
    }

    /// Ends a Get Log Page: unmasks the events of the page, unless the host retains them (RAE).
    fn finish_log_page(&mut self, command: &SubmissionEntry) -> AdminCommandOutcome {
        let log = low_u8(command.get(log::ID));
        if !command.has(log::RETAIN_EVENT) {
            self.events.on_log_page_read(log);
            match log {
                log_pages::CHANGED_NAMESPACES => self.changed_namespaces.clear(),
                log_pages::RESERVATION_NOTICES if self.notices.drop_read_notice() => {
                    self.events.raise(AsyncEvent::ReservationNotice);
                }
                _ => {}
            }
        }
        DONE
    }

    /// Returns a whole log page. `specific` is the Log Specific Field (LSP): it captures telemetry data, or establishes
    /// or releases the reporting context of the persistent event log.
    fn log_page(&mut self, log: u8, specific: u32, now_ms: u64) -> Result<Vec<u8>, Status> {
        match (log, specific & 3) {
            (log_pages::TELEMETRY, 1 | 3) => {
                let data = log_pages::telemetry_counters_text(&self.journal, &self.features);
                self.telemetry = (data, self.telemetry.1.wrapping_add(1));
            }
            (log_pages::PERSISTENT_EVENTS, 0) if self.event_context.is_none() => {
                return Err(Status::COMMAND_SEQUENCE_ERROR);
            }
            (log_pages::PERSISTENT_EVENTS, 1) if self.event_context.is_some() => {
                return Err(Status::COMMAND_SEQUENCE_ERROR);
            }
            (log_pages::PERSISTENT_EVENTS, 1) => self.event_context = Some(self.persistent_event_log_page(now_ms)?),
            (log_pages::PERSISTENT_EVENTS, 2) => {
                self.event_context = None;
                return Ok(Vec::new());
            }
            (log_pages::ACCESS, 1 | 3) => return Ok(self.access_log(true)),
            (log_pages::PERSISTENT_EVENTS, 3) => return Err(Status::INVALID_FIELD),
            _ => {}
        }
        self.page(log)
    }

    /// Returns the persistent event log as of now, in the bytes of its log page.
    fn persistent_event_log_page(&self, now_ms: u64) -> Result<Vec<u8>, Status> {
        let health = self.page(log_pages::HEALTH)?;
        let selected = IdentifySelection { cns: 1, ..IdentifySelection::default() };
        let controller = self.identity.structure(selected, self.oacs_bits())?;
        let timestamp = self.features.timestamp(now_ms);
        let reporter = LogReporter { timestamp, vendor: VENDOR, controller: &controller[..] };
        Ok(locked(&self.identity.subsystem.events).report(&reporter, &health))
    }

    fn page(&self, log: u8) -> Result<Vec<u8>, Status> {
        let sources = LogPageSources {
            journal: &self.journal,
            features: &self.features,
            changed_namespaces: &self.changed_namespaces,
            sanitize: self.identity.subsystem.sanitize(),
            access: &self.access_log(false),
            reservation_notice: &self.notices.page(),
            telemetry: (&self.telemetry.0, self.telemetry.1),
            kind: self.identity.namespace_kind_row(),
            persistent_events: self.event_context.as_deref().unwrap_or_default(),
        };
        log_page(log, &sources)
    }

    /// Executes Get Features (section 5.15): returns the current value, and copies the structure of a feature that has
    /// one to the host.
    fn get_features(
        &self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let id = low_u8(command.get(feature::ID));
        // Only current values exist, since ONCS announces no saveable ones.
        if command.has(feature::SELECT) {
            return Err(Status::INVALID_FIELD);
        }
        self.refuse_discovery_feature(id)?;
        if matches!(id, PLACEMENT_FEATURE | EVENTS_FEATURE) {
            return self.placement_feature_value(command, host);
        }
        if id == KEY_VALUE_FEATURE {
            return self.key_value_configuration(command);
        }
        if RESERVATION_FEATURES.iter().any(|(of, _)| *of == id) {
            return self.reservation_feature_value(command, host);
        }
        let row = FeatureValues::row(id)?;
        let value = self.features.get(row, command.get(feature::VALUE))?;
        if let Some(structure) = self.features.structure(row, host.now_ms()) {
            copy_out(command, host, &structure)?;
        }
        Ok(AdminCommandOutcome::Done(value))
    }

    /// Refuses with Invalid Field a feature that a discovery controller does not have.
    fn refuse_discovery_feature(&self, id: u8) -> Result<(), Status> {
        let is_missing = self.identity.discovery().is_some() && !FeatureValues::is_of_discovery(id);
        if is_missing { Err(Status::INVALID_FIELD) } else { Ok(()) }
    }

    /// Executes Set Features (section 5.27). Values cannot be saved across resets.
    fn set_features(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let id = low_u8(command.get(feature::ID));
        self.refuse_discovery_feature(id)?;
        if matches!(id, PLACEMENT_FEATURE | EVENTS_FEATURE) {
            return self.set_placement_feature(command, host);
        }
        if id == KEY_VALUE_FEATURE {
            return self.set_key_value_feature(command);
        }
        // A discovery controller has no namespaces, health or temperature to report on.
        if self.identity.discovery().is_some() && FeatureValues::wants_other_events(id, command.get(feature::VALUE)) {
            return Err(Status::INVALID_FIELD);
        }
        let is_of_reservations = RESERVATION_FEATURES.iter().any(|(of, _)| *of == id);
        let row = FeatureValues::row(id);
        if (is_of_reservations || row.is_ok()) && command.has(feature::SAVE) {
            return Err(Status::FEATURE_NOT_SAVEABLE);
        }
        if is_of_reservations {
            return self.set_reservation_feature(command, host);
        }
        let row = row?;
        // All features have controller scope, so a namespace identifier is an error.
        if !matches!(command.namespace_id, 0 | u32::MAX) {
            return Err(Status::FEATURE_NOT_OF_NAMESPACE);
        }
        if let Some(mut structure) = self.features.structure(row, host.now_ms()) {
            copy_in(command, host, &mut structure)?;
            self.features.set_feature_structure(row, &structure, host.now_ms());
            return Ok(DONE);
        }
        let (has_io_queues, was_critical) = (self.has_io_queues(), self.features.is_temperature_critical());
        let result = self.features.set(row, command.get(feature::VALUE), has_io_queues)?;
        self.distribute_features();
        // Setting the keep-alive timeout restarts the timer.
        self.is_kept_alive = true;
        let becomes_critical = !was_critical && self.features.is_temperature_critical();
        if becomes_critical && self.features.wants_temperature_events() {
            self.events.raise(AsyncEvent::Temperature);
        }
        Ok(AdminCommandOutcome::Done(result))
    }

    /// Executes Create I/O Completion Queue (section 5.4).
    fn create_completion_queue(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let (_, queue_count) = self.features.queue_counts();
        let is_used = |queue| self.set_of_completion_queue(queue).completion(queue).is_some();
        let queue = requested_queue_id(low_u16(command.get(fields::ID)), queue_count, is_used)?;
        let (_, entry_size) = host.registers().queue_entry_sizes();
        let entries = self.requested_queue_entries(command, entry_size == ENTRY_SIZES.1)?;
        check_queue_memory(command)?;
        let vector = command.has(fields::INTERRUPTS).then_some(low_u16(command.get(fields::VECTOR)));
        if vector.is_some_and(|vector| vector >= interrupt_vectors(&self.identity.limits)) {
            return Err(Status::INVALID_INTERRUPT_VECTOR);
        }
        self.check_queue_place(command.prp1, entries, COMPLETION_ENTRY_BYTES);
        host.clear_doorbells(queue, false, true);
        let completion = CompletionQueue::new(command.prp1, entries, vector);
        self.set_of_completion_queue(queue).add_completion_queue(queue, completion);
        Ok(DONE)
    }

    /// Executes Create I/O Submission Queue (section 5.5); its completion queue must exist.
    fn create_submission_queue(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let (submission_count, completion_count) = self.features.queue_counts();
        let id = low_u16(command.get(fields::ID));
        let queue = requested_queue_id(id, submission_count, |queue| self.has_submission_queue(queue))?;
        let (entry_size, _) = host.registers().queue_entry_sizes();
        let entries = self.requested_queue_entries(command, entry_size == ENTRY_SIZES.0)?;
        check_queue_memory(command)?;
        let completion_queue = low_u16(command.get(fields::COMPLETION_QUEUE));
        if completion_queue == 0 || u32::from(completion_queue) > completion_count {
            return Err(Status::INVALID_QUEUE_ID);
        }
        if self.set_of_completion_queue(completion_queue).completion(completion_queue).is_none() {
            return Err(Status::COMPLETION_QUEUE_INVALID);
        }
        self.check_queue_place(command.prp1, entries, SUBMISSION_ENTRY_BYTES);
        host.clear_doorbells(queue, true, false);
        let submission = SubmissionQueue::new(command.prp1, entries, completion_queue, self.next_queue_generation())
            .with_priority_class(QueuePriorityClass::of(command.get(fields::PRIORITY)));
        self.set_of_completion_queue(completion_queue).add_submission_queue(queue, submission);
        Ok(DONE)
    }

    /// Creates the queue pair of a connection in a fabric, which the Connect command asks for (Base Specification 2.0,
    /// section 6.3). Both queues have `entries` entries, and `addresses` of their own in the memory of the front-end.
    ///
    /// # Errors
    /// Invalid Queue Identifier if the queue exists, or is beyond the number of queues that the host has been granted.
    /// Command Sequence Error if the controller is not ready.
    pub fn connect_queue(
        &mut self,
        queue: u16,
        entries: u32,
        addresses: (u64, u64),
        host: &mut impl AdminHost,
    ) -> Result<(), Status> {
        if !self.is_enabled || !host.registers().is_ready() {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        let (submission_count, _) = self.features.queue_counts();
        requested_queue_id(queue, submission_count, |queue| self.has_submission_queue(queue))?;
        host.clear_doorbells(queue, true, true);
        let generation = self.next_queue_generation();
        let set = self.set_of_completion_queue(queue);
        set.add_completion_queue(queue, CompletionQueue::new(addresses.1, entries, None));
        set.add_submission_queue(queue, SubmissionQueue::new(addresses.0, entries, queue, generation));
        Ok(())
    }

    /// Removes the queue pair of a connection in a fabric that has ended. Commands in flight get no completion.
    pub fn disconnect_queue(&mut self, queue: u16, host: &mut impl AdminHost) {
        let set = self.set_of_completion_queue(queue);
        if set.submission(queue).is_some() {
            set.remove_submission_queue(queue);
            set.remove_completion_queue(queue, host);
        }
    }

    /// Sets the keep-alive timeout in milliseconds that the Connect command of the admin queue asks for, and starts the
    /// timer.
    pub fn set_keep_alive(&mut self, ms: u32) {
        self.features.set_keep_alive(ms);
        self.is_kept_alive = true;
    }

    /// Executes Delete I/O Submission Queue (section 5.7). Commands in flight get no completion.
    fn delete_submission_queue(&mut self, command: &SubmissionEntry) -> Result<AdminCommandOutcome, Status> {
        let queue = low_u16(command.get(fields::ID));
        let set = self.set_of_submission_queue(queue);
        if queue == 0 || set.submission(queue).is_none() {
            return Err(Status::INVALID_QUEUE_ID);
        }
        set.remove_submission_queue(queue);
        Ok(DONE)
    }

    /// Executes Delete I/O Completion Queue (section 5.6). The host must have deleted its submission queues first.
    fn delete_io_completion_queue(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let queue = low_u16(command.get(fields::ID));
        let set = self.set_of_completion_queue(queue);
        match set.completion(queue).filter(|_| queue != 0) {
            None => Err(Status::INVALID_QUEUE_ID),
            Some(completion) if completion.users > 0 => Err(Status::INVALID_QUEUE_DELETION),
            Some(_) => {
                set.remove_completion_queue(queue, host);
                Ok(DONE)
            }
        }
    }

    /// Executes Abort (section 5.1), which aborts Asynchronous Event Requests, and I/O commands that an injected fault
    /// has left without a completion. Other I/O commands end by themselves. Bit 0 of the result is 1 if nothing was
    /// aborted.
    fn abort(&mut self, command: &SubmissionEntry, host: &mut impl AdminHost) -> Result<AdminCommandOutcome, Status> {
        let [queue, command_id] = [cancel::QUEUE, cancel::COMMAND_ID].map(|field| low_u16(command.get(field)));
        let set = self.set_of_submission_queue(queue);
        set.check_strictly(|checks| checks.check_abort_target(queue, command_id));
        if set.abort_hung_commands(queue, |id, _| id == command_id, host) > 0 {
            set.write_batched_completions(host);
            self.report_queue_errors(host);
            return Ok(DONE);
        }
        if queue != 0 || !self.events.cancel_event_request(command_id) {
            return Ok(AdminCommandOutcome::Done(1));
        }
        self.post_admin_completion(command_id, Status::ABORT_REQUESTED, 0, host);
        Ok(DONE)
    }

    /// Executes Asynchronous Event Request (section 5.2): keeps the command, which completes with a later event.
    fn hold_event_request(&mut self, command: &SubmissionEntry) -> Result<AdminCommandOutcome, Status> {
        self.events.add_event_request(command.command_id)?;
        Ok(AdminCommandOutcome::Pending)
    }

    /// Executes Keep Alive (section 5.18): restarts the keep-alive timer.
    fn keep_alive(&mut self) -> Result<AdminCommandOutcome, Status> {
        self.is_kept_alive = true;
        Ok(DONE)
    }

    /// Executes Format NVM (section 5.14): checks block size, metadata, protection information and erase setting, and
    /// queues the format. [`Controller::update`] does it, since it has the store.
    fn queue_format(&mut self, command: &SubmissionEntry) -> Result<AdminCommandOutcome, Status> {
        let format = command.get(format::FORMAT_LOW) | command.get(format::FORMAT_HIGH) << 4;
        let (SubmissionEntry { command_id, namespace_id: namespace, .. }, format) = (*command, index(format));
        if namespace != ALL_NAMESPACES {
            self.identity.subsystem.namespace(namespace)?;
        }
        self.check_no_sanitize()?;
        self.refuse_if_reserved(namespace)?;
        if command.get(format::ERASE) > 1 {
            return Err(Status::INVALID_FIELD);
        }
        let protection = low_u8(command.get(format::PROTECTION));
        let metadata = BlockMetadataFormat::of(protection, command.has(format::PROTECTION_FIRST))?;
        let format = self.identity.choose(format, metadata, command.has(format::EXTENDED))?;
        if self.pending.iter().any(|work| matches!(work, PendingWork::Format { .. })) {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        self.pending.push_back(PendingWork::Format { command_id, namespace, format });
        Ok(AdminCommandOutcome::Pending)
    }

    /// Executes Doorbell Buffer Config (section 5.8): takes a page of shadow doorbells, which the host writes, and a
    /// page of event indices. An event index tells the host when to write the doorbell register.
    fn configure_doorbell_buffer(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let shadow = ShadowDoorbellPages::check(command.prp1, command.prp2)?;
        // The device polls shadow doorbells, so they must be in mapped memory.
        if host.peek(shadow.tail(0)).is_none() || host.peek(shadow.tail_event_index_address(0)).is_none() {
            return Err(Status::INVALID_FIELD);
        }
        self.sets.iter_mut().for_each(|set| set.shadow = Some(shadow));
        Ok(DONE)
    }

    /// Returns the number of entries of a queue to be created. Fails if the host has not set the entry size in CC, which
    /// `is_size_set` tells.
    fn requested_queue_entries(&mut self, command: &SubmissionEntry, is_size_set: bool) -> Result<u32, Status> {
        let (limits, counted_from_zero) = (self.identity.limits, low_u16(command.get(fields::ENTRIES)));
        let is_beyond = counted_from_zero > limits.entries_field();
        self.check_strictly(|checks| checks.count_occurrences(is_beyond.into(), &strict::QUEUE_BEYOND_MQES));
        let entries = limits.check_queue_entries(counted_from_zero)?;
        if is_size_set { Ok(entries) } else { Err(Status::INVALID_QUEUE_SIZE) }
    }

    /// Counts a finding of the strict checks if the memory of a queue to be created overlaps that of another queue.
    fn check_queue_place(&mut self, address: u64, entries: u32, entry_bytes: usize) {
        let end = address.saturating_add(u64::from(entries) * length(entry_bytes));
        let overlaps = |(other, bytes): (u64, usize)| other < end && address < other.saturating_add(length(bytes));
        let overlaps = self.sets.iter().flat_map(|set| set.queue_memory_ranges()).any(overlaps);
        self.check_strictly(|checks| checks.count_occurrences(overlaps.into(), &strict::QUEUE_OVERLAP));
    }
}

/// Returns the identifier of a queue to be created. Invalid Queue Identifier unless it is from 1 to the number of queues
/// granted to the host, and unused.
fn requested_queue_id(queue: u16, queue_count: u32, mut is_used: impl FnMut(u16) -> bool) -> Result<u16, Status> {
    match (1..=queue_count).contains(&queue.into()) && !is_used(queue) {
        true => Ok(queue),
        false => Err(Status::INVALID_QUEUE_ID),
    }
}

/// Checks that the memory of a queue to be created is contiguous (bit PC, CAP.CQR) and begins at a page.
fn check_queue_memory(command: &SubmissionEntry) -> Result<(), Status> {
    if !command.has(fields::CONTIGUOUS) {
        return Err(Status::INVALID_FIELD);
    }
    if !command.prp1.is_multiple_of(PAGE_BYTES) {
        return Err(Status::INVALID_PRP_OFFSET);
    }
    Ok(())
}

const _: () = assert!(length(IDENTIFY_BYTES) == PAGE_BYTES);
