//! Flexible data placement of a served drive: reclaim unit handles of its namespaces, enabled and past events, and the
//! media writes that host writes cause.
//!
//! A [translation layer](UntimedPlacedDrive) counts media writes beside the stored bytes, with timing on or off. It is the
//! layer of the simulated drive, but without dies and time. It starts as that of an empty drive whenever the server
//! starts.

use std::collections::VecDeque;
use std::sync::Mutex;

use phaselink_core::media::translation::{PlacedStatistics, UntimedPlacedDrive};
use phaselink_core::number::{index, low_u8};
use phaselink_core::protocol::nvme::rules::placement::UnitReceive;
use phaselink_core::protocol::nvme::rules::placement_logs::{
    EVENTS_MAX, PlacementEvent, PlacementEventKind, ReclaimHandleUse,
};
use phaselink_core::protocol::nvme::rules::{PlacementLimits, WriteReclaimPlacement};
use phaselink_core::protocol::nvme::spec::Status;

use crate::device::tally::locked;

/// Flag in a store's record of a namespace: the host has chosen its handles. `IS_DIRECTED` says that the Data Placement
/// directive is enabled.
const OF_HOST: u8 = 1;
const IS_DIRECTED: u8 = 2;

/// Reclaim unit handles that a namespace uses, and the state of its Data Placement directive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamespaceReclaimHandles {
    /// Reclaim unit handle of each placement handle, by its index.
    unit_handles: Vec<u8>,
    /// True if the host has chosen the handles when it created the namespace.
    is_of_host: bool,
    /// True if the Data Placement directive is enabled.
    is_directed: bool,
}

/// Data placement of a drive: its limits, and the state that all controllers share.
#[derive(Debug)]
pub struct Placement {
    limits: PlacementLimits,
    state: Mutex<SharedPlacementState>,
}

/// State of data placement that all controllers of a drive share.
#[derive(Debug)]
struct SharedPlacementState {
    is_enabled: bool,
    drive: UntimedPlacedDrive,
    /// Handles of namespace n at index n - 1; none if the namespace does not exist or was created while data placement
    /// was disabled.
    namespaces: Vec<Option<NamespaceReclaimHandles>>,
    /// Bits of the event types that are enabled, for each reclaim unit handle.
    enabled_events: Vec<u8>,
    /// Events of hosts, the oldest first; `controller_events` are those of the controller.
    host_events: VecDeque<PlacementEvent>,
    controller_events: VecDeque<PlacementEvent>,
}

impl Placement {
    /// Returns the state of a drive with this number of namespaces, each of which may use all reclaim unit handles.
    pub fn new(limits: &PlacementLimits, namespaces: u32) -> Placement {
        let handles = limits.streams.handles;
        let all = NamespaceReclaimHandles { unit_handles: (0..handles).collect(), is_of_host: true, is_directed: true };
        let state = SharedPlacementState {
            is_enabled: true,
            drive: UntimedPlacedDrive::new(limits.shape, limits.unit_bytes),
            namespaces: vec![Some(all); index(namespaces)],
            enabled_events: vec![0; handles.into()],
            host_events: VecDeque::new(),
            controller_events: VecDeque::new(),
        };
        Placement { limits: *limits, state: Mutex::new(state) }
    }

    /// Returns the data placement limits of the whole drive, from its description.
    pub fn limits(&self) -> &PlacementLimits {
        &self.limits
    }

    /// Returns the data placement limits of one namespace: number of its handles, and if placement and the directive
    /// are enabled.
    pub fn placement_limits_of(&self, namespace: u32) -> PlacementLimits {
        let state = locked(&self.state);
        let own = state.handles(namespace);
        PlacementLimits {
            handles: own.map_or(0, |own| own.unit_handles.len() as u8),
            is_enabled: state.is_enabled && own.is_some(),
            is_directed: own.is_some_and(|own| own.is_directed),
            ..self.limits
        }
    }

    /// True if data placement and the directive are enabled and the namespace's placement handles equal the drive's
    /// reclaim unit handles, as the drive description says.
    pub fn is_plain(&self, namespace: u32) -> bool {
        let state = locked(&self.state);
        let is_all = |own: &NamespaceReclaimHandles| {
            own.is_directed && own.unit_handles.iter().copied().eq(0..self.limits.streams.handles)
        };
        state.is_enabled && state.handles(namespace).is_some_and(is_all)
    }

    /// Returns the reclaim unit handles of a namespace's placement handles.
    #[cold]
    pub fn unit_handles(&self, namespace: u32) -> Vec<u8> {
        locked(&self.state).handles(namespace).map_or_else(Vec::new, |own| own.unit_handles.clone())
    }

    /// Counts a write to a namespace, from `offset` of the drive on, and records the placement events that it causes.
    /// `identifier` is the placement identifier in the command.
    pub fn write(
        &self,
        namespace: u32,
        placement: WriteReclaimPlacement,
        identifier: u16,
        (offset, bytes): (u64, u64),
    ) {
        let mut state = locked(&self.state);
        let unit_handle = state.unit_handle(namespace, placement.handle);
        if placement.is_invalid {
            state.record_placement_event(
                unit_handle,
                PlacementEvent {
                    kind: PlacementEventKind::InvalidIdentifier,
                    identifier: Some(identifier),
                    namespace: Some(namespace),
                    location: Some((placement.group, unit_handle)),
                    timestamp: [0; 8],
                    blocks_moved: 0,
                },
            );
        }
        let streams = self.limits.streams;
        for moved in state.drive.write(offset, bytes, streams.stream(placement.group, unit_handle)) {
            state.record_moved_data(&self.limits, moved.stream, moved.bytes);
        }
    }

    /// Tells the translation layer that a range of the drive, in bytes, is deallocated.
    pub fn discard(&self, offset: u64, bytes: u64) {
        locked(&self.state).drive.discard(offset, bytes);
    }

    /// Returns the report of I/O Management Receive about the reclaim units of a namespace with blocks of
    /// 2^`block_shift` bytes.
    pub fn report(&self, receive: UnitReceive, namespace: u32, block_shift: u32) -> Vec<u8> {
        let limits = self.placement_limits_of(namespace);
        let state = locked(&self.state);
        let unit_handles = state.handles(namespace).map_or(&[][..], |own| &own.unit_handles);
        let streams = self.limits.streams;
        let room = |group, unit_handle| state.drive.room_bytes(streams.stream(group, unit_handle)) >> block_shift;
        receive.report(&limits, unit_handles, room)
    }

    /// Makes the listed pairs of reclaim group and placement handle of a namespace refer to new reclaim units. Records
    /// an event for each unit that was not full.
    pub fn renew(&self, namespace: u32, listed: &[(u8, u8)]) {
        let mut state = locked(&self.state);
        for (group, handle) in listed.iter().copied() {
            let unit_handle = state.unit_handle(namespace, handle);
            let streams = self.limits.streams;
            if state.drive.renew(streams.stream(group, unit_handle)) > 0 {
                state.record_placement_event(
                    unit_handle,
                    PlacementEvent {
                        kind: PlacementEventKind::NotFullyWritten,
                        identifier: Some(self.limits.identifier(group, handle)),
                        namespace: Some(namespace),
                        location: Some((group, unit_handle)),
                        timestamp: [0; 8],
                        blocks_moved: 0,
                    },
                );
            }
        }
    }

    /// True if data placement is enabled in the endurance group.
    pub fn is_enabled(&self) -> bool {
        locked(&self.state).is_enabled
    }

    /// Enables or disables data placement in the endurance group. A change clears events and statistics.
    ///
    /// # Errors
    ///
    /// Command Sequence Error for a change while namespaces exist.
    pub fn enable(&self, is_enabled: bool, has_namespaces: bool) -> Result<(), Status> {
        let mut state = locked(&self.state);
        if state.is_enabled == is_enabled {
            return Ok(());
        }
        if has_namespaces {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        state.is_enabled = is_enabled;
        state.drive = UntimedPlacedDrive::new(self.limits.shape, self.limits.unit_bytes);
        state.enabled_events.fill(0);
        state.host_events.clear();
        state.controller_events.clear();
        Ok(())
    }

    /// Enables or disables the Data Placement directive of a namespace.
    ///
    /// # Errors
    ///
    /// FDP Disabled if data placement is disabled, or the namespace was created without it.
    pub fn direct(&self, namespace: u32, is_directed: bool) -> Result<(), Status> {
        let mut state = locked(&self.state);
        let is_enabled = state.is_enabled;
        let own = state.namespaces.get_mut(index(namespace.wrapping_sub(1))).and_then(Option::as_mut);
        let own = own.filter(|_| is_enabled).ok_or(Status::PLACEMENT_DISABLED)?;
        own.is_directed = is_directed;
        Ok(())
    }

    /// Replaces the types of events that are enabled for a placement handle of a namespace by the result of `change`,
    /// and returns them as bits.
    ///
    /// # Errors
    ///
    /// FDP Disabled if data placement is disabled. Invalid Field if the namespace does not have the handle.
    pub fn event_types(&self, namespace: u32, handle: u16, change: impl FnOnce(u8) -> u8) -> Result<u8, Status> {
        let mut state = locked(&self.state);
        let own = state.handles(namespace).filter(|_| state.is_enabled).ok_or(Status::PLACEMENT_DISABLED)?;
        let unit_handle = *own.unit_handles.get(usize::from(handle)).ok_or(Status::INVALID_FIELD)?;
        let types = &mut state.enabled_events[usize::from(unit_handle)];
        *types = change(*types);
        Ok(*types)
    }

    /// Returns the reclaim unit handles for a namespace to be created: those of `list`, or one that the controller
    /// chooses if `list` is empty. None if data placement is disabled. `differs` is true for namespaces whose LBA
    /// format is not that of the new one.
    ///
    /// # Errors
    ///
    /// Invalid Placement Handle List for handles that do not exist, come twice, or are in use by the controller's
    /// choice. Invalid Format if a namespace of another format uses one of them.
    pub fn choose(&self, list: &[u16], differs: impl Fn(u32) -> bool) -> Result<Option<Vec<u8>>, Status> {
        let state = locked(&self.state);
        if !state.is_enabled {
            return Ok(None);
        }
        let uses = state.uses();
        if list.is_empty() {
            let of_controller = uses.iter().position(|it| *it == ReclaimHandleUse::OfController);
            let chosen = of_controller.or_else(|| uses.iter().position(|it| *it == ReclaimHandleUse::Unused));
            return chosen.map(|chosen| Some(vec![chosen as u8])).ok_or(Status::INVALID_PLACEMENT_HANDLES);
        }
        let is_wrong = |(place, handle): (usize, &u16)| {
            let known = uses.get(usize::from(*handle));
            known.is_none_or(|it| *it == ReclaimHandleUse::OfController) || list[..place].contains(handle)
        };
        if list.iter().enumerate().any(is_wrong) {
            return Err(Status::INVALID_PLACEMENT_HANDLES);
        }
        let chosen: Vec<u8> = list.iter().map(|handle| low_u8(*handle)).collect();
        let shares = |own: &NamespaceReclaimHandles| own.unit_handles.iter().any(|handle| chosen.contains(handle));
        let mut others = (1..).zip(&state.namespaces).filter(|(_, own)| own.as_ref().is_some_and(shares));
        if others.any(|(id, _)| differs(id)) {
            return Err(Status::INVALID_FORMAT);
        }
        Ok(Some(chosen))
    }

    /// Records the reclaim unit handles of a namespace that has been created; none without data placement. `is_of_host`
    /// is true if the host has chosen them.
    pub fn create(&self, namespace: u32, chosen: Option<Vec<u8>>, is_of_host: bool) {
        let mut state = locked(&self.state);
        let place = index(namespace.wrapping_sub(1));
        if state.namespaces.len() <= place {
            state.namespaces.resize(place + 1, None);
        }
        state.namespaces[place] =
            chosen.map(|unit_handles| NamespaceReclaimHandles { unit_handles, is_of_host, is_directed: true });
    }

    /// Removes the handles of the namespaces for which `is_deleted` is true.
    pub fn delete(&self, is_deleted: impl Fn(u32) -> bool) {
        let mut state = locked(&self.state);
        for (id, own) in (1..).zip(&mut state.namespaces) {
            if is_deleted(id) {
                *own = None;
            }
        }
    }

    /// Returns the use of each reclaim unit handle: unused, chosen by a host, or chosen by the controller.
    pub fn uses(&self) -> Vec<ReclaimHandleUse> {
        locked(&self.state).uses()
    }

    /// Returns the bytes written by hosts, written to media and erased since the server started or data placement was
    /// enabled or disabled.
    pub fn statistics(&self) -> PlacedStatistics {
        locked(&self.state).drive.statistics()
    }

    /// Returns the size of a reclaim unit in bytes.
    pub fn reclaim_unit_bytes(&self) -> u64 {
        locked(&self.state).drive.reclaim_unit_bytes()
    }

    /// Returns the recorded events of hosts, or else those of the controller, the oldest first.
    pub fn events(&self, of_hosts: bool) -> Vec<PlacementEvent> {
        let state = locked(&self.state);
        let events = if of_hosts { &state.host_events } else { &state.controller_events };
        events.iter().copied().collect()
    }

    /// Returns a description of the first error in the translation layer's mapping, or none if it is consistent.
    pub fn inconsistency(&self) -> Option<String> {
        locked(&self.state).drive.layer().inconsistency()
    }

    /// Returns the store's record of data placement: if it is enabled, the enabled events, and the handles of each
    /// namespace.
    pub fn encode(&self) -> Vec<u8> {
        let state = locked(&self.state);
        let mut record = vec![u8::from(state.is_enabled), state.enabled_events.len() as u8];
        record.extend(&state.enabled_events);
        for own in &state.namespaces {
            let Some(own) = own else {
                record.extend([0, 0]);
                continue;
            };
            let flags = (u8::from(own.is_of_host) * OF_HOST) | (u8::from(own.is_directed) * IS_DIRECTED);
            record.extend([own.unit_handles.len() as u8, flags]);
            record.extend(&own.unit_handles);
        }
        record
    }

    /// Restores data placement from a store's record. Returns false, with nothing changed, if the record does not fit
    /// the drive.
    pub fn load(&self, record: &[u8]) -> bool {
        let handles = self.limits.streams.handles;
        let Some((&[is_enabled, count], rest)) = record.split_first_chunk() else { return false };
        let Some((enabled_events, mut rest)) = rest.split_at_checked(count.into()) else { return false };
        let mut namespaces = Vec::new();
        while let Some((&[count, flags], list)) = rest.split_first_chunk() {
            let Some((unit_handles, behind)) = list.split_at_checked(count.into()) else { return false };
            let own = NamespaceReclaimHandles {
                unit_handles: unit_handles.to_vec(),
                is_of_host: flags & OF_HOST != 0,
                is_directed: flags & IS_DIRECTED != 0,
            };
            namespaces.push((count > 0).then_some(own));
            rest = behind;
        }
        let mut lists = namespaces.iter().flatten();
        if count != handles || !rest.is_empty() || !lists.all(|own| own.unit_handles.iter().all(|it| *it < handles)) {
            return false;
        }
        let mut state = locked(&self.state);
        (state.is_enabled, state.namespaces) = (is_enabled == 1, namespaces);
        state.enabled_events = enabled_events.to_vec();
        true
    }
}

impl SharedPlacementState {
    fn handles(&self, namespace: u32) -> Option<&NamespaceReclaimHandles> {
        self.namespaces.get(index(namespace.wrapping_sub(1)))?.as_ref()
    }

    /// Returns the reclaim unit handle of a namespace's placement handle, or 0 if the namespace does not have it.
    fn unit_handle(&self, namespace: u32, handle: u8) -> u8 {
        let known = self.handles(namespace).and_then(|own| own.unit_handles.get(usize::from(handle)));
        known.copied().unwrap_or(0)
    }

    fn uses(&self) -> Vec<ReclaimHandleUse> {
        let mut uses = vec![ReclaimHandleUse::Unused; self.enabled_events.len()];
        for own in self.namespaces.iter().flatten() {
            let kind = if own.is_of_host { ReclaimHandleUse::OfHost } else { ReclaimHandleUse::OfController };
            own.unit_handles.iter().for_each(|handle| uses[usize::from(*handle)] = kind);
        }
        uses
    }

    /// Records an event if its type is enabled for the reclaim unit handle. A full log drops its oldest event.
    fn record_placement_event(&mut self, unit_handle: u8, event: PlacementEvent) {
        if !self.is_enabled || self.enabled_events[usize::from(unit_handle)] & event.kind.bit() == 0 {
            return;
        }
        let events = if event.kind.is_of_host() { &mut self.host_events } else { &mut self.controller_events };
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// Records a Media Reallocated event after garbage collection has moved bytes to a stream. With initially isolated
    /// handles, that stream has data of all handles of its group, so the event names none.
    fn record_moved_data(&mut self, limits: &PlacementLimits, stream: u8, bytes: u64) {
        let streams = limits.streams;
        let is_of_one = streams.moved_stream_count() == streams.user();
        let first = if is_of_one { stream % streams.handles } else { 0 };
        let handles = if is_of_one { first..first + 1 } else { 0..streams.handles };
        let kind = PlacementEventKind::MediaReallocated;
        let enabled = handles.clone().find(|it| self.enabled_events[usize::from(*it)] & kind.bit() != 0);
        let Some(handle) = enabled else { return };
        self.record_placement_event(
            handle,
            PlacementEvent {
                kind,
                identifier: None,
                namespace: None,
                location: is_of_one.then_some((stream / streams.handles, first)),
                timestamp: [0; 8],
                blocks_moved: bytes / u64::from(limits.unit_bytes),
            },
        );
    }
}
