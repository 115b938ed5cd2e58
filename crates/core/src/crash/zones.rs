//! Zones in crash images: their states and write pointers after a power failure.
//!
//! A zone is written in order. So its surviving changes are the first ones in the order of arrival, and the last of
//! them may be the first blocks of a write. A durable change makes all changes before it durable. [`Zones`] decide what
//! the surviving changes lead to: they execute each of them and then lose their power.

use std::collections::BTreeSet;

use super::image::{Image, RequestLoss};
use super::recording::{RecordedOp, Recording};
use super::timeline::CutTimeline;
use crate::media::zones::{ZoneAction, ZoneLayout, ZoneRequestRefusal, Zones};

/// Returns the drive's zones after the power failure of a crash image; `None` if the drive has no zones.
///
/// # Errors
/// If more zones would be active than the drive supports, or a change does not begin at its zone's write pointer.
pub fn zones(recording: &Recording, timeline: &CutTimeline, image: &Image) -> Result<Option<Zones>, String> {
    let Some(layout) = recording.zones else { return Ok(None) };
    let mut survived = zones_without_limits(layout);
    for place in 0..timeline.arrived(image.cut) {
        let blocks = surviving_blocks(recording, place, image.lost.get(&place));
        let accepted = apply_to_zone(recording, place, blocks, &mut survived);
        accepted.map_err(|_| format!("request {} does not begin at the write pointer of its zone", place + 1))?;
    }
    survived.lose_power();
    let mut zones = Zones::new(layout);
    let mut states = (0..layout.zones).map(|zone| (zone, survived.zone(zone)));
    match states.all(|(zone, (state, written))| zones.restore(zone, state, written)) {
        true => Ok(Some(zones)),
        false => Err(format!("{} zones would be active, of at most {}", survived.active(), layout.active_max)),
    }
}

/// True if the zones of the drive accept every request of a recording in the order of arrival. Without zones, true
/// unless there is a zone reset or finish.
pub(super) fn do_zones_accept_all(recording: &Recording) -> bool {
    let Some(layout) = recording.zones else {
        let is_action = |kind: &RecordedOp| matches!(kind, RecordedOp::Reset | RecordedOp::Finish);
        return !recording.requests.iter().any(|request| is_action(&request.kind));
    };
    let mut zones = zones_without_limits(layout);
    (0..recording.requests.len()).all(|place| {
        let blocks = surviving_blocks(recording, place, None);
        let is_action = matches!(recording.requests[place].kind, RecordedOp::Reset | RecordedOp::Finish);
        let is_whole = !is_action || blocks == layout.zone_blocks;
        is_whole && apply_to_zone(recording, place, blocks, &mut zones).is_ok()
    })
}

/// Returns empty zones without a limit of active or open zones.
fn zones_without_limits(layout: ZoneLayout) -> Zones {
    Zones::new(ZoneLayout { active_max: 0, open_max: 0, ..layout })
}

/// Returns the number of blocks of a request that survive a power failure, given which of its pieces are lost.
fn surviving_blocks(recording: &Recording, place: usize, lost: Option<&RequestLoss>) -> u64 {
    let whole = u64::from(recording.requests[place].bytes / recording.rules.block_bytes);
    match lost {
        None => whole,
        Some(RequestLoss::All) => 0,
        Some(RequestLoss::AllBut(there)) => there.iter().map(|(first, last)| u64::from(last - first) + 1).sum(),
    }
}

/// Applies the first `blocks` blocks of a request to its zone. Fails if the zone does not accept them.
fn apply_to_zone(
    recording: &Recording,
    place: usize,
    blocks: u64,
    zones: &mut Zones,
) -> Result<(), ZoneRequestRefusal> {
    let request = &recording.requests[place];
    let block = request.offset / u64::from(recording.rules.block_bytes);
    match request.kind {
        _ if blocks == 0 => Ok(()),
        RecordedOp::Write(_) | RecordedOp::Zero => zones.write(block, blocks),
        RecordedOp::Reset => zones.act(ZoneAction::Reset, block).map(drop),
        RecordedOp::Finish => zones.act(ZoneAction::Finish, block).map(drop),
        RecordedOp::Trim | RecordedOp::Flush => Ok(()),
    }
}

impl Image {
    /// Returns the crash image with all requests of a zone lost that follow the zone's first lost or torn request. A
    /// torn request keeps its number of surviving blocks, but they become its first ones.
    pub(super) fn in_order(mut self, recording: &Recording, timeline: &CutTimeline) -> Image {
        let mut cut_off: BTreeSet<u32> = BTreeSet::new();
        let unsettled = timeline.settled(self.cut)..timeline.arrived(self.cut);
        for place in unsettled.filter(|_| recording.zones.is_some()) {
            let Some(zone) = recording.zone(place) else { continue };
            match self.lost.get_mut(&place) {
                _ if cut_off.contains(&zone) => drop(self.lost.insert(place, RequestLoss::All)),
                None => continue,
                Some(RequestLoss::All) => {}
                Some(RequestLoss::AllBut(there)) => {
                    let blocks = there.iter().map(|(first, last)| last - first + 1).sum::<u32>();
                    *there = vec![(0, blocks - 1)];
                }
            }
            cut_off.insert(zone);
        }
        self
    }
}
