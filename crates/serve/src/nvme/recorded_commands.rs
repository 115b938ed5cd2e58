//! Changes of commands on a drive whose [`History`](crate::device::history::History) is recorded, from which the states after power
//! cuts are made.

use phaselink_core::media::zones::{ZoneAction, ZoneState};
use phaselink_core::protocol::nvme::rules::{self, Action};

use super::command::Command;
use crate::device::history::{Asked, MadeChange};
use crate::device::store::{Store, StoreZones};

/// State and number of written blocks of each zone, before a command on them.
#[derive(Clone, Debug, Default)]
pub(super) struct ZonesBefore(Vec<(ZoneState, u64)>);

impl ZonesBefore {
    /// Returns the zones of the store as they are, if the command is an action on zones.
    pub(super) fn note(command: &Command, store: &Store) -> ZonesBefore {
        let is_action = matches!(&command.checked, Ok(rules::Command { action: Action::SendZones(_), .. }));
        ZonesBefore(store.zones().filter(|_| is_action).map_or_else(Vec::new, states))
    }

    /// Returns the zones that are not as they were.
    fn changed(&self, zones: &StoreZones) -> Vec<u32> {
        let pairs = (0..).zip(self.0.iter().zip(states(zones)));
        pairs.filter(|(_, (before, after))| **before != *after).map(|(zone, _)| zone).collect()
    }
}

fn states(zones: &StoreZones) -> Vec<(ZoneState, u64)> {
    zones.with(|zones| (0..zones.layout().zones).map(|zone| zones.zone(zone)).collect())
}

/// Returns the changes that a command has made to the store. `placed` is the first block of a Zone Append, and `needs_flush` is true if
/// the command's completion promises that its changes are durable.
pub(super) fn changes(
    command: &Command,
    placed: u64,
    before: &ZonesBefore,
    store: &Store,
    needs_flush: bool,
) -> Vec<MadeChange> {
    let Ok(checked) = &command.checked else { return Vec::new() };
    let change = |asked, offset, bytes| MadeChange { asked, durable: needs_flush, offset, bytes };
    let bytes = u64::from(checked.bytes);
    match checked.action {
        Action::Flush => vec![MadeChange { durable: false, ..change(Asked::Flush, 0, 0) }],
        Action::Write { .. } | Action::Copy { .. } => vec![change(Asked::Write, checked.offset, bytes)],
        Action::Append { .. } => vec![change(Asked::Write, placed << block_shift(store), bytes)],
        Action::Zero { .. } => vec![change(Asked::Zero, checked.offset, bytes)],
        Action::Deallocate { .. } => {
            command.ranges.iter().map(|(offset, bytes)| change(Asked::Trim, *offset, *bytes)).collect()
        }
        Action::SendZones(send) => zone_changes(send.action, before, store),
        _ => Vec::new(),
    }
}

fn block_shift(store: &Store) -> u32 {
    store.zones().map_or(0, StoreZones::block_shift)
}

/// Returns the changes of an action on zones. Which zones are open does not outlive the power, so that opening and closing them changes
/// nothing, and no host can take a zone offline that no drive has made read-only.
fn zone_changes(action: ZoneAction, before: &ZonesBefore, store: &Store) -> Vec<MadeChange> {
    let asked = match action {
        ZoneAction::Reset => Asked::Reset,
        ZoneAction::Finish => Asked::Finish,
        ZoneAction::Open | ZoneAction::Close | ZoneAction::TakeOffline => return Vec::new(),
    };
    let Some(zones) = store.zones() else { return Vec::new() };
    let zone_bytes = zones.with(|zones| zones.layout().zone_blocks) << zones.block_shift();
    let change =
        |zone: u32| MadeChange { asked, durable: true, offset: u64::from(zone) * zone_bytes, bytes: zone_bytes };
    before.changed(zones).into_iter().map(change).collect()
}
