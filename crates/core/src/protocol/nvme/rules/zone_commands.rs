//! Commands on a namespace with zones: each asks the zones before it is executed. The simulated and the served controller ask the
//! same question, so that they give the same statuses.

use super::Action;
use super::zones::{ZoneSend, status};
use crate::media::zones::{ZoneAction, Zones};
use crate::protocol::nvme::spec::Status;

/// Effect of a command on zones, beside their states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneEffect {
    /// The command has no other effect.
    None,
    /// The command writes from this block on, which is the result of its completion.
    Placed(u64),
    /// The data of these zones is gone.
    Emptied(Vec<u32>),
}

/// Asks zones whether they accept a command, whose place and length are in bytes, and changes their states if they do. `sources` are
/// the ranges that a Copy reads, offset and length in bytes.
///
/// # Errors
/// The status with which the command is refused. Nothing has changed then.
#[inline]
pub fn admit(
    zones: &mut Zones,
    action: Action,
    (offset, bytes): (u64, u32),
    sources: &[(u64, u64)],
    block_shift: u32,
) -> Result<ZoneEffect, Status> {
    let (block, blocks) = (offset >> block_shift, u64::from(bytes) >> block_shift);
    match action {
        Action::Write { .. } | Action::Zero { .. } | Action::Spoil => zones.write(block, blocks).map_err(status)?,
        Action::Append { .. } => return zones.append(block, blocks).map(ZoneEffect::Placed).map_err(status),
        Action::Read | Action::Compare | Action::Verify => zones.check_read(block, blocks).map_err(status)?,
        Action::Copy { .. } => {
            let mut sources = sources.iter().map(|(offset, bytes)| (offset >> block_shift, bytes >> block_shift));
            sources.try_for_each(|(block, blocks)| zones.check_read(block, blocks)).map_err(status)?;
            zones.write(block, blocks).map_err(status)?;
        }
        Action::SendZones(send) => return act(zones, send, block),
        // Zones have no say in others.
        _ => {}
    }
    Ok(ZoneEffect::None)
}

/// Applies an action of a host to the zone that begins with a block, or to all zones.
#[cold]
fn act(zones: &mut Zones, ZoneSend { action, all }: ZoneSend, block: u64) -> Result<ZoneEffect, Status> {
    let changed = match all {
        true => zones.act_on_all(action).map_err(status)?,
        false => {
            let is_changed = zones.act(action, block).map_err(status)?;
            let zone = zones.find(block).ok().map(|(zone, _)| zone);
            zone.filter(|_| is_changed).into_iter().collect()
        }
    };
    Ok(if action == ZoneAction::Reset { ZoneEffect::Emptied(changed) } else { ZoneEffect::None })
}
