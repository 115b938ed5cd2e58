//! Trial of a case: a run with real bytes, with checks of what must hold for any run.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::case::Case;
use crate::config::{Fault, FaultAction};
use crate::drive::Drive;
use crate::engine::faults::UNCORRECTABLE;
use crate::ledger::{Outcome, Step, Trace};
use crate::simulation::Simulation;

/// Number of events between two checks of a run.
const EVENTS: u64 = 1 << 14;
/// Number of events without a finished request after which none is expected any more. Devices that poll for commands
/// make some ten events a microsecond, and a stuck read may wait for its time-out several times (3.5 million polls for
/// one command whose tag was in the data; a disk behind a slow bank). Unit tests give up sooner: they run a case with
/// its planted bug and without, under the same limit.
const IDLE_EVENTS_MAX: u64 = if cfg!(test) { 20_000_000 } else { 100_000_000 };
/// Number of steps that are recorded for coverage.
const STEPS: usize = 4096;
/// Number of steps that are recorded for a ladder.
const LADDER_STEPS: usize = 1 << 18;
/// Interval of seeds whose run is repeated and must give the same result.
const AGAIN: u64 = 8;

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// An assertion of the program failed.
    Panic,
    /// A read returned data that is not allowed.
    WrongByte,
    /// Requests never complete, or are worked on without end.
    NeverAnswered,
    /// Numbers of requests or bytes do not add up.
    Count,
    /// The memory's own bookkeeping is inconsistent.
    Memory,
    /// A second run gave another result.
    Differs,
}

/// A failure that a trial has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialFinding {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Description.
    pub what: String,
    /// Number of a request that takes part, if it is known.
    pub request: Option<u64>,
}

/// Packets and faults that a run has reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Name of the protocol.
    pub interface: &'static str,
    /// Names of packets that have been on the wire.
    pub packets: BTreeSet<String>,
    /// Faults that have happened.
    pub faults: Vec<FaultAction>,
    /// Number of requests.
    pub ios: u64,
}

impl fmt::Display for TrialFinding {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let kind = match self.kind {
            FailureKind::Panic => "panic",
            FailureKind::WrongByte => "wrong byte",
            FailureKind::NeverAnswered => "never answered",
            FailureKind::Count => "wrong count",
            FailureKind::Memory => "wrong account",
            FailureKind::Differs => "not the same again",
        };
        write!(to, "{kind}: {}", self.what)
    }
}

/// Function that runs a simulation for some events; returns false once its jobs are done.
pub type Runner<'a> = &'a dyn Fn(&mut Simulation) -> bool;

/// Runs a simulation for some events, without a planted bug.
pub(super) fn plainly(simulation: &mut Simulation) -> bool {
    simulation.step(EVENTS)
}

/// Tries a case.
///
/// # Errors
/// The failure.
pub fn trial(case: &Case, run: Runner) -> Result<Reached, TrialFinding> {
    let (reached, _) = traced(case, STEPS, run);
    reached
}

/// Tries a case, and returns the packets of the request that the failure is about.
pub fn ladder(case: &Case, run: Runner) -> Option<String> {
    let (reached, trace) = traced(case, LADDER_STEPS, run);
    let trace = trace?;
    let finding = reached.err()?;
    let last = trace.records().iter().filter_map(|record| record.request).max();
    let request = finding.request.or(last)?;
    let title = format!("{}: request {request}", case.drive);
    Some(crate::report::ladder(&trace.of_request(request), &title))
}

/// Outcome of a trial, and its trace.
fn traced(case: &Case, steps: usize, run: Runner) -> (Result<Reached, TrialFinding>, Option<Trace>) {
    let mut kept = None;
    let tried = catch_unwind(AssertUnwindSafe(|| {
        let Some((drive, mut simulation)) = set_up(case) else { return Ok(Reached::default()) };
        simulation.record(steps);
        let simulation = kept.insert(simulation);
        to_the_end(case, simulation, run)?;
        let outcome = simulation.outcome();
        check(case, &drive, simulation, &outcome)?;
        if case.seed.is_multiple_of(AGAIN) {
            run_again(case, &outcome, run)?;
        }
        Ok(reached(&drive, simulation.trace(), &outcome))
    }));
    let reached = tried.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(TrialFinding { kind: FailureKind::Panic, what: String::from(text), request: None })
    });
    (reached, kept.map(|simulation| simulation.trace().clone()))
}

/// Makes the simulation of a case; `None` if its parts break a condition.
fn set_up(case: &Case) -> Option<(Drive, Simulation)> {
    let drive = case.drive().ok()?;
    let jobs = case.jobs(&drive).ok()?;
    let simulation = Simulation::with_data(&drive, &jobs, case.seed).ok()?;
    Some((drive, simulation))
}

fn to_the_end(case: &Case, simulation: &mut Simulation, run: Runner) -> Result<(), TrialFinding> {
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
            return Err(TrialFinding { kind: FailureKind::NeverAnswered, what, request: None });
        }
    }
    Ok(())
}

/// Checks what must hold for any run.
fn check(case: &Case, drive: &Drive, simulation: &Simulation, outcome: &Outcome) -> Result<(), TrialFinding> {
    let wrong = |kind, what| Err(TrialFinding { kind, what, request: None });
    if let Some(problem) = simulation.data_problems().first() {
        let request = simulation.first_wrong_read();
        return Err(TrialFinding { kind: FailureKind::WrongByte, what: problem.clone(), request });
    }
    let (ios, failed) = (outcome.ios(), outcome.failed());
    if !outcome.finished {
        return wrong(
            FailureKind::NeverAnswered,
            format!("{ios} of {} requests are complete, and no event is left", case.ios()),
        );
    }
    let failed_ios = failed - outcome.jobs.iter().map(|job| job.failed_flushes + job.failed_resets).sum::<u64>();
    if ios + failed_ios != case.ios() {
        return wrong(
            FailureKind::Count,
            format!("{ios} requests are complete and {failed_ios} failed, of {}", case.ios()),
        );
    }
    let fails = |fault: &&Fault| {
        use FaultAction::*;
        matches!(fault.action, Error | Hang | DropCompletion | TornWrite | Remove)
    };
    let failing: BTreeSet<&str> = drive.faults.iter().filter(fails).map(|fault| fault.action.counter()).collect();
    let failing = failing.into_iter().chain([UNCORRECTABLE]);
    // A zone that has kept what is repeated after a restart may have no room for its last writes.
    let may_refuse = drive.zones.is_there() && drive.faults.iter().any(|fault| fault.action.restarts_controller());
    let failing = failing.chain(may_refuse.then_some("refused_requests"));
    let expected: u64 = failing.map(|name| counter(outcome, name)).sum();
    if failed != expected {
        return wrong(
            FailureKind::Count,
            format!("{failed} requests have failed, but faults have made {expected} fail"),
        );
    }
    let reads: u64 = outcome.jobs.iter().map(|job| job.read.ios).sum();
    let verified = counter(outcome, "verified_reads");
    if verified < reads {
        return wrong(FailureKind::Count, format!("{verified} of {reads} reads were verified"));
    }
    simulation.memory_problem().map_or(Ok(()), |what| wrong(FailureKind::Memory, what))
}

/// Runs the case again, without a trace, and compares.
fn run_again(case: &Case, first: &Outcome, run: Runner) -> Result<(), TrialFinding> {
    let Some((_, mut simulation)) = set_up(case) else { return Ok(()) };
    while run(&mut simulation) {}
    let again = simulation.outcome();
    if again == *first {
        return Ok(());
    }
    let what = format!("{} then {}, {} then {} events", first.elapsed, again.elapsed, first.events, again.events);
    Err(TrialFinding { kind: FailureKind::Differs, what, request: None })
}

fn reached(drive: &Drive, trace: &Trace, outcome: &Outcome) -> Reached {
    let packets = trace.records().iter().filter_map(|record| match &record.step {
        Step::Up { what, .. } => Some(format!("{what} up")),
        Step::Down { what, .. } => Some(format!("{what} down")),
        _ => None,
    });
    let happened = |action: &FaultAction| counter(outcome, action.counter()) > 0;
    Reached {
        interface: drive.interface.name(),
        packets: packets.collect(),
        faults: FaultAction::ALL.into_iter().filter(happened).collect(),
        ios: outcome.ios() + outcome.failed(),
    }
}

fn counter(outcome: &Outcome, name: &str) -> u64 {
    outcome.counters.iter().find(|(counter, _)| *counter == name).map_or(0, |(_, count)| *count)
}
