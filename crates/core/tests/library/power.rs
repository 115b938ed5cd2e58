//! Power that fails: what a run does then, and what every drive still has of what it has acknowledged.

use crate::common::{self, counter, drive, jobs, run};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::Simulation;
use phaselink_core::time::Span;

/// A drive of each protocol, and flash with either promise.
const DRIVES: [&str; 9] =
    ["nvme", "dc-express", "capi", "cxl-memory-gen5", "moneta", "pss", "ramdisk", "tlc-gen4", "tlc-gen5"];
/// Writes that are read again, close to each other.
const MIX: &str = "rw=randrw rwmixread=50 bs=4k size=128k io_size=1g number_ios=300 iodepth=8";

fn with(name: &str, faults: &str, changes: &[&str]) -> Drive {
    let faults = format!("faults=[{faults}]");
    drive(name, &[changes, &[&faults]].concat())
}

/// A run with real bytes, in which no read finds what it may not.
fn verified(drive: &Drive, job: &str) -> Outcome {
    let mut simulation = Simulation::with_data(drive, &jobs(drive, job), 1).unwrap();
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.data_problems(), [""; 0], "{}", drive.name);
    assert_eq!(simulation.memory_problem(), None, "{}", drive.name);
    let outcome = simulation.outcome();
    assert!(outcome.finished, "{}", drive.name);
    outcome
}

/// Changes that make a drive acknowledge from buffers that do not outlive power.
fn without_power_loss_protection(name: &str) -> Vec<&'static str> {
    let volatile = ["media.acknowledge=early", "buffer.power_loss_protection=false"];
    if name.starts_with("tlc") { volatile[1..].to_vec() } else { volatile.to_vec() }
}

/// Power fails at these shares of a run.
fn power_cuts_at_shares(name: &str, changes: &[&str], shares: &[f64]) -> String {
    let well = run(&drive(name, changes), MIX).elapsed.as_us();
    let cuts = shares.iter().map(|share| format!(r#"{{ action = "power-cut", from_us = {} }}"#, share * well));
    cuts.collect::<Vec<_>>().join(", ")
}

#[test]
fn drives_keep_their_durability_promise_and_continue() {
    for name in DRIVES {
        for changes in [vec![], without_power_loss_protection(name)] {
            let drive = with(name, &power_cuts_at_shares(name, &changes, &[0.1, 0.2, 0.4]), &changes);
            let outcome = verified(&drive, MIX);
            assert_eq!((outcome.failed(), outcome.ios()), (0, 300), "{name} {changes:?}");
            assert_eq!(counter(&outcome, "fault_power_cuts"), 3, "{name} {changes:?}");
        }
    }
}

#[test]
fn buffered_writes_survive_power_failure_only_with_power_loss_protection() {
    let job = "rw=randwrite bs=4k size=128k io_size=1g number_ios=300 iodepth=1";
    for name in DRIVES {
        let early = without_power_loss_protection(name);
        let lost = |protection: &str| {
            // Programming takes so long that the next request arrives before it has ended.
            let changes = [&early[..early.len() - 1], &[protection, "media.program_ns=200000"]].concat();
            let cut = r#"{ action = "power-cut", at = "request", first = 120, delay_us = 0 }"#;
            let cut = cut.replace("first", "times = 1, first");
            counter(&verified(&with(name, &cut, &changes), job), "lost_units")
        };
        // With one request in flight, earlier ones have been acknowledged when the next one arrives.
        assert_eq!(lost("buffer.power_loss_protection=true"), 0, "{name}");
        assert!(lost("buffer.power_loss_protection=false") > 0, "{name}");
    }
}

#[test]
fn writes_acknowledged_from_cells_survive_power_failure() {
    let job = "rw=randwrite bs=4k size=128k io_size=1g number_ios=100 iodepth=1";
    for name in ["nvme", "dc-express", "capi", "cxl-memory-gen5", "moneta", "pss", "ramdisk", "tlc-gen4"] {
        let cut = r#"{ action = "power-cut", at = "request", first = 30, every = 20, times = 3 }"#;
        let outcome = verified(&with(name, cut, &["media.acknowledge=late"]), job);
        assert_eq!((counter(&outcome, "fault_power_cuts"), counter(&outcome, "lost_units")), (3, 0), "{name}");
    }
}

#[test]
fn flushed_writes_survive_power_failure_without_protection() {
    let job = "rw=randwrite bs=4k size=128k io_size=1g number_ios=200 iodepth=1";
    let cut = r#"{ action = "power-cut", at = "request", first = 60, every = 50, times = 2 }"#;
    let own = ["media.acknowledge=early", "buffer.power_loss_protection=false", "media.program_ns=200000"];
    for name in ["nvme", "tlc-gen4"] {
        let drive = with(name, cut, &own);
        let lost = |flushes: &str| counter(&verified(&drive, &format!("{job} {flushes}")), "lost_units");
        assert!(lost("") > 0, "{name}");
        assert_eq!(lost("fsync=1"), 0, "{name}");
        verified(&drive, &format!("{MIX} fsync=3"));
    }
}

#[test]
fn partial_write_units_survive_power_failure_if_durable_when_acknowledged() {
    let job = "rw=randrw bs=512 size=64k io_size=1g number_ios=300 iodepth=1";
    let cut = r#"{ action = "power-cut", at = "request", operation = "write", first = 30, every = 20, times = 3 }"#;
    for (changes, is_owed) in [
        (["media.acknowledge=late", "media.program_bytes=1024"], true),
        (["media.acknowledge=early", "cxl.unit_bytes=1024"], true),
        (["buffer.power_loss_protection=false", "cxl.unit_bytes=1024"], false),
    ] {
        let changes = [&["media.acknowledge=early"], &changes[..], &["media.program_ns=200000"]].concat();
        let outcome = verified(&with("cxl", cut, &changes), job);
        assert_eq!(counter(&outcome, "lost_units") == 0, is_owed, "{changes:?}");
    }
}

#[test]
fn stores_not_yet_flushed_are_lost_at_power_failure() {
    // The lines of one request arrive one after another, and are flushed with the last one.
    let cut = r#"{ action = "power-cut", at = "event", first = 500, every = 37, times = 20 }"#;
    let drive = with("cxl-memory-gen5", cut, &["media.acknowledge=late"]);
    let outcome = verified(&drive, "rw=randwrite bs=4k size=64k io_size=1g number_ios=60 iodepth=1");
    assert!(counter(&outcome, "lost_units") > 20, "{}", counter(&outcome, "lost_units"));
}

#[test]
fn requests_complete_after_power_failure_at_any_event() {
    for (name, first) in [("nvme", 700), ("dc-express", 1500), ("tlc-gen4", 600)] {
        for event in first..first + 40 {
            let cut = format!(r#"{{ action = "power-cut", at = "event", first = {event}, times = 1 }}"#);
            let drive = with(name, &cut, &without_power_loss_protection(name));
            let outcome = verified(&drive, &MIX.replace("=300", "=60"));
            assert_eq!((outcome.ios(), counter(&outcome, "fault_power_cuts")), (60, 1), "{name} {event}");
        }
    }
}

#[test]
fn requests_complete_after_power_failure_at_or_after_a_request() {
    for delay in ["0", "0.3", "5"] {
        let cut = format!(
            r#"{{ action = "power-cut", at = "request", first = 9, every = 50, times = 3, delay_us = {delay} }}"#
        );
        for name in DRIVES {
            let outcome = verified(&with(name, &cut, &without_power_loss_protection(name)), MIX);
            assert_eq!(counter(&outcome, "fault_power_cuts"), 3, "{name} {delay}");
            assert_eq!((outcome.failed(), outcome.ios()), (0, 300), "{name} {delay}");
        }
    }
}

#[test]
fn drive_is_ready_again_after_power_outage() {
    let job = "bs=4k number_ios=200";
    for name in ["nvme", "dc-express", "pss"] {
        let well = run(&drive(name, &[]), job).elapsed.as_us();
        let from = well / 2.0;
        for away in [700, 3700] {
            let cut = format!(r#"{{ action = "power-cut", from_us = {from}, outage_us = {away} }}"#);
            let outcome = run(&with(name, &cut, &[]), job);
            let later = outcome.elapsed.as_us() - well;
            assert!((later - away as f64).abs() < 60.0, "{name}: {later} us later for {away}");
            assert!(common::reads(&outcome).total.max() >= Span::from_us(away), "{name}");
        }
    }
}

#[test]
fn power_failure_during_start_up_restarts_the_start_up() {
    let cuts = r#"{ action = "power-cut", from_us = 100, outage_us = 1000 },
        { action = "power-cut", from_us = 900, outage_us = 1000 }, { action = "reset", from_us = 950 }"#;
    for name in ["nvme", "dc-express", "moneta"] {
        let drive = with(name, &cuts.replace('\n', " "), &[]);
        let outcome = verified(&drive, "rw=randrw bs=4k size=64k io_size=1g number_ios=40 iodepth=2");
        assert_eq!((outcome.ios(), counter(&outcome, "fault_power_cuts")), (40, 2), "{name}");
        assert!(outcome.elapsed > Span::from_us(1900), "{name}: {}", outcome.elapsed);
    }
}

#[test]
fn device_without_power_polls_nothing_and_can_be_removed() {
    let cuts = r#"{ action = "power-cut", from_us = 50, outage_us = 1_000_000 }, { action = "remove", from_us = 500 }"#;
    let outcome = run(&with("dc-express", cuts, &[]), "bs=4k number_ios=100");
    assert_eq!(outcome.failed() + outcome.ios(), 100);
    assert!(outcome.failed() > 50 && outcome.elapsed < Span::from_us(600), "{}", outcome.elapsed);
    let off = r#"{ action = "power-cut", from_us = 50, outage_us = 1_000_000 }"#;
    let outcome = run(&with("dc-express", off, &[]), "bs=4k number_ios=100");
    assert_eq!(outcome.ios(), 100);
    assert!(outcome.events < 20_000, "an endpoint without power does not look for commands: {}", outcome.events);
}

#[test]
fn power_failure_drops_work_in_progress_and_only_requests_in_flight_repeat() {
    let slow = r#"{ action = "slow-bank", bank = 0, factor = 50 }, { action = "slow-bank", bank = 1, factor = 50 }"#;
    for (name, faults, changes) in [
        ("nvme", "", ["media.program_ns=2000000", "media.acknowledge=late"]),
        ("nvme", "", ["controller.write_core_ns=200000", "media.program_ns=1000"]),
        ("nvme", slow, ["media.program_ns=20000", "media.acknowledge=late"]),
        ("tlc-gen4", "", ["media.acknowledge=late", "media.program_ns=2000000"]),
    ] {
        let job = "rw=randwrite bs=4k size=1m io_size=1g number_ios=32 iodepth=32";
        let well = run(&with(name, faults, &changes), job).elapsed.as_us();
        let from = 0.6 * well;
        let cut = format!(r#"{{ action = "power-cut", from_us = {from}, outage_us = 0 }}, {faults}"#);
        let elapsed = run(&with(name, &cut, &changes), job).elapsed.as_us();
        // Completed requests stay completed. Only requests in flight are repeated.
        assert!(elapsed < 1.25 * well, "{name} {changes:?}: {elapsed} us, {well} without a cut");
    }
}

#[test]
fn power_cut_that_never_triggers_leaves_the_run_unchanged() {
    for name in DRIVES {
        let never = with(name, r#"{ action = "power-cut", at = "event", first = 1_000_000_000, times = 1 }"#, &[]);
        let well = verified(&drive(name, &[]), MIX);
        let mut outcome = verified(&never, MIX);
        outcome.counters.retain(|(name, _)| !["fault_power_cuts", "lost_units"].contains(name));
        assert_eq!(outcome, well, "{name}");
    }
}

#[test]
fn same_seed_loses_the_same_data_at_power_failure() {
    let changes = without_power_loss_protection("tlc-gen4");
    let drive = with("tlc-gen4", &power_cuts_at_shares("tlc-gen4", &changes, &[0.3, 0.7]), &changes);
    assert_eq!(verified(&drive, MIX), verified(&drive, MIX));
}

#[test]
fn tag_choices_that_compare_stored_data_recover_after_restart() {
    for choice in ["compare", "intervals"] {
        let changes = [&format!("dc_express.tag_choice={choice}"), "dc_express.tag_bits=16"];
        for fault in ["power-cut", "reset"] {
            let fault = format!(r#"{{ action = "{fault}", from_us = 4000 }}"#);
            let outcome = verified(&with("dc-express", &fault, &changes), MIX);
            assert_eq!(outcome.ios(), 300, "{choice} {fault}");
        }
    }
}

#[test]
fn invalid_power_cut_rules_are_refused_with_allowed_values() {
    let problem = |fault: &str| {
        let shipped = shipped::find("nvme").unwrap();
        let set = [KeyOverride::parse(&format!("faults=[{{ action = \"power-cut\", {fault} }}]")).unwrap()];
        Drive::from_toml(shipped.file, shipped.text, &set).unwrap_err().to_string()
    };
    for (fault, found) in [
        ("at = \"evnt\"", "faults.at is \"evnt\", did you mean event?"),
        ("at = \"event\", first = 5", "power would fail for ever; allowed: times above 0"),
        ("first = 5", "first has no meaning for this action"),
        ("at = \"event\", times = 1, from_us = 5", "from_us has no meaning for this action"),
        ("delay_us = 5", "delay_us has no meaning for this action"),
    ] {
        assert!(problem(fault).contains(found), "{fault}: {}", problem(fault));
    }
}

#[test]
fn power_loss_protection_needs_writes_acknowledged_from_a_buffer() {
    let shipped = shipped::find("nvme").unwrap();
    let with = |acknowledge: &str| {
        let set = ["buffer.power_loss_protection=false", acknowledge].map(|set| KeyOverride::parse(set).unwrap());
        Drive::from_toml(shipped.file, shipped.text, &set)
    };
    let problem = with("media.acknowledge=late").map(drop).unwrap_err().to_string();
    assert!(problem.contains("with media.acknowledge \"late\", where it has no effect"), "{problem}");
    assert!(!with("media.acknowledge=early").unwrap().keeps_acknowledged());
}

#[test]
fn explanation_states_durability_of_an_acknowledged_write() {
    let cut = r#"{ action = "power-cut", from_us = 50 }"#;
    for (changes, promise) in [
        (["media.acknowledge=late", "media.read_ns=100"], "is in the cells, and survives a power cut"),
        (["media.acknowledge=early", "media.read_ns=100"], "is in the buffers of the memory, and survives a power cut"),
        (["media.acknowledge=early", "buffer.power_loss_protection=false"], "memory, and may be lost in a power cut"),
    ] {
        let text = with("nvme", cut, &changes).explain();
        assert!(text.contains(promise), "{text}");
    }
    assert!(!drive("nvme", &[]).explain().contains("an acknowledged write"));
}
