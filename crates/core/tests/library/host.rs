//! What the host costs: waiting, switching, clock, locks.

use crate::common::{close, drive, ns, reads, run};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{Outcome, Stage};
use phaselink_core::time::Span;

/// Mean latency of the reads of a run, in nanoseconds.
fn mean_read_ns(outcome: &Outcome) -> f64 {
    reads(outcome).total.mean_ns()
}

/// NVMe with these stages; lines travel at once, so that a lock costs no more than it is held.
fn stages(set: &[(&str, &str)]) -> Drive {
    let mut text = String::from(
        "preset = \"nvme-polled\"\nhost = { cache_line_transfer_ns = 0, variation = 0 }\n[stack]\nstages = [\n",
    );
    for (costs, lock) in set {
        text += &format!("  {{ name = \"a\", {costs}, lock = \"{lock}\" }},\n");
    }
    text += "]\n";
    Drive::from_toml("locked.toml", &text, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn sleeping_costs_handler_and_switch_and_saves_a_poll() {
    let sleeping = drive("nvme", &[]);
    let host = &sleeping.host;
    let spinning = drive("nvme", &["host.wait=spin"]);
    let (sleep, spin) = (run(&sleeping, "bs=4k number_ios=100"), run(&spinning, "bs=4k number_ios=100"));
    // The interrupt message follows the completion entry: 28 bytes on the wire, for which a spinning thread does not
    // wait. Without skip ordered sets and DLLPs it would take 14 ns.
    let message = phaselink_core::link::rate::WireRate::new(&sleeping.link).time(28);
    let extra = message + host.interrupt + host.interrupt_handler + host.context_switch;
    let expected = reads(&spin).total.min() - host.poll + extra;
    assert_eq!(reads(&sleep).total.min(), expected);
    assert_eq!(reads(&sleep).stages.get(Stage::ContextSwitch), host.context_switch * 100);
}

#[test]
fn sleeping_thread_takes_one_interrupt_and_two_switches() {
    let outcome = run(&drive("nvme", &[]), "bs=4k number_ios=500");
    assert_eq!(outcome.cpu.interrupts, 500);
    assert!((1000..=1002).contains(&outcome.cpu.context_switches), "{}", outcome.cpu.context_switches);
    assert_eq!(outcome.cpu.spinning, Span::ZERO);
}

#[test]
fn spinning_thread_keeps_its_core_busy_throughout() {
    let outcome = run(&drive("nvme-polled", &[]), "bs=4k number_ios=500");
    // The poll that finds the completion counts neither as spinning nor as work, so add it.
    let looks = ns(20.0) * 500;
    assert_eq!(outcome.cpu.working + outcome.cpu.spinning + looks, outcome.elapsed);
    assert_eq!((outcome.cpu.interrupts, outcome.cpu.context_switches), (0, 0));
}

#[test]
fn two_threads_on_one_core_alternate() {
    let one = run(&drive("nvme", &[]), "bs=4k number_ios=200");
    let two = run(&drive("nvme", &["host.cores=1"]), "bs=4k numjobs=2 number_ios=200");
    // A read leaves its core idle most of the time, so two threads do twice as much as one.
    assert!(close(two.iops(), one.iops() * 2.0, 2e-3), "{} of {}", two.iops(), one.iops());
    // Two context switches for every read.
    assert!((800..=808).contains(&two.cpu.context_switches), "{}", two.cpu.context_switches);
    assert!(reads(&two).stages.get(Stage::CoreWait) > reads(&one).stages.get(Stage::CoreWait));
}

#[test]
fn threads_share_a_core_until_it_is_saturated() {
    let on = |cores: u32| {
        let set =
            [&format!("host.cores={cores}"), &format!("nvme.queue_pairs={cores}"), "stack.preset=linux-3.5-read-fio"];
        run(&drive("nvme", &set.map(|text| text as &str)), "bs=512 numjobs=8 number_ios=200")
    };
    let (one, eight) = (on(1), on(8));
    assert!(one.busy_cores() > 0.99 && one.busy_cores() <= 1.001, "{}", one.busy_cores());
    assert!(eight.iops() > one.iops() * 2.0, "{} of {}", eight.iops(), one.iops());
}

#[test]
fn two_spinning_threads_on_one_core_both_progress() {
    let outcome = run(&drive("nvme-polled", &["host.cores=1"]), "bs=4k numjobs=2 number_ios=100");
    assert!(outcome.finished);
    assert_eq!(outcome.ios(), 200);
    assert!(outcome.cpu.context_switches > 0);
}

#[test]
fn hybrid_wait_lies_between_spinning_and_sleeping() {
    // The memory is slow, so that there is time to sleep.
    let slow = |wait: &str, interrupts: bool| {
        let set = ["media.read_ns=20000", &format!("host.wait={wait}"), &format!("nvme.interrupts={interrupts}")];
        run(&drive("nvme", &set), "bs=4k number_ios=300")
    };
    let (spin, hybrid, sleep) = (slow("spin", false), slow("hybrid", false), slow("sleep", true));
    assert!(hybrid.cpu.busy() < spin.cpu.busy() * 8 / 10, "{} of {}", hybrid.cpu.busy(), spin.cpu.busy());
    assert!(sleep.cpu.busy() < hybrid.cpu.busy());
    assert!(mean_read_ns(&hybrid) < mean_read_ns(&sleep));
    // The thread wakes just in time, so only one poll remains when the read completes.
    assert!(
        close(mean_read_ns(&hybrid), mean_read_ns(&spin), 1e-3),
        "{} of {}",
        mean_read_ns(&hybrid),
        mean_read_ns(&spin)
    );
    assert!(hybrid.cpu.spinning > Span::ZERO && hybrid.cpu.spinning < spin.cpu.spinning);
}

#[test]
fn only_processor_costs_scale_with_the_clock() {
    let at = |ghz: &str| {
        let set = ["host.nominal_ghz=4", ghz, "host.uncore_follows_core=false"];
        reads(&run(&drive("nvme", &set), "bs=4k number_ios=50")).clone()
    };
    let (full, half) = (at("host.core_ghz=4"), at("host.core_ghz=2"));
    let host = [Stage::Driver, Stage::ContextSwitch, Stage::stack(0), Stage::stack(1), Stage::stack(2)];
    for stage in host {
        assert_eq!(half.stages.get(stage), full.stages.get(stage) * 2, "{stage:?}");
    }
    for stage in [Stage::Doorbell, Stage::Fetch, Stage::Parse, Stage::Media, Stage::Transfer, Stage::Settle] {
        assert_eq!(half.stages.get(stage), full.stages.get(stage), "{stage:?}");
    }
    // The interrupt and its handler take longer on a slow core. The message's 28 bytes on the wire do not.
    let drive = drive("nvme", &["host.nominal_ghz=4"]);
    let handled = drive.host.interrupt + drive.host.interrupt_handler;
    assert_eq!(half.stages.get(Stage::Interrupt) - full.stages.get(Stage::Interrupt), handled * 50);
}

#[test]
fn cache_in_the_core_clock_domain_slows_with_the_core() {
    let fetch = |follows: &str| {
        let set = ["host.nominal_ghz=4", "host.core_ghz=2", follows];
        reads(&run(&drive("nvme-polled", &set), "bs=4k number_ios=50")).stages.get(Stage::Fetch) / 50
    };
    let difference = fetch("host.uncore_follows_core=true") - fetch("host.uncore_follows_core=false");
    assert_eq!(difference, drive("nvme-polled", &[]).root_complex.cache_read);
}

#[test]
fn lock_admits_one_thread_at_a_time() {
    let rate = |threads: u32, lock: &str| {
        let mut drive = stages(&[("submit_ns = 2000", lock)]);
        (drive.host.cores, drive.nvme.queue_pairs, drive.media.banks_per_channel) = (8, 8, 64);
        run(&drive, &format!("bs=512 numjobs={threads} number_ios=2000")).iops()
    };
    // Each request holds the lock for 2 us, so the limit is 500,000 requests per second.
    assert!(close(rate(8, "queue"), 500_000.0, 2e-3), "{}", rate(8, "queue"));
    assert!(rate(8, "") > 1_000_000.0, "{}", rate(8, ""));
    assert!(close(rate(1, "queue"), rate(1, ""), 1e-9));
}

#[test]
fn stages_naming_one_lock_exclude_each_other() {
    let rate = |second: &str| {
        let mut drive = stages(&[("submit_ns = 1000", "a"), ("submit_ns = 1000", second)]);
        (drive.host.cores, drive.nvme.queue_pairs) = (8, 8);
        run(&drive, "bs=512 numjobs=8 number_ios=2000").iops()
    };
    assert!(close(rate("a"), 500_000.0, 2e-3), "{}", rate("a"));
    assert!(rate("b") > 700_000.0, "{}", rate("b"));
}

#[test]
fn copy_costs_its_rate_for_reads_and_nothing_for_writes() {
    let outcome = run(&drive("nvme-polled", &["stack.copy_bytes_per_ns=4"]), "rw=randrw bs=4k number_ios=50");
    let job = &outcome.jobs[0];
    assert_eq!(job.read.stages.get(Stage::Copy), ns(1024.0) * job.read.ios);
    assert_eq!(job.write.stages.get(Stage::Copy), Span::ZERO);
}

#[test]
fn thinking_thread_spins_no_longer_than_its_think_time() {
    let outcome = run(&drive("nvme-polled", &[]), "bs=4k number_ios=100 thinktime=50us");
    assert!(outcome.elapsed > Span::from_us(50) * 99);
    assert!(outcome.iops() < 20_000.0, "{}", outcome.iops());
}

/// What `--depends` relies on: experiments whose power nobody reads are not run again for it.
#[test]
fn server_power_keys_do_not_change_timing() {
    let job = "bs=4k iodepth=4 thinktime=50us number_ios=200";
    for name in ["dc-express", "nvme", "moneta"] {
        let plain = drive(name, &[]);
        let found = run(&plain, job);
        let resolved = plain.resolved();
        for (key, value) in resolved["power"].as_object().expect("a section") {
            let value = 0.9 * value.as_f64().expect("a number");
            let moved = run(&drive(name, &[&format!("power.{key}={value}")]), job);
            assert_eq!(Outcome { energy: found.energy, ..moved }, found, "{name}: {key}");
        }
    }
}
