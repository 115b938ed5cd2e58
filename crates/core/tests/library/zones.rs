//! Drives with zones: how writes become appends, and what becomes of those that a zone refuses.

use std::collections::BTreeMap;

use crate::common::{counter, drive, jobs, run};
use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::{Simulation, simulate};
use phaselink_core::workload::fio;

const WRITES: &str = "rw=write bs=64k iodepth=4 size=8m number_ios=40";

#[test]
fn a_write_that_is_longer_than_an_append_is_split() {
    for (append_kib, appends) in [(64, 40), (16, 160), (8, 320)] {
        let append = format!("zones.append_max_kib={append_kib}");
        let outcome = run(&drive("nvme", &["zones.size_mib=4", &append]), WRITES);
        assert_eq!((outcome.ios(), outcome.failed()), (40, 0), "{append_kib}");
        assert_eq!(counter(&outcome, "zone_appends"), appends, "{append_kib}");
    }
}

#[test]
fn appends_fail_if_their_full_zone_lost_its_reset() {
    let fault = "faults=[{ action = \"hang\", first = 1, times = 1, timeout_us = 10 }]";
    let outcome = run(&drive("nvme", &["zones.size_mib=4", fault]), WRITES);
    assert_eq!((outcome.ios(), outcome.failed()), (0, 41), "all writes, and the reset");
    assert_eq!((counter(&outcome, "refused_requests"), outcome.jobs[0].failed_resets), (40, 1));
}

/// Runs writes and reads of zones with real bytes, in which no read finds what it may not, while the device is restarted four times.
fn run_zoned_job_with_restarts(action: &str, keys: &[&str]) -> Outcome {
    let fault = |from: u32| format!("{{ action = \"{action}\", from_us = {from}, outage_us = 5 }}");
    let faults = format!("faults=[{}]", [40, 700, 1300, 2900].map(fault).join(", "));
    let zones = ["zones.size_mib=1", "zones.append_max_kib=16", &faults];
    let drive = drive("nvme", &[&zones, keys].concat());
    let writes = "rw=randrw rwmixread=30 bs=32k iodepth=8 size=2m io_size=1g number_ios=400";
    let mut simulation = Simulation::with_data(&drive, &jobs(&drive, writes), 1).unwrap();
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0], "{action} {keys:?}");
    let outcome = simulation.outcome();
    assert!(outcome.finished, "{action} {keys:?}");
    assert_eq!(outcome.ios() + outcome.failed(), 400, "{action} {keys:?}");
    outcome
}

const VOLATILE: [&str; 2] = ["media.acknowledge=early", "buffer.power_loss_protection=false"];

#[test]
fn zone_writers_continue_at_the_write_pointers_after_restarts() {
    for (action, counter_name) in [("reset", "fault_resets"), ("power-cut", "fault_power_cuts")] {
        for keys in [&[][..], &VOLATILE] {
            let outcome = run_zoned_job_with_restarts(action, keys);
            assert_eq!(counter(&outcome, counter_name), 4, "{action} {keys:?}");
            let refused = counter(&outcome, "refused_requests");
            assert!(outcome.failed() == refused && refused <= 16, "{action} {keys:?}: {refused} are refused");
            assert!(counter(&outcome, "zone_appends") >= 400, "{action} {keys:?}: the counts outlive restarts");
        }
    }
}

#[test]
fn writes_beyond_the_active_zone_limit_are_refused_also_after_restarts() {
    let found = |action: &str, active: u32| {
        let fault = format!("faults=[{{ action = \"{action}\", from_us = 50, outage_us = 5 }}]");
        let (active, zones) = (format!("zones.active_max={active}"), ["zones.size_mib=4", "zones.open_max=1"]);
        let drive = drive("nvme", &[&zones[..], &[&active, &fault]].concat());
        let file = fio::job_from_flags(&[("rw", "write"), ("bs", "64k"), ("size", "8m")]).unwrap();
        file.resolve(&drive.limits(), &Default::default())
            .map_or_else(|problems| problems.to_string(), |_| String::new())
    };
    for action in ["reset", "power-cut"] {
        let refused = found(action, 1);
        assert!(refused.contains("it writes 2 zones, and faults restart the controller"), "{refused}");
        assert_eq!(found(action, 2), "");
        assert_eq!(found(action, 0), "");
    }
}

/// A flash drive of 32 dies on eight channels, with zones of 384 MiB whose writers wait for their dies.
const ZONED: &[&str] = &["media.capacity_mib=61440", "zones.size_mib=384"];
const FILL: &str = "rw=write bs=128k iodepth=8 time_based=1 runtime=1";

/// Bytes a second that so many threads write, each to zones of its own.
fn zone_write_bandwidth(dies: u32, threads: u32) -> f64 {
    let dies = format!("zones.dies={dies}");
    let drive = drive("tlc-gen4", &[ZONED, &[&dies]].concat());
    run(&drive, &format!("{FILL} numjobs={threads}")).jobs[0].write.bytes_per_s()
}

#[test]
fn zone_writers_share_only_the_bandwidth_of_their_zones_dies() {
    let all = zone_write_bandwidth(0, 1);
    let quarter = zone_write_bandwidth(8, 1);
    assert!((0.25..0.30).contains(&(quarter / all)), "{quarter} of {all}");
    // The last 32 MiB of a zone of 384 MiB leave the buffer while the next zone is written to other dies, so the rate
    // exceeds a quarter.
    let expected = 0.25 / (1.0 - 32.0 / 384.0);
    assert!((quarter / all / expected - 1.0).abs() < 0.02, "{quarter} of {all}, {expected} expected");
    let twice = zone_write_bandwidth(8, 2) / quarter;
    assert!((1.8..2.05).contains(&twice), "two zones on different dies: {twice}");
    let full = zone_write_bandwidth(8, 4) / all;
    assert!((0.95..1.01).contains(&full), "four zones on all dies: {full}");
    let over = zone_write_bandwidth(8, 8) / all;
    assert!((0.95..1.01).contains(&over), "eight zones, two on each group: {over}");
}

#[test]
fn reads_wait_only_for_zone_writers_on_the_same_dies() {
    // The first and the fifth zone are on dies 0 to 7. The second zone is on other dies.
    let latency = |read_zone: u64| {
        let drive = drive("tlc-gen4", &[ZONED, &["zones.dies=8"]].concat());
        let jobs = format!(
            "[writer]\nrw=write\nbs=128k\niodepth=8\nsize=384m\ntime_based=1\nruntime=1\n\
             [reader]\nrw=randread\nbs=4k\niodepth=1\noffset={}m\nsize=384m\ntime_based=1\nruntime=1\n",
            read_zone * 384
        );
        let file = fio::parse("jobs.fio", &jobs).unwrap_or_else(|problems| panic!("{problems}"));
        let jobs = file.resolve(&drive.limits(), &BTreeMap::new()).unwrap_or_else(|problems| panic!("{problems}"));
        simulate(&drive, &jobs, 1).unwrap_or_else(|problems| panic!("{problems}")).jobs[1].read.total.mean_ns()
    };
    let (beside, apart) = (latency(4), latency(1));
    // A read on the writer's dies must suspend a program, which takes time.
    assert!(beside > 1.1 * apart, "{beside} ns on the writer's dies, {apart} ns on others");
    let alone = run(&drive("tlc-gen4", &[ZONED, &["zones.dies=8"]].concat()), "bs=4k iodepth=1 size=384m");
    let alone = alone.jobs[0].read.total.mean_ns();
    assert!((1.0..1.03).contains(&(apart / alone)), "{apart} ns on other dies, {alone} ns without a writer");
}

#[test]
fn zones_with_own_dies_are_programmed_once_and_erased_once_per_reset() {
    let drive = drive("tlc-gen4", &[ZONED, &["zones.dies=8"]].concat());
    let outcome = run(&drive, "rw=write bs=128k iodepth=8 size=768m io_size=3g");
    let resets = counter(&outcome, "zone_resets");
    assert_eq!((counter(&outcome, "erases"), counter(&outcome, "zone_refusals")), (resets, 0));
    assert_eq!(resets, 8);
    assert_eq!(counter(&outcome, "write_amplification_percent"), 100);
    // Five of six flushes program 128 KiB into word lines of four dies (96 KiB each), before the line of 768 KiB is
    // complete.
    let flushed = run(&drive, "rw=write bs=128k iodepth=1 size=384m io_size=256m fsync=1");
    let amplification = counter(&flushed, "write_amplification_percent");
    assert!((345..=350).contains(&amplification), "{amplification}");
}

/// Writes a second of one thread to one zone of a drive whose appends take 5 us more than its writes.
fn single_zone_writes_per_second(iodepth: u32, append: u8) -> f64 {
    let set = [
        "media.capacity_mib=61440",
        "translation.over_provisioning=0.5",
        "zones.size_mib=384",
        "zones.append_ns=5000",
        "buffer.command_servers=4",
    ];
    let job = format!("rw=write bs=4k iodepth={iodepth} zone_append={append} number_ios=3000 burst=1");
    let outcome = run(&drive("tlc-gen5", &set), &job);
    assert_eq!((outcome.failed(), counter(&outcome, "zone_refusals")), (0, 0), "{iodepth} {append}");
    assert_eq!(counter(&outcome, "zone_appends") > 0, append == 1);
    outcome.iops()
}

#[test]
fn appends_to_one_zone_are_slower_than_writes_at_depth_one_and_faster_queued() {
    let [write, append, writes, appends] =
        [(1, 0), (1, 1), (8, 0), (8, 1)].map(|(depth, it)| single_zone_writes_per_second(depth, it));
    assert!(append < 0.75 * write, "alone: {append} appends, {write} writes");
    assert!((0.95..1.35).contains(&(writes / write)), "one write of a zone is in flight: {writes} and {write}");
    assert!(appends > 2.0 * writes, "together: {appends} appends, {writes} writes");
}

#[test]
fn write_pointer_writes_store_the_data_of_their_requests() {
    let drive = drive("nvme", &["zones.size_mib=1"]);
    let job = "rw=randrw rwmixread=30 bs=32k iodepth=8 numjobs=2 size=4z zone_append=0 io_size=1g number_ios=300";
    let mut simulation = Simulation::with_data(&drive, &jobs(&drive, job), 1).unwrap();
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0]);
    let outcome = simulation.outcome();
    assert_eq!((outcome.ios(), outcome.failed(), counter(&outcome, "zone_appends")), (600, 0, 0));
}

#[test]
fn partial_unit_write_moves_the_whole_unit_into_and_out_of_the_buffer() {
    let mean_us = |bytes: u32| {
        let set = [ZONED, &["zones.dies=8", "buffer.page_ns=10000"]].concat();
        let job = format!("rw=write bs={bytes} number_ios=400 burst=1");
        run(&drive("tlc-gen4", &set), &job).jobs[0].write.total.mean_ns() / 1000.0
    };
    // Seven of eight writes of 512 bytes read and store their unit (20 us). The first of each unit only stores it (10
    // us).
    let (part, whole) = (mean_us(512), mean_us(4096));
    assert!((8.0..9.5).contains(&(part - whole)), "{part} us of a part, {whole} us of a unit");
}

#[test]
fn sizes_given_in_zones_need_a_zoned_drive() {
    let refused = |set: &[&str]| {
        let file = fio::job_from_flags(&[("rw", "read"), ("offset", "1z"), ("size", "2z")]).unwrap();
        file.resolve(&drive("nvme", set).limits(), &Default::default())
    };
    let job = &refused(&["zones.size_mib=64"]).unwrap()[0];
    assert_eq!((job.offset, job.size), (64 << 20, Some(128 << 20)));
    assert!(refused(&[]).unwrap_err().to_string().contains("offset=1z on a drive with no or fewer zones"));
}
