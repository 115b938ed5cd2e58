//! Drives behind a network (NVMe over Fabrics): stages, bounds, wake-ups and interrupts of initiator and target.

use crate::common::{drive, figures, reads, run, traced};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{Outcome, Stage};
use phaselink_core::time::Span;

/// A local drive whose host sleeps or polls by the engine of the job.
const LINUX: [&str; 4] =
    ["stack.preset=linux-6", "host.preset=cascade-lake-4210r", "nvme.interrupts=true", "nvme.queue_entries=1024"];

fn remote_drive(preset: &str, more: &[&str]) -> Drive {
    let network = format!("fabric.preset={preset}");
    let set: Vec<&str> = LINUX.into_iter().chain([network.as_str()]).chain(more.iter().copied()).collect();
    drive("tlc-gen4", &set)
}

fn mean_latency_us(outcome: &Outcome) -> f64 {
    figures(outcome).total.mean_ns() / 1e3
}

fn target_cpu_time(outcome: &Outcome) -> Span {
    outcome.parts.iter().find(|part| part.resource == "target cores").expect("a target").busy
}

#[test]
fn remote_request_passes_the_stages_of_network_and_target() {
    let outcome = run(&remote_drive("nvme-tcp-kernel", &[]), "number_ios=100 ioengine=io_uring");
    let stages = &reads(&outcome).stages;
    for stage in [Stage::Capsule, Stage::TargetWake, Stage::Target, Stage::Response, Stage::Interrupt, Stage::Media] {
        assert!(!stages.get(stage).is_zero(), "{stage:?}");
    }
    assert_eq!(outcome.stack_stages.last().map(String::as_str), Some("initiator"));
    assert_eq!(stages.get(Stage::Driver), Span::ZERO, "the target's core writes doorbells");
}

#[test]
fn polled_queues_avoid_interrupt_and_worker_time() {
    let polled = "number_ios=200 ioengine=io_uring hipri=1";
    let [with, without] = ["true", "false"].map(|polled_queues| {
        let set = format!("fabric.polled_queues={polled_queues}");
        mean_latency_us(&run(&remote_drive("nvme-tcp-kernel", &[&set]), polled))
    });
    let sleeping = mean_latency_us(&run(&remote_drive("nvme-tcp-kernel", &[]), "number_ios=200 ioengine=io_uring"));
    assert!((11.4..13.5).contains(&(without - with)), "{without} {with}");
    assert!(sleeping > without, "{sleeping} {without}");
}

#[test]
fn target_with_long_enough_polling_needs_no_wake_up() {
    let job = "number_ios=200 ioengine=io_uring hipri=1";
    let woken = |poll_us: &str| {
        let outcome = run(&remote_drive("nvme-tcp-kernel", &[&format!("fabric.target_poll_us={poll_us}")]), job);
        reads(&outcome).stages.get(Stage::TargetWake) / 200
    };
    let notice = Span::from_ns(2_000);
    assert_eq!([woken("0"), woken("40")], [notice + Span::from_ns(9_200), notice]);
}

#[test]
fn one_queue_pair_is_limited_by_one_target_core_and_several_are_not() {
    let job = |threads: u32| format!("iodepth=64 numjobs={threads} number_ios=3000 ioengine=io_uring hipri=1");
    let set = ["fabric.target_command_ns=9000", "fabric.queue_pairs=4"];
    let rates = [1, 4].map(|threads| run(&remote_drive("nvme-tcp-kernel", &set), &job(threads)).iops());
    let core = 1e9 / (9_000.0 + 3_800.0);
    assert!((0.97..=1.0).contains(&(rates[0] / core)), "{rates:?} {core}");
    assert!((3.8..=4.0).contains(&(rates[1] / core)), "{rates:?} {core}");
}

#[test]
fn target_core_is_fully_utilised_at_its_throughput_limit() {
    let busy = |drive: &Drive| {
        run(drive, "iodepth=64 number_ios=3000 ioengine=io_uring hipri=1")
            .mean_busy_parts(phaselink_core::fabric::TARGET_CORES)
    };
    let limited = busy(&remote_drive("nvme-tcp-kernel", &["fabric.target_command_ns=9000"])).expect("a target");
    assert!((0.97..=1.0).contains(&limited), "{limited}");
    assert_eq!(busy(&remote_drive("nvme-tcp-kernel", &[]).without_fabric()), None);
}

#[test]
fn each_queue_pair_has_its_own_interrupt_vector_and_coalescing_gaps() {
    let interrupts = |queue_pairs: &str| {
        let pairs = format!("fabric.queue_pairs={queue_pairs}");
        let drive = remote_drive("nvme-tcp-spdk", &[&pairs, "nvme.queue_pairs=1", "fabric.interrupt_gap_us=20"]);
        let outcome = run(&drive, "numjobs=4 iodepth=16 number_ios=1000 ioengine=io_uring");
        let gaps = outcome.elapsed.as_ns() / 20_000.0;
        outcome.cpu.interrupts as f64 / gaps
    };
    let [shared, apart] = ["1", "4"].map(interrupts);
    assert!((0.9..=1.01).contains(&shared), "{shared}");
    assert!((3.0..=4.04).contains(&apart), "{apart}");
}

#[test]
fn initiators_share_the_targets_link() {
    let set = |initiators: &str| {
        let network = [&format!("fabric.initiators={initiators}"), "fabric.switch_ns=500", "fabric.link_gbit_per_s=10"];
        remote_drive("rdma", &network.map(|text| -> &str { text }))
    };
    let job = "bs=16k iodepth=32 numjobs=4 number_ios=1500 ioengine=io_uring hipri=1";
    let link = 10e9 / 8.0 * 16384.0 / (16384.0 + 32.0 + 5.0 * 82.0);
    for initiators in ["1", "2", "4"] {
        let outcome = run(&set(initiators), job);
        let share = outcome.iops() * 16384.0 / link;
        assert!((0.95..=1.0).contains(&share), "{initiators} initiators: {share}");
    }
}

#[test]
fn large_writes_wait_for_r2t_and_small_writes_use_in_capsule_data() {
    let stage = |bs: &str, stage| {
        let outcome = run(
            &remote_drive("nvme-tcp-kernel", &[]),
            &format!("rw=randwrite bs={bs} number_ios=100 ioengine=io_uring burst=1"),
        );
        figures(&outcome).stages.get(stage)
    };
    assert_eq!(stage("16k", Stage::WriteData), Span::ZERO);
    assert!(stage("32k", Stage::WriteData) > Span::from_us(100 * 2));
}

#[test]
fn lost_packets_are_sent_again_after_the_time_out() {
    let set = ["fabric.loss_ratio=0.01", "fabric.retransmit_us=5000"];
    let outcome = run(&remote_drive("nvme-tcp-kernel", &set), "number_ios=1000 ioengine=io_uring");
    let count = outcome.counters.iter().find(|(name, _)| *name == "network_retransmissions").expect("a counter").1;
    // Each read has four packets, each of which is lost with a probability of 1 %.
    assert!((20..60).contains(&count), "{count}");
    assert!(figures(&outcome).total.max() > Span::from_us(5_000));
}

#[test]
fn digests_take_bytes_on_the_wire_and_time_of_both_sides() {
    let job = "bs=64k number_ios=200 ioengine=io_uring";
    let [plain, checked] = [&[][..], &["fabric.header_digest=true", "fabric.data_digest=true"]]
        .map(|set| run(&remote_drive("nvme-tcp-kernel", set), job));
    let more = mean_latency_us(&checked) - mean_latency_us(&plain);
    // 64 KiB at 10 bytes a nanosecond, at the target and at the initiator.
    assert!((12.9..13.4).contains(&more), "{more}");
    assert!(target_cpu_time(&checked) > target_cpu_time(&plain));
}

#[test]
fn trace_of_remote_read_shows_capsules_and_packets() {
    let simulation = traced(&remote_drive("nvme-tcp-kernel", &[]), "number_ios=2 ioengine=io_uring");
    let names: Vec<&str> = simulation.trace().records().iter().map(|record| record.step.name()).collect();
    for name in ["command capsule", "C2H data and response", "target", "fetch command"] {
        assert!(names.iter().any(|found| found.contains(name)), "{name}: {names:?}");
    }
}

#[test]
fn same_seed_gives_the_same_run_of_a_lossy_network() {
    let outcome = || {
        run(&remote_drive("nvme-tcp-spdk", &["fabric.loss_ratio=0.001"]), "iodepth=8 number_ios=500 ioengine=io_uring")
    };
    assert_eq!(outcome(), outcome());
}
