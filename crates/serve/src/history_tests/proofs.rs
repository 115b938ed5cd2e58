//! Proofs that histories are linearizable, that planted bugs are found, and that the checker can fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use phaselink_core::protocol::nvme::rules::reservation::{
    AcquireAction, RegisterAction, ReservationCommand, ReservationKeys, ReservationType,
};
use phaselink_core::protocol::nvme::spec::Status;

use super::checker::check_order;
use super::drive_model::{CallOutcome, HostAction, HostCall, ReferenceDrive};
use super::run::{HistoryCounts, run_history};
use crate::planted::{PlantableBug, run_with_planted_bug};

/// Number of seeds within which each planted bug must be found.
const SEEDS_TO_FIND: u64 = 500;

/// Returns the number of hosts in the history of a seed: two or three.
fn host_count_of_seed(seed: u64) -> u64 {
    2 + seed % 2
}

/// Returns the sums of the counts of these histories.
fn sum(seeds: std::ops::RangeInclusive<u64>) -> HistoryCounts {
    let mut sum = HistoryCounts::default();
    for seed in seeds {
        let counts =
            run_history(seed, host_count_of_seed(seed)).unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        sum.calls += counts.calls;
        sum.conflicts += counts.conflicts;
        sum.refused_by_path += counts.refused_by_path;
        sum.unanswered += counts.unanswered;
        sum.aborted += counts.aborted;
        sum.restarts += counts.restarts;
    }
    sum
}

#[test]
fn histories_of_several_hosts_are_linearizable_and_cover_all_actions() {
    let sum = sum(1..=300);
    let reached = [sum.conflicts, sum.refused_by_path, sum.unanswered, sum.aborted, sum.restarts];
    assert!(reached.iter().all(|count| *count > 0), "{sum:?}");
    assert_eq!(run_history(7, 3), run_history(7, 3));
}

#[test]
fn planted_bugs_are_found_within_500_seeds() {
    let mut unfound = Vec::new();
    for bug in PlantableBug::ALL {
        let finds = |seed: u64| {
            let tried = run_with_planted_bug(bug, || {
                catch_unwind(AssertUnwindSafe(|| run_history(seed, host_count_of_seed(seed))))
            });
            !matches!(tried, Ok(Ok(_)))
        };
        let found = (1..=SEEDS_TO_FIND).find(|seed| finds(*seed));
        println!("{bug:?}: seed {found:?}");
        unfound.extend(found.is_none().then_some(bug));
    }
    assert_eq!(unfound, [], "not found within {SEEDS_TO_FIND} seeds");
}

/// Returns a call of a host on its only path.
fn call_of_host(
    host: usize,
    action: HostAction,
    (invoked, ended): (u32, u32),
    response: Option<(Status, u64)>,
) -> HostCall {
    let data = |value: u64| match action {
        HostAction::Read { .. } => value.to_le_bytes().to_vec(),
        _ => Vec::new(),
    };
    let response = response.map(|(status, value)| CallOutcome { status, data: data(value) });
    HostCall { host, path: host, action, invoked, ended, executed: None, response }
}

fn is_linearizable(calls: &[HostCall]) -> bool {
    check_order(calls, &ReferenceDrive::new(&[0, 1])).is_ok()
}

const DONE: Option<(Status, u64)> = Some((Status::SUCCESS, 0));
const READ: HostAction = HostAction::Read { block: 0 };

fn write(value: u64) -> HostAction {
    HostAction::Write { block: 0, value }
}

#[test]
fn read_sees_completed_writes_and_may_see_concurrent_ones() {
    let write_of_1 = call_of_host(0, write(1), (1, 4), DONE);
    let read = |times, value| call_of_host(1, READ, times, Some((Status::SUCCESS, value)));
    for (times, value, expected) in
        [((2, 3), 0, true), ((2, 3), 1, true), ((5, 6), 1, true), ((5, 6), 0, false), ((2, 6), 2, false)]
    {
        assert_eq!(is_linearizable(&[write_of_1.clone(), read(times, value)]), expected, "{times:?} {value}");
    }
    // Once a new value has been read, a later read must not return the old one.
    assert!(!is_linearizable(&[write_of_1, read((2, 3), 1), call_of_host(0, READ, (4, 5), DONE)]));
}

#[test]
fn write_ended_by_a_reset_takes_effect_before_it_or_never() {
    let lost = call_of_host(0, write(1), (1, 3), None);
    let reads = |values: [u64; 2]| {
        let read = |times, value| call_of_host(1, READ, times, Some((Status::SUCCESS, value)));
        [lost.clone(), read((4, 5), values[0]), read((6, 7), values[1])]
    };
    for (values, expected) in [([0, 0], true), ([1, 1], true), ([0, 1], false), ([1, 0], false)] {
        assert_eq!(is_linearizable(&reads(values)), expected, "{values:?}");
    }
}

#[test]
fn write_of_a_preempted_host_takes_effect_before_or_conflicts() {
    let keys = |current, other| ReservationKeys { current, other };
    let register = ReservationCommand::Register { action: RegisterAction::Register, ignores_key: true, persists: None };
    let kind = ReservationType::WriteExclusive;
    let acquire = ReservationCommand::Acquire { action: AcquireAction::Acquire, kind };
    let preempt = ReservationCommand::Acquire { action: AcquireAction::Preempt, kind };
    let history = |times, response| {
        [
            call_of_host(0, HostAction::Reserve(register, keys(0, 1)), (1, 2), DONE),
            call_of_host(0, HostAction::Reserve(acquire, keys(1, 0)), (3, 4), DONE),
            call_of_host(1, HostAction::Reserve(register, keys(0, 2)), (5, 6), DONE),
            call_of_host(1, HostAction::Reserve(preempt, keys(2, 1)), (10, 20), DONE),
            call_of_host(0, write(1), times, Some((response, 0))),
        ]
    };
    for (times, response, expected) in [
        ((7, 9), Status::SUCCESS, true),
        ((7, 9), Status::RESERVATION_CONFLICT, false),
        ((15, 30), Status::SUCCESS, true),
        ((15, 30), Status::RESERVATION_CONFLICT, true),
        ((21, 30), Status::SUCCESS, false),
        ((21, 30), Status::RESERVATION_CONFLICT, true),
    ] {
        assert_eq!(is_linearizable(&history(times, response)), expected, "{times:?} {response:?}");
    }
}

#[test]
#[ignore = "10,000 histories take a while: make torture"]
fn ten_thousand_histories_are_linearizable() {
    let begun = std::time::Instant::now();
    println!("{:?} in {:?}", sum(1..=10_000), begun.elapsed());
}
