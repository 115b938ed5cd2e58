//! Flash drives in every state at their start: throughput stays under the bounds of predictions, with garbage collection in
//! the background.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use phaselink_core::config::Mapping;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::ledger::Outcome;
use phaselink_core::simulation::simulate;
use phaselink_core::workload::Job;
use phaselink_studies::predict::predict;

use super::cases;
use crate::common::jobs;

/// Time after which the write buffers of all shipped drives are full, if a job writes faster than their cells.
const RAMP: &str = "ramp_time=100ms";
/// Requests of each of four threads at first, and where a run passes its bound: so many that one round of programs of all
/// dies is a small share of them.
const REQUESTS: [u32; 2] = [3_000, 60_000];
/// Long runs, each with a seed of its own, whose mean counts: where victims are drawn, write amplification varies by
/// some hundredths from one to the next.
const LONG_RUNS: u64 = 4;
/// Share by which a run may pass a bound by chance.
const DOUBT: f64 = 0.01;

const WORKS: &[&str] = &[
    "rw=randwrite bs=4k",
    "rw=randwrite bs=512",
    "rw=randwrite bs=64k",
    "rw=randwrite bs=4k size=20g",
    "rw=write bs=128k",
    "rw=write bs=4k",
    "rw=randrw rwmixread=50 bs=4k",
    "rw=randrw rwmixread=90 bs=16k",
    "rw=randread bs=4k",
    "rw=randread bs=128k",
    "rw=read bs=128k",
];
/// Settings, and the states at the start in which they are tried.
const SETTINGS: &[(&str, &[&str])] = &[
    ("translation.policy=greedy", &["random", "sequential", "none"]),
    ("translation.policy=fifo", &["random"]),
    ("translation.policy=d-choices", &["random"]),
    ("translation.over_provisioning=0.5", &["random"]),
    ("translation.wear_gap_erases=1", &["random"]),
    ("media.plane_reads=together", &["random", "sequential"]),
    ("media.program_ns=50000", &["random"]),
    ("buffer.read_ahead_kib=0", &["random", "sequential"]),
];

/// Names of shipped drives with a translation layer.
fn drives() -> impl Iterator<Item = &'static str> {
    let is_mapped = |name: &&str| Drive::shipped(name).is_some_and(|drive| drive.translation.mapping == Mapping::Page);
    shipped::names().filter(is_mapped)
}

/// Drive, setting, state at the start, and job.
type SteadyCase = (&'static str, &'static str, &'static str, &'static str);

/// Returns a sentence if runs pass what is predicted of them.
fn excess_over_prediction((name, setting, state, work): SteadyCase) -> Option<String> {
    let set = [String::from(setting), format!("translation.precondition={state}")];
    let drive = cases::describe(name, set.iter()).unwrap_or_else(|problems| panic!("{problems}"));
    // Only random overwriting has a steady state. For other states, count requests from the end of the ramp.
    let burst = if state == "random" { "" } else { "burst=1" };
    let jobs = REQUESTS.map(|requests| {
        jobs(&drive, &format!("{work} iodepth=64 numjobs=4 {RAMP} {burst} number_ios={requests} io_size=1024p"))
    });
    let most = predict(&drive, &jobs[0]).jobs[0].loaded().most_iops;
    // The drawn share of reads differs from the wanted one by chance.
    let by_chance = |ios: u64| if work.contains("randrw") { 1.5 / (ios as f64).sqrt() } else { 0.0 };
    let passes = |iops: f64, ios: u64| iops / most - 1.0 - by_chance(ios) > DOUBT;
    let run = |jobs: &[Job], seed| simulate(&drive, jobs, seed).unwrap_or_else(|problems| panic!("{problems}"));
    let short = run(&jobs[0], 1);
    if !passes(short.iops(), short.ios()) {
        return None;
    }
    let long: Vec<_> = (1..=LONG_RUNS).map(|seed| run(&jobs[1], seed)).collect();
    let iops = long.iter().map(Outcome::iops).sum::<f64>() / long.len() as f64;
    let found = passes(iops, long.iter().map(Outcome::ios).sum());
    found.then(|| format!("{name} {set:?} {work}: {iops:.0} of {most:.0} IOPS"))
}

/// Returns what [`excess_over_prediction`] says of these cases, which all processors try.
fn excesses_of_cases(cases: &[SteadyCase]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || -> Vec<String> {
        std::iter::from_fn(|| cases.get(next.fetch_add(1, Ordering::Relaxed)))
            .filter_map(|case| excess_over_prediction(*case))
            .collect()
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no case panics")).collect()
    })
}

#[test]
fn steady_random_writes_of_flash_drives_stay_below_their_bound() {
    let cases: Vec<_> =
        drives().map(|name| (name, "translation.policy=greedy", "random", "rw=randwrite bs=4k")).collect();
    assert_eq!(excesses_of_cases(&cases), [""; 0]);
}

#[test]
#[ignore = "some minutes: make sanity"]
fn flash_drives_in_all_states_stay_below_their_bounds() {
    let mut cases = Vec::new();
    for name in drives() {
        for (setting, states) in SETTINGS {
            cases.extend(WORKS.iter().flat_map(|work| states.iter().map(move |state| (name, *setting, *state, *work))));
        }
    }
    let found = excesses_of_cases(&cases);
    assert!(found.is_empty(), "{} of {} runs pass their bounds:\n{}", found.len(), cases.len(), found.join("\n"));
}
