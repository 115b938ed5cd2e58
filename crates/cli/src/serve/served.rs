//! Tables of the requests that a server has served: lag behind the model, undefined behaviour of hosts, counts.

use phaselink_core::ledger::Latency;
use phaselink_core::time::Span;
use phaselink_serve::device::report::{EmptyExchangeTime, LAG_PERCENT, is_lag_within_tolerance};
use phaselink_serve::device::tally::Tally;
use phaselink_studies::report::{Table, units};

/// Smallest number of turnarounds of clients that the text reports.
const TURNAROUNDS_MIN: u64 = 20;

/// Returns a text with a table of the lag behind the model, the verdict on it, a table of the transports' empty
/// exchanges, and the turnaround of clients with one request in flight.
pub fn lag_behind_model_text(tally: &Tally, tolerance: Span, exchanges: &[EmptyExchangeTime]) -> String {
    let Tally { lag, turnaround, .. } = tally;
    format!("{}\n{}{}", verdict(lag, tolerance), empty_exchange_table(exchanges), turnaround_summary(turnaround))
}

fn turnaround_summary(turnaround: &Latency) -> String {
    let Some(median) = turnaround.supported_percentile(50.0).filter(|_| turnaround.count() >= TURNAROUNDS_MIN) else {
        return String::new();
    };
    format!(
        "With nothing else in flight, clients sent the next request {} after a completion (median of {}): their own way \
         takes no more.\n",
        units::span(median),
        units::grouped(turnaround.count())
    )
}

fn empty_exchange_table(exchanges: &[EmptyExchangeTime]) -> String {
    let mut table = Table::new().left("clients' own way, on top").left("over").right("at least");
    for EmptyExchangeTime { front, over, takes } in exchanges {
        table.row([front.to_string(), over.to_string(), takes.map_or(String::from("unknown"), units::span)]);
    }
    table.to_string()
}

fn verdict(lag: &Latency, tolerance: Span) -> String {
    if lag.count() == 0 {
        return String::from("No request has been timed: whether the clock keeps up is not known.\n");
    }
    let mut table = Table::new().left("lag").right("mean").right("p50").right("p99").right("p99.9").right("max");
    let known = |percent| lag.supported_percentile(percent).map_or(String::from("unknown"), units::span);
    table.row([
        String::from("answers behind the model"),
        units::span(lag.mean()),
        known(50.0),
        known(99.0),
        known(99.9),
        units::span(lag.max()),
    ]);
    let (found, allowed) = (units::span(lag.percentile(LAG_PERCENT)), units::span(tolerance));
    let verdict = match is_lag_within_tolerance(lag, tolerance) {
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

/// Returns a table of the undefined behaviour of hosts, with section and count of each kind, or a sentence if there was
/// none.
pub fn undefined_behaviour_table(tally: &Tally) -> String {
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

/// Returns a table of the flushes, discards and writes of zeros served, with their latencies, and of the number of
/// errors.
pub fn counts(tally: &Tally) -> Table {
    let mut table = Table::new().left("served").right("").right("mean").right("p99");
    for (name, of) in [("flushes", &tally.flush), ("discards", &tally.discard), ("writes of zeros", &tally.zeroes)] {
        let mut row = vec![name.to_string(), units::grouped(of.ios)];
        if of.latency.count() > 0 {
            let known = of.latency.supported_percentile(99.0).map_or(String::from("unknown"), units::span);
            row.extend([units::span(of.latency.mean()), known]);
        }
        table.row(row);
    }
    table.row(["refused or failed".to_string(), units::grouped(tally.errors)]);
    table
}
