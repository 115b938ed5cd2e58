//! One self-contained page of results: no script, nothing fetched, readable in light and dark.
//!
//! Every text that comes from a description is escaped.

mod bar;
pub mod comparison;
mod plot;

use serde_json::Value;

use super::table::{Side, Table};
use super::{summary, units};
use crate::ledger::{DirectionOutcome, Outcome};
use bar::{Segment, stacked_bar};

const STYLE: &str = include_str!("page.css");

/// The page; `description` is the resolved description.
pub fn html(outcome: &Outcome, description: &Value) -> String {
    let title = escape(&outcome.drive);
    let sections = [
        header(outcome),
        tiles(outcome),
        section("Requests", &table(&summary::requests(outcome))),
        latency(outcome),
        ledgers(outcome),
        link(outcome),
        costs(outcome),
        description_details(description),
    ];
    document(&title, &sections.concat())
}

/// A page of its own; the title is escaped already.
fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} - phaselink</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
    )
}

fn header(outcome: &Outcome) -> String {
    let stopped = if outcome.finished { "" } else { " The run was stopped before its jobs were done." };
    format!(
        "<h1>{}</h1>\n<p class=\"quiet\">{} requests in {} of simulated time, seed {}, phaselink {}.{stopped}</p>\n",
        escape(&outcome.drive),
        units::grouped(outcome.ios()),
        units::span(outcome.elapsed),
        outcome.seed,
        env!("CARGO_PKG_VERSION"),
    )
}

/// The few numbers that a reader looks for first.
fn tiles(outcome: &Outcome) -> String {
    let busiest = outcome.upstream.busy_share(outcome.elapsed).max(outcome.downstream.busy_share(outcome.elapsed));
    let tiles = [
        (units::count(outcome.iops()), "requests per second"),
        (units::quantity(outcome.bytes_per_s(), "B/s"), "user data"),
        (units::percent(busiest), "busier direction of the link"),
        (format!("{:.2}", outcome.cores_per_gb_per_s()), "cores per GB/s"),
        (units::quantity(outcome.joules_per_io(), "J"), "per request"),
    ];
    let tiles = tiles.map(|(value, name)| format!("<div class=\"tile\"><b>{value}</b><span>{name}</span></div>\n"));
    format!("<div class=\"tiles\">\n{}</div>\n", tiles.concat())
}

fn section(title: &str, body: &str) -> String {
    format!("<h2>{title}</h2>\n{body}")
}

/// The directions of all jobs in which anything was counted, with a name for each.
fn directions(outcome: &Outcome) -> impl Iterator<Item = (String, &DirectionOutcome)> {
    outcome
        .jobs
        .iter()
        .flat_map(|job| job.directions().map(|(direction, figures)| (format!("{}, {direction}", job.name), figures)))
}

fn latency(outcome: &Outcome) -> String {
    let series: Vec<plot::Series> = directions(outcome)
        .map(|(name, figures)| plot::Series { name: escape(&name), latency: &figures.total })
        .collect();
    if series.is_empty() {
        return String::new();
    }
    section("Latency", &plot::percentiles(&series))
}

/// For every job and direction, the stages of a request as a bar and as numbers.
fn ledgers(outcome: &Outcome) -> String {
    let ledgers: String =
        directions(outcome).map(|(name, figures)| ledger(&name, figures, &outcome.stack_stages)).collect();
    if ledgers.is_empty() { ledgers } else { section("Where the time of a request goes", &ledgers) }
}

fn ledger(name: &str, figures: &DirectionOutcome, stack: &[String]) -> String {
    let total_ns = figures.total.mean_ns().max(f64::MIN_POSITIVE);
    let segments: Vec<Segment> = summary::stage_means_ns(figures, stack)
        .map(|(stage, mean_ns)| Segment {
            name: escape(stage),
            share: mean_ns / total_ns,
            figure: format!("{mean_ns:.1} ns"),
        })
        .collect();
    format!("<h3>{}: {} on average</h3>\n{}", escape(name), units::span(figures.total.mean()), stacked_bar(&segments))
}

/// Both directions as bars over the run's time, what is left being idle, and as numbers.
fn link(outcome: &Outcome) -> String {
    let directions = [("To host", &outcome.upstream), ("To device", &outcome.downstream)];
    let bars = directions.map(|(name, wire)| {
        let busy = wire.busy_share(outcome.elapsed);
        let kinds = [
            ("user data", wire.data_bytes),
            ("commands and completions", wire.command_bytes),
            ("headers and framing", wire.header_bytes),
            ("acknowledgements and credits", wire.dllp_bytes),
        ];
        let segments: Vec<Segment> = kinds
            .iter()
            .map(|(kind, bytes)| Segment {
                name: kind.to_string(),
                share: busy * *bytes as f64 / wire.bytes().max(1) as f64,
                figure: units::quantity(*bytes as f64, "B"),
            })
            .collect();
        format!("<h3>{name}: busy {} of the time</h3>\n{}", units::percent(busy), stacked_bar(&segments))
    });
    section("Link", &(bars.concat() + &table(&summary::link(outcome))))
}

/// What the host and the protocol spent.
fn costs(outcome: &Outcome) -> String {
    let mut tables = vec![table(&summary::host(outcome))];
    if !outcome.counters.is_empty() {
        tables.push(table(&summary::counters(outcome)));
    }
    section("Host and protocol", &format!("<div class=\"pair\">\n{}</div>\n", tables.concat()))
}

fn description_details(description: &Value) -> String {
    format!(
        "<details>\n<summary>Resolved description</summary>\n<pre>{}</pre>\n</details>\n",
        escape(&format!("{description:#}"))
    )
}

/// A text table as an HTML table.
fn table(table: &Table) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| -> String {
        let sides = table.columns().map(|(_, side)| if side == Side::Right { " class=\"number\"" } else { "" });
        cells.zip(sides).map(|(cell, class)| format!("<{tag}{class}>{}</{tag}>", escape(cell))).collect()
    };
    let head = cells("th", &mut table.columns().map(|(header, _)| header));
    let rows: String =
        table.rows().map(|row| format!("<tr>{}</tr>\n", cells("td", &mut row.iter().map(String::as_str)))).collect();
    format!("<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n")
}

/// `text` such that it is text in any HTML element or quoted attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;
    use crate::time::Span;
    use serde_json::json;

    fn page() -> String {
        html(&sample::outcome(), &json!({ "name": "<script>alert(1)</script>" }))
    }

    #[test]
    fn text_from_descriptions_is_escaped_everywhere() {
        let page = page();
        assert!(page.contains("<h1>sample &lt;pcm&gt;</h1>"));
        assert!(page.contains("rand &amp; mix, read"));
        assert!(!page.contains("rand & mix") && !page.contains("<pcm>") && !page.contains("<script"));
        assert_eq!(escape("\"a' & <b>"), "&quot;a&#39; &amp; &lt;b&gt;");
    }

    #[test]
    fn the_page_fetches_nothing_and_runs_nothing() {
        let page = page();
        for forbidden in ["http:", "https:", "<script", "<link", "<img", "@import", "url(", "src="] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn every_element_that_is_opened_is_closed() {
        let page = page();
        let void = ["meta", "!DOCTYPE"];
        let mut open = Vec::new();
        for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "at </{name}>");
            } else if !tag.ends_with('/') && !void.contains(&name) {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn a_run_without_requests_or_time_still_gives_a_page_of_numbers() {
        let outcome = Outcome { jobs: Vec::new(), elapsed: Span::ZERO, finished: false, ..sample::outcome() };
        let page = html(&outcome, &Value::Null);
        assert!(page.contains("stopped before") && !page.contains("NaN") && !page.contains("inf "));
    }
}
