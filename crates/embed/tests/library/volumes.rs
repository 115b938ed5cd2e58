//! Rate-limited volumes, embedded: every operation completes at the tick of its published arithmetic.

use phaselink_embed::{Description, Drive, Operation, Span, Survival, Time};

const PS_PER_S: u128 = 1_000_000_000_000;

/// First picosecond that is not before tick number `tick` of so many a second.
fn tick_time(tick: u64, per_s: u64) -> Span {
    Span::from_ps((u128::from(tick) * PS_PER_S).div_ceil(u128::from(per_s)) as u64)
}

/// Keeps 32 operations in flight, and returns the instants of completion, from the first one on.
fn completions(drive: &mut Drive, count: u64, operation: impl Fn(u64) -> Operation<'static>) -> Vec<Span> {
    let (mut submitted, mut found) = (0, Vec::new());
    while (found.len() as u64) < count {
        while drive.in_flight() < 32 && submitted < count {
            drive.submit(drive.now(), 0, operation(submitted)).unwrap();
            submitted += 1;
        }
        assert!(drive.advance_to_completion(Time::NEVER).unwrap());
        while let Some(done) = drive.next_completion() {
            found.push(done.at());
        }
    }
    let first: Time = found[0];
    found.iter().map(|at| at.since(first)).collect()
}

/// Place of 4 KiB that continues no other.
fn offset(place: u64) -> u64 {
    (place * 7919 % 999_983) << 13
}

#[test]
fn operations_on_a_volume_with_credits_complete_at_their_rate_ticks() {
    let description = Description::shipped("ebs-gp2").unwrap().with("volume.credit_operations=5400").unwrap();
    let mut drive = description.without_data().open().unwrap();
    let found = completions(&mut drive, 6400, |place| Operation::read(offset(place), 4096));
    // Count in ticks of 1/3,000 s: each tick earns a tenth of a credit.
    let (mut tenths, mut tick) = (54_000_u64, 0);
    for (number, found) in found.iter().enumerate() {
        while tenths < 10 {
            (tenths, tick) = (tenths + 1, tick + 1);
        }
        assert_eq!(*found, tick_time(tick, 3_000), "operation {number}");
        (tenths, tick) = (tenths - 10 + 1, tick + 1);
    }
}

#[test]
fn operations_on_a_volume_without_credits_complete_at_their_rate_ticks() {
    for (kib, per_s) in [(4, 3_000), (64, 2_000), (256, 500)] {
        let mut drive = Description::shipped("ebs-gp3").unwrap().without_data().open().unwrap();
        let found =
            completions(&mut drive, 2000, |place| Operation::write_without_data((place * 7 % 1000) << 20, kib << 10));
        for (tick, found) in (0..).zip(found) {
            assert_eq!(found, tick_time(tick, per_s), "{kib} KiB: operation {tick}");
        }
    }
}

#[test]
fn power_cut_empties_the_queue_of_a_volume() {
    let mut drive = Description::shipped("ebs-gp3").unwrap().with_power_cuts().open().unwrap();
    let alone = {
        let ticket = drive.submit(drive.now(), 0, Operation::read(0, 4096)).unwrap();
        drive.wait(ticket).unwrap().latency()
    };
    drive.advance(drive.now() + Span::from_ms(10)).unwrap();
    for place in 0..300 {
        drive.submit(drive.now(), 0, Operation::read(offset(place), 4096)).unwrap();
    }
    drive.advance(drive.now() + Span::from_us(100)).unwrap();
    drive.cut_power(drive.now(), Survival::Everything).unwrap();
    assert!(std::iter::from_fn(|| drive.next_completion().map(|done| done.ticket())).count() >= 299);
    let ticket = drive.submit(drive.now(), 0, Operation::read(0, 4096)).unwrap();
    let latency = drive.wait(ticket).unwrap().latency();
    assert!(latency <= alone + Span::from_us(334), "{latency} behind the queue that is gone; {alone} alone");
}

#[test]
fn snapshot_of_a_volume_restores_its_credits() {
    let description = Description::shipped("ebs-gp2").unwrap().with("volume.credit_operations=100").unwrap();
    let mut drive = description.without_data().open().unwrap();
    completions(&mut drive, 90, |place| Operation::read(offset(place), 4096));
    let before = drive.snapshot();
    let first = completions(&mut drive, 200, |place| Operation::read(offset(place), 4096));
    drive.restore(&before).unwrap();
    assert_eq!(completions(&mut drive, 200, |place| Operation::read(offset(place), 4096)), first);
}
