//! Several drives in one host, and register writes that fill a core's room: bounds, lone requests, refusals.

use crate::closed_forms::limited;
use crate::common::{close, counter, drive, jobs, run};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::KeyOverride;
use phaselink_studies::predict::{JobPrediction, predict};
use phaselink_studies::stream::EqualRequestStream;
use proptest::prelude::*;

/// A card of memory with a stack, changed in these ways.
fn memory_card(stack: &str, changes: &[&str]) -> Drive {
    let stack = format!("stack.preset={stack}");
    let own = ["host.preset=zen4-9654p", "host.variation=0", stack.as_str(), "nvme.interrupts=true"];
    drive("dram-card", &own.iter().chain(changes).copied().collect::<Vec<_>>())
}

fn predicted(drive: &Drive, job: &str) -> JobPrediction {
    predict(drive, &jobs(drive, job)).jobs.remove(0)
}

/// What is wrong with such a card.
fn wrong(changes: &[&str]) -> String {
    let changes: Vec<KeyOverride> = changes.iter().map(|text| KeyOverride::parse(text).expect("an override")).collect();
    let read = Drive::from_toml("card.toml", "preset = \"dram-card\"\n", &changes);
    read.map_or_else(|problems| problems.to_string(), |_| String::new())
}

#[test]
fn lone_request_to_several_drives_equals_the_closed_form_of_one() {
    for (stack, way) in [("linux-6", "ioengine=io_uring"), ("linux-6", "ioengine=io_uring hipri=1"), ("spdk", "")] {
        let [one, three] = [&[][..], &["drives=3"]].map(|changes| memory_card(stack, changes));
        let job = format!("{way} rw=randrw bs=4k number_ios=60");
        let (alone, among) = (predicted(&one, &job), predicted(&three, &job));
        assert_eq!(alone.latencies, among.latencies, "{stack} {way}");
        let outcome = run(&three, &job);
        for (latency, (_, found)) in among.latencies.iter().flatten().zip(outcome.jobs[0].directions()) {
            let total = latency.stages.total();
            assert_eq!((found.total.min(), found.total.max()), (total, total), "{stack} {way}");
        }
    }
}

#[test]
fn drive_limits_add_up_and_host_limits_count_once() {
    let slow = ["drives=3", "controller.read_core_ns=3000"];
    limited(&memory_card("spdk", &slow), "iodepth=96 numjobs=2 number_ios=6000", "drive processors", 0.98..=1.001);
    let narrow = ["drives=2", "link.generation=1", "link.lanes=1"];
    limited(&memory_card("spdk", &narrow), "iodepth=64 number_ios=3000", "wire to host", 0.98..=1.001);
    let (two, four) = (memory_card("linux-6", &["drives=2"]), memory_card("linux-6", &["drives=4"]));
    let job = "ioengine=io_uring hipri=1 bs=512 iodepth=64 number_ios=4000";
    let [(bound, _), (other, _)] = [two, four].map(|drive| limited(&drive, job, "cores", 0.9..=1.001));
    assert_eq!(bound.bottleneck().servers, other.bottleneck().servers);
}

#[test]
fn batch_rings_one_doorbell_per_drive() {
    let job =
        "ioengine=io_uring hipri=1 bs=512 iodepth=32 iodepth_batch=32 iodepth_batch_complete_min=32 number_ios=3200";
    let doorbells = |drives: u32| {
        let drive = memory_card("linux-6", &[&format!("drives={drives}")]);
        counter(&run(&drive, job), "doorbells")
    };
    // A hundred batches on each drive: one doorbell for the submissions and one for the completions of each.
    assert_eq!([1, 4].map(doorbells), [200, 800]);
}

#[test]
fn register_write_rate_is_limited_by_the_core() {
    let set = ["host.mmio_drain_ns=700", "host.mmio_room=4"];
    let job = "iodepth_batch=1 iodepth_batch_complete_max=32 iodepth=128 number_ios=6000 bs=512";
    limited(&memory_card("spdk", &set), job, "register writes", 0.95..=1.001);
    let threads = format!("{job} numjobs=2");
    let (one, two) = (predicted(&memory_card("spdk", &set), job), predicted(&memory_card("spdk", &set), &threads));
    assert!(close(two.bottleneck().saturation_iops(), 2.0 * one.bottleneck().saturation_iops(), 1e-9));
    // A thread that rings doorbells rarely is not limited by posted writes.
    let seldom = "iodepth=128 number_ios=6000 bs=512 iodepth_batch=64 iodepth_batch_complete_min=64";
    let (without, with) = (run(&memory_card("spdk", &[]), seldom), run(&memory_card("spdk", &set), seldom));
    assert!(close(with.iops(), without.iops(), 0.01), "{} {}", with.iops(), without.iops());
}

#[test]
fn ladder_of_several_drives_shows_one_and_says_so() {
    let stream = EqualRequestStream { rw: "randread", bs: "4k", iodepth: "1", skip: 8, requests: 1, seed: 1 };
    let [one, several] = [&[][..], &["drives=3"]].map(|changes| {
        let steps = stream.record(&memory_card("spdk", changes)).expect("a ladder");
        let ladder = steps.ladder();
        let (title, steps) = ladder.split_once('\n').expect("a title");
        (String::from(title), String::from(steps))
    });
    assert_eq!(one.1, several.1);
    assert_eq!(several.0, one.0.replace("dram-card", "dram-card, one of 3 drives, alone"));
}

#[test]
fn unsupported_settings_of_several_drives_are_refused() {
    for (changes, words) in [
        (&["drives=2", "interface=dc-express"][..], "drives is 2 with DC Express, whose driver serves one"),
        (&["drives=2", "nvme.shadow_doorbells=true"], "drives is 2 with NVMe with shadow doorbells"),
        (&["drives=64", "nvme.queue_pairs=4096"], "at most 65535 queue pairs in all"),
        (&["drives=0"], "drives is 0; allowed: whole number from 1 to 64"),
        (&["host.mmio_drain_ns=300"], "host.mmio_drain_ns is 300, and the stack has no stack.engines"),
        (&["stack.preset=spdk", "host.mmio_room=4"], "host.mmio_room is given with host.mmio_drain_ns 0"),
        (
            &["stack.preset=spdk", "host.mmio_drain_ns=300", "host.mmio_write_ns=0"],
            "host.mmio_drain_ns is 300 with host.mmio_write_ns 0",
        ),
    ] {
        let found = wrong(changes);
        assert!(found.contains(words), "{changes:?}: {found}");
    }
    assert_eq!(wrong(&["stack.preset=spdk", "host.mmio_drain_ns=300", "host.mmio_room=4", "drives=8"]), "");
}

#[test]
fn thread_may_fill_all_its_drives_queues_and_no_more() {
    let drive = memory_card("spdk", &["drives=3", "nvme.queue_entries=16", "nvme.fetch_entries=4"]);
    assert!(run(&drive, "iodepth=45 number_ios=500").finished);
    let one_more = phaselink_core::workload::fio::job_from_flags(&[("rw", "randread"), ("iodepth", "46")]).unwrap();
    let problems = one_more.resolve(&drive.limits(), &Default::default()).expect_err("no room").to_string();
    assert!(
        problems.contains("1 to 45, since a queue of 16 entries on each of 3 drives keeps one empty"),
        "{problems}"
    );
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(values)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_drives_stay_within_the_predicted_throughput(
        drives in prop::sample::select(&[2u16, 3, 7][..]),
        way in one_of(&[
            "ioengine=io_uring",
            "ioengine=io_uring hipri=1 fixedbufs=1 registerfiles=1",
            "ioengine=io_uring sqthread_poll=1",
            "ioengine=io_uring_cmd hipri=1",
            "ioengine=libaio",
        ]),
        together in one_of(&["", "iodepth_batch=8", "iodepth_batch=16 iodepth_batch_complete_min=4 iodepth_batch_complete_max=16"]),
        rw in one_of(&["randread", "randwrite", "randrw", "read", "rw rwmixread=80"]),
        bs in one_of(&["512", "4k", "64k"]),
        limit in one_of(&[
            "host.mmio_drain_ns=0",
            "host.mmio_drain_ns=900",
            "link.generation=1",
            "controller.read_core_ns=4000",
            "nvme.fetch_entries=1",
            "media.channels=1",
        ]),
        depth in 16..48u32,
        threads in 1..3u32,
    ) {
        let drive = memory_card("linux-6", &[&format!("drives={drives}"), limit]);
        let job = format!("{way} {together} rw={rw} bs={bs} iodepth={depth} numjobs={threads} number_ios=240");
        let (job_predicted, outcome) = (predicted(&drive, &job), run(&drive, &job));
        let loaded = job_predicted.loaded();
        // Requests in flight at the start and the end of the run use the resources partly outside it.
        let allowed = loaded.most_iops * outcome.elapsed.as_s() * 1.001 + f64::from(depth * threads);
        prop_assert!(outcome.ios() as f64 <= allowed, "{} of {:?}, {}", outcome.iops(), loaded, job_predicted.bottleneck().resource);
        let figures = outcome.jobs[0].directions();
        for (latency, (_, found)) in job_predicted.latencies.iter().flatten().zip(figures) {
            prop_assert!(found.total.min() >= latency.least, "{} of {}", found.total.min(), latency.least);
        }
    }
}
