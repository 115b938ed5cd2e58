//! Features of reservations (Base Specification 2.0, section 5.27): Host Identifier, Reservation Notification Mask and
//! Reservation Persistence; and the notices to the host of a controller.

use phaselink_core::number::low_u8;
use phaselink_core::protocol::nvme::commands::command::ALL_NAMESPACES;
use phaselink_core::protocol::nvme::rules::reservation::{HOST_BYTES, ReservingHost};
use phaselink_core::protocol::nvme::spec::fields::feature;
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};

use super::admin::AdminCommandOutcome;
use super::command::{copy_in, copy_out};
use super::controller::{Controller, PendingWork};
use super::events::AsyncEvent;
use super::host::AdminHost;
use super::kinds::{HOST_IDENTIFIER, NOTICE_MASK};
use super::notices::PendingReservationNotices;
use crate::planted::{PlantableBug, is_planted};

/// Number of bytes of a host identifier of 64 bits.
const SHORT_HOST_BYTES: usize = 8;
/// Bits of Reservation Notification Mask, one for each kind of notice, at the bit with the kind's number.
const MASK_BITS: u32 = 0b1110;
impl Controller {
    /// Fetches the notices of reservations to the controller's host, and raises an event if there are any.
    pub(super) fn report_reservation_notices(&mut self) {
        if self.fetch_reservation_notices() {
            self.events.raise(AsyncEvent::ReservationNotice);
        }
    }

    /// Fetches the notices of reservations to the controller's host. Returns true if there are any.
    pub(super) fn fetch_reservation_notices(&mut self) -> bool {
        let subsystem = &self.identity.subsystem;
        let (known, notices) = subsystem.reservations.host_notices_after(self.notices.known(), self.identity.host);
        self.notices.add(known, notices)
    }

    /// Returns the value of a feature of reservations, or copies the identifier of the host to it.
    ///
    /// # Errors
    /// Invalid Namespace, and Host Identifier Inconsistent Format if the host asks for an identifier of another length
    /// than it has set.
    pub(super) fn reservation_feature_value(
        &self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let namespace = command.namespace_id;
        match low_u8(command.get(feature::ID)) {
            HOST_IDENTIFIER => {
                let is_long = command.has(feature::IS_LONG);
                if self.identity.host.is_inconsistent_with(is_long) {
                    return Err(Status::HOST_IDENTIFIER_INCONSISTENT);
                }
                copy_out(command, host, &self.identity.host.id()[..host_identifier_bytes(is_long)])?;
                Ok(AdminCommandOutcome::Done(0))
            }
            id => {
                self.check_namespace_attached(namespace)?;
                let persists = self.identity.subsystem.reservations.persists(namespace);
                let mask = self.notices.mask(namespace);
                Ok(AdminCommandOutcome::Done(if id == NOTICE_MASK { mask } else { persists.into() }))
            }
        }
    }

    /// Sets a feature of reservations, for one namespace or all of them.
    ///
    /// # Errors
    /// Invalid Namespace. Command Sequence Error for a host identifier in a fabric, where the host connects with it.
    /// Invalid Field for a mask with reserved bits.
    pub(super) fn set_reservation_feature(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        let (id, namespace) = (low_u8(command.get(feature::ID)), command.namespace_id);
        if id == HOST_IDENTIFIER {
            return self.set_host_identifier(command, host);
        }
        if namespace != ALL_NAMESPACES {
            self.check_namespace_attached(namespace)?;
        }
        let (value, count) = (command.get(feature::VALUE), self.identity.limits.namespaces);
        let is_meant = |id: u32| [id, ALL_NAMESPACES].contains(&namespace);
        match id {
            NOTICE_MASK if value & !MASK_BITS != 0 => return Err(Status::INVALID_FIELD),
            NOTICE_MASK => {
                (1..=count).filter(|id| is_meant(*id)).for_each(|id| self.notices.set_notification_mask(id, value))
            }
            _ => {
                self.identity.subsystem.reservations.set_persists(command.has(feature::PERSISTS), count, is_meant);
                self.pending.push_back(PendingWork::SaveReservations);
            }
        }
        Ok(AdminCommandOutcome::Done(0))
    }

    /// Sets the identifier of the host, by which reservations know it on all of its controllers. An identifier of zeros
    /// makes it unknown again.
    fn set_host_identifier(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<AdminCommandOutcome, Status> {
        if self.identity.fabric.is_some() {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        let (is_long, mut id) = (command.has(feature::IS_LONG), [0; HOST_BYTES]);
        copy_in(command, host, &mut id[..host_identifier_bytes(is_long)])?;
        let short = *id.first_chunk().expect("a long identifier has more bytes than a short one");
        self.set_host(match (id == [0; HOST_BYTES], is_long) {
            (true, _) => ReservingHost::OfController(self.identity.number),
            (false, true) => ReservingHost::Named(id),
            (false, false) => ReservingHost::NamedShortly(short),
        });
        Ok(AdminCommandOutcome::Done(0))
    }

    /// Makes this the controller's host, as reservations know it. A host without an identifier is gone for good.
    pub(super) fn set_host(&mut self, host: ReservingHost) {
        let before = std::mem::replace(&mut self.identity.host, host);
        if !is_planted(PlantableBug::HostUnseen) {
            self.sets.iter_mut().for_each(|set| set.namespaces.set_host(host));
        }
        self.unregister_unnamed_host(before);
    }

    /// Forgets notices, and a host identifier that was set; a host without one is another host after the reset.
    pub(super) fn forget_reservation_notices(&mut self) {
        self.notices = PendingReservationNotices::starting_at(self.notices.known());
        if self.identity.fabric.is_none() {
            self.set_host(ReservingHost::OfController(self.identity.number));
        }
    }

    /// Unregisters a host without an identifier from all namespaces, because a reset makes it another host.
    pub(super) fn unregister_unnamed_host(&self, host: ReservingHost) {
        let is_unnamed = matches!(host, ReservingHost::OfController(_));
        if is_unnamed && self.identity.subsystem.reservations.forget(host) {
            self.identity.subsystem.raise_version();
        }
    }
}

/// Returns the length of a host identifier in bytes.
fn host_identifier_bytes(is_long: bool) -> usize {
    if is_long { HOST_BYTES } else { SHORT_HOST_BYTES }
}
