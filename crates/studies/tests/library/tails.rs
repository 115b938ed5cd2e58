//! Tails that a run knows soon: how often their intervals hold the value of a long run, over seeds.

use crate::common::{drive, jobs};
use phaselink_core::engine::simulation::Simulation;
use phaselink_core::ledger::Outcome;
use phaselink_core::workload::Job;
use phaselink_studies::precision::{self, PrecisionGoal};
use phaselink_studies::results::tail_by_name;
use phaselink_studies::tails::{Tail, tail_of};

/// Returns a simulation of a mixed job on a small drive that begins in the steady state.
fn mixed_job_in_steady_state(depth: u32, ios: u64, seed: u64) -> Simulation {
    let drive = drive("tlc-gen4", &["media.capacity_mib=131072", "buffer.capacity_kib=2048"]);
    let job = format!("rw=randrw rwmixread=70 bs=4k iodepth={depth} number_ios={ios} io_size=1024p");
    let jobs: Vec<Job> = jobs(&drive, &job).into_iter().map(|job| Job { steady: Some(true), ..job }).collect();
    Simulation::new(&drive, &jobs, seed).expect("a run")
}

/// Returns a tail that the run knows.
fn known(name: &str, outcome: &Outcome) -> Tail {
    tail_of(tail_by_name(name).expect("a tail"), outcome).filter(|tail| tail.estimate.is_ok()).expect("a known tail")
}

/// Runs until the tail `name` is known to 15 %, for each seed. Returns how many intervals hold the value of a long run,
/// and the mean number of requests that a run has counted.
fn holding(name: &str, depth: u32, seeds: u64, long: u64) -> (u64, u64) {
    let goal = PrecisionGoal::parse(&format!("{name}=15%")).expect("a goal");
    let mut whole = mixed_job_in_steady_state(depth, long, 1000);
    while whole.step(1 << 16) {}
    let truth = known(name, &whole.outcome()).estimate.expect("known").value;
    let (mut holding, mut requests) = (0, 0);
    for seed in 1..=seeds {
        let mut run = mixed_job_in_steady_state(depth, long, seed);
        assert!(precision::measure(&mut run, goal, || false).is_known(), "{name}, depth {depth}, seed {seed}");
        let known = known(name, &run.outcome()).estimate.expect("known");
        holding += u64::from((known.low..=known.high).contains(&truth));
        requests += run.counted_requests();
    }
    (holding, requests / seeds)
}

#[test]
fn tail_interval_covers_the_value_of_a_long_run_as_stated() {
    for depth in [4, 32] {
        let (holding, requests) = holding("read_p99_9", depth, 24, 400_000);
        // With a coverage of 95 %, fewer than 20 of 24 intervals contain the value in only one of 200 cases.
        assert!(holding >= 20, "depth {depth}: {holding} of 24 intervals hold the value");
        assert!(requests < 400_000 / 5, "depth {depth}: {requests} requests a run");
    }
}
