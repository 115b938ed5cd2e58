//! Flexible data placement of a served drive: what its namespaces have of handles, which events are enabled and have happened, and what
//! writes cost the cells.
//!
//! Costs are counted by a [translation layer](PlacedDrive) beside the bytes, with timing on as with timing off: the same layer as that
//! of the simulated drive, but without dies and time. It begins as that of an empty drive whenever the server starts.

use std::collections::VecDeque;
use std::sync::Mutex;

use phaselink_core::media::translation::{PlacedDrive, PlacedStatistics};
use phaselink_core::protocol::nvme::rules::placement::UnitReceive;
use phaselink_core::protocol::nvme::rules::placement_logs::{
    EVENTS_MAX, HandleUse, PlacementEvent, PlacementEventKind,
};
use phaselink_core::protocol::nvme::rules::{PlacementLimits, WritePlacement};
use phaselink_core::protocol::nvme::spec::Status;

use crate::device::tally::locked;

/// Bits of the flags of a namespace in the record of a store.
const OF_HOST: u8 = 1;
const IS_DIRECTED: u8 = 2;

/// Placement handles of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamespaceHandles {
    /// Reclaim unit handle of each placement handle.
    unit_handles: Vec<u8>,
    /// True if the host has chosen them.
    is_of_host: bool,
    /// True if the Data Placement directive is enabled.
    is_directed: bool,
}

/// State of data placement that all controllers of a drive share.
#[derive(Debug)]
pub struct Placement {
    limits: PlacementLimits,
    state: Mutex<PlacementState>,
}

#[derive(Debug)]
struct PlacementState {
    is_enabled: bool,
    drive: PlacedDrive,
    /// Handles of the namespaces by their identifiers, counted from 1; none if a namespace has been created without data placement.
    namespaces: Vec<Option<NamespaceHandles>>,
    /// Types of events that are enabled, for each reclaim unit handle.
    enabled_events: Vec<u8>,
    /// Events of hosts, and those of the controller, the oldest ones first.
    host_events: VecDeque<PlacementEvent>,
    controller_events: VecDeque<PlacementEvent>,
}

impl Placement {
    /// Makes the state of a drive that is divided into so many namespaces, each of which has all handles.
    pub fn new(limits: &PlacementLimits, namespaces: u32) -> Placement {
        let handles = limits.shape_handles();
        let all = NamespaceHandles { unit_handles: (0..handles).collect(), is_of_host: true, is_directed: true };
        let state = PlacementState {
            is_enabled: true,
            drive: PlacedDrive::new(limits.shape, limits.unit_bytes),
            namespaces: vec![Some(all); namespaces as usize],
            enabled_events: vec![0; handles.into()],
            host_events: VecDeque::new(),
            controller_events: VecDeque::new(),
        };
        Placement { limits: *limits, state: Mutex::new(state) }
    }

    /// Returns what the drive has of data placement, as its description says.
    pub fn limits(&self) -> &PlacementLimits {
        &self.limits
    }

    /// Returns what a namespace has of data placement.
    pub fn limits_of(&self, namespace: u32) -> PlacementLimits {
        let state = locked(&self.state);
        let own = state.handles(namespace);
        PlacementLimits {
            handles: own.map_or(0, |own| own.unit_handles.len() as u8),
            is_enabled: state.is_enabled && own.is_some(),
            is_directed: own.is_some_and(|own| own.is_directed),
            ..self.limits
        }
    }

    /// True if the placement handles of a namespace are the reclaim unit handles of the drive, as its description says.
    pub fn is_plain(&self, namespace: u32) -> bool {
        let state = locked(&self.state);
        let is_all = |own: &NamespaceHandles| {
            own.is_directed && own.unit_handles.iter().copied().eq(0..self.limits.shape_handles())
        };
        state.is_enabled && state.handles(namespace).is_some_and(is_all)
    }

    /// Returns the placement identifier on a drive whose placement handles are its reclaim unit handles.
    pub fn plain_identifier(&self, namespace: u32, placement: WritePlacement) -> u16 {
        let unit_handle = locked(&self.state).unit_handle(namespace, placement.handle);
        self.limits.identifier(placement.group, unit_handle)
    }

    /// Counts a write to a namespace, from this byte of the drive on. `identifier` is the one that the command names.
    pub fn write(&self, namespace: u32, placement: WritePlacement, identifier: u16, (offset, bytes): (u64, u64)) {
        let mut state = locked(&self.state);
        let unit_handle = state.unit_handle(namespace, placement.handle);
        if placement.is_invalid {
            state.note(
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
        let Some(streams) = self.limits.shape.placement else { return };
        for moved in state.drive.write(offset, bytes, streams.stream(placement.group, unit_handle)) {
            state.note_moves(&self.limits, moved.stream, moved.bytes);
        }
    }

    /// Notes that bytes of the drive are deallocated.
    pub fn discard(&self, offset: u64, bytes: u64) {
        locked(&self.state).drive.discard(offset, bytes);
    }

    /// Returns the report of the reclaim units of a namespace with blocks of this size.
    pub fn report(&self, receive: UnitReceive, namespace: u32, block_shift: u32) -> Vec<u8> {
        let limits = self.limits_of(namespace);
        let state = locked(&self.state);
        let unit_handles = state.handles(namespace).map_or(&[][..], |own| &own.unit_handles);
        let streams = self.limits.shape.placement;
        let room = |group, unit_handle| {
            streams.map_or(0, |streams| state.drive.room_bytes(streams.stream(group, unit_handle)) >> block_shift)
        };
        receive.report(&limits, unit_handles, room)
    }

    /// Has placement handles of a namespace begin other reclaim units.
    pub fn renew(&self, namespace: u32, listed: &[(u8, u8)]) {
        let mut state = locked(&self.state);
        for (group, handle) in listed.iter().copied() {
            let unit_handle = state.unit_handle(namespace, handle);
            let Some(streams) = self.limits.shape.placement else { return };
            if state.drive.renew(streams.stream(group, unit_handle)) > 0 {
                state.note(
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
    /// Command Sequence Error for a change while there are namespaces.
    pub fn enable(&self, is_enabled: bool, has_namespaces: bool) -> Result<(), Status> {
        let mut state = locked(&self.state);
        if state.is_enabled == is_enabled {
            return Ok(());
        }
        if has_namespaces {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        state.is_enabled = is_enabled;
        state.drive = PlacedDrive::new(self.limits.shape, self.limits.unit_bytes);
        state.enabled_events.fill(0);
        state.host_events.clear();
        state.controller_events.clear();
        Ok(())
    }

    /// Enables or disables the Data Placement directive of a namespace.
    ///
    /// # Errors
    /// FDP Disabled.
    pub fn direct(&self, namespace: u32, is_directed: bool) -> Result<(), Status> {
        let mut state = locked(&self.state);
        let is_enabled = state.is_enabled;
        let own = state.namespaces.get_mut(namespace.wrapping_sub(1) as usize).and_then(Option::as_mut);
        let own = own.filter(|_| is_enabled).ok_or(Status::PLACEMENT_DISABLED)?;
        own.is_directed = is_directed;
        Ok(())
    }

    /// Returns the types of events that are enabled for a placement handle of a namespace, and sets them as `change` says.
    ///
    /// # Errors
    /// FDP Disabled; Invalid Field if there is no such handle.
    pub fn event_types(&self, namespace: u32, handle: u16, change: impl FnOnce(u8) -> u8) -> Result<u8, Status> {
        let mut state = locked(&self.state);
        let own = state.handles(namespace).filter(|_| state.is_enabled).ok_or(Status::PLACEMENT_DISABLED)?;
        let unit_handle = *own.unit_handles.get(usize::from(handle)).ok_or(Status::INVALID_FIELD)?;
        let types = &mut state.enabled_events[usize::from(unit_handle)];
        *types = change(*types);
        Ok(*types)
    }

    /// Returns the placement handles of a namespace that is to be created: those of a list, or one that the controller chooses.
    /// `shares` tells if a namespace has another format.
    ///
    /// # Errors
    /// Invalid Placement Handle List for reclaim unit handles that there are not, that come twice, or that the controller has chosen for
    /// others; Invalid Format if namespaces of another format have them.
    pub fn choose(&self, list: &[u16], differs: impl Fn(u32) -> bool) -> Result<Option<Vec<u8>>, Status> {
        let state = locked(&self.state);
        if !state.is_enabled {
            return Ok(None);
        }
        let uses = state.uses();
        if list.is_empty() {
            let of_controller = uses.iter().position(|it| *it == HandleUse::OfController);
            let chosen = of_controller.or_else(|| uses.iter().position(|it| *it == HandleUse::Unused));
            return chosen.map(|chosen| Some(vec![chosen as u8])).ok_or(Status::INVALID_PLACEMENT_HANDLES);
        }
        let is_wrong = |(place, handle): (usize, &u16)| {
            let known = uses.get(usize::from(*handle));
            known.is_none_or(|it| *it == HandleUse::OfController) || list[..place].contains(handle)
        };
        if list.iter().enumerate().any(is_wrong) {
            return Err(Status::INVALID_PLACEMENT_HANDLES);
        }
        let chosen: Vec<u8> = list.iter().map(|handle| *handle as u8).collect();
        let shares = |own: &NamespaceHandles| own.unit_handles.iter().any(|handle| chosen.contains(handle));
        let mut others = (1..).zip(&state.namespaces).filter(|(_, own)| own.as_ref().is_some_and(shares));
        if others.any(|(id, _)| differs(id)) {
            return Err(Status::INVALID_FORMAT);
        }
        Ok(Some(chosen))
    }

    /// Gives a namespace that has been created its handles: none without data placement.
    pub fn create(&self, namespace: u32, chosen: Option<Vec<u8>>, is_of_host: bool) {
        let mut state = locked(&self.state);
        let place = namespace.wrapping_sub(1) as usize;
        if state.namespaces.len() <= place {
            state.namespaces.resize(place + 1, None);
        }
        state.namespaces[place] =
            chosen.map(|unit_handles| NamespaceHandles { unit_handles, is_of_host, is_directed: true });
    }

    /// Forgets the handles of a namespace that has been deleted, or of all.
    pub fn delete(&self, is_deleted: impl Fn(u32) -> bool) {
        let mut state = locked(&self.state);
        for (id, own) in (1..).zip(&mut state.namespaces) {
            if is_deleted(id) {
                *own = None;
            }
        }
    }

    /// Returns the use of each reclaim unit handle by namespaces.
    pub fn uses(&self) -> Vec<HandleUse> {
        locked(&self.state).uses()
    }

    /// Returns what has been written, programmed and erased since the server has started, or data placement was enabled.
    pub fn statistics(&self) -> PlacedStatistics {
        locked(&self.state).drive.statistics()
    }

    /// Returns the bytes of a reclaim unit.
    pub fn reclaim_unit_bytes(&self) -> u64 {
        locked(&self.state).drive.reclaim_unit_bytes()
    }

    /// Returns the events of hosts, or those of the controller, the oldest ones first.
    pub fn events(&self, of_hosts: bool) -> Vec<PlacementEvent> {
        let state = locked(&self.state);
        let events = if of_hosts { &state.host_events } else { &state.controller_events };
        events.iter().copied().collect()
    }

    /// Returns a description of the first error in the mapping of the translation layer; `None` if there is none.
    pub fn inconsistency(&self) -> Option<String> {
        locked(&self.state).drive.layer().inconsistency()
    }

    /// Returns the record for a store: whether data placement is enabled, enabled events, and the handles of each namespace.
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

    /// Takes over a record of a store. Returns false if it does not fit the drive.
    pub fn load(&self, record: &[u8]) -> bool {
        let handles = self.limits.shape_handles();
        let Some((&[is_enabled, count], rest)) = record.split_first_chunk() else { return false };
        let Some((enabled_events, mut rest)) = rest.split_at_checked(count.into()) else { return false };
        let mut namespaces = Vec::new();
        while let Some((&[count, flags], list)) = rest.split_first_chunk() {
            let Some((unit_handles, behind)) = list.split_at_checked(count.into()) else { return false };
            let own = NamespaceHandles {
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

impl PlacementState {
    fn handles(&self, namespace: u32) -> Option<&NamespaceHandles> {
        self.namespaces.get(namespace.wrapping_sub(1) as usize)?.as_ref()
    }

    /// Returns the reclaim unit handle of a placement handle; the first one if the namespace has been created without any.
    fn unit_handle(&self, namespace: u32, handle: u8) -> u8 {
        let known = self.handles(namespace).and_then(|own| own.unit_handles.get(usize::from(handle)));
        known.copied().unwrap_or(0)
    }

    fn uses(&self) -> Vec<HandleUse> {
        let mut uses = vec![HandleUse::Unused; self.enabled_events.len()];
        for own in self.namespaces.iter().flatten() {
            let kind = if own.is_of_host { HandleUse::OfHost } else { HandleUse::OfController };
            own.unit_handles.iter().for_each(|handle| uses[usize::from(*handle)] = kind);
        }
        uses
    }

    /// Keeps an event if its type is enabled for a reclaim unit handle. The oldest one gives way.
    fn note(&mut self, unit_handle: u8, event: PlacementEvent) {
        if !self.is_enabled || self.enabled_events[usize::from(unit_handle)] & event.kind.bit() == 0 {
            return;
        }
        let events = if event.kind.is_of_host() { &mut self.host_events } else { &mut self.controller_events };
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// Notes that garbage collection has moved bytes to a stream of moved units. With initially isolated handles, that of a group has
    /// data of all its handles, none of which is named then.
    fn note_moves(&mut self, limits: &PlacementLimits, stream: u8, bytes: u64) {
        let Some(streams) = limits.shape.placement else { return };
        let is_of_one = streams.moved() == streams.user();
        let first = if is_of_one { stream % streams.handles } else { 0 };
        let handles = if is_of_one { first..first + 1 } else { 0..streams.handles };
        let kind = PlacementEventKind::MediaReallocated;
        let enabled = handles.clone().find(|it| self.enabled_events[usize::from(*it)] & kind.bit() != 0);
        let Some(handle) = enabled else { return };
        self.note(
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
