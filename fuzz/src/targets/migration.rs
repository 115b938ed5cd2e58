//! Target that resumes a controller and its drive from an image, as a server does whose client moves a drive.

use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_serve::nvme::image::ImageReader;

use super::nvme::{Bench, LIMITS, PLACED, ZONED};
use crate::Target;
use crate::script::Script;

/// Checks images of a drive with blocks, zones or placement. The first byte chooses the drive; each three bytes after it
/// change one byte of its image: a distance from the end, and the value.
pub(super) const IMAGE: Target = Target { name: "nvme-image", run: resume, seeds: changes };

const DRIVES: [Limits; 3] = [LIMITS, ZONED, PLACED];

/// Number of bytes at the end of an image, with its queues, of which a seed changes each.
const SEEDED_BYTES: u16 = 160;

fn resume(input: &[u8]) {
    let mut script = Script::new(input);
    let limits = DRIVES[usize::from(script.byte()) % DRIVES.len()];
    let mut image = drain_and_encode(&mut Bench::new(limits)).expect("nothing is in flight");
    while !script.is_over() {
        let (from_end, value) = (script.number(2) as usize, script.byte());
        let place = image.len().checked_sub(from_end).filter(|place| *place < image.len());
        place.into_iter().for_each(|place| image[place] = value);
    }
    let mut bench = Bench::new(limits);
    if !put_in_force(&mut bench, &image) {
        return bench.start_again();
    }
    bench.work();
    bench.execute_all();
    bench.check_zones();
    if let Some(image) = drain_and_encode(&mut bench) {
        assert!(put_in_force(&mut bench, &image), "a server takes its own image");
    }
    bench.start_again();
}

/// Puts an image in force. Returns false if it is refused.
fn put_in_force(bench: &mut Bench, image: &[u8]) -> bool {
    let mut rest = ImageReader(image);
    let Ok(drive) = bench.controller.read_drive(&mut rest, &bench.store) else { return false };
    let Ok(controller) = bench.controller.of_image(&mut rest, 0) else { return false };
    drive.put_in_force(&bench.subsystem, &bench.store).expect("a store in memory takes what was checked");
    bench.controller = controller;
    bench.controller.settle(&mut bench.machine);
    true
}

/// Drains the controller, and returns the image of it and its drive; none if commands are still in flight.
fn drain_and_encode(bench: &mut Bench) -> Option<Vec<u8>> {
    if !bench.controller.drain(&mut bench.machine, &bench.store) {
        return None;
    }
    let mut image = Vec::new();
    bench.subsystem.put_image(&bench.store, &mut image).expect("a store in memory");
    bench.controller.put_image(&mut bench.machine, &mut image);
    Some(image)
}

fn changes() -> Vec<Vec<u8>> {
    let change = |from_end: u16, value| [from_end.to_le_bytes().to_vec(), vec![value]].concat();
    let of_drive = |drive: u8| {
        let changed = (1..=SEEDED_BYTES).flat_map(move |from_end| [1, 0xff].map(|value| change(from_end, value)));
        std::iter::once(Vec::new()).chain(changed).map(move |change| [&[drive][..], &change].concat())
    };
    (0..DRIVES.len() as u8).flat_map(of_drive).collect()
}
