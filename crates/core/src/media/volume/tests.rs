//! Tests of a volume's limits against a model of the published arithmetic that counts ticks.

use super::*;
use crate::config::Volume;

const GIB: u64 = 1024;
const PS_PER_S: u128 = 1_000_000_000_000;

fn at_s(seconds: u64) -> Time {
    Time::ZERO + Span::from_s(seconds)
}

/// Returns the limits of a gp2 volume of Amazon EBS.
fn gp2_limits() -> Volume {
    Volume {
        iops_per_gib: 3.0,
        min_iops: 100.0,
        max_iops: 16_000.0,
        burst_iops: 3_000.0,
        credit_operations: 5_400_000,
        operation_kib: 256,
        merges_sequential: true,
        ..Volume::default()
    }
}

fn limits(volume: &Volume, gib: u64) -> VolumeLimits {
    VolumeLimits::of(volume, gib * GIB).expect("a volume")
}

/// Returns the instants at which `count` random reads of 4 KiB pass the limits, if all come at time 0.
fn passing_times(limits: &mut VolumeLimits, count: u64) -> impl Iterator<Item = Time> {
    (0..count).map(|place| limits.pass(Time::ZERO, DataDirection::Read, (place * 7919 % 999_983) << 13, 4096))
}

/// Returns the first picosecond that is not before tick number `tick`, with `per_s` ticks a second.
fn tick_instant(tick: u64, per_s: u64) -> Time {
    Time::from_ps((u128::from(tick) * PS_PER_S).div_ceil(u128::from(per_s)) as u64)
}

#[test]
fn power_cut_returns_the_tokens_of_queued_accesses() {
    let volume = Volume { credit_operations: 10, rate_iops: 300.0, iops_per_gib: 0.0, ..gp2_limits() };
    let mut cut = limits(&volume, 100);
    let at: Vec<Time> = passing_times(&mut cut, 100).collect();
    let now = at[4] + Span::from_ns(1);
    cut.cut_power(now);
    // The cut has dropped the queued operations, so a second volume gets only the five that had passed before it.
    let mut calm = limits(&volume, 100);
    assert!(passing_times(&mut calm, 5).eq(at[..5].iter().copied()));
    let later = |limits: &mut VolumeLimits| -> Vec<Time> {
        (0..50).map(|place| limits.pass(now, DataDirection::Write, place << 30, 4096)).collect()
    };
    let [cut, calm] = [&mut cut, &mut calm].map(later);
    assert_eq!(cut, calm);
    assert!(cut[0] < at[6], "{cut:?}");
}

#[test]
fn gp2_of_100_gib_passes_operations_as_published() {
    // The published formula, in ticks of 1/3,000 s: a tick earns a tenth of a credit, and an operation spends a whole
    // credit.
    const FULL: u64 = 54_000_000;
    let mut limits = limits(&gp2_limits(), 100);
    let (mut tenths, mut operations) = (FULL, 0_u64);
    for tick in 0..6_060_000 {
        tenths = if tick == 0 { FULL } else { (tenths + 1).min(FULL) };
        if tenths >= 10 {
            tenths -= 10;
            operations += 1;
            let passed = limits.pass(Time::ZERO, DataDirection::Read, (tick * 7919 % 999_983) << 13, 4096);
            assert_eq!(passed, tick_instant(tick, 3_000), "operation {operations}");
        }
    }
    // Bursts last 5,400,000 / (3,000 - 300) = 2,000 s; the last credit is spent at their end. Then the rate is 300
    // operations/s.
    assert_eq!(operations, 6_000_000 - 1 + 20 * 300);
    assert_eq!(limits.credit_state(at_s(2_020)), Some(CreditState::UsedUpAfter(Span::from_s(2_000))));
}

#[test]
fn burst_duration_follows_the_published_formula() {
    for gib in [34, 150, 500, 900] {
        let base = 3 * gib;
        let seconds = 54_000 / (3_000 - base);
        let mut limits = limits(&Volume { credit_operations: 54_000, ..gp2_limits() }, gib);
        let passed: Vec<Time> = passing_times(&mut limits, 3_000 * (seconds + 1) + 5 * base).collect();
        let by = |second| passed.iter().filter(|at| **at < at_s(second)).count() as u64;
        assert!(by(seconds).abs_diff(3_000 * seconds) <= 1, "{gib} GiB: {seconds} s of bursts");
        assert_eq!(by(seconds + 3) - by(seconds + 2), base, "{gib} GiB: {base} operations/s afterwards");
    }
}

#[test]
fn baseline_rate_follows_the_size_within_its_bounds() {
    let base = |gib| gp2_limits().operations(gib * GIB).unwrap();
    assert_eq!(
        [1, 33, 34, 100, 5_333, 5_334, 16_384].map(|gib| base(gib).base_per_s),
        [100.0, 100.0, 102.0, 300.0, 15_999.0, 16_000.0, 16_000.0]
    );
    assert_eq!((base(999).credits, base(1_000).credits), (5_400_000.0, 0.0), "from 1,000 GiB on bursts are no faster");
    assert_eq!(base(1_000).peak_per_s, 3_000.0);
}

#[test]
fn credits_refill_at_the_baseline_rate() {
    let used = Volume { credits: StartCredits::Used, ..gp2_limits() };
    let mut limits = limits(&used, 100);
    // The time before the first access earns no credits, so the access waits for a credit.
    assert_eq!(limits.pass(at_s(5), DataDirection::Write, 0, 4096), at_s(5) + Span::from_ps(3_333_333_334));
    // 10 s later there are 3,000 credits. They last for 1 s, in which a tenth of them is earned again, and so on.
    let start = at_s(15) + Span::from_ps(3_333_333_334);
    let passed: Vec<Time> =
        (0..4_000).map(|place: u64| limits.pass(start, DataDirection::Write, place << 20, 4096)).collect();
    let by = |ms: u64| passed.iter().filter(|at| **at < start + Span::from_ms(ms)).count();
    assert_eq!((by(1_000), by(1_100)), (3_000, 3_300), "bursts");
    assert_eq!(by(1_200), 3_000 + 300 * 12 / 10 - 1, "used up after 1.11 s; the next credit comes after 1.2 s");
    assert_eq!(limits.credit_state(at_s(17)), Some(CreditState::Used));
}

#[test]
fn provisioned_volume_runs_at_its_rates_without_credits() {
    let gp3 = Volume { rate_iops: 3_000.0, rate_mib_per_s: 125.0, operation_kib: 256, ..Volume::default() };
    let mut limits_4k = limits(&gp3, 100);
    for (tick, passed) in (0..).zip(passing_times(&mut limits_4k, 10_000)) {
        assert_eq!(passed, tick_instant(tick, 3_000));
    }
    assert_eq!(limits_4k.credit_state(at_s(1)), None);
    let mut limits_64k = limits(&gp3, 100);
    for tick in 0..10_000 {
        // 125 MiB/s are 2,000 requests of 64 KiB per second.
        let passed = limits_64k.pass(Time::ZERO, DataDirection::Read, tick << 20, 65_536);
        assert_eq!(passed, tick_instant(tick, 2_000));
    }
}

#[test]
fn operations_count_as_in_the_published_ebs_table() {
    let mut ssd = limits(&gp2_limits(), 100);
    let mut count = |offset: u64, kib: u64| ssd.count(DataDirection::Read, offset << 10, kib << 10);
    assert_eq!(count(1 << 30, 1024), 4, "1 x 1,024 KiB");
    assert_eq!((0..8).map(|place| count(place * 32, 32)).sum::<u64>(), 1, "8 x 32 KiB in sequence");
    assert_eq!((0..8).map(|place| count((9 - place) << 20, 32)).sum::<u64>(), 8, "8 random ones");
    assert_eq!((0..17).map(|place| count((5 << 20) + place * 32, 32)).sum::<u64>(), 3, "17 in sequence");
    let hdd = Volume { operation_kib: 1024, ..gp2_limits() };
    let mut hdd = limits(&hdd, 100);
    assert_eq!((0..8).map(|place| hdd.count(DataDirection::Write, place << 17, 1 << 17)).sum::<u64>(), 1);
    let (read, write) = (DataDirection::Read, DataDirection::Write);
    assert_eq!((hdd.count(read, 1 << 20, 4096), hdd.count(write, (1 << 20) + 4096, 4096)), (1, 1), "of one direction");
}

#[test]
fn random_requests_to_disks_count_as_whole_operations() {
    let st1 = Volume {
        mib_per_s_per_gib: 40.0 / 1024.0,
        burst_mib_per_s_per_gib: 250.0 / 1024.0,
        max_mib_per_s: 500.0,
        credit_mib_per_gib: 1024.0,
        operation_kib: 1024,
        merges_sequential: true,
        counts_whole_operations: true,
        ..Volume::default()
    };
    let mut random = limits(&st1, 1024);
    for tick in 0..1_000 {
        let passed = random.pass(Time::ZERO, DataDirection::Read, (tick * 2) << 20, 16 << 10);
        assert_eq!(passed, tick_instant(tick, 250), "250 MiB/s are 250 requests");
    }
    let mut sequential = limits(&st1, 1024);
    let mut last = Time::ZERO;
    for place in 0..64 * 250 {
        last = sequential.pass(Time::ZERO, DataDirection::Read, place * (16 << 10), 16 << 10);
    }
    assert_eq!(last, tick_instant(249, 250), "250 MiB in order count as 250 requests of 1 MiB");
    // 1 TiB of credits is spent at 250 MiB/s and earned at 40 MiB/s: 4,993 s.
    let bytes = st1.bytes(1024 * GIB).unwrap();
    assert_eq!((bytes.credits / (bytes.peak_per_s - bytes.base_per_s)).round(), 4993.0);
}

#[test]
fn requests_pass_the_limits_in_arrival_order() {
    let gp3 = Volume { rate_iops: 3_000.0, rate_mib_per_s: 125.0, ..Volume::default() };
    let mut limits = limits(&gp3, 100);
    let large = (0..3).map(|place| limits.pass(Time::ZERO, DataDirection::Read, place << 20, 1 << 20)).last();
    let small = limits.pass(Time::ZERO, DataDirection::Read, 0, 4096);
    assert_eq!((large, small > tick_instant(2, 125)), (Some(tick_instant(2, 125)), true));
}

#[test]
fn limit_window_lets_its_operations_pass_at_once() {
    let gp3 = Volume { rate_iops: 3_000.0, window: Span::from_ms(10), ..Volume::default() };
    let mut limits = limits(&gp3, 100);
    let at_once = passing_times(&mut limits, 100).filter(|at| *at == Time::ZERO).count();
    assert_eq!(at_once, 30);
}

#[test]
fn run_above_its_baseline_reports_the_remaining_credit_time() {
    let every = |ps: u64, count: u64| {
        let mut limits = limits(&gp2_limits(), 100);
        let last =
            (0..count).map(|place| limits.pass(Time::from_ps(place * ps), DataDirection::Read, place << 20, 512));
        let last = last.last().unwrap();
        limits.credit_state(last + Span::from_ps(ps))
    };
    assert_eq!(every(10_000_000_000, 1_000), Some(CreditState::Kept), "100 operations/s");
    let Some(CreditState::Last(span)) = every(1_000_000_000, 10_000) else { panic!() };
    assert!((span.as_s() - 7_714.3).abs() < 1.0, "{span:?}");
}

#[test]
fn bursty_load_below_the_baseline_keeps_its_credits() {
    let mut limits = limits(&gp2_limits(), 100);
    for place in 0..400_u64 {
        // Two operations every 10 ms are 200 per second, below the baseline of 300 per second (3 per GiB, 100 GiB).
        limits.pass(Time::ZERO + Span::from_ms(10) * (place / 2), DataDirection::Read, place << 20, 4096);
    }
    assert_eq!(limits.credit_state(at_s(2)), Some(CreditState::Kept));
}
