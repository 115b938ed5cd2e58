//! What threads on many cores cost each other: locks, shared lines, mutexes, the kernel's worker, wake-ups.

use crate::common::{close, drive, ns, reads, run};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{Outcome, Stage};
use phaselink_core::time::Span;
use proptest::prelude::*;

/// NVMe over a fast memory with a queue pair a core, and these stages; lines travel 30 ns within and 110 ns between
/// sockets.
fn stages(wait: &str, stages: &str) -> Drive {
    let text = format!(
        "preset = \"nvme\"\n\
         host = {{ wait = \"{wait}\", cores = 8, core_ghz = 3.8, cache_line_transfer_ns = 30, remote_line_transfer_ns = 110, variation = 0 }}\n\
         nvme = {{ queue_pairs = 8, interrupts = {} }}\n\
         media = {{ banks_per_channel = 64 }}\n\
         stack = {{ stages = [{stages}] }}\n",
        wait == "sleep",
    );
    Drive::from_toml("contended.toml", &text, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Time that all reads together spent in the first stage of the stack.
fn first_stage_time(outcome: &Outcome) -> Span {
    reads(outcome).stages.get(Stage::stack(0))
}

#[test]
fn lock_transfer_costs_its_cache_line() {
    let drive = stages("spin", "{ name = 'a', submit_ns = 1000, lock = 'x' }");
    let spent = |threads: u32| first_stage_time(&run(&drive, &format!("bs=512 numjobs={threads} number_ios=1")));
    assert_eq!(spent(1), ns(1000.0));
    // The second thread waits for the first: it holds the lock from 1,060 to 2,060 ns.
    assert_eq!(spent(2), ns(1000.0 + 2060.0));
    // Two threads wait. The first gets the lock 30 + (30 + 60) / 2 = 75 ns after its release, the second 60 ns after
    // the next release.
    assert_eq!(spent(3), ns(1000.0 + 2075.0 + 3135.0));
}

#[test]
fn lock_transfer_between_sockets_takes_longer() {
    let mut drive = stages("spin", "{ name = 'a', submit_ns = 1000, lock = 'x' }");
    (drive.host.cores, drive.host.sockets) = (2, 2);
    assert_eq!(first_stage_time(&run(&drive, "bs=512 numjobs=2 number_ios=1")), ns(1000.0 + 2220.0));
}

#[test]
fn only_the_locked_part_of_a_stage_is_exclusive() {
    let drive = stages("spin", "{ name = 'a', submit_ns = 1000, submit_held_ns = 200, lock = 'x' }");
    // Both threads reach the lock at 800 ns. The first leaves it at 1,000 ns, and the second gets it at 1,060 ns.
    assert_eq!(first_stage_time(&run(&drive, "bs=512 numjobs=2 number_ios=1")), ns(1000.0 + 1260.0));
}

#[test]
fn spinning_for_a_lock_uses_processor_time() {
    let busy = |lock: &str| {
        let drive = stages("sleep", &format!("{{ name = 'a', submit_ns = 10000, lock = '{lock}' }}"));
        run(&drive, "bs=512 numjobs=2 number_ios=1").cpu
    };
    let (locked, free) = (busy("x"), busy(""));
    assert_eq!(locked.working, free.working);
    assert_eq!(locked.spinning, ns(10_060.0));
    assert_eq!(free.spinning, Span::ZERO);
}

#[test]
fn shared_cache_line_costs_a_transfer_after_another_cores_write() {
    let spent = |lines: u32, job: &str| {
        let drive = stages("spin", &format!("{{ name = 'a', submit_ns = 100, submit_lines = {lines} }}"));
        first_stage_time(&run(&drive, job))
    };
    assert_eq!(spent(1, "bs=512 number_ios=50"), ns(100.0) * 50);
    assert_eq!(spent(1, "bs=512 numjobs=2 number_ios=1"), ns(100.0 + 130.0));
    // The two lines travel at the same time.
    assert_eq!(spent(2, "bs=512 numjobs=2 number_ios=1"), ns(100.0 + 160.0));
}

#[test]
fn completion_stages_contend_for_locks_too() {
    let drive = stages("spin", "{ name = 'a', complete_ns = 2000, complete_held_ns = 2000, lock = 'x' }");
    let outcome = run(&drive, "bs=512 numjobs=8 number_ios=1000");
    // A request holds the lock for 2,000 ns. With 7 waiting threads, the hand-over takes 30 + 30 x 8 / 2 ns.
    assert!(outcome.iops() < 1e9 / 2030.0 && outcome.iops() > 1e9 / 2200.0, "{}", outcome.iops());
}

#[test]
fn writes_may_have_longer_stages_than_reads() {
    let drive = stages("spin", "{ name = 'a', submit_ns = 100, write_extra_ns = 300 }");
    let outcome = run(&drive, "rw=randrw bs=512 number_ios=100");
    let job = &outcome.jobs[0];
    assert_eq!(job.read.stages.get(Stage::stack(0)), ns(100.0) * job.read.ios);
    assert_eq!(job.write.stages.get(Stage::stack(0)), ns(400.0) * job.write.ios);
}

#[test]
fn request_lock_admits_one_request_at_a_time() {
    let stack = |held: &str| {
        stages(
            "sleep",
            &format!("{{ name = 'a', submit_ns = 100, complete_ns = 100, lock = 'x', lock_held = '{held}' }}"),
        )
    };
    let one = run(&stack("request"), "bs=512 number_ios=200").iops();
    let eight = run(&stack("request"), "bs=512 numjobs=8 number_ios=200");
    assert!(eight.iops() < one * 1.2, "{} of {one}", eight.iops());
    assert!(run(&stack("stage"), "bs=512 numjobs=8 number_ios=200").iops() > one * 4.0);
    // Waiting threads sleep, so none spins.
    assert_eq!(eight.cpu.spinning, Span::ZERO);
}

#[test]
fn thread_does_not_block_on_its_own_request_lock() {
    let drive = stages("sleep", "{ name = 'a', submit_ns = 100, lock = 'x', lock_held = 'request', hand_over = true }");
    let outcome = run(&drive, "bs=512 iodepth=8 numjobs=4 number_ios=100");
    assert!(outcome.finished);
    assert_eq!(outcome.ios(), 400);
}

/// NVMe in the host and the stack of the Moneta test bed.
fn moneta_host(stack: &str, set: &[&str]) -> Drive {
    let stack = format!("stack.preset=linux-2.6-{stack}");
    let fixed = ["host.preset=nehalem-2x4", "nvme.queue_pairs=8", "media.preset=dram", &stack];
    drive("nvme", &[&fixed, set].concat())
}

#[test]
fn noop_scheduler_costs_two_switches_a_wake_up_and_its_queue() {
    let latency = |stack: &str| reads(&run(&moneta_host(stack, &[]), "bs=4k number_ios=50")).total.min();
    // Two context switches of 550 ns, a wake-up of 100 ns, and three acquisitions of the lock at 40 ns.
    assert_eq!(latency("no-op") - latency("no-scheduler"), ns(2.0 * 550.0 + 100.0 + 3.0 * 40.0));
}

#[test]
fn stack_software_time_is_the_sum_of_its_parts() {
    let outcome = run(&moneta_host("no-scheduler", &[]), "bs=4k number_ios=1");
    let stages: Span = (0..4).map(|place| reads(&outcome).stages.get(Stage::stack(place))).sum();
    assert_eq!(stages, ns(851.0 + 1967.0 + 641.0));
    assert_eq!(reads(&outcome).stages.get(Stage::Copy), ns(1024.0));
}

#[test]
fn scheduler_costs_processor_time_and_latency() {
    let cores = |stack: &str, threads: u32| {
        let outcome = run(&moneta_host(stack, &[]), &format!("bs=4k numjobs={threads} number_ios=300"));
        // The host has eight cores with two hardware threads each, and each hardware thread counts as one, as in the
        // operating system's figures.
        assert!(outcome.busy_cores() <= 16.001, "{}", outcome.busy_cores());
        outcome.cores_per_gb_per_s()
    };
    let (with, without) = (cores("no-op", 16), cores("no-scheduler", 16));
    assert!(with > without * 1.15, "{with} {without}");
}

#[test]
fn work_under_the_queue_lock_limits_throughput() {
    // This driver submits requests under the lock of the scheduler's queue, like request functions in Linux.
    let run = |lock: &str| {
        let mut drive = moneta_host("no-op", &[]);
        let mut issue = drive.stack.stages[5].clone();
        (issue.name, issue.submit, issue.lock) = (String::from("issue"), ns(2000.0), String::from(lock));
        drive.stack.stages.push(issue);
        run(&drive, "bs=512 numjobs=16 number_ios=300")
    };
    let (inside, outside) = (run("queue"), run(""));
    assert!(inside.iops() < outside.iops(), "{} {}", inside.iops(), outside.iops());
    let cores = [&inside, &outside].map(Outcome::cores_per_gb_per_s);
    assert!(cores[0] > cores[1] * 1.2, "{cores:?}");
    assert!(inside.cpu.spinning > outside.cpu.spinning);
}

#[test]
fn file_system_slows_small_accesses_and_writes_most() {
    let slowdown = |job: &str| {
        let rate = |stack: &str| run(&moneta_host(stack, &[]), job).iops();
        rate("no-scheduler") / rate("xfs")
    };
    let large = slowdown("bs=512k number_ios=20");
    let (small_reads, small_writes) = (slowdown("bs=4k number_ios=100"), slowdown("rw=randwrite bs=4k number_ios=100"));
    assert!(large < 1.02, "{large}");
    assert!(small_reads > 1.05 && small_writes > small_reads * 1.05, "{small_reads} {small_writes}");
}

#[test]
fn one_large_ext_file_is_slower_than_many_files() {
    let rate = |stack: &str| run(&moneta_host(stack, &[]), "bs=4k numjobs=16 number_ios=100").iops();
    let (one, many, xfs) = (rate("ext-one-file"), rate("ext-many-files"), rate("xfs"));
    assert!(one < many / 3.0, "{one} {many}");
    assert!(close(many, xfs, 0.15), "{many} {xfs}");
}

#[test]
fn paging_shares_its_locks_among_all_threads() {
    let outcome = run(&moneta_host("paging", &[]), "bs=4k numjobs=16 number_ios=100");
    assert!(outcome.finished && outcome.busy_cores() <= 8.001);
}

#[test]
fn interrupt_handler_lengthens_with_each_woken_thread() {
    let latency = |wake: &str| reads(&run(&drive("nvme", &[wake]), "bs=4k number_ios=20")).total.min();
    assert_eq!(latency("host.wake_ns=300") - latency("host.wake_ns=0"), ns(300.0));
}

#[test]
fn all_interrupts_can_be_handled_by_one_core() {
    let rate = |cores: &str| {
        let set = ["nvme.queue_pairs=8", "host.interrupt_handler_ns=20000", "media.banks_per_channel=64", cores];
        run(&drive("nvme", &set), "bs=512 numjobs=8 number_ios=200").iops()
    };
    let (one, all) = (rate("host.interrupt_cores=1"), rate("host.interrupt_cores=0"));
    assert!(one <= 50_000.0, "{one}");
    assert!(all > one * 2.0, "{all} {one}");
}

#[test]
fn saturated_drives_share_requests_evenly_for_any_batch() {
    // Each of four drives completes one read in 2 us, and 16 threads have 1,024 reads in flight.
    let set = ["drives=4", "nvme.queue_pairs=16", "controller.cores=4", "controller.read_core_ns=8000"];
    for batches in ["", "iodepth_batch=32", "iodepth_batch=32 iodepth_batch_complete_min=32"] {
        let iops =
            run(&linux_on_unlimited_dram(&set), &format!("bs=4k iodepth=64 numjobs=16 number_ios=1000 {batches}"))
                .iops();
        assert!(close(iops, 2e6, 0.08), "{batches}: {iops}");
    }
}

/// Linux over a card of DRAM that never limits, with cores of an EPYC.
fn linux_on_unlimited_dram(set: &[&str]) -> Drive {
    let free = ["link.generation=5", "link.lanes=32", "media.channels=32"];
    let stack = ["host.preset=zen4-9654p", "stack.preset=linux-6", "nvme.interrupts=true", "nvme.queue_entries=1024"];
    drive("dram-card", &[&free[..], &stack, set].concat())
}

#[test]
fn queue_pair_threads_are_limited_by_its_interrupt_processor() {
    let iops = |pairs: &str, job: &str| run(&linux_on_unlimited_dram(&[pairs]), job).iops();
    let [one, own] = ["nvme.queue_pairs=1", "nvme.queue_pairs=8"]
        .map(|pairs| iops(pairs, "bs=4k iodepth=16 numjobs=8 number_ios=2000"));
    assert!(one < 0.6 * own, "{one} {own}");
    // One processor runs the handler and the completion paths of driver and block layer: (113 + 284) ns measured on a
    // Skylake at 2.4 GHz.
    let completed = 397.0 * 2.4 / 3.69 / 0.684;
    assert!(one < 1e9 / completed && one > 0.2 * 1e9 / completed, "{one} {completed}");
    // A thread with a queue pair of its own pays neither for the lock nor for the wake-up.
    let alone = ["nvme.queue_pairs=1", "nvme.queue_pairs=8"].map(|pairs| iops(pairs, "bs=4k number_ios=200"));
    assert_eq!(alone[0], alone[1]);
}

#[test]
fn submissions_to_one_queue_pair_serialise_on_its_lock() {
    let wait = |held: &str| {
        let stages = format!(
            "stack.stages=[{{ name = \"driver\", submit_ns = 1000, submit_held_ns = 1000, lock = \"x\", {held} }}]"
        );
        let core = ["host.core_ghz=2.4", "host.ipc=1", "host.cache_line_transfer_ns=0"];
        let set = [&core[..], &["nvme.queue_pairs=2", &stages]].concat();
        first_stage_time(&run(&linux_on_unlimited_dram(&set), "bs=512 numjobs=4 number_ios=1"))
    };
    // With a lock per queue, two threads share each queue pair, so one waits for the other. With a lock per drive, the
    // last of four waits for three.
    assert_eq!(wait("lock_scope = \"queue\""), ns(2.0 * (1000.0 + 2000.0)));
    assert_eq!(wait("lock_scope = \"drive\""), ns(1000.0 + 2000.0 + 3000.0 + 4000.0));
}

#[test]
fn threads_of_one_file_take_turns_at_its_counters() {
    let iops = |shared: &str, line: &str| {
        let set = ["stack.filesystem=xfs", shared, line, "nvme.queue_pairs=32"];
        run(&linux_on_unlimited_dram(&set), "bs=4k iodepth=8 numjobs=32 number_ios=1000").iops()
    };
    let near = "host.cache_line_transfer_ns=300";
    let (own, one) = (iops("stack.shared_file=false", near), iops("stack.shared_file=true", near));
    // Each request writes the counter of direct requests twice, and each write takes 300 ns from another core.
    assert!(one < 1e9 / 600.0 && one < 0.6 * own, "{own} {one}");
    let farther = iops("stack.shared_file=true", "host.cache_line_transfer_ns=600");
    assert!(close(farther, one / 2.0, 0.15), "a line that travels twice as long halves the rate: {one} {farther}");
}

#[test]
fn statistics_and_cgroups_cost_block_layer_time() {
    let block = |set: &[&str]| {
        let set = [&["host.core_ghz=2.4", "host.ipc=1"][..], set].concat();
        let outcome = run(&linux_on_unlimited_dram(&set), "bs=4k number_ios=100");
        reads(&outcome).stages.named(&outcome.stack_stages).find(|(name, _)| *name == "block layer").unwrap().1 / 100
    };
    let plain = block(&[]);
    assert_eq!(plain - block(&["stack.statistics=false"]), ns(94.0));
    assert_eq!(block(&["stack.cgroups=true"]) - plain, ns(140.0));
}

#[test]
fn synchronous_read_of_fast_memory_finds_its_core_awake() {
    let mean = |engine: &str, set: &[&str]| {
        let set = [&["host.preset=cascade-lake-4210r", "media.read_ns=6000"][..], set].concat();
        let outcome = run(&linux_on_unlimited_dram(&set), &format!("bs=4k ioengine={engine} number_ios=200"));
        (reads(&outcome).stages.get(Stage::Interrupt) / 200).as_ns()
    };
    let halted = mean("psync", &["host.io_wait_factor=0"]);
    let awake = mean("psync", &[]);
    // A processor that stays awake saves the exit from C1 and the work with cold caches.
    assert!(halted - awake >= 602.0, "{halted} {awake}");
    assert_eq!(mean("libaio", &[]), mean("libaio", &["host.io_wait_factor=0"]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The ledger of each request closes (the run asserts it), cores are busy no longer than there is time, and no
    /// more requests come through than cores and locks can serve.
    #[test]
    fn stacks_stay_within_their_core_and_lock_limits(
        submit_ns in 0_u64..3000, held in 0.0..=1.0_f64, complete_ns in 0_u64..2000, lines in 0_u8..4,
        hand_over: bool, request_lock: bool, spin: bool, cores in 1_u16..=8, threads in 1_u32..=16, depth in 1_u32..4,
    ) {
        let held_ns = (submit_ns as f64 * held) as u64;
        let text = format!(
            "{{ name = 'f', submit_ns = 50, lock = '{}', lock_held = 'request' }}, \
             {{ name = 'a', submit_ns = {submit_ns}, submit_held_ns = {held_ns}, complete_ns = {complete_ns}, \
                complete_held_ns = {}, submit_lines = {lines}, complete_lines = {lines}, lock = 'x', hand_over = {hand_over} }}, \
             {{ name = 'b', submit_ns = 70, lock = 'x' }}",
            if request_lock { "i" } else { "" },
            complete_ns / 2,
        );
        let mut drive = stages(if spin { "spin" } else { "sleep" }, &text);
        (drive.host.cores, drive.host.sockets) = (cores, 2);
        let outcome = run(&drive, &format!("rw=randrw bs=512 numjobs={threads} iodepth={depth} number_ios=40"));
        prop_assert!(outcome.finished);
        prop_assert_eq!(outcome.ios(), u64::from(threads) * 40);
        prop_assert!(outcome.cpu.busy() <= outcome.elapsed * u64::from(cores) + ns(5000.0) * u64::from(cores));
        let held_ns = if held_ns == 0 { submit_ns } else { held_ns };
        let locked = ns((held_ns + complete_ns / 2 + 70) as f64);
        let work = ns((submit_ns + complete_ns + 120) as f64);
        prop_assert!(locked * outcome.ios() <= outcome.elapsed);
        prop_assert!(work * outcome.ios() <= outcome.elapsed * u64::from(cores));
        prop_assert!(outcome.cpu.working >= work * outcome.ios());
    }
}
