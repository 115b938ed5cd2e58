//! Steady state: requests count once the write buffer has been turned over, and the translation layer is as jobs leave it.

use crate::common::{counter, drive, jobs};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{MeasuredState, Outcome};
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::Job;

const RANDOM_WRITES: &str = "rw=randwrite bs=4k iodepth=32 number_ios=20000 io_size=1024p";

fn measured(drive: &Drive, job: &str, is_steady: bool) -> Outcome {
    let jobs: Vec<Job> = jobs(drive, job).into_iter().map(|job| Job { steady: Some(is_steady), ..job }).collect();
    let mut simulation = Simulation::new(drive, &jobs, 1).expect("a run");
    while simulation.step(1 << 20) {}
    simulation.outcome()
}

fn is_steady(outcome: &Outcome) -> bool {
    matches!(outcome.measured, MeasuredState::Steady { .. })
}

#[test]
fn steady_state_random_writes_match_those_after_a_long_ramp() {
    for name in ["tlc-gen4", "xl-flash"] {
        let drive = drive(name, &[]);
        let (steady, burst) = (measured(&drive, RANDOM_WRITES, true), measured(&drive, RANDOM_WRITES, false));
        assert!(is_steady(&steady) && matches!(burst.measured, MeasuredState::Burst(_)), "{name}");
        assert_eq!((steady.ios(), burst.ios()), (20_000, 20_000));
        assert!(burst.iops() > 2.0 * steady.iops(), "{name}: {} {}", burst.iops(), steady.iops());
        let random = crate::common::drive(name, &["translation.precondition=random"]);
        let ramped = measured(&random, &format!("{RANDOM_WRITES} ramp_time=1 number_ios=40000"), false);
        let ratio = steady.iops() / ramped.iops();
        assert!((0.9..1.1).contains(&ratio), "{name}: {} {}", steady.iops(), ramped.iops());
    }
}

#[test]
fn reads_and_drives_without_write_buffer_have_only_one_state() {
    let reads = measured(&drive("tlc-gen4", &[]), "rw=randread number_ios=1000", true);
    assert_eq!(reads.measured, MeasuredState::Only);
    let (steady, burst) = (true, false);
    let [with, without] = [steady, burst].map(|it| measured(&drive("nvme", &[]), "rw=randwrite number_ios=1000", it));
    assert_eq!((with.measured, with.elapsed, with.events), (MeasuredState::Only, without.elapsed, without.events));
}

#[test]
fn slow_writes_that_never_fill_the_buffer_are_measured_after_four_capacities() {
    let outcome =
        measured(&drive("tlc-gen4", &[]), "rw=write bs=128k rate_iops=1000 number_ios=500 io_size=1024p", true);
    let MeasuredState::Steady { warm_up_ios, .. } = outcome.measured else { panic!("{:?}", outcome.measured) };
    assert!((1024..1024 + 200).contains(&warm_up_ios), "{warm_up_ios}");
    assert_eq!(outcome.ios(), 500);
}

#[test]
fn writes_slightly_faster_than_the_cells_are_steady_only_when_buffer_is_full() {
    let (drive, job) = (drive("tlc-gen4", &[]), RANDOM_WRITES.replace("iodepth=32", "iodepth=256"));
    let most = measured(&drive, &job, true).iops();
    let outcome = measured(&drive, &format!("{job} rate_iops={}", (1.15 * most) as u64), true);
    assert!(is_steady(&outcome) && outcome.iops() < 1.05 * most, "{} of {most}", outcome.iops());
}

#[test]
fn drive_not_preconditioned_with_random_writes_is_measured_as_burst() {
    let fresh = drive("tlc-gen4", &["translation.precondition=none"]);
    let outcome = measured(&fresh, RANDOM_WRITES, true);
    assert!(matches!(outcome.measured, MeasuredState::Burst(reason) if reason.contains("translation.precondition")));
    assert!(is_steady(&measured(&fresh, "rw=write bs=128k iodepth=8 number_ios=1000 io_size=1024p", true)));
}

#[test]
fn measurement_start_is_independent_of_simulation_step_size() {
    let drive = drive("tlc-gen4", &[]);
    let jobs: Vec<Job> = jobs(&drive, RANDOM_WRITES).into_iter().map(|job| Job { steady: Some(true), ..job }).collect();
    let outcome = |events: u64| {
        let mut simulation = Simulation::new(&drive, &jobs, 1).expect("a run");
        while simulation.step(events) {}
        simulation.outcome()
    };
    assert_eq!(outcome(1 << 20), outcome(1000));
}

#[test]
fn random_writes_to_zones_have_no_write_amplification() {
    let conventional = drive("tlc-gen4", &["media.capacity_mib=524288"]);
    let zoned = drive("tlc-gen4", &["media.capacity_mib=524288", "zones.size_mib=1024"]);
    let [conventional, zoned] = [conventional, zoned].map(|drive| measured(&drive, RANDOM_WRITES, true));
    let amplification = |outcome: &Outcome| counter(outcome, "write_amplification_percent");
    assert!(is_steady(&zoned) && amplification(&zoned) == 100, "{:?}", zoned.measured);
    assert!(amplification(&conventional) > 300, "{}", amplification(&conventional));
}
