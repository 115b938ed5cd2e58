//! Drives that store values by their keys: what a key costs beside its value, room that is given as a log gives it, and what is refused.

use std::collections::BTreeMap;

use crate::common::{STEADY, counter, drive, figures, jobs, run};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;
use phaselink_core::workload::fio;

/// Values of up to 64 KiB in a polled drive of fast memory.
const KEYED: [&str; 2] = ["key_value.value_max_kib=64", "key_value.keys_max=100000"];

fn keyed(set: &[&str]) -> Drive {
    drive("nvme-polled", &[&KEYED[..], set].concat())
}

/// A flash drive of 512 MiB with blocks of 3 MiB.
const FLASH: [&str; 5] = [
    "media.capacity_mib=512",
    "media.channels=4",
    "media.banks_per_channel=1",
    "media.block_pages=12",
    "translation.over_provisioning=0.2",
];

#[test]
fn lone_value_takes_a_block_time_plus_key_lookup() {
    for (direction, bytes) in [("randread", 512), ("randread", 4096), ("randread", 8192), ("randwrite", 4096)] {
        // A second write would wait for the programming of the first, so do only one.
        let ios = if direction == "randwrite" { 1 } else { 50 };
        let job = format!("rw={direction} bs={bytes} size=16m iodepth=1 number_ios={ios}");
        let block = run(&drive("nvme-polled", &[]), &job);
        for lookup_ns in [0, 200, 1_234] {
            let outcome = run(&keyed(&[&format!("key_value.lookup_ns={lookup_ns}")]), &job);
            let [found, expected] = [&outcome, &block].map(|outcome| figures(outcome).total.min());
            assert_eq!(found, expected + Span::from_ns(lookup_ns), "{job} {lookup_ns}");
        }
    }
}

#[test]
fn uncached_index_pages_cost_a_media_read_each() {
    let job = "rw=randread bs=4k size=128m iodepth=1 number_ios=2000";
    let (whole, part) = (run(&keyed(&[]), job), run(&keyed(&["key_value.index_cache_kib=64"]), job));
    let reads = counter(&part, "index_reads");
    // 16 of 782 pages of the index are in memory.
    assert!((1_800..=2_100).contains(&reads), "{reads}");
    assert_eq!((counter(&part, "index_writes"), counter(&whole, "index_reads")), (0, 0), "reads change no page");
    // An index page takes 304 ns in the cells and 4 KiB at 2 bytes/ns on the bus.
    let expected = figures(&whole).total.mean() + Span::from_ns(304 + 2_048) / 2_000 * reads;
    let (found, tolerance) = (figures(&part).total.mean(), Span::from_ns(40));
    assert!(found.max(expected) - found.min(expected) < tolerance, "{found:?} {expected:?}");
    let stores =
        run(&keyed(&["key_value.index_cache_kib=64"]), "rw=randwrite bs=4k size=128m iodepth=1 number_ios=2000");
    let written = counter(&stores, "index_writes");
    assert!((1_700..=2_100).contains(&written), "{written}");
}

#[test]
fn replaced_values_free_their_space_and_no_key_is_lost() {
    let set = [&FLASH[..], &["key_value.value_max_kib=64"]].concat();
    let drive = drive("tlc-gen4", &set);
    let outcome = run(&drive, "rw=randrw rwmixread=50 bs=3k size=384m iodepth=16 number_ios=400000");
    let of = |name: &str| counter(&outcome, name);
    assert_eq!((of("keys"), of("key_refusals")), (131_072, 0));
    let (stores, retrieves) = (of("value_stores"), of("value_retrieves"));
    assert!(stores > 50_000 && retrieves > 50_000, "{stores} {retrieves}");
    // The drive is three quarters full, so garbage collection can wait until most of a block is invalid.
    let amplification = of("write_amplification_percent");
    assert!((100..400).contains(&amplification), "{amplification}");
}

#[test]
fn small_values_store_faster_than_random_blocks_of_their_size() {
    let job = "rw=randwrite bs=512 size=64m iodepth=8 number_ios=100000";
    let blocks = run(&drive("tlc-gen4", &FLASH), job);
    let values = run(&drive("tlc-gen4", &[&FLASH[..], &["key_value.value_max_kib=64"]].concat()), job);
    let (blocks, values) = (blocks.iops(), values.iops());
    assert!(values > 2.0 * blocks, "{values} {blocks}");
}

#[test]
fn key_jobs_beyond_the_drives_limits_are_refused() {
    let drive = keyed(&[]);
    let refused = |options: &[(&str, &str)]| {
        let file = fio::job_from_flags(options).unwrap_or_else(|problems| panic!("{problems}"));
        file.resolve(&drive.limits(), &BTreeMap::new()).map(drop).unwrap_err().to_string()
    };
    let read = ("rw", "randread");
    for (options, found) in [
        (&[read, ("bs", "128k"), ("size", "1m")][..], "values have 131072 bytes; allowed: up to 65536 bytes"),
        (&[read, ("bssplit", "4k/50:8k/50"), ("size", "1m")], "sizes; allowed: one size of all reads and writes"),
        (&[read, ("bs", "512"), ("size", "256m")], "there are 524288 keys, a key for each 512 bytes of size"),
        (&[("rw", "randwrite"), ("bs", "64k")], "and 1 more that are being replaced, fill the drive"),
    ] {
        let message = refused(options);
        assert!(message.contains(found), "{message}");
    }
    let twice = fio::parse("jobs.fio", "[global]\nsize=1m\n[a]\nrw=read\nbs=4k\n[b]\nrw=read\nbs=8k\n");
    let message = twice.unwrap().resolve(&drive.limits(), &BTreeMap::new()).map(drop).unwrap_err().to_string();
    assert!(message.contains("jobs have values of different sizes, under the same keys"), "{message}");
    let real = Simulation::with_data(&drive, &jobs(&drive, "bs=4k size=1m"), 1).map(drop).unwrap_err().to_string();
    assert!(real.contains("a run with real bytes of a drive that stores values"), "{real}");
}

#[test]
fn contradictory_key_value_settings_are_refused() {
    let nvme = shipped::find("nvme").expect("a shipped drive");
    for (set, found) in [
        (&["key_value.keys_max=5"][..], "key_value.keys_max is given with key_value.value_max_kib 0"),
        (&["key_value.value_max_kib=256"], "and the largest transfer of a command is 128 KiB"),
        (&["key_value.value_max_kib=64", "zones.size_mib=64"], "[zones] is given for a drive that stores values"),
        (&["key_value.value_max_kib=64", "nvme.namespaces=2"], "nvme.namespaces is 2 in a drive with keys and values"),
        (&["key_value.value_max_kib=64", "key_value.index_cache_kib=31252"], "the index of 1000000 keys has 31252 KiB"),
        (
            &["key_value.value_max_kib=64", "media.capacity_mib=30", "key_value.index_cache_kib=64"],
            "bytes for values beside",
        ),
        (
            &["key_value.value_max_kib=64", "interface=dc-express"],
            "which has no commands for keys; allowed: interface nvme",
        ),
    ] {
        let all = [STEADY].iter().chain(set).map(|text| KeyOverride::parse(text).expect("an override"));
        let refused = Drive::from_toml(nvme.file, nvme.text, &all.collect::<Vec<_>>()).unwrap_err().to_string();
        assert!(refused.contains(found), "{set:?}: {refused}");
    }
}
