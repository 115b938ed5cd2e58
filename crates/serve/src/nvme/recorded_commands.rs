//! Converts executed commands to changes in the recorded [`History`](crate::device::history::History) of a drive, from
//! which the states after power cuts are made.

use phaselink_core::media::zones::{ZoneAction, ZoneState};
use phaselink_core::protocol::nvme::commands::{Action, ChangedState};

use super::command::Command;
use crate::device::history::{StoreChange, StoreChangeKind};
use crate::device::store::{Store, StoredCommandSetState};

/// States of the zones of a store, if it has any.
#[derive(Debug, Default)]
pub(super) struct StoreZoneStates {
    block_shift: u32,
    zone_bytes: u64,
    /// State and number of written blocks of each zone, for a command that changes zones. Empty for other commands.
    states: Vec<(ZoneState, u64)>,
}

impl StoreZoneStates {
    /// Returns the zones of the store as they are now. Their states are those for a Zone Management Send.
    pub(super) fn note(command: &Command, store: &Store) -> StoreZoneStates {
        let StoredCommandSetState::Zones(zones) = store.command_set_state() else { return StoreZoneStates::default() };
        let is_action = command.checked.as_ref().is_ok_and(|checked| checked.row.changes == ChangedState::Zones);
        let block_shift = zones.block_shift();
        zones.with(|zones| {
            let layout = *zones.layout();
            let states = (0..layout.zones).filter(|_| is_action).map(|zone| zones.zone(zone)).collect();
            StoreZoneStates { block_shift, zone_bytes: layout.zone_blocks << block_shift, states }
        })
    }

    /// Returns the numbers of the zones that differ from these earlier states.
    fn zones_changed_since(&self, now: &StoreZoneStates) -> Vec<u32> {
        let pairs = (0..).zip(self.states.iter().zip(&now.states));
        pairs.filter(|(_, (before, after))| before != after).map(|(zone, _)| zone).collect()
    }
}

/// Returns the changes that a successful command has made to the store. `placed` is the first block of a Zone Append.
/// `needs_flush` is true if the command's completion promises that its changes are durable.
pub(super) fn changes(
    command: &Command,
    placed: u64,
    before: &StoreZoneStates,
    store: &Store,
    needs_flush: bool,
) -> Vec<StoreChange> {
    let Ok(checked) = &command.checked else { return Vec::new() };
    let change = |kind, offset, bytes| StoreChange { kind, durable: needs_flush, offset, bytes };
    let bytes = u64::from(checked.bytes);
    match (checked.row.changes, checked.action) {
        (ChangedState::Flushed, _) => vec![StoreChange { durable: false, ..change(StoreChangeKind::Flush, 0, 0) }],
        (ChangedState::Written, Action::Append) => {
            vec![change(StoreChangeKind::Write, placed << before.block_shift, bytes)]
        }
        (ChangedState::Written, _) => vec![change(StoreChangeKind::Write, checked.offset, bytes)],
        (ChangedState::Zeroed, _) => vec![change(StoreChangeKind::Zero, checked.offset, bytes)],
        (ChangedState::Deallocated, _) => {
            command.ranges.iter().map(|(offset, bytes)| change(StoreChangeKind::Trim, *offset, *bytes)).collect()
        }
        (ChangedState::Zones, Action::SendZones(send)) => {
            recorded_zone_changes(send.action, before, &StoreZoneStates::note(command, store))
        }
        _ => Vec::new(),
    }
}

/// Returns the changes that a Zone Management Send has made, one for each changed zone. Open and closed zones do not
/// survive a power cut, so opening and closing change nothing. Nor does Offline, since no zone of a drive is ever
/// read-only.
fn recorded_zone_changes(action: ZoneAction, before: &StoreZoneStates, now: &StoreZoneStates) -> Vec<StoreChange> {
    let kind = match action {
        ZoneAction::Reset => StoreChangeKind::Reset,
        ZoneAction::Finish => StoreChangeKind::Finish,
        ZoneAction::Open | ZoneAction::Close | ZoneAction::TakeOffline => return Vec::new(),
    };
    let zone_bytes = now.zone_bytes;
    let change =
        |zone: u32| StoreChange { kind, durable: true, offset: u64::from(zone) * zone_bytes, bytes: zone_bytes };
    before.zones_changed_since(now).into_iter().map(change).collect()
}
