//! Controllers of hosts, each in a place of the server, from the Connect of the admin queue to the end of its
//! connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use phaselink_core::number::{low_u16, low_u32};
use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::spec::Status;

use super::accept::{Admission, Arrival};
use super::connection::HostConnection;
use super::directory::DRIVE_PLACES;
use super::fabrics::{
    CONFIGURATION, FabricsCommand, InvalidConnectParameter, field, is_existing_property, property_bytes, status,
};
use super::host::{NvmeTcpFabricHost, OwnedQueueConnections, queue_ring_addresses, slot_data_address};
use super::lending::{ControllerOwnerMessage, ControllerPollGroups, LentConnections};
use super::session::CAPSULE_DATA_BYTES;
use crate::device::Device;
use crate::device::pace::BATCH;
use crate::front::nvme_command::QueueHost;
use crate::front::poll_group::PollGroupMailbox;
use crate::nvme::registers::ControllerRegisters;
use crate::nvme::{Command, Controller, FabricIdentity, Identity, NextCommand, QueueSet};

/// Time for which a host may leave its controller disabled, or a discovery controller without a keep-alive timeout may
/// stay without a command (Base Specification 2.0, section 3.9: two minutes).
const UNUSED_TIME_MAX: Duration = Duration::from_secs(120);

/// Settings of the front-end that all places share.
#[derive(Debug)]
pub(super) struct ControllerPlaceSettings<'a> {
    pub identity: &'a Identity,
    /// Ports of the server, each with the number of its path.
    pub paths: &'a [(u16, u32)],
    pub admission: &'a Admission,
    pub is_strict: bool,
    pub is_timed: bool,
}

/// Controller of a host, with its connections.
#[derive(Debug)]
struct HostAssociation {
    controller: Controller,
    host: NvmeTcpFabricHost,
    /// Keep-alive timeout in milliseconds that the Connect command has asked for; 0 for none.
    keep_alive_ms: u32,
    /// Instant at which the keep-alive timer last noticed the host.
    heard_at: Instant,
    was_enabled: bool,
}

/// Place of a controller, on the thread that owns the controller.
#[derive(Debug)]
pub(super) struct ServedControllerPlace<'a> {
    /// Number of the place: those of the drive's controllers first, then those of discovery controllers.
    pub number: usize,
    settings: &'a ControllerPlaceSettings<'a>,
    groups: &'a ControllerPollGroups<'a>,
    association: Option<Box<HostAssociation>>,
    /// Number of hosts that the place has had, which is also the number of the present one.
    pub clients_ever: u64,
    is_lent: bool,
}

impl<'a> ServedControllerPlace<'a> {
    /// Returns a place without a controller.
    pub(super) fn new(
        number: usize,
        settings: &'a ControllerPlaceSettings<'a>,
        groups: &'a ControllerPollGroups<'a>,
    ) -> ServedControllerPlace<'a> {
        ServedControllerPlace { number, settings, groups, association: None, clients_ever: 0, is_lent: false }
    }

    /// Returns the poll groups that serve the controller's queues.
    #[inline]
    pub(super) fn groups(&self) -> &'a ControllerPollGroups<'a> {
        self.groups
    }

    /// Returns the handover from which the place takes what other threads have for it.
    #[inline]
    pub(super) fn inbox(&self) -> &'a PollGroupMailbox<'a, ControllerOwnerMessage> {
        &self.groups.handover
    }

    /// Returns true if there is a controller with a host.
    #[inline]
    pub(super) fn has_connected_host(&self) -> bool {
        self.association.is_some()
    }

    /// Returns the connections of the place that are not lent.
    pub(super) fn connections(&mut self) -> Option<&mut OwnedQueueConnections> {
        Some(&mut self.association.as_mut()?.host.queues)
    }

    /// Returns the controller, for its counts.
    pub(super) fn controller(&mut self) -> Option<&mut Controller> {
        Some(&mut self.association.as_mut()?.controller)
    }

    /// Connects the queue that a host has asked for, and answers the Connect command.
    pub(super) fn connect(&mut self, arrival: Arrival, device: &Device) {
        self.take_back();
        match arrival.connect.queue {
            0 => self.connect_admin_queue(arrival, device),
            _ => self.connect_io(arrival),
        }
    }

    fn connect_admin_queue(&mut self, arrival: Arrival, device: &Device) {
        let Arrival { mut connection, slot, connect, host_id, controller_id } = arrival;
        let discovery = (self.number >= DRIVE_PLACES).then(|| Arc::clone(&self.settings.admission.discovery));
        let reached = connection.reached();
        let is_here = |(port, _): &&(u16, u32)| reached.is_some_and(|address| address.port() == *port);
        let path = self.settings.paths.iter().find(is_here).map_or(u32::MAX, |(_, path)| *path);
        let fabric = FabricIdentity {
            controller_id,
            host_id,
            capsule_data_bytes: CAPSULE_DATA_BYTES,
            discovery,
            reached: reached.map(|address| address.ip()),
        };
        let identity = self.settings.identity.clone().in_fabric(fabric).on_path(path);
        if let Some(slot) = slot {
            connection.accept_connect_command(slot, &connect, controller_id);
        }
        let mut registers = ControllerRegisters::new(&identity.limits);
        set_admin_queue_properties(&mut registers, connection.session.controller_ring_entries());
        if self.settings.is_strict {
            registers.check_strictly();
        }
        let controller = Controller::new(identity).with_queue_sets(self.groups.sets());
        let controller = if self.settings.is_strict { controller.with_strict_checks() } else { controller };
        let mut queues = OwnedQueueConnections::new(self.settings.is_timed);
        queues.put(0, connection);
        queues.flush();
        let now = Instant::now();
        let mut association = HostAssociation {
            controller,
            host: NvmeTcpFabricHost { queues, registers, begun: now },
            keep_alive_ms: connect.keep_alive_ms,
            heard_at: now,
            was_enabled: false,
        };
        association.controller.update(&mut association.host, &device.store);
        self.clients_ever += 1;
        self.association = Some(Box::new(association));
    }

    fn connect_io(&mut self, arrival: Arrival) {
        let Arrival { mut connection, slot, connect, controller_id, .. } = arrival;
        // Only admin queues connect without a controller, and they have been answered already.
        let Some(slot) = slot else { return };
        let refused = match &mut self.association {
            None => Err((status::INVALID_PARAMETERS, field::CONTROLLER.result())),
            Some(association) => association.connect_io(&connect.queue, connect.entries_field, controller_id),
        };
        let result = match refused {
            Ok(()) => {
                connection.accept_connect_command(slot, &connect, controller_id);
                Ok(())
            }
            Err((status, result)) => {
                connection.session.respond_to_connect(slot, refusal(status), result);
                Err(())
            }
        };
        connection.flush();
        // The connection of a refused queue closes, and its host may try again with another.
        if let (Ok(()), Some(association)) = (result, &mut self.association) {
            association.host.queues.put(connect.queue, connection);
        }
    }

    /// Receives PDUs of the connections that are not lent, and submits their commands. Returns true if there was any.
    #[inline]
    pub(super) fn receive(&mut self, is_forced: bool, device: &Device) -> bool {
        let Some(association) = &mut self.association else { return false };
        let (any, needs_owner) = receive_pdus_and_submit_commands(&mut association.host.queues, is_forced);
        if needs_owner {
            self.execute_arrived_fabrics_commands(device);
        }
        any
    }

    /// Executes the Fabrics commands that have arrived, and refuses commands that come too early.
    #[cold]
    fn execute_arrived_fabrics_commands(&mut self, device: &Device) {
        self.take_back();
        let Some(association) = &mut self.association else { return };
        for queue in 0..=low_u16(self.settings.identity.limits.queue_pairs) {
            association.execute_arrived_on_connection(queue, device);
        }
    }

    /// Executes the commands of the admin queue, and calls `answered` with the status of each. Returns true if there
    /// was any.
    #[inline]
    pub(super) fn administer(&mut self, answered: impl FnMut(Status)) -> bool {
        let Some(association) = &mut self.association else { return false };
        association.controller.has_admin_commands(&mut association.host) && self.execute_admin_command_batch(answered)
    }

    #[cold]
    fn execute_admin_command_batch(&mut self, mut answered: impl FnMut(Status)) -> bool {
        self.take_back();
        let Some(HostAssociation { controller, host, .. }) = self.association.as_deref_mut() else { return false };
        let mut any = false;
        for _ in 0..BATCH {
            let NextCommand::Admin(status) = controller.next_admin_command(host) else { break };
            answered(status);
            any = true;
        }
        host.queues.flush();
        any
    }

    /// Acts on changed properties, checks that the host is there, and lends the queues. Returns true if the host has
    /// gone.
    pub(super) fn attend(&mut self, device: &Device) -> bool {
        let Some(association) = &mut self.association else { return false };
        if association.needs_owner() {
            self.take_back();
        }
        let Some(association) = &mut self.association else { return false };
        association.update(device);
        if association.has_ended() {
            self.take_back();
            self.end();
            return true;
        }
        self.lend();
        false
    }

    /// Ends the association: the controller is powered off, and its connections close.
    fn end(&mut self) {
        if let Some(mut association) = self.association.take() {
            association.controller.disable_after_disconnect();
        }
        self.settings.admission.directory.close(self.number);
    }

    /// Lends sets of queues to their borrowers, if there are I/O queues in them.
    fn lend(&mut self) {
        let Some(association) = self.association.as_deref_mut().filter(|_| !self.is_lent) else { return };
        for set in 1..self.groups.sets() {
            if !association.controller.queue_sets()[set].has_io_queues() {
                continue;
            }
            let mut lent = association.controller.vacant_queue_set();
            association.controller.swap_queue_set(set, &mut lent);
            let mut host = OwnedQueueConnections::new(self.settings.is_timed);
            for queue in lent.io_queue_ids() {
                let is_lent = lent.submission_queue(queue).is_some();
                if let Some(connection) = is_lent.then(|| association.host.queues.take(queue)).flatten() {
                    host.put(queue, connection);
                }
            }
            self.groups.lend(set, LentConnections::new(self.clients_ever, lent, host));
            self.is_lent = true;
        }
    }

    /// Takes all lent queues back from their borrowers.
    pub(super) fn take_back(&mut self) {
        if !std::mem::take(&mut self.is_lent) {
            return;
        }
        let Some(association) = &mut self.association else { return };
        for number in 1..self.groups.sets() {
            let Some(lent) = self.groups.slot(number).take_back() else { continue };
            let LentConnections { mut set, host, .. } = *lent;
            association.controller.swap_queue_set(number, &mut set);
            association.host.queues.join(host);
        }
    }

    /// Returns the set of queues of a host's command, taken back if it was lent, and the connections; none if the host
    /// has gone.
    pub(super) fn find(
        &mut self,
        client: u64,
        command: &Command,
    ) -> Option<(&mut QueueSet, &mut OwnedQueueConnections)> {
        if self.clients_ever != client {
            return None;
        }
        let is_here = self.association.as_ref()?.controller.has_submission_queue(command.queue());
        if self.is_lent && !is_here {
            self.take_back();
        }
        let HostAssociation { controller, host, .. } = self.association.as_deref_mut()?;
        Some((controller.set_of_submission_queue(command.queue()), &mut host.queues))
    }

    /// Returns the sets of queues that are not lent, and the connections; none without a host.
    #[inline]
    pub(super) fn own(&mut self) -> Option<(&mut [Box<QueueSet>], &mut OwnedQueueConnections)> {
        let HostAssociation { controller, host, .. } = self.association.as_deref_mut()?;
        Some((controller.queue_sets(), &mut host.queues))
    }
}

/// Writes the properties of the admin queue, which a host in a fabric cannot set.
fn set_admin_queue_properties(registers: &mut ControllerRegisters, entries: u32) {
    let (submissions, completions) = queue_ring_addresses(0);
    registers.write(0x24, &((entries - 1) | (entries - 1) << 16).to_le_bytes());
    registers.write(0x28, &submissions.to_le_bytes());
    registers.write(0x30, &completions.to_le_bytes());
}

/// Receives PDUs of all connections, and submits the commands that are for the queues. Returns true if there was any,
/// and true if something is left for the owner of the controller: Fabrics commands, and connections that have ended.
#[inline]
pub(super) fn receive_pdus_and_submit_commands(queues: &mut OwnedQueueConnections, is_forced: bool) -> (bool, bool) {
    let (mut any, mut needs_owner) = (false, false);
    for (queue, connection) in queues.all() {
        any |= connection.receive(is_forced);
        while let Some((slot, entry)) = connection.session.arrived() {
            if FabricsCommand::decode(entry).is_some() || !connection.is_authenticated || queue == 0 {
                needs_owner = true;
                break;
            }
            connection.session.take_arrived();
            connection.session.submit(slot, slot_data_address(queue, slot));
        }
        needs_owner |= connection.is_over() || connection.has_exceeded_authentication_time();
        if connection.has_output() {
            connection.flush();
        }
    }
    (any, needs_owner)
}

impl HostAssociation {
    /// Creates the queue of a connection.
    ///
    /// # Errors
    /// The status of a refused Connect, and dword 0 of its response.
    fn connect_io(&mut self, queue: &u16, entries_field: u16, id: u16) -> Result<(), (Status, u32)> {
        let invalid = |parameter: InvalidConnectParameter| (status::INVALID_PARAMETERS, parameter.result());
        let HostAssociation { controller, host, .. } = self;
        if controller.controller_id() != id {
            return Err(invalid(field::CONTROLLER));
        }
        // An unauthenticated connection must not block a queue of the host that owns it.
        if host.queues.get(*queue).is_some_and(|connection| !connection.is_authenticated) {
            controller.disconnect_queue(*queue, host);
            drop(host.queues.take(*queue));
        }
        let entries = u32::from(entries_field) + 1;
        if entries > controller.io_queue_entries_max() {
            return Err(invalid(field::ENTRIES));
        }
        let created = controller.connect_queue(*queue, entries + 1, queue_ring_addresses(*queue), host);
        created.map_err(|status| match status {
            Status::INVALID_QUEUE_ID => invalid(field::QUEUE),
            status => (status, 0),
        })
    }

    /// Executes the Fabrics commands of a connection that have arrived, up to the next other command that is not
    /// refused.
    fn execute_arrived_on_connection(&mut self, queue: u16, device: &Device) {
        loop {
            let is_ready = self.host.registers.is_ready();
            let Some(connection) = self.host.queues.get(queue) else { return };
            let Some((slot, entry)) = connection.session.arrived() else { return };
            let command = FabricsCommand::decode(entry);
            connection.session.take_arrived();
            match command {
                Some(command) => self.execute_fabrics_command(queue, slot, command, device),
                None if !connection.is_authenticated => {
                    connection.session.respond(slot, refusal(status::AUTHENTICATION_REQUIRED), 0);
                }
                None if queue == 0 && !is_ready => {
                    connection.session.respond(slot, refusal(Status::COMMAND_SEQUENCE_ERROR), 0);
                }
                None => connection.session.submit(slot, slot_data_address(queue, slot)),
            }
        }
    }

    /// Executes a Fabrics command of a connected queue.
    fn execute_fabrics_command(&mut self, queue: u16, slot: u16, command: FabricsCommand, device: &Device) {
        let is_admin = queue == 0;
        let Some(connection) = self.host.queues.get(queue) else { return };
        let is_authenticated = connection.is_authenticated;
        if is_authenticated {
            self.heard_at = Instant::now();
        }
        let done = match command {
            FabricsCommand::AuthenticationSend(transfer) => connection.receive_authentication_message(slot, transfer),
            FabricsCommand::AuthenticationReceive(transfer) => connection.return_authentication_message(slot, transfer),
            _ if !is_authenticated => Err(status::AUTHENTICATION_REQUIRED),
            FabricsCommand::PropertyGet { offset, is_wide } if is_admin => {
                self.read_controller_property(offset, is_wide)
            }
            FabricsCommand::PropertySet { offset, value, is_wide } if is_admin => {
                self.write_controller_property(offset, value, is_wide, device)
            }
            FabricsCommand::Disconnect { record_format: 0 } if !is_admin => {
                self.controller.disconnect_queue(queue, &mut self.host);
                Ok(0)
            }
            FabricsCommand::Disconnect { record_format } if !is_admin && record_format > 0 => {
                Err(status::INCOMPATIBLE_FORMAT)
            }
            // A second Connect on a connected queue is out of sequence.
            FabricsCommand::Connect(_) => Err(Status::COMMAND_SEQUENCE_ERROR),
            FabricsCommand::PropertyGet { .. }
            | FabricsCommand::PropertySet { .. }
            | FabricsCommand::Disconnect { .. }
            | FabricsCommand::Unknown => Err(Status::INVALID_OPCODE),
        };
        let Some(connection) = self.host.queues.get(queue) else { return };
        match done {
            Ok(result) => connection.session.respond(slot, Status::SUCCESS, result),
            Err(status) => connection.session.respond(slot, refusal(status), 0),
        }
        connection.flush();
    }

    fn read_controller_property(&mut self, offset: u32, is_wide: bool) -> Result<u64, Status> {
        if !is_existing_property(offset, is_wide) {
            return Err(Status::INVALID_FIELD);
        }
        let mut bytes = [0; 8];
        self.host.registers.read(offset.into(), &mut bytes[..property_bytes(is_wide)]);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Sets a property, and acts on it at once: a host that reads CSTS next sees the result.
    fn write_controller_property(
        &mut self,
        offset: u32,
        value: u64,
        is_wide: bool,
        device: &Device,
    ) -> Result<u64, Status> {
        if offset != CONFIGURATION || is_wide {
            return Err(Status::INVALID_FIELD);
        }
        self.host.registers.write(offset.into(), &low_u32(value).to_le_bytes());
        self.update(device);
        Ok(0)
    }

    /// True if something has to be done for which no queue may be lent.
    fn needs_owner(&mut self) -> bool {
        self.controller.needs_update(&mut self.host)
    }

    /// Acts on changed properties and ended connections, and sends what that has completed.
    fn update(&mut self, device: &Device) {
        let HostAssociation { controller, host, .. } = self;
        controller.update(host, &device.store);
        let is_enabled = host.registers.is_enabled();
        if is_enabled != self.was_enabled {
            self.was_enabled = is_enabled;
            match is_enabled {
                true => controller.set_keep_alive(self.keep_alive_ms),
                false => self.close_io_connections_after_reset(),
            }
        }
        self.remove_ended_connections();
        self.host.queues.flush();
    }

    /// Closes the I/O connections and forgets the admin commands, since the controller has been reset.
    fn close_io_connections_after_reset(&mut self) {
        let queues: Vec<u16> = self.host.queues.all().map(|(queue, _)| queue).filter(|queue| *queue > 0).collect();
        queues.into_iter().for_each(|queue| drop(self.host.queues.take(queue)));
        if let Some(admin) = self.host.queues.get(0) {
            admin.session.drop_commands_after_controller_reset();
        }
    }

    /// Removes the queues whose connections have ended.
    fn remove_ended_connections(&mut self) {
        let has_ended =
            |connection: &HostConnection| connection.is_over() || connection.has_exceeded_authentication_time();
        let ended = self.host.queues.all().filter(|(queue, connection)| *queue > 0 && has_ended(connection));
        let ended: Vec<u16> = ended.map(|(queue, _)| queue).collect();
        for queue in ended {
            self.controller.disconnect_queue(queue, &mut self.host);
            drop(self.host.queues.take(queue));
        }
    }

    /// True if the host has gone: the connection of its admin queue has ended, or it has not been heard for too long.
    fn has_ended(&mut self) -> bool {
        if self.host.queues.get(0).is_none_or(|admin| admin.is_over()) {
            return true;
        }
        match self.controller.poll_keep_alive() {
            Some((_, true)) => self.heard_at = Instant::now(),
            Some((time, false)) if self.heard_at.elapsed() > time => {
                // The controller stops and its connections end (section 3.9).
                self.controller.fail_for_keep_alive(&mut self.host);
                return true;
            }
            Some(_) => {}
            None => {
                let is_unused = !self.was_enabled || self.controller.is_of_discovery();
                return is_unused && self.heard_at.elapsed() > UNUSED_TIME_MAX;
            }
        }
        false
    }
}

/// Returns the maximum number of data bytes of a command: those of the longest transfer, or of the longest part of a log
/// page.
pub(super) fn max_command_data_bytes(identity: &Identity) -> u32 {
    identity.limits.transfer_bytes_max.max(1 << 20)
}

/// Receives and executes what can be done for lent queues, and tells the owner if it is needed. Returns true if
/// something has arrived.
#[inline]
pub(super) fn receive_for_lent_queues(
    lent: &mut LentConnections,
    is_forced: bool,
    groups: &ControllerPollGroups<'_>,
) -> bool {
    let (any, needs_owner) = receive_pdus_and_submit_commands(&mut lent.host, is_forced);
    if needs_owner || lent.set.has_reportable_errors() {
        lent.notify_owner_once(groups);
    }
    any
}

/// Ends a round over queues: posts completions that waited, and sends everything.
#[inline]
pub(super) fn post_and_send_completions(set: &mut QueueSet, host: &mut OwnedQueueConnections) {
    set.post_held(host);
    host.end_batch();
}
