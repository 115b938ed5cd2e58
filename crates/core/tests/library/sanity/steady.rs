//! Flash drives in every state at their start: throughput stays under the bounds of predictions, with garbage collection in
//! the background.

use std::thread;

use phaselink_core::config::Mapping;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;

use super::cases;
use super::lab::Lab;
use crate::common::jobs;

/// Time after which the write buffers of all shipped drives are full, if a job writes faster than their cells.
const RAMP: &str = "ramp_time=100ms";
/// Requests of each of four threads: as many as make one round of programs of all dies a small share.
const REQUESTS: u32 = 60_000;
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

/// Returns a sentence if a run passes what is predicted of it.
fn excess(lab: &Lab, (name, setting, state, work): SteadyCase) -> Option<String> {
    let set = [String::from(setting), format!("translation.precondition={state}")];
    let drive = cases::describe(name, set.iter()).unwrap_or_else(|problems| panic!("{problems}"));
    // Other states than that of random overwrites never become steady: requests count from the end of the ramp.
    let burst = if state == "random" { "" } else { "burst=1" };
    let jobs = jobs(&drive, &format!("{work} iodepth=64 numjobs=4 {RAMP} {burst} number_ios={REQUESTS} io_size=1024p"));
    let (outcome, most) = ((lab.simulate)(&drive, &jobs), (lab.predict)(&drive, &jobs).loaded().most_iops);
    // What is drawn has other shares than what is asked for, by chance.
    let by_chance = if work.contains("randrw") { 1.5 / (outcome.ios() as f64).sqrt() } else { 0.0 };
    let by = outcome.iops() / most - 1.0 - by_chance;
    (by > DOUBT).then(|| format!("{name} {set:?} {work}: {:.0} of {most:.0} IOPS", outcome.iops()))
}

/// Returns what [`excess`] says of these cases, which all processors try.
fn all_excesses(cases: &[SteadyCase]) -> Vec<String> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let of_share = |share: &[SteadyCase]| share.iter().filter_map(|case| excess(&Lab::default(), *case)).collect();
    thread::scope(|scope| {
        let shares = cases.chunks(cases.len().div_ceil(threads));
        let running: Vec<_> = shares.map(|share| scope.spawn(move || -> Vec<String> { of_share(share) })).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no case panics")).collect()
    })
}

#[test]
fn steady_random_writes_of_shipped_flash_drives_stay_under_their_bound() {
    let cases: Vec<_> =
        drives().map(|name| (name, "translation.policy=greedy", "random", "rw=randwrite bs=4k")).collect();
    assert_eq!(all_excesses(&cases), [""; 0]);
}

#[test]
#[ignore = "some minutes: make sanity"]
fn flash_drives_in_every_state_stay_under_their_bounds() {
    let mut cases = Vec::new();
    for name in drives() {
        for (setting, states) in SETTINGS {
            cases.extend(WORKS.iter().flat_map(|work| states.iter().map(move |state| (name, *setting, *state, *work))));
        }
    }
    let found = all_excesses(&cases);
    assert!(found.is_empty(), "{} of {} runs pass their bounds:\n{}", found.len(), cases.len(), found.join("\n"));
}
