//! Page of one run as HTML.

use serde_json::Value;

use super::super::{summary, units};
use super::axis::{AxisScale, PlotAxis};
use super::bar::{BarSegment, stacked_bar_svg};
use super::lines::{PlotLine, lines};
use super::page::side_by_side;
use super::{colour, conclusion, document, escape, packets, plot, section, table};
use crate::report::table::Table;
use crate::report::tail_table;
use crate::results::documents::ResourceUse;
use crate::results::{FIGURES, Figure, Figures};
use crate::tails::tails;
use phaselink_core::engine::timeline::Window;
use phaselink_core::ledger::stage::SystemPart;
use phaselink_core::ledger::{DirectionOutcome, Outcome, Trace};
use phaselink_core::number::real;

/// Smallest utilisation at which a resource is listed as busy.
const USED_MIN: f64 = 0.01;
/// Largest number of kinds of requests (reads or writes of a job) whose latency has a tile at the top of the page.
const TILED_MAX: usize = 2;

/// Contents of the page of a run.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Outcome of the run.
    pub outcome: &'a Outcome,
    /// Resolved description of the drive.
    pub description: &'a Value,
    /// Result of the run, in a sentence or two.
    pub conclusion: &'a [String],
    /// Utilisation of each resource, by descending utilisation.
    pub usage: &'a [ResourceUse],
    /// Explanation and table of the intervals of figures, if they were computed.
    pub intervals: Option<(&'a str, &'a Table)>,
    /// Job and drive as lines of text.
    pub heading: &'a [String],
    /// Results of successive windows of simulated time, if the run was divided into windows.
    pub timeline: &'a [Window],
    /// Title and steps of one request with its packets, if they were recorded.
    pub packets: Option<(&'a str, &'a Trace)>,
}

impl<'a> Run<'a> {
    /// Makes the contents of a page from the outcome alone; the other fields are empty.
    pub fn new(outcome: &'a Outcome, description: &'a Value) -> Run<'a> {
        Run {
            outcome,
            description,
            conclusion: &[],
            usage: &[],
            intervals: None,
            heading: &[],
            timeline: &[],
            packets: None,
        }
    }
}

/// Returns the page of a run as an HTML document.
pub fn html(run: &Run) -> String {
    let outcome = run.outcome;
    let sections = [
        header(outcome),
        conclusion(run.conclusion),
        tiles(outcome, run.usage),
        section("Requests", &(table(&summary::requests(outcome)) + &known_tail_table(outcome))),
        intervals(run.intervals),
        latency(outcome),
        in_time(run.timeline),
        stage_section(outcome),
        utilisation(run.usage),
        request(run.packets),
        link(outcome),
        costs(outcome),
        workload(run.heading),
        description_section(run.description),
    ];
    document(&escape(&outcome.drive), &sections.concat())
}

fn workload(heading: &[String]) -> String {
    let lines: String = heading.iter().map(|line| format!("{}\n", escape(line))).collect();
    if lines.is_empty() { lines } else { section("What was assumed", &format!("<pre>{lines}</pre>\n")) }
}

/// Returns the HTML section with the table of prediction or confidence intervals and its explanation; empty if there
/// are none.
fn intervals(intervals: Option<(&str, &Table)>) -> String {
    let Some((explanation, rows)) = intervals else { return String::new() };
    section("How well it is known", &format!("<p class=\"quiet\">{}</p>\n{}", escape(explanation), table(rows)))
}

/// Returns the HTML section with the utilisation of each resource as a table with bars; empty if no resource was busy.
fn utilisation(usage: &[ResourceUse]) -> String {
    let row = |used: &ResourceUse| {
        let percent = 100.0 * used.share;
        format!(
            "<tr><td>{}</td><td class=\"number\">{percent:.0} %</td><td class=\"meter\"><i style=\"width:{percent:.1}%\"></i></td></tr>\n",
            escape(&used.resource)
        )
    };
    let rows: String = usage.iter().filter(|used| used.share >= USED_MIN).map(row).collect();
    if rows.is_empty() {
        return rows;
    }
    let told = "<p class=\"quiet\">Share of the simulated time for which each part was busy, if at least 1 %.</p>\n";
    section(
        "What is busy",
        &format!("{told}<div class=\"wide\"><table class=\"meters\">\n<tbody>\n{rows}</tbody>\n</table></div>\n"),
    )
}

/// Returns the HTML section with plots of request rate and latency over the run's time; empty if there are fewer than
/// two windows.
fn in_time(windows: &[Window]) -> String {
    let [first, _, ..] = windows else { return String::new() };
    let start = first.from;
    let over = |figure: &dyn Fn(&Window) -> f64| {
        let point = |window: &Window| (window.to.since(start).as_s(), Some(figure(window)));
        windows.iter().map(point).collect::<Vec<_>>()
    };
    let seconds = |value: f64| units::quantity(value, "s");
    let x = PlotAxis { name: "simulated time", scale: AxisScale::Linear, shown: &seconds };
    let rate = [PlotLine::through("requests a second", over(&Window::iops))];
    let latency = [
        PlotLine::through("mean", over(&|window| window.latency.mean_ns() / 1e9)),
        PlotLine::through("99 %", over(&|window| window.latency.percentile(99.0).as_s())),
    ];
    let plots = [
        lines(&x, &PlotAxis { name: "requests a second", scale: AxisScale::Linear, shown: &units::count }, &rate, ""),
        lines(&x, &PlotAxis { name: "latency", scale: AxisScale::Linear, shown: &seconds }, &latency, ""),
    ];
    section("In time", &side_by_side(&plots))
}

/// Returns the HTML section with the drawn steps and packets of one request; empty if they were not recorded.
fn request(steps: Option<(&str, &Trace)>) -> String {
    let Some((title, trace)) = steps else { return String::new() };
    let told = format!("<p class=\"quiet\">{}</p>\n", escape(title));
    section("The packets of one request", &(told + &packets(trace)))
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

/// Returns the HTML tiles at the top of the page: the few numbers that a reader looks for first.
fn tiles(outcome: &Outcome, usage: &[ResourceUse]) -> String {
    let figures = Figures::of(outcome);
    let tile = |it: &Figure| Some((units::figure(it.unit, figures.get(it)), String::from(it.tile?)));
    let mut tiles: Vec<(String, String)> = FIGURES.iter().filter_map(tile).collect();
    let all: Vec<(String, &DirectionOutcome)> = directions(outcome).collect();
    for (name, figures) in all.iter().take(TILED_MAX) {
        let of = match (all.len(), outcome.jobs.len()) {
            (1, _) => String::new(),
            (_, 1) => format!(" of {}s", name.rsplit(", ").next().unwrap_or(name)),
            _ => format!(" ({name})"),
        };
        tiles.push((units::span(figures.total.mean()), format!("mean latency{of}")));
        let p99 = figures.total.estimate(99.0).ok();
        tiles.extend(p99.map(|known| (units::span(known.value), format!("99th percentile{of}"))));
    }
    tiles
        .extend(usage.first().map(|used| (format!("{:.0} %", 100.0 * used.share), format!("busy: {}", used.resource))));
    let tile = |(value, name): (String, String)| {
        format!("<div class=\"tile\"><b>{value}</b><span>{}</span></div>\n", escape(&name))
    };
    let tiles: Vec<String> = tiles.into_iter().map(tile).collect();
    format!("<div class=\"tiles\">\n{}</div>\n", tiles.concat())
}

/// Returns the table of tails with their intervals; empty without requests.
fn known_tail_table(outcome: &Outcome) -> String {
    let tails = tails(outcome);
    if tails.is_empty() { String::new() } else { table(&tail_table(&tails)) }
}

/// Returns the reads and writes of all jobs of which any were counted, with a name for each.
fn directions(outcome: &Outcome) -> impl Iterator<Item = (String, &DirectionOutcome)> {
    outcome
        .jobs
        .iter()
        .flat_map(|job| job.directions().map(|(direction, figures)| (format!("{}, {direction}", job.name), figures)))
}

fn latency(outcome: &Outcome) -> String {
    let series: Vec<plot::LatencySeries> =
        directions(outcome).map(|(name, figures)| plot::LatencySeries { name, latency: &figures.total }).collect();
    if series.is_empty() {
        return String::new();
    }
    section("Latency", &plot::percentiles(&series))
}

/// Returns the HTML section with the mean time of a request in each stage as a bar and as numbers, for every job and
/// kind of requests.
fn stage_section(outcome: &Outcome) -> String {
    let ledgers: String =
        directions(outcome).map(|(name, figures)| ledger(&name, figures, &outcome.stack_stages)).collect();
    if ledgers.is_empty() { ledgers } else { section("Where the time of a request goes", &ledgers) }
}

fn ledger(name: &str, figures: &DirectionOutcome, stack: &[String]) -> String {
    let total_ns = figures.total.mean_ns().max(f64::MIN_POSITIVE);
    let segments: Vec<BarSegment> = summary::stage_means_ns(figures, stack)
        .map(|(stage, mean_ns)| BarSegment {
            name: escape(stage),
            share: mean_ns / total_ns,
            figure: units::quantity(mean_ns / 1e9, "s"),
            value: mean_ns,
            colour: colour::stage_colour(stage, stack),
        })
        .collect();
    format!(
        "<h3>{}: {} on average</h3>\n{}",
        escape(name),
        units::span(figures.total.mean()),
        stacked_bar_svg(&format!("Stages of {}", escape(name)), "ns", &segments)
    )
}

/// Returns the HTML section of the link: for both directions, a bar of the run's time by kind of bytes, the rest being
/// idle, and a table.
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
        let segments: Vec<BarSegment> = kinds
            .iter()
            .enumerate()
            .map(|(place, (kind, bytes))| BarSegment {
                name: kind.to_string(),
                share: busy * real(*bytes) / real(wire.bytes().max(1)),
                figure: units::quantity(real(*bytes), "B"),
                value: real(*bytes),
                colour: colour::of_part(SystemPart::Link, place),
            })
            .collect();
        format!(
            "<h3>{name}: busy {} of the time</h3>\n{}",
            units::percent(busy),
            stacked_bar_svg(&format!("Link, {name}"), "bytes", &segments)
        )
    });
    section("Link", &(bars.concat() + &table(&summary::link(outcome))))
}

/// Returns the HTML section with the tables of host costs and protocol counters.
fn costs(outcome: &Outcome) -> String {
    let mut tables = vec![table(&summary::host(outcome))];
    if !outcome.counters.is_empty() {
        tables.push(table(&summary::counters(outcome)));
    }
    section("Host and protocol", &format!("<div class=\"pair\">\n{}</div>\n", tables.concat()))
}

fn description_section(description: &Value) -> String {
    format!(
        "<details>\n<summary>Resolved description</summary>\n<pre>{}</pre>\n</details>\n",
        escape(&format!("{description:#}"))
    )
}
