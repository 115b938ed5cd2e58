//! Check that a power failure may leave a given crash image on the drive, according to a recording of its requests.

use std::collections::BTreeMap;

use super::image::{Image, RequestLoss};
use super::recording::Recording;
use super::timeline::CutTimeline;
use super::zones::zones;

impl Image {
    /// Checks that a power failure during this recording may leave this crash image.
    ///
    /// # Errors
    /// Names the first request that cannot be lost in this way, or says why the cut or the zones are impossible.
    pub fn check(&self, recording: &Recording, timeline: &CutTimeline) -> Result<(), String> {
        if !recording.cuts().contains(&self.cut) {
            let cuts = recording.cuts();
            return Err(format!("cut={}; the recording has cuts from {} to {}", self.cut, cuts.start, cuts.end - 1));
        }
        self.lost.iter().try_for_each(|(&place, lost)| {
            let number = place + 1;
            if place >= recording.requests.len() || !timeline.has_arrived(place, self.cut) {
                return Err(format!("request {number} had not arrived at cut={}", self.cut));
            }
            if !recording.requests[place].is_change() {
                return Err(format!("request {number} is a flush"));
            }
            if timeline.is_durable(place, self.cut) {
                return Err(format!("request {number} cannot be missing at cut={}: it was durable", self.cut));
            }
            let RequestLoss::AllBut(there) = lost else { return Ok(()) };
            let pieces = recording.pieces(place);
            let is_torn = are_ascending_ranges(there) && there.last().is_some_and(|&(_, last)| last < pieces);
            let count = || there.iter().map(|&(first, last)| last - first + 1).sum::<u32>();
            if is_torn && count() < pieces { Ok(()) } else { Err(format!("request {number} has {pieces} pieces")) }
        })?;
        if recording.zones.is_some() {
            self.check_order(recording, timeline)?;
            zones(recording, timeline, self)?;
        }
        Ok(())
    }

    /// Checks that the surviving changes of each zone are its first ones, without a gap.
    ///
    /// # Errors
    /// Names the first request that is present although an earlier one of its zone is missing or torn.
    fn check_order(&self, recording: &Recording, timeline: &CutTimeline) -> Result<(), String> {
        let mut first_losses: BTreeMap<u32, usize> = BTreeMap::new();
        for place in 0..timeline.arrived(self.cut) {
            let Some(zone) = recording.zone(place) else { continue };
            let (number, lost) = (place + 1, self.lost.get(&place));
            match first_losses.get(&zone) {
                Some(first) if lost != Some(&RequestLoss::All) => {
                    let found =
                        format!("request {number} is there, and request {} before it in zone {zone} is not", first + 1);
                    return Err(found);
                }
                Some(_) => {}
                None if !lost.is_none_or(is_prefix_surviving) => {
                    return Err(format!("request {number} is torn, and zone {zone} has blocks behind a gap"));
                }
                None => drop(lost.map(|_| first_losses.insert(zone, place))),
            }
        }
        Ok(())
    }
}

/// True if ranges of pieces are as [`RequestLoss::AllBut`] demands: ascending, none empty, and a gap between any two.
fn are_ascending_ranges(there: &[(u32, u32)]) -> bool {
    there.iter().all(|(first, last)| first <= last) && there.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0)
}

/// True if the surviving blocks of a partly or wholly lost request are its first ones.
fn is_prefix_surviving(lost: &RequestLoss) -> bool {
    matches!(lost, RequestLoss::All)
        || matches!(lost, RequestLoss::AllBut(there) if there.len() == 1 && there[0].0 == 0)
}
