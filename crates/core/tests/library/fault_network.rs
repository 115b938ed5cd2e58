//! Faults of network connections in simulated runs: what a request waits for, and what is sent again.

use crate::common::{counter, drive, jobs, reads, run};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{Outcome, Stage};
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;

/// Drive behind NVMe/TCP with digests, whose target polls for longer than any fault lasts.
fn remote_drive_with_digests(faults: &str) -> Drive {
    let set = [
        "fabric.transport=tcp",
        "fabric.header_digest=true",
        "fabric.data_digest=true",
        "fabric.target_poll_us=100000000",
        "nvme.queue_entries=64",
        &format!("fault_lines=[{faults}]"),
    ];
    drive("nvme", &set)
}

const READS: &str = "bs=4k number_ios=100";

/// Returns the additional latency of the slowest read.
fn slowest_read_extra_latency(outcome: &Outcome) -> Span {
    let total = &reads(outcome).total;
    total.max() - total.min()
}

fn counts(outcome: &Outcome) -> [u64; 3] {
    ["network_reconnects", "network_requeued_requests", "network_retries"].map(|name| counter(outcome, name))
}

/// Returns the time from the command capsule of a lone read to the end of its response.
fn lone_read_round_trip() -> Span {
    use Stage::*;
    let outcome = run(&remote_drive_with_digests(""), "bs=4k number_ios=1");
    let to_target = [Capsule, TargetWake, TargetWait, Target, Doorbell, PollWait, Fetch, Parse, RequestQueue];
    let in_drive = [FirmwareWait, Firmware, MediaWait, Media, DeviceCache, Ring, Dma, Claim];
    let back = [LinkWait, Transfer, Propagation, Settle, CompletionEntry, Response, NetworkWait];
    let stages = to_target.into_iter().chain(in_drive).chain(back);
    stages.map(|stage| reads(&outcome).stages.get(stage)).sum()
}

#[test]
fn request_on_a_stalled_connection_waits_for_its_end() {
    let outcome = run(&remote_drive_with_digests(r#""at=request:50 for=3ms connection-stall""#), READS);
    assert_eq!(
        (slowest_read_extra_latency(&outcome), counter(&outcome, "fault_connection_stalls")),
        (Span::from_us(3_000), 1)
    );
    assert_eq!((outcome.ios(), outcome.failed(), counts(&outcome)), (100, 0, [0, 0, 0]));
}

#[test]
fn stall_delays_only_its_connection() {
    let total = |faults: &str| {
        let outcome = run(&remote_drive_with_digests(faults), "bs=4k number_ios=200 iodepth=4 numjobs=2");
        let latencies = &reads(&outcome).total;
        (latencies.mean_ns() * 400.0 / 1e6, latencies.max(), outcome)
    };
    let (undisturbed_ms, ..) = total("");
    let (total_ms, slowest, outcome) = total(r#""at=request:50 for=3ms connection-stall thread=2""#);
    assert!(slowest > Span::from_us(2_990), "{slowest}");
    // Up to four requests of the stalled thread wait for 3 ms each, and those of the other thread do not wait.
    let more_ms = total_ms - undisturbed_ms;
    assert!((6.0..12.5).contains(&more_ms), "{more_ms}");
    let stalls = counter(&outcome, "fault_connection_stalls");
    assert!((1..=4).contains(&stalls) && outcome.failed() == 0, "{stalls}");
}

#[test]
fn lost_connection_resubmits_its_requests_after_reconnecting() {
    let lone = run(&remote_drive_with_digests(r#""at=request:50 connection-reset reconnect=3ms""#), READS);
    assert_eq!((slowest_read_extra_latency(&lone), counts(&lone)), (Span::from_us(3_000), [1, 0, 0]));
    let deep = run(
        &remote_drive_with_digests(r#""at=request:50 connection-reset reconnect=3ms""#),
        "bs=4k number_ios=100 iodepth=4",
    );
    let [reconnects, requeued, retries] = counts(&deep);
    assert_eq!((deep.ios(), deep.failed(), reconnects, retries), (100, 0, 1, 0));
    assert!((1..=3).contains(&requeued), "{requeued} of the other three had been sent");
    assert_eq!(counter(&deep, "fault_connection_resets"), 1);
}

#[test]
fn silent_target_costs_timeout_and_reconnect() {
    let line = r#""at=request:50 half-open timeout=2ms reconnect=3ms""#;
    let outcome = run(&remote_drive_with_digests(line), READS);
    assert_eq!((slowest_read_extra_latency(&outcome), counts(&outcome)), (Span::from_us(5_000), [1, 0, 0]));
    assert_eq!((outcome.ios(), counter(&outcome, "fault_half_open_connections")), (100, 1));
}

#[test]
fn wrong_data_digest_costs_one_more_round_trip() {
    let outcome = run(&remote_drive_with_digests(r#""at=request:50 digest-error""#), READS);
    assert_eq!((slowest_read_extra_latency(&outcome), counts(&outcome)), (lone_read_round_trip(), [0, 0, 1]));
    assert_eq!((outcome.ios(), counter(&outcome, "fault_digest_errors")), (100, 1));
}

#[test]
fn permanently_wrong_digest_fails_after_five_retries() {
    for rw in ["randread", "randwrite"] {
        let job = format!("bs=4k number_ios=20 rw={rw}");
        let outcome = run(&remote_drive_with_digests(r#""digest-error""#), &job);
        assert_eq!((outcome.ios(), outcome.failed(), outcome.jobs[0].first_error), (0, 20, Some(5)), "{rw}");
        assert_eq!((counts(&outcome), counter(&outcome, "fault_digest_errors")), ([0, 0, 100], 120), "{rw}");
    }
}

#[test]
fn wrong_header_digest_drops_the_connection() {
    let outcome = run(&remote_drive_with_digests(r#""at=request:50 digest-error digest=header reconnect=3ms""#), READS);
    assert_eq!(
        (slowest_read_extra_latency(&outcome), counts(&outcome)),
        (lone_read_round_trip() + Span::from_us(3_000), [1, 1, 0])
    );
}

#[test]
fn resubmitted_requests_keep_data_correct() {
    for fault in [
        "for=200us connection-stall",
        "connection-reset reconnect=200us",
        "digest-error",
        "half-open timeout=50us reconnect=200us",
    ] {
        let drive = remote_drive_with_digests(&format!(r#""{fault} every=37""#));
        let job = jobs(&drive, "rw=randrw bs=16k number_ios=1000 iodepth=8 size=1m");
        let mut simulation = Simulation::with_data(&drive, &job, 1).unwrap();
        while simulation.step(1 << 20) {}
        assert_eq!(simulation.data_problems(), [""; 0], "{fault}");
        let outcome = simulation.outcome();
        assert_eq!((outcome.finished, outcome.failed()), (true, 0), "{fault}");
    }
}

#[test]
fn delayed_request_crosses_the_network_once() {
    let outcome = run(&remote_drive_with_digests(r#""at=request:50 delay delay=700us""#), READS);
    assert_eq!(slowest_read_extra_latency(&outcome), Span::from_us(700));
}

#[test]
fn connection_faults_need_a_network_and_digests() {
    let local = drive("nvme", &[r#"fault_lines=["connection-reset"]"#]);
    let job = phaselink_core::workload::fio::job_from_flags(&[("rw", "randread")]).unwrap();
    let problem = job.resolve(&local.limits(), &Default::default()).unwrap_err().to_string();
    assert!(problem.contains("connection-reset on a drive in its host"), "{problem}");
    let shipped = phaselink_core::drive_file::shipped::find("nvme").unwrap();
    let set = ["fabric.transport=tcp", r#"fault_lines=["digest-error"]"#];
    let set = set.map(|text| phaselink_core::drive_file::KeyOverride::parse(text).unwrap());
    let problem = Drive::from_toml(shipped.file, shipped.text, &set).unwrap_err().to_string();
    assert!(problem.contains("fabric.data_digest"), "{problem}");
}
