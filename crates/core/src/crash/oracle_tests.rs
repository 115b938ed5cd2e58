//! Reference enumeration of crash images, without the code under test: every cut and every set of pieces, directly from
//! the definition.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::format::{decode, encode};
use super::image::{Image, RequestLoss};
use super::recording::{Durability, DurabilityRules, RecordedCommand, RecordedEventKind, RecordedOp, Recording};
use super::sample::{CrashImageCount, images, possible, sampled};
use super::shrink::shrink;
use super::timeline::CutTimeline;
use super::view::ImageView;

const BLOCK: u32 = 512;

/// Contents of a drive with one byte per block, as all bytes of a block are equal in these tests.
type State = Vec<u8>;

fn at(recording: &Recording, wanted: RecordedEventKind) -> Option<usize> {
    recording.events.iter().position(|event| *event == wanted)
}

/// True if a change must be on the drive after this power cut, by the words of the specifications.
fn must_survive(recording: &Recording, change: usize, cut: usize) -> bool {
    let before = |event| at(recording, event).filter(|at| *at < cut);
    if at(recording, RecordedEventKind::Arrived(change)).unwrap() < recording.prepared {
        return true;
    }
    let Some(answered) = before(RecordedEventKind::Completed(change)) else { return false };
    if recording.rules.durability == Durability::OnAcknowledgement || recording.requests[change].durable {
        return true;
    }
    (0..recording.requests.len()).any(|flush| {
        let is_answered = recording.requests[flush].kind == RecordedOp::Flush
            && before(RecordedEventKind::Completed(flush)).is_some();
        is_answered && at(recording, RecordedEventKind::Arrived(flush)).unwrap() > answered
    })
}

/// Returns every state that a power failure at any power cut of the recording may leave.
fn all_legal_states(recording: &Recording) -> BTreeSet<State> {
    let mut states = BTreeSet::new();
    for cut in recording.prepared..=recording.events.len() {
        let arrived: Vec<usize> = recording.events[..cut]
            .iter()
            .filter_map(|event| match *event {
                RecordedEventKind::Arrived(place) if recording.requests[place].kind != RecordedOp::Flush => Some(place),
                _ => None,
            })
            .collect();
        // Each change that is not durable yet has one bit for each piece that a crash can lose without the others.
        let pieces = |change: usize| {
            let RecordedCommand { bytes, .. } = recording.requests[change];
            if bytes <= recording.rules.atomic_bytes { 1 } else { bytes / BLOCK }
        };
        let open: Vec<usize> = arrived.iter().copied().filter(|&one| !must_survive(recording, one, cut)).collect();
        let bits: u32 = open.iter().map(|&one| pieces(one)).sum();
        for there in 0..1u64 << bits {
            let mut state = vec![0; (recording.capacity_bytes / u64::from(BLOCK)) as usize];
            let mut bit = 0;
            for &change in &arrived {
                let request = &recording.requests[change];
                let (first, blocks) = ((request.offset / u64::from(BLOCK)) as usize, (request.bytes / BLOCK) as usize);
                let is_open = open.contains(&change);
                for block in 0..blocks {
                    let piece = if pieces(change) == 1 { 0 } else { block as u32 };
                    if !is_open || there >> (bit + piece) & 1 == 1 {
                        state[first + block] = match &request.kind {
                            RecordedOp::Write(data) => data[block * BLOCK as usize],
                            _ => 0,
                        };
                    }
                }
                bit += if is_open { pieces(change) } else { 0 };
            }
            states.insert(state);
        }
    }
    states
}

fn states(recording: &Recording, images: &[Image]) -> BTreeSet<State> {
    let timeline = CutTimeline::new(recording);
    let mut view = ImageView::new(recording, &timeline);
    images.iter().map(|image| state(&mut view, image)).collect()
}

fn state(view: &mut ImageView<'_>, image: &Image) -> State {
    let (shown, mut bytes) = (view.show(image), Vec::new());
    shown.append(0..shown.recording.capacity_bytes, &mut bytes);
    bytes.chunks(BLOCK as usize).map(|block| block[0]).collect()
}

/// Returns a recording on a drive of four blocks. Each request has an operation and its first block; `done` completes a
/// request by its number.
fn recording(events: &[(&str, usize)], rules: DurabilityRules) -> Recording {
    let mut recording = Recording {
        capacity_bytes: 4 * u64::from(BLOCK),
        rules,
        zones: None,
        requests: Vec::new(),
        lines: Vec::new(),
        events: Vec::new(),
        prepared: 0,
    };
    for &(what, number) in events {
        let value = recording.requests.len() as u8 + 1;
        let (block, blocks) = (number % 4, if what.starts_with("long") { 2.min(4 - number % 4) } else { 1 });
        let bytes = BLOCK * blocks as u32;
        let kind = match what {
            "done" => {
                recording.events.push(RecordedEventKind::Completed(number));
                continue;
            }
            "flush" => RecordedOp::Flush,
            "trim" => RecordedOp::Trim,
            _ => RecordedOp::Write((0..blocks as u8).flat_map(|block| [4 * value + block; BLOCK as usize]).collect()),
        };
        let (offset, bytes) = if kind == RecordedOp::Flush { (0, 0) } else { (block as u64 * u64::from(BLOCK), bytes) };
        let durable = what.ends_with("fua");
        recording.events.push(RecordedEventKind::Arrived(recording.requests.len()));
        recording.requests.push(RecordedCommand { kind, offset, bytes, durable });
    }
    recording
}

const VOLATILE: DurabilityRules =
    DurabilityRules { block_bytes: BLOCK, atomic_bytes: BLOCK, durability: Durability::OnFlush };

fn all(recording: &Recording) -> Vec<Image> {
    images(recording, &CutTimeline::new(recording), usize::MAX, 1)
}

fn count_oracle_images(recording: &Recording) -> usize {
    let images = all(recording);
    assert_eq!(possible(&CutTimeline::new(recording)), CrashImageCount::Exact(images.len() as u64));
    assert_eq!(states(recording, &images), all_legal_states(recording));
    images.len()
}

#[test]
fn crash_image_count_equals_a_hand_count() {
    let count = |events: &[(&str, usize)]| count_oracle_images(&recording(events, VOLATILE));
    assert_eq!(count(&[]), 1, "an untouched drive");
    assert_eq!(count(&[("write", 0)]), 2, "there or not");
    assert_eq!(count(&[("write", 0), ("done", 0)]), 2, "an answer alone keeps nothing");
    assert_eq!(count(&[("long", 0)]), 4, "either block or both");
    assert_eq!(count(&[("write", 0), ("write", 1), ("done", 1), ("done", 0)]), 4, "any order");
    // Before the flush, either write, both or none can be present (4 states). After it both are durable, and the third
    // may be present or not: 5 states in total.
    let flushed = [("write", 0), ("write", 1), ("done", 0), ("done", 1), ("flush", 0), ("done", 2), ("write", 2)];
    assert_eq!(count(&flushed), 5);
    // The flush arrived before the first write had completed, so it does not make that write durable.
    assert_eq!(count(&[("write", 0), ("flush", 0), ("done", 0), ("done", 1), ("write", 1)]), 4);
    // A flush that has not completed guarantees nothing.
    assert_eq!(count(&[("write", 0), ("done", 0), ("flush", 0), ("write", 1)]), 4);
    // A write with force unit access makes itself durable, but no write before it.
    assert_eq!(count(&[("write", 0), ("done", 0), ("write fua", 1), ("done", 1)]), 4);
    assert_eq!(count(&[("write", 0), ("write fua", 1), ("done", 1), ("write", 2)]), 6);
    assert_eq!(count(&[("write", 0), ("done", 0), ("flush", 0), ("done", 1), ("trim", 0)]), 3);
}

#[test]
fn protected_drive_keeps_acknowledged_writes_and_atomic_units() {
    let protected = DurabilityRules { durability: Durability::OnAcknowledgement, ..VOLATILE };
    let events = [("write", 0), ("done", 0), ("long", 1)];
    assert_eq!(
        count_oracle_images(&recording(&events, protected)),
        5,
        "nothing, the first, and of the second any part"
    );
    let atomic = DurabilityRules { atomic_bytes: 2 * BLOCK, ..VOLATILE };
    assert_eq!(count_oracle_images(&recording(&[("long", 0)], atomic)), 2);
}

#[test]
fn preparation_requests_survive() {
    let mut recording = recording(&[("write", 0), ("write", 1), ("done", 0), ("write", 2)], VOLATILE);
    recording.prepared = 3;
    assert_eq!(count_oracle_images(&recording), 2);
}

#[test]
fn image_name_reads_back_and_impossible_images_are_refused() {
    let recording = recording(&[("write", 0), ("done", 0), ("flush", 0), ("done", 1), ("long", 1)], VOLATILE);
    let timeline = CutTimeline::new(&recording);
    let parse = |text: &str| Image::parse(text, &recording, &timeline);
    for image in all(&recording) {
        assert_eq!(parse(&image.name(&recording, &timeline)).unwrap(), image);
    }
    assert_eq!(parse("cut=5,torn=3:1").unwrap().lost, [(2, RequestLoss::AllBut(vec![(1, 1)]))].into());
    let wrong = [
        ("", "is no image"),
        ("cut=6", "cuts from 0 to 5"),
        ("cut=x", "is no image"),
        ("cut=5,missing=1", "it was durable"),
        ("cut=5,missing=2", "is a flush"),
        ("cut=4,missing=3", "had not arrived"),
        ("cut=5,missing=9", "had not arrived"),
        ("cut=5,missing=0", "is no image"),
        ("cut=5,torn=3:2", "has 2 pieces"),
        ("cut=5,torn=3:0-1", "has 2 pieces"),
        ("cut=5,torn=3:1+0", "has 2 pieces"),
        ("cut=5,torn=3:1-0", "is no image"),
        ("cut=5,torn=3:4294967295", "is no image"),
    ];
    for (text, found) in wrong {
        let problem = parse(text).unwrap_err().to_string();
        assert!(problem.contains(found), "{text}: {problem}");
    }
}

/// Returns random recordings of up to six requests that complete in any order, or never.
fn random_recordings() -> impl Strategy<Value = Recording> {
    let event = (0..8u8, 0..4usize);
    let rules = (any::<bool>(), 1..3u32);
    (prop::collection::vec(event, 0..14), rules, 0..4usize).prop_map(|(script, (is_kept, atomic), prepared)| {
        let durability = if is_kept { Durability::OnAcknowledgement } else { Durability::OnFlush };
        let rules = DurabilityRules { block_bytes: BLOCK, atomic_bytes: atomic * BLOCK, durability };
        let (mut events, mut waiting, mut requests) = (Vec::new(), Vec::new(), 0);
        for (what, number) in script {
            let what = ["done", "done", "done", "flush", "write", "long", "write fua", "trim"][usize::from(what)];
            if what == "done" {
                if !waiting.is_empty() {
                    events.push(("done", waiting.remove(number % waiting.len())));
                }
            } else if requests < 6 {
                events.push((what, number));
                waiting.push(requests);
                requests += 1;
            }
        }
        let mut recording = recording(&events, rules);
        recording.prepared = prepared.min(recording.events.len());
        recording
    })
}

proptest! {
    #[test]
    fn exactly_the_legal_states_are_generated(recording in random_recordings()) {
        count_oracle_images(&recording);
    }

    #[test]
    fn samples_are_legal_distinct_and_eventually_complete(recording in random_recordings(), seed: u64, wanted in 1..60usize) {
        let timeline = CutTimeline::new(&recording);
        let legal = all_legal_states(&recording);
        let sample = sampled(&recording, &timeline, wanted, seed);
        prop_assert!(sample.len() <= wanted);
        prop_assert_eq!(sample.iter().collect::<BTreeSet<_>>().len(), sample.len());
        for image in &sample {
            prop_assert_eq!(image.check(&recording, &timeline), Ok(()));
            prop_assert_eq!(&Image::parse(&image.name(&recording, &timeline), &recording, &timeline).unwrap(), image);
        }
        prop_assert!(states(&recording, &sample).is_subset(&legal));
        // With few requests there are few crash images, and a large random sample contains all of them.
        if recording.requests.len() <= 4 {
            prop_assert_eq!(states(&recording, &sampled(&recording, &timeline, 100_000, seed)), legal);
        }
    }

    #[test]
    fn image_bytes_are_independent_of_viewing_order(recording in random_recordings(), seed: u64) {
        let timeline = CutTimeline::new(&recording);
        let images = all(&recording);
        let mut view = ImageView::new(&recording, &timeline);
        let in_order: Vec<State> = images.iter().map(|image| state(&mut view, image)).collect();
        for step in 0..images.len() {
            let place = (seed as usize).wrapping_mul(step + 1) % images.len();
            prop_assert_eq!(&state(&mut view, &images[place]), &in_order[place]);
        }
    }

    #[test]
    fn recording_file_reads_back_equal(recording in random_recordings(), flip: (usize, u8)) {
        let mut bytes = encode(&recording);
        prop_assert_eq!(&decode(&bytes).unwrap(), &recording);
        let place = flip.0 % bytes.len();
        bytes[place] ^= flip.1;
        prop_assert!(flip.1 == 0 || decode(&bytes).is_err());
        bytes.truncate(place);
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn shrinking_leaves_no_removable_loss(recording in random_recordings(), seed: u64, culprit: u8) {
        let timeline = CutTimeline::new(&recording);
        let sample = images(&recording, &timeline, 50, seed);
        let is_gone = |image: &Image| {
            image.lost.keys().any(|place| *place == usize::from(culprit) % 6)
        };
        for image in sample.into_iter().filter(is_gone) {
            let small = shrink(&recording, &timeline, image, usize::MAX, is_gone);
            prop_assert_eq!(small.check(&recording, &timeline), Ok(()));
            prop_assert!(is_gone(&small));
            prop_assert_eq!(small.lost.len(), 1);
        }
    }
}
