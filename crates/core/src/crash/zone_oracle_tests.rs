//! Reference enumeration of crash images of drives with zones, without the code under test: every cut, and every
//! possible length of the surviving part of each zone.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::format::{decode, encode};
use super::image::Image;
use super::recording::{Durability, DurabilityRules, RecordedCommand, RecordedEventKind, RecordedOp, Recording};
use super::sample::{CrashImageCount, images, possible, sampled};
use super::shrink::shrink;
use super::timeline::CutTimeline;
use super::view::ImageView;
use super::zones::zones;
use crate::media::zones::{ZoneLayout, ZoneState};

const BLOCK: u32 = 512;
const ZONES: usize = 2;
/// Number of blocks of a zone in these tests; all but the last can be written.
const ZONE_BLOCKS: usize = 5;

/// State of a drive in these tests: first byte of each block, and the state and number of written blocks of each zone.
type State = (Vec<u8>, Vec<(ZoneState, u64)>);

fn zone_layout_with_limit(active_max: u32) -> ZoneLayout {
    ZoneLayout {
        zones: ZONES as u32,
        zone_blocks: ZONE_BLOCKS as u64,
        capacity_blocks: ZONE_BLOCKS as u64 - 1,
        active_max,
        open_max: 0,
    }
}

/// Simple model of a zone for these tests: number of written blocks, and true if full.
#[derive(Clone, Copy, Default)]
struct ZoneModel {
    written: usize,
    is_full: bool,
}

impl ZoneModel {
    fn state(self) -> (ZoneState, u64) {
        let state = match (self.is_full, self.written) {
            (true, _) => ZoneState::Full,
            (false, 0) => ZoneState::Empty,
            _ => ZoneState::Closed,
        };
        (state, self.written as u64)
    }

    fn apply_change_to_zone(&mut self, kind: &RecordedOp, blocks: usize) {
        match kind {
            RecordedOp::Write(_) | RecordedOp::Zero => {
                self.written += blocks;
                self.is_full = self.written == ZONE_BLOCKS - 1;
            }
            RecordedOp::Reset => *self = ZoneModel::default(),
            RecordedOp::Finish => self.is_full = true,
            RecordedOp::Trim | RecordedOp::Flush => {}
        }
    }
}

/// Returns a recording of requests that zones accept. A script entry has a name, a zone and a number of blocks; `done`
/// completes a pending request.
fn recording(script: &[(&str, usize, usize)], atomic: u32, durability: Durability, active_max: u32) -> Recording {
    let rules = DurabilityRules { block_bytes: BLOCK, atomic_bytes: atomic * BLOCK, durability };
    let mut recording = Recording {
        capacity_bytes: (ZONES * ZONE_BLOCKS) as u64 * u64::from(BLOCK),
        rules,
        zones: Some(zone_layout_with_limit(active_max)),
        requests: Vec::new(),
        lines: Vec::new(),
        events: Vec::new(),
        prepared: 0,
    };
    let (mut by_hand, mut waiting) = ([ZoneModel::default(); ZONES], Vec::new());
    for &(what, zone, blocks) in script {
        if what == "done" {
            if !waiting.is_empty() {
                recording.events.push(RecordedEventKind::Completed(waiting.remove(zone % waiting.len())));
            }
            continue;
        }
        let room = ZONE_BLOCKS - 1 - by_hand[zone].written;
        let blocks = if what.starts_with("write") { blocks.clamp(1, room.max(1)) } else { blocks };
        if recording.requests.len() == 6 || what.starts_with("write") && by_hand[zone].is_full {
            continue;
        }
        let value = 10 * (recording.requests.len() as u8 + 1);
        let (kind, first, blocks) = match what {
            "flush" => (RecordedOp::Flush, 0, 0),
            "reset" => (RecordedOp::Reset, 0, ZONE_BLOCKS),
            "finish" => (RecordedOp::Finish, 0, ZONE_BLOCKS),
            "trim" => (RecordedOp::Trim, 0, 2),
            _ => {
                let bytes = (0..blocks as u8).flat_map(|block| [value + block; BLOCK as usize]).collect();
                (RecordedOp::Write(bytes), by_hand[zone].written, blocks)
            }
        };
        by_hand[zone].apply_change_to_zone(&kind, blocks);
        let first = if kind == RecordedOp::Flush { 0 } else { zone * ZONE_BLOCKS + first };
        let (offset, bytes) = (first as u64 * u64::from(BLOCK), blocks as u32 * BLOCK);
        waiting.push(recording.requests.len());
        recording.events.push(RecordedEventKind::Arrived(recording.requests.len()));
        recording.requests.push(RecordedCommand { kind, offset, bytes, durable: what.ends_with("fua") });
    }
    recording
}

fn at(recording: &Recording, wanted: RecordedEventKind) -> Option<usize> {
    recording.events.iter().position(|event| *event == wanted)
}

/// True if a change must be on the drive by its own durability, without that of later changes in its zone.
fn must_survive_by_own_durability(recording: &Recording, change: usize, cut: usize) -> bool {
    let before = |event| at(recording, event).filter(|at| *at < cut);
    let RecordedCommand { kind, durable, .. } = &recording.requests[change];
    if at(recording, RecordedEventKind::Arrived(change)).unwrap() < recording.prepared {
        return true;
    }
    let Some(answered) = before(RecordedEventKind::Completed(change)) else { return false };
    let is_action = matches!(kind, RecordedOp::Reset | RecordedOp::Finish);
    let is_flush = |&flush: &usize| recording.requests[flush].kind == RecordedOp::Flush;
    let covers = |flush: usize| {
        before(RecordedEventKind::Completed(flush)).is_some()
            && at(recording, RecordedEventKind::Arrived(flush)).unwrap() > answered
    };
    let by_itself = *durable || is_action || recording.rules.durability == Durability::OnAcknowledgement;
    by_itself || (0..recording.requests.len()).filter(is_flush).any(covers)
}

/// Returns, for each possible length of the surviving part of an ordered list of changes, the surviving changes with
/// their numbers of blocks.
fn surviving_prefixes(recording: &Recording, changes: &[usize], cut: usize) -> Vec<Vec<(usize, usize)>> {
    let blocks = |place: usize| (recording.requests[place].bytes / BLOCK) as usize;
    let durable = changes
        .iter()
        .rposition(|&place| must_survive_by_own_durability(recording, place, cut))
        .map_or(0, |last| last + 1);
    let mut found = Vec::new();
    for whole in durable..=changes.len() {
        let there: Vec<_> = changes[..whole].iter().map(|&place| (place, blocks(place))).collect();
        found.push(there.clone());
        let Some(&torn) = changes.get(whole) else { continue };
        let is_write = matches!(recording.requests[torn].kind, RecordedOp::Write(_));
        let is_torn = is_write && recording.requests[torn].bytes > recording.rules.atomic_bytes;
        for part in (1..blocks(torn)).filter(|_| is_torn) {
            found.push([&there[..], &[(torn, part)]].concat());
        }
    }
    found
}

/// Returns the state of the drive after the given numbers of blocks of some changes. `None` if too many zones would be
/// active.
fn state_after_changes(recording: &Recording, there: &[(usize, usize)]) -> Option<State> {
    let (mut bytes, mut zones) = (vec![0; ZONES * ZONE_BLOCKS], [ZoneModel::default(); ZONES]);
    let mut there = there.to_vec();
    there.sort_unstable();
    for (place, blocks) in there {
        let RecordedCommand { kind, offset, .. } = &recording.requests[place];
        let first = (*offset / u64::from(BLOCK)) as usize;
        for block in 0..blocks {
            match kind {
                RecordedOp::Write(data) => bytes[first + block] = data[block * BLOCK as usize],
                RecordedOp::Finish => {}
                _ => bytes[first + block] = 0,
            }
        }
        zones[first / ZONE_BLOCKS].apply_change_to_zone(kind, blocks);
    }
    let states = zones.map(ZoneModel::state).to_vec();
    let active = states.iter().filter(|(state, _)| *state == ZoneState::Closed).count() as u32;
    let most = recording.zones.unwrap().active_max;
    (most == 0 || active <= most).then_some((bytes, states))
}

/// Returns every state that a power failure at any power cut of the recording may leave, as text.
fn legal_states(recording: &Recording) -> BTreeSet<String> {
    let mut states = BTreeSet::new();
    for cut in recording.prepared..=recording.events.len() {
        let arrived = |event: &RecordedEventKind| match *event {
            RecordedEventKind::Arrived(place) => Some(place),
            _ => None,
        };
        let arrived: Vec<usize> = recording.events[..cut].iter().filter_map(arrived).collect();
        let is_trim = |place: usize| recording.requests[place].kind == RecordedOp::Trim;
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); ZONES];
        for place in arrived.into_iter().filter(|&place| recording.requests[place].kind != RecordedOp::Flush) {
            let zone = recording.requests[place].offset as usize / BLOCK as usize / ZONE_BLOCKS;
            if is_trim(place) { groups.push(vec![place]) } else { groups[zone].push(place) }
        }
        let mut all: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
        for group in &groups {
            let mut choices = surviving_prefixes(recording, group, cut);
            if let [trim] = group[..]
                && is_trim(trim)
                && recording.requests[trim].bytes > recording.rules.atomic_bytes
            {
                // A deallocation of two blocks may take effect on either block alone. `usize::MAX` stands for the
                // second block alone.
                choices.push(vec![(trim, 1)]);
                choices.push(vec![(trim, usize::MAX)]);
                choices
                    .retain(|choice| !must_survive_by_own_durability(recording, trim, cut) || choice == &[(trim, 2)]);
            }
            all = all.iter().flat_map(|one| choices.iter().map(move |more| [&one[..], more].concat())).collect();
        }
        states.extend(
            all.iter().filter_map(|there| state_of_two_zones(recording, there)).map(|state| format!("{state:?}")),
        );
    }
    states
}

/// Returns the state of the drive after some changes, as `state_after_changes` does. A block count of `usize::MAX` means the second
/// block of a deallocation alone.
fn state_of_two_zones(recording: &Recording, there: &[(usize, usize)]) -> Option<State> {
    let mut recording = recording.clone();
    let mut there = there.to_vec();
    for (place, blocks) in there.iter_mut().filter(|(_, blocks)| *blocks == usize::MAX) {
        recording.requests[*place].offset += u64::from(BLOCK);
        *blocks = 1;
    }
    state_after_changes(&recording, &there)
}

fn states(recording: &Recording, images: &[Image]) -> BTreeSet<String> {
    let timeline = CutTimeline::new(recording);
    let mut view = ImageView::new(recording, &timeline);
    let mut state = |image: &Image| {
        let (shown, mut bytes) = (view.show(image), Vec::new());
        shown.append(0..recording.capacity_bytes, &mut bytes);
        let zones = zones(recording, &timeline, image).unwrap().unwrap();
        let states: Vec<_> = (0..ZONES as u32).map(|zone| zones.zone(zone)).collect();
        let state: State = (bytes.chunks(BLOCK as usize).map(|block| block[0]).collect(), states);
        format!("{state:?}")
    };
    images.iter().map(&mut state).collect()
}

fn count_zone_oracle_images(recording: &Recording) -> usize {
    let timeline = CutTimeline::new(recording);
    let images = images(recording, &timeline, usize::MAX, 1);
    if recording.zones.unwrap().active_max == 0 {
        assert_eq!(possible(&timeline), CrashImageCount::Exact(images.len() as u64));
    }
    assert_eq!(states(recording, &images), legal_states(recording));
    images.len()
}

fn count(script: &[(&str, usize, usize)]) -> usize {
    count_zone_oracle_images(&recording(script, 1, Durability::OnFlush, 0))
}

#[test]
fn zone_image_count_equals_a_hand_count() {
    let done = ("done", 0, 0);
    assert_eq!(count(&[("write", 0, 3)]), 4, "the write pointer is at any block");
    assert_eq!(count(&[("write", 0, 1), ("write", 0, 1)]), 3, "the second one is not there alone");
    assert_eq!(count(&[("write", 0, 1), ("write", 1, 1)]), 4, "zones know nothing of each other");
    assert_eq!(count(&[("write", 0, 1), ("write fua", 0, 1), ("done", 1, 0)]), 3, "and then both are durable");
    assert_eq!(count(&[("write", 0, 1), done, ("flush", 0, 0), done, ("write", 0, 1)]), 3);
    // Before the reset: none, one or both writes. While the reset is in flight: the same, or empty. After its
    // completion: empty.
    assert_eq!(count(&[("write", 0, 1), ("write", 0, 1), ("reset", 0, 0)]), 4);
    assert_eq!(count(&[("write", 0, 1), done, ("finish", 0, 0), done]), 3);
    assert_eq!(count(&[("write", 0, 1), done, ("trim", 0, 0)]), 8, "a deallocation has no order");
}

#[test]
fn atomic_zone_write_is_whole_and_protected_buffer_keeps_it() {
    let long = [("write", 0, 2), ("done", 0, 0), ("write", 0, 2)];
    assert_eq!(count_zone_oracle_images(&recording(&long, 2, Durability::OnFlush, 0)), 3);
    assert_eq!(count_zone_oracle_images(&recording(&long, 1, Durability::OnAcknowledgement, 0)), 5);
}

#[test]
fn image_beyond_the_active_zone_limit_is_refused() {
    let script = [("write", 0, 1), ("done", 0, 0), ("finish", 0, 0), ("write", 1, 1)];
    let recording = recording(&script, 1, Durability::OnFlush, 1);
    count_zone_oracle_images(&recording);
    let timeline = CutTimeline::new(&recording);
    let refused = Image::parse("cut=4,missing=2", &recording, &timeline).unwrap_err().to_string();
    assert!(refused.contains("2 zones would be active, of at most 1"), "{refused}");
}

#[test]
fn image_with_a_gap_in_a_zone_is_refused() {
    let recording = recording(&[("write", 0, 1), ("write", 0, 3), ("write", 1, 2)], 1, Durability::OnFlush, 0);
    let timeline = CutTimeline::new(&recording);
    let refused = |name| Image::parse(name, &recording, &timeline).unwrap_err().to_string();
    assert!(refused("cut=3,missing=1").contains("request 2 is there, and request 1 before it in zone 0 is not"));
    assert!(refused("cut=3,torn=2:1-2").contains("request 2 is torn, and zone 0 has blocks behind a gap"));
    assert!(Image::parse("cut=3,missing=3,torn=2:0-1", &recording, &timeline).is_ok());
}

/// Returns random recordings of up to six requests that complete in any order, or never.
fn random_zone_recordings() -> impl Strategy<Value = Recording> {
    let event = (0..10usize, 0..ZONES, 1..4usize);
    (prop::collection::vec(event, 0..14), any::<bool>(), 1..3u32, 0..3u32, 0..3usize).prop_map(
        |(script, is_kept, atomic, active_max, prepared)| {
            let durability = if is_kept { Durability::OnAcknowledgement } else { Durability::OnFlush };
            let names = ["done", "done", "done", "flush", "write", "write", "write fua", "reset", "finish", "trim"];
            let script: Vec<_> = script.into_iter().map(|(what, zone, blocks)| (names[what], zone, blocks)).collect();
            let mut recording = recording(&script, atomic, durability, active_max);
            recording.prepared = prepared.min(recording.events.len());
            recording
        },
    )
}

proptest! {
    #[test]
    fn exactly_the_legal_zone_states_are_generated(recording in random_zone_recordings()) {
        count_zone_oracle_images(&recording);
    }

    #[test]
    fn zone_samples_are_legal_and_have_names(recording in random_zone_recordings(), seed: u64, wanted in 1..60usize) {
        let timeline = CutTimeline::new(&recording);
        let sample = sampled(&recording, &timeline, wanted, seed);
        prop_assert!(sample.len() <= wanted);
        for image in &sample {
            prop_assert_eq!(image.check(&recording, &timeline), Ok(()));
            prop_assert_eq!(&Image::parse(&image.name(&recording, &timeline), &recording, &timeline).unwrap(), image);
        }
        prop_assert!(states(&recording, &sample).is_subset(&legal_states(&recording)));
    }

    #[test]
    fn zoned_recording_file_reads_back_equal(recording in random_zone_recordings(), flip: (usize, u8)) {
        let mut bytes = encode(&recording);
        prop_assert_eq!(&decode(&bytes).unwrap(), &recording);
        let place = flip.0 % bytes.len();
        bytes[place] ^= flip.1;
        prop_assert!(flip.1 == 0 || decode(&bytes).is_err());
    }

    #[test]
    fn shrinking_keeps_zone_writes_in_order(recording in random_zone_recordings(), seed: u64, culprit in 0..6usize) {
        let timeline = CutTimeline::new(&recording);
        let is_gone = |image: &Image| image.lost.contains_key(&culprit);
        for image in images(&recording, &timeline, 50, seed).into_iter().filter(is_gone) {
            let small = shrink(&recording, &timeline, image, usize::MAX, is_gone);
            prop_assert_eq!(small.check(&recording, &timeline), Ok(()));
            prop_assert!(is_gone(&small));
        }
    }
}
