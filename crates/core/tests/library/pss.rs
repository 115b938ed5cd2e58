//! The PSS card: its latencies as closed forms, its completion modes, its cache, and that nothing is lost.

use crate::common::{self, counter, drive, reads, run};
use phaselink_core::drive::Drive;
use phaselink_core::engine::{Engine, Input};
use phaselink_core::ledger::{DirectionOutcome, Outcome, Stage};
use phaselink_core::request::{Io, Op};
use phaselink_core::simulation::Simulation;
use phaselink_core::time::{Span, Time};
use proptest::prelude::*;

/// A clock of the chips, 66 MHz, by the number: 296 for a read of one, 288 for a write.
fn time_of_chip_clocks(count: u64) -> Span {
    Span::from_ps((count as f64 * 1e6 / 66.0).round() as u64)
}

fn write_outcome(outcome: &Outcome) -> &DirectionOutcome {
    &outcome.jobs[0].write
}

/// Writes that find the card idle.
fn run_single_writes(set: &[&str]) -> DirectionOutcome {
    let drive = drive("pss", &[&["media.wear_levelling=none"], set].concat());
    write_outcome(&run(&drive, "rw=randwrite bs=4k thinktime=1ms number_ios=50")).clone()
}

#[test]
fn single_read_takes_three_chips_a_bus_firmware_and_link_transfer_of_a_page() {
    let drive = drive("pss", &["link.dllps=false", "link.skip_ordered_sets=false"]);
    let outcome = run(&drive, "bs=4k number_ios=50");
    let read = reads(&outcome);
    let each = |stage| Span::from_ps(read.stages.get(stage).as_ps() / 50);
    assert_eq!(each(Stage::Media), time_of_chip_clocks(3 * 296) + drive.media.ecc_decode);
    assert_eq!(each(Stage::Firmware), drive.pss.firmware);
    assert_eq!(each(Stage::Transfer), Span::from_ns(32 * 152 / 2));
    assert_eq!(each(Stage::MediaWait), Span::ZERO);
    // Fetching a descriptor takes a request of 24 bytes, completions of 32 and 20 bytes, two propagation delays, and
    // the host memory.
    let fetch = Span::from_ns((24 + 52) / 2) + drive.link.one_way * 2 + drive.root_complex.cache_read;
    assert_eq!(each(Stage::Fetch), fetch);
    assert_eq!(read.total.min(), read.total.max());
}

#[test]
fn saturated_card_reads_one_page_in_the_time_of_three_chips_on_each_bus() {
    let outcome = run(&drive("pss", &[]), "bs=4k iodepth=64 number_ios=20000");
    assert!(common::close(outcome.iops(), 1e9 / time_of_chip_clocks(3 * 296).as_ns(), 2e-3), "{}", outcome.iops());
}

#[test]
fn saturated_card_writes_two_pages_per_program_and_three_chips_on_each_bus() {
    let drive = drive("pss", &["media.wear_levelling=none", "pss.cache_pages=64"]);
    let outcome = run(&drive, "rw=randwrite bs=4k iodepth=32 ramp_time=20ms runtime=300ms");
    let cycle = time_of_chip_clocks(3 * 288) + drive.media.program;
    // Sometimes all 64 cached pages belong to one bank, so the rate is slightly lower.
    assert!(common::close(outcome.iops(), 2e9 / cycle.as_ns(), 2e-2), "{}", outcome.iops());
}

#[test]
fn late_completion_follows_early_completion_by_one_program_time() {
    let chips_alone = "pss.cache_pages=0";
    let (early, late) =
        (run_single_writes(&[chips_alone]), run_single_writes(&[chips_alone, "media.acknowledge=late"]));
    assert_eq!(late.total.min() - early.total.min(), Span::from_us(120));
    assert_eq!(late.total.max() - early.total.max(), Span::from_us(120));
}

#[test]
fn idle_card_acknowledges_writes_no_later_than_a_busy_card() {
    let drive = drive("pss", &[]);
    let mean = |job: &str| run(&drive, job).jobs[0].write.total.mean_ns();
    let busy = mean("rw=randwrite bs=4k number_ios=500");
    let idle = mean("rw=randwrite bs=4k number_ios=500 thinktime=1ms");
    // A thread that has slept needs a context switch first.
    assert!(idle <= busy + drive.host.context_switch.as_ns() + 1.0, "{idle} {busy}");
}

#[test]
fn passthrough_skips_check_and_buffer_and_sends_metadata() {
    let validate = run(&drive("pss", &[]), "bs=4k number_ios=50");
    let passthrough = run(&drive("pss", &["pss.read_mode=passthrough"]), "bs=4k number_ios=50");
    assert!(reads(&passthrough).total.max() < reads(&validate).total.min());
    assert_eq!(passthrough.upstream.command_bytes - validate.upstream.command_bytes, 50 * 8 * 64);
}

#[test]
fn burst_is_absorbed_by_the_cache_and_a_full_cache_delays_writes() {
    let burst = |set: &[&str]| run(&drive("pss", set), "rw=randwrite bs=4k iodepth=8 number_ios=200");
    let (cached, bare) = (burst(&[]), burst(&["pss.cache_pages=0"]));
    assert!(counter(&cached, "cached_writes") > 190, "{}", counter(&cached, "cached_writes"));
    assert_eq!(counter(&bare, "cached_writes"), 0);
    assert!(write_outcome(&cached).total.mean_ns() * 2.0 < write_outcome(&bare).total.mean_ns());
    let full = burst(&["pss.cache_pages=16"]);
    assert!(common::close(full.iops(), bare.iops(), 0.35), "{} {}", full.iops(), bare.iops());
}

#[test]
fn sequential_reads_are_prefetched_and_random_reads_are_not() {
    let (ahead, random) =
        (run(&drive("pss", &[]), "rw=read bs=4k number_ios=100"), run(&drive("pss", &[]), "bs=4k number_ios=100"));
    assert!(counter(&ahead, "cache_hits") >= 98, "{}", counter(&ahead, "cache_hits"));
    assert_eq!(counter(&random, "prefetched_pages"), 0);
    assert!(reads(&ahead).total.mean_ns() < reads(&random).total.mean_ns() - 1e4);
}

#[test]
fn descriptors_are_fetched_in_batches_of_the_pending_count() {
    let exchanges = |job| {
        let outcome = run(&drive("pss", &[]), job);
        (counter(&outcome, "exchanges"), counter(&outcome, "commands"))
    };
    assert_eq!(exchanges("bs=4k number_ios=100"), (100, 100));
    let (exchanges, commands) = exchanges("bs=4k numjobs=8 iodepth=32 number_ios=500");
    // A saturated card fetches one command for each that completes, so most fetches bring several.
    assert!(commands == 4000 && exchanges < commands, "{exchanges}");
}

#[test]
fn invalid_register_accesses_are_ignored() {
    let drive = drive("pss", &[]);
    let mut engine = Engine::new(&drive, 1);
    let thread = engine.add_client(4);
    for (address, value) in [(0xe000_0000, 100_000), (0xe000_0004, 1), (0, 7)] {
        engine.inject(Time::ZERO, Input::RegisterWrite { address, value });
    }
    engine.inject(Time::ZERO, Input::Request { thread, io: Io { op: Op::Read, offset: 0, bytes: 4096 }, token: 1 });
    engine.run_until(Time::ZERO + Span::from_ms(1));
    assert_eq!(engine.completed(), 1);
}

fn run_verified_job(drive: &Drive, job: &str) -> Outcome {
    let mut simulation = Simulation::with_data(drive, &common::jobs(drive, job), 1).unwrap();
    while simulation.step(1 << 20) {}
    assert!(simulation.data_problems().is_empty(), "{:?}", simulation.data_problems());
    simulation.outcome()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_request_completes_once_and_reads_return_written_data(
        cache_pages in prop::sample::select(&[0, 1, 7, 1024][..]),
        mode in prop::sample::select(&["early", "late"][..]),
        read_mode in prop::sample::select(&["validate", "passthrough"][..]),
        wait in prop::sample::select(&["sleep", "spin"][..]),
        descriptors in prop::sample::select(&[16, 64][..]),
        memory in prop::sample::select(&["pcm-p5q-card", "pcm-lpddr2-nvm", "nand-slc"][..]),
        rw in prop::sample::select(&["randrw", "rw", "randwrite", "read"][..]),
        sizes in prop::sample::select(&["bs=4k", "bs=512", "bssplit=512/40:4k/40:192k/20"][..]),
        depth in 1..24u32,
        threads in 1..4u64,
    ) {
        let set = [
            format!("media.preset={memory}"),
            format!("pss.cache_pages={cache_pages}"),
            format!("media.acknowledge={mode}"),
            format!("pss.read_mode={read_mode}"),
            format!("pss.descriptors={descriptors}"),
            format!("host.wait={wait}"),
        ];
        let drive = drive("pss", &set.each_ref().map(String::as_str));
        let outcome = run_verified_job(&drive, &format!("rw={rw} {sizes} size=4m io_size=1g iodepth={depth} numjobs={threads} number_ios=40"));
        prop_assert!(outcome.finished);
        prop_assert_eq!(outcome.ios(), 40 * threads);
        prop_assert_eq!(counter(&outcome, "data_errors"), 0);
    }
}
