//! Power cuts: what survives is what the specification allows, and all of that.

use std::collections::BTreeSet;

use phaselink_core::crash::format::encode;
use phaselink_core::crash::recording::{
    Durability, DurabilityRules, RecordedCommand, RecordedEventKind, RecordedOp, Recording,
};
use phaselink_embed::{Description, Drive, LegalImage, Misuse, Operation, Status, Survival, Time};

const BLOCK: u64 = 4096;

fn open(name: &str) -> Drive {
    Description::shipped(name).unwrap().with_power_cuts().open().unwrap()
}

fn write(drive: &mut Drive, block: u64, value: u8) {
    let ticket = drive.submit(drive.now(), 0, Operation::write(block * BLOCK, &[value; BLOCK as usize])).unwrap();
    assert!(drive.wait(ticket).unwrap().status().is_success());
}

fn flush(drive: &mut Drive) {
    let ticket = drive.submit(drive.now(), 0, Operation::flush()).unwrap();
    assert!(drive.wait(ticket).unwrap().status().is_success());
}

/// First bytes of the first blocks.
fn blocks<const COUNT: usize>(drive: &Drive) -> [u8; COUNT] {
    std::array::from_fn(|block| {
        let mut found = [0];
        drive.peek(0, block as u64 * BLOCK, &mut found).unwrap();
        found[0]
    })
}

#[test]
fn flushed_writes_survive_every_power_cut_and_others_may_be_lost() {
    let mut found = BTreeSet::new();
    for seed in 0..200 {
        let mut drive = open("tlc-gen4");
        write(&mut drive, 0, 1);
        flush(&mut drive);
        write(&mut drive, 1, 2);
        write(&mut drive, 0, 3);
        drive.cut_power(drive.now(), Survival::Drawn { seed }).unwrap();
        found.insert(blocks::<2>(&drive));
    }
    assert_eq!(found, BTreeSet::from([[1, 0], [1, 2], [3, 0], [3, 2]]));
}

#[test]
fn completed_writes_survive_on_a_drive_with_power_loss_protection() {
    for seed in 0..50 {
        let mut drive = open("tlc-gen5");
        assert!(!drive.is_volatile());
        write(&mut drive, 0, 1);
        drive.submit(drive.now(), 0, Operation::write(BLOCK, &[2; BLOCK as usize])).unwrap();
        drive.cut_power(drive.now(), Survival::Drawn { seed }).unwrap();
        assert_eq!(blocks::<1>(&drive), [1]);
        let lost = drive.next_completion().unwrap();
        assert_eq!((lost.status(), lost.stages().count()), (Status::PowerLost, 0));
    }
}

#[test]
fn every_legal_image_is_listed_once_with_an_explanation() {
    let mut drive = open("tlc-gen4");
    write(&mut drive, 0, 1);
    flush(&mut drive);
    for block in 0..3 {
        write(&mut drive, block, 10 + block as u8);
    }
    let images = drive.images(100, 1).unwrap();
    let contents: BTreeSet<Vec<u8>> = images
        .iter()
        .map(|image| {
            let mut bytes = vec![0; 3 * BLOCK as usize];
            image.read(0, &mut bytes).unwrap();
            bytes.chunks(BLOCK as usize).map(|block| block[0]).collect()
        })
        .collect();
    // A block of 4 KiB is written atomically, or has eight pieces of 512 bytes.
    assert!(contents.contains(&vec![1, 0, 0]) && contents.contains(&vec![10, 11, 12]));
    assert!(images.len() == 100 || images.len() == 8, "{}", images.len());
    let lost = images.iter().find(|image| !image.explanation().is_empty()).unwrap();
    assert!(lost.explanation()[0].contains("Flush command"), "{:?}", lost.explanation());
}

#[test]
fn image_can_be_loaded_only_at_the_instant_from_which_it_was_made() {
    let mut drive = open("tlc-gen4");
    write(&mut drive, 0, 1);
    let images = drive.images(50, 1).unwrap();
    let snapshot = drive.snapshot();
    for image in &images {
        drive.restore(&snapshot).unwrap();
        drive.cut_power(drive.now(), Survival::Image(image)).unwrap();
        let (mut expected, mut found) = ([0; BLOCK as usize], [0; BLOCK as usize]);
        image.read(0, &mut expected).unwrap();
        drive.peek(0, 0, &mut found).unwrap();
        assert_eq!(found, expected);
    }
    drive.restore(&snapshot).unwrap();
    write(&mut drive, 1, 1);
    assert_eq!(drive.cut_power(drive.now(), Survival::Image(&images[0])).unwrap_err(), Misuse::ForeignImage);
    write(&mut drive, 2, 1);
    let mut other = open("tlc-gen4");
    write(&mut other, 7, 1);
    assert_eq!(other.cut_power(other.now(), Survival::Image(&images[0])).unwrap_err(), Misuse::ForeignImage);
}

#[test]
fn drive_works_on_after_many_power_cuts_with_operations_in_flight() {
    for name in ["tlc-gen4", "nvme", "dc-express", "capi", "cxl", "pss"] {
        let mut drive = open(name);
        for round in 0..30u64 {
            for block in 0..8 {
                drive.submit(drive.now(), 0, Operation::write(block * BLOCK, &[round as u8; BLOCK as usize])).unwrap();
            }
            drive.advance_to_completion(Time::from_ps(1 << 60)).unwrap();
            drive.cut_power(drive.now(), Survival::Drawn { seed: round }).unwrap();
            while drive.next_completion().is_some() {}
            assert_eq!(drive.in_flight(), 0, "{name}");
        }
        write(&mut drive, 3, 77);
        assert_eq!(blocks::<4>(&drive)[3], 77, "{name}");
    }
}

#[test]
fn long_run_without_power_cuts_has_a_short_record_and_correct_data() {
    let mut drive = open("tlc-gen4");
    for round in 0..2000u64 {
        write(&mut drive, round % 16, round as u8);
        if round % 8 == 7 {
            flush(&mut drive);
        }
    }
    drive.cut_power(drive.now(), Survival::DurableOnly).unwrap();
    assert_eq!(blocks::<16>(&drive), std::array::from_fn(|block| (1984 + block as u64) as u8));
}

#[test]
fn power_cut_during_a_flush_may_lose_the_writes_being_flushed() {
    let mut lost = 0;
    for seed in 0..60 {
        let mut drive = open("tlc-gen4");
        write(&mut drive, 0, 1);
        drive.submit(drive.now(), 0, Operation::flush()).unwrap();
        drive.cut_power(drive.now(), Survival::Drawn { seed }).unwrap();
        lost += u32::from(blocks::<1>(&drive) == [0]);
    }
    assert!((10..50).contains(&lost), "{lost}");
}

#[test]
fn summary_is_there_with_operations_in_flight_and_after_a_power_cut() {
    let mut drive = open("nvme");
    drive.submit(drive.now(), 0, Operation::read(0, 4096)).unwrap();
    assert_eq!(drive.summary().iter().map(|kind| kind.operations).sum::<u64>(), 0);
    drive.cut_power(drive.now(), Survival::Everything).unwrap();
    write(&mut drive, 1, 2);
    assert_eq!(drive.summary().iter().map(|kind| kind.operations).sum::<u64>(), 1);
}

/// Carries out an operation, and returns its result.
fn result(drive: &mut Drive, queue: u16, operation: Operation) -> Status {
    let ticket = drive.submit(drive.now(), queue, operation).unwrap();
    drive.wait(ticket).unwrap().status()
}

/// Number of requests in the drive's record of what a power cut may take.
fn recorded_requests(drive: &Drive) -> usize {
    let description = format!("{drive:?}");
    let (_, number) = description.split_once("recorded_requests: ").unwrap();
    number.split(',').next().unwrap().trim().parse().unwrap()
}

#[test]
fn overlapping_writes_in_flight_read_alike_before_and_after_a_power_cut() {
    let mut overtaken = 0;
    for name in ["tlc-gen4", "nvme", "optane-p5800x", "cxl", "pss"] {
        let mut drive = open(name);
        let long = drive.submit(drive.now(), 0, Operation::write(0, &[1; 16 * BLOCK as usize])).unwrap();
        for block in [2, 5, 6] {
            drive.submit(drive.now(), 1, Operation::write(block * BLOCK, &[2; BLOCK as usize])).unwrap();
        }
        drive.advance_to_completion(Time::NEVER).unwrap();
        overtaken += u32::from(drive.next_completion().unwrap().ticket() != long);
        while drive.advance_to_completion(Time::NEVER).unwrap() {}
        while drive.next_completion().is_some() {}
        if drive.is_volatile() {
            flush(&mut drive);
        }
        let before = blocks::<16>(&drive);
        assert_eq!(before, std::array::from_fn(|block| if [2, 5, 6].contains(&block) { 2 } else { 1 }), "{name}");
        drive.cut_power(drive.now(), Survival::Drawn { seed: 1 }).unwrap();
        assert_eq!(blocks::<16>(&drive), before, "{name}");
    }
    assert!(overtaken > 0, "no write has overtaken another");
}

#[test]
fn failed_write_may_appear_after_a_power_cut_until_a_later_flush_completes() {
    let found = |is_flushed: bool| {
        let mut drive = open("tlc-gen4");
        drive.inject_fault("action = \"error\", operation = \"write\", first = 2, times = 1").unwrap();
        write(&mut drive, 0, 1);
        assert_eq!(result(&mut drive, 0, Operation::write(0, &[2; BLOCK as usize])), Status::MediaError);
        assert_eq!(blocks::<1>(&drive), [1], "reads return the old data");
        if is_flushed {
            flush(&mut drive);
        }
        let snapshot = drive.snapshot();
        let cut = |seed: u64| {
            drive.restore(&snapshot).unwrap();
            drive.cut_power(drive.now(), Survival::Drawn { seed }).unwrap();
            blocks::<1>(&drive)[0]
        };
        (0..60).map(cut).collect::<BTreeSet<u8>>()
    };
    assert_eq!(found(false), BTreeSet::from([0, 1, 2]));
    assert_eq!(found(true), BTreeSet::from([1]));
}

#[test]
fn failed_write_is_explained_and_old_data_survive_with_power_loss_protection() {
    let mut drive = open("tlc-gen4");
    drive.inject_fault("action = \"error\", operation = \"write\", times = 1").unwrap();
    assert_eq!(result(&mut drive, 0, Operation::write(0, &[2; BLOCK as usize])), Status::MediaError);
    let images = drive.images(10, 1).unwrap();
    assert!(images.len() > 1);
    for image in &images {
        let mut bytes = [0; BLOCK as usize];
        image.read(0, &mut bytes).unwrap();
        let lines = image.explanation();
        match bytes.iter().filter(|byte| **byte == 2).count() as u64 {
            0 => assert!(lines.is_empty(), "reads returned the old bytes: {lines:?}"),
            BLOCK => assert!(lines[0].contains("is there, although it had failed"), "{lines:?}"),
            _ => assert!(lines[0].contains("is torn") && lines[0].contains("It had failed"), "{lines:?}"),
        }
    }
    drive.cut_power(drive.now(), Survival::Everything).unwrap();
    assert_eq!(blocks::<1>(&drive), [0]);

    let mut drive = open("tlc-gen5");
    drive.inject_fault("action = \"error\", operation = \"write\", times = 1").unwrap();
    assert_eq!(result(&mut drive, 0, Operation::write(0, &[2; BLOCK as usize])), Status::MediaError);
    assert_eq!(drive.images(10, 1).unwrap().len(), 1, "the buffer outlives power, and has the old data");
}

#[test]
fn record_stays_short_and_data_correct_with_failed_and_lost_requests() {
    for (name, rule) in [
        ("tlc-gen4", "action = \"error\", operation = \"write\", first = 2, every = 3"),
        ("tlc-gen5", "action = \"error\", operation = \"write\", first = 2, every = 3"),
        ("tlc-gen4", "action = \"hang\", operation = \"write\", times = 1"),
        ("tlc-gen5", "action = \"hang\", operation = \"write\", times = 1"),
    ] {
        let mut drive = open(name);
        drive.inject_fault(rule).unwrap();
        // This write stays in flight until the host gives up after 30 s, or succeeds, because errors begin with the
        // second request.
        drive.submit(drive.now(), 1, Operation::write(4 * BLOCK, &[200; 4 * BLOCK as usize])).unwrap();
        let (mut expected, mut longest) = ([0; 16], 0);
        for round in 0..3000u64 {
            let (block, value) = (round % 16, (round / 16) as u8);
            if result(&mut drive, 0, Operation::write(block * BLOCK, &[value; BLOCK as usize])).is_success() {
                expected[block as usize] = value;
            }
            if round % 8 == 7 {
                flush(&mut drive);
            }
            longest = longest.max(recorded_requests(&drive));
        }
        assert!(longest < 400, "{name} {rule}: {longest} requests");
        flush(&mut drive);
        assert_eq!(blocks::<16>(&drive), expected, "{name} {rule}");
        drive.cut_power(drive.now(), Survival::DurableOnly).unwrap();
        assert_eq!(blocks::<16>(&drive), expected, "{name} {rule}");
    }
}

#[test]
fn image_number_out_of_range_is_refused_and_a_refused_cut_changes_nothing() {
    let mut drive = open("tlc-gen4");
    let ticket = drive.submit(drive.now(), 0, Operation::write(0, &[1; BLOCK as usize])).unwrap();
    let images = drive.images(4, 1).unwrap();
    let capacity = drive.capacity_bytes();
    for offset in [capacity - 1, capacity, u64::MAX - 1, u64::MAX] {
        let misuse = images[0].read(offset, &mut [0; 2]).unwrap_err();
        assert!(misuse.to_string().contains("end beyond the drive"), "{misuse}");
    }
    let (now, later) = (drive.now(), Time::from_ps(1 << 40));
    assert_eq!(drive.cut_power(later, Survival::Image(&images[0])).unwrap_err(), Misuse::ForeignImage);
    assert_eq!((drive.now(), drive.in_flight()), (now, 1));
    assert!(drive.wait(ticket).unwrap().status().is_success());
}

#[test]
fn image_explanation_names_interface_rule_keys_and_replay_command() {
    let volatile = |name: &str| {
        let description = Description::shipped(name).unwrap();
        let description = description.with("media.acknowledge=\"early\"").unwrap();
        description.with("buffer.power_loss_protection=false").unwrap().with_power_cuts().seed(7).open().unwrap()
    };
    let keys = "media.acknowledge = \"early\" and buffer.power_loss_protection = false";
    for (name, clause) in [
        ("nvme", "NVM Express Base Specification 2.0, Flush command"),
        ("dc-express", "dc-express has no command that flushes"),
        ("capi", "capi"),
        ("cxl", "cxl"),
    ] {
        let mut drive = volatile(name);
        write(&mut drive, 0, 1);
        let images = drive.images(100, 1).unwrap();
        let lost = images.iter().max_by_key(|image| image.explanation().len()).unwrap();
        let lines = lost.explanation();
        assert!(lines[0].contains(clause) && lines[0].contains(keys), "{name}: {lines:?}");
        assert_eq!(lines[0].contains("NVM Express"), name == "nvme", "{name}: {lines:?}");
        let replay =
            format!("seed 7, make the same calls (operations, faults and power cuts) until {} ps", drive.now().as_ps());
        let last = lines.last().unwrap();
        assert!(last.contains(&replay) && last.contains(&lost.name()), "{name}: {last}");
        // The name selects the same image again, also in another drive that has executed the same operations.
        let mut again = volatile(name);
        write(&mut again, 0, 1);
        let found = again.image(&lost.name()).unwrap();
        assert_eq!((found.name(), found.explanation()), (lost.name(), lines));
        again.cut_power(again.now(), Survival::Image(&found)).unwrap();
        assert_eq!(blocks::<1>(&again), [0], "{name}");
        let misuse = again.image(&lost.name()).unwrap_err();
        assert_eq!(misuse.code(), 18, "{misuse}");
    }
}

#[test]
fn durable_discards_and_zeroes_survive_power_cuts_and_others_may_not() {
    let mut drive = open("tlc-gen4");
    for block in 0..6 {
        write(&mut drive, block, 1);
    }
    flush(&mut drive);
    let bytes = BLOCK as u32;
    for operation in [
        Operation::discard(0, bytes).durable(),
        Operation::write_zeroes(BLOCK, bytes).durable(),
        Operation::write(2 * BLOCK, &[2; BLOCK as usize]).durable(),
        Operation::discard(3 * BLOCK, bytes),
        Operation::write_zeroes(4 * BLOCK, bytes),
    ] {
        assert!(result(&mut drive, 0, operation).is_success());
    }
    let snapshot = drive.snapshot();
    let cut = |survival: Survival| {
        drive.restore(&snapshot).unwrap();
        drive.cut_power(drive.now(), survival).unwrap();
        blocks::<6>(&drive)
    };
    let mut cut = cut;
    assert_eq!(cut(Survival::Everything), [0, 0, 2, 0, 0, 1]);
    assert_eq!(cut(Survival::DurableOnly), [0, 0, 2, 1, 1, 1]);
    let found: BTreeSet<_> = (0..100).map(|seed| cut(Survival::Drawn { seed })).collect();
    assert!(found.iter().all(|found| found[..3] == [0, 0, 2] && found[5] == 1), "{found:?}");
    assert_eq!(found.iter().map(|found| (found[3], found[4])).collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn drawn_image_equals_the_state_after_the_power_cut() {
    for seed in 0..50 {
        let mut drive = open("tlc-gen4");
        (0..8).for_each(|block| write(&mut drive, block, 1 + block as u8));
        let image = drive.drawn_image(seed).unwrap();
        let mut expected = [0; 8 * BLOCK as usize];
        image.read(0, &mut expected).unwrap();
        drive.cut_power(drive.now(), Survival::Drawn { seed }).unwrap();
        let mut found = [0; 8 * BLOCK as usize];
        drive.peek(0, 0, &mut found).unwrap();
        assert!(found == expected, "seed {seed}");
        assert_eq!(image.explanation().is_empty(), found.iter().all(|byte| *byte != 0));
    }
    let plain = Description::shipped("tlc-gen4").unwrap().open().unwrap();
    assert_eq!(plain.drawn_image(1).unwrap_err(), Misuse::PowerNotFollowed);
}

/// Recording of a write that is flushed, and of one of two blocks that is in flight.
fn recording() -> Recording {
    let rules = DurabilityRules { block_bytes: 512, atomic_bytes: 512, durability: Durability::OnFlush };
    let request = |kind, bytes| RecordedCommand { kind, offset: 0, bytes, durable: false };
    let requests = vec![
        request(RecordedOp::Write(vec![1; 512].into()), 512),
        request(RecordedOp::Flush, 0),
        request(RecordedOp::Write(vec![2; 1024].into()), 1024),
    ];
    let events = [
        RecordedEventKind::Arrived(0),
        RecordedEventKind::Completed(0),
        RecordedEventKind::Arrived(1),
        RecordedEventKind::Completed(1),
        RecordedEventKind::Arrived(2),
    ];
    Recording {
        capacity_bytes: 4096,
        rules,
        zones: None,
        requests,
        lines: Vec::new(),
        events: events.into(),
        prepared: 0,
    }
}

#[test]
fn images_of_a_recording_are_listed_with_its_file_name() {
    let recording = recording();
    let images = LegalImage::of_recording("app.rec", &encode(&recording), 100, 1).unwrap();
    let found: Vec<[u8; 2]> = images
        .iter()
        .map(|image| {
            let mut bytes = [0; 1024];
            image.read(0, &mut bytes).unwrap();
            [bytes[0], bytes[512]]
        })
        .collect();
    let different: BTreeSet<[u8; 2]> = found.iter().copied().collect();
    assert_eq!(different, BTreeSet::from([[0, 0], [1, 0], [1, 2], [2, 0], [2, 2]]));
    assert_eq!(found.len(), different.len(), "no state comes twice");
    let lines: Vec<String> = images.iter().flat_map(|image| image.explanation()).collect();
    assert!(lines.iter().any(|line| line.contains("app.rec --image cut=5,missing=3")), "{lines:?}");
    for image in &images {
        let found = LegalImage::named_of_recording("app.rec", &encode(&recording), &image.name()).unwrap();
        assert_eq!((found.name(), found.explanation()), (image.name(), image.explanation()));
    }
    let wrong =
        LegalImage::named_of_recording("app.rec", &encode(&recording), "cut=5,missing=1").unwrap_err().to_string();
    assert!(wrong.starts_with("app.rec: ") && wrong.contains("request 1 cannot be missing at cut=5"), "{wrong}");
    let wrong = LegalImage::of_recording("app.rec", b"no recording", 1, 1).unwrap_err().to_string();
    assert!(wrong.starts_with("app.rec") && wrong.contains("no recording of phaselink crash"), "{wrong}");
}

#[test]
fn image_of_another_history_is_refused_even_with_an_identical_record() {
    let mut drive = open("tlc-gen4");
    let start = drive.snapshot();
    let mut image_after = |value: u8| {
        drive.restore(&start).unwrap();
        assert!(result(&mut drive, 0, Operation::write(0, &[value; BLOCK as usize])).is_success());
        drive.cut_power(drive.now(), Survival::Everything).unwrap();
        drive.images(1, 1).unwrap().remove(0)
    };
    let first = image_after(1);
    image_after(2);
    assert!(drive.cut_power(drive.now(), Survival::Image(&first)).is_err());
    assert_eq!(blocks::<1>(&drive), [2]);
}

#[test]
fn image_loaded_from_a_recording_is_the_durable_state_of_the_drive() {
    let bytes = encode(&recording());
    let image = LegalImage::named_of_recording("app.rec", &bytes, "cut=5,torn=3:1").unwrap();
    let mut drive = open("tlc-gen4");
    write(&mut drive, 7, 9);
    drive.load_image(&image).unwrap();
    let read = |drive: &Drive| {
        let mut found = [0; 1024];
        drive.peek(0, 0, &mut found).unwrap();
        (found[0], found[512], blocks::<8>(drive)[7])
    };
    assert_eq!(read(&drive), (1, 2, 0));
    assert_eq!(drive.images(10, 1).unwrap().len(), 1, "nothing of it can be lost");
    drive.cut_power(drive.now(), Survival::DurableOnly).unwrap();
    assert_eq!(read(&drive), (1, 2, 0));
    write(&mut drive, 7, 5);
    assert_eq!(read(&drive), (1, 2, 5));
}

#[test]
fn refused_image_leaves_the_drive_unchanged() {
    let image = |last: u64| {
        let mut drive = open("tlc-gen4");
        write(&mut drive, last, 1);
        drive.images(1, 1).unwrap().remove(0)
    };
    let small = Description::shipped("nvme").unwrap().with("media.capacity_mib=64").unwrap().with_power_cuts();
    let refused = |drive: &mut Drive, image: &LegalImage| {
        let misuse = drive.load_image(image).unwrap_err();
        (misuse.code(), misuse.to_string())
    };
    let mut drive = open("tlc-gen4");
    let ticket = drive.submit(drive.now(), 0, Operation::write(0, &[3; BLOCK as usize])).unwrap();
    let (code, sentence) = refused(&mut drive, &image(0));
    assert!(code == 19 && sentence.starts_with("1 operations are in flight"), "{sentence}");
    drive.wait(ticket).unwrap();
    assert_eq!(blocks::<1>(&drive), [3]);
    let (_, sentence) = refused(&mut Description::shipped("nvme").unwrap().without_data().open().unwrap(), &image(0));
    assert!(sentence.contains("keeps data"), "{sentence}");
    let whole = Survival::Everything;
    let mut drive = open("tlc-gen4");
    write(&mut drive, 16_384, 1);
    drive.cut_power(drive.now(), whole).unwrap();
    let (_, sentence) = refused(&mut small.open().unwrap(), &drive.images(1, 1).unwrap()[0]);
    assert!(sentence.contains("bytes up to 67112960; the drive has 67108864 bytes"), "{sentence}");
}

#[test]
fn operations_of_one_instant_fail_in_submission_order() {
    let mut drive = open("optane-p5800x");
    let submit = |drive: &mut Drive, count: u64| -> Vec<_> {
        (0..count)
            .map(|block| drive.submit(drive.now(), 0, Operation::read(block * BLOCK, BLOCK as u32)).unwrap())
            .collect()
    };
    // The slots are reused in another order than at first.
    submit(&mut drive, 6);
    drive.advance(drive.now() + phaselink_embed::Span::from_ms(1)).unwrap();
    while drive.next_completion().is_some() {}
    let tickets = submit(&mut drive, 9);
    drive.cut_power(drive.now(), Survival::Everything).unwrap();
    let failed: Vec<_> = std::iter::from_fn(|| drive.next_completion().map(|done| done.ticket())).collect();
    assert_eq!(failed, tickets);
}

#[test]
fn time_to_settle_failed_writes_grows_linearly_with_their_number() {
    let settle = |count: u64| {
        let mut drive = open("tlc-gen4");
        drive.inject_fault("action = \"error\", operation = \"write\"").unwrap();
        for block in 0..count {
            result(&mut drive, 0, Operation::write(block * 512, &[1; 512]));
        }
        assert_eq!(recorded_requests(&drive), count as usize);
        let start = std::time::Instant::now();
        flush(&mut drive);
        assert!(recorded_requests(&drive) <= 1);
        start.elapsed()
    };
    settle(1_000);
    assert!(settle(20_000) < std::time::Duration::from_secs(1));
}
