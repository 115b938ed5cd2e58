//! Hosts whose engines differ: what a lone request takes, what those share that go together, who waits how, and what is
//! refused.

use crate::common::{counter, drive, jobs, run};
use phaselink_core::closed_form::Certainty;
use phaselink_core::drive::Drive;
use phaselink_core::simulation::simulate;
use phaselink_core::workload::fio;
use phaselink_studies::predict::predict;
use proptest::prelude::*;

const KERNELS: [&str; 3] = ["linux-4.14", "linux-5", "linux-6"];

/// A drive with memory as fast as can be behind a host of today, whose software takes its mean times.
fn fast_drive_on_modern_host(stack: &str, changes: &[&str]) -> Drive {
    let stack = format!("stack.preset={stack}");
    let own =
        ["host.preset=zen4-9654p", "host.wait=sleep", "host.variation=0", "media.preset=dram", "link.preset=gen4-x4"];
    let all: Vec<&str> = own.iter().chain(&[stack.as_str(), "nvme.queue_pairs=8"]).chain(changes).copied().collect();
    drive("nvme", &all)
}

/// What keeps a job from running, in words.
fn refusal_text(drive: &Drive, options: &[(&str, &str)]) -> String {
    let file = fio::job_from_flags(options).expect("options are right by themselves");
    file.resolve(&drive.limits(), &Default::default()).map_or_else(|problems| problems.to_string(), |_| String::new())
}

fn iops(drive: &Drive, job: &str) -> f64 {
    run(drive, job).iops()
}

fn mean_ns(drive: &Drive, job: &str) -> f64 {
    let outcome = run(drive, job);
    outcome.jobs[0].directions().next().expect("requests were counted").1.total.mean_ns()
}

/// Engines of a stack with their switches.
fn ways(stack: &str) -> Vec<&'static str> {
    let mut ways = vec!["ioengine=libaio", "ioengine=psync", "ioengine=pvsync2 hipri=1"];
    match stack {
        "spdk" => ways = vec!["ioengine=spdk"],
        "linux-4.14" => {}
        _ => ways.extend([
            "ioengine=io_uring",
            "ioengine=io_uring registerfiles=1 fixedbufs=1",
            "ioengine=io_uring hipri=1 nonvectored=1",
            "ioengine=io_uring sqthread_poll=1",
            "ioengine=io_uring sqthread_poll=1 hipri=1 fixedbufs=1",
        ]),
    }
    if stack == "linux-6" {
        ways.extend(["ioengine=io_uring_cmd", "ioengine=io_uring_cmd hipri=1 fixedbufs=1 registerfiles=1"]);
    }
    ways
}

#[test]
fn lone_request_equals_its_closed_form_for_all_io_engines() {
    for stack in KERNELS.into_iter().chain(["spdk"]) {
        let drive = fast_drive_on_modern_host(stack, &[]);
        for way in ways(stack) {
            for (rw, bs) in [("randread", "512"), ("randread", "4k"), ("randwrite", "4k"), ("randread", "64k")] {
                let job = format!("{way} rw={rw} bs={bs} number_ios=20");
                let prediction = predict(&drive, &jobs(&drive, &job)).jobs.remove(0);
                let latency = prediction.latencies[0].clone().expect("it has a closed form");
                assert_eq!(latency.certainty, Certainty::Exact, "{stack} {job}");
                let outcome = run(&drive, &job);
                let found = outcome.jobs[0].directions().next().expect("requests were counted").1;
                let total = latency.stages.total();
                assert_eq!((found.total.min(), found.total.max()), (total, total), "{stack} {job}");
            }
        }
    }
}

#[test]
fn files_and_schedulers_add_to_a_lone_request() {
    for change in
        ["stack.filesystem=ext4", "stack.filesystem=xfs", "stack.scheduler=mq-deadline", "stack.scheduler=bfq"]
    {
        let (plain, drive) =
            (fast_drive_on_modern_host("linux-6", &[]), fast_drive_on_modern_host("linux-6", &[change]));
        let job = "ioengine=io_uring rw=randwrite bs=4k number_ios=20";
        let prediction = predict(&drive, &jobs(&drive, job)).jobs.remove(0);
        let mean = mean_ns(&drive, job);
        assert!((mean - prediction.alone_ns().unwrap()).abs() < 0.01, "{change}");
        assert!(mean > mean_ns(&plain, job) + 300.0, "{change}");
    }
}

#[test]
fn iommu_costs_each_request_its_mode() {
    let mean = |mode: &str| {
        let drive = fast_drive_on_modern_host("linux-6", &[&format!("stack.iommu={mode}")]);
        mean_ns(&drive, "ioengine=io_uring rw=randread bs=4k number_ios=20") / drive.software_ratio()
    };
    let passthrough = mean("passthrough");
    for (mode, costs) in [("lazy", 180.0 + 138.0), ("strict", 400.0 + 1155.0)] {
        let more = mean(mode) - passthrough;
        assert!((more - costs).abs() < 0.01, "{mode}: {more}");
    }
}

#[test]
fn page_lists_cost_only_requests_above_one_page() {
    let with_list = |list: &str| {
        fast_drive_on_modern_host("linux-6", &[&format!("stack.stages=[{{ name = 'driver', submit_ns = 10{list} }}]")])
    };
    let (drive, without) = (with_list(", submit_list_ns = 500, complete_list_ns = 100"), with_list(""));
    for (bs, expected) in [("4k", 0.0), ("8k", 600.0), ("64k", 600.0)] {
        let job = format!("ioengine=io_uring fixedbufs=1 rw=randread bs={bs} number_ios=20");
        let more = (mean_ns(&drive, &job) - mean_ns(&without, &job)) / drive.software_ratio();
        assert!((more - expected).abs() < 0.01, "{bs}: {more}, not {expected}");
    }
}

#[test]
fn no_io_engine_exceeds_its_bound() {
    for stack in KERNELS.into_iter().chain(["spdk"]) {
        let drive = fast_drive_on_modern_host(stack, &[]);
        for way in ways(stack).into_iter().filter(|way| !way.contains("sync")) {
            for batch in
                ["", " iodepth_batch=8 iodepth_batch_complete_min=4 iodepth_batch_complete_max=16", " iodepth_batch=0"]
            {
                let job = format!("{way}{batch} rw=randread bs=4k iodepth=32 number_ios=4000");
                let loaded = predict(&drive, &jobs(&drive, &job)).jobs.remove(0).loaded();
                let found = iops(&drive, &job);
                assert!(found <= loaded.most_iops * 1.001, "{stack} {job}: {found} over {}", loaded.most_iops);
            }
        }
    }
}

#[test]
fn batched_requests_share_a_doorbell_and_a_system_call() {
    let drive = fast_drive_on_modern_host("linux-6", &[]);
    let job = |batch: u32| {
        format!(
            "ioengine=io_uring rw=randread bs=512 iodepth=32 number_ios=3200 iodepth_batch={batch} \
             iodepth_batch_complete_min={batch} hipri=1"
        )
    };
    let (one, eight) = (run(&drive, &job(1)), run(&drive, &job(8)));
    // Each request has a doorbell for submission and one for completion. Fewer are needed if a completion arrives
    // between the poll and the doorbell.
    assert!((6300..=6400).contains(&counter(&one, "doorbells")), "{}", counter(&one, "doorbells"));
    assert!((780..=800).contains(&counter(&eight, "doorbells")), "{}", counter(&eight, "doorbells"));
    assert_eq!(counter(&eight, "interrupts"), 0, "who looks has no interrupts");
    assert!(eight.iops() > one.iops() * 1.3, "{} {}", eight.iops(), one.iops());
}

#[test]
fn request_with_more_parts_than_queue_entries_completes() {
    for entries in [32, 64, 128] {
        let drive =
            fast_drive_on_modern_host("spdk", &["nvme.max_transfer_kib=4", &format!("nvme.queue_entries={entries}")]);
        let outcome = run(&drive, "rw=randrw bs=512k iodepth=2 number_ios=20");
        assert!(outcome.finished, "{entries}");
        assert_eq!(outcome.ios(), 20, "{entries}");
    }
}

#[test]
fn sleeping_poll_thread_is_woken_and_a_spinning_one_needs_no_call() {
    let idle = |idle: &str| fast_drive_on_modern_host("linux-6", &[idle]);
    let job = "ioengine=io_uring sqthread_poll=1 rw=randread bs=512 number_ios=50 thinktime=1000";
    let awake = mean_ns(&idle("stack.poller_idle_us=2000"), job);
    let asleep = mean_ns(&idle("stack.poller_idle_us=500"), job);
    // Every request except the first finds the poll thread asleep, which costs 32 us.
    assert!((asleep - awake - 32_000.0 * 49.0 / 50.0).abs() < 1.0, "{asleep} {awake}");
}

#[test]
fn stack_costs_with_a_clock_are_cycles() {
    let stage = |ghz: &str| {
        let drive = fast_drive_on_modern_host("linux-6", &[ghz]);
        let outcome = run(&drive, "ioengine=io_uring bs=4k number_ios=5");
        let found = outcome.jobs[0].directions().next().unwrap().1;
        let times: Vec<_> = found.stages.named(&outcome.stack_stages).collect();
        times.iter().find(|(name, _)| *name == "block layer").unwrap().1.as_ns() / 5.0
    };
    // The stage takes 736 ns at 2.4 GHz. This core does 0.684 times as much work per clock.
    assert!((stage("host.core_ghz=3.69") - 736.0 * 2.4 / (3.69 * 0.684)).abs() < 0.01);
    assert!((stage("host.core_ghz=2.3") - 736.0 * 2.4 / (2.3 * 0.684)).abs() < 0.01);
}

#[test]
fn slower_core_slows_software_and_handlers_but_not_registers() {
    let stages = |set: &[&str]| {
        let outcome = run(&fast_drive_on_modern_host("linux-6", set), "ioengine=io_uring bs=4k number_ios=5");
        let found = outcome.jobs[0].directions().next().unwrap().1.clone();
        let time =
            |name: &str| found.stages.named(&outcome.stack_stages).find(|it| it.0 == name).unwrap().1.as_ns() / 5.0;
        ["block layer", "interrupt", "driver"].map(time)
    };
    let whole = stages(&["host.idle_states=none", "host.cold_ns=0", "host.core_ghz=2.4", "host.ipc=1"]);
    let half = stages(&["host.idle_states=none", "host.cold_ns=0", "host.core_ghz=2.4", "host.ipc=0.5"]);
    assert!((half[0] - 2.0 * whole[0]).abs() < 0.01, "{whole:?} {half:?}");
    // At half the instructions per clock, handler and wake-up take twice as long (422 and 373 ns more). The interrupt
    // message does not.
    assert!((half[1] - whole[1] - 795.0).abs() < 0.01, "{whole:?} {half:?}");
    assert!((half[2] - whole[2]).abs() < 0.01, "{whole:?} {half:?}");
}

#[test]
fn application_cost_is_charged_to_each_request() {
    let application = |set: &[&str]| {
        let outcome = run(&fast_drive_on_modern_host("linux-6", set), "ioengine=io_uring bs=4k number_ios=5");
        let found = outcome.jobs[0].directions().next().unwrap().1;
        found.stages.named(&outcome.stack_stages).find(|it| it.0 == "application").unwrap().1.as_ns() / 5.0
    };
    let ratio = 2.4 / (3.69 * 0.684);
    assert!((application(&[]) - 172.2 * ratio).abs() < 0.01);
    assert!((application(&["stack.application=fio"]) - 492.0 * ratio).abs() < 0.01);
}

#[test]
fn interrupt_coalescing_fires_at_its_threshold_or_timeout() {
    let drive = fast_drive_on_modern_host("linux-6", &["nvme.coalescing_entries=4", "nvme.coalescing_us=100"]);
    let outcome = run(&drive, "ioengine=io_uring bs=512 iodepth=16 number_ios=1600 rw=randread");
    assert!(counter(&outcome, "interrupts") < 1600 / 4 + 16, "{}", counter(&outcome, "interrupts"));
    let alone = mean_ns(&drive, "ioengine=io_uring bs=512 number_ios=10 rw=randread");
    let plain =
        mean_ns(&fast_drive_on_modern_host("linux-6", &[]), "ioengine=io_uring bs=512 number_ios=10 rw=randread");
    // A lone request waits for its interrupt for 100 us, after which the core's caches are cold.
    assert!((99_000.0..104_000.0).contains(&(alone - plain)), "{alone} {plain}");
}

#[test]
fn long_wait_finds_the_core_in_deep_idle_unless_disabled() {
    let slow = ["media.preset=nand-mlc", "host.preset=skylake-sp-8180"];
    let deep = fast_drive_on_modern_host("linux-6", &slow);
    let light = fast_drive_on_modern_host("linux-6", &[slow[0], slow[1], "host.idle_states=c1"]);
    let job = "ioengine=io_uring bs=4k number_ios=20 rw=randread";
    let saved = mean_ns(&deep, job) - mean_ns(&light, job);
    // The exit time changes from 5000 ns (C1E, after more than 20 us) to 1000 ns (C1).
    assert!((saved - 4000.0).abs() < 1.0, "{saved}");
}

#[test]
fn lock_shared_by_all_queues_bounds_many_cores() {
    let rate = |scheduler: &str| {
        let set = format!("stack.scheduler={scheduler}");
        let drive = fast_drive_on_modern_host("linux-6", &[&set, "media.channels=32", "link.preset=gen6-x4"]);
        iops(&drive, "ioengine=io_uring bs=512 iodepth=16 numjobs=8 number_ios=2000 rw=randread fixedbufs=1")
    };
    let (none, bfq) = (rate("none"), rate("bfq"));
    let held_ns = 950.0 * 2.4 / (3.69 * 0.71);
    assert!(bfq < 1e9 / held_ns, "{bfq} is more than one lock of {held_ns} ns allows");
    assert!(none > bfq * 1.5, "{none} {bfq}");
}

#[test]
fn settings_without_effect_are_refused() {
    let (old, new) = (drive("nvme", &[]), fast_drive_on_modern_host("linux-6", &[]));
    for (name, value) in [("hipri", "1"), ("iodepth_batch", "4"), ("sqthread_poll", "1"), ("iodepth_low", "2")] {
        let found =
            refusal_text(&old, &[("ioengine", "io_uring"), ("iodepth", "8"), ("number_ios", "9"), (name, value)]);
        assert!(found.contains(name) && found.contains("docs/hosts.md"), "{name}: {found}");
    }
    for (options, word) in [
        (&[("ioengine", "posixaio")][..], "posixaio"),
        (&[("ioengine", "spdk")], "spdk"),
        (&[("ioengine", "psync"), ("hipri", "1")], "pvsync2"),
        (&[("ioengine", "libaio"), ("fixedbufs", "1")], "fixedbufs"),
        (&[("sqthread_poll_cpu", "3")], "sqthread_poll"),
        (&[("sqthread_poll", "1"), ("sqthread_poll_cpu", "0")], "processor of a thread"),
        (&[("sqthread_poll", "1"), ("numjobs", "90")], "poll threads"),
        (&[("nonvectored", "1"), ("fixedbufs", "1")], "nonvectored"),
        (&[("iodepth", "8"), ("iodepth_batch_complete_min", "4"), ("iodepth_batch_complete_max", "2")], "complete_max"),
    ] {
        let mut all = vec![("number_ios", "9")];
        all.extend(options);
        let found = refusal_text(&new, &all);
        assert!(found.contains(word), "{options:?}: {found}");
    }
    assert_eq!(refusal_text(&new, &[("number_ios", "9"), ("hipri", "1")]), "");
    for (key, word) in
        [("ipc = 1", "stack.clock_ghz"), ("application = \"fio\"", "no stage of the stack depends on it")]
    {
        let text = format!("preset = \"nvme\"\n[stack]\n{key}\n");
        let found = Drive::from_toml("t", &text, &[]).expect_err(key).to_string();
        assert!(found.contains(word), "{key}: {found}");
    }
}

/// Hosts, queues and jobs of all kinds, mixed: whatever runs has to come to its end with ledgers that add up, below its
/// bounds, and no request faster than the least that it can take.
fn any_host_and_job() -> impl Strategy<Value = (Vec<String>, String)> {
    let host = (1u16..5, 1u16..5, 1u8..3, prop_oneof![Just("0"), Just("0.09")]);
    let stack = (
        prop_oneof![Just("linux-4.14"), Just("linux-5"), Just("linux-6"), Just("spdk")],
        prop_oneof![Just("none"), Just("mq-deadline"), Just("kyber"), Just("bfq")],
        prop_oneof![Just("none"), Just("c1"), Just("c6")],
        prop_oneof![Just("sleep"), Just("spin"), Just("hybrid")],
        prop_oneof![Just("false"), Just("true")],
    );
    let job = (0usize..9, 1u32..40, 0u32..20, 0u32..20, 0u32..20, 0u32..40);
    let load = (
        1u32..5,
        prop_oneof![Just("randread"), Just("randrw"), Just("write")],
        prop_oneof![Just("512"), Just("4k"), Just("256k")],
        prop_oneof![
            Just(""),
            Just(" rate_iops=20000"),
            Just(" thinktime=30"),
            Just(" rate_iops=50k rate_process=poisson")
        ],
    );
    (host, stack, job, load).prop_map(|(host, stack, job, load)| {
        let (cores, pairs, threads, variation) = host;
        let (preset, scheduler, idle, wait, shadow) = stack;
        let scheduler = if preset == "spdk" { "none" } else { scheduler };
        let changes = vec![
            format!("host.cores={cores}"),
            format!("nvme.queue_pairs={pairs}"),
            format!("host.threads_per_core={threads}"),
            format!("host.variation={variation}"),
            format!("stack.preset={preset}"),
            format!("stack.scheduler={scheduler}"),
            format!("host.idle_states={idle}"),
            format!("host.wait={wait}"),
            format!("nvme.shadow_doorbells={shadow}"),
        ];
        let ways: Vec<&str> = ways(preset).into_iter().filter(|way| !way.contains("sync") || job.1 == 1).collect();
        let (way, depth, submit, least, most, low) = job;
        let (way, most) = (ways[way % ways.len()], if most == 0 { 0 } else { most.max(least) });
        let (numjobs, rw, bs, pace) = load;
        let job = format!(
            "{way} iodepth={depth} iodepth_batch={submit} iodepth_batch_complete_min={least} \
             iodepth_batch_complete_max={most} iodepth_low={low} numjobs={numjobs} rw={rw} bs={bs} number_ios=300 io_size=1t{pace}"
        );
        (changes, job)
    })
}

/// Returns the options of a job that issues ten times as many requests.
fn long<'a>(options: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let longer = |&(name, value): &(&'a str, &'a str)| (name, if name == "number_ios" { "3000" } else { value });
    options.iter().map(longer).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_hosts_and_jobs_complete_within_their_bounds((changes, job) in any_host_and_job()) {
        let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
        let drive = fast_drive_on_modern_host("linux-6", &changes);
        let options: Vec<(&str, &str)> = job.split_whitespace().map(|word| word.split_once('=').unwrap()).collect();
        let file = fio::job_from_flags(&options).unwrap();
        let Ok(jobs) = file.resolve(&drive.limits(), &Default::default()) else { return Ok(()) };
        let outcome = simulate(&drive, &jobs, 1).unwrap();
        prop_assert_eq!(outcome.jobs[0].directions().map(|(_, found)| found.ios).sum::<u64>(), 300 * u64::from(jobs[0].threads));
        let prediction = predict(&drive, &jobs).jobs.remove(0);
        // At the start and the end of a run fewer requests compete, and a few random service times may be short: in a run
        // ten times as long, both weigh a tenth.
        let most = prediction.bottleneck().saturation_iops() * 1.1;
        if outcome.iops() > most {
            let long = fio::job_from_flags(&long(&options)).unwrap().resolve(&drive.limits(), &Default::default()).unwrap();
            let iops = simulate(&drive, &long, 1).unwrap().iops();
            prop_assert!(iops <= most, "{iops}, in a short run {}, over {most}", outcome.iops());
        }
    }
}

#[test]
fn depth_dependent_stage_slows_only_deep_queues() {
    let with_depth = |depth_ns: u32| {
        let stage =
            format!("{{ name = 'waiters', after = 'lock and tail', user = true, submit_depth_ns = {depth_ns} }}");
        let text = format!("preset = 'slc-gen7'\n[stack]\npreset = 'gpu-queues'\nstages = [{stage}]\n");
        Drive::from_toml("gpu.toml", &text, &[]).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let [plain, slow] = [0, 20].map(with_depth);
    let lone = "rw=randread bs=512 iodepth=1 number_ios=200";
    assert_eq!(mean_ns(&plain, lone), mean_ns(&slow, lone));
    let deep = "rw=randread bs=512 iodepth=128 iodepth_batch=1 number_ios=2000";
    // With about 100 other commands in flight, each command costs its thread 2 us more.
    assert!(iops(&slow, deep) < 0.5 * iops(&plain, deep));
}
