//! The page of one run.

use serde_json::Value;

use super::super::{summary, units};
use super::axis::{PlotAxis, Scale};
use super::bar::{BarSegment, stacked_bar};
use super::lines::{PlotLine, lines};
use super::page::side_by_side;
use super::{colour, document, escape, packets, plot, section, table};
use crate::engine::timeline::Window;
use crate::ledger::stage::SystemPart;
use crate::ledger::{DirectionOutcome, Outcome, Trace};

/// Contents of the page of a run.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Results of the run.
    pub outcome: &'a Outcome,
    /// The resolved description.
    pub description: &'a Value,
    /// The job and the drive in words: lines of a text.
    pub heading: &'a [String],
    /// Windows of the run over time, if it was watched.
    pub timeline: &'a [Window],
    /// The steps of one request and which that is, if they were recorded.
    pub packets: Option<(&'a str, &'a Trace)>,
}

impl<'a> Run<'a> {
    /// Makes a page from the outcome alone.
    pub fn new(outcome: &'a Outcome, description: &'a Value) -> Run<'a> {
        Run { outcome, description, heading: &[], timeline: &[], packets: None }
    }
}

/// The page.
pub fn html(run: &Run) -> String {
    let outcome = run.outcome;
    let sections = [
        header(outcome),
        workload(run.heading),
        tiles(outcome),
        section("Requests", &table(&summary::requests(outcome))),
        latency(outcome),
        in_time(run.timeline),
        ledgers(outcome),
        request(run.packets),
        link(outcome),
        costs(outcome),
        description_details(run.description),
    ];
    document(&escape(&outcome.drive), &sections.concat())
}

fn workload(heading: &[String]) -> String {
    let lines: String = heading.iter().map(|line| format!("{}\n", escape(line))).collect();
    if lines.is_empty() { lines } else { format!("<pre>{lines}</pre>\n") }
}

/// Rate and latency of requests that follow each other, over the run's time.
fn in_time(windows: &[Window]) -> String {
    let [first, _, ..] = windows else { return String::new() };
    let start = first.from;
    let over = |figure: &dyn Fn(&Window) -> f64| {
        let point = |window: &Window| (window.to.since(start).as_s(), Some(figure(window)));
        windows.iter().map(point).collect::<Vec<_>>()
    };
    let seconds = |value: f64| units::quantity(value, "s");
    let x = PlotAxis { name: "simulated time", scale: Scale::Linear, shown: &seconds };
    let rate = [PlotLine::through("requests a second", over(&Window::iops))];
    let latency = [
        PlotLine::through("mean", over(&|window| window.latency.mean_ns() / 1e9)),
        PlotLine::through("99 %", over(&|window| window.latency.percentile(99.0).as_s())),
    ];
    let plots = [
        lines(&x, &PlotAxis { name: "requests a second", scale: Scale::Linear, shown: &units::count }, &rate, ""),
        lines(&x, &PlotAxis { name: "latency", scale: Scale::Linear, shown: &seconds }, &latency, ""),
    ];
    section("In time", &side_by_side(&plots))
}

/// The steps of one request, drawn.
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

/// The directions of all jobs in which anything was counted, with a name for each.
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

/// For every job and direction, the stages of a request as a bar and as numbers.
fn ledgers(outcome: &Outcome) -> String {
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
            figure: format!("{mean_ns:.1} ns"),
            colour: colour::of_stage(stage),
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
        let segments: Vec<BarSegment> = kinds
            .iter()
            .enumerate()
            .map(|(place, (kind, bytes))| BarSegment {
                name: kind.to_string(),
                share: busy * *bytes as f64 / wire.bytes().max(1) as f64,
                figure: units::quantity(*bytes as f64, "B"),
                colour: colour::of_part(SystemPart::Link, place),
            })
            .collect();
        format!("<h3>{name}: busy {} of the time</h3>\n{}", units::percent(busy), stacked_bar(&segments))
    });
    section("Link", &(bars.concat() + &table(&summary::link(outcome))))
}

/// Returns the tables of host costs and protocol counters.
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
