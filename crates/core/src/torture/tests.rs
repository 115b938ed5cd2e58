//! Tests that torture finds planted bugs, and finds none in the program as it is.

use std::cell::RefCell;

use super::case::Case;
use super::coverage::TortureCoverage;
use super::shrink::shrink;
use super::trial::{TrialCoverage, TrialFailure, TrialFailureKind, trial};
use super::{draw, trial as trials};
use crate::config::{Acknowledge, FaultAction};
use crate::drive::{Drive, Interface};
use crate::engine::faults::test_bugs::{self, Planted, SimulatorBug};
use crate::ledger::{Record, Step};
use crate::random::Random;
use crate::simulation::Simulation;

/// Number of seeds among which each planted bug has to be found.
const SEEDS: u64 = 4000;

/// Runs a test case with a planted bug, and checks it.
fn run_with_bug(bug: SimulatorBug, case: &Case) -> Result<(), TrialFailure> {
    run_with(bug, |run| trial(case, run).map(drop))
}

fn run_with<T>(bug: SimulatorBug, what: impl FnOnce(trials::SimulationRunner) -> T) -> T {
    // Each simulation begins with a fresh planted bug, recognisable by a simulation without events.
    let planted = RefCell::new(Planted::new(bug));
    let run = |simulation: &mut Simulation| {
        if simulation.events() == 0 {
            planted.replace(Planted::new(bug));
        }
        let more = simulation.step(1);
        planted.borrow_mut().after_event(simulation.engine_mut());
        more
    };
    what(&run)
}

/// Returns the test case of the first seed that shows a planted bug, and its failure. Only cases that fulfil `may`
/// count.
fn first_seed_showing_bug(bug: SimulatorBug, may: impl Fn(&Case) -> bool) -> (Case, TrialFailure) {
    let cases = (1..=SEEDS).map(Case::random).filter(may);
    let found = cases.into_iter().find_map(|case| Some((run_with_bug(bug, &case).err()?, case)));
    let (finding, case) = found.unwrap_or_else(|| panic!("{bug:?} is not found in {SEEDS} seeds"));
    eprintln!("{bug:?}: seed {}, {finding}", case.seed);
    // Check that the case passes without the bug.
    assert_eq!(trial(&case, &trials::advance_normally).err(), None, "seed {}", case.seed);
    (case, finding)
}

fn has_interface(case: &Case, interfaces: &[Interface]) -> bool {
    case.drive().is_ok_and(|drive| interfaces.contains(&drive.interface))
}

#[test]
fn torture_finds_a_dropped_completion() {
    let (_, finding) = first_seed_showing_bug(SimulatorBug::DroppedCompletion, |_| true);
    assert_eq!(finding.kind, TrialFailureKind::NeverAnswered);
}

#[test]
fn torture_finds_a_write_acknowledged_too_early() {
    let (_, finding) =
        first_seed_showing_bug(SimulatorBug::AcknowledgedBeforeData, |case| case.number("rwmixread") > 1);
    // An endpoint that checks its own state panics before the wrong byte is noticed.
    assert!(matches!(finding.kind, TrialFailureKind::WrongByte | TrialFailureKind::Panic), "{finding}");
}

#[test]
fn torture_finds_a_mapping_lost_in_garbage_collection() {
    let is_flash = |case: &Case| case.drive().is_ok_and(|drive| drive.memory(1).flash().is_some());
    let (_, finding) = first_seed_showing_bug(SimulatorBug::LostMapping, is_flash);
    assert!(matches!(finding.kind, TrialFailureKind::Memory | TrialFailureKind::Panic), "{finding}");
}

#[test]
fn torture_finds_an_off_by_one_page_list() {
    let (_, finding) = first_seed_showing_bug(SimulatorBug::PageListOffByOne, |case| {
        has_interface(case, &[Interface::Nvme, Interface::DcExpress])
    });
    assert_eq!(finding.kind, TrialFailureKind::WrongByte);
}

#[test]
fn torture_finds_a_tag_that_is_not_renewed() {
    // Wide tags are unlikely to occur in the data by chance, so only drives with tags of 8 bits show this bug.
    let meets_tags = |case: &Case| case.set.iter().any(|set| set.ends_with(".tag_bits=8"));
    let (_, finding) = first_seed_showing_bug(SimulatorBug::TagNotRenewed, |case| {
        meets_tags(case) && has_interface(case, &[Interface::DcExpress])
    });
    assert_eq!(finding.kind, TrialFailureKind::NeverAnswered);
}

#[test]
fn torture_finds_a_driver_that_checks_only_the_last_chunk() {
    // On other drives the last chunk always arrives last.
    let overtakes = |case: &Case| case.drive().is_ok_and(|drive| drive.root_complex.late_write_ratio > 0.0);
    let (_, finding) = first_seed_showing_bug(SimulatorBug::OnlyTheLastChunk, |case| {
        overtakes(case) && has_interface(case, &[Interface::DcExpress])
    });
    assert!(matches!(finding.kind, TrialFailureKind::WrongByte | TrialFailureKind::Panic), "{finding}");
}

#[test]
fn torture_finds_an_unrecorded_gap_move() {
    let levels = |case: &Case| case.drive().is_ok_and(|drive| drive.memory(1).wear().is_some());
    let (_, finding) = first_seed_showing_bug(SimulatorBug::ForgottenGapMove, levels);
    assert_eq!(finding.kind, TrialFailureKind::Memory);
}

#[test]
fn torture_finds_a_stale_shadow_doorbell() {
    let shares = |case: &Case| case.drive().is_ok_and(|drive| drive.nvme.shadow_doorbells);
    let (_, finding) = first_seed_showing_bug(SimulatorBug::StaleShadowDoorbell, |case| {
        shares(case) && has_interface(case, &[Interface::Nvme])
    });
    assert!(matches!(finding.kind, TrialFailureKind::NeverAnswered | TrialFailureKind::Panic), "{finding}");
}

#[test]
fn torture_finds_swapped_completions() {
    let is_deep = |case: &Case| case.number("iodepth") > 1 && case.number("rwmixread") > 1;
    let (_, finding) = first_seed_showing_bug(SimulatorBug::ReorderedCompletion, |case| {
        is_deep(case) && has_interface(case, &[Interface::Nvme])
    });
    assert!(matches!(finding.kind, TrialFailureKind::WrongByte | TrialFailureKind::Panic), "{finding}");
}

/// True if power fails in a test case, and its drive fulfils `keeps`.
fn cuts_power(case: &Case, keeps: impl Fn(&Drive) -> bool) -> bool {
    case.drive().is_ok_and(|drive| drive.loses_power() && keeps(&drive))
}

#[test]
fn torture_finds_false_power_loss_protection() {
    let is_protected = |drive: &Drive| drive.media.acknowledge == Acknowledge::Early && drive.keeps_acknowledged();
    let (_, finding) =
        first_seed_showing_bug(SimulatorBug::ProtectionOnlyClaimed, |case| cuts_power(case, is_protected));
    assert_eq!(finding.kind, TrialFailureKind::WrongByte);
}

#[test]
fn torture_finds_an_ineffective_flush() {
    let flushes = |case: &Case| case.job.iter().any(|(option, _)| option.ends_with("sync"));
    let may_lose = |case: &Case| cuts_power(case, |drive| !drive.keeps_acknowledged());
    let (_, finding) = first_seed_showing_bug(SimulatorBug::IgnoredFlush, |case| flushes(case) && may_lose(case));
    assert_eq!(finding.kind, TrialFailureKind::WrongByte);
}

#[test]
fn torture_finds_a_torn_block_after_a_power_cut() {
    let (_, finding) = first_seed_showing_bug(SimulatorBug::TornUnit, |case| cuts_power(case, |_| true));
    assert_eq!(finding.kind, TrialFailureKind::WrongByte);
}

#[test]
fn torture_finds_lost_data_that_returns_after_a_power_cut() {
    let (_, finding) = first_seed_showing_bug(SimulatorBug::ResurrectedData, |case| cuts_power(case, |_| true));
    // An endpoint that checks its own state panics before the wrong byte is noticed.
    assert!(matches!(finding.kind, TrialFailureKind::WrongByte | TrialFailureKind::Panic), "{finding}");
}

#[test]
fn reads_after_a_reset_are_checked_strictly() {
    let faults = vec![String::from(r#"{ action = "reset", from_us = 200 }"#)];
    let job = ["rw=randrw", "bs=4096", "size=4096", "io_size=1g", "number_ios=60", "iodepth=4"];
    let job = job.into_iter().filter_map(|option| option.split_once('='));
    let job = job.map(|(name, value)| (name, String::from(value))).collect();
    let case = Case { seed: 1, drive: "nvme", set: Vec::new(), job, faults };
    let drive = case.drive().unwrap();
    let mut simulation = Simulation::with_data(&drive, &case.jobs(&drive).unwrap(), 1).unwrap();
    while simulation.step(1) {
        if simulation.completed() > 50 {
            test_bugs::overwrite(simulation.engine_mut(), 0, &[0; 4096]);
        }
    }
    assert!(!simulation.data_problems().is_empty(), "what is there was overwritten long ago");
}

#[test]
fn failing_torture_case_is_shrunk() {
    let bug = SimulatorBug::AcknowledgedBeforeData;
    let set = ["link.max_payload_bytes=128", "host.variation=0", "nvme.queue_entries=128"].map(String::from).to_vec();
    let faults = vec![String::from(r#"{ action = "delay", operation = "read", every = 10, delay_us = 2 }"#)];
    let job = [
        "rw=randrw",
        "bs=4096",
        "iodepth=4",
        "numjobs=2",
        "number_ios=100",
        "size=16384",
        "io_size=1g",
        "rwmixread=50",
    ];
    let job = job.into_iter().filter_map(|option| option.split_once('='));
    let job = job.map(|(name, value)| (name, String::from(value))).collect();
    let case = Case { seed: 1, drive: "dram-card", set, job, faults };
    assert_eq!(trial(&case, &trials::advance_normally).err(), None);
    let finding = run_with_bug(bug, &case).expect_err("reads follow writes at once");
    let (least, found) = run_with(bug, |run| shrink(&case, &finding, run));
    assert_eq!(found.kind, finding.kind);
    assert!(least.set.is_empty() && least.faults.is_empty(), "{least}");
    assert!(least.ios() < case.ios(), "{least}");
    let involved = run_with(bug, |run| trials::involved_request(&least, run)).expect("a request takes part");
    let is_own = |record: &Record| record.request == Some(involved.number);
    let in_media = involved.steps.records().iter().filter(|record| matches!(record.step, Step::Media(_)));
    assert!(in_media.clone().count() > 0 && in_media.clone().all(is_own), "{involved:?}");
}

#[test]
fn sampled_torture_seeds_find_no_failure() {
    for seed in 1..=60 {
        assert_eq!(super::run_seed(seed).err(), None, "seed {seed}");
    }
}

#[test]
#[ignore = "a minute: make torture"]
fn thousand_torture_seeds_find_no_failure() {
    for seed in 1..=1000 {
        assert_eq!(super::run_seed(seed).err(), None, "seed {seed}");
    }
}

#[test]
#[ignore = "minutes: make torture"]
fn torture_reaches_all_reachable_packets_and_faults() {
    let mut coverage = TortureCoverage::default();
    for seed in 1..=5000 {
        coverage.add(&super::run_seed(seed).unwrap_or_else(|finding| panic!("seed {seed}: {finding}")));
        if seed % 500 == 0 && coverage.uncovered_case_texts().is_empty() {
            return;
        }
    }
    assert_eq!(coverage.uncovered_case_texts(), [""; 0]);
}

#[test]
fn torture_lists_unreached_packets_and_faults() {
    let unreached = TortureCoverage::default().uncovered_case_texts();
    let has = |what: &str| unreached.iter().any(|line| line == what);
    assert!(has("nvme: torn-write has happened in no run") && has("capi: no run has had \"claim lines\" on the wire"));
    assert!(has("nvme: lose-interrupt has happened in no run") && !has("cxl: lose-interrupt has happened in no run"));
    let mut coverage = TortureCoverage::default();
    let packets = ["doorbell down", "status up"].map(String::from).into_iter().collect();
    coverage.add(&TrialCoverage { interface: "capi", packets, faults: vec![FaultAction::TornWrite], ios: 1 });
    let told = coverage.uncovered_case_texts();
    assert!(
        !told
            .iter()
            .any(|line| line.contains("capi") && (line.contains("\"doorbell\"") || line.contains("torn-write")))
    );
    assert_eq!(told.len() + 3, unreached.len());
}

#[test]
fn torture_covers_zones_and_placement_handles() {
    let cases = (1..=400).map(Case::random).filter(|case| !case.job[0].1.ends_with("read"));
    let drives: Vec<Drive> =
        cases.filter_map(|case| case.drive().ok().filter(|drive| case.jobs(drive).is_ok())).collect();
    let with_zones = drives.iter().filter(|drive| drive.zones.is_there()).count();
    let with_handles = drives.iter().filter(|drive| drive.placement.is_there()).count();
    let restarts = |drive: &&Drive| drive.faults.iter().any(|fault| fault.action.does_restart_controller());
    let restarted = drives.iter().filter(|drive| drive.zones.is_there()).filter(restarts).count();
    assert!(with_zones >= 16 && with_handles >= 5, "{with_zones} with zones, {with_handles} with handles");
    assert!(restarted >= 3, "{restarted} of {with_zones} with zones are restarted");
    let on_dies = drives.iter().filter(|drive| drive.zones.dies > 0).count();
    assert!(on_dies >= 2, "{on_dies} of {with_zones} with zones on dies of their own");
}

#[test]
fn torture_seed_gives_a_reproducible_case_and_command() {
    let case = Case::random(4);
    assert_eq!(case, Case::random(4));
    assert_ne!(case, Case { seed: 4, ..Case::random(5) });
    assert!(case.to_string().starts_with(&format!("phaselink run {} --verify --seed 4 ", case.drive)));
}

#[test]
fn drawable_faults_are_accepted_by_some_drive() {
    let mut random = Random::stream(1, "faults");
    let mut taken = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let (cuts, _) = draw::power(&mut random);
        let faults = vec![cuts.into_iter().next().unwrap_or_else(|| draw::fault(&mut random))];
        let case = Case { seed, drive: "nvme", set: Vec::new(), job: Vec::new(), faults };
        taken.extend(case.drive().into_iter().map(|drive| drive.faults[0].action));
    }
    assert_eq!(
        taken.into_iter().collect::<Vec<_>>(),
        FaultAction::ALL.split_at(21).0,
        "all but those of timelines alone"
    );
}
