//! CXL.mem against what its description says.

use crate::common::{assert_exact_prediction, close, counter, drive, figures, jobs, run, traced};
use phaselink_core::closed_form::Certainty;
use phaselink_core::drive::Drive;
use phaselink_core::link::rate::WireRate;
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;
use phaselink_studies::predict::predict;
use phaselink_studies::report;
use proptest::prelude::*;

/// Nothing that comes by the clock.
const CALM: [&str; 2] = ["media.housekeeping_interval_us=0", "media.housekeeping_us=0"];

fn calm(name: &str, more: &[&str]) -> Drive {
    let set: Vec<&str> = CALM.iter().chain(more).copied().collect();
    drive(name, &set)
}

/// The latency of every request of a job.
fn latency(drive: &Drive, job: &str) -> Span {
    let outcome = run(drive, job);
    let total = &figures(&outcome).total;
    assert_eq!(total.min(), total.max(), "{job}: every one takes as long");
    total.max()
}

/// A line's way to the device and back, in messages of so many bytes, without memory.
fn cxl_line_exchange_time(drive: &Drive, down_bytes: u32, up_bytes: u32) -> Span {
    let rate = WireRate::new(&drive.link);
    drive.cxl.issue
        + rate.time(down_bytes)
        + drive.link.one_way * 2
        + drive.cxl.controller
        + rate.time(up_bytes)
        + drive.root_complex.write
}

#[test]
fn cxl_load_is_two_request_slots_five_data_slots_and_one_access() {
    let drive = calm("cxl-pcm-next", &[]);
    let unit = Span::from_ns_f64(450.0 + 128.0 / 10.664);
    let found = latency(&drive, "bs=64 number_ios=50");
    let expected = cxl_line_exchange_time(&drive, 17, 74) + unit;
    assert!(close(found.as_ns(), expected.as_ns(), 1e-6), "{found} {expected}");
}

#[test]
fn cxl_store_completes_when_buffered_for_any_memory() {
    for name in ["cxl-pcm-next", "cxl-pcm-legacy"] {
        let drive = calm(name, &[]);
        assert_eq!(
            latency(&drive, "rw=randwrite bs=64 number_ios=50"),
            cxl_line_exchange_time(&drive, 85, 10),
            "{name}"
        );
    }
}

#[test]
fn cxl_dram_load_takes_the_consortiums_latency() {
    let drive = calm("cxl-pcm-next", &["media.preset=dram", "cxl.unit_bytes=64"]);
    let load = latency(&drive, "bs=64 number_ios=50");
    assert!((170.0..250.0).contains(&load.as_ns()), "{load}");
}

#[test]
fn core_has_at_most_its_fill_buffers_of_cxl_lines_in_flight() {
    // Make memory and link so wide that they do not limit a core.
    let wide = ["media.preset=dram", "media.channels=64", "cxl.unit_bytes=64", "link.lanes=16", "media.read_ns=2000"];
    let one = calm("cxl-pcm-next", &[&wide[..], &["cxl.fill_buffers=1"]].concat());
    let alone = latency(&one, "bs=64 number_ios=50").as_ns() - one.cxl.issue.as_ns();
    for buffers in [1, 4, 16] {
        let set = format!("cxl.fill_buffers={buffers}");
        let drive = calm("cxl-pcm-next", &[&wide[..], &[set.as_str()]].concat());
        let found = run(&drive, "bs=64 iodepth=64 number_ios=20000").iops();
        assert!(close(found, f64::from(buffers) * 1e9 / alone, 0.03), "{buffers}: {found} {alone}");
        let two = run(&drive, "bs=64 iodepth=64 numjobs=2 number_ios=20000").iops();
        assert!(close(two, 2.0 * found, 0.03), "each core has its own");
    }
}

#[test]
fn cxl_loads_and_stores_use_the_wire_time_of_their_slots() {
    let fast =
        ["media.preset=dram", "media.channels=64", "cxl.unit_bytes=64", "link.lanes=1", "link.skip_ordered_sets=false"];
    let drive = calm("cxl-pcm-next", &fast);
    let wire = WireRate::new(&drive.link).bytes_per_ns();
    for (rw, slots_bytes) in [("randread", 74.0), ("randwrite", 85.0)] {
        let outcome = run(&drive, &format!("rw={rw} bs=64 iodepth=64 numjobs=4 number_ios=20000"));
        let found = outcome.iops() * 64.0 / 1e9;
        assert!(close(found, wire * 64.0 / slots_bytes, 0.01), "{rw}: {found} of {wire}");
    }
}

#[test]
fn whole_unit_stores_write_once_and_partial_ones_read_first() {
    let drive = calm("cxl-pcm-next", &["cxl.unit_bytes=256", "cxl.buffer_units=8"]);
    let whole = run(&drive, "rw=write bs=1k number_ios=100");
    assert_eq!((counter(&whole, "unit_writes"), counter(&whole, "unit_merges")), (400, 0));
    let parts = run(&drive, "rw=randwrite bs=64 number_ios=1000");
    assert_eq!(counter(&parts, "unit_writes"), counter(&parts, "unit_merges"));
    assert!(counter(&parts, "unit_writes") >= 980, "all but those in the buffer");
}

#[test]
fn store_uses_its_share_of_a_memory_unit_less_if_buffered() {
    let drive = calm("cxl-pcm-next", &["cxl.unit_bytes=256", "cxl.buffer_units=8"]);
    let busy_ns = |job: &str| {
        let demands = predict(&drive, &jobs(&drive, &format!("rw=randwrite {job}"))).jobs.remove(0).demands;
        demands.iter().find(|demand| demand.resource == "media banks").expect("a store goes there").busy_ns
    };
    let (whole, parts) = (busy_ns("bs=256"), busy_ns("bs=64"));
    assert!(close(parts, whole / 4.0, 1e-3), "{parts} of {whole}");
    // A buffer of 2 KiB covers half of 4 KiB and an eighth of 16 KiB.
    for (size, reach) in [("4k", 0.5), ("16k", 0.875)] {
        let found = busy_ns(&format!("bs=64 size={size}"));
        assert!(close(found, reach * whole / 4.0, 1e-3), "{size}: {found} of {whole}");
    }
}

#[test]
fn stores_run_at_memory_speed_once_the_buffer_is_full() {
    let drive = calm("cxl-pcm-legacy", &[]);
    let outcome = run(&drive, "rw=randwrite bs=128 iodepth=16 number_ios=3000");
    // Six rows of chips program independently, and one line takes 124.5 us.
    let bound = 6e9 / (120_000.0 + 288.0 / 0.066);
    assert!(outcome.iops() < 1.06 * bound && outcome.iops() > 0.7 * bound, "{} of {bound}", outcome.iops());
    let burst = run(&drive, "rw=randwrite bs=128 number_ios=100");
    assert!(figures(&burst).total.max() < Span::from_ns(200), "a hundred units fit into it");
}

#[test]
fn lone_cxl_requests_equal_their_prediction_to_the_picosecond() {
    let mut exact = 0;
    for name in ["cxl", "cxl-pcm-next", "cxl-pcm-legacy"] {
        for set in
            ["link.lanes=8", "link.lanes=1", "link.granularity=packet", "cxl.fill_buffers=3", "media.preset=dram"]
        {
            let drive = calm(name, &[set]);
            for (rw, bytes) in [("randread", [64, 512, 4096, 65_536]), ("randwrite", [64, 128, 512, 1024])]
                .iter()
                .flat_map(|(rw, sizes)| sizes.map(|bytes| (*rw, bytes)))
            {
                let job = format!("rw={rw} bs={bytes} number_ios=6");
                let latency = predict(&drive, &jobs(&drive, &job)).jobs[0].latencies[0].clone().expect("a closed form");
                let context = format!("{name} {set} {job}: {:?}", latency.certainty);
                let outcome = run(&drive, &job);
                let (found, total) = (figures(&outcome), latency.stages.total());
                assert_eq!(found.total.min(), total, "{context}");
                assert!(latency.least <= total);
                if latency.certainty == Certainty::Exact {
                    exact += 1;
                    assert_exact_prediction(&context, &latency, &outcome);
                }
            }
        }
    }
    assert!(exact >= 30, "only {exact} predictions claim to be exact");
}

#[test]
fn cxl_trains_and_single_packets_give_equal_results() {
    for job in ["rw=randrw bs=4k iodepth=8 number_ios=300", "rw=randrw bs=64 numjobs=3 iodepth=20 number_ios=300"] {
        for name in ["cxl", "cxl-pcm-next"] {
            let [train, packet] = ["train", "packet"].map(|granularity| {
                let mut outcome = run(&drive(name, &[&format!("link.granularity={granularity}")]), job);
                outcome.events = 0;
                format!("{outcome:?}")
            });
            assert_eq!(train, packet, "{name} {job}");
        }
    }
}

/// Run with data, and see every read verified.
fn verify(drive: &Drive, job: &str, ios: u64) {
    let mut simulation =
        Simulation::with_data(drive, &jobs(drive, job), 1).unwrap_or_else(|problems| panic!("{problems}"));
    let mut turns = 0;
    while simulation.step(1 << 16) {
        turns += 1;
        assert!(turns < 400, "the run does not end");
    }
    let outcome = simulation.outcome();
    assert_eq!(simulation.data_problems(), [""; 0]);
    assert_eq!(outcome.jobs.iter().map(|job| job.read.ios + job.write.ios).sum::<u64>(), ios);
    assert_eq!(counter(&outcome, "data_errors"), 0);
    assert!(counter(&outcome, "verified_reads") > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_completes_once_with_the_right_bytes(
        name in prop::sample::select(&["cxl", "cxl-pcm-legacy", "cxl-pcm-next"][..]),
        fill_buffers in 1u16..20, unit_bytes in prop::sample::select(&[64u32, 256, 4096][..]), units in 1u32..9,
        depth in 1u32..20, threads in 1u64..4,
        size in prop::sample::select(&["bs=512", "bs=4k", "bssplit=512/50:8k/50", "bs=64k"][..]),
    ) {
        let set = [
            format!("cxl.fill_buffers={fill_buffers}"),
            format!("cxl.unit_bytes={unit_bytes}"),
            format!("cxl.buffer_units={units}"),
            String::from("media.capacity_mib=1"),
        ];
        let drive = drive(name, &set.iter().map(String::as_str).collect::<Vec<_>>());
        verify(&drive, &format!("rw=randrw {size} iodepth={depth} numjobs={threads} number_ios=60 io_size=1g"), 60 * threads);
    }

    #[test]
    fn cxl_throughput_stays_within_its_prediction(
        fill_buffers in 1u16..20, unit_bytes in prop::sample::select(&[64u32, 256, 1024][..]),
        lanes in prop::sample::select(&[1u8, 4, 16][..]), depth in 1u32..20, threads in 1u32..4,
        rw in prop::sample::select(&["randread", "read", "randwrite", "write"][..]),
        bytes in prop::sample::select(&[64u32, 192, 512, 4096][..]),
    ) {
        let set = [
            format!("cxl.fill_buffers={fill_buffers}"),
            format!("cxl.unit_bytes={unit_bytes}"),
            format!("link.lanes={lanes}"),
            String::from("cxl.buffer_units=4"),
        ];
        let drive = calm("cxl-pcm-next", &set.iter().map(String::as_str).collect::<Vec<_>>());
        let job = format!("rw={rw} bs={bytes} iodepth={depth} numjobs={threads} number_ios=300");
        let most = predict(&drive, &jobs(&drive, &job)).jobs[0].loaded().most_iops;
        let found = run(&drive, &job).iops();
        // Data that is still in the buffer at the end has not been programmed yet.
        prop_assert!(found <= most * 1.05, "{job}: {found} of {most}");
    }
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
fn cxl_load_ladder_is_a_request_and_its_line() {
    let steps =
        ["driver (0.3)", "- MemRd, 17 B", "parse (40.0)", "# media (462.0)", "- MemData, 74 B", "settle (40.0)"];
    assert_ladder(&calm("cxl-pcm-next", &[]), "bs=64 number_ios=20", &steps);
}

#[test]
fn cxl_store_ladder_is_a_line_and_its_response() {
    let steps = ["driver (0.3)", "- MemWr, 85 B", "parse (40.0)", "- Cmp, 10 B"];
    assert_ladder(&calm("cxl-pcm-next", &[]), "rw=randwrite bs=64 number_ios=20", &steps);
}

#[test]
fn sleeping_for_cxl_loads_is_refused() {
    let text = "preset = \"cxl-pcm-next\"\n[host]\nwait = \"sleep\"\n";
    let problems = Drive::from_toml("drive.toml", text, &[]).unwrap_err().to_string();
    assert!(problems.contains("a core waits for its loads"), "{problems}");
}

#[test]
fn prefetchers_shorten_only_reads_of_many_lines() {
    let without = calm("cxl-memory-gen5", &["cxl.prefetch_lines=0"]);
    let with = calm("cxl-memory-gen5", &[]);
    for job in ["bs=64", "bs=128", "rw=randwrite bs=4k"] {
        let job = format!("{job} number_ios=50");
        assert_eq!(latency(&with, &job), latency(&without, &job), "{job}");
    }
    let job = "bs=4k number_ios=50";
    assert!(latency(&with, job).as_ns() < 0.8 * latency(&without, job).as_ns());
    for job in ["bs=256 number_ios=50", "bs=4k number_ios=50"] {
        let predicted = predict(&with, &jobs(&with, job)).jobs.remove(0);
        assert_eq!(predicted.alone_ns(), Some(latency(&with, job).as_ns()), "{job}");
    }
}

#[test]
fn two_cxl_devices_match_latency_and_bandwidth_of_their_platform() {
    // Platform of the Vistara devices, table VI: a load takes 250 ns, and both devices together reach at most 76 GB/s.
    let drive = calm("cxl-memory-gen5", &[]);
    let load = latency(&drive, "bs=64 number_ios=50").as_ns();
    assert!((0.85..1.0).contains(&(load / 250.0)), "{load} ns");
    let gigabytes = |mix: &str| run(&drive, &format!("{mix} bs=4k numjobs=32 number_ios=300")).bytes_per_s() / 1e9;
    // The lanes limit pure reads to 63 GB/s, of which 64 of 74 bytes are data.
    let reads = gigabytes("rw=randread");
    assert!((50.0..54.6).contains(&reads), "{reads} GB/s");
    let mixed = gigabytes("rw=randrw rwmixread=60");
    assert!(mixed > 1.1 * reads && mixed < 76.8, "{mixed} GB/s");
}
