//! Moneta: closed forms, throughput bounds of its queues, and what must hold for every switch.

use crate::common::{close, counter, drive, jobs, reads, run};
use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;
use proptest::prelude::*;

/// No software, no traffic but that of packets, threads that sleep at no cost beyond a context switch.
const BARE: [&str; 7] = [
    "stack.preset=user-space",
    "link.dllps=false",
    "link.skip_ordered_sets=false",
    "moneta.sleep_ns=0",
    "host.wake_ns=0",
    "host.idle_exit_ns=0",
    "host.context_switch_ns=0",
];

fn bare(set: &[&str], job: &str) -> Outcome {
    run(&drive("moneta", &[&BARE, set].concat()), job)
}

/// Request word, pipeline; then, behind the data, interrupt message, delivery, handler, status read and its answer.
fn command_and_completion_ps() -> u64 {
    let (issue, word, pipeline) = (50_000, 16_000 + 300_000, 743_000);
    let (delivery, handler, status) = (300_000, 400_000, 12_000 + 300_000 + 14_000 + 300_000);
    issue + word + pipeline + delivery + handler + status
}

/// A message of 4 bytes, and its write into memory.
const MESSAGE_PS: u64 = 14_000 + 300_000 + 50_000;
const POLL_PS: u64 = 20_000;

#[test]
fn lone_moneta_read_is_the_sum_of_its_parts() {
    let outcome = bare(&[], "bs=4k number_ios=50");
    // 48 ns in the cells, 1024 ns out of the controller, 1024 ns over the ring, and 32 packets of 152 bytes. The
    // message follows.
    let device_ps = 48_000 + 1_024_000 + 1_024_000 + 32 * 76_000;
    let expected = Span::from_ps(command_and_completion_ps() + device_ps + MESSAGE_PS + POLL_PS);
    assert_eq!((reads(&outcome).total.min(), reads(&outcome).total.max()), (expected, expected));
}

#[test]
fn lone_moneta_write_is_the_sum_of_its_parts() {
    let outcome = bare(&[], "bs=4k rw=randwrite number_ios=50");
    // The first request has 24 bytes. It takes 201 ns in the root complex, and 64 packets of 84 bytes return. Then come
    // ring, controller and cells.
    let host_ps = 12_000 + 300_000 + 201_000 + 64 * 42_000 + 300_000;
    let device_ps = 1_024_000 + 1_024_000 + 150_000;
    let expected = Span::from_ps(command_and_completion_ps() + host_ps + device_ps + MESSAGE_PS + POLL_PS);
    let total = &outcome.jobs[0].write.total;
    assert_eq!((total.min(), total.max()), (expected, expected));
}

#[test]
fn reads_of_many_threads_reach_the_wire_bound() {
    let outcome = bare(&[], "bs=512k numjobs=8 number_ios=100");
    let bound = 128.0 / 152.0 * 2e9;
    assert!(close(outcome.bytes_per_s(), bound, 1e-3), "{}", outcome.bytes_per_s());
    assert!(outcome.bytes_per_s() <= bound);
}

#[test]
fn writes_of_many_threads_reach_the_64_byte_completion_bound() {
    let outcome = bare(&[], "bs=512k rw=randwrite numjobs=8 number_ios=100");
    let bound = 64.0 / 84.0 * 2e9;
    assert!(close(outcome.bytes_per_s(), bound, 2e-3), "{}", outcome.bytes_per_s());
}

#[test]
fn one_moneta_queue_uses_one_direction_and_two_use_both() {
    let mixed = |set: &[&str]| bare(set, "bs=512k rw=randrw numjobs=16 iodepth=4 number_ios=40").bytes_per_s();
    let (one, two) = (mixed(&["moneta.split_queues=false", "moneta.fair=false"]), mixed(&["moneta.fair=false"]));
    // With one queue, each byte takes as long as half a byte read plus half a byte written.
    assert!(close(one, 2e9 * 2.0 / (152.0 / 128.0 + 84.0 / 64.0), 0.01), "{one}");
    assert!(two > 1.8 * one, "{two}");
}

/// Whole cores that a thread of eight reads keeps busy, and its interrupts for each read, with the processor full.
fn busy_cores_and_interrupts_per_read(lanes: u8, vectors: u8) -> (f64, f64) {
    let set = [format!("link.lanes={lanes}"), format!("moneta.interrupt_vectors={vectors}")];
    let outcome = run(&drive("moneta", &["host.variation=0.09", &set[0], &set[1]]), "bs=4k iodepth=8 number_ios=8000");
    let used = outcome.cpu.working + outcome.cpu.spinning + outcome.cpu.switching;
    (used.as_ns() / outcome.elapsed.as_ns(), outcome.cpu.interrupts as f64 / 8000.0)
}

#[test]
fn slower_link_lowers_interrupts_per_read_of_a_full_core() {
    // Over the fast link fewer than five reads are in the device. Their tags belong to the thread's own processor,
    // which handles one interrupt each.
    let (cores, interrupts) = busy_cores_and_interrupts_per_read(16, 8);
    assert!(cores < 1.01 && interrupts > 0.99, "{cores} {interrupts}");
    // Over a slower link more reads are in flight, some under tags of other processors, which handle those interrupts.
    let (cores, interrupts) = busy_cores_and_interrupts_per_read(8, 8);
    assert!(cores > 1.05 && interrupts > 0.99, "{cores} {interrupts}");
    // Over a saturated link, completions queue up and share interrupts.
    let (cores, interrupts) = busy_cores_and_interrupts_per_read(4, 1);
    assert!(cores < 1.01 && interrupts < 0.9, "{cores} {interrupts}");
}

#[test]
fn requests_up_to_the_spin_limit_spin_and_longer_sleep() {
    let switches = |bytes: &str| run(&drive("moneta", &[]), &format!("bs={bytes} number_ios=100")).cpu.context_switches;
    assert!(switches("4096") < 4);
    assert!(switches("4608") >= 200);
}

#[test]
fn moneta_request_takes_one_or_more_register_writes() {
    for words in 1..=3 {
        let outcome = bare(&[&format!("moneta.request_words={words}")], "bs=4k number_ios=100");
        assert_eq!(counter(&outcome, "register_writes"), words * 100);
    }
}

#[test]
fn interrupt_announces_all_set_status_bits() {
    let outcome = bare(&["moneta.interrupt_vectors=1"], "bs=512 numjobs=16 number_ios=200");
    assert_eq!(counter(&outcome, "interrupts"), counter(&outcome, "status_reads"));
    assert!(counter(&outcome, "interrupts") < 16 * 200);
    assert_eq!(outcome.ios(), 16 * 200);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn moneta_requests_complete_once_with_right_data(
        (words, locked, hint, split, fair) in (1u8..=3, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        (tags, vectors, buffers) in (1u8..=64, 1u8..=64, 1u8..=4),
        chunk in prop::sample::select(vec![512u32, 4096, 8192]),
        transfer in prop::sample::select(vec![4u32, 64]),
        spin in prop::sample::select(vec![0u32, 4096]),
        (threads, depth) in (1u32..=6, 1u32..=4),
        sizes in prop::sample::select(vec!["512", "4k", "512/50:16k/50", "64k"]),
        granularity in prop::sample::select(vec!["train", "packet"]),
        scheduler in any::<bool>(),
    ) {
        let set = [
            format!("moneta.request_words={words}"),
            format!("moneta.tag_pool={}", if locked { "locked" } else { "lock-free" }),
            format!("moneta.tag_hint={hint}"),
            format!("moneta.split_queues={split}"),
            format!("moneta.fair={fair}"),
            format!("moneta.tags={tags}"),
            format!("moneta.interrupt_vectors={vectors}"),
            format!("moneta.transfer_buffers={buffers}"),
            format!("moneta.chunk_bytes={chunk}"),
            format!("moneta.max_transfer_kib={transfer}"),
            format!("moneta.spin_up_to_bytes={spin}"),
            format!("link.granularity={granularity}"),
            format!("stack.preset=linux-2.6-{}", if scheduler { "no-op" } else { "no-scheduler" }),
        ];
        let drive = drive("moneta", &set.iter().map(String::as_str).collect::<Vec<_>>());
        let job = format!("rw=randrw bssplit={sizes} size=256k io_size=1g numjobs={threads} iodepth={depth} number_ios=40");
        let job = if sizes.contains('/') { job } else { job.replace("bssplit", "bs") };
        let mut simulation = Simulation::with_data(&drive, &jobs(&drive, &job), 1).unwrap();
        while simulation.step(1 << 16) {}
        let outcome = simulation.outcome();
        prop_assert!(outcome.finished);
        prop_assert_eq!(outcome.ios(), u64::from(threads) * 40);
        prop_assert_eq!(simulation.data_problems(), [""; 0]);
        prop_assert_eq!(counter(&outcome, "refused"), 0);
    }
}

/// Else the request is over before its data has come, and its place belongs to the next one.
#[test]
fn status_becomes_visible_only_after_its_data() {
    let drive = drive("moneta", &["moneta.ring_bytes_per_ns=6"]);
    let outcome = run(&drive, "rw=randrw bs=4k iodepth=4 numjobs=2 number_ios=20");
    assert!(outcome.finished);
    assert_eq!(outcome.ios(), 40);
}
