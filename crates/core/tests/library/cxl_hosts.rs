//! Hosts that share one CXL device through a switch: what a message takes longer, how the device is divided, and what is refused.

use crate::common::{close, counter, drive, figures, jobs, run};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::KeyOverride;
use phaselink_core::ledger::Outcome;
use phaselink_core::link::rate::WireRate;
use phaselink_core::simulation::Simulation;

/// DRAM that is faster than the link of the device, messages in flits of 256 bytes.
const FAST: [&str; 5] =
    ["link.preset=cxl-3-x8", "media.preset=dram", "media.channels=64", "cxl.unit_bytes=64", "cxl.buffer_units=4096"];

fn shared(hosts: &str, more: &[&str]) -> Drive {
    drive("cxl-pcm-next", &[&FAST[..], &["host.cores=8", hosts], more].concat())
}

fn lone_ps(drive: &Drive, rw: &str) -> u64 {
    let outcome = run(drive, &format!("rw={rw} bs=64 number_ios=50"));
    let total = &figures(&outcome).total;
    assert_eq!(total.min(), total.max(), "{rw}");
    total.max().as_ps()
}

#[test]
fn switch_adds_crossings_and_port_identifiers_to_a_lone_access() {
    for granularity in ["link.granularity=train", "link.granularity=packet"] {
        for (rw, down, up) in [("randread", 17, 74), ("randwrite", 85, 10)] {
            let alone = shared("switch.hosts=0", &[granularity]);
            let rate = WireRate::new(&alone.link);
            let longer = |bytes| (rate.time(bytes + 3) - rate.time(bytes)).as_ps();
            let found = lone_ps(&shared("switch.hosts=2", &[granularity]), rw);
            let expected = lone_ps(&alone, rw) + 2 * 115_000 + longer(down) + longer(up);
            assert_eq!(found, expected, "{rw}, {granularity}");
        }
    }
}

#[test]
fn hosts_at_equal_load_share_a_full_link_equally() {
    for granularity in ["link.granularity=train", "link.granularity=packet"] {
        for rw in ["randread", "randwrite", "randrw"] {
            for hosts in [2, 3, 4] {
                let drive = shared(&format!("switch.hosts={hosts}"), &["link.lanes=2", granularity]);
                let job = format!("rw={rw} bs=64 iodepth=16 numjobs={} runtime=100us time_based=1", 4 * hosts);
                let outcome = run(&drive, &job);
                let least = counter(&outcome, "host_lines_least_percent");
                assert!(least >= 80 / hosts, "{rw} {granularity}, {hosts} hosts: {least} %");
                let busy =
                    ["to_hosts", "to_device"].map(|way| counter(&outcome, &format!("device_link_{way}_percent")));
                assert!(busy.into_iter().max() >= Some(90), "{rw} {granularity}, {hosts} hosts: {busy:?}");
            }
        }
    }
}

#[test]
fn two_hosts_each_get_at_least_40_percent_of_a_cached_drive() {
    for region in ["size=8m", "size=64m"] {
        for rw in ["randread", "randwrite", "randrw"] {
            let set = ["cxl.cache_mib=16", "cxl.cache_start=dirty", "switch.hosts=2", "host.cores=4"];
            let drive = drive("cxl-flash", &set);
            let job = format!("rw={rw} bs=64 iodepth=16 numjobs=8 {region} runtime=500us time_based=1");
            let least = counter(&run(&drive, &job), "host_lines_least_percent");
            assert!(least >= 40, "{rw} {region}: {least} %");
        }
    }
}

#[test]
fn single_core_host_is_not_starved_by_a_larger_one() {
    // Threads alternate between the hosts, so each host runs eight of the sixteen threads.
    let drive = shared("switch.hosts=2", &["link.lanes=2"]);
    let alone = figures(&run(&drive, "bs=64 number_ios=200")).total.mean_ns();
    let beside = run(&drive, "bs=64 iodepth=16 numjobs=16 runtime=100us time_based=1");
    let loaded = figures(&beside).total.mean_ns();
    assert!(loaded > 2.0 * alone, "{loaded} and {alone}: the link is full");
    assert!(counter(&beside, "host_lines_most_percent") <= 52);
}

#[test]
fn host_limited_throughput_multiplies_with_hosts() {
    let job = |threads| format!("bs=64 iodepth=4 numjobs={threads} number_ios=2000");
    let iops = |hosts: &str, threads| run(&shared(hosts, &["link.lanes=16", "host.cores=1"]), &job(threads)).iops();
    let (one, three) = (iops("switch.hosts=1", 1), iops("switch.hosts=3", 3));
    assert!(close(three, 3.0 * one, 0.03), "{three} and {one}");
}

#[test]
fn hosts_read_each_others_writes() {
    let drive = shared("switch.hosts=2", &[]);
    let job = "rw=randrw bs=512 size=64k iodepth=4 numjobs=4 number_ios=400";
    let mut simulation = Simulation::with_data(&drive, &jobs(&drive, job), 1).unwrap();
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0]);
    let outcome: Outcome = simulation.outcome();
    let verified = counter(&outcome, "verified_reads");
    assert!(verified > 200, "{verified}");
}

#[test]
fn invalid_settings_of_several_hosts_are_refused() {
    for (preset, settings, found) in [
        ("nvme", &["switch.hosts=2"][..], "switch.hosts is 2 with NVMe"),
        ("cxl", &["switch.hosts=2", "switch.uplink_lanes=8"], "keys of switches in front of drives"),
        ("cxl", &["switch.route_bytes=8"], "switch.route_bytes is given without a switch, where it has no effect"),
    ] {
        let overrides: Vec<KeyOverride> = settings.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
        let text = format!("preset = \"{preset}\"\n");
        let problems = Drive::from_toml("test.toml", &text, &overrides).unwrap_err().to_string();
        assert!(problems.contains(found), "{problems}");
    }
}
