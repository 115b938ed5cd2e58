//! Torture finds faults of the program that are planted, and none in the program as it is.

use std::cell::RefCell;

use super::case::Case;
use super::shrink::shrink;
use super::trial::{Finding, Kind, trial};
use super::{draw, trial as trials};
use crate::config::FaultAction;
use crate::drive::Interface;
use crate::engine::faults::planted::{Bug, Planted};
use crate::random::Random;
use crate::simulation::Simulation;

/// Seeds among which each planted fault has to be found.
const SEEDS: u64 = 1000;

/// A trial with a fault in the program.
fn tried_with(bug: Bug, case: &Case) -> Result<(), Finding> {
    run_with(bug, |run| trial(case, run).map(drop))
}

fn run_with<T>(bug: Bug, what: impl FnOnce(trials::Run) -> T) -> T {
    // Each simulation begins anew, with its first event.
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

/// The first seed that shows a fault, of those that `may`.
fn first_seed(bug: Bug, may: impl Fn(&Case) -> bool) -> (Case, Finding) {
    let cases = (1..=SEEDS).map(Case::random).filter(may);
    let found = cases.into_iter().find_map(|case| Some((tried_with(bug, &case).err()?, case)));
    let (finding, case) = found.unwrap_or_else(|| panic!("{bug:?} is not found in {SEEDS} seeds"));
    eprintln!("{bug:?}: seed {}, {finding}", case.seed);
    // Without the fault there is nothing.
    assert_eq!(trial(&case, &trials::plainly).err(), None, "seed {}", case.seed);
    (case, finding)
}

fn speaks(case: &Case, interfaces: &[Interface]) -> bool {
    case.drive().is_ok_and(|drive| interfaces.contains(&drive.interface))
}

#[test]
fn a_dropped_completion_is_found() {
    let (_, finding) = first_seed(Bug::DroppedCompletion, |_| true);
    assert_eq!(finding.kind, Kind::NeverAnswered);
}

#[test]
fn a_write_that_is_acknowledged_before_its_data_is_found() {
    let (_, finding) = first_seed(Bug::AcknowledgedBeforeData, |case| case.number("rwmixread") > 1);
    // An endpoint that looks at what it holds finds it first.
    assert!(matches!(finding.kind, Kind::WrongByte | Kind::Panic), "{finding}");
}

#[test]
fn a_mapping_lost_in_cleaning_is_found() {
    let is_flash = |case: &Case| case.drive().is_ok_and(|drive| drive.memory(1).flash().is_some());
    let (_, finding) = first_seed(Bug::LostMapping, is_flash);
    assert!(matches!(finding.kind, Kind::Memory | Kind::Panic), "{finding}");
}

#[test]
fn a_list_of_pages_that_is_off_by_one_is_found() {
    let (_, finding) = first_seed(Bug::PageListOffByOne, |case| speaks(case, &[Interface::Nvme, Interface::DcExpress]));
    assert_eq!(finding.kind, Kind::WrongByte);
}

#[test]
fn a_tag_that_is_not_renewed_is_found() {
    let (_, finding) = first_seed(Bug::TagNotRenewed, |case| speaks(case, &[Interface::DcExpress]));
    assert_eq!(finding.kind, Kind::NeverAnswered);
}

#[test]
fn a_case_that_fails_gets_small() {
    let bug = Bug::AcknowledgedBeforeData;
    let is_large = |case: &Case| case.set.len() > 2 && case.number("rwmixread") > 1;
    let (case, finding) = first_seed(bug, |case| is_large(case) && speaks(case, &[Interface::Nvme]));
    let (least, found) = run_with(bug, |run| shrink(&case, &finding, run));
    assert_eq!(found.kind, finding.kind);
    assert!(least.set.is_empty() && least.faults.is_empty(), "{least}");
    assert!(least.ios() < case.ios(), "{least}");
    let ladder = run_with(bug, |run| trials::ladder(&least, run)).expect("a request takes part");
    assert!(ladder.contains(&format!("{}: request", least.drive)) && ladder.contains("media"), "{ladder}");
}

#[test]
fn a_sample_of_seeds_finds_nothing() {
    for seed in 1..=60 {
        assert_eq!(super::try_seed(seed).err(), None, "seed {seed}");
    }
}

#[test]
#[ignore = "a minute: make torture"]
fn a_thousand_seeds_find_nothing() {
    for seed in 1..=SEEDS {
        assert_eq!(super::try_seed(seed).err(), None, "seed {seed}");
    }
}

#[test]
fn a_seed_is_the_same_case_each_time_and_a_command_that_runs_it() {
    let case = Case::random(4);
    assert_eq!(case, Case::random(4));
    assert_ne!(case, Case { seed: 4, ..Case::random(5) });
    assert!(case.to_string().starts_with(&format!("phaselink run {} --verify --seed 4 ", case.drive)));
}

#[test]
fn every_fault_that_can_be_drawn_is_one_that_some_drive_takes() {
    let mut random = Random::stream(1, "faults");
    let mut taken = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let faults = vec![draw::fault(&mut random)];
        let case = Case { seed, drive: "nvme", set: Vec::new(), job: Vec::new(), faults };
        taken.extend(case.drive().into_iter().map(|drive| drive.faults[0].action));
    }
    assert_eq!(taken.into_iter().collect::<Vec<_>>(), FaultAction::ALL);
}
