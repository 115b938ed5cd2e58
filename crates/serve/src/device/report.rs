//! Report of the requests that a server has served, in the form of a simulated run's.

use phaselink_core::ledger::{CpuUse, JobOutcome, Latency, MeasuredState, Outcome, WireUse};
use phaselink_core::time::Span;
use phaselink_studies::report::{Table, units};
use serde_json::{Value, json};

use crate::device::tally::{Direction, Tally, UndefinedBehaviour};

/// Percentage of completions whose lag behind the model must be within the tolerance.
const LAG_PERCENT: f64 = 99.0;

/// Measured exchange with a client that does no work: the least time that a front-end's transport adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyExchange {
    /// Command line option of the front-end.
    pub front: &'static str,
    /// Name of the transport, such as "a Unix socket".
    pub over: &'static str,
    /// Median time of the exchange. None if none was measured, or the machine never lets two threads run at once.
    pub takes: Option<Span>,
}

/// Returns the outcome of serving with timing off, in the form of a simulated run: requests and their latencies in the
/// server. Modelled quantities are empty.
pub fn outcome(name: &str, tally: &Tally, elapsed: Span) -> Outcome {
    Outcome {
        drive: name.into(),
        seed: 0,
        elapsed,
        jobs: vec![JobOutcome { name: "served".into(), ..job(tally, elapsed) }],
        upstream: WireUse::default(),
        downstream: WireUse::default(),
        cpu: CpuUse::default(),
        energy: None,
        parts: Vec::new(),
        memory_j: None,
        stack_stages: Vec::new(),
        counters: Vec::new(),
        events: 0,
        measured: MeasuredState::Only,
        trouble: Vec::new(),
        finished: true,
    }
}

/// Returns the counts of each operation as the result of a job that ran for `runtime`.
pub fn job(tally: &Tally, runtime: Span) -> JobOutcome {
    let [read, write, flush, discard, zeroes] = tally.directions().map(|(_, direction)| direction.outcome(runtime));
    JobOutcome { read, write, flush, discard, zeroes, ..JobOutcome::default() }
}

/// Returns true if the 99th percentile of the lag behind the model is within the tolerance.
pub fn is_trusted(lag: &Latency, tolerance: Span) -> bool {
    lag.percentile(LAG_PERCENT) <= tolerance
}

/// Smallest number of turnarounds of clients that the text reports.
const TURNAROUNDS_MIN: u64 = 20;

/// Returns a text with a table of the lag behind the model, the verdict on it, a table of the transports' empty
/// exchanges, and the turnaround of clients with one request in flight.
pub fn lag_text(tally: &Tally, tolerance: Span, exchanges: &[EmptyExchange]) -> String {
    let Tally { lag, turnaround, .. } = tally;
    format!("{}\n{}{}", verdict(lag, tolerance), exchanges_text(exchanges), turnaround_text(turnaround))
}

fn turnaround_text(turnaround: &Latency) -> String {
    let Some(median) = turnaround.known_percentile(50.0).filter(|_| turnaround.count() >= TURNAROUNDS_MIN) else {
        return String::new();
    };
    format!(
        "With nothing else in flight, clients sent the next request {} after a completion (median of {}): their own way \
         takes no more.\n",
        units::span(median),
        units::grouped(turnaround.count())
    )
}

fn exchanges_text(exchanges: &[EmptyExchange]) -> String {
    let mut table = Table::new().left("clients' own way, on top").left("over").right("at least");
    for EmptyExchange { front, over, takes } in exchanges {
        table.row([front.to_string(), over.to_string(), takes.map_or(String::from("unknown"), units::span)]);
    }
    table.to_string()
}

fn verdict(lag: &Latency, tolerance: Span) -> String {
    if lag.count() == 0 {
        return String::from("No request has been timed: whether the clock keeps up is not known.\n");
    }
    let mut table = Table::new().left("lag").right("mean").right("p50").right("p99").right("p99.9").right("max");
    let known = |percent| lag.known_percentile(percent).map_or(String::from("unknown"), units::span);
    table.row([
        String::from("answers behind the model"),
        units::span(lag.mean()),
        known(50.0),
        known(99.0),
        known(99.9),
        units::span(lag.max()),
    ]);
    let (found, allowed) = (units::span(lag.percentile(LAG_PERCENT)), units::span(tolerance));
    let verdict = match is_trusted(lag, tolerance) {
        true => {
            format!("The clock kept up: 99 % of answers came within {found} of the model ({allowed} are tolerated).")
        }
        false => format!(
            "NOT TO BE TRUSTED: the machine did not keep up. 1 % of answers came more than {found} behind the model, \
             and {allowed} are tolerated."
        ),
    };
    format!("{table}{verdict}\n")
}

/// Returns the lag behind the model as JSON, in nanoseconds, with the verdict, the transports' empty exchanges, and the
/// turnaround of clients with one request in flight.
pub fn lag_json(tally: &Tally, tolerance: Span, exchanges: &[EmptyExchange]) -> Value {
    let Tally { lag, turnaround, .. } = tally;
    let exchange = |EmptyExchange { front, over, takes }: &EmptyExchange| json!({ "front": front, "over": over, "least_ns": takes.map(Span::as_ns) });
    let own_ways: Value = exchanges.iter().map(exchange).collect();
    let known = |percent| lag.known_percentile(percent).map(Span::as_ns);
    json!({
        "count": lag.count(),
        "mean_ns": lag.mean_ns(),
        "p50_ns": known(50.0),
        "p99_ns": known(99.0),
        "p99_9_ns": known(99.9),
        "max_ns": lag.max().as_ns(),
        "tolerance_ns": tolerance.as_ns(),
        "clients_own_way": own_ways,
        "turnaround": {
            "count": turnaround.count(),
            "mean_ns": turnaround.mean_ns(),
            "p50_ns": turnaround.known_percentile(50.0).map(Span::as_ns),
        },
        "trusted": (lag.count() > 0).then(|| is_trusted(lag, tolerance)),
    })
}

/// Returns a table of the undefined behaviour of hosts, with section and count of each kind, or a sentence if there was
/// none.
pub fn undefined_text(tally: &Tally) -> String {
    if tally.undefined.is_empty() {
        return String::from(
            "Hosts have done nothing that the specification leaves undefined, as far as is looked for.\n",
        );
    }
    let mut table = Table::new().left("left undefined by the specification").left("section").right("times");
    for (behaviour, count) in &tally.undefined {
        table.row([behaviour.what.to_string(), behaviour.section.to_string(), units::grouped(*count)]);
    }
    table.to_string()
}

/// Returns the undefined behaviour of hosts as JSON, with section and count of each kind.
pub fn undefined_json(tally: &Tally) -> Value {
    let row = |(behaviour, count): &(&UndefinedBehaviour, u64)| {
        let UndefinedBehaviour { kind, what, section } = behaviour;
        json!({ "kind": kind, "what": what, "section": section, "count": count })
    };
    tally.undefined.iter().map(row).collect()
}

/// Returns a table of the flushes, discards and writes of zeros served, with their latencies, and of the number of
/// errors.
pub fn counts(tally: &Tally) -> Table {
    let mut table = Table::new().left("served").right("").right("mean").right("p99");
    for (name, of) in [("flushes", &tally.flush), ("discards", &tally.discard), ("writes of zeros", &tally.zeroes)] {
        let mut row = vec![name.to_string(), units::grouped(of.ios)];
        if of.latency.count() > 0 {
            let known = of.latency.known_percentile(99.0).map_or(String::from("unknown"), units::span);
            row.extend([units::span(of.latency.mean()), known]);
        }
        table.row(row);
    }
    table.row(["refused or failed".to_string(), units::grouped(tally.errors)]);
    table
}

/// Returns the requests served by operation, as JSON: number, bytes, and latency in nanoseconds where it was measured.
pub fn counts_json(tally: &Tally) -> Value {
    let of = |(name, Direction { ios, bytes, latency }): (&str, &Direction)| {
        let known = |percent| latency.known_percentile(percent).map(Span::as_ns);
        let mean = (latency.count() > 0).then(|| latency.mean_ns());
        let latency = json!({ "count": latency.count(), "mean": mean, "p50": known(50.0), "p99": known(99.0) });
        (String::from(name), json!({ "ios": ios, "bytes": bytes, "latency_ns": latency }))
    };
    Value::Object(tally.directions().map(of).into_iter().collect())
}
