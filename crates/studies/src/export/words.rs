//! Answer of `export` in words.

use super::ExportAnswer;
use super::answer::{CheckedLatency, LoadCheck};
use super::table::Level;
use crate::report::{Answer, Prose, Table};
use crate::results::units::{count, quantity};
use crate::results::words::size;
use phaselink_core::number::real;

/// Rule by which every exported form is read, and what it leaves out.
const HOW: &str = "Checked are requests at random times (Poisson process) at loads between those of the table, with other random numbers. \
                   By load: their latency is looked up by the load. By requests in flight: the latency of each request is drawn from \
                   those that it finds in flight. Use the load for buffered writes, whose latency depends on how full the buffer is.";

impl Answer for ExportAnswer {
    const VERB: &'static str = "export";

    fn text(&self) -> Prose {
        let notes =
            [self.interpolation_error_sentence(), Some(String::from(HOW)), self.unsupported_percentile_sentence()];
        Prose::default()
            .paragraph(self.conclusion(), "")
            .gap()
            .table(self.load_check_table())
            .gap()
            .paragraphs(notes.into_iter().flatten(), "  ")
    }
}

impl ExportAnswer {
    /// Returns a sentence with the number of conditions and the errors of the tables at random times.
    fn conclusion(&self) -> String {
        let percents = |level| {
            self.median_check_errors(level).map(|[p50, p99]| format!("{p50:.1} % at p50 and {p99:.1} % at p99"))
        };
        let errors = percents(Level::Load).zip(percents(Level::InFlight));
        let errors = errors.map_or(String::new(), |(load, in_flight)| {
            let checked = self.checks.len();
            format!(
                " At {checked} loads between them, latencies by the load are off by {load} in the median, latencies drawn by the requests \
                 in flight by {in_flight}."
            )
        });
        format!(
            "{}: latencies at {} conditions and {} loads, {} requests each.{errors}",
            self.drive,
            self.conditions.len(),
            self.loads.len(),
            count(real(self.requests))
        )
    }

    /// Returns a table of simulated latencies and the errors of both tables, with a row for each load and direction.
    fn load_check_table(&self) -> Table {
        let table = Table::new().right("reads").right("size").right("load").left("of").labels();
        let percentiles = ["p50", "p99"];
        let mut table =
            percentiles.into_iter().fold(table, |table, name| table.right(name).right("by load").right("in flight"));
        for check in &self.checks {
            table.row(row(check));
        }
        table
    }

    /// Returns a sentence on the errors between conditions; `None` if no condition could be left out.
    fn interpolation_error_sentence(&self) -> Option<String> {
        let parts: Vec<String> = self
            .left_out
            .iter()
            .map(|check| {
                let axis = match check.axis {
                    "bytes" => "sizes",
                    "load_percent" => "loads",
                    _ => "numbers of requests in flight",
                };
                format!(
                    "p{} between {axis} {:.1} % (at most {:.0} %)",
                    check.percent, check.median_error_percent, check.max_error_percent
                )
            })
            .collect();
        let said = format!(
            "Between conditions, bounded by leaving out each inner one in turn, in the median: {}.",
            parts.join(", ")
        );
        (!parts.is_empty()).then_some(said)
    }

    /// Returns a sentence on percentiles that too few requests support; `None` if p99.9 is known everywhere.
    fn unsupported_percentile_sentence(&self) -> Option<String> {
        let quantiles = self.conditions.iter().flat_map(|condition| [&condition.reads, &condition.writes]).flatten();
        let least = quantiles.map(|quantiles| quantiles.known_to_percent).fold(100.0, f64::min);
        (least < 99.9).then(|| {
            format!(
                "At some conditions, percentiles above p{least} are those of one run (known_to_percent): simulate more \
                 requests (--ios) to rely on them."
            )
        })
    }
}

fn row(check: &LoadCheck) -> [String; 10] {
    let errors = |of: CheckedLatency| of.errors(check.simulated).map(|error| format!("{:+.1} %", 100.0 * error));
    let ([load_p50, load_p99], [in_flight_p50, in_flight_p99]) = (errors(check.by_load), errors(check.by_in_flight));
    let ns = |ns: f64| quantity(ns / 1e9, "s");
    [
        format!("{} %", check.read_percent),
        size(u64::from(check.bytes)),
        count(check.offered_iops),
        format!("{}s", check.direction),
        ns(check.simulated.median_ns),
        load_p50,
        in_flight_p50,
        ns(check.simulated.tail_ns),
        load_p99,
        in_flight_p99,
    ]
}
