//! Rate-limited volumes from the application to the storage servers: operations to the instant, states, predictions, wrong keys.

use crate::common::{drive, jobs};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::KeyOverride;
use phaselink_core::ledger::{CreditState, MeasuredState, Outcome};
use phaselink_core::simulation::Simulation;
use phaselink_core::time::{Span, Time};
use phaselink_core::workload::{Job, trace};
use phaselink_studies::predict::{predict, usage};

const PS_PER_S: u128 = 1_000_000_000_000;

fn simulation(drive: &Drive, job: &str, is_steady: bool) -> (Simulation, Vec<Job>) {
    let jobs: Vec<Job> = jobs(drive, job).into_iter().map(|job| Job { steady: Some(is_steady), ..job }).collect();
    let mut simulation = Simulation::new(drive, &jobs, 1).expect("a run");
    simulation.keep_requests(100_000);
    while simulation.step(1 << 20) {}
    (simulation, jobs)
}

fn outcome(drive: &Drive, job: &str, is_steady: bool) -> Outcome {
    simulation(drive, job, is_steady).0.outcome()
}

/// Instants at which requests of a run were done, from the first one on.
fn done(drive: &Drive, job: &str, is_steady: bool) -> Vec<Span> {
    let (mut simulation, _) = simulation(drive, job, is_steady);
    let kept = simulation.take_requests().expect("requests are kept");
    let mut done: Vec<Time> = kept.kept().iter().map(|request| request.done).collect();
    done.sort();
    done.iter().map(|at| at.since(done[0])).collect()
}

/// First picosecond that is not before tick number `tick` of so many a second.
fn token_tick_time(tick: u64, per_s: u64) -> Span {
    Span::from_ps((u128::from(tick) * PS_PER_S).div_ceil(u128::from(per_s)) as u64)
}

#[test]
fn gp2_requests_complete_at_the_tick_of_their_published_credits() {
    let gp2 = drive("ebs-gp2", &["volume.credit_operations=5400"]);
    for job in ["rw=randread bs=4k", "rw=randwrite bs=4k"] {
        let found = done(&gp2, &format!("{job} iodepth=32 number_ios=6400"), false);
        // Count in ticks of 1/3,000 s: each tick earns a tenth of a credit.
        let (mut tenths, mut tick) = (54_000_u64, 0);
        for (number, found) in found.iter().enumerate() {
            while tenths < 10 {
                (tenths, tick) = (tenths + 1, tick + 1);
            }
            assert_eq!(*found, token_tick_time(tick, 3_000), "{job}: request {number}");
            (tenths, tick) = (tenths - 10 + 1, tick + 1);
        }
        let by = |seconds| found.iter().filter(|at| **at < Span::from_s(seconds)).count();
        assert_eq!((by(1), by(2)), (3_000, 5_999), "5,400 / (3,000 - 300) = 2 s of bursts");
        assert_eq!(by(3) - by(2), 300, "operations/s afterwards");
    }
}

#[test]
fn gp3_requests_complete_at_their_token_tick() {
    let gp3 = drive("ebs-gp3", &[]);
    for (job, per_s) in [
        ("rw=randread bs=4k", 3_000),
        ("rw=randwrite bs=16k", 3_000),
        ("rw=randread bs=64k", 2_000),
        ("rw=randwrite bs=256k", 500),
    ] {
        for (tick, found) in (0..).zip(done(&gp3, &format!("{job} iodepth=64 number_ios=5000"), true)) {
            assert_eq!(found, token_tick_time(tick, per_s), "{job}: request {tick}");
        }
    }
}

#[test]
fn replayed_requests_complete_at_the_tick_of_the_volume() {
    let line = |place: u64| format!("{} d read {} 4096\n", place / 100, (place * 7919 % 999_983) << 13);
    let text = format!("fio version 3 iolog\n{}", (0..3000).map(line).collect::<String>());
    let trace = trace::parse("t", &text).expect("an iolog").requests;
    let gp3 = drive("ebs-gp3", &[]);
    let job = Job { trace: Some(trace), iodepth: 64, steady: Some(false), ..Job::named("replay") };
    // Replay the trace at its recorded pace (30 ms, which the volume stretches to a second), and as fast as possible.
    for replay_no_stall in [false, true] {
        let mut simulation = Simulation::new(&gp3, &[Job { replay_no_stall, ..job.clone() }], 1).expect("a replay");
        simulation.keep_requests(3000);
        while simulation.step(1 << 20) {}
        let kept = simulation.take_requests().expect("requests are kept");
        let mut done: Vec<Time> = kept.kept().iter().map(|request| request.done).collect();
        done.sort();
        assert_eq!(done.len(), 3000);
        for (tick, at) in (0..).zip(&done) {
            assert_eq!(at.since(done[0]), token_tick_time(tick, 3_000), "request {tick}, no stall: {replay_no_stall}");
        }
    }
}

#[test]
fn request_below_the_volume_limits_takes_its_predicted_time() {
    for name in ["ebs-gp2", "ebs-io2", "pd-ssd"] {
        let drive = drive(name, &[]);
        for rw in ["randread", "randwrite"] {
            let job = format!("rw={rw} bs=4k iodepth=1 rate_iops=50 number_ios=100");
            let (simulation, jobs) = simulation(&drive, &job, false);
            let alone = predict(&drive, &jobs).jobs[0].alone_ns().expect("a closed form");
            let mean = simulation.latency().mean_ns();
            assert!((mean - alone).abs() < 0.1, "{name} {rw}: {mean} ns, predicted {alone}");
            let volume = if rw == "randread" { drive.volume.read } else { drive.volume.write };
            assert!(alone > volume.as_ns() && alone < volume.as_ns() + 10_000.0, "{alone}");
        }
    }
}

#[test]
fn prediction_names_the_volume_limit_that_a_run_reaches() {
    let cases = [
        ("ebs-gp2", "rw=randread bs=4k", true, "volume's limit of operations", 300.0),
        ("ebs-gp2", "rw=randread bs=4k", false, "volume's limit of operations", 3_000.0),
        ("ebs-gp2", "rw=randread bs=256k", false, "volume's limit of bytes", 512.0),
        ("ebs-gp3", "rw=randwrite bs=16k", true, "volume's limit of operations", 3_000.0),
        ("ebs-gp3", "rw=read bs=128k", true, "volume's limit of bytes", 1_000.0),
        ("ebs-st1", "rw=randread bs=16k", true, "volume's limit of bytes", 40.0),
        ("ebs-st1", "rw=read bs=128k", true, "volume's limit of bytes", 320.0),
        ("premium-ssd", "rw=randread bs=8k", true, "volume's limit of operations", 500.0),
        ("pd-balanced", "rw=randread bs=4k", true, "volume's limit of operations", 3_600.0),
    ];
    for (name, job, is_steady, resource, iops) in cases {
        let drive = drive(name, &[]);
        let (simulation, jobs) = simulation(&drive, &format!("{job} iodepth=64 number_ios=3000"), is_steady);
        let outcome = simulation.outcome();
        let prediction = predict(&drive, &jobs);
        let bottleneck = prediction.jobs[0].bottleneck();
        assert_eq!(bottleneck.resource, resource, "{name} {job}");
        assert!(
            (bottleneck.saturation_iops() / iops - 1.0).abs() < 1e-6,
            "{name} {job}: {}",
            bottleneck.saturation_iops()
        );
        assert!((outcome.iops() / iops - 1.0).abs() < 0.03, "{name} {job}: {} IOPS", outcome.iops());
        let used = usage(&drive, &jobs, &outcome);
        assert_eq!(used[0].resource, resource, "{name} {job}: {used:?}");
        assert!(used[0].share > 0.97, "{name} {job}: {used:?}");
    }
}

#[test]
fn results_report_credit_use_and_remaining_time() {
    let gp2 = drive("ebs-gp2", &[]);
    let job = "rw=randread bs=4k iodepth=32 number_ios=9000";
    assert_eq!(outcome(&gp2, job, true).measured, MeasuredState::Volume(CreditState::Used));
    let MeasuredState::Volume(CreditState::Last(span)) = outcome(&gp2, job, false).measured else { panic!() };
    assert!((span.as_s() - 2_000.0).abs() < 5.0, "{span:?}");
    let few = drive("ebs-gp2", &["volume.credit_operations=2700"]);
    let MeasuredState::Volume(CreditState::UsedUpAfter(span)) = outcome(&few, job, false).measured else { panic!() };
    assert!((span.as_s() - 1.0).abs() < 0.01, "{span:?}");
    let slow = "rw=randread bs=4k rate_iops=100 number_ios=500";
    assert_eq!(outcome(&gp2, slow, false).measured, MeasuredState::Volume(CreditState::Kept));
    assert_eq!(outcome(&drive("ebs-gp3", &[]), job, true).measured, MeasuredState::Only);
    let large = drive("ebs-gp2", &["media.capacity_mib=1024000"]);
    assert_eq!(outcome(&large, job, true).measured, MeasuredState::Only, "3,000 operations/s without credits");
}

#[test]
fn several_volumes_have_separate_limits() {
    let two = drive("ebs-gp3", &["drives=2"]);
    let iops = outcome(&two, "rw=randread bs=4k iodepth=64 number_ios=6000", true).iops();
    assert!((iops / 6_000.0 - 1.0).abs() < 0.01, "{iops}");
}

#[test]
fn contradictory_volume_keys_are_refused() {
    let refused = |drive: &str, overrides: &[&str]| {
        let overrides: Vec<KeyOverride> = overrides.iter().map(|it| KeyOverride::parse(it).unwrap()).collect();
        let text = format!("preset = \"{drive}\"\n");
        Drive::from_toml("drive.toml", &text, &overrides).expect_err("a problem").to_string()
    };
    let found = refused("dc-express", &["volume.rate_iops=100"]);
    assert!(found.contains("interface \"dc-express\", whose requests reach the memory in parts"), "{found}");
    let found = refused("dram-card", &["volume.burst_iops=100", "volume.credit_operations=5"]);
    assert!(found.contains("volume.burst_iops is given without a rate"), "{found}");
    let found = refused("ebs-gp3", &["volume.burst_iops=4000"]);
    assert!(found.contains("a rate of bursts without credits"), "{found}");
    let found = refused("ebs-gp3", &["volume.credits=used"]);
    assert!(found.contains("volume.credits is given without a bucket"), "{found}");
    let found = refused("ebs-gp3", &["volume.operation_kib=0", "volume.merges_sequential=true"]);
    assert!(found.contains("volume.operation_kib above 0"), "{found}");
    let found = refused("ebs-gp3", &["volume.counts_whole_operations=true", "volume.rate_mib_per_s=0"]);
    assert!(found.contains("volume.counts_whole_operations is given without a bandwidth"), "{found}");
    let found = refused("ebs-gp3", &["volume.rate_iops=0", "volume.operation_kib=16"]);
    assert!(found.contains("is given without a limit of operations, where it has no effect"), "{found}");
    let found = refused("dram-card", &["volume.rate_mib_per_s=100", "volume.operation_kib=4"]);
    assert!(found.contains("volume.operation_kib is given without a limit of operations"), "{found}");
    let found = refused("ebs-gp2", &["volume.min_iops=20000"]);
    assert!(found.contains("least rate of the volume is above"), "{found}");
    let found = refused("dram-card", &["volume.read_latency_us=100", "volume.window_ms=5"]);
    assert!(found.contains("volume.window_ms is given without a rate"), "{found}");
}
