//! Report of the requests that a server has served, in the form of a simulated run's.

use phaselink_core::ledger::{JobOutcome, Latency, Outcome};
use phaselink_core::time::Span;
use serde_json::{Value, json};

use crate::device::tally::{Direction, Tally, UndefinedBehaviour};

/// Percentage of completions whose lag behind the model must be within the tolerance.
pub const LAG_PERCENT: f64 = 99.0;

/// Measured exchange with a client that does no work: the least time that a front-end's transport adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyExchangeTime {
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
        elapsed,
        jobs: vec![JobOutcome { name: "served".into(), ..job(tally, elapsed) }],
        finished: true,
        ..Outcome::default()
    }
}

/// Returns the counts of each operation as the result of a job that ran for `runtime`.
pub fn job(tally: &Tally, runtime: Span) -> JobOutcome {
    let [read, write, flush, discard, zeroes] = tally.directions().map(|(_, direction)| direction.outcome(runtime));
    JobOutcome { read, write, flush, discard, zeroes, ..JobOutcome::default() }
}

/// Returns true if the 99th percentile of the lag behind the model is within the tolerance.
pub fn is_lag_within_tolerance(lag: &Latency, tolerance: Span) -> bool {
    lag.percentile(LAG_PERCENT) <= tolerance
}

/// Returns the lag behind the model as JSON, in nanoseconds, with the verdict, the transports' empty exchanges, and the
/// turnaround of clients with one request in flight.
pub fn model_lag_json(tally: &Tally, tolerance: Span, exchanges: &[EmptyExchangeTime]) -> Value {
    let Tally { lag, turnaround, .. } = tally;
    let exchange = |EmptyExchangeTime { front, over, takes }: &EmptyExchangeTime| json!({ "front": front, "over": over, "least_ns": takes.map(Span::as_ns) });
    let own_ways: Value = exchanges.iter().map(exchange).collect();
    let known = |percent| lag.supported_percentile(percent).map(Span::as_ns);
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
            "p50_ns": turnaround.supported_percentile(50.0).map(Span::as_ns),
        },
        "trusted": (lag.count() > 0).then(|| is_lag_within_tolerance(lag, tolerance)),
    })
}

/// Returns the undefined behaviour of hosts as JSON, with section and count of each kind.
pub fn undefined_behaviour_json(tally: &Tally) -> Value {
    let row = |(behaviour, count): &(&UndefinedBehaviour, u64)| {
        let UndefinedBehaviour { kind, what, section } = behaviour;
        json!({ "kind": kind, "what": what, "section": section, "count": count })
    };
    tally.undefined.iter().map(row).collect()
}

/// Returns the requests served by operation, as JSON: number, bytes, and latency in nanoseconds where it was measured.
pub fn request_counts_json(tally: &Tally) -> Value {
    let of = |(name, Direction { ios, bytes, latency }): (&str, &Direction)| {
        let known = |percent| latency.supported_percentile(percent).map(Span::as_ns);
        let mean = (latency.count() > 0).then(|| latency.mean_ns());
        let latency = json!({ "count": latency.count(), "mean": mean, "p50": known(50.0), "p99": known(99.0) });
        (String::from(name), json!({ "ios": ios, "bytes": bytes, "latency_ns": latency }))
    };
    Value::Object(tally.directions().map(of).into_iter().collect())
}
