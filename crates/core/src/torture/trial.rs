//! Trial of a test case: a run with real data, and checks of properties that every run must have.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::case::Case;
use crate::config::{Fault, FaultAction};
use crate::drive::Drive;
use crate::engine::faults::UNCORRECTABLE;
use crate::ledger::{Outcome, Step, Trace};
use crate::simulation::Simulation;

/// Number of simulated events between two checks of a run's progress.
const EVENTS: u64 = 1 << 14;
/// Number of events without a completed request after which a run counts as stuck. Devices that poll for commands make
/// some ten events per microsecond. A stuck read may wait for its time-out several times (3.5 million polls for one
/// command whose tag was in the data; a disk behind a slow bank). Unit tests give up sooner, because they run a test
/// case both with its planted bug and without it under one limit.
const IDLE_EVENTS_MAX: u64 = if cfg!(test) { 20_000_000 } else { 100_000_000 };
/// Number of trace records that a torture run keeps to find which packets it has covered.
const STEPS: usize = 4096;
/// Number of trace records that a run keeps to draw a ladder diagram of a failing request.
const LADDER_STEPS: usize = 1 << 18;
/// Distance between seeds whose case runs twice to check that both runs have equal results.
const AGAIN: u64 = 8;

/// Kind of failure that a torture run can find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialFailureKind {
    /// Program panicked, for instance because an assertion failed.
    Panic,
    /// Read returned data that no order of the writes allows.
    WrongByte,
    /// Requests never complete, because no event is left or events go on without end.
    NeverAnswered,
    /// Numbers of completed, failed or verified requests do not add up.
    Count,
    /// Memory's own bookkeeping, such as that of flash translation, is inconsistent.
    Memory,
    /// Second run of the test case gave another result than the first.
    Differs,
}

/// Failure that a torture run has found: kind, description and request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialFailure {
    /// Kind of the failure that was found.
    pub kind: TrialFailureKind,
    /// Description of the failure for people.
    pub what: String,
    /// Number of a request that is involved in the failure. `None` if it is not known.
    pub request: Option<u64>,
}

/// Coverage of one run: its protocol, and the packets and faults that occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialCoverage {
    /// Name of the drive's protocol.
    pub interface: &'static str,
    /// Names of packets that were on the wire, each with its direction (`up` or `down`).
    pub packets: BTreeSet<String>,
    /// Faults that occurred in the run.
    pub faults: Vec<FaultAction>,
    /// Number of requests that completed or failed.
    pub ios: u64,
}

impl fmt::Display for TrialFailure {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let kind = match self.kind {
            TrialFailureKind::Panic => "panic",
            TrialFailureKind::WrongByte => "wrong byte",
            TrialFailureKind::NeverAnswered => "never answered",
            TrialFailureKind::Count => "wrong count",
            TrialFailureKind::Memory => "wrong account",
            TrialFailureKind::Differs => "not the same again",
        };
        write!(to, "{kind}: {}", self.what)
    }
}

/// Function that advances a simulation by some events, possibly with a planted bug. Returns false once its jobs are
/// done.
pub type SimulationRunner<'a> = &'a dyn Fn(&mut Simulation) -> bool;

/// Advances a simulation by some events, without a planted bug. Returns false once its jobs are done.
pub(super) fn advance_normally(simulation: &mut Simulation) -> bool {
    simulation.step(EVENTS)
}

/// Runs a test case and checks it. Returns the packets and faults that it covered.
///
/// # Errors
/// The failure that was found.
pub fn trial(case: &Case, run: SimulationRunner) -> Result<TrialCoverage, TrialFailure> {
    let (reached, _) = run_traced(case, STEPS, run);
    reached
}

/// Request that is involved in the failure of a test case, with the steps that it took.
#[derive(Clone, Debug)]
pub struct InvolvedRequest {
    /// Number of the request, counted from the start of the run.
    pub number: u64,
    /// Packets of the request, its steps in host, device and media, and packets of no request at the same time.
    pub steps: Trace,
}

/// Runs a failing test case again and returns a request involved in the failure. `None` if the case does not fail.
pub fn involved_request(case: &Case, run: SimulationRunner) -> Option<InvolvedRequest> {
    let (reached, trace) = run_traced(case, LADDER_STEPS, run);
    let trace = trace?;
    let finding = reached.err()?;
    let last = trace.records().iter().filter_map(|record| record.request).max();
    let number = finding.request.or(last)?;
    Some(InvolvedRequest { number, steps: trace.of_request(number) })
}

/// Runs a test case with up to `steps` trace records, checks it, and returns its coverage or failure, and the trace.
fn run_traced(
    case: &Case,
    steps: usize,
    run: SimulationRunner,
) -> (Result<TrialCoverage, TrialFailure>, Option<Trace>) {
    let mut kept = None;
    let tried = catch_unwind(AssertUnwindSafe(|| {
        let Some((drive, mut simulation)) = set_up_trial(case) else { return Ok(TrialCoverage::default()) };
        simulation.record(steps);
        let simulation = kept.insert(simulation);
        to_the_end(case, simulation, run)?;
        let outcome = simulation.outcome();
        check(case, &drive, simulation, &outcome)?;
        if case.seed.is_multiple_of(AGAIN) {
            run_twice(case, &outcome, run)?;
        }
        Ok(reached(&drive, simulation.trace(), &outcome))
    }));
    let reached = tried.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(TrialFailure { kind: TrialFailureKind::Panic, what: String::from(text), request: None })
    });
    (reached, kept.map(|simulation| simulation.trace().clone()))
}

/// Returns the drive and the simulation of a test case; `None` if the case is not valid.
fn set_up_trial(case: &Case) -> Option<(Drive, Simulation)> {
    let drive = case.drive().ok()?;
    let jobs = case.jobs(&drive).ok()?;
    let simulation = Simulation::with_data(&drive, &jobs, case.seed).ok()?;
    Some((drive, simulation))
}

fn to_the_end(case: &Case, simulation: &mut Simulation, run: SimulationRunner) -> Result<(), TrialFailure> {
    let (mut done, mut done_at) = (0, 0);
    while run(simulation) {
        let (completed, events) = (simulation.completed(), simulation.events());
        if completed > done {
            (done, done_at) = (completed, events);
        }
        if events - done_at > IDLE_EVENTS_MAX {
            let what = format!(
                "{done} of {} requests are complete, and no more after {IDLE_EVENTS_MAX} further events",
                case.ios()
            );
            return Err(TrialFailure { kind: TrialFailureKind::NeverAnswered, what, request: None });
        }
    }
    Ok(())
}

/// Checks a finished run: data, numbers of completed, failed and verified requests, and the memory's bookkeeping.
fn check(case: &Case, drive: &Drive, simulation: &Simulation, outcome: &Outcome) -> Result<(), TrialFailure> {
    let wrong = |kind, what| Err(TrialFailure { kind, what, request: None });
    if let Some(problem) = simulation.data_problems().first() {
        let request = simulation.first_wrong_read();
        return Err(TrialFailure { kind: TrialFailureKind::WrongByte, what: problem.clone(), request });
    }
    let (ios, failed) = (outcome.ios(), outcome.failed());
    if !outcome.finished {
        return wrong(
            TrialFailureKind::NeverAnswered,
            format!("{ios} of {} requests are complete, and no event is left", case.ios()),
        );
    }
    let failed_ios = failed - outcome.jobs.iter().map(|job| job.failed_flushes + job.failed_resets).sum::<u64>();
    if ios + failed_ios != case.ios() {
        return wrong(
            TrialFailureKind::Count,
            format!("{ios} requests are complete and {failed_ios} failed, of {}", case.ios()),
        );
    }
    let fails = |fault: &&Fault| {
        use FaultAction::*;
        matches!(fault.action, Error | Hang | DropCompletion | TornWrite | Remove)
    };
    let failing: BTreeSet<&str> = drive.faults.iter().filter(fails).map(|fault| fault.action.counter()).collect();
    let failing = failing.into_iter().chain([UNCORRECTABLE]);
    // Writes are repeated after a restart. A zone that kept the first of them may have no room for the last, so allow
    // refused requests.
    let may_refuse = drive.zones.is_there() && drive.faults.iter().any(|fault| fault.action.does_restart_controller());
    let failing = failing.chain(may_refuse.then_some("refused_requests"));
    let expected: u64 = failing.map(|name| counter(outcome, name)).sum();
    if failed != expected {
        return wrong(
            TrialFailureKind::Count,
            format!("{failed} requests have failed, but faults have made {expected} fail"),
        );
    }
    let reads: u64 = outcome.jobs.iter().map(|job| job.read.ios).sum();
    let verified = counter(outcome, "verified_reads");
    if verified < reads {
        return wrong(TrialFailureKind::Count, format!("{verified} of {reads} reads were verified"));
    }
    simulation.memory_problem().map_or(Ok(()), |what| wrong(TrialFailureKind::Memory, what))
}

/// Runs the test case a second time, without a trace. Fails if its outcome differs from the first.
fn run_twice(case: &Case, first: &Outcome, run: SimulationRunner) -> Result<(), TrialFailure> {
    let Some((_, mut simulation)) = set_up_trial(case) else { return Ok(()) };
    while run(&mut simulation) {}
    let again = simulation.outcome();
    if again == *first {
        return Ok(());
    }
    let what = format!("{} then {}, {} then {} events", first.elapsed, again.elapsed, first.events, again.events);
    Err(TrialFailure { kind: TrialFailureKind::Differs, what, request: None })
}

fn reached(drive: &Drive, trace: &Trace, outcome: &Outcome) -> TrialCoverage {
    let packets = trace.records().iter().filter_map(|record| match &record.step {
        Step::Up { what, .. } => Some(format!("{what} up")),
        Step::Down { what, .. } => Some(format!("{what} down")),
        _ => None,
    });
    let happened = |action: &FaultAction| counter(outcome, action.counter()) > 0;
    TrialCoverage {
        interface: drive.interface.name(),
        packets: packets.collect(),
        faults: FaultAction::ALL.into_iter().filter(happened).collect(),
        ios: outcome.ios() + outcome.failed(),
    }
}

fn counter(outcome: &Outcome, name: &str) -> u64 {
    outcome.counters.iter().find(|(counter, _)| *counter == name).map_or(0, |(_, count)| *count)
}
