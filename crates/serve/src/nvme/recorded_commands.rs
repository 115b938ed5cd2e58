//! Converts executed commands to changes in the recorded [`History`](crate::device::history::History) of a drive, from
//! which the states after power cuts are made.

use phaselink_core::media::zones::{ZoneAction, ZoneState};
use phaselink_core::protocol::nvme::commands::{Action, Changes};

use super::command::Command;
use crate::device::history::{ChangeKind, MadeChange};
use crate::device::store::{Store, StoreZones};

/// State and number of written blocks of each zone before a zone management command. Empty for other commands.
#[derive(Clone, Debug, Default)]
pub(super) struct ZonesBefore(Vec<(ZoneState, u64)>);

impl ZonesBefore {
    /// Returns the current zones of the store if the command is a Zone Management Send, and an empty list for other
    /// commands.
    pub(super) fn note(command: &Command, store: &Store) -> ZonesBefore {
        let is_action = command.checked.as_ref().is_ok_and(|checked| checked.row.changes == Changes::Zones);
        ZonesBefore(store.zones().filter(|_| is_action).map_or_else(Vec::new, states))
    }

    /// Returns the numbers of the zones that differ from their earlier state.
    fn changed(&self, zones: &StoreZones) -> Vec<u32> {
        let pairs = (0..).zip(self.0.iter().zip(states(zones)));
        pairs.filter(|(_, (before, after))| **before != *after).map(|(zone, _)| zone).collect()
    }
}

fn states(zones: &StoreZones) -> Vec<(ZoneState, u64)> {
    zones.with(|zones| (0..zones.layout().zones).map(|zone| zones.zone(zone)).collect())
}

/// Returns the changes that a successful command has made to the store. `placed` is the first block of a Zone Append.
/// `needs_flush` is true if the command's completion promises that its changes are durable.
pub(super) fn changes(
    command: &Command,
    placed: u64,
    before: &ZonesBefore,
    store: &Store,
    needs_flush: bool,
) -> Vec<MadeChange> {
    let Ok(checked) = &command.checked else { return Vec::new() };
    let change = |kind, offset, bytes| MadeChange { kind, durable: needs_flush, offset, bytes };
    let bytes = u64::from(checked.bytes);
    match (checked.row.changes, checked.action) {
        (Changes::Flushed, _) => vec![MadeChange { durable: false, ..change(ChangeKind::Flush, 0, 0) }],
        (Changes::Written, Action::Append) => vec![change(ChangeKind::Write, placed << block_shift(store), bytes)],
        (Changes::Written, _) => vec![change(ChangeKind::Write, checked.offset, bytes)],
        (Changes::Zeroed, _) => vec![change(ChangeKind::Zero, checked.offset, bytes)],
        (Changes::Deallocated, _) => {
            command.ranges.iter().map(|(offset, bytes)| change(ChangeKind::Trim, *offset, *bytes)).collect()
        }
        (Changes::Zones, Action::SendZones(send)) => zone_changes(send.action, before, store),
        _ => Vec::new(),
    }
}

fn block_shift(store: &Store) -> u32 {
    store.zones().map_or(0, StoreZones::block_shift)
}

/// Returns the changes that a Zone Management Send has made, one for each changed zone. Open and closed zones do not
/// survive a power cut, so opening and closing change nothing. Nor does Offline, since no zone of a drive is ever
/// read-only.
fn zone_changes(action: ZoneAction, before: &ZonesBefore, store: &Store) -> Vec<MadeChange> {
    let kind = match action {
        ZoneAction::Reset => ChangeKind::Reset,
        ZoneAction::Finish => ChangeKind::Finish,
        ZoneAction::Open | ZoneAction::Close | ZoneAction::TakeOffline => return Vec::new(),
    };
    let Some(zones) = store.zones() else { return Vec::new() };
    let zone_bytes = zones.with(|zones| zones.layout().zone_blocks) << zones.block_shift();
    let change =
        |zone: u32| MadeChange { kind, durable: true, offset: u64::from(zone) * zone_bytes, bytes: zone_bytes };
    before.changed(zones).into_iter().map(change).collect()
}
