//! Closed forms and simulation agree where requests do not meet, and the closed forms bound the simulation where they do.

use crate::closed_forms::limited;
use crate::common::{assert_exact_prediction, close, drive, figures, jobs, ns, run};
use phaselink_core::closed_form::Certainty;
use phaselink_core::config::Acknowledge;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::time::Span;
use phaselink_studies::predict::{JobPrediction, predict};
use proptest::prelude::*;

const DRIVES: [&str; 4] = ["nvme", "nvme-polled", "dc-express", "dc-express-block"];
const SIZES: [u32; 6] = [8, 512, 4096, 8192, 131_072, 1 << 20];

fn predicted(drive: &Drive, job: &str) -> JobPrediction {
    predict(drive, &jobs(drive, job)).jobs.remove(0)
}

/// Sizes that a drive's reads, or writes, may have.
fn allowed_sizes(name: &str, rw: &str) -> impl Iterator<Item = u32> {
    let smallest = if name.starts_with("nvme") || rw == "randwrite" { 512 } else { 8 };
    SIZES.into_iter().filter(move |bytes| *bytes >= smallest)
}

/// Every shipped drive, read and written in every size, over some links and memories: what is asked of the lone
/// request's prediction and of the run.
fn for_each_lone_request(mut check: impl FnMut(&str, &JobPrediction, &Outcome)) {
    let links = ["gen1-x8", "gen2-x4", "gen2-x4-z77", "gen4-x4", "gen6-x4"];
    for (place, link) in links.iter().enumerate() {
        let link = format!("link.preset={link}");
        let granularity = ["link.granularity=train", "link.granularity=packet"][place % 2];
        let media = ["media.preset=pcm-lpddr2-nvm", "media.preset=dram"][place / 2 % 2];
        for name in DRIVES {
            let drive = drive(name, &[&link, granularity, media]);
            for (rw, bytes) in
                ["randread", "randwrite"].iter().flat_map(|rw| allowed_sizes(name, rw).map(move |b| (rw, b)))
            {
                // The endpoint must learn the request loop before its queue reads meet the commands.
                let ios = match bytes {
                    ..=8192 if name.starts_with("dc-express") => 80,
                    _ => 5,
                };
                let job = format!("rw={rw} bs={bytes} number_ios={ios}");
                let context = format!("{name} {link} {granularity} {media} {job}");
                check(&context, &predicted(&drive, &job), &run(&drive, &job));
            }
        }
    }
}

#[test]
fn lone_request_takes_its_prediction_or_at_most_two_percent_more() {
    let mut exact = 0;
    for_each_lone_request(|context, job, outcome| {
        let latency = job.latencies[0].as_ref().expect("a closed form");
        if latency.certainty == Certainty::Exact {
            exact += 1;
            return assert_exact_prediction(context, latency, outcome);
        }
        let (least, found) = (latency.stages.total(), figures(outcome).total.min());
        assert!(found >= least, "{context}: {found} of at least {least}");
        assert!(found.as_ns() <= least.as_ns() * 1.02, "{context}: {found} is far above {least}");
    });
    // Predictions are exact for NVMe reads up to 128 KiB and writes up to 4 KiB, on most links.
    assert!(exact >= 50, "only {exact} predictions claim to be exact");
}

#[test]
fn memories_with_separate_chips_are_predicted_exactly_or_bounded() {
    for media in ["media.preset=pcm-p5q-card", "media.preset=pcm-p5q-channel"] {
        for (bytes, exact) in [(512, true), (4096, true), (65_536, false)] {
            let drive = drive("nvme-polled", &[media, "media.ecc_decode_ns=300"]);
            let job = format!("bs={bytes} number_ios=20");
            let latency = predicted(&drive, &job).latencies[0].clone().expect("a closed form");
            let outcome = run(&drive, &job);
            match latency.certainty == Certainty::Exact {
                true => assert_exact_prediction(&format!("{media} {job}"), &latency, &outcome),
                false => assert!(!exact && figures(&outcome).total.min() >= latency.stages.total(), "{media} {job}"),
            }
        }
    }
}

#[test]
fn chips_and_wear_gap_moves_bound_throughput() {
    let busy = "rw=randwrite bs=4k iodepth=64 number_ios=6000";
    for set in ["media.program_ns=120000", "media.wear_levelling=start-gap", "media.data_pattern=random"] {
        let drive = drive("nvme-polled", &["media.preset=pcm-p5q-card", set]);
        let (job, found) = (predicted(&drive, busy), run(&drive, busy).iops());
        assert_eq!(job.bottleneck().resource, "media banks", "{set}");
        assert!(found <= job.bottleneck().saturation_iops() * 1.005, "{set}: {found} of {job:?}");
    }
    let reads = "bs=4k iodepth=64 number_ios=6000";
    let drive = drive("nvme-polled", &["media.preset=pcm-p5q-card"]);
    let (bound, found) = (predicted(&drive, reads).bottleneck().saturation_iops(), run(&drive, reads).iops());
    assert!((bound * 0.99..=bound * 1.001).contains(&found), "{found} of {bound}");
}

#[test]
fn dc_express_read_in_a_tight_loop_is_within_4_ns_of_prediction() {
    for bytes in [8, 512, 4096] {
        let drive = drive("dc-express", &["link.dllps=false"]);
        let job = format!("bs={bytes} number_ios=900 ramp_time=200us");
        let latency = predicted(&drive, &job).latencies[0].clone().expect("a closed form");
        let outcome = run(&drive, &job);
        let stack = &outcome.stack_stages;
        for (stage, span) in figures(&outcome).stages.named(stack).filter(|(stage, _)| *stage != "poll wait") {
            let expected = latency.stages.named(stack).find(|(other, _)| *other == stage).map(|(_, span)| span);
            assert_eq!(Some(span / figures(&outcome).ios), expected, "{bytes} bytes: {stage}");
        }
        let over = figures(&outcome).total.percentile(50.0) - latency.stages.total();
        assert!(over <= ns(4.0) + Span::from_ps(latency.stages.total().as_ps() / 1000), "{bytes} bytes: {over}");
    }
}

/// Between one packet and nothing, the next queue read has nowhere to pass, and where it falls into the last, no more.
#[test]
fn dc_express_read_of_long_packets_takes_at_least_its_prediction() {
    let set = ["link.generation=1", "link.lanes=1", "link.max_payload_bytes=512", "media.preset=pcm-ddr3-next"];
    let drive = drive("dc-express-block", &set);
    for bytes in [512, 1024] {
        let job = format!("rw=read bs={bytes} number_ios=12");
        let least = predicted(&drive, &job).latencies[0].clone().expect("a closed form").stages.total();
        assert!(figures(&run(&drive, &job)).total.min() >= least, "{bytes}: {least}");
    }
}

#[test]
fn dc_express_read_at_a_random_instant_waits_half_a_polling_period() {
    let drive = drive("dc-express", &[]);
    for bytes in [512, 4096] {
        let job = format!("bs={bytes} rate_iops=20000 rate_process=poisson number_ios=4000");
        let found = figures(&run(&drive, &job)).stages.get(phaselink_core::ledger::Stage::PollWait).as_ns() / 4000.0;
        let latency = predicted(&drive, &job).latencies[0].clone().expect("a closed form");
        assert!(matches!(latency.certainty, Certainty::Mean(_)));
        let expected = latency.stages.get(phaselink_core::ledger::Stage::PollWait).as_ns();
        assert!(close(found, expected, 0.04), "{bytes} bytes: {found} of {expected}");
    }
}

#[test]
fn saturated_drive_reaches_its_bottleneck_rate() {
    let fast = "media.preset=dram stack.preset=user-space host.mmio_write_ns=0";
    let cases = [
        ("dc-express", "", "bs=512 iodepth=32 number_ios=20000", "wire to host", 0.01),
        ("dc-express", "", "bs=4k iodepth=32 number_ios=6000", "wire to host", 0.01),
        ("nvme-polled", fast, "bs=4k iodepth=64 number_ios=6000", "wire to host", 0.01),
        ("nvme-polled", fast, "bs=128k iodepth=8 number_ios=600", "wire to host", 0.01),
        ("nvme-polled", fast, "rw=randwrite bs=4k iodepth=64 number_ios=6000", "wire to device", 0.02),
        ("nvme-polled", "", "bs=512 iodepth=32 number_ios=6000", "cores", 0.01),
        ("nvme-polled", "", "bs=512 iodepth=32 numjobs=3 number_ios=6000", "cores", 0.02),
        ("nvme-polled", "media.preset=pcm-p5q", "rw=read bs=4k iodepth=64 number_ios=6000", "media buses", 0.01),
        ("nvme-polled", "", "rw=write bs=4k iodepth=256 number_ios=3000", "media banks", 0.02),
        ("nvme-polled", "nvme.parse_ns=4000", "bs=512 iodepth=32 number_ios=6000", "command parser", 0.01),
        ("dc-express", "dc_express.parse_ns=900", "bs=512 iodepth=32 number_ios=6000", "parser of reads", 0.01),
        (
            "nvme-polled",
            "link.posted_header_credits=4 media.preset=dram",
            "bs=16k iodepth=32 number_ios=4000",
            "header credits to host",
            0.02,
        ),
    ];
    for (name, set, job, bottleneck, share) in cases {
        let drive = drive(name, &set.split_whitespace().collect::<Vec<_>>());
        let (predicted, found) = limited(&drive, job, bottleneck, 1.0 - share..=1.001);
        let balanced_iops = predicted.loaded().balanced_iops.expect("a closed form");
        assert!(found.iops() >= balanced_iops * 0.98, "{name} {set} {job}");
    }
}

#[test]
fn shared_lock_limits_all_threads_together() {
    // With a cache line transfer time of 0, handing over the lock takes no time.
    let text = "preset = \"nvme-polled\"\nhost.cache_line_transfer_ns = 0\n[nvme]\nqueue_pairs = 4\n[stack]\nstages = [{ name = \"block layer\", submit_ns = 800, lock = \"queue\" }]\n";
    let drive = Drive::from_toml("locked.toml", text, &[]).expect("a drive");
    let job = "bs=512 iodepth=8 numjobs=4 number_ios=3000";
    let job_predicted = predicted(&drive, job);
    assert_eq!(job_predicted.bottleneck().resource, "lock queue");
    assert!(close(run(&drive, job).iops(), 1e9 / 800.0, 0.01));
    assert_eq!(job_predicted.bottleneck().saturation_iops(), 1e9 / 800.0);
}

#[test]
fn saturation_begins_at_the_depth_of_littles_law() {
    let drive = drive(
        "nvme-polled",
        &["stack.preset=user-space", "media.read_ns=10000", "media.channels=64", "host.mmio_write_ns=0"],
    );
    let depth = predicted(&drive, "rw=read bs=4k").saturation_depth().expect("a closed form");
    let share = |depth: f64| {
        let job = format!("rw=read bs=4k iodepth={depth:.0} number_ios=4000");
        run(&drive, &job).iops() / predicted(&drive, &job).bottleneck().saturation_iops()
    };
    assert!((4.0..8.0).contains(&depth), "{depth}");
    assert!(share(depth.floor() - 1.0) < 0.9 && share(depth.ceil() + 2.0) > 0.97);
}

#[test]
fn job_offered_less_than_all_limits_gets_its_rate() {
    let drive = drive("nvme-polled", &[]);
    let job = predicted(&drive, "bs=4k iodepth=32 rate_iops=50000 numjobs=2");
    assert_eq!(job.loaded().most_iops, 100_000.0);
    assert_eq!(predicted(&drive, "bs=4k thinktime=1ms thinktime_blocks=4").loaded().most_iops, 4_000.0);
}

#[test]
fn mix_demands_of_each_resource_are_those_of_its_parts() {
    let drive = drive("nvme-polled", &[]);
    let busy = |job: &str, name: &str| {
        let job = predicted(&drive, job);
        job.demands.iter().find(|demand| demand.resource == name).expect("a demand").busy_ns
    };
    for name in ["wire to host", "wire to device", "media banks", "cores"] {
        let parts = 0.3 * busy("rw=randread bs=4k", name) + 0.7 * busy("rw=randwrite bs=4k", name);
        assert!(close(busy("rw=randrw rwmixread=30 bs=4k", name), parts, 1e-12), "{name}");
    }
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(values).prop_map(String::from)
}

/// Generation, lanes and three overrides of a link.
fn any_link() -> impl Strategy<Value = ((u32, u32), String, String, String)> {
    (
        (1..=6u32, prop::sample::select(&[1u32, 2, 4, 8, 16][..])),
        one_of(&["link.max_payload_bytes=128", "link.max_payload_bytes=512", "link.completion_bytes=128"]),
        one_of(&[
            "link.posted_header_credits=2",
            "link.non_posted_header_credits=1",
            "link.posted_data_credits=32",
            "link.hops=2",
            "link.read_tags=1",
            "link.one_way_ns=0",
        ]),
        one_of(&[
            "link.duplex=full",
            "link.duplex=shared",
            "link.bit_error_rate=1e-7",
            "link.dllps=false",
            "link.granularity=packet",
        ]),
    )
}

/// An override of the memory, one of the host or a protocol, and the name of a drive.
fn any_memory_and_host() -> impl Strategy<Value = (String, String, &'static str)> {
    (
        one_of(&[
            "media.preset=dram",
            "media.preset=pcm-lpddr2-nvm",
            "media.preset=pcm-p5q",
            "media.preset=pcm-ddr3-next",
            "media.stripe_bytes=3000",
            "media.program_ns=500",
        ]),
        one_of(&[
            "host.cores=1",
            "host.cores=2",
            "root_complex.late_write_ratio=0.02",
            "root_complex.placement=remote-dram",
            "host.core_ghz=2",
            "host.context_switch_ns=0",
            "nvme.shadow_doorbells=true",
            "nvme.parse_ns=700",
            "dc_express.fetch_entries=8",
        ]),
        prop::sample::select(&DRIVES[..]),
    )
}

/// A shipped drive by name, with overrides.
fn any_drive() -> impl Strategy<Value = (&'static str, Vec<String>)> {
    (any_link(), any_memory_and_host()).prop_map(
        |(((generation, lanes), payload, credits, other), (media, host, name))| {
            let set = [
                format!("link.generation={generation}"),
                format!("link.lanes={lanes}"),
                payload,
                credits,
                other,
                media,
                host,
                "dc_express.max_latency_us=100000".into(),
            ];
            (name, set.to_vec())
        },
    )
}

fn described((name, set): &(&'static str, Vec<String>)) -> Drive {
    drive(name, &set.iter().map(String::as_str).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lone_requests_are_never_faster_than_predicted_nor_slower_if_exact(
        any in any_drive(),
        rw in prop::sample::select(&["randread", "randwrite", "read"][..]),
        bytes in prop::sample::select(&[512u32, 1024, 4096, 6144, 12_288, 65_536, 135_168, 262_144][..]),
    ) {
        let (drive, job) = (described(&any), format!("rw={rw} bs={bytes} number_ios=12"));
        let latency = predicted(&drive, &job).latencies[0].clone().expect("a closed form");
        let (outcome, total) = (run(&drive, &job), latency.stages.total());
        prop_assert!(figures(&outcome).total.min() >= total, "{} of {}", figures(&outcome).total.min(), total);
        // An early acknowledged write makes the next one wait for its programming.
        if latency.certainty == Certainty::Exact && rw != "randwrite" {
            prop_assert_eq!(figures(&outcome).total.max(), total);
        }
    }

    #[test]
    fn no_drive_gives_more_than_predicted(
        any in any_drive(),
        rw in prop::sample::select(&["randread", "randwrite", "randrw rwmixread=100", "read", "write"][..]),
        bytes in prop::sample::select(&[512u32, 4096, 16_384, 262_144][..]),
        depth in 1..32u32,
        threads in 1..3u32,
    ) {
        let drive = described(&any);
        // At the end of the run, each bank may hold a unit of writes that were acknowledged early.
        let is_early = rw.ends_with("write") && drive.media.acknowledge == Acknowledge::Early;
        let (ios, left) = match bytes {
            262_144 => (60, 0.0),
            _ if is_early => (3000, f64::from(drive.media.channels * drive.media.banks_per_channel)),
            _ => (300, 0.0),
        };
        let job = format!("rw={rw} bs={bytes} iodepth={depth} numjobs={threads} number_ios={ios}");
        let (job_predicted, outcome) = (predicted(&drive, &job), run(&drive, &job));
        let loaded = job_predicted.loaded();
        // Requests in flight at the start and the end of the run use the resources partly outside it.
        let allowed = loaded.most_iops * outcome.elapsed.as_s() * 1.001 + f64::from(depth * threads) + left;
        prop_assert!(outcome.ios() as f64 <= allowed, "{} of {:?}, {}", outcome.iops(), loaded, job_predicted.bottleneck().resource);
        let least = job_predicted.latencies[0].as_ref().expect("a closed form").least;
        prop_assert!(figures(&outcome).total.min() >= least, "{} of {}", figures(&outcome).total.min(), least);
    }
}
