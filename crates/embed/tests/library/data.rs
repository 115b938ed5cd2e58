//! Bytes, completions, snapshots and faults.

use phaselink_embed::{Description, Drive, Operation, OperationKind, Span, Status, Time};

fn open(name: &str) -> Drive {
    Description::shipped(name).unwrap().with_stages().open().unwrap()
}

/// Carries out one operation, and returns the data of a read.
fn run(drive: &mut Drive, operation: Operation) -> Vec<u8> {
    let ticket = drive.submit(drive.now(), 0, operation).unwrap();
    let done = drive.wait(ticket).unwrap();
    assert_eq!(done.status(), Status::Success);
    done.data().to_vec()
}

#[test]
fn read_returns_written_data_and_zeros_for_unwritten_blocks() {
    for name in ["nvme", "dc-express", "capi", "cxl", "moneta", "pss", "tlc-gen4"] {
        let mut drive = open(name);
        let data: Vec<u8> = (0..8192u32).map(|at| (at * 7) as u8).collect();
        run(&mut drive, Operation::write(4096, &data));
        assert_eq!(run(&mut drive, Operation::read(4096, 8192)), data, "{name}");
        assert_eq!(run(&mut drive, Operation::read(0, 4096)), [0; 4096], "{name}");
    }
}

#[test]
fn discarded_and_zeroed_blocks_read_back_as_zeros() {
    let mut drive = open("tlc-gen4");
    run(&mut drive, Operation::write(0, &[9; 16384]));
    run(&mut drive, Operation::discard(4096, 4096));
    run(&mut drive, Operation::write_zeroes(8192, 4096));
    let found = run(&mut drive, Operation::read(0, 16384));
    assert!(found.chunks(4096).map(|block| block[0]).eq([9, 0, 0, 9]));
}

#[test]
fn write_changes_data_when_it_completes() {
    let mut drive = open("optane-p5800x");
    drive.submit(Time::ZERO, 0, Operation::write(0, &[1; 4096])).unwrap();
    let mut found = [9; 4096];
    drive.peek(0, 0, &mut found).unwrap();
    assert_eq!(found, [0; 4096]);
    assert!(drive.advance_to_completion(Time::ZERO + Span::from_ms(1)).unwrap());
    drive.peek(0, 0, &mut found).unwrap();
    assert_eq!(found, [1; 4096]);
}

#[test]
fn stages_of_every_operation_sum_to_its_latency() {
    for name in ["nvme", "dc-express", "capi", "cxl", "moneta", "pss", "tlc-gen4"] {
        let mut drive = open(name);
        for round in 0..20u64 {
            drive.submit(drive.now(), 0, Operation::read(round * 4096, 4096)).unwrap();
            drive.submit(drive.now(), 0, Operation::write(round * 4096, &[1; 4096])).unwrap();
        }
        drive.advance(Time::ZERO + Span::from_ms(100)).unwrap();
        let mut last = Time::ZERO;
        while let Some(done) = drive.next_completion() {
            let sum: u64 = done.stages().map(|(_, span)| span.as_ps()).sum();
            assert_eq!(sum, done.latency().as_ps(), "{name}");
            assert!(sum > 0 && done.at() >= last, "{name}");
            last = done.at();
        }
        let summary = drive.summary();
        assert_eq!(summary.iter().map(|kind| kind.operations).sum::<u64>(), 40, "{name}");
    }
}

#[test]
fn durable_write_on_a_volatile_drive_lasts_until_its_flush_completes() {
    let mut drive = open("tlc-gen4");
    assert!(drive.is_volatile() && drive.supports(OperationKind::Flush));
    let plain = drive.submit(Time::ZERO, 0, Operation::write(0, &[1; 4096])).unwrap();
    let plain = drive.wait(plain).unwrap().latency();
    let durable = drive.submit(drive.now(), 0, Operation::write(4096, &[1; 4096]).durable()).unwrap();
    let done = drive.wait(durable).unwrap();
    let sum: u64 = done.stages().map(|(_, span)| span.as_ps()).sum();
    assert_eq!(sum, done.latency().as_ps());
    assert!(done.latency() > plain + plain, "{:?} {plain:?}", done.latency());
}

#[test]
fn restored_drive_repeats_the_same_completions() {
    let mut drive = open("tlc-gen4");
    run(&mut drive, Operation::write(0, &[1; 4096]));
    let pending = drive.submit(drive.now(), 0, Operation::write(0, &[2; 4096])).unwrap();
    let snapshot = drive.snapshot();
    let mut ends = Vec::new();
    for _ in 0..2 {
        drive.restore(&snapshot).unwrap();
        let at = drive.wait(pending).unwrap().at();
        ends.push((at, run(&mut drive, Operation::read(0, 4096)), drive.now()));
    }
    assert_eq!(ends[0], ends[1]);
    drive.restore(&snapshot).unwrap();
    let mut found = [0; 4096];
    drive.peek(0, 0, &mut found).unwrap();
    assert_eq!(found, [1; 4096], "the write of the snapshot is in flight again");
}

#[test]
fn snapshot_is_accepted_only_by_a_drive_of_the_same_description() {
    let drive = open("tlc-gen4");
    let mut snapshot = drive.snapshot();
    let description = Description::shipped("tlc-gen4").unwrap().with_stages();
    let others = [
        open("nvme"),
        description.clone().seed(2).open().unwrap(),
        description.clone().with_power_cuts().open().unwrap(),
        description.clone().with("media.capacity_mib=65536").unwrap().open().unwrap(),
    ];
    for mut other in others {
        let before = other.capacity_bytes();
        let misuse = other.restore(&snapshot).unwrap_err();
        assert!(misuse.to_string().starts_with("the snapshot is one of tlc-gen4; this is "), "{misuse}");
        assert_eq!((misuse.code(), other.capacity_bytes()), (16, before));
        run(&mut other, Operation::read(0, 4096));
    }
    let mut alike = description.open().unwrap();
    run(&mut alike, Operation::write(0, &[1; 4096]));
    alike.restore(&snapshot).unwrap();
    assert_eq!(alike.now(), Time::ZERO);
    run(&mut alike, Operation::write(0, &[1; 4096]));
    snapshot = alike.snapshot();
    alike.restore(&snapshot).unwrap();
}

#[test]
fn injected_fault_fails_the_operations_that_match_its_rule() {
    let mut drive = open("nvme");
    drive.inject_fault("action = \"error\", operation = \"read\", every = 2").unwrap();
    let statuses: Vec<Status> = (0..4)
        .map(|_| {
            let ticket = drive.submit(drive.now(), 0, Operation::read(0, 4096)).unwrap();
            drive.wait(ticket).unwrap().status()
        })
        .collect();
    assert_eq!(statuses.iter().filter(|status| **status == Status::MediaError).count(), 2, "{statuses:?}");
}

/// Carries out a read of 4 KiB; returns its status and its latency.
fn read(drive: &mut Drive) -> (Status, Span) {
    let ticket = drive.submit(drive.now(), 0, Operation::read(0, 4096)).unwrap();
    let done = drive.wait(ticket).unwrap();
    (done.status(), done.latency())
}

/// A drive with a line of faults.
fn with_fault(line: &str) -> Drive {
    let mut drive = open("optane-p5800x");
    drive.inject_fault(line).unwrap_or_else(|misuse| panic!("{line}: {misuse}"));
    drive
}

#[test]
fn fault_rules_trigger_at_their_times_and_requests_of_an_embedded_drive() {
    let calm = read(&mut open("optane-p5800x")).1;
    let after = |drive: &mut Drive, us| drive.advance(Time::ZERO + Span::from_us(us)).unwrap();

    let mut stalled = with_fault("at=100us for=3ms stall");
    assert!(read(&mut stalled).1 < calm * 2, "before");
    after(&mut stalled, 1_000);
    let (_, latency) = read(&mut stalled);
    assert!(latency > Span::from_us(2_100) && latency < Span::from_us(2_100) + calm * 2, "{latency}");
    assert!(read(&mut stalled).1 < calm * 2, "afterwards");

    let mut slow = with_fault("at=request:2 for=1request slow-down factor=10");
    let latencies = [(); 3].map(|()| read(&mut slow).1);
    assert!(latencies[0] < calm * 2 && latencies[1] > calm * 8 && latencies[2] < calm * 2, "{latencies:?}");

    let mut failing = with_fault("at=request:2 for=2requests error");
    let failed = [(); 4].map(|()| read(&mut failing).0 == Status::MediaError);
    assert_eq!(failed, [false, true, true, false]);

    let mut losing = with_fault("at=request:1 lost-completion timeout=5ms");
    assert!(read(&mut losing).1 >= Span::from_us(5_000));

    let mut throttled = with_fault("throttle iops=1000");
    for _ in 0..11 {
        read(&mut throttled);
    }
    assert!(throttled.now() >= Time::ZERO + Span::from_us(10_000), "ten intervals of 1 ms");

    let mut narrow = with_fault("for=20ms link lanes=1 outage=10us");
    after(&mut narrow, 1_000);
    let large = |drive: &mut Drive| {
        let ticket = drive.submit(drive.now(), 0, Operation::read(0, 131_072)).unwrap();
        drive.wait(ticket).unwrap().latency()
    };
    let (down, whole) = (large(&mut narrow), large(&mut open("optane-p5800x")));
    after(&mut narrow, 25_000);
    let again = large(&mut narrow);
    assert!(down > whole * 2 && again < whole * 3 / 2, "{down}, then {again}; {whole} without");

    let refused = open("nvme").inject_fault("at=1ms stal for=3ms").unwrap_err().to_string();
    assert!(refused.contains("did you mean stall?"), "{refused}");
}

#[test]
fn idle_drive_has_no_next_event_and_can_still_advance() {
    let mut drive = open("dc-express");
    assert_eq!(drive.next_at(), None);
    drive.advance(Time::ZERO + Span::from_us(50)).unwrap();
    assert_eq!(drive.now(), Time::ZERO + Span::from_us(50));
    assert!(drive.next_completion().is_none());
}

#[test]
fn operations_through_modelled_host_software_take_longer() {
    let time = |description: Description| {
        let mut drive = description.open().unwrap();
        let ticket = drive.submit(Time::ZERO, 0, Operation::read(0, 4096)).unwrap();
        drive.wait(ticket).unwrap().latency()
    };
    let description = Description::shipped("optane-p5800x").unwrap();
    assert!(time(description.clone().with_host_software()) > time(description));
}

#[test]
fn several_drives_on_one_machine_store_separate_data() {
    let mut drive = Description::shipped("dram-card").unwrap().with("drives=2").unwrap().open().unwrap();
    let of_second = drive.queues() / 2;
    let write = drive.submit(Time::ZERO, of_second, Operation::write(0, &[3; 4096])).unwrap();
    drive.wait(write).unwrap();
    let mut found = [[9; 4096]; 2];
    drive.peek(0, 0, &mut found[0]).unwrap();
    drive.peek(1, 0, &mut found[1]).unwrap();
    assert_eq!((found[0][0], found[1][0]), (0, 3));
}

#[test]
fn same_seed_gives_the_same_completion_times_and_another_seed_does_not() {
    let ends = |seed: u64| {
        let mut drive = Description::shipped("optane-p4800x").unwrap().seed(seed).open().unwrap();
        let mut ends = Vec::new();
        for block in 0..200 {
            let kind = if block % 3 == 0 {
                Operation::write(block * 4096, &[1; 4096])
            } else {
                Operation::read(block * 8192, 4096)
            };
            drive.submit(drive.now(), (block % 2) as u16, kind).unwrap();
        }
        while drive.advance_to_completion(Time::NEVER).unwrap() {}
        while let Some(done) = drive.next_completion() {
            ends.push((done.ticket(), done.at()));
        }
        ends
    };
    assert_eq!(ends(1), ends(1));
    assert_ne!(ends(1), ends(2));
}
