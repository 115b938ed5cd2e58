//! What tests of the models and of the studies share: shipped drives with overrides, and jobs of one line.

#![allow(dead_code, reason = "each of the two programs calls a part")]

use std::collections::BTreeMap;

use phaselink_core::closed_form::Latency;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::ledger::{DirectionOutcome, Outcome};
use phaselink_core::simulation::{Simulation, simulate};
use phaselink_core::time::Span;
use phaselink_core::workload::{Job, fio};

/// Oracles are exact: software takes its mean time, unless a test says otherwise.
pub(crate) const STEADY: &str = "host.variation=0";

/// A shipped drive with overrides, its software [steady](STEADY).
pub(crate) fn drive(name: &str, set: &[&str]) -> Drive {
    let shipped = shipped::find(name).expect("a shipped drive");
    let set = [STEADY].into_iter().chain(set.iter().copied());
    let overrides: Vec<_> = set.map(|text| KeyOverride::parse(text).expect("an override")).collect();
    Drive::from_toml(shipped.file, shipped.text, &overrides).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A job given as `name=value` words; random reads unless it says otherwise.
pub(crate) fn jobs(drive: &Drive, job: &str) -> Vec<Job> {
    let mut options = vec![("rw", "randread")];
    for word in job.split_whitespace() {
        let (name, value) = word.split_once('=').expect("name=value");
        options.retain(|(other, _)| *other != name);
        options.push((name, value));
    }
    let file = fio::job_from_flags(&options).unwrap_or_else(|problems| panic!("{problems}"));
    file.resolve(&drive.limits(), &BTreeMap::new()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Run such a job to its end.
pub(crate) fn run(drive: &Drive, job: &str) -> Outcome {
    simulate(drive, &jobs(drive, job), 1).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The same with every step recorded.
pub(crate) fn traced(drive: &Drive, job: &str) -> Simulation {
    let mut simulation = Simulation::new(drive, &jobs(drive, job), 1).unwrap_or_else(|problems| panic!("{problems}"));
    simulation.record(1 << 20);
    while simulation.step(1 << 20) {}
    assert_eq!(simulation.trace().dropped(), 0, "the trace must be complete");
    simulation
}

/// The reads of a run's only job.
pub(crate) fn reads(outcome: &Outcome) -> &DirectionOutcome {
    &outcome.jobs[0].read
}

/// The figures of the only direction of a run's only job.
pub(crate) fn figures(outcome: &Outcome) -> &DirectionOutcome {
    outcome.jobs[0].directions().next().expect("requests were counted").1
}

/// The run meets an exact prediction stage by stage.
pub(crate) fn assert_exact_prediction(context: &str, predicted: &Latency, outcome: &Outcome) {
    let (total, found) = (predicted.stages.total(), figures(outcome));
    assert_eq!((found.total.min(), found.total.max()), (total, total), "{context}");
    let stack = &outcome.stack_stages;
    let means: Vec<_> = found.stages.named(stack).map(|(stage, span)| (stage, span / found.ios)).collect();
    assert_eq!(means, predicted.stages.named(stack).collect::<Vec<_>>(), "{context}");
}

/// A counter of a run.
pub(crate) fn counter(outcome: &Outcome, name: &str) -> u64 {
    outcome.counters.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count)
}

/// Nanoseconds with a fraction.
pub(crate) fn ns(ns: f64) -> Span {
    Span::from_ns_f64(ns)
}

/// Whether two numbers agree within a share of the second.
pub(crate) fn close(found: f64, expected: f64, share: f64) -> bool {
    (found - expected).abs() <= expected.abs() * share
}
