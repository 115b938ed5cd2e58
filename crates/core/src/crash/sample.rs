//! Crash images of a recording: all of them, or a random sample with images of every kind.

use std::collections::{BTreeMap, BTreeSet};

use crate::number::{index, length, wide_index};
use crate::random::{Random, mix};

use super::image::{Image, RequestLoss};
use super::recording::Recording;
use super::timeline::{CutTimeline, DurabilityEpoch};

/// Number of different crash images that power failures during a recording may leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CrashImageCount {
    /// Exact number of crash images.
    Exact(u64),
    /// Approximate number of crash images, as its decimal logarithm.
    PowerOfTen(f64),
}

/// Number of consecutive random crash images that are duplicates after which sampling stops.
const REPEATED_MAX: usize = 1000;

/// Returns the number of possible crash images, counted as different states.
///
/// The states of an epoch are all sets between the durable and the arrived pieces, and both only grow. So epochs that
/// share a state are consecutive. An epoch shares with the next one the states that have everything that becomes
/// durable in between. On a drive that limits its active zones, some of the states may not be possible.
pub fn possible(timeline: &CutTimeline) -> CrashImageCount {
    let (last, others) = timeline.epochs().split_last().expect("a recording has a last cut");
    let own = |epoch: &DurabilityEpoch| Some(epoch.states.exact? - epoch.states_left.exact?);
    let exact = || others.iter().map(own).try_fold(last.states.exact?, |sum, own| sum.checked_add(own?));
    if let Some(count) = exact() {
        return CrashImageCount::Exact(count);
    }
    let most = timeline.epochs().iter().map(|epoch| epoch.states.bits).fold(0.0, f64::max);
    let relative: f64 = timeline.epochs().iter().map(|epoch| (epoch.states.bits - most).exp2()).sum();
    CrashImageCount::PowerOfTen((most + relative.log2()) * 2f64.log10())
}

/// Returns up to `wanted` different crash images in the order of their cuts. If there are more, the seed draws images
/// of every kind in turn.
pub fn images(recording: &Recording, timeline: &CutTimeline, wanted: usize, seed: u64) -> Vec<Image> {
    match possible(timeline) {
        CrashImageCount::Exact(count) if count <= length(wanted) => all(recording, timeline),
        _ => sampled(recording, timeline, wanted, seed),
    }
}

/// Returns a random sample of `wanted` crash images, for a recording that has more than that.
pub(super) fn sampled(recording: &Recording, timeline: &CutTimeline, wanted: usize, seed: u64) -> Vec<Image> {
    CrashImageSampler { recording, timeline, random: Random::stream(seed, "crash images") }.sample_crash_images(wanted)
}

/// Returns every possible crash image of the recording, each at the last power cut that can leave it.
fn all(recording: &Recording, timeline: &CutTimeline) -> Vec<Image> {
    let last = timeline.epochs().len() - 1;
    let of_epoch = |(place, epoch): (usize, &DurabilityEpoch)| {
        let (is_last, cut) = (place == last, epoch.last_cut);
        let open = timeline.open(recording, cut);
        let count = epoch.states.exact.expect("all images are listed if they were counted");
        let images = (0..count).map(move |state| image(recording, &open, cut, state));
        let is_own =
            move |image: &Image| is_last || image.lost.keys().any(|&place| timeline.is_durable(place, cut + 1));
        images.filter(is_own).filter(|image| is_possible(recording, timeline, image))
    };
    timeline.epochs().iter().enumerate().flat_map(of_epoch).collect()
}

/// True if a power failure may leave a crash image whose zones are [in order](Image::in_order). It may not if too many
/// zones are active.
fn is_possible(recording: &Recording, timeline: &CutTimeline, image: &Image) -> bool {
    recording.zones.is_none() || image.check(recording, timeline).is_ok()
}

/// Returns crash image number `state` of those that the open requests of a power cut allow. Each piece is one bit of
/// the number. The pieces of a zone are one digit, which says how many of them survive.
fn image(recording: &Recording, open: &[usize], cut: usize, state: u64) -> Image {
    let mut pieces_of_zones: BTreeMap<u32, u64> = BTreeMap::new();
    for &place in open {
        if let Some(zone) = recording.zone(place) {
            *pieces_of_zones.entry(zone).or_default() += u64::from(recording.pieces(place));
        }
    }
    let (mut state, mut image) = (state, Image::whole(cut));
    let mut digit = |base: u64| {
        let digit = state % base;
        state /= base;
        digit
    };
    let mut left: BTreeMap<u32, u64> = pieces_of_zones.into_iter().map(|(zone, of)| (zone, digit(of + 1))).collect();
    for &place in open {
        let pieces = 0..recording.pieces(place);
        let lost = match recording.zone(place).and_then(|zone| left.get_mut(&zone)) {
            None => RequestLoss::of_surviving_pieces(pieces.map(|_| digit(2) == 1)),
            Some(left) => {
                let there = u64::from(pieces.end).min(*left);
                *left -= there;
                RequestLoss::of_surviving_pieces(pieces.map(|piece| u64::from(piece) < there))
            }
        };
        image.lost.extend(lost.map(|lost| (place, lost)));
    }
    image
}

/// Returns up to `wanted` crash images of the recording's last cut. If there are more, the seed draws images of every
/// kind. A request that arrives after the cut of a drawn image counts as missing, as if it were still in flight.
pub fn sample_images_of_last_cut(
    recording: &Recording,
    timeline: &CutTimeline,
    wanted: usize,
    seed: u64,
) -> Vec<Image> {
    let cut = recording.events.len();
    let open = timeline.open(recording, cut);
    let states = timeline.epochs().last().and_then(|epoch| epoch.states.exact);
    if let Some(states) = states.filter(|states| *states <= length(wanted)) {
        let images = (0..states).map(|state| image(recording, &open, cut, state));
        return images.filter(|image| is_possible(recording, timeline, image)).collect();
    }
    let at_last_cut = |mut image: Image| {
        let later = open.iter().filter(|&&place| !timeline.has_arrived(place, image.cut));
        image.lost.extend(later.map(|&place| (place, RequestLoss::All)));
        image.cut = cut;
        let image = image.in_order(recording, timeline);
        image.check(recording, timeline).is_ok().then_some(image)
    };
    let drawn = sampled(recording, timeline, wanted, seed).into_iter().filter_map(at_last_cut);
    let mut images: BTreeSet<Image> = drawn.collect();
    for number in 0.. {
        if images.len() >= wanted || number > length(REPEATED_MAX) + length(wanted) {
            break;
        }
        let image = drawn_images_of_cut(recording, timeline, cut, seed, number);
        images.extend(Some(image).filter(|image| is_possible(recording, timeline, image)));
    }
    images.into_iter().take(wanted).collect()
}

fn drawn_images_of_cut(recording: &Recording, timeline: &CutTimeline, cut: usize, seed: u64, number: u64) -> Image {
    random_image(recording, timeline, cut, mix(seed ^ mix(number)))
}

/// Returns the crash image of a power cut in which every request is missing that may be missing.
pub fn least(recording: &Recording, timeline: &CutTimeline, cut: usize) -> Image {
    Image { cut, lost: timeline.open(recording, cut).into_iter().map(|place| (place, RequestLoss::All)).collect() }
}

/// Returns a random crash image of one power cut, that is, the state that one power failure leaves. The seed decides
/// which open requests are lost.
pub fn random_image(recording: &Recording, timeline: &CutTimeline, cut: usize, seed: u64) -> Image {
    CrashImageSampler { recording, timeline, random: Random::stream(seed, "power cut") }.random_image_at_cut(cut)
}

/// Kind of a crash image in a sample: its cut, and the open requests that survive.
#[derive(Clone, Copy, Debug)]
enum CrashSampleKind {
    /// All received requests survive a power cut at the end of this epoch (range of cuts in which no request becomes
    /// durable).
    Boundary(usize),
    /// No request that may be lost survives a power cut at the end of this epoch.
    Nothing(usize),
    /// All received requests survive a power cut just after this request was received.
    Prefix(usize),
    /// All received requests survive except this one. The power is cut just before this request becomes durable.
    Without(usize),
    /// This request survives, and no other that may be lost. The power is cut just before this request becomes durable.
    Alone(usize),
    /// This request is torn by a power cut just after it was received; all requests before it survive.
    Torn(usize, TornPieces),
}

/// Pieces of a torn write that survive a power cut: only the first, only the last, the first half, or a random choice.
#[derive(Clone, Copy, Debug)]
enum TornPieces {
    First,
    Last,
    Half,
    Random,
}

/// Generator of random crash images of one recording.
struct CrashImageSampler<'a> {
    recording: &'a Recording,
    timeline: &'a CutTimeline,
    random: Random,
}

impl CrashImageSampler<'_> {
    fn sample_crash_images(mut self, wanted: usize) -> Vec<Image> {
        let mut strata = self.strata();
        for stratum in &mut strata {
            self.shuffle(stratum);
        }
        let open: Vec<usize> = self.open().collect();
        let (mut images, mut repeated) = (BTreeSet::new(), 0);
        while images.len() < wanted && repeated < REPEATED_MAX {
            for stratum in &mut strata {
                let made = stratum.pop().map(|kind| self.make_image_of_kind(kind));
                images.extend(made.filter(|image| is_possible(self.recording, self.timeline, image)));
            }
            let drawn = (!open.is_empty()).then(|| self.random_image_of_any_cut(&open));
            let drawn = drawn.filter(|image| is_possible(self.recording, self.timeline, image));
            let is_new = drawn.is_some_and(|image| images.insert(image));
            repeated = if is_new { 0 } else { repeated + 1 };
            if strata.iter().any(|stratum| !stratum.is_empty()) {
                repeated = 0;
            }
        }
        // The last round may have drawn more images than wanted. Drop the surplus at even distances, so that all cuts
        // remain represented.
        let surplus = images.len().saturating_sub(wanted);
        let images: Vec<Image> = images.into_iter().collect();
        let is_kept =
            |place: &usize| surplus == 0 || place * surplus / images.len() == (place + 1) * surplus / images.len();
        (0..images.len()).filter(is_kept).map(|place| images[place].clone()).collect()
    }

    /// Returns the indices of requests that may be lost at any power cut.
    fn open(&self) -> impl Iterator<Item = usize> {
        let (recording, timeline) = (self.recording, self.timeline);
        (0..recording.requests.len()).filter(move |&place| timeline.cuts_while_open(place, recording).is_some())
    }

    fn strata(&self) -> Vec<Vec<CrashSampleKind>> {
        let epochs = 0..self.timeline.epochs().len();
        let torn = self.open().filter(|&place| self.recording.pieces(place) > 1);
        let tears = [TornPieces::First, TornPieces::Last, TornPieces::Half, TornPieces::Random];
        vec![
            epochs.clone().map(CrashSampleKind::Boundary).collect(),
            epochs.map(CrashSampleKind::Nothing).collect(),
            self.open().map(CrashSampleKind::Prefix).collect(),
            self.open().map(CrashSampleKind::Without).collect(),
            self.open().map(CrashSampleKind::Alone).collect(),
            torn.flat_map(|place| tears.map(|tear| CrashSampleKind::Torn(place, tear))).collect(),
        ]
    }

    fn make_image_of_kind(&mut self, kind: CrashSampleKind) -> Image {
        let (recording, timeline) = (self.recording, self.timeline);
        let cuts = |place| timeline.cuts_while_open(place, recording).expect("open requests are open at some cut");
        let all_open = |cut, except: Option<usize>| {
            // A zone is written in order, so a request that survives in a zone implies all requests before it in that
            // zone.
            let is_kept = |place: usize| {
                let zone = recording.zone(place);
                except.is_some_and(|it| it == place || place < it && zone.is_some() && zone == recording.zone(it))
            };
            let open = timeline.open(recording, cut).into_iter().filter(move |&place| !is_kept(place));
            Image { cut, lost: open.map(|place| (place, RequestLoss::All)).collect() }
        };
        let image = match kind {
            CrashSampleKind::Boundary(epoch) => Image::whole(timeline.epochs()[epoch].last_cut),
            CrashSampleKind::Nothing(epoch) => all_open(timeline.epochs()[epoch].last_cut, None),
            CrashSampleKind::Prefix(place) => Image::whole(cuts(place).0),
            CrashSampleKind::Without(place) => Image { cut: cuts(place).1, lost: [(place, RequestLoss::All)].into() },
            CrashSampleKind::Alone(place) => all_open(cuts(place).1, Some(place)),
            CrashSampleKind::Torn(place, tear) => {
                let lost = self.pieces_lost_in_crash(tear, recording.pieces(place));
                Image { cut: cuts(place).0, lost: lost.map(|lost| (place, lost)).into_iter().collect() }
            }
        };
        image.in_order(recording, timeline)
    }

    /// Returns which of a write's `pieces` pieces a crash loses; none if all survive.
    fn pieces_lost_in_crash(&mut self, tear: TornPieces, pieces: u32) -> Option<RequestLoss> {
        match tear {
            TornPieces::First => RequestLoss::of_surviving_pieces((0..pieces).map(|piece| piece == 0)),
            TornPieces::Last => RequestLoss::of_surviving_pieces((0..pieces).map(|piece| piece + 1 == pieces)),
            TornPieces::Half => RequestLoss::of_surviving_pieces((0..pieces).map(|piece| piece < pieces / 2)),
            TornPieces::Random => {
                // Lost and kept pieces come in runs. The typical length of a run is drawn for each image, so that every
                // pattern is possible.
                let run = 1 + self.random_below(u64::from(pieces));
                let mut is_there = self.random_below(2) == 0;
                let mut there = Vec::with_capacity(index(pieces));
                for _ in 0..pieces {
                    is_there ^= self.random_below(run) == 0;
                    there.push(is_there);
                }
                RequestLoss::of_surviving_pieces(there)
            }
        }
    }

    /// Returns a random crash image. Its power cut is one at which a randomly chosen request may be lost.
    fn random_image_of_any_cut(&mut self, open: &[usize]) -> Image {
        let place = open[wide_index(self.random_below(length(open.len())))];
        let (first, last) = self.timeline.cuts_while_open(place, self.recording).expect("it is open");
        let cut = first + wide_index(self.random_below(length(last - first) + 1));
        self.random_image_at_cut(cut)
    }

    /// Returns a random crash image of this power cut. All open requests are lost with one random probability, and some
    /// are torn.
    fn random_image_at_cut(&mut self, cut: usize) -> Image {
        let (share, torn_share) = (self.random.unit(), self.random.unit() / 2.0);
        let mut image = Image::whole(cut);
        for place in self.timeline.open(self.recording, cut) {
            let lost = match self.recording.pieces(place) {
                pieces @ 2.. if self.random.unit() < torn_share => {
                    self.pieces_lost_in_crash(TornPieces::Random, pieces)
                }
                _ => (self.random.unit() < share).then_some(RequestLoss::All),
            };
            image.lost.extend(lost.map(|lost| (place, lost)));
        }
        image.in_order(self.recording, self.timeline)
    }

    /// Returns a random whole number below `bound`, uniformly distributed as far as 64 bits allow.
    fn random_below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Shuffles kinds of crash images in place (Fisher and Yates; Knuth's algorithm P).
    fn shuffle(&mut self, kinds: &mut [CrashSampleKind]) {
        for last in (1..kinds.len()).rev() {
            let other = wide_index(self.random_below(length(last) + 1));
            kinds.swap(last, other);
        }
    }
}
