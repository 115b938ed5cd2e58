//! The closed forms of Moneta and of the PSS card against simulations of lone requests, stage by stage.

use crate::closed_forms::limited;
use crate::common::{self, counter, drive, figures, jobs, run};
use phaselink_core::closed_form::{Certainty, Latency};
use phaselink_core::config::Acknowledge;
use phaselink_core::drive::Drive;
use phaselink_studies::predict::predict;
use proptest::prelude::*;
use proptest::sample::select;

fn latency(drive: &Drive, job: &str) -> Option<Latency> {
    predict(drive, &jobs(drive, job)).jobs.remove(0).latencies.remove(0)
}

/// Whether an exact prediction is met stage by stage. None is undercut.
fn is_met_by_stages(drive: &Drive, job: &str, latency: &Latency) -> Result<bool, TestCaseError> {
    let (outcome, total) = (run(drive, job), latency.stages.total());
    let found = figures(&outcome);
    prop_assert!(latency.least <= total && found.total.min() >= total, "{} of {total}, {latency:?}", found.total.min());
    let is_told = match latency.certainty {
        Certainty::Exact => true,
        // The mean is exact only if the card had no opportunity to read ahead.
        Certainty::Mean(_) => counter(&outcome, "cache_hits") + counter(&outcome, "prefetched_pages") == 0,
        Certainty::AtLeast(_) => false,
    };
    if !is_told {
        return Ok(false);
    }
    let means: Vec<_> =
        found.stages.named(&outcome.stack_stages).map(|(stage, span)| (stage, span / found.ios)).collect();
    prop_assert_eq!(means, latency.stages.named(&outcome.stack_stages).collect::<Vec<_>>());
    prop_assert_eq!((found.total.min(), found.total.max()), (total, total));
    Ok(true)
}

/// Requests of which none meets what an earlier one has left to do: the cells of a write that is acknowledged early.
fn independent_requests(drive: &Drive, rw: &str) -> u32 {
    if rw == "randwrite" && drive.media.acknowledge == Acknowledge::Early { 1 } else { 4 }
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(values).prop_map(String::from)
}

/// Links, memories and hosts for any protocol.
fn any_parts() -> impl Strategy<Value = Vec<String>> {
    let link = (
        (1..=6u32, select(&[1u32, 4, 8, 16][..])),
        one_of(&["link.max_payload_bytes=128", "link.max_payload_bytes=512", "link.max_payload_bytes=4096"]),
        one_of(&["link.max_read_request_bytes=512", "link.max_read_request_bytes=128", "link.completion_bytes=128"]),
        one_of(&["link.read_tags=4", "link.read_tags=256", "link.hops=2", "link.one_way_ns=0"]),
        one_of(&["link.dllps=true", "link.dllps=false", "link.granularity=packet"]),
    );
    let rest = (
        one_of(&[
            "media.preset=pcm-moneta",
            "media.preset=dram",
            "media.preset=pcm-lpddr2-nvm",
            "media.preset=pcm-p5q-card",
        ]),
        one_of(&["media.channels=3", "media.stripe_bytes=512", "media.stripe_bytes=16384", "media.read_ns=5000"]),
        one_of(&[
            "root_complex.write_ns=0",
            "root_complex.dram_read_ns=700",
            "root_complex.placement=remote-dram",
            "host.core_ghz=2",
        ]),
        one_of(&[
            "host.context_switch_ns=0",
            "host.wake_ns=0",
            "host.idle_exit_ns=0",
            "host.interrupt_ns=0",
            "host.mmio_write_ns=300",
        ]),
    );
    (link, rest).prop_map(|(((generation, lanes), payload, reads, tags, other), (media, stripes, root, host))| {
        let wide = [format!("link.generation={generation}"), format!("link.lanes={lanes}")];
        wide.into_iter().chain([payload, reads, tags, other, media, stripes, root, host]).collect()
    })
}

fn any_moneta() -> impl Strategy<Value = Vec<String>> {
    let device = (
        select(&[512u32, 1024, 4096, 8192][..]),
        1..=9u8,
        any::<bool>(),
        any::<bool>(),
        one_of(&[
            "moneta.ring_bytes_per_ns=4",
            "moneta.ring_bytes_per_ns=0.3",
            "moneta.ring_bytes_per_ns=1e4",
            "moneta.max_transfer_kib=4",
            "moneta.max_transfer_kib=64",
        ]),
        one_of(&["moneta.pipeline_ns=0", "moneta.pipeline_ns=743"]),
    );
    let driver = (
        1..=3u8,
        one_of(&["moneta.tag_hint=true", "moneta.tag_hint=false", "moneta.interrupt_vectors=1", "moneta.tags=1"]),
        one_of(&["moneta.tag_pool=locked", "moneta.tag_pool=lock-free"]),
        one_of(&["moneta.spin_up_to_bytes=0", "moneta.spin_up_to_bytes=4096", "moneta.spin_up_to_bytes=1000000"]),
        one_of(&["stack.preset=user-space", "stack.preset=linux-2.6-no-op", "stack.preset=linux-2.6-no-scheduler"]),
        any::<bool>(),
    );
    (device, driver).prop_map(
        |((chunk, buffers, split, fair, ring, pipeline), (words, tags, pool, spin, stack, zero_copy))| {
            let mut set = vec![
                format!("moneta.chunk_bytes={chunk}"),
                format!("moneta.transfer_buffers={buffers}"),
                format!("moneta.split_queues={split}"),
                format!("moneta.fair={fair}"),
                format!("moneta.request_words={words}"),
            ];
            if zero_copy && words > 1 {
                set.extend(["moneta.zero_copy=true".to_string(), "stack.copy_bytes_per_ns=0".to_string()]);
            }
            set.extend([ring, pipeline, tags, pool, spin, stack]);
            set
        },
    )
}

fn described(name: &str, sets: &[&[String]]) -> Drive {
    drive(name, &sets.concat().iter().map(String::as_str).collect::<Vec<_>>())
}

/// Shipped drives with their own links, memories and hosts.
#[test]
fn closed_forms_of_lone_requests_to_shipped_drives_are_exact() {
    let cases = [
        ("moneta", "randread", &[512, 4096, 16_384, 262_144, 1 << 20][..], ""),
        ("moneta", "randwrite", &[512, 4096, 16_384, 262_144, 1 << 20], ""),
        ("moneta-4x", "randread", &[512, 4096, 65_536], ""),
        ("moneta-4x", "randwrite", &[512, 4096, 65_536], ""),
        ("moneta-block", "randread", &[512, 4096, 131_072], ""),
        ("moneta-block", "randwrite", &[512, 4096, 131_072], ""),
        ("pss", "randread", &[512, 4096, 131_072], ""),
        ("pss-4-cards", "randread", &[512, 4096, 131_072], ""),
        ("pss-block", "randread", &[512, 4096, 65_536], ""),
        ("pss-block", "randwrite", &[512, 4096, 65_536], ""),
        ("pss", "randwrite", &[512, 4096, 131_072], "media.wear_levelling=none media.acknowledge=late"),
        ("pss", "randwrite", &[512, 4096, 131_072], "media.wear_levelling=none pss.cache_pages=0"),
    ];
    for (name, rw, sizes, set) in cases {
        let drive = drive(name, &set.split_whitespace().collect::<Vec<_>>());
        for bytes in sizes {
            let job = format!("rw={rw} bs={bytes} number_ios={}", independent_requests(&drive, rw));
            let latency = latency(&drive, &job).expect("a closed form");
            let is_told =
                is_met_by_stages(&drive, &job, &latency).unwrap_or_else(|error| panic!("{name} {job}: {error}"));
            assert!(is_told, "{name} {set} {job}: {:?}", latency.certainty);
        }
    }
}

/// The commands of pieces that fill a unit together go out beside transfers.
#[test]
fn writes_that_share_program_units_take_at_least_the_closed_form() {
    let set = "media.preset=pcm-lpddr2-nvm media.stripe_bytes=512 media.banks_per_channel=1 media.acknowledge=early \
               pss.cache_pages=0";
    let drive = drive("pss", &set.split_whitespace().collect::<Vec<_>>());
    for bytes in [6144, 12_288] {
        let job = format!("rw=randwrite bs={bytes} number_ios=1");
        let latency = latency(&drive, &job).expect("a closed form");
        is_met_by_stages(&drive, &job, &latency).unwrap_or_else(|error| panic!("{job}: {error}"));
    }
}

/// The memory then takes longer than the wire would, and has longer.
#[test]
fn credit_limited_requests_take_at_least_the_closed_form() {
    let set = "link.generation=3 link.lanes=16 link.max_payload_bytes=128 media.preset=dram media.stripe_bytes=512 \
               media.wear_levelling=none media.banks_per_channel=4 pss.read_mode=passthrough pss.cache_pages=0 \
               root_complex.write_ns=0 host.wait=spin";
    let drive = drive("pss", &set.split_whitespace().collect::<Vec<_>>());
    let job = "bs=64k number_ios=1";
    let latency = latency(&drive, job).expect("a closed form");
    is_met_by_stages(&drive, job, &latency).unwrap_or_else(|error| panic!("{error}"));
}

/// With one transfer buffer pieces take turns, so that what takes the last of them to its turn is known however the others
/// are held up.
#[test]
fn pieces_that_share_a_transfer_buffer_wait_in_order() {
    let drive = drive("moneta", &["moneta.transfer_buffers=1", "link.granularity=packet"]);
    let job = "rw=randwrite bs=64k number_ios=1";
    let latency = latency(&drive, job).expect("a closed form");
    assert!(matches!(latency.certainty, Certainty::AtLeast(_)), "{:?}", latency.certainty);
    let (told, found) = (latency.stages.total(), figures(&run(&drive, job)).total.min());
    assert!(told <= found && told.as_ns() > 0.9 * found.as_ns(), "{told} of {found}");
}

#[test]
fn cached_regions_need_no_chip_access() {
    let drive = drive("pss", &[]);
    let cached_bytes = u64::from(drive.pss.cache_pages) * 4096;
    let busy_ns = |times: u64| {
        let demands =
            predict(&drive, &jobs(&drive, &format!("bs=4k size={}", times * cached_bytes))).jobs.remove(0).demands;
        demands.iter().find(|demand| demand.resource == "media buses").map_or(0.0, |demand| demand.busy_ns)
    };
    assert_eq!(busy_ns(1), 0.0);
    let (half, quarter) = (busy_ns(2), busy_ns(4));
    assert!(common::close(quarter, half * 0.75 / 0.5, 1e-9), "{half} {quarter}");
}

/// The last command may be found by the handler that another one has called, and be the first to get a buffer.
#[test]
fn split_requests_take_slightly_more_than_the_closed_form() {
    let cases = [
        ("moneta", "moneta.max_transfer_kib=128", 0.75),
        ("pss", "pss.cache_pages=0 media.wear_levelling=none", 0.6),
        ("capi", "", 0.75),
        ("nvme", "host.variation=0", 0.75),
    ];
    for (name, set, share) in cases {
        let drive = drive(name, &set.split_whitespace().collect::<Vec<_>>());
        for bytes in [132 << 10, 256 << 10, 1 << 20] {
            let job = format!("rw=randread bs={bytes} number_ios=4");
            let latency = latency(&drive, &job).expect("a closed form");
            assert!(matches!(latency.certainty, Certainty::AtLeast(_)), "{name} {job}: {:?}", latency.certainty);
            is_met_by_stages(&drive, &job, &latency).unwrap_or_else(|error| panic!("{name} {job}: {error}"));
            let (told, found) = (latency.stages.total(), figures(&run(&drive, &job)).total.min());
            assert!(told.as_ns() >= share * found.as_ns(), "{name} {job}: {told:?} of {found:?}");
        }
    }
}

#[test]
fn saturated_drives_reach_their_bottleneck_rates() {
    // Tolerances differ, because a piece may take longer in the memory than its minimum, and writes of a page may wait
    // in its lane.
    let cases = [
        ("moneta", "", "bs=256k iodepth=4 numjobs=4 number_ios=200", "wire to host", 0.02),
        ("moneta", "moneta.ring_bytes_per_ns=0.5", "bs=256k iodepth=4 numjobs=4 number_ios=60", "ring", 0.02),
        ("moneta", "moneta.transfer_buffers=1", "bs=256k iodepth=4 number_ios=60", "transfer buffers of reads", 0.25),
        ("pss", "", "bs=4k iodepth=64 number_ios=8000", "media buses", 0.02),
        ("pss", "pss.firmware_ns=60000", "bs=4k iodepth=64 number_ios=8000", "firmware", 0.02),
        ("pss", "pss.cache_pages=0", "rw=randwrite bs=4k iodepth=32 number_ios=3000", "media banks", 0.5),
        // Reads hold their tags until the data arrives, so the location of the data matters, and that of the rings does
        // not.
        (
            "pss",
            "media.preset=pcm-moneta media.wear_levelling=none link.read_tags=4 root_complex.placement=remote-dram",
            "rw=randwrite bs=64k iodepth=4 number_ios=400",
            "read tags",
            0.1,
        ),
    ];
    for (name, set, job, bottleneck, share) in cases {
        let drive = drive(name, &set.split_whitespace().collect::<Vec<_>>());
        limited(&drive, job, bottleneck, 1.0 - share..=1.002);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lone_moneta_request_equals_its_prediction_stage_by_stage(
        name in select(&["moneta", "moneta-block"][..]),
        parts in any_parts(),
        moneta in any_moneta(),
        rw in select(&["randread", "randwrite"][..]),
        bytes in select(&[512u32, 1024, 4096, 6144, 12_288, 65_536, 262_144, 1 << 20][..]),
    ) {
        let drive = described(name, &[&parts, &moneta]);
        let job = format!("rw={rw} bs={bytes} number_ios={}", independent_requests(&drive, rw));
        is_met_by_stages(&drive, &job, &latency(&drive, &job).expect("a closed form"))?;
    }
}

fn any_pss() -> impl Strategy<Value = Vec<String>> {
    let card = (
        one_of(&["pss.firmware_ns=15850", "pss.firmware_ns=0"]),
        one_of(&["pss.read_mode=validate", "pss.read_mode=passthrough", "pss.max_transfer_kib=5"]),
        one_of(&["pss.cache_pages=0", "pss.cache_pages=16", "pss.cache_pages=1024"]),
        one_of(&["pss.prefetch_pages=0", "pss.prefetch_pages=4"]),
        one_of(&["media.acknowledge=early", "media.acknowledge=late"]),
        one_of(&["media.wear_levelling=none", "media.wear_levelling=start-gap", "media.ecc_decode_ns=300"]),
        one_of(&["media.banks_per_channel=1", "media.banks_per_channel=4", "media.channels=8"]),
    );
    let driver =
        one_of(&["host.wait=sleep", "host.wait=spin", "stack.preset=user-space", "stack.preset=linux-2.6-no-op"]);
    (card, driver).prop_map(|((firmware, mode, cache, prefetch, acknowledge, wear, banks), driver)| {
        vec![firmware, mode, cache, prefetch, acknowledge, wear, banks, driver]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lone_pss_request_equals_its_prediction_stage_by_stage(
        name in select(&["pss", "pss-4-cards", "pss-block"][..]),
        parts in any_parts(),
        pss in any_pss(),
        rw in select(&["randread", "randwrite", "read"][..]),
        bytes in select(&[512u32, 1024, 4096, 6144, 12_288, 65_536, 131_072][..]),
    ) {
        let drive = described(name, &[&parts, &pss]);
        let job = format!("rw={rw} bs={bytes} number_ios={}", independent_requests(&drive, rw));
        is_met_by_stages(&drive, &job, &latency(&drive, &job).expect("a closed form"))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_drive_gives_more_than_predicted(
        is_moneta in any::<bool>(),
        parts in any_parts(),
        (moneta, pss) in (any_moneta(), any_pss()),
        rw in select(&["randread", "randwrite", "randrw"][..]),
        bytes in select(&[512u32, 4096, 65_536][..]),
        (depth, threads) in (1..17u32, 1..4u32),
    ) {
        let drive = match is_moneta {
            true => described("moneta", &[&parts, &moneta]),
            // Without these settings, writes in the card's DRAM cache would reach the chips only after the run, and so
            // could a gap move, of which there is about one per run.
            false => {
                let at_once = ["pss.cache_pages=0", "media.wear_levelling=none"].map(String::from);
                described("pss", &[&parts, &pss, &at_once])
            }
        };
        let job = format!("rw={rw} bs={bytes} iodepth={depth} numjobs={threads} number_ios=100");
        let (predicted, outcome) = (predict(&drive, &jobs(&drive, &job)).jobs.remove(0), run(&drive, &job));
        let most_iops = predicted.loaded().most_iops;
        let allowed = most_iops * outcome.elapsed.as_s() * 1.001 + f64::from(depth * threads);
        prop_assert!(outcome.ios() as f64 <= allowed, "{} of {most_iops}, {:?}", outcome.iops(), predicted.bottleneck());
        let directions = outcome.jobs[0].directions();
        for (latency, (_, found)) in predicted.latencies.iter().zip(directions) {
            let least = latency.as_ref().expect("a closed form").least;
            prop_assert!(found.total.min() >= least, "{} of {least}", found.total.min());
        }
    }
}
