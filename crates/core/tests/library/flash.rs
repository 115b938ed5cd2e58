//! Drives with processors, write buffers and translation layers of their own: what is predicted of them holds, and what they
//! have in common with real ones comes out of their parts.

use crate::common::{close, counter, drive, jobs, run};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::simulation::Simulation;

const FLASH: [&str; 4] = ["tlc-gen3", "tlc-gen4", "tlc-gen5", "xl-flash"];

/// A smaller drive of the same kind, so that its state changes within a run.
const SMALL: [&str; 3] = ["media.capacity_mib=4096", "media.block_pages=12", "buffer.capacity_kib=16384"];

fn mean_us(outcome: &phaselink_core::ledger::Outcome) -> f64 {
    let (_, figures) = outcome.jobs[0].directions().next().expect("requests were counted");
    figures.total.mean_ns() / 1000.0
}

#[test]
fn shipped_flash_drives_reproduce_their_source_values() {
    let lone = |name: &str, rw: &str, bytes: u32| {
        mean_us(&run(&drive(name, &[]), &format!("rw={rw} bs={bytes} number_ios=600")))
    };
    for (found, given) in [
        (lone("optane-p4800x", "randread", 4096), 6.38),
        (lone("optane-p4800x", "randwrite", 4096), 7.03),
        (lone("tlc-gen4", "randread", 4096), 59.98),
        (lone("tlc-gen5", "randread", 4096), 70.0),
        // The source (VLD) gives 5.7 us, including 1.2 us of its host.
        (lone("tlc-gen5", "randwrite", 4096), 4.6),
    ] {
        assert!(close(found, given, 0.03), "{found} us, not {given}");
    }
}

#[test]
fn flash_drives_reach_but_do_not_exceed_data_sheet_random_reads() {
    let rate = |name: &str| run(&drive(name, &[]), "rw=randread bs=4k iodepth=128 numjobs=8 number_ios=10000").iops();
    for (name, given) in [("optane-p4800x", 550e3), ("tlc-gen4", 1e6)] {
        assert!(close(rate(name), given, 0.01), "{name}: {}, not {given}", rate(name));
    }
}

#[test]
fn steady_drive_writes_less_than_a_fresh_one() {
    for name in FLASH {
        let at = |precondition: &str| {
            let state = format!("translation.precondition={precondition}");
            let set = [&SMALL[..], &[&state]].concat();
            run(&drive(name, &set), "rw=randwrite bs=4096 iodepth=64 number_ios=200000")
        };
        let (fresh, written, steady) = (at("none"), at("sequential"), at("random"));
        assert!(steady.iops() < 0.8 * written.iops(), "{name}: {} steady, {} once", steady.iops(), written.iops());
        assert!(fresh.iops() > 0.99 * written.iops(), "{name}: {} fresh, {} once", fresh.iops(), written.iops());
        assert!(counter(&steady, "write_amplification_percent") > 140, "{name}");
        assert!(counter(&steady, "erases") > 0, "{name}");
    }
}

#[test]
fn sequential_rates_are_those_of_dies_and_link() {
    let gen4 = drive("tlc-gen4", &[]);
    let written = run(&gen4, "rw=write bs=128k iodepth=16 number_ios=8000");
    // 32 dies program 96 KiB in 1.35 ms each. The buffer absorbs the first 32 of 1000 MiB.
    let dies = 32.0 * 98_304.0 / 1.35e-3;
    assert!(close(written.iops() * 131_072.0, dies, 0.1), "{} B/s, not {dies}", written.iops() * 131_072.0);
    let read = run(&gen4, "rw=read bs=128k iodepth=16 number_ios=4000");
    assert!((5.5e9..7.5e9).contains(&(read.iops() * 131_072.0)), "{} B/s", read.iops() * 131_072.0);
}

#[test]
fn reads_precede_writes_on_drives_with_suspension() {
    let p999_us = |suspend: &str| {
        let drive = drive("tlc-gen4", &[suspend]);
        let outcome = run(&drive, "rw=randrw rwmixread=90 bs=16k iodepth=2 number_ios=20000");
        outcome.jobs[0].read.total.percentile(99.9).as_us()
    };
    let (with, without) = (p999_us("media.suspend_ns=10000"), p999_us("media.suspend_ns=0"));
    assert!(with < 0.5 * without, "{with} us with, {without} without");
}

#[test]
fn written_data_reads_back_during_garbage_collection() {
    let set = [&SMALL[..], &["translation.precondition=random"]].concat();
    let drive = drive("tlc-gen4", &set);
    let jobs = jobs(&drive, "rw=randrw bs=4096 iodepth=32 size=64m number_ios=60000");
    let mut simulation = Simulation::with_data(&drive, &jobs, 1).expect("the job fits");
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0]);
}

#[test]
fn any_interface_can_have_a_flash_drive() {
    for name in ["dc-express", "moneta-block", "pss-block", "capi", "cxl", "ramdisk"] {
        let set = [
            "media.preset=tlc-128-layer",
            "media.capacity_mib=4096",
            "media.block_pages=12",
            "media.wear_levelling=none",
            "media.housekeeping_us=0",
            "media.housekeeping_interval_us=0",
            "translation.mapping=page",
            "translation.over_provisioning=0.2",
            "translation.precondition=random",
            "buffer.capacity_kib=16384",
            "controller.read_pipeline_ns=5000",
        ];
        let drive = drive(name, &set);
        for rw in ["randread", "randrw"] {
            let outcome = run(&drive, &format!("rw={rw} bs=4096 iodepth=4 number_ios=2000"));
            assert!(mean_us(&outcome) > 10.0, "{name} {rw}: {}", mean_us(&outcome));
        }
    }
}

#[test]
fn keys_of_absent_drive_parts_are_refused() {
    let nvme = shipped::find("nvme").expect("a shipped drive");
    for (set, found) in [
        ("buffer.capacity_kib=1024", "buffer.capacity_kib is given with translation.mapping \"none\""),
        ("translation.over_provisioning=0.2", "translation.over_provisioning is given"),
        ("controller.cores=2", "no command takes processor time"),
    ] {
        let problems =
            Drive::from_toml(nvme.file, nvme.text, &[KeyOverride::parse(set).unwrap()]).map(drop).unwrap_err();
        assert!(problems.to_string().contains(found), "{set}: {problems}");
    }
    let printed = drive("nvme", &[]).to_toml();
    assert!(Drive::from_toml("printed.toml", &printed, &[]).is_ok(), "a drive that is printed whole has all keys");
}

#[test]
fn cells_capacity_and_used_part_are_independent() {
    let job = "rw=randwrite bs=4096 iodepth=64 number_ios=60000";
    let amplification = |set: &[&str]| {
        let steady = ["translation.precondition=random", "media.block_pages=12", "buffer.capacity_kib=16384"];
        let drive = drive("tlc-gen4", &[&steady[..], set].concat());
        let outcome = run(&drive, job);
        (counter(&outcome, "write_amplification_percent"), outcome.elapsed)
    };
    let by_share = amplification(&["media.capacity_mib=4096", "translation.over_provisioning=0.25"]);
    assert_eq!(by_share, amplification(&["media.capacity_mib=4096", "media.raw_mib=5120"]));
    // Using 4 GiB of a drive of 4.5 GiB causes the same garbage collection as a drive of 4 GiB with as many cells.
    let part = amplification(&["media.capacity_mib=4608", "media.raw_mib=5120", "translation.used=0.8889"]);
    assert!(part.0.abs_diff(by_share.0) * 20 <= by_share.0, "{part:?} of a part, {by_share:?} of all");
}

#[test]
fn large_blocks_are_erased_by_all_their_flash_blocks() {
    let erases = |block_mib: u32| {
        let block = format!("translation.block_mib={block_mib}");
        let state = ["translation.precondition=random", "translation.over_provisioning=0.3", &block];
        let outcome = run(&drive("tlc-gen4", &[&SMALL[..], &state].concat()), "rw=randwrite bs=64k number_ios=20000");
        (counter(&outcome, "blocks"), counter(&outcome, "erases"))
    };
    // A flash block of 12 pages on each of 32 dies has 12 MiB over both planes.
    let (small, large) = (erases(0), erases(96));
    assert!((0.9..1.1).contains(&(small.0 as f64 / large.0 as f64 / 8.0)), "{small:?} {large:?}");
    assert!(large.1 > 0 && small.1 > 3 * large.1, "{small:?} {large:?}");
}

#[test]
fn collecting_many_lines_at_once_stalls_writes_longer() {
    let longest = |collection_lines: u32| {
        let lines = format!("translation.collection_lines={collection_lines}");
        let set = ["media.capacity_mib=4096", "media.block_pages=96", "translation.precondition=random", &lines];
        let outcome = run(&drive("tlc-gen4", &set), "rw=randwrite bs=4k iodepth=64 number_ios=120000");
        outcome.jobs[0].write.completion.percentile(99.99).as_us()
    };
    let (evenly, at_once) = (longest(1), longest(20));
    assert!(at_once > 1.2 * evenly, "{at_once} us, {evenly} us evenly");
    // A block of this drive has 32 lines.
    for lines in [40, 400, 65_536] {
        assert!(longest(lines) > evenly, "{lines} lines");
    }
}
