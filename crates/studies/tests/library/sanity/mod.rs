//! Laws that hold for any drive, link, memory, host and job, tried on thousands of them. Flash drives have cases of their own
//! (steady.rs).
//!
//! `make sanity` checks all; `cargo test` a sample. The laws are in laws.rs, what they are tried on in cases.rs, parts that
//! can be faster in parts.rs. exceptions.toml lists what breaks a law for a physical reason, and by how much at most.
//! Whether the laws find anything is tried on planted faults (planted.rs).

mod cases;
mod exceptions;
mod lab;
mod laws;
mod parts;
mod planted;
mod steady;

use cases::Case;
use exceptions::{LawExceptions, LawJudgement};
use lab::SimulationLab;
use phaselink_core::drive_file::shipped;
use phaselink_core::random::mix;

/// Cases of random drives, links, memories, hosts and jobs.
const RANDOM_CASES: u64 = 1000;
/// How many of all cases `cargo test` tries.
const SAMPLE: usize = 12;

/// Every case, in an order in which neighbours have little in common.
fn all() -> Vec<Case> {
    let cases = cases::ladders().into_iter().chain((0..RANDOM_CASES).map(cases::random));
    let mut cases: Vec<_> = (0..).map(mix).zip(cases).collect();
    cases.sort_by_key(|(place, _)| *place);
    cases.into_iter().map(|(_, case)| case).collect()
}

fn assert_sane(cases: &[Case]) -> LawJudgement {
    let (tried, findings) = SimulationLab::default().check_all(cases);
    let judgement = LawExceptions::shipped().judge(&findings);
    println!("{tried} configurations tried, {} cases\n{judgement}", cases.len());
    let unexplained = &judgement.unexplained;
    assert!(unexplained.is_empty(), "{} findings:\n{}", unexplained.len(), unexplained.join("\n"));
    judgement
}

#[test]
fn sampled_configurations_obey_the_queueing_laws() {
    assert_sane(&all()[..SAMPLE]);
}

#[test]
#[ignore = "some minutes: make sanity"]
fn all_configurations_obey_the_queueing_laws() {
    let unused = assert_sane(&all()).unused().join("\n");
    assert!(unused.is_empty(), "exceptions that explain nothing:\n{unused}");
}

#[test]
fn interfaces_over_the_same_memory_get_equal_memory_service() {
    assert_eq!(laws::unequal_memory_limits(&SimulationLab::default(), &shipped::set("interfaces")), [""; 0]);
}
