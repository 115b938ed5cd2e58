//! Reservations of a drive's namespaces, which all of its controllers share, and the notices that they send to hosts
//! (Base Specification 2.0, section 8.19). The core's [rules](phaselink_core::protocol::nvme::rules::reservation) decide.
//!
//! Each controller keeps, with its view of the namespaces, what a reservation leaves to its host. A change raises the
//! version of the subsystem, so that all views are read anew and commands that were checked before are checked again.
//! Commands that are being executed end before the change is reported ([`CommandGate`](crate::device::gate::CommandGate)).

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;

use phaselink_core::number::{index, length, short_length};
use phaselink_core::protocol::nvme::rules::reservation::{
    AcquireAction, NamespaceAccess, Notice, ReservationCommand, ReservationKeys, ReservationNoticeKind, Reservations,
    ReservingHost,
};
use phaselink_core::protocol::nvme::spec::Status;

use super::image::{ImageField, ImageReader, ImageRefusal, image_fields};
use crate::device::store::{StateRecordTag, Store};
use crate::device::tally::locked;
use crate::planted::{PlantableBug, is_planted};

/// Number of notices that controllers can fetch; older ones are counted as lost.
const NOTICES_MAX: usize = 256;

/// Notice to a host about a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostNamespaceNotice {
    /// Host that is told.
    pub host: ReservingHost,
    /// What has happened.
    pub kind: ReservationNoticeKind,
    /// Namespace (NSID).
    pub namespace: u32,
}

image_fields!(HostNamespaceNotice { host, kind, namespace });

impl Default for HostNamespaceNotice {
    fn default() -> HostNamespaceNotice {
        let (host, kind) = (ReservingHost::OfController(0), ReservationNoticeKind::RegistrationPreempted);
        HostNamespaceNotice { host, kind, namespace: 0 }
    }
}

/// Reservations of all namespaces, with their notices and the commands that they have aborted.
#[derive(Debug, Default)]
struct SharedReservationState {
    /// Reservations of namespace n at index n - 1. Namespaces beyond the end have none.
    of: Vec<Reservations>,
    /// Hosts whose commands another host has aborted, each with its namespace and the version of the subsystem from
    /// which on its commands count as new.
    aborted: Vec<(ReservingHost, u32, u64)>,
    /// Latest notices, the oldest first.
    notices: VecDeque<HostNamespaceNotice>,
    /// Number of all notices so far.
    noticed: u64,
}

/// Reservations of all namespaces of a drive.
#[derive(Debug, Default)]
pub struct NamespaceReservations {
    state: Mutex<SharedReservationState>,
}

/// What reservations leave to a host in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostReservationAccess {
    /// Access that the reservation leaves to the host.
    pub access: NamespaceAccess,
    /// Version of the subsystem before which the host's commands have been aborted; 0 if they have not.
    pub aborted_before: u64,
}

impl NamespaceReservations {
    /// Executes a command that changes the reservations of a namespace. `version` is that of the subsystem after the
    /// change.
    ///
    /// # Errors
    /// As [`Reservations::execute`], and Write Fault if the store does not take what must persist through power loss.
    pub fn execute(
        &self,
        namespace: u32,
        command: ReservationCommand,
        keys: ReservationKeys,
        host: ReservingHost,
        (version, store): (u64, &Store),
    ) -> Result<(), Status> {
        let mut state = locked(&self.state);
        let place = index(namespace.wrapping_sub(1));
        if state.of.len() <= place {
            state.of.resize(place + 1, Reservations::default());
        }
        let before = state.of[place].clone();
        let notices = state.of[place].execute(command, keys, host)?;
        let must_persist = before.persists() || state.of[place].persists();
        if must_persist && save(&state, store).is_err() {
            state.of[place] = before;
            return Err(Status::WRITE_FAULT);
        }
        if matches!(command, ReservationCommand::Acquire { action: AcquireAction::PreemptAndAbort, .. }) {
            let preempted = notices.iter().filter(|(_, kind)| *kind == ReservationNoticeKind::RegistrationPreempted);
            for (host, _) in preempted.copied().collect::<Vec<Notice>>() {
                state.aborted.retain(|(of, id, _)| (*of, *id) != (host, namespace));
                state.aborted.push((host, namespace, version));
            }
        }
        state.tell(namespace, notices);
        Ok(())
    }

    /// Returns the report of a namespace, in as many bytes as the host has asked for.
    pub fn report(&self, namespace: u32, bytes: u32, is_long: bool) -> Vec<u8> {
        let state = locked(&self.state);
        let none = Reservations::default();
        state.of.get(index(namespace.wrapping_sub(1))).unwrap_or(&none).report(bytes, is_long)
    }

    /// Appends the reservations and their notices to the image of a drive.
    pub(super) fn put_image(&self, image: &mut Vec<u8>) {
        locked(&self.state).put(image);
    }

    /// Replaces the reservations by those of another one of the same drive.
    pub(super) fn replace_by(&self, other: &NamespaceReservations) {
        std::mem::swap(&mut *locked(&self.state), &mut *locked(&other.state));
    }

    /// Reads the reservations of an image.
    ///
    /// # Errors
    /// If they are incomplete or invalid.
    pub(super) fn of_image(image: &mut ImageReader<'_>) -> Result<NamespaceReservations, ImageRefusal> {
        Ok(NamespaceReservations { state: Mutex::new(image.field()?) })
    }

    /// Returns what reservations leave to a host in a namespace.
    pub fn access(&self, namespace: u32, host: ReservingHost) -> HostReservationAccess {
        let state = locked(&self.state);
        let access =
            state.of.get(index(namespace.wrapping_sub(1))).map_or(NamespaceAccess::Write, |it| it.access(host));
        let aborted = state.aborted.iter().find(|(of, id, _)| (*of, *id) == (host, namespace));
        let is_admitted = is_planted(PlantableBug::AbortedAdmitted) && aborted.is_some();
        let access = if is_admitted { NamespaceAccess::Write } else { access };
        HostReservationAccess { access, aborted_before: aborted.map_or(0, |(_, _, version)| *version) }
    }

    /// Unregisters a host that is gone for good from all namespaces. Returns true if it was registered anywhere.
    pub fn forget(&self, host: ReservingHost) -> bool {
        let mut state = locked(&self.state);
        let mut any = false;
        for place in 0..state.of.len() {
            let before = state.of[place].clone();
            let notices = state.of[place].forget(host);
            any |= state.of[place] != before;
            state.tell(short_length(place) + 1, notices);
        }
        any
    }

    /// Drops the reservations of a namespace that is deleted, or of all of them.
    pub fn delete(&self, is_meant: impl Fn(u32) -> bool) {
        let mut state = locked(&self.state);
        let meant = (1..).zip(&mut state.of).filter(|(id, _)| is_meant(*id));
        meant.for_each(|(_, reservations)| *reservations = Reservations::default());
    }

    /// Returns true if reservations of a namespace persist through power loss.
    pub fn persists(&self, namespace: u32) -> bool {
        locked(&self.state).of.get(index(namespace.wrapping_sub(1))).is_some_and(Reservations::persists)
    }

    /// Sets whether reservations persist through power loss, of the first `namespaces` namespaces for which `is_meant`
    /// is true.
    pub fn set_persists(&self, persists: bool, namespaces: u32, is_meant: impl Fn(u32) -> bool) {
        let mut state = locked(&self.state);
        let count = state.of.len().max(index(namespaces));
        state.of.resize(count, Reservations::default());
        let meant = (1..).zip(&mut state.of).filter(|(id, _)| is_meant(*id));
        meant.for_each(|(_, reservations)| reservations.set_persists(persists));
    }

    /// Saves in the store what persists through power loss.
    ///
    /// # Errors
    /// If the store does not take the record.
    pub fn save(&self, store: &Store) -> io::Result<()> {
        save(&locked(&self.state), store)
    }

    /// Restores what the store has saved. A damaged record counts as none.
    pub fn load(&self, store: &Store) {
        let Some(record) = store.record(StateRecordTag::Reservations) else { return };
        if is_planted(PlantableBug::ReservationsLost) {
            return;
        }
        locked(&self.state).of = decode(&record).unwrap_or_default();
    }

    /// Returns the number of all notices so far, and those after the first `known` that are for a host.
    pub fn host_notices_after(&self, known: u64, host: ReservingHost) -> (u64, Vec<HostNamespaceNotice>) {
        let state = locked(&self.state);
        let kept_from = state.noticed - length(state.notices.len());
        let unknown = (kept_from..).zip(&state.notices).filter(|(number, it)| *number >= known && it.host == host);
        (state.noticed, unknown.map(|(_, notice)| *notice).collect())
    }
}

/// Encodes the reservations of all namespaces with their notices. The commands that they have aborted have ended.
impl ImageField for SharedReservationState {
    fn put(&self, image: &mut Vec<u8>) {
        let of: Vec<Vec<u8>> = match is_planted(PlantableBug::ReservationsUnmoved) {
            true => Vec::new(),
            false => self.of.iter().map(Reservations::encode_all).collect(),
        };
        of.put(image);
        self.notices.put(image);
        self.noticed.put(image);
    }

    fn fill(&mut self, image: &mut ImageReader<'_>) -> Result<(), ImageRefusal> {
        let of: Option<Vec<Reservations>> =
            image.field::<Vec<Vec<u8>>>()?.iter().map(|record| Reservations::decode_all(record)).collect();
        self.of = of.ok_or_else(|| ImageRefusal::of_field("a reservation"))?;
        self.notices.fill(image)?;
        self.noticed.fill(image)?;
        let is_valid = self.notices.len() <= NOTICES_MAX && length(self.notices.len()) <= self.noticed;
        is_valid.then_some(()).ok_or_else(|| ImageRefusal::of_field("the list of reservation notices"))
    }
}

impl SharedReservationState {
    fn tell(&mut self, namespace: u32, notices: Vec<Notice>) {
        for (host, kind) in notices {
            if is_planted(PlantableBug::NoticeLost) && kind == ReservationNoticeKind::RegistrationPreempted {
                continue;
            }
            if self.notices.len() == NOTICES_MAX {
                self.notices.pop_front();
            }
            self.notices.push_back(HostNamespaceNotice { host, kind, namespace });
            self.noticed += 1;
        }
    }
}

/// Saves the reservations of all namespaces: the length of each, and the reservations themselves.
fn save(state: &SharedReservationState, store: &Store) -> io::Result<()> {
    let mut record = Vec::new();
    for reservations in &state.of {
        let encoded = reservations.encode();
        record.extend(short_length(encoded.len()).to_le_bytes());
        record.extend(encoded);
    }
    store.save_state_record(StateRecordTag::Reservations, record)
}

fn decode(mut record: &[u8]) -> Option<Vec<Reservations>> {
    let mut of = Vec::new();
    while let Some((bytes, rest)) = record.split_first_chunk() {
        let (encoded, others) = rest.split_at_checked(index(u32::from_le_bytes(*bytes)))?;
        of.push(Reservations::decode(encoded)?);
        record = others;
    }
    record.is_empty().then_some(of)
}

#[cfg(test)]
mod tests {
    use phaselink_core::protocol::nvme::rules::reservation::{RegisterAction, ReservationType};

    use super::*;
    use crate::device::store::Geometry;

    const A: ReservingHost = ReservingHost::Named([1; 16]);
    const B: ReservingHost = ReservingHost::Named([2; 16]);

    fn register(persists: bool) -> ReservationCommand {
        ReservationCommand::Register { action: RegisterAction::Register, ignores_key: false, persists: Some(persists) }
    }

    fn key(key: u64) -> ReservationKeys {
        ReservationKeys { current: key, other: key }
    }

    #[test]
    fn persistent_reservations_outlive_the_server() {
        let store = Store::in_memory(Geometry { capacity_bytes: 1 << 20, block_bytes: 512 }).unwrap();
        for persists in [false, true] {
            let before = NamespaceReservations::default();
            before.execute(2, register(persists), key(7), A, (1, &store)).unwrap();
            let kind = ReservationType::ExclusiveAccess;
            let acquire = ReservationCommand::Acquire { action: AcquireAction::Acquire, kind };
            before.execute(2, acquire, key(7), A, (2, &store)).unwrap();
            let after = NamespaceReservations::default();
            after.load(&store);
            let left = if persists { NamespaceAccess::None } else { NamespaceAccess::Write };
            assert_eq!((after.access(2, B).access, after.access(2, A).access), (left, NamespaceAccess::Write));
            assert_eq!((after.access(1, B).access, after.persists(2)), (NamespaceAccess::Write, persists));
        }
        store.save_state_record(StateRecordTag::Reservations, vec![9, 0, 0, 0, 1]).unwrap();
        let damaged = NamespaceReservations::default();
        damaged.load(&store);
        assert_eq!(damaged.access(2, B).access, NamespaceAccess::Write);
    }

    #[test]
    fn preempted_host_is_notified_once_and_its_commands_abort() {
        let store = Store::in_memory(Geometry { capacity_bytes: 1 << 20, block_bytes: 512 }).unwrap();
        let reservations = NamespaceReservations::default();
        reservations.execute(1, register(false), key(1), A, (1, &store)).unwrap();
        reservations.execute(1, register(false), key(2), B, (2, &store)).unwrap();
        let action = AcquireAction::PreemptAndAbort;
        let preempt = ReservationCommand::Acquire { action, kind: ReservationType::WriteExclusive };
        let keys = ReservationKeys { current: 1, other: 2 };
        reservations.execute(1, preempt, keys, A, (3, &store)).unwrap();
        assert_eq!(
            reservations.access(1, B),
            HostReservationAccess { access: NamespaceAccess::Write, aborted_before: 3 }
        );
        let notice = HostNamespaceNotice { host: B, kind: ReservationNoticeKind::RegistrationPreempted, namespace: 1 };
        assert_eq!(reservations.host_notices_after(0, B), (1, vec![notice]));
        assert_eq!(reservations.host_notices_after(1, B), (1, vec![]));
        assert_eq!(reservations.host_notices_after(0, A), (1, vec![]));
    }
}
