//! Executes commands on a namespace with zones. The core's
//! [rules](phaselink_core::protocol::nvme::commands::zones) admit or refuse each one first, by the state of its
//! zones.

use phaselink_core::media::zones::ZoneAction;
use phaselink_core::number::index;
use phaselink_core::protocol::nvme::commands::zones::{ZoneSideEffect, admit};
use phaselink_core::protocol::nvme::commands::{self, Action};
use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::rules::zones::ZoneSend;
use phaselink_core::protocol::nvme::spec::Status;

use super::super::command::{Command, copy_to_host, status_of_write_error, write};
use super::super::host::Host;
use super::super::journal::CommandJournal;
use crate::device::store::{Store, StoreZones};

/// Executes a command on a store with zones, without posting a completion. Returns the value for dwords 0 and 1 of the
/// completion: the first block of a Zone Append, else 0. `space` is a buffer for the longest transfer.
///
/// # Errors
///
/// The status of a command that is refused or fails; one that zones refuse has Do Not Retry set. The write pointer is
/// then where it was, unless another write has followed.
pub(crate) fn execute(
    command: &Command,
    zones: &StoreZones,
    host: &mut impl Host,
    store: &Store,
    space: &mut [u8],
    journal: &mut CommandJournal,
) -> Result<u64, Status> {
    let commands::Command { row, action, offset, bytes, data, .. } =
        command.checked.as_ref().map_err(|status| *status)?;
    let (shift, place) = (zones.block_shift(), (*offset, *bytes));
    match action {
        Action::SendZones(send) => return execute_zone_send(*send, place, zones, store).map(|()| 0),
        Action::ReceiveZones(receive) => {
            let report = zones.with(|zones| receive.report(zones, *offset >> shift)).map_err(refusal)?;
            return copy_to_host(data, &report, host).map(|()| 0);
        }
        _ => {}
    }
    let effect = zones.with(|zones| admit(zones, *action, place, &command.ranges, shift)).map_err(refusal)?;
    if let ZoneSideEffect::Placed(block) = effect {
        let offset = block << shift;
        let written = write(offset, data, store, &mut space[..index(*bytes)], host);
        written.inspect_err(|_| undo_write((offset, *bytes), zones, store))?;
        journal.count(row, *bytes);
        return Ok(block);
    }
    let executed = command.execute(host, store, space, journal);
    if executed.is_err() && row.writes_media() {
        undo_write(place, zones, store);
    }
    executed.map(|()| 0)
}

/// Executes Zone Management Send. Zones that are reset are cleared in the store before anything can be written there.
#[cold]
fn execute_zone_send(send: ZoneSend, place: (u64, u32), zones: &StoreZones, store: &Store) -> Result<(), Status> {
    let action = Action::SendZones(send);
    if send.action != ZoneAction::Reset {
        return zones
            .with(|zones_now| admit(zones_now, action, place, &[], zones.block_shift()))
            .map(drop)
            .map_err(refusal);
    }
    let change = |zones_now: &mut _| match admit(zones_now, action, place, &[], zones.block_shift()).map_err(refusal)? {
        ZoneSideEffect::Emptied(emptied) => Ok(((), emptied)),
        _ => Ok(((), Vec::new())),
    };
    zones.empty_zones_after_clearing(change, |offset, bytes| {
        store.zero(offset, bytes, false).map_err(|error| status_of_write_error(&error))
    })
}

/// Moves the write pointer back after a write whose data has not arrived in full, and clears its blocks. Does nothing
/// if another write has followed.
#[cold]
fn undo_write((offset, bytes): (u64, u32), zones: &StoreZones, store: &Store) {
    let shift = zones.block_shift();
    let is_back = zones.with(|zones| zones.undo_write(offset >> shift, u64::from(bytes) >> shift));
    if is_back {
        // If the store cannot write zeros, it has failed and reports that to the next command.
        let _ = store.zero(offset, bytes.into(), false);
    }
}
