//! A case is tried: it runs with real bytes, and what must hold for any run is asked of it.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::case::Case;
use crate::config::{Fault, FaultAction};
use crate::drive::Drive;
use crate::engine::faults::UNCORRECTABLE;
use crate::ledger::{Outcome, Step, Trace};
use crate::simulation::Simulation;

/// Events between two looks at a run.
const EVENTS: u64 = 1 << 14;
/// Events in which no request is over, beyond which none ever will be: devices that look for commands make some ten events
/// a microsecond, and a read that gets stuck may wait for its time-out several times (3.5 million looks for one command whose
/// tag was taken; a disk behind a slow bank). Unit tests give up sooner: they run a case with its
/// fault planted and without, under the same limit.
const IDLE_EVENTS_MAX: u64 = if cfg!(test) { 20_000_000 } else { 100_000_000 };
/// Steps that are recorded, for what has been reached and for a ladder.
const STEPS: usize = 4096;
const LADDER_STEPS: usize = 1 << 18;
/// One run in so many is done again, and must give the same.
const AGAIN: u64 = 8;

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An assertion of the program.
    Panic,
    /// A read has returned what it may not.
    WrongByte,
    /// Requests are left that nobody will ever answer, or that are worked on without end.
    NeverAnswered,
    /// Requests, or their bytes, do not add up.
    Count,
    /// The memory does not know where what is.
    Memory,
    /// A second run gives something else.
    Differs,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialFinding {
    pub kind: Kind,
    pub what: String,
    /// Number of a request that it is about, as far as that is known.
    pub request: Option<u64>,
}

/// What a run has reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The protocol.
    pub interface: &'static str,
    /// Names of packets that have been on the wire.
    pub packets: BTreeSet<String>,
    /// Faults that have happened.
    pub faults: Vec<FaultAction>,
    pub ios: u64,
}

impl fmt::Display for TrialFinding {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let kind = match self.kind {
            Kind::Panic => "panic",
            Kind::WrongByte => "wrong byte",
            Kind::NeverAnswered => "never answered",
            Kind::Count => "wrong count",
            Kind::Memory => "wrong account",
            Kind::Differs => "not the same again",
        };
        write!(to, "{kind}: {}", self.what)
    }
}

/// Runs on for some events; false once its jobs are done.
pub type Run<'a> = &'a dyn Fn(&mut Simulation) -> bool;

/// How a simulation runs on by itself.
pub(super) fn plainly(simulation: &mut Simulation) -> bool {
    simulation.step(EVENTS)
}

/// Try a case: what it has reached.
///
/// # Errors
/// What is wrong.
pub fn trial(case: &Case, run: Run) -> Result<Reached, TrialFinding> {
    let (reached, _) = traced(case, STEPS, run);
    reached
}

/// The same, with the packets of the request that the finding is about.
pub fn ladder(case: &Case, run: Run) -> Option<String> {
    let (reached, trace) = traced(case, LADDER_STEPS, run);
    let trace = trace?;
    let finding = reached.err()?;
    let last = trace.records().iter().filter_map(|record| record.request).max();
    let request = finding.request.or(last)?;
    let title = format!("{}: request {request}", case.drive);
    Some(crate::report::ladder(&trace.of_request(request), &title))
}

/// The outcome of a trial, and what was recorded.
fn traced(case: &Case, steps: usize, run: Run) -> (Result<Reached, TrialFinding>, Option<Trace>) {
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
        Err(TrialFinding { kind: Kind::Panic, what: String::from(text), request: None })
    });
    (reached, kept.map(|simulation| simulation.trace().clone()))
}

/// The simulation of a case; none if its parts do not go together.
fn set_up(case: &Case) -> Option<(Drive, Simulation)> {
    let drive = case.drive().ok()?;
    let jobs = case.jobs(&drive).ok()?;
    let simulation = Simulation::with_data(&drive, &jobs, case.seed).ok()?;
    Some((drive, simulation))
}

fn to_the_end(case: &Case, simulation: &mut Simulation, run: Run) -> Result<(), TrialFinding> {
    let (mut done, mut done_at) = (0, 0);
    while run(simulation) {
        let (completed, events) = (simulation.completed(), simulation.events());
        if completed > done {
            (done, done_at) = (completed, events);
        }
        if events - done_at > IDLE_EVENTS_MAX {
            let what =
                format!("{done} of {} requests are over, and {IDLE_EVENTS_MAX} events later as many", case.ios());
            return Err(TrialFinding { kind: Kind::NeverAnswered, what, request: None });
        }
    }
    Ok(())
}

/// What must hold for any run.
fn check(case: &Case, drive: &Drive, simulation: &Simulation, outcome: &Outcome) -> Result<(), TrialFinding> {
    let wrong = |kind, what| Err(TrialFinding { kind, what, request: None });
    if let Some(problem) = simulation.data_problems().first() {
        let request = simulation.first_wrong_read();
        return Err(TrialFinding { kind: Kind::WrongByte, what: problem.clone(), request });
    }
    let (ios, failed) = (outcome.ios(), outcome.failed());
    if !outcome.finished {
        return wrong(Kind::NeverAnswered, format!("{ios} of {} requests are done, and no event is left", case.ios()));
    }
    let failed_ios = failed - outcome.jobs.iter().map(|job| job.failed_flushes).sum::<u64>();
    if ios + failed_ios != case.ios() {
        return wrong(Kind::Count, format!("{ios} requests done and {failed_ios} failed of {}", case.ios()));
    }
    let fails = |fault: &&Fault| {
        use FaultAction::*;
        matches!(fault.action, Error | Hang | DropCompletion | TornWrite | Remove)
    };
    let failing: BTreeSet<&str> = drive.faults.iter().filter(fails).map(|fault| fault.action.counter()).collect();
    let failing = failing.into_iter().chain([UNCORRECTABLE]);
    let expected: u64 = failing.map(|name| counter(outcome, name)).sum();
    if failed != expected {
        return wrong(Kind::Count, format!("{failed} requests have failed, and faults have made {expected} fail"));
    }
    let reads: u64 = outcome.jobs.iter().map(|job| job.read.ios).sum();
    let verified = counter(outcome, "verified_reads");
    if verified < reads {
        return wrong(Kind::Count, format!("{verified} reads were verified of {reads}"));
    }
    simulation.memory_problem().map_or(Ok(()), |what| wrong(Kind::Memory, what))
}

/// The same run again, and without a record of it.
fn run_again(case: &Case, first: &Outcome, run: Run) -> Result<(), TrialFinding> {
    let Some((_, mut simulation)) = set_up(case) else { return Ok(()) };
    while run(&mut simulation) {}
    let again = simulation.outcome();
    if again == *first {
        return Ok(());
    }
    let what = format!("{} then {}, {} then {} events", first.elapsed, again.elapsed, first.events, again.events);
    Err(TrialFinding { kind: Kind::Differs, what, request: None })
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
