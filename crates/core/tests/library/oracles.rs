//! Closed forms that the simulation must meet: unloaded latency to the picosecond, saturated throughput, Little's law.

use crate::common::{close, counter, drive, ns, reads, run};
use crate::lone_requests::wire;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Stage;
use phaselink_core::time::Span;

/// Media access up to the first packet of a read, and the wire time of all its packets.
fn media_and_wire_time(drive: &Drive, bytes: u32) -> Span {
    let first = bytes.min(drive.link.max_payload_bytes);
    let fill = ns(f64::from(first) / drive.media.bus_bytes_per_ns);
    let packets = bytes.div_ceil(drive.link.max_payload_bytes);
    let last = bytes - (packets - 1) * drive.link.max_payload_bytes;
    let whole = wire(drive, drive.link.max_payload_bytes + 24) * u64::from(packets - 1);
    drive.media.command + drive.media.read + fill + whole + wire(drive, last + 24)
}

#[test]
fn lone_nvme_read_equals_the_sum_of_its_parts() {
    for bytes in [512, 4096, 131_072] {
        let drive = drive("nvme-polled", &[]);
        let (link, host, root) = (&drive.link, &drive.host, &drive.root_complex);
        let command = wire(&drive, 28) + link.one_way;
        let fetch = wire(&drive, 24) + link.one_way + root.cache_read + wire(&drive, 84) + link.one_way;
        let software: Span = drive.stack.stages.iter().map(|stage| stage.submit + stage.complete).sum();
        let expected = software
            + host.mmio_write
            + command
            + fetch
            + drive.nvme.parse
            + media_and_wire_time(&drive, bytes)
            + link.one_way
            + root.write
            + wire(&drive, 40)
            + host.poll
            + host.mmio_write;
        let outcome = run(&drive, &format!("bs={bytes} number_ios=100"));
        // A read of more than two pages also reads a page list from host memory, which may take longer than the media.
        let list = if bytes > 8192 {
            reads(&outcome).stages.get(phaselink_core::ledger::Stage::HostRead) / 100
        } else {
            Span::ZERO
        };
        assert_eq!(reads(&outcome).total.min(), expected + list, "{bytes} bytes");
        assert_eq!(reads(&outcome).total.max(), expected + list, "{bytes} bytes");
    }
}

#[test]
fn lone_dc_express_read_equals_its_parts_and_a_queue_read_wait() {
    for bytes in [8_u32, 512, 4096] {
        let drive = drive("dc-express", &["link.dllps=false"]);
        let (link, host, root) = (&drive.link, &drive.host, &drive.root_complex);
        let chunks = u64::from(bytes.div_ceil(128));
        let queue_read = root.cache_read + wire(&drive, 84) + link.one_way;
        // At 4 KiB, the anticipatory queue read is sent while the data is on the wire, and delays it.
        let cut = if bytes == 4096 { wire(&drive, 24) } else { Span::ZERO };
        let expected = drive.dc_express.tag * (2 * chunks)
            + queue_read
            + drive.dc_express.parse
            + media_and_wire_time(&drive, bytes)
            + cut
            + link.one_way
            + root.write
            + host.poll;
        let outcome = run(&drive, &format!("bs={bytes} number_ios=3000 ramp_time=1ms"));
        let polled = reads(&outcome).stages.get(phaselink_core::ledger::Stage::PollWait);

        let mean = reads(&outcome).total.mean_ns() - polled.as_ns() / reads(&outcome).ios as f64;
        assert!((mean - expected.as_ns()).abs() < 1e-3, "{bytes} bytes: {mean} against {expected}");
    }
}

#[test]
fn transfers_are_exact_without_skip_ordered_sets() {
    let outcome = run(&drive("dc-express", &["link.skip_ordered_sets=false"]), "bs=4k number_ios=100");
    let transfer = reads(&outcome).stages.get(phaselink_core::ledger::Stage::Transfer);
    assert_eq!(transfer, Span::from_ns(2432) * 100);
}

#[test]
fn saturated_link_carries_its_wire_rate() {
    // Memory and host are so fast that they are never the bottleneck.
    let fast = ["media.preset=dram", "link.dllps=false", "host.mmio_write_ns=0", "stack.preset=user-space"];
    for (name, job) in [
        ("nvme-polled", "bs=4k iodepth=64 number_ios=20000"),
        ("nvme-polled", "bs=128k iodepth=8 number_ios=2000"),
        ("dc-express", "bs=4k iodepth=32 number_ios=20000"),
    ] {
        for granularity in ["train", "packet"] {
            let granularity = format!("link.granularity={granularity}");
            let set: Vec<&str> = fast.iter().copied().chain([granularity.as_str()]).collect();
            let outcome = run(&drive(name, &set), job);
            let share = outcome.upstream.busy_share(outcome.elapsed);
            assert!(share > 0.999, "{name}, {job}, {granularity}: busy for {share}");
            let data = outcome.bytes_per_s() / 1e9 * outcome.upstream.bytes() as f64;
            let bound = outcome.upstream.bytes_per_ns * outcome.upstream.data_bytes as f64;
            assert!(close(data, bound, 1e-3), "{name}, {job}, {granularity}: {data} of {bound}");
        }
    }
}

#[test]
fn acknowledgements_use_their_share_of_a_saturated_link() {
    let fast = ["media.preset=dram", "host.mmio_write_ns=0", "stack.preset=user-space"];
    let outcome = run(&drive("nvme-polled", &fast), "bs=4k iodepth=64 number_ios=20000");
    let wire = &outcome.upstream;
    let total = wire.bytes() as f64;
    assert!(close(total, wire.bytes_per_ns * outcome.elapsed.as_ns(), 2e-3), "{total}");
    assert!(wire.dllp_bytes > 0);
}

#[test]
fn wait_for_a_drive_core_is_a_stage_of_its_own() {
    let nvme: &[&str] = &["controller.cores=1", "controller.read_core_ns=20000", "controller.read_pipeline_ns=2000"];
    for (name, set, own) in [("nvme", nvme, Span::from_us(22)), ("pss", &["pss.firmware_ns=60000"], Span::from_us(60))]
    {
        let drive = drive(name, set);
        for (depth, waits) in [(1, false), (8, true)] {
            let outcome = run(&drive, &format!("bs=4k iodepth={depth} number_ios=400"));
            let mean = |stage| reads(&outcome).stages.get(stage) / reads(&outcome).ios;
            assert_eq!(mean(Stage::Firmware), own, "{name} at depth {depth}");
            let wait = mean(Stage::FirmwareWait);
            assert!(if waits { wait > own } else { wait.is_zero() }, "{name} at depth {depth}: {wait}");
        }
    }
}

#[test]
fn littles_law_holds_for_runs() {
    for (name, job) in [
        ("nvme", "bs=4k iodepth=16 number_ios=20000"),
        ("nvme-polled", "bs=512 iodepth=32 number_ios=20000"),
        ("dc-express", "bs=4k iodepth=8 number_ios=20000"),
        ("dc-express", "bs=512 iodepth=1 number_ios=20000"),
    ] {
        let outcome = run(&drive(name, &[]), job);
        let outstanding = outcome.iops() * reads(&outcome).total.mean_ns() / 1e9;
        assert!(close(outstanding, f64::from(outcome.jobs[0].iodepth), 2e-3), "{name}, {job}: {outstanding}");
    }
}

#[test]
fn faster_wire_shortens_a_read_by_its_packet_time() {
    let set = ["link.skip_ordered_sets=false", "media.bus_bytes_per_ns=1000"];
    let slow = drive("nvme-polled", &set);
    let fast = drive("nvme-polled", &[set[0], set[1], "link.lanes=8"]);
    let latency = |drive: &Drive| reads(&run(drive, "bs=4k number_ios=50")).total.min();
    // Packets of one read that cannot overlap: doorbell, fetch, command, data and completion entry.
    let bytes = 28 + 24 + 84 + 32 * 152 + 40;
    assert_eq!(latency(&slow) - latency(&fast), Span::from_ps(bytes * 500 - bytes * 250));
}

#[test]
fn slower_memory_lengthens_a_read_equally() {
    let latency = |set: &[&str]| reads(&run(&drive("nvme-polled", set), "bs=4k number_ios=50")).total.min();
    assert_eq!(latency(&["media.read_ns=1110"]) - latency(&[]), Span::from_us(1));
}

#[test]
fn hop_costs_its_time_in_both_directions() {
    let latency = |set: &[&str]| reads(&run(&drive("nvme-polled", set), "bs=4k number_ios=50")).total.min();
    // Doorbell, fetch, command and data each cross the link once.
    assert_eq!(latency(&["link.hops=1", "link.hop_ns=1000"]) - latency(&[]), Span::from_us(4));
}

#[test]
fn open_loop_delivers_its_rate() {
    let outcome = run(&drive("nvme-polled", &[]), "bs=4k iodepth=32 rate_iops=50000 number_ios=20000");
    assert!(close(outcome.iops(), 50_000.0, 1e-3), "{}", outcome.iops());
}

#[test]
fn random_arrivals_wait_half_a_queue_read_period() {
    let outcome = run(&drive("dc-express", &[]), "bs=512 rate_iops=2000 rate_process=poisson number_ios=5000");
    let period = outcome.elapsed.as_ns() / counter(&outcome, "queue_reads") as f64;
    let waited = reads(&outcome).stages.get(phaselink_core::ledger::Stage::PollWait).as_ns() / 5000.0;
    assert!(close(waited, period / 2.0, 0.03), "{waited} of {period}");
    assert!((300.0..360.0).contains(&waited), "{waited}");
}

/// Each request is a command with a doorbell of its own, and each completion is taken with another and told by an interrupt,
/// unless the host looks by itself.
#[test]
fn lone_request_counters_follow_from_its_packets() {
    let expected: [(&str, &[(&str, u64)]); 3] = [
        ("nvme", &[("commands", 50), ("interrupts", 50), ("doorbells", 100)]),
        ("nvme-polled", &[("commands", 50), ("interrupts", 0), ("doorbells", 100)]),
        ("ramdisk", &[("commands", 50), ("refused", 0)]),
    ];
    for (name, counts) in expected {
        let outcome = run(&drive(name, &[]), "bs=4k number_ios=50");
        for (what, count) in counts {
            assert_eq!(counter(&outcome, what), *count, "{name}: {what}");
        }
    }
}

/// The six per cent of the DC Express paper, section 4.1: an endpoint that reads all the time lets no package sleep.
#[test]
fn package_stays_awake_while_a_device_reads() {
    let awake_w = |name: &str, sleep: &str, job: &str| {
        let server_w =
            |awake: &str| run(&drive(name, &[awake, sleep]), job).energy.expect("a server of known power").server_w;
        server_w("power.package_awake_w=6") - server_w("power.package_awake_w=0")
    };
    let polling = awake_w("dc-express", "power.package_sleep_us=100", "bs=4k number_ios=200");
    assert!(close(polling, 6.0, 1e-3), "{polling}");
    // There is one command per millisecond, and the NVMe device reads host memory only for commands.
    let seldom = awake_w("nvme-polled", "power.package_sleep_us=100", "bs=4k number_ios=200 thinktime=990us");
    assert!(close(seldom, 0.6, 0.03), "{seldom}");
}
