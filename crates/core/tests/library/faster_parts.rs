//! A faster part never makes the whole slower; who shares something gets less of it.

use crate::common::{close, drive, reads, run};
use phaselink_core::ledger::Stage;

fn mean_ns(name: &str, set: &[&str], job: &str) -> f64 {
    run(&drive(name, set), job).jobs[0].directions().next().expect("requests were counted").1.total.mean_ns()
}

#[test]
fn large_reads_are_no_slower_over_gen6_than_gen5() {
    for bs in ["16k", "64k", "128k"] {
        let job = format!("bs={bs} number_ios=50");
        let [fifth, sixth] =
            [5, 6].map(|generation| mean_ns("nvme-polled", &[&format!("link.generation={generation}")], &job));
        // The completion entry may wait for credits, which return one round trip after they were spent.
        assert!(sixth <= fifth + 200.0, "{bs}: {fifth} {sixth}");
    }
}

#[test]
fn faster_links_and_cells_slow_no_interrupt_driven_host() {
    let iops = |name, depth, key: &str| {
        let job = format!("bs=4k iodepth={depth} number_ios=8000");
        run(&drive(name, &["host.variation=0.09", key]), &job).iops()
    };
    for depth in [4, 8, 32] {
        for (name, slow, fast) in [
            ("nvme", "link.preset=gen2-x4", "link.preset=gen6-x4"),
            ("nvme", "media.read_ns=400", "media.read_ns=50"),
            ("pcie-pcm-next", "media.bus_bytes_per_ns=2", "media.bus_bytes_per_ns=4"),
        ] {
            let (slow, fast) = (iops(name, depth, slow), iops(name, depth, fast));
            assert!(fast > 0.995 * slow, "{name} at depth {depth}: {slow} {fast}");
        }
    }
}

#[test]
fn interrupt_preempts_work_on_its_core() {
    // The copy is so slow that the core is busy for most of the time.
    let interrupt = |depth: u32| {
        let outcome =
            run(&drive("nvme", &["stack.copy_bytes_per_ns=0.1"]), &format!("bs=4k iodepth={depth} number_ios=2000"));
        reads(&outcome).stages.get(Stage::Interrupt).as_ns() / 2000.0
    };
    let (alone, others) = (interrupt(1), interrupt(8));
    assert!(others <= alone, "a handler does not wait for the work under way: {alone} {others}");
}

#[test]
fn software_time_is_exact_unless_variation_is_set() {
    let spread = |set: &[&str]| {
        let outcome = run(&drive("nvme-polled", set), "bs=4k number_ios=2000");
        let total = outcome.jobs[0].read.total.clone();
        (total.max().as_ns() - total.min().as_ns(), total.mean_ns())
    };
    let (none, exact) = spread(&[]);
    let (some, mean) = spread(&["host.variation=0.09"]);
    assert_eq!(none, 0.0);
    assert!(some > 100.0 && close(mean, exact, 0.01), "{some} {mean} {exact}");
}

#[test]
fn sibling_threads_exceed_one_core_but_not_two() {
    let iops = |set: &[&str], threads: u32| {
        let free =
            ["media.preset=dram", "media.channels=16", "link.preset=gen4-x4", "link.lanes=16", "nvme.queue_pairs=2"];
        let set = [&free[..], set].concat();
        run(&drive("nvme-polled", &set), &format!("bs=512 iodepth=64 numjobs={threads} number_ios=20000")).iops()
    };
    let one = iops(&["host.cores=1"], 1);
    let shared = iops(&["host.cores=1", "host.threads_per_core=2", "host.thread_yield=0.42"], 2);
    let apart = iops(&["host.cores=2"], 2);
    assert!(close(shared, 1.42 * one, 0.03) && apart > 1.9 * one, "{one} {shared} {apart}");
}

#[test]
fn waiting_stages_cost_the_sibling_thread_nothing() {
    let iops = |stages: &str, threads: u32| {
        let stages = format!("stack.stages=[{stages}]");
        let set = [
            "media.preset=dram",
            "media.channels=16",
            "link.preset=gen4-x4",
            "link.lanes=16",
            "nvme.queue_pairs=2",
            "stack.preset=spdk",
            "host.cores=1",
            "host.threads_per_core=2",
            "host.thread_yield=0.2",
            &stages,
        ];
        run(&drive("nvme-polled", &set), &format!("bs=512 iodepth=64 numjobs={threads} number_ios=20000")).iops()
    };
    let work = "{ name = 'work', user = true, submit_ns = 700 }";
    let waits = format!("{work}, {{ name = 'stamp', user = true, submit_ns = 300, stalls = true }}");
    let gain = |stages: &str| iops(stages, 2) / iops(stages, 1);
    assert!(close(gain(work), 1.2, 0.05), "{}", gain(work));
    // 700 ns of work take 700 * 2 / 1.2 ns beside the sibling thread, and the wait takes 300 ns in either case.
    let expected = 2.0 * 1000.0 / (700.0 * 2.0 / 1.2 + 300.0);
    assert!(close(gain(&waits), expected, 0.05), "{} {expected}", gain(&waits));
}

#[test]
fn completion_packets_have_the_hosts_size() {
    let transfer = |bytes: &str| {
        let set = ["link.preset=gen3-x4", "link.max_payload_bytes=256", bytes];
        let outcome = run(&drive("nvme-polled", &set), "rw=randwrite bs=4k number_ios=20");
        outcome.downstream.packets / 20
    };
    let (small, whole) = (transfer("link.completion_bytes=64"), transfer("link.completion_bytes=0"));
    assert_eq!(small - whole, 4096 / 64 - 4096 / 256);
}

#[test]
fn user_data_and_rings_can_have_separate_locations() {
    let stage = |set: &[&str], stage: Stage| {
        run(&drive("nvme-polled", set), "rw=randwrite bs=4k number_ios=20").jobs[0].write.stages.get(stage).as_ns()
            / 20.0
    };
    let (data, rings) = (["root_complex.data_placement=dram"], ["root_complex.placement=dram"]);
    assert!(close(stage(&data, Stage::HostRead) - stage(&[], Stage::HostRead), 60.0, 1e-6));
    assert_eq!(stage(&data, Stage::Fetch), stage(&[], Stage::Fetch));
    assert_eq!(stage(&rings, Stage::HostRead), stage(&[], Stage::HostRead));
    assert!(close(stage(&rings, Stage::Fetch) - stage(&[], Stage::Fetch), 60.0, 1e-6));
}

#[test]
fn cached_translations_are_free_and_others_cost_a_walk() {
    let mean = |set: &[&str]| mean_ns("nvme-polled", set, "rw=randwrite bs=4k number_ios=500");
    let (off, held) = (mean(&[]), mean(&["root_complex.iommu=true"]));
    assert!(held - off < 30.0, "a few pages are walked for once: {off} {held}");
    let one = mean(&["root_complex.iommu=true", "root_complex.iommu_entries=1"]);
    assert!(one - off > 500.0, "ring, data, completion queue take turns: {off} {one}");
}
