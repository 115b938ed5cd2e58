//! Injected faults: what each does to a run, and what it leaves as it was.

use crate::common::{self, counter, drive, jobs, run};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;

const READS: &str = "bs=4k number_ios=100";

fn with(name: &str, faults: &str) -> Drive {
    drive(name, &[&format!("faults=[{faults}]")])
}

/// Latencies of the slowest read and of the fastest.
fn slowest_and_fastest_latency(outcome: &Outcome) -> [Span; 2] {
    let total = &common::reads(outcome).total;
    [total.max(), total.min()]
}

/// A run with real bytes, in which no read finds what it may not.
fn verified(drive: &Drive, job: &str) -> Outcome {
    let mut simulation = Simulation::with_data(drive, &jobs(drive, job), 1).unwrap();
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0]);
    let outcome = simulation.outcome();
    assert!(outcome.finished);
    outcome
}

/// How much happens in a run.
fn events(drive: &Drive, job: &str) -> u64 {
    let mut simulation = Simulation::new(drive, &jobs(drive, job), 1).unwrap();
    while simulation.step(1 << 20) {}
    simulation.events()
}

fn problem(name: &str, fault: &str) -> String {
    let shipped = shipped::find(name).unwrap();
    let set = [KeyOverride::parse(&format!("faults=[{fault}]")).unwrap()];
    Drive::from_toml(shipped.file, shipped.text, &set).unwrap_err().to_string()
}

#[test]
fn failed_requests_are_counted_only_as_failed() {
    for name in shipped::names() {
        let outcome = run(&with(name, r#"{ action = "error", every = 4, first = 2 }"#), READS);
        assert!(outcome.finished, "{name}");
        assert_eq!((outcome.failed(), outcome.ios()), (25, 75), "{name}");
        assert_eq!(counter(&outcome, "fault_errors"), 25, "{name}");
        assert_eq!(outcome.jobs[0].first_error, Some(5), "{name}");
    }
}

#[test]
fn delayed_request_alone_takes_longer() {
    for name in shipped::names() {
        let drive = with(name, r#"{ action = "delay", delay_us = 700, first = 50, times = 1 }"#);
        let [slowest, fastest] = slowest_and_fastest_latency(&run(&drive, READS));
        let [well_slowest, well_fastest] = slowest_and_fastest_latency(&run(&common::drive(name, &[]), READS));
        // With a cache, a miss takes many times as long as a hit, so allow slower requests to vary more.
        let longest = (fastest * 3).max(well_slowest * 2);
        assert!(slowest >= Span::from_us(700) + fastest && slowest < Span::from_us(700) + longest, "{name}: {slowest}");
        assert_eq!(fastest, well_fastest, "{name}");
    }
}

#[test]
fn hung_and_lost_requests_are_given_up_after_timeout() {
    for name in shipped::names() {
        for action in ["hang", "drop-completion"] {
            let fault = format!(r#"{{ action = "{action}", first = 10, times = 2, timeout_us = 40_000 }}"#);
            let outcome = run(&with(name, &fault), READS);
            assert!(outcome.finished, "{name} {action}");
            assert_eq!((outcome.failed(), outcome.ios()), (2, 98), "{name} {action}");
            assert_eq!(outcome.jobs[0].first_error, Some(110));
            let well = run(&common::drive(name, &[]), READS);
            let given_up = outcome.elapsed.as_ns() - well.elapsed.as_ns() * 0.98;
            assert!(common::close(given_up, 80e6, 0.2), "{name} {action}: {} and {}", outcome.elapsed, well.elapsed);
            // A request that hangs is never executed. A request whose completion is dropped has been executed.
            let not_read = (well.upstream.data_bytes - outcome.upstream.data_bytes) / 4096;
            assert_eq!(not_read, if action == "hang" { 2 } else { 0 }, "{name} {action}");
        }
    }
}

#[test]
fn device_slower_than_the_timeout_completes_later() {
    let fault = r#"{ action = "drop-completion", times = 1, timeout_us = 1 }"#;
    let outcome = run(&with("nvme", fault), READS);
    assert_eq!((outcome.failed(), outcome.ios()), (1, 99));
}

#[test]
fn retried_read_meets_its_fault_once() {
    let often = ["link.posted_header_credits=1", "dc_express.max_latency_us=1"];
    for fault in ["error", "drop-completion"] {
        let fault = format!("faults=[{{ action = \"{fault}\", every = 3, operation = \"read\" }}]");
        let fault = fault.replace("drop-completion\"", "drop-completion\", timeout_us = 20");
        let outcome = run(&drive("dc-express", &[often[0], often[1], &fault]), "bs=4k number_ios=60 iodepth=4");
        assert!(counter(&outcome, "late_packets") > 0);
        assert_eq!((outcome.failed(), outcome.ios()), (20, 40), "{fault}");
    }
}

#[test]
fn lost_interrupts_delay_a_sleeping_host_without_loss() {
    let lost = r#"{ action = "lose-interrupt", first = 20, times = 3, timeout_us = 5000 }"#;
    let outcome = run(&with("nvme", lost), READS);
    assert_eq!((outcome.failed(), outcome.ios()), (0, 100));
    assert_eq!(counter(&outcome, "fault_lost_interrupts"), 3);
    let [slowest, _] = slowest_and_fastest_latency(&outcome);
    assert!(slowest > Span::from_ms(5) && slowest < Span::from_us(5100), "{slowest}");
    assert!(outcome.elapsed > Span::from_ms(15));
    let deep = run(&with("nvme", lost), "bs=4k number_ios=1000 iodepth=16");
    assert!(slowest_and_fastest_latency(&deep)[0] < Span::from_ms(1), "the next interrupt tells of all that is there");
}

#[test]
fn repeated_interrupts_change_nothing() {
    for name in ["nvme", "moneta", "capi", "pss", "moneta-block", "pss-block"] {
        let drive = with(name, r#"{ action = "repeat-interrupt", every = 2, delay_us = 3 }"#);
        let outcome = verified(&drive, "bs=4k number_ios=200 rw=randrw iodepth=4 size=1m io_size=1g");
        assert_eq!((outcome.failed(), outcome.ios()), (0, 200), "{name}");
    }
    for name in ["moneta", "pss"] {
        let outcome = run(&with(name, r#"{ action = "repeat-interrupt", every = 2, delay_us = 3 }"#), READS);
        assert_eq!((counter(&outcome, "fault_repeated_interrupts"), outcome.cpu.interrupts), (50, 150), "{name}");
    }
}

#[test]
fn torn_writes_fail_and_leave_old_or_new_bytes() {
    let job = "rw=randrw bs=16k size=256k io_size=1g number_ios=600 iodepth=8";
    for name in shipped::names().filter(|name| !name.starts_with("nvm-model")) {
        let torn = with(name, r#"{ action = "torn-write", every = 5 }"#);
        let outcome = verified(&torn, job);
        assert!(outcome.failed() > 40, "{name}: {}", outcome.failed());
        assert_eq!(outcome.failed(), counter(&outcome, "fault_torn_writes"), "{name}");
        assert_eq!(outcome.failed() + outcome.ios(), 600, "{name}");
    }
}

#[test]
fn slow_bank_slows_only_its_data() {
    let slow = with("nvme", r#"{ action = "slow-bank", bank = 1, factor = 1000 }"#);
    let well = slowest_and_fastest_latency(&run(&drive("nvme", &[]), READS));
    let outcome = run(&slow, READS);
    let [slowest, fastest] = slowest_and_fastest_latency(&outcome);
    let own = slow.media.command + slow.media.read;
    assert_eq!(fastest, well[1]);
    assert_eq!(slowest, well[0] + own * 999);
    let count = counter(&outcome, "fault_slow_accesses");
    assert!((5..60).contains(&count), "{count}");
}

#[test]
fn accesses_to_a_slow_bank_serialise() {
    let slow = with("nvme-polled", r#"{ action = "slow-bank", bank = 0, factor = 100 }"#);
    let outcome = run(&slow, "bs=4k size=4k io_size=1g number_ios=100 iodepth=8");
    let each = (slow.media.command + slow.media.read) * 100;
    assert!(outcome.elapsed >= each * 100 && outcome.elapsed < each * 102, "{} of {}", outcome.elapsed, each * 100);
}

#[test]
fn stuck_bank_completes_when_free_again() {
    let stuck = with("nvme", r#"{ action = "stuck-bank", bank = 0, from_us = 100, until_us = 2000 }"#);
    let outcome = run(&stuck, READS);
    let [slowest, fastest] = slowest_and_fastest_latency(&outcome);
    assert!(slowest > Span::from_us(1500) && slowest < Span::from_us(2000) + fastest, "{slowest}");
    assert!(counter(&outcome, "fault_stuck_accesses") > 0);
}

#[test]
fn corrupted_packet_delays_only_its_request() {
    let well = run(&drive("nvme", &[]), READS);
    for direction in ["to-host", "to-device"] {
        let fault = format!(r#"{{ action = "corrupt-packet", direction = "{direction}", first = 40, times = 1 }}"#);
        let outcome = run(&with("nvme", &fault), READS);
        assert_eq!(counter(&outcome, "fault_corrupted_packets"), 1, "{direction}");
        let replayed = [outcome.upstream.replays > 0, outcome.downstream.replays > 0];
        assert_eq!(replayed, [direction == "to-host", direction == "to-device"]);
        let later = outcome.elapsed - well.elapsed;
        assert!(later > Span::from_ns(400) && later < Span::from_us(2), "{direction}: {later}");
        assert_eq!(outcome.upstream.data_bytes, well.upstream.data_bytes);
    }
    let often = with("dc-express", r#"{ action = "corrupt-packet", probability = 0.2 }"#);
    verified(&often, "rw=randrw bs=4k size=1m io_size=1g number_ios=200 iodepth=8");
}

#[test]
fn retrained_link_is_down_and_then_as_slow_as_a_narrow_one() {
    for (name, job) in [("nvme-polled", "bs=64k number_ios=400 iodepth=4"), ("dc-express", "bs=64k number_ios=400")] {
        let fault = r#"{ action = "retrain", from_us = 2000, lanes = 1, outage_us = 300 }"#;
        let (outcome, narrow) = (run(&with(name, fault), job), run(&drive(name, &["link.lanes=1"]), job));
        let well = run(&drive(name, &[]), job);
        assert_eq!(counter(&outcome, "fault_retrains"), 1);
        assert_eq!(outcome.upstream.bytes_per_ns, narrow.upstream.bytes_per_ns);
        assert_eq!(outcome.ios(), 400);
        // Requests before the fault are unaffected. The rest takes as long as on the narrow link.
        let before = Span::from_ms(2).as_ns() / well.elapsed.as_ns();
        let expected = Span::from_us(2300).as_ns() + (1.0 - before) * narrow.elapsed.as_ns();
        assert!(common::close(outcome.elapsed.as_ns(), expected, 0.02), "{name}: {} {expected}", outcome.elapsed);
    }
    let fault = r#"{ action = "retrain", from_us = 100, generation = 1, outage_us = 20 }"#;
    let outcome = verified(&with("nvme", fault), "rw=randrw bs=16k size=1m io_size=1g number_ios=300 iodepth=8");
    let old = run(&drive("nvme", &["link.generation=1"]), READS);
    assert_eq!(outcome.upstream.bytes_per_ns, old.upstream.bytes_per_ns);
}

#[test]
fn untriggered_fault_rule_changes_nothing() {
    let job = "rw=randrw bs=4k number_ios=300 iodepth=8";
    for name in shipped::names() {
        let never = r#"{ action = "error", first = 1_000_000 }, { action = "lose-interrupt", from_us = 100_000_000 },
            { action = "delay", delay_us = 1, probability = 0 }"#
            .replace('\n', " ");
        let mut outcome = run(&with(name, &never), job);
        let well = run(&drive(name, &[]), job);
        outcome.counters.retain(|(name, count)| !name.starts_with("fault_") || *count > 0);
        assert_eq!(outcome, well, "{name}");
    }
}

#[test]
fn wrong_fault_rules_are_refused_with_allowed_values() {
    let fault = |fault: &str| problem("nvme", fault);
    assert!(
        fault(r#"{ action = "eror" }"#).contains(r#"faults.action is "eror", did you mean error?"#),
        "{}",
        fault(r#"{ action = "eror" }"#)
    );
    for (rule, found) in [
        (
            r#"{ action = "error", delay_us = 3 }"#,
            "fault 1, \"error\": delay_us has no meaning for this action; allowed: action, operation,",
        ),
        (r#"{ action = "delay" }"#, "fault 1, \"delay\": delay_us is 0; allowed: delay_us above 0"),
        (r#"{ from_us = 3, until_us = 2 }"#, "until_us is not after from_us"),
        (r#"{ action = "stuck-bank" }"#, "until_us is 0; allowed: until_us above 0"),
        (r#"{ action = "slow-bank", factor = 2, bank = 4 }"#, "bank is 4; allowed: 0 to 3"),
        (r#"{ action = "retrain", lanes = 8 }"#, "lanes is 8 with link.lanes 4"),
        (r#"{ action = "retrain", generation = 3 }"#, "generation is 3 with link.generation 2"),
        (r#"{ action = "retrain" }"#, "lanes is 0 and generation is 0"),
        (r#"{ action = "corrupt-packet" }"#, "no packet would ever arrive"),
        (r#"{ every = 0 }"#, "faults.every is 0; allowed: whole number from 1"),
        (r#"{ rate = 1 }"#, "unknown key rate in [faults]"),
    ] {
        assert!(fault(rule).contains(found), "{rule}: {}", fault(rule));
    }
    let flash = problem("tlc-gen4", r#"{ action = "slow-bank", factor = 2 }"#);
    assert!(flash.contains("addresses have no fixed bank"), "{flash}");
    assert!(problem("nvme", "3").contains("tables"));
}

#[test]
fn fault_tables_of_a_file_survive_printing() {
    let text = "preset = \"nvme\"\n\n[[faults]]\naction = \"delay\"\ndelay_us = 5\n\n[[faults]]\nevery = 7\n";
    let drive = Drive::from_toml("drive.toml", text, &[]).unwrap();
    assert_eq!(drive.faults.len(), 2);
    let again = Drive::from_toml("again.toml", &drive.to_toml(), &[]).unwrap();
    assert_eq!(again, drive);
    let wrong = Drive::from_toml("drive.toml", &text.replace("every = 7", "evry = 7"), &[]).unwrap_err();
    assert_eq!(wrong.to_string(), "drive.toml:8: unknown key evry in [faults], did you mean every?");
}

#[test]
fn repeated_completions_end_no_request_twice() {
    let job = "rw=randrw bs=4k size=1m io_size=1g number_ios=300 iodepth=4";
    for name in ["nvme", "dc-express", "capi", "cxl-memory-gen5", "moneta", "pss", "ramdisk"] {
        for delay in ["0", "7"] {
            let fault = format!(r#"{{ action = "repeat-completion", every = 2, delay_us = {delay} }}"#);
            let outcome = verified(&with(name, &fault), job);
            assert_eq!((outcome.failed(), outcome.ios()), (0, 300), "{name}");
            assert_eq!(counter(&outcome, "fault_repeated_completions"), 150, "{name}");
        }
    }
    let fault = r#"{ action = "repeat-completion", every = 2, delay_us = 7 }"#;
    let more = events(&with("nvme", fault), job) - events(&drive("nvme", &[]), job);
    assert!((149..=150).contains(&more), "{more} completions came again");
}

#[test]
fn correctable_bits_read_right_and_more_fail_the_read() {
    let job = "rw=randrw bs=4k size=256k io_size=1g number_ios=120 iodepth=4";
    for name in ["nvme", "dc-express", "capi", "cxl-memory-gen5", "moneta", "pss"] {
        for (bits, fails) in [(1, false), (39, false), (40, true), (500, true)] {
            let outcome =
                verified(&with(name, &format!(r#"{{ action = "flip-bits", bits = {bits}, every = 3 }}"#)), job);
            let flipped = counter(&outcome, "fault_flipped_reads");
            assert!(flipped > 10, "{name}: {flipped}");
            assert_eq!(outcome.failed(), if fails { flipped } else { 0 }, "{name}: {bits} bits");
            assert_eq!(counter(&outcome, "fault_uncorrectable_reads"), outcome.failed(), "{name}");
            assert_eq!(outcome.jobs[0].first_error, fails.then_some(5));
        }
    }
}

#[test]
fn failed_chip_is_corrected_by_the_others() {
    let job = "rw=randrw bs=4k size=256k io_size=1g number_ios=60 iodepth=4";
    for name in ["nvme", "dc-express", "capi", "moneta", "pss"] {
        for chip in [0, 7, 8] {
            let outcome = verified(&with(name, &format!(r#"{{ action = "fail-chip", chip = {chip} }}"#)), job);
            assert_eq!((outcome.failed(), outcome.ios()), (0, 60), "{name}");
            assert!(counter(&outcome, "fault_reads_of_failed_chips") > 15, "{name}");
        }
    }
}

#[test]
fn packets_wait_for_starved_credits_without_loss() {
    let job = "bs=64k number_ios=200 iodepth=8 rw=read";
    let well = run(&drive("nvme-polled", &[]), job);
    let starved = with("nvme-polled", r#"{ action = "starve-credits", from_us = 1000, outage_us = 700 }"#);
    let outcome = run(&starved, job);
    assert_eq!((outcome.failed(), counter(&outcome, "fault_starvations")), (0, 1));
    let later = outcome.elapsed - well.elapsed;
    assert!(later > Span::from_us(600) && later < Span::from_us(720), "{later}");
    let other = with("nvme-polled", r#"{ action = "starve-credits", direction = "to-device", outage_us = 5000 }"#);
    // The first doorbells use the remaining downstream credits. Later ones wait until the outage ends.
    assert!(run(&other, job).elapsed > Span::from_ms(5));
    for direction in ["to-host", "to-device"] {
        let fault =
            format!(r#"{{ action = "starve-credits", direction = "{direction}", from_us = 100, outage_us = 50 }}"#);
        for name in ["nvme", "dc-express", "capi", "cxl-memory-gen5", "moneta", "pss"] {
            verified(&with(name, &fault), "rw=randrw bs=16k size=1m io_size=1g number_ios=300 iodepth=8");
        }
    }
}

#[test]
fn reset_device_gets_its_requests_again_without_loss() {
    let job = "rw=randrw bs=16k size=256k io_size=1g number_ios=150 iodepth=8";
    for name in
        ["nvme", "nvme-polled", "dc-express", "dc-express-block", "capi", "cxl-memory-gen5", "moneta", "pss", "ramdisk"]
    {
        let well = verified(&drive(name, &[]), job).elapsed;
        let at = [0.2, 0.5, 0.7].map(|share| well.as_us() * share);
        let resets = at.map(|at| format!(r#"{{ action = "reset", from_us = {at}, outage_us = 2000 }}"#));
        let outcome = verified(&with(name, &resets.join(", ")), job);
        assert_eq!((outcome.failed(), outcome.ios()), (0, 150), "{name}");
        assert_eq!(counter(&outcome, "fault_resets"), 3, "{name}");
        // In a short run the device is still absent when the next reset occurs.
        let later = outcome.elapsed.as_us() - well.as_us();
        assert!(later > 1500.0, "{name}: {later} us");
        assert!(slowest_and_fastest_latency(&outcome)[0] >= Span::from_ms(2), "{name}: some had to wait");
    }
}

/// Whatever it reserved is free again, or addresses run out.
#[test]
fn device_can_be_reset_any_number_of_times() {
    let resets = (1..40).map(|time| format!(r#"{{ action = "reset", from_us = {}, outage_us = 4 }}"#, time * 8));
    let resets = resets.collect::<Vec<_>>().join(", ");
    for name in ["nvme", "cxl-memory-gen5", "pss"] {
        let outcome = verified(&with(name, &resets), "rw=randrw bs=4k size=256k io_size=1g number_ios=400 iodepth=4");
        assert!(counter(&outcome, "fault_resets") > 16, "{name}: {}", counter(&outcome, "fault_resets"));
    }
}

/// A tag in which none of its chunks ends.
#[test]
fn reset_device_chooses_tags_by_its_contents() {
    let reset = r#"{ action = "reset", from_us = 3000, outage_us = 100 }"#;
    for choice in ["compare", "intervals"] {
        let faults = format!("faults=[{reset}]");
        let set = ["dc_express.tag_bits=8", &format!("dc_express.tag_choice={choice}"), &faults];
        let outcome = verified(&drive("dc-express", &set), "rw=randrw bs=512 size=64k io_size=1g number_ios=600");
        assert_eq!(counter(&outcome, "fault_resets"), 1, "{choice}");
    }
}

#[test]
fn removed_device_fails_current_and_later_requests() {
    for name in shipped::names() {
        let well = run(&drive(name, &[]), "bs=4k number_ios=200 iodepth=4").elapsed;
        let removed = format!(r#"{{ action = "remove", from_us = {} }}"#, well.as_us() / 2.0);
        let outcome = run(&with(name, &removed), "bs=4k number_ios=200 iodepth=4");
        assert!(outcome.finished, "{name}");
        assert!((80..120).contains(&outcome.failed()), "{name}: {}", outcome.failed());
        assert_eq!((outcome.failed() + outcome.ios(), outcome.jobs[0].first_error), (200, Some(19)), "{name}");
        assert_eq!(counter(&outcome, "fault_removed_requests"), outcome.failed(), "{name}");
    }
}

#[test]
fn failed_flushes_are_not_counted_as_job_requests() {
    let removed = r#"faults=[{ action = "remove", from_us = 500 }]"#;
    let drive = drive("tlc-gen4", &["buffer.power_loss_protection=false", removed]);
    let outcome = run(&drive, "rw=randwrite bs=4k fsync=1 number_ios=100");
    let failed_flushes = outcome.jobs[0].failed_flushes;
    assert!(failed_flushes > 20, "{failed_flushes}");
    assert_eq!(outcome.ios() + outcome.failed() - failed_flushes, 100);
}
