//! Drives behind switches: closed forms as oracles for what goes through them, and what is refused.

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::KeyOverride;
use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::{Simulation, simulate};
use phaselink_core::workload::{Job, fio};
use phaselink_studies::predict::predict;

fn described(settings: &[&str]) -> Result<Drive, String> {
    let overrides: Vec<KeyOverride> = settings.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    Drive::from_toml("test.toml", "preset = \"dram-card\"\n", &overrides).map_err(|problems| problems.to_string())
}

fn drive(settings: &[&str]) -> Drive {
    described(&[&["host.variation=0", "controller.read_core_ns=100"], settings].concat()).unwrap()
}

fn jobs(drive: &Drive, job: &[(&str, &str)]) -> Vec<Job> {
    fio::job_from_flags(job).unwrap().resolve(&drive.limits(), &Default::default()).unwrap()
}

fn run(settings: &[&str], job: &[(&str, &str)]) -> Outcome {
    let drive = drive(settings);
    simulate(&drive, &jobs(&drive, job), 1).unwrap()
}

/// Mean latency of lone requests in picoseconds.
fn lone_latency_ps(settings: &[&str], rw: &str) -> u64 {
    let outcome = run(settings, &[("rw", rw), ("bs", "4k"), ("number_ios", "100")]);
    (outcome.iops().recip() * 1e12).round() as u64
}

const UPLINK: [&str; 3] = ["switch.drives=8", "switch.uplink_generation=4", "switch.uplink_lanes=4"];

#[test]
fn each_switch_crossing_adds_its_latency_to_a_lone_request() {
    // A read crosses the switch four times (doorbell, fetch, command, data), a write six times (doorbell, fetch,
    // command, request, data, completion).
    for (rw, ways) in [("randread", 4), ("randwrite", 6)] {
        for lanes in ["switch.uplink_lanes=4", "switch.uplink_lanes=16"] {
            for granularity in ["link.granularity=train", "link.granularity=packet"] {
                let without = lone_latency_ps(&[granularity], rw);
                let behind = lone_latency_ps(&[granularity, "switch.drives=8", lanes, "switch.pass_ns=115"], rw);
                assert_eq!(behind - without, ways * 115_000, "{rw}, {lanes}, {granularity}");
            }
        }
    }
}

#[test]
fn closed_form_behind_a_switch_is_exact() {
    for rw in ["randread", "randwrite"] {
        let drive = drive(&UPLINK);
        let job = [("rw", rw), ("bs", "4k"), ("number_ios", "100")];
        let predicted = predict(&drive, &jobs(&drive, &job)).jobs[0].alone_ns().unwrap();
        let found = 1e9 / run(&UPLINK, &job).iops();
        assert!((predicted - found).abs() < 0.001, "{rw}: {predicted} and {found}");
    }
}

/// As many requests as saturate the uplink of four drives.
fn uplink_saturating_job(rw: &'static str, bytes: &'static str) -> [(&'static str, &'static str); 5] {
    [("rw", rw), ("bs", bytes), ("iodepth", "128"), ("numjobs", "4"), ("number_ios", "2000")]
}

#[test]
fn saturated_uplink_runs_at_wire_rate_in_trains_and_packets() {
    for (rw, bytes) in [("randread", "4k"), ("randwrite", "4k"), ("randread", "512")] {
        for granularity in ["link.granularity=train", "link.granularity=packet"] {
            let settings = [&UPLINK[..], &["drives=4", "media.channels=64", granularity]].concat();
            let drive = drive(&settings);
            let job = uplink_saturating_job(rw, bytes);
            let prediction = predict(&drive, &jobs(&drive, &job));
            let limit = prediction.jobs[0].bottleneck();
            assert!(limit.resource.starts_with("uplinks"), "{rw} {bytes}: {}", limit.resource);
            let share = run(&settings, &job).iops() / limit.saturation_iops();
            assert!((0.97..=1.0).contains(&share), "{rw} {bytes}, {granularity}: {share}");
        }
    }
}

#[test]
fn two_switches_double_the_bandwidth_shared_by_their_drives() {
    let job = uplink_saturating_job("randread", "4k");
    let [one, two] = ["switch.drives=4", "switch.drives=2"].map(|behind| {
        let settings = [behind, "switch.uplink_lanes=4", "drives=4", "media.channels=64"];
        let drive = drive(&settings);
        let mut simulation = Simulation::with_data(&drive, &jobs(&drive, &job), 1).unwrap();
        while simulation.step(1 << 20) {}
        assert_eq!(simulation.data_problems(), [""; 0]);
        simulation.outcome()
    });
    let ratio = two.iops() / one.iops();
    assert!((1.95..2.05).contains(&ratio), "{ratio}");
}

#[test]
fn mixed_requests_behind_a_switch_stay_within_prediction() {
    let settings = [&UPLINK[..], &["drives=3", "stack.preset=linux-6", "nvme.interrupts=true"]].concat();
    let job = [("rw", "randrw"), ("bs", "8k"), ("iodepth", "32"), ("numjobs", "4"), ("number_ios", "2000")];
    let drive = drive(&settings);
    let most = predict(&drive, &jobs(&drive, &job)).jobs[0].loaded().most_iops;
    let found = run(&settings, &job).iops();
    assert!(found <= most, "{found} of at most {most}");
}

#[test]
fn invalid_switch_settings_are_refused() {
    for (settings, found) in [
        (&["switch.uplink_lanes=8"][..], "switch.uplink_lanes is given without a switch"),
        (
            &["switch.drives=4", "switch.uplink_generation=3", "switch.uplink_lanes=4"],
            "the uplink of a switch carries 3.9 GB/s",
        ),
        (&["switch.drives=4", "link.duplex=shared"], "link.duplex is \"shared\" with switch.drives 4"),
        (&["switch.drives=4", "root_complex.late_write_ratio=0.1"], "root_complex.late_write_ratio is 0.1"),
        (&["switch.drives=4", "interface=dc-express"], "switch.drives is 4 with DC Express"),
    ] {
        let problems = described(settings).unwrap_err();
        assert!(problems.contains(found), "{problems}");
    }
}

/// Four drives and a peer at one switch.
const PEER: [&str; 4] = ["drives=4", "switch.drives=4", "peer.holds=data", "media.channels=64"];

#[test]
fn lone_request_to_a_peer_equals_one_to_an_equally_fast_host() {
    let memory = ["root_complex.write_ns=50", "root_complex.cache_read_ns=150"];
    let peer = ["peer.memory_write_ns=50", "peer.memory_read_ns=150"];
    for rw in ["randread", "randwrite"] {
        let host = lone_latency_ps(&[&PEER[..2], &memory].concat(), rw);
        let to_peer = lone_latency_ps(&[&PEER[..], &memory, &peer].concat(), rw);
        assert_eq!(host, to_peer, "{rw}");
    }
}

#[test]
fn peer_traffic_bypasses_the_uplink_and_is_limited_by_the_peers_link() {
    for (granularity, payload) in [("train", "64"), ("train", "0"), ("packet", "64")] {
        let granularity = format!("link.granularity={granularity}");
        let payload = format!("peer.payload_bytes={payload}");
        let narrow = ["peer.link_generation=4", "peer.link_lanes=4", &granularity, &payload];
        let settings = [&PEER[..], &narrow].concat();
        let drive = drive(&settings);
        let job = uplink_saturating_job("randread", "4k");
        let prediction = predict(&drive, &jobs(&drive, &job));
        let limit = prediction.jobs[0].bottleneck();
        assert_eq!(limit.resource, "wire to peer", "{payload}");
        let outcome = run(&settings, &job);
        let share = outcome.iops() / limit.saturation_iops();
        assert!((0.97..=1.0).contains(&share), "{payload}, {granularity}: {share}");
        let (_, busy) = outcome.counters.iter().find(|(name, _)| *name == "uplinks_to_host_percent").unwrap();
        assert!(*busy < 10, "{busy} % of the uplink");
    }
}

#[test]
fn writes_fetch_their_data_from_a_peer_device() {
    let drive = drive(&PEER);
    let job = [("rw", "randrw"), ("bs", "4k"), ("size", "1m"), ("iodepth", "16"), ("number_ios", "2000")];
    let mut simulation = Simulation::with_data(&drive, &jobs(&drive, &job), 1).unwrap();
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0]);
}

#[test]
fn peer_not_reachable_by_all_drives_is_refused() {
    for (settings, found) in [
        (&["peer.link_lanes=8"][..], "peer.link_lanes is given with peer.holds \"nothing\""),
        (&["peer.holds=data", "switch.drives=2", "drives=4"], "switch.drives is 2 with 4 drives and a peer"),
        (&["peer.holds=data", "switch.drives=1", "root_complex.iommu=true"], "root_complex.iommu is true with a peer"),
    ] {
        let problems = described(settings).unwrap_err();
        assert!(problems.contains(found), "{problems}");
    }
}

/// Drives that a peer asks by itself.
const ASKING: [&str; 4] = ["peer.holds=all", "host.preset=gpu-h100", "stack.preset=gpu-queues", "media.channels=64"];

#[test]
fn peer_initiator_needs_no_host_and_reaches_its_drives_limit() {
    let settings = [&ASKING[..], &["drives=2", "switch.drives=2", "controller.read_core_ns=1000"]].concat();
    let job = [("rw", "randread"), ("bs", "512"), ("numjobs", "32"), ("iodepth", "64"), ("number_ios", "500")];
    let outcome = run(&settings, &job);
    let counter = |wanted: &str| outcome.counters.iter().find(|(name, _)| *name == wanted).unwrap().1;
    assert_eq!((counter("uplinks_to_host_percent"), counter("uplinks_to_drives_percent")), (0, 0));
    let share = outcome.iops() / 2e6;
    assert!((0.95..=1.0).contains(&share), "{share}");
}

#[test]
fn single_doorbell_for_all_drives_beats_separate_doorbells() {
    let settings = [&ASKING[..], &["switch.drives=1"]].concat();
    let job = [("rw", "randread"), ("bs", "512"), ("iodepth", "128"), ("number_ios", "4000")];
    let together = run(&settings, &job).iops();
    let each = run(&settings, &[&job[..], &[("iodepth_batch", "1")]].concat()).iops();
    // Each turn takes the lock, a ticket and a doorbell: 450 + 4 + 20 = 474 ns.
    let turns = each / (1e9 / 474.0);
    assert!((0.9..=1.0).contains(&turns), "{turns}");
    assert!(together > 2.0 * each, "{together} and {each}");
}

#[test]
fn peer_initiator_takes_no_interrupts() {
    let problems = described(&["peer.holds=all", "switch.drives=1", "nvme.interrupts=true"]).unwrap_err();
    assert!(problems.contains("peer.holds is \"all\" with an interface that interrupts"), "{problems}");
}
