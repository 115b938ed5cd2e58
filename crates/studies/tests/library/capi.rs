//! The CAPI attachment against what its description says.

use crate::common::{self, assert_exact_prediction, close, counter, drive, figures, reads, run, traced};
use phaselink_core::closed_form::Certainty;
use phaselink_core::drive::{Drive, Interface};
use phaselink_core::link::rate::WireRate;
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;
use phaselink_studies::predict::predict;
use phaselink_studies::report;
use proptest::prelude::*;

/// Nothing that comes by chance or by the clock.
const CALM: [&str; 4] = [
    "capi.translation_miss_ratio=0",
    "root_complex.refresh_ns=0",
    "media.housekeeping_interval_us=0",
    "media.housekeeping_us=0",
];

fn calm(name: &str, more: &[&str]) -> Drive {
    let set: Vec<&str> = CALM.iter().chain(more).copied().collect();
    drive(name, &set)
}

/// From the AFU's command to the answer of the host, in the PSL and on the link.
fn exchange(drive: &Drive, answer_bytes: u32) -> Span {
    let rate = WireRate::new(&drive.link);
    drive.capi.psl
        + rate.time(24)
        + drive.link.one_way * 2
        + drive.root_complex.dram_read
        + rate.time(20 + answer_bytes)
}

/// From the thread's first instruction to the parsed command, and from the status in the PSL to the thread's knowledge.
fn around(drive: &Drive) -> Span {
    let rate = WireRate::new(&drive.link);
    let down = drive.capi.fill + drive.host.mmio_write + rate.time(28) + drive.link.one_way;
    let up = drive.capi.psl + rate.time(32) + drive.link.one_way + drive.root_complex.write + drive.host.poll;
    down + exchange(drive, 128) + drive.capi.parse + up
}

fn mean(drive: &Drive, job: &str) -> Span {
    let outcome = run(drive, &format!("{job} bs=128 number_ios=50"));
    let job = &outcome.jobs[0];
    let latency = if job.read.ios > 0 { &job.read.total } else { &job.write.total };
    assert_eq!(latency.percentile(0.1), latency.max(), "every one takes as long");
    Span::from_ns_f64(latency.mean_ns())
}

#[test]
fn capi_write_is_three_afu_commands_without_media_time() {
    for name in ["capi-pcm-legacy", "capi-pcm-next"] {
        let drive = calm(name, &["link.skip_ordered_sets=false", "link.dllps=false"]);
        assert_eq!(mean(&drive, "rw=randwrite"), around(&drive) + exchange(&drive, 128), "{name}");
    }
}

#[test]
fn capi_read_is_four_afu_commands_and_one_chip_access() {
    let clocks = Span::from_ns_f64(296.0 / 0.066);
    let beats = Span::from_ns_f64(450.0 + 128.0 / 10.664);
    for (name, memory) in [("capi-pcm-legacy", clocks), ("capi-pcm-next", beats)] {
        let drive = calm(name, &["link.skip_ordered_sets=false", "link.dllps=false"]);
        let expected = around(&drive) + memory + drive.media.ecc_decode + exchange(&drive, 4) + drive.capi.psl;
        let found = mean(&drive, "rw=randread");
        assert!(close(found.as_ns(), expected.as_ns(), 1e-6), "{name}: {} {}", found.as_ns(), expected.as_ns());
    }
}

#[test]
fn lone_capi_requests_equal_their_prediction_stage_by_stage() {
    let mut exact = 0;
    for name in ["capi-pcm-legacy", "capi-pcm-next", "capi"] {
        for set in ["link.lanes=8", "link.lanes=1", "capi.claim_lines=false", "link.granularity=packet"] {
            let drive = calm(name, &[set]);
            for job in ["randread bs=128", "randread bs=1k", "randread bs=4k", "randwrite bs=128", "randwrite bs=2k"] {
                let job = format!("rw={job} number_ios=6");
                let predicted = predict(&drive, &common::jobs(&drive, &job)).jobs.remove(0);
                let latency = predicted.latencies[0].as_ref().expect("a closed form");
                let outcome = run(&drive, &job);
                let found = figures(&outcome);
                let context = format!("{name} {set} {job} {:?}", latency.certainty);
                assert_eq!(found.total.min(), latency.stages.total(), "{context}");
                assert!(latency.least <= latency.stages.total());
                if latency.certainty == Certainty::Exact {
                    exact += 1;
                    assert_exact_prediction(&context, latency, &outcome);
                }
            }
        }
    }
    assert!(exact >= 24, "only {exact} predictions claim to be exact");
}

#[test]
fn capi_read_without_a_line_claim_saves_one_exchange() {
    let (claims, writes) = (calm("capi-pcm-next", &[]), calm("capi-pcm-next", &["capi.claim_lines=false"]));
    let saved = mean(&claims, "rw=randread") - mean(&writes, "rw=randread");
    assert!(close(saved.as_ns(), exchange(&claims, 4).as_ns(), 0.01), "{}", saved.as_ns());
}

#[test]
fn translation_miss_costs_one_page_table_line_per_afu_command() {
    let hits = calm("capi-pcm-next", &[]);
    let misses = drive("capi-pcm-next", &[&CALM[1..], &["capi.translation_miss_ratio=1"]].concat());
    let table = exchange(&hits, 128) - hits.capi.psl;
    for (job, translated) in [("rw=randwrite", 3), ("rw=randread", 3)] {
        let added = mean(&misses, job) - mean(&hits, job);
        // A read's status passes the PSL together with its data lines, apart from their wire time.
        assert!(close(added.as_ns(), (table * translated).as_ns(), 0.02), "{job}: {}", added.as_ns());
    }
}

#[test]
fn threads_share_queue_elements_when_the_afu_is_full() {
    let few = calm("capi-pcm-next", &["capi.elements=2"]);
    let outcome = run(&few, "bs=128 numjobs=8 iodepth=4 number_ios=200");
    let (commands, elements) = (counter(&outcome, "commands"), counter(&outcome, "elements"));
    assert_eq!(commands, 1600);
    assert_eq!(counter(&outcome, "doorbells"), elements);
    assert!(commands > 5 * elements, "{commands} commands in {elements} elements");
    let alone = run(&few, "bs=128 number_ios=200");
    assert_eq!(counter(&alone, "elements"), 200, "a lone command does not wait for others");
}

#[test]
fn capi_writes_wait_for_memory_once_the_buffer_is_full() {
    let small = calm("capi-pcm-legacy", &["capi.buffer_kib=4", "capi.max_transfer_kib=4"]);
    let outcome = run(&small, "rw=randwrite bs=128 iodepth=32 number_ios=2000");
    // Six rows of chips program independently, and one line takes 124.5 us.
    let bound = 6e9 / (120_000.0 + 288.0 / 0.066);
    assert!(outcome.iops() < 1.05 * bound, "{} of {bound}", outcome.iops());
    let burst = run(&small, "rw=randwrite bs=128 number_ios=20");
    assert!(burst.jobs[0].write.total.max() < Span::from_us(3), "they fit into the buffer");
}

#[test]
fn malformed_capi_doorbell_changes_nothing() {
    use phaselink_core::engine::{Engine, Input};
    use phaselink_core::time::Time;
    let drive = calm("capi-pcm-next", &[]);
    let mut engine = Engine::new(&drive, 1);
    for (number, (address, value)) in [(0x1000, 3), (0x1000, u32::MAX), (0, 0), (0x1000, 3)].into_iter().enumerate() {
        let at = Time::ZERO + Span::from_us(10 * number as u64);
        engine.inject(at, Input::RegisterWrite { address, value });
    }
    engine.run_until(Time::ZERO + Span::from_us(100));
    let outcome = engine.outcome(&drive, 1);
    assert_eq!((counter(&outcome, "commands"), counter(&outcome, "elements")), (0, 0));
}

/// Run with data, and see every read verified.
fn verify(drive: &Drive, job: &str, ios: u64) {
    let jobs = common::jobs(drive, job);
    let mut simulation = Simulation::with_data(drive, &jobs, 1).unwrap_or_else(|problems| panic!("{problems}"));
    let mut turns = 0;
    while simulation.step(1 << 16) {
        turns += 1;
        assert!(turns < 400, "the run does not end");
    }
    let outcome = simulation.outcome();
    assert_eq!(simulation.data_problems(), [""; 0]);
    assert_eq!(outcome.jobs.iter().map(|job| job.read.ios + job.write.ios).sum::<u64>(), ios);
    assert_eq!(counter(&outcome, "data_errors"), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_completes_once_with_the_right_bytes(
        name in prop::sample::select(&["capi-pcm-legacy", "capi-pcm-next"][..]),
        elements in 1u16..5, commands in 1u8..8, depth in 1u32..20, threads in 1u64..4,
        misses in prop::sample::select(&["0", "0.2"][..]),
        size in prop::sample::select(&["bs=512", "bs=4k", "bssplit=512/50:8k/50", "bs=64k"][..]),
    ) {
        let set = [
            format!("capi.elements={elements}"),
            format!("capi.commands_per_element={commands}"),
            format!("capi.translation_miss_ratio={misses}"),
            String::from("capi.max_transfer_kib=16"),
            String::from("capi.buffer_kib=16"),
            String::from("media.capacity_mib=1"),
        ];
        let drive = drive(name, &set.iter().map(String::as_str).collect::<Vec<_>>());
        verify(&drive, &format!("rw=randrw {size} iodepth={depth} numjobs={threads} number_ios=100 io_size=1g"), 100 * threads);
    }
}

#[test]
fn capi_runs_over_all_memories_and_link_generations() {
    use phaselink_core::drive_file::{presets, shipped};
    let memories = presets::all().into_iter().filter(|preset| preset.section == "media");
    let memories: Vec<String> = memories.map(|preset| format!("media.preset={}", preset.name)).collect();
    let mut tried: Vec<Interface> = Vec::new();
    for shipped in shipped::all() {
        let interface = Drive::shipped(shipped.name).unwrap().interface;
        if tried.contains(&interface) {
            continue;
        }
        tried.push(interface);
        for memory in &memories {
            for generation in 1..=6 {
                let drive = drive(shipped.name, &[memory, &format!("link.generation={generation}")]);
                let outcome = run(&drive, "rw=randrw bs=4k iodepth=4 number_ios=20");
                assert!(outcome.finished && outcome.iops() > 0.0, "{} {memory} {generation}", shipped.name);
                assert_eq!(reads(&outcome).ios + outcome.jobs[0].write.ios, 20);
            }
        }
    }
    assert!(tried.contains(&Interface::Capi));
}

/// The steps of a request in steady state stand in its ladder, with their bytes, one after the other.
fn assert_ladder(drive: &Drive, job: &str, steps: &[&str]) {
    let text = report::ladder(&traced(drive, job).trace().of_request(15), job);
    let mut rest = text.as_str();
    for step in steps {
        let place = rest.find(step).unwrap_or_else(|| panic!("no {step} in its place:\n{text}"));
        rest = &rest[place + step.len()..];
    }
}

#[test]
fn capi_read_ladder_fetches_element_claims_line_and_writes_it() {
    let steps = [
        "driver (70.0)",
        "- doorbell, 28 B",
        "psl (298.0)",
        "- fetch element, 24 B",
        "- element, 148 B",
        "parse (32.0)",
        "# media (462.0)",
        "psl (298.0)",
        "- claim lines, 24 B",
        "- claimed, 24 B",
        "psl (298.0)",
        "- lines, 152 B",
        "- status, 32 B",
        "poll (20.0)",
    ];
    assert_ladder(&calm("capi-pcm-next", &[]), "bs=128 number_ios=20", &steps);
}

#[test]
fn capi_write_completes_when_its_line_is_buffered() {
    let steps = [
        "- doorbell, 28 B",
        "- fetch element, 24 B",
        "- element, 148 B",
        "parse (32.0)",
        "psl (298.0)",
        "- read lines, 24 B",
        "- lines, 148 B",
        "psl (298.0)",
        "- status, 32 B",
        "poll (20.0)",
    ];
    assert_ladder(&calm("capi-pcm-legacy", &[]), "rw=randwrite bs=128 number_ios=20", &steps);
}
