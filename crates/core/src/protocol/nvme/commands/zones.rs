//! Admission of commands on a zoned namespace: the states of its zones decide, before execution, whether a command is
//! accepted. The simulated and the served controller use the same check, so they return the same statuses.

use super::{Action, MediaUse};
use crate::media::zones::{ZoneAction, Zones};
use crate::protocol::nvme::rules::zones::{ZoneSend, status};
use crate::protocol::nvme::spec::Status;

/// Effect that a command on a zoned namespace has beside changes of zone states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneSideEffect {
    /// No effect beside changes of zone states.
    None,
    /// First logical block of a Zone Append's data: the write pointer at which it was placed. The completion returns
    /// this number.
    Placed(u64),
    /// Numbers of the zones whose data a reset has discarded.
    Emptied(Vec<u32>),
}

/// Checks a command against the states of its zones and, if they accept it, changes the states. Place and length of the
/// command are in bytes; `sources` are offset and length in bytes of each range that a Copy reads.
///
/// # Errors
/// The status with which the command is refused; the zones are unchanged.
#[inline]
pub fn admit(
    zones: &mut Zones,
    action: Action,
    (offset, bytes): (u64, u32),
    sources: &[(u64, u64)],
    block_shift: u32,
) -> Result<ZoneSideEffect, Status> {
    let (block, blocks) = (offset >> block_shift, u64::from(bytes) >> block_shift);
    let row = action.row();
    match (row.media, action) {
        (_, Action::Append) => return zones.append(block, blocks).map(ZoneSideEffect::Placed).map_err(status),
        (_, Action::SendZones(send)) => return act(zones, send, block),
        (MediaUse::Read, _) => zones.check_read(block, blocks).map_err(status)?,
        (MediaUse::Write, _) => {
            let mut sources = sources.iter().map(|(offset, bytes)| (offset >> block_shift, bytes >> block_shift));
            sources.try_for_each(|(block, blocks)| zones.check_read(block, blocks)).map_err(status)?;
            zones.write(block, blocks).map_err(status)?;
        }
        // The states of zones do not affect other commands.
        _ => {}
    }
    Ok(ZoneSideEffect::None)
}

/// Applies a Zone Management Send action to the zone whose first logical block is `block`, or to all zones if `all` is
/// set. Returns the zones that a reset has emptied.
#[cold]
fn act(zones: &mut Zones, ZoneSend { action, all }: ZoneSend, block: u64) -> Result<ZoneSideEffect, Status> {
    let changed = match all {
        true => zones.act_on_all(action).map_err(status)?,
        false => {
            let is_changed = zones.act(action, block).map_err(status)?;
            let zone = zones.find(block).ok().map(|(zone, _)| zone);
            zone.filter(|_| is_changed).into_iter().collect()
        }
    };
    Ok(if action == ZoneAction::Reset { ZoneSideEffect::Emptied(changed) } else { ZoneSideEffect::None })
}
