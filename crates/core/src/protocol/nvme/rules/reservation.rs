//! Reservations of a namespace, by which hosts agree who may read and write it (Base Specification 2.0, sections 7.2 to
//! 7.5 and 8.19).
//!
//! A host registers with a key of its choice. A registrant may acquire a reservation of one of six types, and any
//! registrant may take it away from another by naming that one's key (preemption). What a command may do then depends on
//! what its host is:
//!
//! | type of the reservation | holder | other registrants | other hosts |
//! |---|---|---|---|
//! | Write Exclusive | read, write | read | read |
//! | Exclusive Access | read, write | none | none |
//! | Write Exclusive, Registrants Only | read, write | read, write | read |
//! | Exclusive Access, Registrants Only | read, write | read, write | none |
//! | Write Exclusive, All Registrants | all registrants hold it | | read |
//! | Exclusive Access, All Registrants | all registrants hold it | | none |

use crate::number::{index, short_length, wide_index};
use crate::protocol::nvme::spec::fields::reservation as fields;
use crate::protocol::nvme::spec::layout::Layout;
use crate::protocol::nvme::spec::lists::ReservationKeyList;
use crate::protocol::nvme::spec::logs::{
    LongRegisteredController, LongReservationStatus, RegisteredController, ReservationStatus,
};
use crate::protocol::nvme::spec::{Status, SubmissionEntry};

/// Maximum number of registrants of a namespace (assumed; the specification names none).
pub const REGISTRANTS_MAX: usize = 256;
/// Number of bytes of a host identifier.
pub const HOST_BYTES: usize = 16;
/// Controller identifier of a registrant whose controllers come and go with its connections.
pub const ANY_CONTROLLER: u16 = 0xffff;
/// Reservation capabilities of a namespace (RESCAP): reservations may persist through power loss, all six types, and
/// IEKEY as of revision 1.3.
pub const CAPABILITIES: u8 = 0xff;

/// Length in bytes of a registrant in the record of reservations that a store saves.
const RECORD_BYTES: usize = 1 + HOST_BYTES + 8;

/// Host to which reservations apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservingHost {
    /// Host with this identifier of 128 bits, which it uses on all of its controllers.
    Named([u8; HOST_BYTES]),
    /// Host with this identifier of 64 bits.
    NamedShortly([u8; 8]),
    /// Host without an identifier on the controller with this number. It is a new host after each reset.
    OfController(u32),
}

impl ReservingHost {
    /// True if the host has set an identifier of another length than a report would have; `is_long` asks for 128 bits.
    pub fn is_inconsistent_with(self, is_long: bool) -> bool {
        match self {
            ReservingHost::Named(_) => !is_long,
            ReservingHost::NamedShortly(_) => is_long,
            ReservingHost::OfController(_) => false,
        }
    }

    /// Returns the identifier of the host as bytes, a shorter one with zeros at its end; zeros if it has none.
    pub fn id(self) -> [u8; HOST_BYTES] {
        match self {
            ReservingHost::Named(id) => id,
            ReservingHost::NamedShortly(id) => std::array::from_fn(|place| id.get(place).copied().unwrap_or(0)),
            ReservingHost::OfController(_) => [0; HOST_BYTES],
        }
    }

    /// Returns the identifier of a controller of the host: its only one if it has no identifier.
    fn controller(self) -> u16 {
        match self {
            ReservingHost::OfController(number) => u16::try_from(number).unwrap_or(ANY_CONTROLLER),
            _ => ANY_CONTROLLER,
        }
    }
}

/// Type of a reservation (RTYPE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservationType {
    /// Write Exclusive: only the holder writes.
    WriteExclusive,
    /// Exclusive Access: only the holder reads and writes.
    ExclusiveAccess,
    /// Write Exclusive, Registrants Only: only registrants write.
    WriteExclusiveRegistrants,
    /// Exclusive Access, Registrants Only: only registrants read and write.
    ExclusiveAccessRegistrants,
    /// Write Exclusive, All Registrants: only registrants write, and all of them hold the reservation.
    WriteExclusiveAll,
    /// Exclusive Access, All Registrants: only registrants read and write, and all of them hold the reservation.
    ExclusiveAccessAll,
}

impl ReservationType {
    /// All types, in the order of their numbers, which begin with 1.
    pub const ALL: [ReservationType; 6] = {
        use ReservationType::*;
        [
            WriteExclusive,
            ExclusiveAccess,
            WriteExclusiveRegistrants,
            ExclusiveAccessRegistrants,
            WriteExclusiveAll,
            ExclusiveAccessAll,
        ]
    };

    /// Returns the type with this number.
    ///
    /// # Errors
    /// Invalid Field for a reserved number.
    pub fn of(number: u32) -> Result<ReservationType, Status> {
        let place = index(number).checked_sub(1).and_then(|place| ReservationType::ALL.get(place));
        place.copied().ok_or(Status::INVALID_FIELD)
    }

    /// Returns the number of the type.
    pub fn number(self) -> u8 {
        (1..).zip(ReservationType::ALL).find(|(_, kind)| *kind == self).map_or(0, |(number, _)| number)
    }

    /// True if all registrants hold a reservation of this type.
    fn is_held_by_all(self) -> bool {
        self >= ReservationType::WriteExclusiveAll
    }

    /// True if registrants that do not hold the reservation may read and write.
    fn admits_other_registrants(self) -> bool {
        self >= ReservationType::WriteExclusiveRegistrants
    }

    /// Returns what hosts may do that a reservation of this type does not admit.
    fn denied_access(self) -> NamespaceAccess {
        match self {
            ReservationType::WriteExclusive
            | ReservationType::WriteExclusiveRegistrants
            | ReservationType::WriteExclusiveAll => NamespaceAccess::Read,
            _ => NamespaceAccess::None,
        }
    }
}

/// Access to the blocks or values of a namespace: what a command needs, or what a reservation leaves to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamespaceAccess {
    /// Neither reads nor writes.
    None,
    /// Reads.
    Read,
    /// Reads and writes.
    Write,
}

/// Reservation command, with the parameters of its submission queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationCommand {
    /// Reservation Register.
    Register {
        /// Action on the registration (RREGA).
        action: RegisterAction,
        /// True if the present key of the host does not matter (IEKEY).
        ignores_key: bool,
        /// New state of Persist Through Power Loss; none if it does not change (CPTPL).
        persists: Option<bool>,
    },
    /// Reservation Acquire.
    Acquire {
        /// Way to the reservation (RACQA).
        action: AcquireAction,
        /// Type of the reservation.
        kind: ReservationType,
    },
    /// Reservation Release that releases the reservation of this type.
    Release(ReservationType),
    /// Reservation Release that ends the reservation and unregisters all hosts.
    Clear,
    /// Reservation Report.
    Report {
        /// Length of the host's buffer in bytes.
        bytes: u32,
        /// True if host identifiers have 128 bits (EDS), otherwise 64.
        is_long: bool,
    },
}

/// Action of Reservation Register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterAction {
    /// Registers the host.
    Register,
    /// Unregisters the host.
    Unregister,
    /// Replaces the key of the host.
    Replace,
}

/// Action of Reservation Acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireAction {
    /// Acquires a reservation that nobody holds.
    Acquire,
    /// Takes the reservation from its holder, or unregisters other hosts.
    Preempt,
    /// As preempting, and commands of the unregistered hosts are aborted.
    PreemptAndAbort,
}

/// Keys in the data of a reservation command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservationKeys {
    /// Present key of the host (CRKEY).
    pub current: u64,
    /// New key of the host (NRKEY), or key of the hosts to be unregistered (PRKEY).
    pub other: u64,
}

impl ReservationKeys {
    /// Returns the keys in the data of a command; the data of a release has only one.
    pub(in crate::protocol::nvme) fn of(list: &[u8]) -> ReservationKeys {
        let mut bytes = [0; ReservationKeyList::BYTES];
        bytes[..list.len()].copy_from_slice(list);
        let keys = ReservationKeyList::over(bytes);
        ReservationKeys { current: keys.get(ReservationKeyList::CURRENT), other: keys.get(ReservationKeyList::OTHER) }
    }
}

impl ReservationCommand {
    /// Returns the Reservation Register that a submission queue entry encodes.
    ///
    /// # Errors
    /// Invalid Field for a reserved action or change of persistence.
    pub(in crate::protocol::nvme) fn register(entry: &SubmissionEntry) -> Result<ReservationCommand, Status> {
        let action = match entry.get(fields::ACTION) {
            0 => RegisterAction::Register,
            1 => RegisterAction::Unregister,
            2 => RegisterAction::Replace,
            _ => return Err(Status::INVALID_FIELD),
        };
        let persists = match entry.get(fields::PERSISTENCE) {
            0b00 => None,
            0b10 => Some(false),
            0b11 => Some(true),
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok(ReservationCommand::Register { action, ignores_key: entry.has(fields::IGNORES_KEY), persists })
    }

    /// Returns the Reservation Acquire that a submission queue entry encodes.
    ///
    /// # Errors
    /// Invalid Field for a reserved action or type, and if the present key is to be ignored.
    pub(in crate::protocol::nvme) fn acquire(entry: &SubmissionEntry) -> Result<ReservationCommand, Status> {
        let action = match entry.get(fields::ACTION) {
            0 => AcquireAction::Acquire,
            1 => AcquireAction::Preempt,
            2 => AcquireAction::PreemptAndAbort,
            _ => return Err(Status::INVALID_FIELD),
        };
        check_key_matters(entry)?;
        Ok(ReservationCommand::Acquire { action, kind: ReservationType::of(entry.get(fields::TYPE))? })
    }

    /// Returns the Reservation Release that a submission queue entry encodes.
    ///
    /// # Errors
    /// As [`ReservationCommand::acquire`].
    pub(in crate::protocol::nvme) fn release(entry: &SubmissionEntry) -> Result<ReservationCommand, Status> {
        check_key_matters(entry)?;
        match entry.get(fields::ACTION) {
            0 => ReservationType::of(entry.get(fields::TYPE)).map(ReservationCommand::Release),
            1 => Ok(ReservationCommand::Clear),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Returns the Reservation Report that a submission queue entry encodes.
    ///
    /// # Errors
    /// Invalid Field for a buffer of more than 4 GiB.
    pub(in crate::protocol::nvme) fn report(entry: &SubmissionEntry) -> Result<ReservationCommand, Status> {
        let bytes = entry.get(fields::DWORDS).checked_add(1).and_then(|dwords| dwords.checked_mul(4));
        let bytes = bytes.ok_or(Status::INVALID_FIELD)?;
        Ok(ReservationCommand::Report { bytes, is_long: entry.has(fields::IS_LONG) })
    }

    /// Returns the length in bytes of the command's data.
    pub(in crate::protocol::nvme) fn data_bytes(self) -> u32 {
        match self {
            ReservationCommand::Register { .. } | ReservationCommand::Acquire { .. } => {
                short_length(ReservationKeyList::BYTES)
            }
            ReservationCommand::Release(_) | ReservationCommand::Clear => short_length(ReservationKeyList::BYTES) / 2,
            ReservationCommand::Report { bytes, .. } => bytes,
        }
    }
}

/// Refuses to ignore the present key, which only a registration may.
fn check_key_matters(entry: &SubmissionEntry) -> Result<(), Status> {
    if entry.has(fields::IGNORES_KEY) { Err(Status::INVALID_FIELD) } else { Ok(()) }
}

/// Kind of a notice to a host (the type of the log page Reservation Notification).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationNoticeKind {
    /// Another host has unregistered the host.
    RegistrationPreempted,
    /// A reservation under which the host had access has ended.
    ReservationReleased,
    /// Another host has unregistered all hosts and ended the reservation.
    ReservationPreempted,
}

impl ReservationNoticeKind {
    /// Returns the number of the kind.
    pub fn number(self) -> u8 {
        match self {
            ReservationNoticeKind::RegistrationPreempted => 1,
            ReservationNoticeKind::ReservationReleased => 2,
            ReservationNoticeKind::ReservationPreempted => 3,
        }
    }
}

/// Notice to a host whose registration or reservation another host has changed.
pub type Notice = (ReservingHost, ReservationNoticeKind);

/// Host that has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RegisteredHost {
    host: ReservingHost,
    key: u64,
}

/// Registrants and reservation of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    /// Number of registrations, unregistrations and preemptions so far (GEN).
    generation: u32,
    /// Hosts that have registered, in the order of their registration.
    registrants: Vec<RegisteredHost>,
    /// Type of the reservation, and the host that has acquired it; none if nobody holds one.
    held: Option<(ReservationType, ReservingHost)>,
    /// True if registrants and reservation persist through power loss (PTPLS).
    persists: bool,
}

impl Reservations {
    /// Executes a command of a host that changes registrants or reservation. Returns the notices to other hosts.
    ///
    /// # Errors
    /// Reservation Conflict if the host is not registered with its present key, or another host holds the reservation.
    /// Invalid Field for a key of 0, or a release with another type than the reservation has. Internal Error if there
    /// are [`REGISTRANTS_MAX`] registrants already.
    pub fn execute(
        &mut self,
        command: ReservationCommand,
        keys: ReservationKeys,
        host: ReservingHost,
    ) -> Result<Vec<Notice>, Status> {
        match command {
            ReservationCommand::Register { action, ignores_key, persists } => {
                let notices = self.register(action, ignores_key, keys, host)?;
                self.persists = persists.unwrap_or(self.persists);
                Ok(notices)
            }
            ReservationCommand::Acquire { action, kind } => {
                self.check_registration_key(host, keys.current)?;
                match action {
                    AcquireAction::Acquire => self.acquire(kind, host).map(|()| Vec::new()),
                    AcquireAction::Preempt | AcquireAction::PreemptAndAbort => {
                        self.preempt_holder(kind, keys.other, host)
                    }
                }
            }
            ReservationCommand::Release(kind) => {
                self.check_registration_key(host, keys.current)?;
                self.release(kind, host)
            }
            ReservationCommand::Clear => {
                self.check_registration_key(host, keys.current)?;
                Ok(self.clear_reservation(host))
            }
            ReservationCommand::Report { .. } => Ok(Vec::new()),
        }
    }

    /// Returns what the reservation leaves to a host.
    pub fn access(&self, host: ReservingHost) -> NamespaceAccess {
        match self.held {
            Some((kind, _))
                if !(self.is_holder(host) || kind.admits_other_registrants() && self.is_host_registered(host)) =>
            {
                kind.denied_access()
            }
            _ => NamespaceAccess::Write,
        }
    }

    /// True if no host is registered, so that every host has every access.
    pub fn is_empty(&self) -> bool {
        self.registrants.is_empty()
    }

    /// True if registrants and reservation persist through power loss.
    pub fn persists(&self) -> bool {
        self.persists
    }

    /// Sets whether registrants and reservation persist through power loss.
    pub fn set_persists(&mut self, persists: bool) {
        self.persists = persists;
    }

    /// Unregisters a host that is gone for good. Returns the notices to other hosts.
    pub fn forget(&mut self, host: ReservingHost) -> Vec<Notice> {
        if self.is_host_registered(host) { self.unregister_host(host) } else { Vec::new() }
    }

    fn register(
        &mut self,
        action: RegisterAction,
        ignores_key: bool,
        keys: ReservationKeys,
        host: ReservingHost,
    ) -> Result<Vec<Notice>, Status> {
        let registered = self.registrants.iter_mut().find(|it| it.host == host);
        let is_key_known = |key: u64| ignores_key || key == keys.current;
        if action != RegisterAction::Unregister && keys.other == 0 {
            return Err(Status::INVALID_FIELD);
        }
        match (action, registered) {
            (RegisterAction::Register, Some(registrant)) if registrant.key == keys.other => return Ok(Vec::new()),
            (RegisterAction::Replace, Some(registrant)) if is_key_known(registrant.key) => registrant.key = keys.other,
            (RegisterAction::Unregister, Some(registrant)) if is_key_known(registrant.key) => {
                return Ok(self.unregister_host(host));
            }
            (RegisterAction::Register, None) => self.add(host, keys.other)?,
            (RegisterAction::Replace, None) if ignores_key => self.add(host, keys.other)?,
            _ => return Err(Status::RESERVATION_CONFLICT),
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(Vec::new())
    }

    fn add(&mut self, host: ReservingHost, key: u64) -> Result<(), Status> {
        if self.registrants.len() >= REGISTRANTS_MAX {
            return Err(Status::INTERNAL_ERROR);
        }
        self.registrants.push(RegisteredHost { host, key });
        Ok(())
    }

    /// Unregisters a host that asks for it. A reservation that it held alone, or last, ends.
    fn unregister_host(&mut self, host: ReservingHost) -> Vec<Notice> {
        let before = self.held;
        self.remove(|it| it.host == host);
        self.generation = self.generation.wrapping_add(1);
        match before {
            // The other hosts had access as registrants, and have lost the reservation that granted it, so notify them.
            Some((kind, _)) if self.held.is_none() && kind.admits_other_registrants() => {
                self.notices(host, ReservationNoticeKind::ReservationReleased)
            }
            _ => Vec::new(),
        }
    }

    fn acquire(&mut self, kind: ReservationType, host: ReservingHost) -> Result<(), Status> {
        match self.held {
            None => self.held = Some((kind, host)),
            Some((held, _)) if held == kind && self.is_holder(host) => {}
            Some(_) => return Err(Status::RESERVATION_CONFLICT),
        }
        Ok(())
    }

    /// Preempts: takes the reservation if `key` is the holder's, or 0 for one that all registrants hold; unregisters
    /// the hosts with that key.
    fn preempt_holder(&mut self, kind: ReservationType, key: u64, host: ReservingHost) -> Result<Vec<Notice>, Status> {
        let before = self.registrants.clone();
        let key_of_holder = |(_, holder)| before.iter().find(|it| it.host == holder).map(|it| it.key);
        let is_of_all = self.held.is_some_and(|(held, _)| held.is_held_by_all());
        let takes = match self.held {
            Some(_) if is_of_all => key == 0,
            Some(held) => key_of_holder(held) == Some(key),
            None => false,
        };
        let mut changed = false;
        if takes {
            changed = self.held.is_some_and(|(held, _)| held != kind);
            self.held = Some((kind, host));
            self.remove(|it| it.host != host && (is_of_all || it.key == key));
        } else if key == 0 {
            return Err(Status::INVALID_FIELD);
        } else if !before.iter().any(|it| it.key == key) {
            return Err(Status::RESERVATION_CONFLICT);
        } else {
            self.remove(|it| it.key == key);
        }
        self.generation = self.generation.wrapping_add(1);
        let is_gone = |it: &&RegisteredHost| it.host != host && !self.is_host_registered(it.host);
        let gone = before.iter().filter(is_gone).map(|it| (it.host, ReservationNoticeKind::RegistrationPreempted));
        let mut notices: Vec<Notice> = gone.collect();
        if changed {
            notices.extend(self.notices(host, ReservationNoticeKind::ReservationReleased));
        }
        Ok(notices)
    }

    fn release(&mut self, kind: ReservationType, host: ReservingHost) -> Result<Vec<Notice>, Status> {
        match self.held {
            Some((held, _)) if held != kind => Err(Status::INVALID_FIELD),
            Some(_) if self.is_holder(host) => {
                self.held = None;
                match kind.admits_other_registrants() {
                    true => Ok(self.notices(host, ReservationNoticeKind::ReservationReleased)),
                    false => Ok(Vec::new()),
                }
            }
            _ => Ok(Vec::new()),
        }
    }

    fn clear_reservation(&mut self, host: ReservingHost) -> Vec<Notice> {
        let notices = self.notices(host, ReservationNoticeKind::ReservationPreempted);
        self.remove(|_| true);
        self.generation = self.generation.wrapping_add(1);
        notices
    }

    /// Unregisters hosts. A reservation ends with its holder, or with the last of the registrants that hold it.
    fn remove(&mut self, is_meant: impl Fn(&RegisteredHost) -> bool) {
        self.registrants.retain(|it| !is_meant(it));
        self.held = self.held.and_then(|(kind, holder)| match kind.is_held_by_all() {
            true => self.registrants.first().map(|first| (kind, first.host)),
            false => self.is_host_registered(holder).then_some((kind, holder)),
        });
    }

    /// Returns a notice to each registrant but one.
    fn notices(&self, but: ReservingHost, kind: ReservationNoticeKind) -> Vec<Notice> {
        self.registrants.iter().filter(|it| it.host != but).map(|it| (it.host, kind)).collect()
    }

    /// Checks that the host is registered with this key.
    fn check_registration_key(&self, host: ReservingHost, key: u64) -> Result<(), Status> {
        let is_known = self.registrants.contains(&RegisteredHost { host, key });
        if is_known { Ok(()) } else { Err(Status::RESERVATION_CONFLICT) }
    }

    fn is_host_registered(&self, host: ReservingHost) -> bool {
        self.registrants.iter().any(|it| it.host == host)
    }

    fn is_holder(&self, host: ReservingHost) -> bool {
        match self.held {
            Some((kind, _)) if kind.is_held_by_all() => self.is_host_registered(host),
            Some((_, holder)) => holder == host,
            None => false,
        }
    }

    /// Returns the report of registrants and reservation, with host identifiers of 128 bits if `is_long`, as many bytes
    /// as the host has asked for. A host with an identifier may come on any controller.
    pub fn report(&self, bytes: u32, is_long: bool) -> Vec<u8> {
        let kind = self.held.map_or(0, |(kind, _)| kind.number());
        let count = u16::try_from(self.registrants.len()).unwrap_or(u16::MAX);
        let status = ReservationStatus::zeros()
            .with(ReservationStatus::GENERATION, self.generation)
            .with(ReservationStatus::TYPE, kind)
            .with(ReservationStatus::REGISTRANTS, count)
            .with(ReservationStatus::PERSISTS, self.persists.into());
        let mut report = status.into_bytes().to_vec();
        if is_long {
            report.resize(LongReservationStatus::BYTES, 0);
        }
        for RegisteredHost { host, key } in &self.registrants {
            let (controller, is_holder, id) = (host.controller(), self.is_holder(*host), host.id());
            match is_long {
                true => report.extend(
                    LongRegisteredController::zeros()
                        .with(LongRegisteredController::CONTROLLER, controller)
                        .with(LongRegisteredController::IS_HOLDER, is_holder)
                        .with(LongRegisteredController::KEY, *key)
                        .with(LongRegisteredController::HOST, id)
                        .into_bytes(),
                ),
                false => report.extend(
                    RegisteredController::zeros()
                        .with(RegisteredController::CONTROLLER, controller)
                        .with(RegisteredController::IS_HOLDER, is_holder)
                        .with(RegisteredController::HOST, *id.first_chunk().unwrap_or(&[0; 8]))
                        .with(RegisteredController::KEY, *key)
                        .into_bytes(),
                ),
            }
        }
        report.resize(wide_index(bytes.into()), 0);
        report
    }

    /// Encodes what persists through power loss: generation, type, number of the holder, and the registrants that have an
    /// identifier.
    pub fn encode(&self) -> Vec<u8> {
        let has_id = |it: &&RegisteredHost| !matches!(it.host, ReservingHost::OfController(_));
        let registrants: Vec<&RegisteredHost> = self.registrants.iter().filter(has_id).collect();
        let place_of = |holder| registrants.iter().position(|it| it.host == holder);
        let held = self.held.and_then(|(kind, holder)| Some((kind, place_of(holder)?)));
        let (kind, holder) = held.map_or((0, 0), |(kind, place)| (kind.number(), place));
        let mut record = self.generation.to_le_bytes().to_vec();
        record.extend([kind, self.persists.into()]);
        record.extend(u16::try_from(holder).unwrap_or(0).to_le_bytes());
        for RegisteredHost { host, key } in registrants {
            record.push(matches!(host, ReservingHost::Named(_)).into());
            record.extend(host.id());
            record.extend(key.to_le_bytes());
        }
        record
    }

    /// Decodes what has persisted through power loss: nothing but the setting itself, unless the setting says so. None if
    /// the record is damaged.
    pub fn decode(record: &[u8]) -> Option<Reservations> {
        let (generation, rest) = record.split_first_chunk()?;
        let ([kind, persists, low, high], rest) = rest.split_first_chunk()?;
        let (records, []) = rest.as_chunks::<RECORD_BYTES>() else { return None };
        let registrant = |record: &[u8; RECORD_BYTES]| {
            let ([is_long], rest) = record.split_first_chunk()?;
            let (id, key) = rest.split_first_chunk::<HOST_BYTES>()?;
            let host = match is_long {
                0 => ReservingHost::NamedShortly(*id.first_chunk()?),
                _ => ReservingHost::Named(*id),
            };
            Some(RegisteredHost { host, key: u64::from_le_bytes(*key.first_chunk()?) })
        };
        let registrants: Vec<RegisteredHost> = records.iter().map(registrant).collect::<Option<_>>()?;
        let held = match kind {
            0 => None,
            kind => {
                let holder = registrants.get(usize::from(u16::from_le_bytes([*low, *high])))?;
                Some((ReservationType::of((*kind).into()).ok()?, holder.host))
            }
        };
        let persists = *persists == 1;
        let kept = Reservations { generation: u32::from_le_bytes(*generation), registrants, held, persists };
        let is_valid = kept.registrants.len() <= REGISTRANTS_MAX;
        is_valid.then(|| if persists { kept } else { Reservations { persists, ..Reservations::default() } })
    }
}

#[cfg(test)]
mod tests;
