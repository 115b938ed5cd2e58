//! The mechanisms of DC Express: queue reads, prediction, doorbells at low load, order and tags.

use crate::common::{self, close, counter, drive, reads, run, traced};
use phaselink_core::drive::Drive;
use phaselink_core::engine::{Engine, Input};
use phaselink_core::ledger::{Outcome, Stage};
use phaselink_core::request::{Io, Op};
use phaselink_core::time::{Span, Time};

/// Queue reads for each request, and the share of them that found nothing.
fn queue_reads_per_request(outcome: &Outcome) -> (f64, f64) {
    let queue_reads = counter(outcome, "queue_reads") as f64;
    (queue_reads / outcome.ios() as f64, counter(outcome, "queue_reads_wasted") as f64 / queue_reads)
}

/// Falls back to doorbells below 10,000 reads a second.
fn hybrid() -> Drive {
    drive("dc-express", &["dc_express.doorbell_below_iops=10000"])
}

/// How many of 34 reads are done where one comes `step` times 12 ns after the endpoint changes to doorbells, and one
/// more round of the same.
///
/// 16 reads in 1.6 ms are 10,000 a second: this long after the first of 16, the endpoint tells the host to ring, and
/// reads once more in case the host has not heard in time.
fn reads_done_around_mode_change(step: u64) -> u64 {
    let mut engine = Engine::new(&hybrid(), 1);
    let thread = engine.add_client(8);
    let io = Io { op: Op::Read, offset: 8192, bytes: 512 };
    let mut at = Time::ZERO + Span::from_ms(2);
    for _ in 0..2 {
        for number in 0..16 {
            engine.inject(at + Span::from_us(3) * number, Input::Request { thread, io, token: 0 });
        }
        at += Span::from_us(1600) + Span::from_ns(12) * step;
        engine.inject(at, Input::Request { thread, io, token: 0 });
        at += Span::from_us(100);
    }
    // Stop before a time-out could repeat a read that was missed.
    engine.run_until(at);
    assert!(counter(&engine.outcome(&hybrid(), 1), "mode_switches") > 0);
    engine.completed()
}

#[test]
fn tight_loop_needs_two_queue_reads_per_read() {
    for bytes in ["8", "512", "4k"] {
        let outcome = run(&drive("dc-express", &[]), &format!("bs={bytes} number_ios=4000"));
        let (each, wasted) = queue_reads_per_request(&outcome);
        assert!(close(each, 2.0, 0.02), "{each} at {bytes}");
        assert!(close(wasted, 0.5, 0.02), "{wasted} at {bytes}");
        assert_eq!(counter(&outcome, "doorbells"), 0);
    }
}

#[test]
fn unpredicted_tight_loop_needs_three_queue_reads() {
    let [with, without] = ["true", "false"].map(|predict| {
        run(&drive("dc-express", &[&format!("dc_express.predict={predict}")]), "bs=512 number_ios=4000")
    });
    assert!(close(queue_reads_per_request(&without).0, 3.0, 0.02), "{}", queue_reads_per_request(&without).0);
    assert!(reads(&with).total.mean() + Span::from_ns(300) < reads(&without).total.mean());
    // The only difference is the time until a queue read finds the command.
    let waited = |outcome: &Outcome| reads(outcome).stages.get(Stage::PollWait);
    let (total, wait) =
        (reads(&without).total.sum_ps() - reads(&with).total.sum_ps(), waited(&without) - waited(&with));
    assert!(close(wait.as_ps() as f64, total as f64, 0.01), "{wait} of {total} ps");
}

#[test]
fn few_queue_reads_are_empty_at_depth() {
    // Highest shares measured: 2.4 % at 4 KiB and depth 32, 37.5 % at 512 B and depth 16.
    for (bytes, most) in [("4k", 0.05), ("512", 0.45)] {
        for depth in [8, 16, 32, 63] {
            let outcome = run(&drive("dc-express", &[]), &format!("bs={bytes} iodepth={depth} number_ios=4000"));
            let (each, wasted) = queue_reads_per_request(&outcome);
            assert!(wasted < most, "{wasted} at {bytes} and {depth}");
            assert!(each < 1.0, "{each} at {bytes} and {depth}");
            assert_eq!(counter(&outcome, "doorbells"), 0);
        }
    }
}

#[test]
fn wire_never_idles_at_depth() {
    for (bytes, depth) in [("512", 16), ("512", 63), ("4k", 4), ("4k", 32)] {
        let outcome =
            run(&drive("dc-express", &["link.dllps=false"]), &format!("bs={bytes} iodepth={depth} number_ios=4000"));
        let share = outcome.upstream.busy_share(outcome.elapsed);
        assert!(share > 0.98, "{share} at {bytes} and {depth}");
    }
}

#[test]
fn random_arrivals_wait_half_a_period_with_and_without_prediction() {
    for predict in ["true", "false"] {
        let drive = drive("dc-express", &[&format!("dc_express.predict={predict}")]);
        let outcome = run(&drive, "bs=512 rate_iops=5000 rate_process=poisson number_ios=4000");
        let period = outcome.elapsed.as_ns() / counter(&outcome, "queue_reads") as f64;
        let waited = reads(&outcome).stages.get(Stage::PollWait).as_ns() / 4000.0;
        assert!(close(waited, period / 2.0, 0.04), "{waited} of {period}");
    }
}

#[test]
fn reads_below_the_threshold_ring_doorbells() {
    let count = |ios: u32| {
        let outcome = run(&hybrid(), &format!("bs=512 rate_iops=2000 number_ios={ios}"));
        (counter(&outcome, "doorbells"), counter(&outcome, "queue_reads"), counter(&outcome, "mode_switches"))
    };
    let ((doorbells, queue_reads, _), (more_doorbells, more_queue_reads, switches)) = (count(200), count(1200));
    assert_eq!((more_doorbells - doorbells, more_queue_reads - queue_reads), (1000, 2000));
    assert_eq!(switches, 1);
}

#[test]
fn idle_endpoint_in_doorbell_mode_reads_no_queue() {
    let drive = hybrid();
    let mut engine = Engine::new(&drive, 1);
    engine.record(1 << 20);
    let thread = engine.add_client(1);
    // Requests 1 ms apart give the endpoint time to notice that there is no load.
    let io = Io { op: Op::Read, offset: 0, bytes: 512 };
    let rounds = (1..20).map(|round| Time::ZERO + Span::from_ms(round));
    for at in rounds {
        engine.inject(at, Input::Request { thread, io, token: 0 });
        engine.run_until(at + Span::from_us(10));
        let idle_from = engine.trace().records().len();
        engine.run_until(at + Span::from_us(990));
        if at > Time::ZERO + Span::from_ms(17) {
            assert_eq!(engine.trace().records().len(), idle_from, "the link is silent");
        }
    }
    assert_eq!(engine.completed(), 19);
}

#[test]
fn two_reads_in_doorbell_mode_are_served_at_any_distance() {
    let drive = hybrid();
    let mut engine = Engine::new(&drive, 1);
    let thread = engine.add_client(2);
    let io = Io { op: Op::Read, offset: 0, bytes: 512 };
    let mut at = Time::ZERO + Span::from_ms(5);
    for step in 0..300 {
        engine.inject(at, Input::Request { thread, io, token: 0 });
        engine.inject(at + Span::from_ns(10) * step, Input::Request { thread, io, token: 0 });
        at += Span::from_ms(2);
        engine.run_until(at);
        assert_eq!(engine.completed(), 2 * (step + 1), "{} ns apart", step * 10);
    }
}

#[test]
fn no_doorbell_is_rung_above_the_threshold() {
    let outcome = run(&hybrid(), "bs=512 rate_iops=20000 number_ios=1000");
    assert_eq!((counter(&outcome, "doorbells"), counter(&outcome, "mode_switches")), (0, 0));
}

#[test]
fn read_near_a_mode_change_is_served_at_once() {
    // The same as the test below, except for the half microsecond in which both sides change mode.
    for step in [0, 20, 40, 60, 80, 100, 130, 150, 200] {
        assert_eq!(reads_done_around_mode_change(step), 34, "step {step}");
    }
}

#[test]
fn polling_resumes_when_the_load_returns() {
    // First 1000 requests per second, then as many as possible.
    let jobs = |drive: &Drive| {
        let mut jobs = common::jobs(drive, "bs=512 rate_iops=1000 number_ios=50");
        jobs.extend(common::jobs(drive, "bs=512 number_ios=50000 ramp_time=0 thinktime=30ms thinktime_blocks=25000"));
        jobs
    };
    let drive = hybrid();
    let outcome = phaselink_core::simulation::simulate(&drive, &jobs(&drive), 1).unwrap();
    assert_eq!(outcome.ios(), 50_050);
    assert!(outcome.finished);
    // The endpoint polls the queue, uses doorbells during the pause, and polls again.
    assert_eq!(counter(&outcome, "mode_switches"), 2);
    assert!((1..100).contains(&counter(&outcome, "doorbells")), "{}", counter(&outcome, "doorbells"));
}

#[test]
fn mode_changes_lose_no_read() {
    for step in 0..250 {
        assert_eq!(reads_done_around_mode_change(step), 34, "step {step}");
    }
}

#[test]
fn late_write_delays_later_packets_only_in_strict_order() {
    let iops = |name: &str, late: &str| {
        let set = [
            late,
            "root_complex.late_write_ns=2000",
            "link.posted_header_credits=8",
            "media.preset=dram",
            "stack.preset=user-space",
        ];
        run(&drive(name, &set), "bs=4k iodepth=16 number_ios=3000").iops()
    };
    let kept = |name| iops(name, "root_complex.late_write_ratio=0.1") / iops(name, "root_complex.late_write_ratio=0");
    let (strict, relaxed) = (kept("nvme-polled"), kept("dc-express"));
    assert!((0.6..0.7).contains(&strict), "{strict}");
    assert!(close(relaxed, 1.0, 2e-3), "{relaxed}");
}

#[test]
fn any_late_packet_is_waited_for() {
    let drive = drive("dc-express", &["root_complex.late_write_ratio=0.02", "root_complex.late_write_ns=10000"]);
    let outcome = run(&drive, "bs=4k number_ios=500");
    assert_eq!(outcome.ios(), 500);
    // In a third of all reads, a late packet is not the last one, so checking only the last chunk would have missed it.
    let oops = counter(&outcome, "oops");
    assert!((150..300).contains(&oops), "{oops}");
    let late = reads(&outcome).total.count_between(Span::from_us(9), Span::from_us(20));
    assert!(late >= oops, "{late} of {oops}");
}

#[test]
fn read_whose_tag_equals_stored_data_completes_after_timeout() {
    let timeout = Span::from_us(10) * 8;
    let set = ["dc_express.tag_bits=8", "dc_express.queue_entries=8", "dc_express.max_latency_us=10"];
    let outcome = run(&drive("dc-express", &set), "bs=4k iodepth=4 number_ios=1000");
    assert!(outcome.finished);
    assert_eq!(outcome.ios(), 1000);
    let (collisions, timeouts) = (counter(&outcome, "tag_collisions"), counter(&outcome, "tag_timeouts"));
    // A read collides if one of its 32 packets has the wrong tag out of 256. Reads that are repeated can collide again.
    let chance = 32.0 / 256.0;
    assert!(close(collisions as f64, 1000.0 * chance / (1.0 - chance), 0.3), "{collisions}");
    assert_eq!(collisions, timeouts);
    let total = &reads(&outcome).total;
    let late = total.count_between(timeout, Span::MAX);
    assert!(late > 0 && late <= timeouts, "{late} of {timeouts}");
    assert_eq!(late + total.count_between(Span::ZERO, Span::from_us(40)), 1000, "early, or after the time-out");
    // Each late read has waited for at least one time-out before the collision was noticed.
    assert!(reads(&outcome).stages.get(Stage::Timeout) >= timeout * late);
}

#[test]
fn deterministic_tags_do_not_collide() {
    for choice in ["compare", "intervals"] {
        let set = ["dc_express.tag_bits=8", &format!("dc_express.tag_choice={choice}")];
        let outcome = run(&drive("dc-express", &set), "bs=4k iodepth=4 number_ios=1000");
        assert_eq!((counter(&outcome, "tag_collisions"), counter(&outcome, "tag_timeouts")), (0, 0));
    }
}

#[test]
fn too_early_timeout_reads_twice_and_completes_once() {
    // A read that waits for a write to its bank takes 80 us, but the time-out is only 64 us.
    let set = ["dc_express.max_latency_us=1", "dc_express.queue_entries=64", "media.program_ns=80000"];
    let outcome = run(&drive("dc-express", &set), "rw=randrw rwmixread=90 bs=4k iodepth=2 number_ios=400");
    assert!(outcome.finished);
    assert_eq!(outcome.ios(), 400);
    assert!(counter(&outcome, "tag_timeouts") > 0 && counter(&outcome, "late_packets") > 0);
}

#[test]
fn largest_read_is_not_given_up_during_transmission() {
    // This memory programs in no time, so most of a read's latency is its transfer on the wire.
    let drive = drive("dc-express", &["media.preset=dram", "dc_express.queue_entries=8"]);
    let outcome = run(&drive, "bs=128k iodepth=7 number_ios=100");
    assert_eq!((outcome.ios(), counter(&outcome, "tag_timeouts"), counter(&outcome, "late_packets")), (100, 0, 0));
}

#[test]
fn retried_reads_do_not_overflow_the_ring() {
    let set = ["dc_express.max_latency_us=1", "dc_express.queue_entries=64", "media.read_ns=40000"];
    let outcome = run(&drive("dc-express", &set), "bs=4k iodepth=2 number_ios=100");
    assert_eq!(outcome.ios(), 100);
}

#[test]
fn next_queue_reads_precede_the_end_of_data() {
    // Figure 1c of the paper: find a queue read between the start and the end of a train of data.
    let simulation = traced(&drive("dc-express", &[]), "bs=4k iodepth=2 number_ios=100");
    let records = simulation.trace().in_order();
    let data: Vec<_> = records.iter().filter(|record| record.step.name() == "data").collect();
    let during = |data: &&&&phaselink_core::ledger::Record| {
        records
            .iter()
            .any(|record| record.step.name() == "queue read" && record.from > data.from && record.to < data.to)
    };
    let share = data.iter().filter(during).count() as f64 / data.len() as f64;
    assert!(share > 0.9, "{share}");
}

#[test]
fn dc_express_writes_use_nvme() {
    let outcome = run(&drive("dc-express", &["media.program_ns=1000"]), "rw=randrw bs=4k iodepth=4 number_ios=400");
    let writes = outcome.jobs[0].write.ios;
    // Each write has two doorbells: submission queue tail and completion queue head.
    assert_eq!(counter(&outcome, "doorbells"), 2 * writes);
    assert_eq!(counter(&outcome, "commands"), 400);
}

#[test]
fn each_thread_has_its_own_polled_queue() {
    let set = ["dc_express.queue_pairs=4", "nvme.queue_pairs=4", "host.cores=4"];
    let outcome = run(&drive("dc-express", &set), "bs=512 numjobs=4 number_ios=1000");
    assert_eq!(outcome.ios(), 4000);
    assert!(outcome.iops() > 1_500_000.0, "{}", outcome.iops());
    assert_eq!(counter(&outcome, "commands"), 4000);
}

/// Reads per second with these keys, of 512 bytes unless the job says otherwise.
fn iops(job: &str, set: &[&str]) -> f64 {
    run(&drive("dc-express", set), &format!("bs=512 number_ios=3000 {job}")).iops()
}

/// Each of these drives does at least what the one before it does, but for a little by which reads fall in step with
/// queue reads.
fn assert_never_slower(job: &str, drives: &[&[&str]]) {
    let rates: Vec<f64> = drives.iter().map(|set| iops(job, set)).collect();
    for (pair, set) in rates.windows(2).zip(&drives[1..]) {
        assert!(pair[1] > pair[0] * 0.96, "{job}: {rates:?} at {set:?}");
    }
}

#[test]
fn faster_memory_or_link_is_never_slower_for_dc_express() {
    for depth in [1, 2, 3, 4, 8, 16, 63] {
        let job = format!("iodepth={depth}");
        assert_never_slower(&job, &[&["media.channels=1"], &["media.channels=4"], &["media.channels=16"]]);
        let rates: [&[&str]; 3] =
            [&["media.bus_bytes_per_ns=2"], &["media.bus_bytes_per_ns=8"], &["media.bus_bytes_per_ns=64"]];
        assert_never_slower(&job, &rates);
        assert_never_slower(&job, &[&["media.read_ns=400"], &["media.read_ns=150"], &["media.read_ns=50"]]);
        let links: [&[&str]; 3] = [&["link.preset=gen2-x4"], &["link.preset=gen4-x4"], &["link.preset=gen6-x4"]];
        assert_never_slower(&job, &links);
        let dram = links.map(|link| [link[0], "media.preset=dram"]);
        assert_never_slower(&job, &dram.each_ref().map(|set| &set[..]));
    }
}

#[test]
fn two_reads_in_flight_double_the_rate() {
    for set in [&["media.read_ns=110"], &["media.read_ns=400"], &["media.channels=8"], &["media.bus_bytes_per_ns=8"]] {
        let [one, two] = ["iodepth=1", "iodepth=2"].map(|job| iops(job, set));
        assert!(two > one * 1.9, "{set:?}: {one} and {two}");
    }
}

#[test]
fn memory_and_parser_time_add_directly_between_queue_reads() {
    for (bytes, key) in [("1k", "media.read_ns"), ("4k", "media.read_ns"), ("4k", "dc_express.parse_ns")] {
        let beyond = (30..400).step_by(23).map(|ns: u32| {
            let drive = drive("dc-express", &[&format!("{key}={ns}")]);
            let outcome = run(&drive, &format!("bs={bytes} number_ios=2000"));
            reads(&outcome).total.mean().as_ns() - f64::from(ns)
        });
        let (least, most) = beyond.fold((f64::MAX, 0.0_f64), |(least, most), ns| (least.min(ns), most.max(ns)));
        assert!(most - least < 20.0, "{bytes} {key}: {least} to {most} ns");
    }
}

#[test]
fn command_write_time_bounds_a_threads_rate() {
    let lone = |command_ns: u32| {
        let drive = drive("dc-express", &[&format!("dc_express.command_ns={command_ns}")]);
        reads(&run(&drive, "bs=512 number_ios=2000")).total.mean()
    };
    assert_eq!(lone(0), lone(48));
    let wide = ["link.preset=gen5-x4", "link.lanes=16", "media.preset=dram", "media.channels=16"];
    let most =
        |command_ns: u32| iops("iodepth=60", &[&wide[..], &[&format!("dc_express.command_ns={command_ns}")]].concat());
    // The command and two packets of 256 bytes, each with a tag of 2.4 ns that is written and checked.
    assert!(most(480) < 1e9 / (480.0 + 9.6) * 1.001, "{}", most(480));
    assert!(most(480) > 1e9 / (480.0 + 9.6) * 0.9, "{}", most(480));
    assert!(most(48) > most(480) * 3.0);
}
