//! Executes commands on logical blocks. With data placement, counts writes where they are placed, and reports or renews
//! reclaim units; the core's [rules](phaselink_core::protocol::nvme::rules::placement) decide on the latter.

use phaselink_core::number::low_u16;
use phaselink_core::protocol::nvme::commands::{self, Action, MediaUse};
use phaselink_core::protocol::nvme::spec::{Status, fields};

use super::super::command::{Command, copy_to_host};
use super::super::host::Host;
use super::super::journal::CommandJournal;
use super::super::kind_state::KindState;
use super::super::placement::Placement;
use super::metadata;
use crate::device::store::Store;

/// Executes a command on logical blocks, with the state that their kind adds, without posting a completion. `space` is a buffer for the longest transfer.
///
/// # Errors
///
/// The status of a command that is refused or fails.
#[inline]
pub(crate) fn execute(
    command: &Command,
    kind: &KindState,
    host: &mut impl Host,
    store: &Store,
    space: &mut [u8],
    journal: &mut CommandJournal,
) -> Result<(), Status> {
    match kind {
        KindState::Placed(placement) => execute_placed_command(command, placement, host, store, space, journal),
        _ => metadata::execute(command, host, store, space, journal),
    }
}

/// Executes a command on a drive with data placement.
fn execute_placed_command(
    command: &Command,
    placement: &Placement,
    host: &mut impl Host,
    store: &Store,
    space: &mut [u8],
    journal: &mut CommandJournal,
) -> Result<(), Status> {
    let checked = command.checked.as_ref().map_err(|status| *status)?;
    let entry = command.entry();
    let namespace = entry.namespace_id;
    let commands::Command { row, action, offset, bytes, data, placement: place, .. } = checked;
    match action {
        Action::ReceiveUnits(receive) => {
            let report = placement.report(*receive, namespace, command.block_shift);
            return copy_to_host(data, &report, host);
        }
        Action::SendUnits(_) => {
            placement.renew(namespace, command.identifiers());
            return Ok(());
        }
        _ => {}
    }
    metadata::execute(command, host, store, space, journal)?;
    match row.media {
        MediaUse::Write => {
            let identifier = low_u16(entry.get(fields::blocks::PLACEMENT));
            placement.write(namespace, *place, identifier, (*offset, (*bytes).into()));
        }
        MediaUse::Discard => command.ranges.iter().for_each(|(offset, bytes)| placement.discard(*offset, *bytes)),
        _ => {}
    }
    Ok(())
}
