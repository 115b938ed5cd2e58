//! Targets that read recordings of an application's writes, and names of images.

use phaselink_core::crash::format::{decode, encode};
use phaselink_core::crash::recording::{
    Durability, DurabilityRules, RecordedCommand, RecordedEventKind, RecordedOp, Recording,
};
use phaselink_core::crash::sample::images;
use phaselink_core::crash::view::ImageView;
use phaselink_core::crash::{CutTimeline, Image};

use super::text;
use crate::Target;

/// Largest drive in bytes that is laid out in memory here.
const CAPACITY_BYTES_MAX: u64 = 1 << 20;

/// Checks that a recording with a correct checksum is refused, or reads back and has images.
pub(super) const RECORDING: Target = Target { name: "crash-recording", run: recording, seeds };

/// Checks that a name is refused, or is that of an image that power may leave and that has this name again.
pub(super) const IMAGE: Target = Target { name: "crash-image", run: image, seeds: names };

fn recording(input: &[u8]) {
    let mut bytes = input.to_vec();
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    let Ok(recording) = decode(&bytes) else { return };
    assert_eq!(decode(&encode(&recording)).as_ref(), Ok(&recording));
    if recording.capacity_bytes > CAPACITY_BYTES_MAX {
        return;
    }
    let timeline = CutTimeline::new(&recording);
    let mut view = ImageView::new(&recording, &timeline);
    for image in images(&recording, &timeline, 20, 1) {
        assert_eq!(image.check(&recording, &timeline), Ok(()));
        let mut bytes = Vec::new();
        view.show(&image).append(0..recording.capacity_bytes, &mut bytes);
        assert_eq!(bytes.len() as u64, recording.capacity_bytes);
    }
}

fn image(input: &[u8]) {
    let recording = example();
    let timeline = CutTimeline::new(&recording);
    let Ok(image) = Image::parse(&text(input), &recording, &timeline) else { return };
    assert_eq!(image.check(&recording, &timeline), Ok(()));
    let name = image.name(&recording, &timeline);
    assert_eq!(Image::parse(&name, &recording, &timeline).as_ref(), Ok(&image), "{name}");
}

/// Returns a recording of two writes, one of them durable, a flush, a trim, and a torn write that has not completed.
fn example() -> Recording {
    let request = |kind, block: u64, blocks: u32, durable| RecordedCommand {
        kind,
        offset: block * 512,
        bytes: blocks * 512,
        durable,
    };
    let write = |value, blocks: u32| RecordedOp::Write(vec![value; blocks as usize * 512].into());
    Recording {
        capacity_bytes: 64 << 10,
        rules: DurabilityRules { block_bytes: 512, atomic_bytes: 1024, durability: Durability::OnFlush },
        zones: None,
        requests: vec![
            request(write(1, 1), 0, 1, false),
            request(write(2, 2), 1, 2, true),
            request(RecordedOp::Flush, 0, 0, false),
            request(RecordedOp::Trim, 8, 16, false),
            request(write(3, 8), 4, 8, false),
        ],
        lines: vec![b"done\n".to_vec()],
        events: vec![
            RecordedEventKind::Arrived(0),
            RecordedEventKind::Arrived(1),
            RecordedEventKind::Completed(1),
            RecordedEventKind::Completed(0),
            RecordedEventKind::Arrived(2),
            RecordedEventKind::Arrived(3),
            RecordedEventKind::Completed(2),
            RecordedEventKind::Printed(0),
            RecordedEventKind::Arrived(4),
        ],
        prepared: 0,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut whole = encode(&example());
    whole.truncate(whole.len() - 4);
    let mut empty = encode(&Recording { requests: Vec::new(), lines: Vec::new(), events: Vec::new(), ..example() });
    empty.truncate(empty.len() - 4);
    vec![whole, empty]
}

fn names() -> Vec<Vec<u8>> {
    let names = ["cut=9", "cut=9,missing=4,torn=5:0-3+6", "cut=4,missing=1-2", "cut=0"];
    names.map(|name| name.as_bytes().to_vec()).to_vec()
}
