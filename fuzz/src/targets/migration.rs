//! Target that resumes a controller and its drive from an image, as a server does whose client moves a drive.

use phaselink_core::protocol::nvme::rules::Limits;
use phaselink_serve::nvme::image::ImageReader;

use super::nvme::{Bench, LIMITS, PLACED, ZONED};
use crate::Target;

/// Checks images of a drive with blocks, zones or placement. The first byte chooses the drive.
pub(super) const IMAGE: Target = Target { name: "nvme-image", run: resume, seeds: images };

const DRIVES: [Limits; 3] = [LIMITS, ZONED, PLACED];

fn resume(input: &[u8]) {
    let Some((drive, image)) = input.split_first() else { return };
    let mut bench = Bench::new(DRIVES[usize::from(*drive) % DRIVES.len()]);
    if !is_taken(&mut bench, image) {
        return bench.start_again();
    }
    bench.work();
    bench.execute_all();
    bench.check_zones();
    if let Some(image) = taken_image(&mut bench) {
        assert!(is_taken(&mut bench, &image), "a server takes its own image");
    }
    bench.start_again();
}

/// Puts an image in force. Returns false if it is refused.
fn is_taken(bench: &mut Bench, image: &[u8]) -> bool {
    let mut rest = ImageReader(image);
    let Ok(drive) = bench.controller.read_drive(&mut rest, &bench.store) else { return false };
    let Ok(controller) = bench.controller.of_image(&mut rest, 0) else { return false };
    drive.put_in_force(&bench.subsystem, &bench.store).expect("a store in memory takes what was checked");
    bench.controller = controller;
    bench.controller.settle(&mut bench.machine);
    true
}

/// Returns the image of a bench's controller and drive; none if commands are still in flight.
fn taken_image(bench: &mut Bench) -> Option<Vec<u8>> {
    if !bench.controller.drain(&mut bench.machine, &bench.store) {
        return None;
    }
    let mut image = Vec::new();
    bench.subsystem.put_image(&bench.store, &mut image).expect("a store in memory");
    bench.controller.put_image(&mut bench.machine, &mut image);
    Some(image)
}

fn images() -> Vec<Vec<u8>> {
    let image = |(number, limits): (u8, &Limits)| {
        let image = taken_image(&mut Bench::new(*limits)).expect("nothing is in flight");
        [&[number][..], &image].concat()
    };
    (0..).zip(&DRIVES).map(image).collect()
}
