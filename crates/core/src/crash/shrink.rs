//! Search for the smallest crash image (cut and losses) that still fails a check.

use super::image::{Image, RequestLoss};
use super::recording::Recording;
use super::timeline::CutTimeline;

/// Returns a crash image that fails like `image`, with an early cut and few losses. `fails` runs the check; it is
/// called at most `tries` times. The search moves the cut before requests that are missing anyway. Then it restores
/// ever smaller groups of the missing requests (Zeller and Hildebrandt's delta debugging, with complements alone).
pub fn shrink(
    recording: &Recording,
    timeline: &CutTimeline,
    image: Image,
    tries: usize,
    mut fails: impl FnMut(&Image) -> bool,
) -> Image {
    let mut left = tries;
    let mut ask = |image: &Image| {
        // In a zone, a write can only be lost together with the writes after it, so some smaller sets of losses are
        // impossible.
        let may_ask = left > 0 && image.check(recording, timeline).is_ok();
        left -= usize::from(may_ask);
        may_ask && fails(image)
    };
    let earlier = image_at_earlier_cut(recording, timeline, &image);
    let mut image = if earlier != image && ask(&earlier) { earlier } else { image };
    let mut size = image.lost.len();
    while size > 0 {
        let before = image.lost.len();
        let mut first = 0;
        while first < image.lost.len() {
            let fewer = without(&image, first, size);
            // If these losses are not needed for the failure, the next ones are now at index `first`.
            if ask(&fewer) { image = fewer } else { first += size }
        }
        let is_done = size == 1 && image.lost.len() == before;
        size = if is_done { 0 } else { (size / 2).max(1).min(image.lost.len()) };
    }
    let earlier = image_at_earlier_cut(recording, timeline, &image);
    if earlier != image && ask(&earlier) { earlier } else { image }
}

/// Returns the crash image without `size` of its losses, from index `first` on.
fn without(image: &Image, first: usize, size: usize) -> Image {
    let lost = image.lost.iter().enumerate().filter(|(place, _)| !(first..first + size).contains(place));
    Image { cut: image.cut, lost: lost.map(|(_, (&place, lost))| (place, lost.clone())).collect() }
}

/// Returns a crash image with equal bytes at an earlier cut: before the last requests, as far as they are missing
/// anyway.
fn image_at_earlier_cut(recording: &Recording, timeline: &CutTimeline, image: &Image) -> Image {
    let unsettled = timeline.settled(image.cut)..timeline.arrived(image.cut);
    let is_there =
        |place: &usize| recording.requests[*place].is_change() && image.lost.get(place) != Some(&RequestLoss::All);
    let last = unsettled.rev().find(is_there);
    let open = last.and_then(|place| timeline.cuts_while_open(place, recording));
    let cut = open.map_or(image.cut, |(first, _)| first);
    let lost = image.lost.iter().filter(|&(&place, _)| timeline.has_arrived(place, cut));
    Image { cut, lost: lost.map(|(&place, lost)| (place, lost.clone())).collect() }
}
