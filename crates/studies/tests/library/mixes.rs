//! Mixes of reads and writes and of sizes: what is predicted of them holds, with as many of each as were drawn.

use crate::common::{self, drive, jobs};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{DirectionOutcome, Outcome};
use phaselink_core::simulation::simulate;
use phaselink_core::workload::{BlockShare, Job};
use phaselink_studies::predict::{LoadBounds, predict};
use proptest::prelude::*;
use proptest::sample::select;

/// Share of the expected throughput that is reached at least: most mixes reach more than three quarters, and the worst of a
/// thousand 0.44. Rare writes that are acknowledged early gather reads behind them at one bank while others are idle; requests
/// that need several banks wait for the slowest.
const EXPECTED_SHARE: f64 = 0.35;

/// The job, with shares as they were drawn instead of as they were asked for.
fn job_with_drawn_shares(job: &Job, outcome: &Outcome) -> Job {
    let mut job = job.clone();
    let found = &outcome.jobs[0];
    job.read_percent = 100.0 * found.read.ios as f64 / outcome.ios() as f64;
    set_drawn_block_shares(&mut job.read_blocks, &found.read);
    set_drawn_block_shares(&mut job.write_blocks, &found.write);
    job
}

/// Of two sizes, so many of each as have these bytes together.
fn set_drawn_block_shares(blocks: &mut [BlockShare], found: &DirectionOutcome) {
    if let [small, large] = blocks
        && found.ios > 0
    {
        let mean_bytes = found.bytes as f64 / found.ios as f64;
        large.percent = 100.0 * (mean_bytes - f64::from(small.bytes)) / f64::from(large.bytes - small.bytes);
        small.percent = 100.0 - large.percent;
    }
}

/// What is predicted of a job with the shares that were drawn in its run, and that.
fn predicted_and_run(drive: &Drive, job: &str) -> (LoadBounds, Outcome) {
    let jobs = jobs(drive, job);
    let outcome = simulate(drive, &jobs, 1).unwrap_or_else(|problems| panic!("{problems}"));
    (predict(drive, &[job_with_drawn_shares(&jobs[0], &outcome)]).jobs.remove(0).loaded(), outcome)
}

fn mean_ns(outcome: &Outcome) -> f64 {
    let sum = outcome.jobs[0].directions().map(|(_, found)| found.total.mean_ns() * found.ios as f64).sum::<f64>();
    sum / outcome.ios() as f64
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(values).prop_map(String::from)
}

fn any_drive() -> impl Strategy<Value = Drive> {
    let names = select(
        &[
            "nvme",
            "nvme-polled",
            "dc-express",
            "dc-express-block",
            "capi",
            "cxl",
            "moneta",
            "moneta-block",
            "pss-block",
            "ramdisk",
            "capi-pcm-next",
            "pcie-pcm-next",
            "nvme-ssd-gen3",
            "fusion-io",
            "optane-p5800x",
            "tlc-gen4",
        ][..],
    );
    let parts = (
        one_of(&["host.cores=4", "media.preset=dram", "media.preset=pcm-moneta", "media.preset=nand-slc"]),
        one_of(&["media.acknowledge=early", "media.acknowledge=late", "media.banks_per_channel=2"]),
        one_of(&["link.preset=gen1-x8", "link.preset=gen4-x4", "host.cores=2"]),
    );
    // Flash with a translation layer has fixed memory keys, so these drives get no memory settings.
    (names, parts).prop_map(|(name, (memory, writes, link))| match name {
        "tlc-gen4" | "optane-p5800x" => drive(name, &[&link]),
        _ => drive(name, &[&memory, &writes, &link]),
    })
}

/// Reads and writes, or sizes, or both.
fn any_mix() -> impl Strategy<Value = String> {
    let sizes = one_of(&["bs=4k", "bssplit=4k/50:64k/50", "bssplit=512/80:16k/20", "bssplit=4k/90:128k/10"]);
    let shares = one_of(&["rw=randrw rwmixread=10", "rw=randrw rwmixread=50", "rw=randrw rwmixread=90", "rw=randread"]);
    (sizes, shares).prop_map(|(sizes, shares)| format!("{shares} {sizes}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mixed_jobs_stay_within_bounds_near_their_expected_rate(
        drive in any_drive(),
        mix in any_mix(),
        depth in select(&[1u32, 2, 4, 8, 16, 32, 60][..]),
    ) {
        let ios = 120 * depth.max(16);
        let (loaded, outcome) = predicted_and_run(&drive, &format!("{mix} iodepth={depth} number_ios={ios}"));
        let found = format!("{}: {} IOPS, {} ns of {loaded:?}", drive.name, outcome.iops(), mean_ns(&outcome));
        // Requests in flight at the start and the end of the run use the resources partly outside it.
        let allowed = loaded.most_iops * outcome.elapsed.as_s() * 1.001 + f64::from(depth);
        prop_assert!(outcome.ios() as f64 <= allowed, "{found}");
        // The first and last requests compete with fewer others, and a slot is empty until its thread fills it.
        let ends = 4.0 * f64::from(depth) / outcome.ios() as f64;
        prop_assert!(loaded.least_ns.is_none_or(|least_ns| mean_ns(&outcome) >= least_ns * (1.0 - ends)), "{found}");
        prop_assert!(loaded.balanced_iops.is_none_or(|iops| outcome.iops() >= EXPECTED_SHARE * iops), "{found}");
    }
}

/// Short reads that wait behind long writes: as if all were of mean length, half as many again would be expected.
#[test]
fn mixed_sizes_are_expected_to_wait_for_long_requests() {
    let few_banks = drive("nvme-polled", &["media.channels=1", "media.banks_per_channel=4"]);
    let job = "rw=randrw rwmixread=90 bs=4k iodepth=8 number_ios=8000";
    let (loaded, outcome) = predicted_and_run(&few_banks, job);
    let expected = loaded.balanced_iops.expect("a closed form");
    assert!(common::close(outcome.iops(), expected, 0.25), "{} {loaded:?}", outcome.iops());
}
