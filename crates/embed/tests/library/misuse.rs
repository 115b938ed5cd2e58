//! Every misuse is an error with its reason, and the drive stays usable.

use phaselink_embed::{Description, Drive, Misuse, Operation, Span, Survival, Ticket, Time};

fn at_us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// Carries out a read, which still takes its usual time.
fn assert_usable(drive: &mut Drive) {
    let ticket = drive.submit(drive.now(), 0, Operation::read(0, 4096)).unwrap();
    assert!(drive.wait(ticket).unwrap().status().is_success());
}

#[test]
fn every_misuse_returns_its_reason_and_leaves_the_drive_usable() {
    let mut drive = Description::shipped("dc-express").unwrap().open().unwrap();
    drive.advance(at_us(10)).unwrap();
    let (now, late) = (drive.now(), Time::NEVER);
    let capacity = drive.capacity_bytes();
    let misuses = [
        (drive.submit(at_us(9), 0, Operation::read(0, 4096)).unwrap_err(), "time never runs backwards"),
        (drive.advance(at_us(1)).unwrap_err(), "the call is at 1000000 ps"),
        (drive.advance(late).unwrap_err(), "too late"),
        (drive.submit(now, 999, Operation::read(0, 4096)).unwrap_err(), "there is no queue 999"),
        (drive.submit(now, 0, Operation::flush()).unwrap_err(), "has no such command"),
        (drive.submit(now, 0, Operation::discard(0, 4096)).unwrap_err(), "read, write"),
        (drive.submit(now, 0, Operation::read(3, 4096)).unwrap_err(), "multiples of the drive's block"),
        (drive.submit(now, 0, Operation::write(0, &[0; 100])).unwrap_err(), "multiples of the drive's block"),
        (drive.submit(now, 0, Operation::write(0, &[])).unwrap_err(), "at least one block"),
        (drive.submit(now, 0, Operation::read(capacity, 4096)).unwrap_err(), "end beyond the drive"),
        (drive.submit(now, 0, Operation::read(u64::MAX - 4095, 4096)).unwrap_err(), "end beyond the drive"),
        (drive.submit(now, 0, Operation::write_without_data(0, 4096)).unwrap_err(), "needs the data"),
        (drive.take(Ticket::from_number(77)).unwrap_err(), "names no operation"),
        (drive.wait(Ticket::from_number(u64::MAX)).unwrap_err(), "names no operation"),
        (drive.cut_power(now, Survival::Everything).unwrap_err(), "open it with power cuts"),
        (drive.images(1, 1).unwrap_err(), "open it with power cuts"),
        (drive.inject_fault("action = \"eror\"").unwrap_err(), "did you mean error?"),
        (drive.peek(0, capacity, &mut [0]).unwrap_err(), "end beyond the drive"),
        (drive.peek(7, 0, &mut [0]).unwrap_err(), "there is no drive 7"),
    ];
    for (misuse, reason) in misuses {
        assert!(misuse.to_string().contains(reason), "{misuse} ({reason})");
        assert!(misuse.code() > 0);
    }
    assert_usable(&mut drive);
}

#[test]
fn wait_for_a_hung_operation_returns_misuse_and_other_completions_remain() {
    let mut drive = Description::shipped("nvme").unwrap().open().unwrap();
    let last = Time::from_ps(Time::NEVER.as_ps() - 1);
    let other = drive.submit(Time::ZERO, 0, Operation::read(0, 4096)).unwrap();
    let lost = drive.submit(last, 0, Operation::read(0, 4096)).unwrap();
    let misuse = drive.wait(lost).unwrap_err();
    assert_eq!((misuse.code(), &misuse), (11, &Misuse::NeverCompletes(lost)));
    assert!(misuse.to_string().contains("never completes"), "{misuse}");
    assert!(!drive.advance_to_completion(Time::NEVER).unwrap());
    assert_eq!((drive.now(), drive.in_flight()), (last, 1));
    assert!(drive.take(other).unwrap().status().is_success());
}

#[test]
fn misuse_of_lengths_and_of_several_drives_returns_its_code() {
    let mut drive = Description::shipped("dram-card").unwrap().without_data().open().unwrap();
    #[cfg(target_pointer_width = "64")]
    {
        // Zeroed memory that is never touched takes no physical memory.
        let long = vec![0; 1 << 32];
        assert_eq!(drive.submit(drive.now(), 0, Operation::write(0, &long)).unwrap_err().code(), 7);
    }
    assert_usable(&mut drive);
    let mut drives = Description::shipped("dram-card").unwrap().with("drives=2").unwrap().open().unwrap();
    assert_eq!(drives.inject_fault("action = \"error\"").unwrap_err().code(), 14);
    assert_eq!(
        drives.peek(2, 0, &mut [0]).unwrap_err().to_string(),
        "there is no drive 2: the machine has drives 0 to 1"
    );
    assert_usable(&mut drives);
}

#[test]
fn check_returns_the_verdict_of_submit_without_submitting() {
    let mut drive = Description::shipped("dc-express").unwrap().open().unwrap();
    assert_eq!(drive.check(at_us(5), 0, &Operation::read(0, 4096)), Ok(()));
    assert_eq!(drive.now(), Time::ZERO);
    for (operation, code) in
        [(Operation::flush(), 4), (Operation::read(1, 4096), 5), (Operation::write_without_data(0, 4096), 8)]
    {
        assert_eq!(drive.check(at_us(5), 0, &operation).unwrap_err().code(), code);
    }
    assert_usable(&mut drive);
}

#[test]
fn ticket_can_be_taken_once_and_only_after_completion() {
    let mut drive = Description::shipped("nvme").unwrap().open().unwrap();
    let ticket = drive.submit(Time::ZERO, 0, Operation::read(0, 4096)).unwrap();
    assert_eq!(drive.take(ticket).unwrap_err(), Misuse::NotComplete(ticket));
    drive.wait(ticket).unwrap();
    assert_eq!(drive.take(ticket).unwrap_err(), Misuse::UnknownTicket(ticket));
    assert_eq!(drive.wait(ticket).unwrap_err(), Misuse::UnknownTicket(ticket));
    let next = drive.submit(drive.now(), 0, Operation::read(0, 4096)).unwrap();
    assert_ne!(next, ticket, "a place that is used again has another ticket");
    assert_eq!(drive.take(ticket).unwrap_err(), Misuse::UnknownTicket(ticket));
    drive.wait(next).unwrap();
    assert!(drive.next_completion().is_none(), "what was taken by its ticket does not come again");
}

#[test]
fn invalid_description_is_refused_with_allowed_values() {
    let wrong = |result: Result<Description, phaselink_embed::Problems>| result.map(|_| ()).unwrap_err().to_string();
    assert!(wrong(Description::shipped("tlc-gen44")).contains("tlc-gen4"));
    assert!(wrong(Description::from_file("no-such.toml")).contains("cannot be read"));
    assert!(wrong(Description::from_toml("mine.toml", "preset = \"nvme\"\nlink.lane = 4\n")).contains("mine.toml:2"));
    assert!(wrong(Description::shipped("nvme").unwrap().with("link.lanes=3")).contains("lanes"));
    let cut = "preset = \"nvme\"\n[[faults]]\naction = \"power-cut\"\nfrom_us = 5\noutage_us = 100\n";
    assert!(
        wrong(Description::from_toml("cut.toml", cut)).contains("cut_power"),
        "{}",
        wrong(Description::from_toml("cut.toml", cut))
    );
}
