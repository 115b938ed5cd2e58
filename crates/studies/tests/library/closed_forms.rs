//! Closed forms beside runs: what is predicted of locks, shared devices, flash, keys, zones and protection holds.

use std::ops::RangeInclusive;

use crate::common::{self, assert_exact_prediction, drive, figures, jobs, reads, run};
use phaselink_core::closed_form::Certainty;
use phaselink_core::config::Mapping;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::ledger::{Outcome, Stage};
use phaselink_studies::predict::{JobPrediction, predict};

const ALL: [&str; 7] = ["tlc-gen3", "tlc-gen4", "tlc-gen5", "xl-flash", "optane-p4800x", "optane-p5800x", "dram-card"];

/// Checks that a job is limited by `bottleneck` and reaches one of `shares` of its bound. Returns its prediction and outcome.
pub(crate) fn limited(
    drive: &Drive,
    job: &str,
    bottleneck: &str,
    shares: RangeInclusive<f64>,
) -> (JobPrediction, Outcome) {
    let predicted = predict(drive, &jobs(drive, job)).jobs.remove(0);
    assert_eq!(predicted.bottleneck().resource, bottleneck, "{} {job}", drive.name);
    let outcome = run(drive, job);
    let (found, most) = (outcome.iops(), predicted.loaded().most_iops);
    assert!(shares.contains(&(found / most)), "{} {job}: {found} of {most}", drive.name);
    (predicted, outcome)
}

#[test]
fn closed_form_includes_the_kernel_worker() {
    for stack in ["no-op", "no-scheduler", "xfs", "paging"] {
        let stack = format!("stack.preset=linux-2.6-{stack}");
        let set = ["host.preset=nehalem-2x4", "nvme.queue_pairs=8", "media.preset=dram", &stack];
        let drive = drive("nvme", &set);
        for job in ["bs=4k number_ios=5", "rw=randwrite bs=4k number_ios=5"] {
            let predicted = predict(&drive, &jobs(&drive, job)).jobs[0].latencies[0].clone().unwrap();
            let found = run(&drive, job).jobs[0].directions().next().unwrap().1.total.min();
            assert_eq!(predicted.stages.total(), found, "{stack} {job}");
        }
    }
}

#[test]
fn throughput_of_several_hosts_stays_within_its_closed_form() {
    for rw in ["randread", "randwrite"] {
        let set = [
            "link.preset=cxl-3-x8",
            "media.preset=dram",
            "media.channels=64",
            "cxl.unit_bytes=64",
            "cxl.buffer_units=4096",
            "host.cores=8",
            "switch.hosts=2",
            "link.lanes=2",
        ];
        let drive = drive("cxl-pcm-next", &set);
        let job = format!("rw={rw} bs=64 iodepth=16 numjobs=8 number_ios=3000");
        let prediction = predict(&drive, &jobs(&drive, &job));
        let most = prediction.jobs[0].loaded().most_iops;
        let share = run(&drive, &job).iops() / most;
        assert!((0.9..=1.001).contains(&share), "{rw}: {share}");
    }
}

#[test]
fn no_request_or_run_is_faster_than_its_closed_form() {
    for name in ALL {
        let drive = drive(name, &[]);
        for rw in ["randread", "randwrite", "read", "write", "randrw"] {
            for (bytes, depth, threads) in [(4096, 1, 1), (512, 8, 1), (16_384, 16, 4), (131_072, 8, 2)] {
                let job = format!("rw={rw} bs={bytes} iodepth={depth} numjobs={threads} number_ios=300");
                let predicted = predict(&drive, &jobs(&drive, &job)).jobs.remove(0);
                let outcome = run(&drive, &job);
                // In a short run, the share of the shorter kind of requests may exceed its average.
                let most = predicted.loaded().most_iops * if rw == "randrw" { 1.05 } else { 1.001 };
                assert!(outcome.iops() <= most, "{name} {job}: {} of {most}", outcome.iops());
                for ((_, figures), latency) in outcome.jobs[0].directions().zip(&predicted.latencies) {
                    let least = latency.as_ref().expect("a closed form").least;
                    assert!(figures.total.min() >= least, "{name} {job}: {} < {least}", figures.total.min());
                }
            }
        }
    }
}

#[test]
fn closed_form_of_a_single_page_type_flash_read_is_exact() {
    let drive = drive("xl-flash", &[]);
    let predicted = predict(&drive, &jobs(&drive, "bs=4096 number_ios=50")).jobs.remove(0);
    let outcome = run(&drive, "bs=4096 number_ios=50");
    let latency = predicted.latencies[0].as_ref().expect("a closed form");
    assert_eq!(latency.certainty, Certainty::Exact);
    assert_eq!(
        (reads(&outcome).total.min(), reads(&outcome).total.max()),
        (latency.stages.total(), latency.stages.total())
    );
    assert_eq!(reads(&outcome).stages.get(Stage::Firmware), latency.stages.get(Stage::Firmware) * 50);
}

/// Rates of random writes of 4 KiB in the steady state, with the write buffer full: names of the drives, predicted and
/// simulated requests per second.
fn steady_random_write_rates() -> Vec<(&'static str, f64, f64)> {
    let is_mapped = |name: &&str| Drive::shipped(name).is_some_and(|drive| drive.translation.mapping == Mapping::Page);
    let job = "rw=randwrite bs=4k iodepth=64 numjobs=4 ramp_time=100ms number_ios=10000";
    let rates = |name| {
        let drive = drive(name, &["translation.precondition=random"]);
        let predicted = predict(&drive, &jobs(&drive, job)).jobs.remove(0).loaded().most_iops;
        (name, predicted, run(&drive, job).iops())
    };
    shipped::names().filter(is_mapped).map(rates).collect()
}

#[test]
fn steady_random_write_rates_of_flash_drives_are_predicted_within_25_percent() {
    let rates = steady_random_write_rates();
    assert!(
        ["tlc-gen3", "tlc-gen4", "tlc-gen5", "xl-flash"]
            .iter()
            .all(|name| rates.iter().any(|(known, ..)| known == name))
    );
    for (name, predicted, simulated) in rates {
        println!("{name:10} {predicted:10.0} {simulated:10.0} {:6.3}", predicted / simulated);
        assert!(
            (0.98..1.25).contains(&(predicted / simulated)),
            "{name}: {predicted} predicted, {simulated} simulated"
        );
    }
}

#[test]
fn closed_form_of_a_lone_value_is_exact_without_a_media_index() {
    let latency = |drive: &Drive, job: &str| {
        let predicted = predict(drive, &jobs(drive, job)).jobs.remove(0).latencies.remove(0);
        predicted.expect("NVMe has a closed form")
    };
    for (direction, bytes, ios) in [("randread", 4096, 100), ("randread", 16_384, 100), ("randwrite", 4096, 1)] {
        let job = format!("rw={direction} bs={bytes} size=16m iodepth=1 number_ios={ios}");
        let limits = ["key_value.value_max_kib=64", "key_value.keys_max=100000"];
        let drive = common::drive("nvme-polled", &limits);
        assert_exact_prediction(direction, &latency(&drive, &job), &run(&drive, &job));
        let paged = common::drive("nvme-polled", &[&limits[..], &["key_value.index_cache_kib=64"]].concat());
        let (predicted, found) = (latency(&paged, &job), run(&paged, &job));
        assert!(figures(&found).total.mean() > predicted.stages.total(), "{direction}");
        assert!(matches!(predicted.certainty, Certainty::AtLeast(_)), "{direction}");
    }
}

#[test]
fn closed_form_equals_the_published_nvm_model() {
    for (name, job) in [("nvm-model-dram", "bs=64"), ("nvm-model-block", "bs=4k"), ("nvm-model-block", "bs=64k")] {
        for op in ["randread", "randwrite"] {
            let job = format!("rw={op} {job} number_ios=20");
            let drive = drive(name, &[]);
            let outcome = run(&drive, &job);
            let simulated = outcome.elapsed.as_ns() / outcome.ios() as f64;
            let predicted = predict(&drive, &jobs(&drive, &job)).jobs[0].alone_ns().unwrap();
            assert!(common::close(predicted, simulated, 1e-9), "{name}, {job}: {predicted} and {simulated}");
        }
    }
}

#[test]
fn sector_writes_are_limited_by_the_banks_of_their_pages() {
    let drive = drive("pss", &["media.wear_levelling=none"]);
    let job = "rw=randwrite bs=512 iodepth=32 ramp_time=400ms runtime=100ms";
    let bound = predict(&drive, &jobs(&drive, job)).jobs[0].demands[0].clone();
    let found = run(&drive, job).iops();
    assert!(found <= bound.saturation_iops() && bound.saturation_iops() < 1.4 * found, "{found} of {bound:?}");
}

#[test]
fn closed_form_of_a_protected_read_is_exact_and_of_a_write_a_bound() {
    for (direction, ios) in [("randread", 100), ("randwrite", 1)] {
        let job = format!("rw={direction} bs=4096 size=16m iodepth=1 number_ios={ios}");
        let drive = drive("nvme-polled", &["nvme.protection=type1"]);
        let predicted = predict(&drive, &jobs(&drive, &job)).jobs.remove(0).latencies.remove(0);
        let predicted = predicted.expect("NVMe has a closed form");
        let outcome = run(&drive, &job);
        if direction == "randread" {
            assert_exact_prediction(direction, &predicted, &outcome);
        } else {
            assert!(matches!(predicted.certainty, Certainty::AtLeast(_)));
            assert!(figures(&outcome).total.mean() >= predicted.stages.total());
        }
    }
}

#[test]
fn closed_form_never_predicts_zones_on_separate_dies_too_slow() {
    for threads in [1, 2, 3, 4, 8] {
        let drive = drive("tlc-gen4", &["media.capacity_mib=61440", "zones.size_mib=384", "zones.dies=8"]);
        let job = format!("rw=write bs=128k iodepth=8 time_based=1 runtime=1 numjobs={threads}");
        limited(&drive, &job, "flash dies", 0.9..=1.001);
    }
}

/// Flash drive of tlc-gen5's kind whose write buffer takes this long for a command, with so many servers for them, and
/// room for all writes of a short run.
fn flash_with_buffer_servers(command_ns: u32, servers: u32, set: &[&str]) -> Drive {
    let keys = [format!("buffer.command_ns={command_ns}"), format!("buffer.command_servers={servers}")];
    let fixed = [
        "media.capacity_mib=61440",
        "media.block_pages=384",
        "buffer.capacity_kib=1048576",
        "controller.write_core_ns=100",
    ];
    let keys = keys.iter().map(String::as_str);
    drive("tlc-gen5", &fixed.into_iter().chain(keys).chain(set.iter().copied()).collect::<Vec<_>>())
}

const WRITE_COMMANDS: &str = "write buffer commands";

#[test]
fn write_rate_is_at_most_buffer_servers_over_service_time() {
    for (command_ns, servers, bytes) in [(4_000, 1, 512), (4_000, 2, 4096), (20_000, 8, 4096)] {
        let job = format!("rw=randwrite bs={bytes} iodepth=64 numjobs=4 number_ios=5000 burst=1");
        let (predicted, _) =
            limited(&flash_with_buffer_servers(command_ns, servers, &[]), &job, WRITE_COMMANDS, 0.97..=1.001);
        let most = f64::from(servers) / f64::from(command_ns) * 1e9;
        assert!((predicted.loaded().most_iops / most - 1.0).abs() < 1e-9, "{command_ns} {servers}: {most}");
    }
    let job = "rw=randwrite bs=512 iodepth=64 numjobs=4 number_ios=5000 burst=1";
    let merging = flash_with_buffer_servers(4_000, 1, &["buffer.merge_ns=6000"]);
    let (predicted, _) = limited(&merging, job, WRITE_COMMANDS, 0.97..=1.001);
    assert!((predicted.loaded().most_iops - 1e5).abs() < 1.0, "4 us, and 6 us for the unit that is covered in part");
}

#[test]
fn appends_writes_and_zones_have_separate_closed_form_limits() {
    let zones = ["zones.size_mib=384", "zones.append_ns=2000", "zones.command_ns=10000"];
    let job = |more: &str| format!("rw=write bs=4k number_ios=5000 burst=1 {more}");
    let drive = flash_with_buffer_servers(4_000, 1, &zones);
    let (one, _) = limited(&drive, &job("iodepth=16"), "zones being written", 0.97..=1.001);
    assert!((one.loaded().most_iops - 1e5).abs() < 1.0, "one command of a zone in 10 us");
    let (four, _) = limited(&drive, &job("iodepth=16 numjobs=4"), WRITE_COMMANDS, 0.97..=1.001);
    assert!((four.loaded().most_iops - 1e9 / 6e3).abs() < 1.0, "a Zone Append takes 2 us more than 4 us");
    let writes = job("iodepth=16 numjobs=16 zone_append=0");
    let (writes, _) = limited(&drive, &writes, WRITE_COMMANDS, 0.97..=1.001);
    assert!((writes.loaded().most_iops - 2.5e5).abs() < 1.0, "a Write takes 4 us");
}

#[test]
fn partial_zone_units_move_whole_units_in_buffer_memory() {
    let drive = flash_with_buffer_servers(0, 1, &["zones.size_mib=384", "zones.dies=8", "buffer.page_ns=4000"]);
    let rate = |bytes: u32| {
        let job = format!("rw=write bs={bytes} iodepth=64 number_ios=6400 burst=1");
        limited(&drive, &job, "write buffer", 0.97..=1.001).1.iops()
    };
    let (part, whole) = (rate(512), rate(4096));
    // Of eight parts of a unit, the first only writes the unit, and the other seven read and write it: 15 accesses
    // instead of 8.
    assert!((part * 15.0 / 8.0 / whole - 1.0).abs() < 0.02, "{part} and {whole} a second");
}

#[test]
fn flushes_through_a_ring_stay_within_the_throughput_bound() {
    let drive = drive("tlc-gen4", &["host.preset=zen4-9654p", "stack.preset=linux-6", "nvme.interrupts=true"]);
    let job = "rw=randwrite number_ios=400 iodepth=16 fsync=16 ioengine=io_uring";
    let most = predict(&drive, &jobs(&drive, job)).jobs[0].loaded().most_iops;
    let found = run(&drive, job).iops();
    assert!(found <= most, "{found} of {most}");
}

/// The closed form of a lone remote request is exact: polled and sleeping, with a target that polls, that sleeps, and that polls too
/// shortly, for data in the capsule and data that the target asks for.
#[test]
fn closed_form_of_a_lone_remote_request_is_exact() {
    let host = ["stack.preset=linux-6", "host.preset=cascade-lake-4210r", "nvme.interrupts=true", "host.variation=0"];
    let one_kind = ["media.read_centre_ns=45000", "media.read_upper_ns=45000", "media.read_ns=45000"];
    for preset in ["nvme-tcp-kernel", "nvme-tcp-spdk", "rdma"] {
        for more in [
            &["fabric.target_poll_us=0"][..],
            &["fabric.target_poll_us=1000000"],
            &["fabric.switch_ns=400", "fabric.mtu_bytes=9000"],
        ] {
            let network = format!("fabric.preset={preset}");
            let set: Vec<&str> = host.iter().chain(&one_kind).chain(more).copied().chain([network.as_str()]).collect();
            let drive = drive("tlc-gen4", &set);
            for job in [
                "ioengine=io_uring",
                "ioengine=io_uring hipri=1",
                "ioengine=io_uring bs=512",
                "ioengine=io_uring rw=randwrite burst=1",
            ] {
                let job = format!("{job} number_ios=20");
                let jobs = jobs(&drive, &job);
                let prediction = predict(&drive, &jobs);
                let latency = prediction.jobs[0].latencies[0].as_ref().expect("a closed form");
                let outcome = run(&drive, &job);
                let total = &figures(&outcome).total;
                assert_eq!(latency.stages.total(), total.min(), "{preset} {more:?} {job}");
                assert!(latency.least <= total.min());
            }
        }
    }
}

#[test]
fn remote_throughput_stays_within_link_and_target_core_bounds() {
    let host =
        ["stack.preset=linux-6", "host.preset=cascade-lake-4210r", "nvme.interrupts=true", "nvme.queue_entries=1024"];
    for (more, job, limit) in [
        (&["fabric.target_command_ns=12000"][..], "iodepth=64 hipri=1", "target cores"),
        (&["fabric.link_gbit_per_s=4"], "bs=64k iodepth=64 numjobs=2", "network to initiators"),
        (&[], "iodepth=128 hipri=1", "cores"),
    ] {
        let set: Vec<&str> = host.iter().chain(more).copied().chain(["fabric.preset=nvme-tcp-kernel"]).collect();
        let drive = drive("tlc-gen4", &set);
        let job = format!("{job} ioengine=io_uring number_ios=3000");
        let prediction = predict(&drive, &jobs(&drive, &job));
        let job_prediction = &prediction.jobs[0];
        assert!(job_prediction.demands.iter().any(|demand| demand.resource == "target cores"));
        let (most, iops) = (job_prediction.loaded().most_iops, run(&drive, &job).iops());
        assert!(iops <= most * 1.001, "{more:?}: {iops} of {most}");
        if limit != "cores" {
            assert_eq!(job_prediction.bottleneck().resource, limit);
            assert!(iops > 0.93 * most, "{more:?}: {iops} of {most}");
        }
    }
}
