//! CXL.mem with a DRAM cache in front of flash: lone loads and stores against sums that are written out by hand, hit ratios against
//! what probability says, and what the closed form promises.

use crate::common::{assert_exact_prediction, close, counter, drive, figures, jobs, ns, run};
use phaselink_core::closed_form::Certainty;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{Outcome, Stage};
use phaselink_core::link::rate::WireRate;
use phaselink_core::time::Span;
use phaselink_studies::predict::predict;

/// A cache of 16 MiB, 4096 pages.
const SMALL: [&str; 1] = ["cxl.cache_mib=16"];
const PAGE_BYTES: u32 = 4096;

fn small_cached_drive(more: &[&str]) -> Drive {
    drive("cxl-flash", &[&SMALL[..], more].concat())
}

/// A load's way to the controller and its line's way back: a slot of 17 bytes, and five of data with their header, 74 bytes.
fn load_time_without_memory(drive: &Drive) -> Span {
    let rate = WireRate::new(&drive.link);
    let messages = rate.time(17) + rate.time(74) + drive.link.one_way * 2;
    drive.cxl.issue + messages + drive.cxl.controller + drive.root_complex.write
}

fn cache_hit_time(drive: &Drive) -> Span {
    load_time_without_memory(drive) + drive.cxl.cache
}

/// Processors of the device, one array read, the page on its channel, the decoder; then the DRAM, as for a hit.
fn cache_miss_time(drive: &Drive) -> Span {
    let processors = drive.controller.read_core + drive.controller.read_pipeline;
    let channel = ns(f64::from(PAGE_BYTES) / drive.media.bus_bytes_per_ns);
    cache_hit_time(drive) + processors + drive.media.command + drive.media.read + channel + drive.media.ecc_decode
}

/// Lone loads all of which take the sum, with the drive as it is and after each change of a constant.
fn assert_lone_load_sum(job: &str, sum: fn(&Drive) -> Span, changes: &[&str]) {
    let base = sum(&small_cached_drive(&[]));
    for change in std::iter::once(None).chain(changes.iter().map(Some)) {
        let drive = small_cached_drive(change.copied().as_slice());
        let expected = sum(&drive);
        assert!(change.is_none() || expected != base, "{change:?} is no constant of the sum");
        let outcome = run(&drive, job);
        let found = &figures(&outcome).total;
        assert_eq!((found.min(), found.max()), (expected, expected), "{job} {change:?}");
    }
}

const WAY: [&str; 6] = [
    "link.lanes=4",
    "link.one_way_ns=31",
    "root_complex.write_ns=23",
    "cxl.controller_ns=55",
    "cxl.issue_ns=2",
    "cxl.cache_ns=90",
];
const MISSING: [&str; 6] = [
    "controller.read_core_ns=333",
    "controller.read_pipeline_ns=777",
    "media.command_ns=101",
    "media.read_ns=7000",
    "media.bus_bytes_per_ns=0.9",
    "media.ecc_decode_ns=222",
];

#[test]
fn lone_cache_hit_equals_the_sum_of_its_parts() {
    assert_lone_load_sum("rw=randread bs=64 size=16m number_ios=20", cache_hit_time, &WAY);
}

#[test]
fn lone_cache_miss_equals_the_sum_of_its_parts() {
    // The job reads twenty of 195 million pages, none of which is in the cache at the start.
    assert_lone_load_sum("rw=randread bs=64 offset=1g number_ios=20", cache_miss_time, &[&WAY[..], &MISSING].concat());
}

#[test]
fn lone_store_needs_neither_memory_nor_dram() {
    let drive = small_cached_drive(&[]);
    let rate = WireRate::new(&drive.link);
    let messages = rate.time(85) + rate.time(10) + drive.link.one_way * 2;
    let expected = drive.cxl.issue + messages + drive.cxl.controller + drive.root_complex.write;
    for region in ["size=16m", "size=1g"] {
        let outcome = run(&drive, &format!("rw=randwrite bs=64 {region} number_ios=50"));
        let found = &figures(&outcome).total;
        assert_eq!((found.min(), found.max()), (expected, expected), "{region}");
    }
}

#[test]
fn stages_of_a_cache_miss_name_the_device_parts() {
    let drive = small_cached_drive(&[]);
    let outcome = run(&drive, "rw=randread bs=64 offset=1g number_ios=20");
    let figures = figures(&outcome);
    let mean = |stage| figures.stages.get(stage) / 20;
    assert_eq!(mean(Stage::DeviceCache), drive.cxl.cache);
    assert_eq!(mean(Stage::Firmware), drive.controller.read_core + drive.controller.read_pipeline);
    assert_eq!(mean(Stage::Parse), drive.cxl.controller);
    assert_eq!(mean(Stage::MediaWait), Span::ZERO);
}

fn hit_ratio(outcome: &Outcome) -> f64 {
    let hits = counter(outcome, "cache_hits") as f64;
    hits / (hits + counter(outcome, "cache_misses") as f64)
}

#[test]
fn hit_ratio_of_uniform_loads_is_the_cached_share_for_all_policies() {
    for policy in ["fifo", "lru", "clock", "s3-fifo", "lifo"] {
        let drive = small_cached_drive(&[&format!("cxl.cache_policy={policy}")]);
        let outcome = run(&drive, "rw=randread bs=64 size=64m number_ios=8000");
        assert!((hit_ratio(&outcome) - 0.25).abs() < 0.03, "{policy}: {}", hit_ratio(&outcome));
    }
}

#[test]
fn s3_fifo_hits_most_and_fifo_least_for_skewed_loads() {
    // With pages of one cache line, each load is one access to its page.
    let ratios = ["fifo", "lru", "s3-fifo"].map(|policy| {
        let policy = format!("cxl.cache_policy={policy}");
        let drive =
            drive("cxl-flash", &["cxl.cache_mib=1", "cxl.unit_bytes=64", "cxl.cache_start=empty", policy.as_str()]);
        hit_ratio(&run(&drive, "rw=randread bs=64 size=16m random_distribution=zipf:1.0 number_ios=150000"))
    });
    assert!(ratios[0] < ratios[1] && ratios[1] < ratios[2], "{ratios:?}");
}

#[test]
fn predicted_hits_and_mean_of_hits_and_misses_match_simulation() {
    let drive = small_cached_drive(&[]);
    for bytes in [64, 512, 4096, 16_384] {
        let job = format!("rw=randread bs={bytes} size=16m number_ios=50");
        let latency = predict(&drive, &jobs(&drive, &job)).jobs[0].latencies[0].clone().expect("a closed form");
        assert_eq!(latency.certainty, Certainty::Exact, "{bytes}");
        assert_exact_prediction(&job, &latency, &run(&drive, &job));
    }
    let job = "rw=randread bs=64 size=64m number_ios=8000";
    let predicted = &predict(&drive, &jobs(&drive, job)).jobs[0];
    assert!(matches!(predicted.latencies[0].as_ref().unwrap().certainty, Certainty::Mean(_)));
    let (alone, found) = (predicted.alone_ns().unwrap(), 1e9 / run(&drive, job).iops());
    assert!(close(found, alone, 0.03), "{found} {alone}");
}

#[test]
fn prediction_refuses_caches_that_depend_on_the_order_of_loads() {
    let drive = small_cached_drive(&[]);
    for job in [
        "rw=read bs=4k size=1g",
        "rw=randread bs=4k size=1g random_distribution=zipf:1.2",
        "rw=randread bs=4k size=16m offset=1g",
    ] {
        let latency = predict(&drive, &jobs(&drive, job)).jobs[0].latencies[0].clone().expect("a bound");
        let Certainty::AtLeast(why) = latency.certainty else { panic!("{job}: {:?}", latency.certainty) };
        assert!(why.contains("miss the device's cache"), "{job}: {why}");
        let fastest = figures(&run(&drive, &format!("{job} number_ios=200"))).total.min();
        assert!(fastest >= latency.stages.total().min(latency.least), "{job}");
    }
}

#[test]
fn misses_and_write_backs_stay_within_predicted_bounds() {
    for (set, job) in [
        ("cxl.cache_start=clean", "rw=randread bs=4k size=1g iodepth=8 numjobs=16 number_ios=100"),
        ("cxl.cache_start=clean", "rw=randread bs=64 size=32m iodepth=16 numjobs=4 number_ios=2000"),
        ("cxl.cache_start=dirty", "rw=randwrite bs=4k size=1g iodepth=4 numjobs=4 number_ios=2000"),
        ("cxl.cache_start=dirty", "rw=randrw bs=64 size=1g iodepth=4 numjobs=4 number_ios=2000"),
        ("cxl.cache_start=empty", "rw=read bs=4k size=64m iodepth=4 numjobs=2 number_ios=500"),
    ] {
        let drive = small_cached_drive(&[set]);
        let most = predict(&drive, &jobs(&drive, job)).jobs[0].loaded().most_iops;
        let found = run(&drive, job).iops();
        // Up to 64 write-backs are still in flight at the end: 0.8 % of 8,000.
        assert!(found <= most * 1.01, "{set} {job}: {found} of {most}");
    }
}

#[test]
fn read_ahead_speeds_up_sequences_and_slows_no_random_loads() {
    let [without, with] = ["cxl.cache_prefetch_pages=0", "cxl.cache_prefetch_pages=8"].map(|set| {
        let drive = small_cached_drive(&[set, "cxl.cache_start=empty", "buffer.read_ahead_kib=0"]);
        let sequence = run(&drive, "rw=read bs=4k size=1g number_ios=800");
        let random = run(&drive, "rw=randread bs=4k size=1g number_ios=800");
        (sequence.iops(), random.iops())
    });
    assert!(with.0 > 3.0 * without.0, "{} and {}", with.0, without.0);
    assert!(close(with.1, without.1, 0.02), "{} and {}", with.1, without.1);
}

#[test]
fn stores_run_at_link_speed_until_dirty_pages_are_evicted() {
    let [clean, dirty] = ["cxl.cache_start=clean", "cxl.cache_start=dirty"].map(|set| {
        let drive = small_cached_drive(&[set, "buffer.capacity_kib=4096"]);
        run(&drive, "rw=randwrite bs=4k size=1g iodepth=4 numjobs=4 number_ios=1000")
    });
    assert_eq!(counter(&clean, "cache_write_backs"), 0);
    assert!(counter(&dirty, "cache_write_backs") > 0);
    assert!(clean.iops() > 1.3 * dirty.iops(), "{} and {}", clean.iops(), dirty.iops());
}

#[test]
fn invalid_cache_settings_are_refused() {
    use phaselink_core::drive_file::KeyOverride;
    for (settings, found) in [
        (&["cxl.cache_mib=0"][..], "with cxl.cache_mib 0, where it has no effect"),
        (&["cxl.cache_mib=1000000"], "cxl.cache_mib is 1000000 with media.capacity_mib"),
        (
            &["cxl.cache_mib=1", "cxl.cache_prefetch_pages=200"],
            "cxl.cache_prefetch_pages is 200 with a cache of 256 pages",
        ),
    ] {
        let overrides: Vec<KeyOverride> = settings.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
        let text = "preset = \"cxl-flash\"\n[cxl]\ncache_policy = \"fifo\"\n";
        let problems = Drive::from_toml("test.toml", text, &overrides).unwrap_err().to_string();
        assert!(problems.contains(found), "{problems}");
    }
}
