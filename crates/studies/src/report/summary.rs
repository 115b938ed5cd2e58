//! Readable result of a run: requests, the stages in which their time went, and the use of link and host.

use std::fmt::Write;

use super::table::{Table, bar};
use super::tails::tail_table;
use super::units::{self, ColumnScale};
use crate::results::{FIGURES, Figures, RunFigureGroup, Unit, in_tables};
use crate::tails::tails;
use phaselink_core::ledger::{DirectionOutcome, JobOutcome, Latency, MeasuredState, Outcome, WireUse};
use phaselink_core::number::real;
use phaselink_core::time::{Span, Time};

const BAR_WIDTH: usize = 30;

/// Returns all results of a run as text of at most 100 columns for names of ordinary length.
///
/// A percentile for which the run has too few requests is printed as `-`; the table of tails says what it needs.
pub fn summary(outcome: &Outcome) -> String {
    summary_for_width(outcome, None)
}

/// Returns all results of a run as text for a terminal of `width` columns, if that is known.
pub fn summary_for_width(outcome: &Outcome, width: Option<usize>) -> String {
    let shown = |table: Table| width.map_or_else(|| table.to_string(), |width| table.within(width));
    let mut text = heading(outcome);
    write_block(&mut text, &shown(requests(outcome)));
    let tails = tails(outcome);
    if !tails.is_empty() {
        write_block(&mut text, &shown(tail_table(&tails)));
    }
    for job in &outcome.jobs {
        for (direction, figures) in job.kinds() {
            write_block(&mut text, &ledger(job, direction, figures, &outcome.stack_stages));
        }
    }
    write_block(&mut text, &shown(link(outcome)));
    write_block(&mut text, &shown(host(outcome)));
    if !outcome.faults.is_empty() {
        write_block(&mut text, &shown(faults(outcome)));
    }
    if !outcome.counters.is_empty() {
        write_block(&mut text, &shown(counters(outcome)));
        text.push_str(reason_for_no_erases(outcome));
        text.push_str(&unwritten_read_share(outcome));
    }
    text
}

fn write_block(text: &mut String, block: &str) {
    text.push('\n');
    text.push_str(block);
}

/// Returns the heading of a result: drive, seed, number of requests and simulated time, then failed requests and an
/// early stop, if any.
pub(super) fn heading(outcome: &Outcome) -> String {
    let mut text = format!(
        "{}, seed {}: {} requests in {} of simulated time\n",
        outcome.drive,
        outcome.seed,
        units::grouped(outcome.ios()),
        units::span(outcome.elapsed),
    );
    if outcome.failed() > 0 {
        let _ =
            writeln!(text, "{} requests have failed, and are counted nowhere else", units::grouped(outcome.failed()));
    }
    if !outcome.finished {
        text.push_str("The run was stopped before its jobs were done.\n");
    }
    text
}

/// Row of the table of requests: a job's requests of one kind, with their rates and latencies.
struct RequestRow<'a> {
    job: &'a str,
    kind: &'static str,
    per_s: f64,
    /// Bandwidth in bytes per second; `None` for commits and queries.
    bytes_per_s: Option<f64>,
    /// Mean, percentiles and maximum of the latency; `None` for a percentile that is not known.
    latencies: Vec<Option<Span>>,
}

impl<'a> RequestRow<'a> {
    fn new(job: &'a JobOutcome, kind: &'static str, per_s: f64, latency: &Latency) -> RequestRow<'a> {
        let percentiles = in_tables().map(|it| it.of(latency));
        let latencies = std::iter::once(Some(latency.mean())).chain(percentiles).chain([Some(latency.max())]).collect();
        RequestRow { job: &job.name, kind, per_s, bytes_per_s: None, latencies }
    }

    /// Returns a row for each kind of a job's requests, commits and queries included.
    fn rows_of_job(job: &'a JobOutcome) -> impl Iterator<Item = RequestRow<'a>> {
        let row = |(direction, figures): (&'static str, &DirectionOutcome)| RequestRow {
            bytes_per_s: Some(figures.bytes_per_s()),
            ..RequestRow::new(job, direction, figures.iops(), &figures.total)
        };
        let commits =
            (job.commit.count() > 0).then(|| RequestRow::new(job, "commit", job.commit_rate_per_s(), &job.commit));
        let queries = (job.query.count() > 0).then(|| RequestRow::new(job, "query", job.queries_per_s(), &job.query));
        job.kinds().map(row).chain(commits).chain(queries)
    }
}

/// Returns the table of throughput and latency, with a row for each job and kind of request, commits and queries
/// included. All values of a column have one decimal prefix.
pub fn requests(outcome: &Outcome) -> Table {
    let mut table = Table::new().left("job").left("direction").right("IOPS").right("bandwidth").right("mean");
    for percentile in in_tables() {
        table = table.right(percentile.heading);
    }
    let mut table = table.right("max");
    let rows: Vec<RequestRow> = outcome.jobs.iter().flat_map(RequestRow::rows_of_job).collect();
    let per_s = ColumnScale::of(rows.iter().map(|row| row.per_s));
    let bytes_per_s = ColumnScale::of(rows.iter().filter_map(|row| row.bytes_per_s));
    let latencies = |place: usize| {
        let known = rows.iter().filter_map(|row| row.latencies[place]);
        ColumnScale::of(known.map(Span::as_s))
    };
    let scales: Vec<ColumnScale> = (0..in_tables().count() + 2).map(latencies).collect();
    for row in &rows {
        let bandwidth = row.bytes_per_s.map_or(String::new(), |value| bytes_per_s.quantity(value, "B/s"));
        let latency = scales.iter().zip(&row.latencies);
        let latency = latency.map(|(scale, known)| known.map_or(String::from("-"), |span| scale.span(span)));
        let first = [String::from(row.job), String::from(row.kind), per_s.count(row.per_s), bandwidth];
        table.row(first.into_iter().chain(latency));
    }
    table
}

/// Returns the mean time of a request in each stage, for one job and kind of requests, as a table with bars.
fn ledger(job: &JobOutcome, direction: &str, figures: &DirectionOutcome, stack: &[String]) -> String {
    let mut table = Table::new().left("stage").right("ns").right("share").left("");
    let total_ns = figures.total.mean_ns();
    for (stage, mean_ns) in stage_means_ns(figures, stack) {
        let share = if total_ns > 0.0 { mean_ns / total_ns } else { 0.0 };
        table.row([stage.to_string(), format!("{mean_ns:.1}"), units::percent(share), bar(share, BAR_WIDTH)]);
    }
    table.group();
    table.row(["total".to_string(), format!("{total_ns:.1}"), units::percent(1.0)]);
    let mut text = String::new();
    let _ = writeln!(text, "{}, {direction}: where the time of a request goes", job.name);
    let _ = write!(text, "{table}");
    text
}

/// Returns the stages in which time was spent, with the mean time for each request in ns.
pub(super) fn stage_means_ns<'a>(
    figures: &'a DirectionOutcome,
    stack: &'a [String],
) -> impl Iterator<Item = (&'a str, f64)> {
    let ios = real(figures.ios.max(1));
    figures.stages.named(stack).map(move |(stage, span)| (stage, span.as_ns() / ios))
}

/// Returns the table of the use of both directions of the link.
pub(super) fn link(outcome: &Outcome) -> Table {
    let mut table = Table::new().left("link").right("to host").right("to device");
    let mut row = |name: &str, figure: &dyn Fn(&WireUse) -> String| {
        table.row([name.to_string(), figure(&outcome.upstream), figure(&outcome.downstream)]);
    };
    row("busy, acknowledgements aside", &|wire| units::percent(wire.busy_share(outcome.elapsed)));
    row("wire rate", &|wire| units::quantity(wire.bytes_per_ns * 1e9, "B/s"));
    row("bytes", &|wire| units::quantity(real(wire.bytes()), "B"));
    row("user data", &|wire| percent_of_wire_bytes(wire, wire.data_bytes));
    row("commands and completions", &|wire| percent_of_wire_bytes(wire, wire.command_bytes));
    row("headers and framing", &|wire| percent_of_wire_bytes(wire, wire.header_bytes));
    row("acknowledgements and credits", &|wire| percent_of_wire_bytes(wire, wire.dllp_bytes));
    row("packets", &|wire| units::grouped(wire.packets));
    row("packets sent again", &|wire| units::grouped(wire.replays));
    table
}

fn percent_of_wire_bytes(wire: &WireUse, bytes: u64) -> String {
    units::percent(real(bytes) / real(wire.bytes().max(1)))
}

/// Returns the table of processor time, interrupts and energy of the host.
pub(super) fn host(outcome: &Outcome) -> Table {
    let cpu = &outcome.cpu;
    let cores = |span: Span| format!("{:.3}", span.as_s() / outcome.elapsed.as_s().max(1e-12));
    let figures = Figures::of(outcome);
    let mut table = Table::new().left("host").right("");
    add_figure_rows(&mut table, &figures, RunFigureGroup::Cores, &format!(" of {}", cpu.cores));
    table.row(["  working".to_string(), cores(cpu.working)]);
    table.row(["  spinning".to_string(), cores(cpu.spinning)]);
    table.row(["  switching and interrupts".to_string(), cores(cpu.switching)]);
    add_figure_rows(&mut table, &figures, RunFigureGroup::Processor, "");
    table.row(["interrupts".to_string(), units::grouped(cpu.interrupts)]);
    table.row(["context switches".to_string(), units::grouped(cpu.context_switches)]);
    add_figure_rows(&mut table, &figures, RunFigureGroup::Power, "");
    if let Some(energy) = outcome.energy {
        table.row(["  of it idle".to_string(), units::quantity(energy.idle_w, "W")]);
    }
    add_figure_rows(&mut table, &figures, RunFigureGroup::Energy, "");
    table
}

/// Adds a row for each known figure of a part of a run to the table of the host; `end` follows the value.
fn add_figure_rows(table: &mut Table, figures: &Figures, part: RunFigureGroup, end: &str) {
    for figure in &FIGURES {
        let heading = figure.in_run.filter(|(own, _)| *own == part).map(|(_, heading)| heading);
        let Some((heading, value)) = heading.zip(figures.get(figure)) else { continue };
        let shown = match figure.unit {
            Unit::Cores => format!("{value:.3}"),
            unit => units::figure(unit, Some(value)),
        };
        table.row([heading.to_string(), shown + end]);
    }
}

/// Returns the table of injected faults: the rule, the number of things that it affected, and the first and last time.
pub(super) fn faults(outcome: &Outcome) -> Table {
    let mut table = Table::new().left("fault").right("touched").right("from").right("to");
    let at = |at: Option<Time>| at.map_or(String::from("-"), |at| units::span(at.since(Time::ZERO)));
    for met in &outcome.faults {
        table.row([met.line.clone(), units::grouped(met.count), at(met.first), at(met.last)]);
    }
    table
}

/// Returns the table of the counters of the drive's protocol.
pub(super) fn counters(outcome: &Outcome) -> Table {
    let has_warm_up = matches!(outcome.measured, MeasuredState::Steady { .. });
    let mut table = Table::new().left(if has_warm_up { "counter, warm-up included" } else { "counter" }).right("");
    for (name, value) in &outcome.counters {
        table.row([name.to_string(), units::grouped(*value)]);
    }
    table
}

/// Returns why a drive whose writes went to flash has erased nothing; empty if it has, or if there is nothing to say.
fn reason_for_no_erases(outcome: &Outcome) -> &'static str {
    match (count(outcome, "erases"), count(outcome, "write_amplification_percent")) {
        (Some(0), Some(1..)) => "No block was erased: the writes of this run were too few to empty a whole block.\n",
        _ => "",
    }
}

/// Returns the share of the bytes read for which no cell was read, because nothing was written there; empty if there is
/// none.
fn unwritten_read_share(outcome: &Outcome) -> String {
    count(outcome, "unwritten_read_percent").map_or(String::new(), |percent| {
        format!("{percent} % of the bytes read were never written, or were discarded: such reads touch no cell.\n")
    })
}

fn count(outcome: &Outcome, name: &str) -> Option<u64> {
    outcome.counters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;
    use expect_test::expect;

    #[test]
    fn summary_lists_rates_latencies_stages_link_host_and_counters() {
        expect![[r#"
            sample <pcm>, seed 7: 1,010 requests in 1.00 ms of simulated time

            job         direction     IOPS   bandwidth     mean      p50      p99  p99.9      max
            ─────────────────────────────────────────────────────────────────────────────────────
            rand & mix  read       1,000 k  4,096 MB/s  5.50 us  5.50 us  5.99 us      -  6.00 us
            rand & mix  write       10.0 k   41.0 MB/s  2.00 us        -        -      -  2.00 us

            tail          latency  95 % from       to  independent requests
            ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
            read p99      5.99 us    5.98 us  6.00 us  1.00 k
            read p99.9          -          -        -  needs 10.0 k requests, or 10.0 ms of simulated time; 1,000 counted
            read p99.99         -          -        -  needs 100 k requests, or 100 ms of simulated time; 1,000 counted
            write p99           -          -        -  needs 1.00 k requests, or 100 ms of simulated time; 10 counted
            write p99.9         -          -        -  needs 10.0 k requests, or 1.00 s of simulated time; 10 counted
            write p99.99        -          -        -  needs 100 k requests, or 10.0 s of simulated time; 10 counted

            rand & mix, read: where the time of a request goes
            stage            ns    share
            ──────────────────────────────────────────────────
            system call   600.0   10.9 %  ███▎
            driver        200.0    3.6 %  █▏
            media        3600.5   65.5 %  ███████████████████▋
            transfer     1100.0   20.0 %  ██████
            ──────────────────────────────────────────────────
            total        5500.5  100.0 %

            rand & mix, write: where the time of a request goes
            stage            ns    share
            ───────────────────────────────────────────────
            system call   600.0   30.0 %  █████████
            driver        200.0   10.0 %  ███
            media         100.0    5.0 %  █▌
            transfer     1100.0   55.0 %  ████████████████▌
            ───────────────────────────────────────────────
            total        2000.0  100.0 %

            link                            to host  to device
            ──────────────────────────────────────────────────
            busy, acknowledgements aside     90.0 %      2.0 %
            wire rate                     4.00 GB/s  4.00 GB/s
            bytes                           4.87 MB    64.0 kB
            user data                        84.1 %      0.0 %
            commands and completions          0.3 %    100.0 %
            headers and framing              14.4 %      0.0 %
            acknowledgements and credits      1.2 %      0.0 %
            packets                          33,000          0
            packets sent again                    0          0

            host
            ──────────────────────────────────────
            cores busy                  1.300 of 4
              working                        0.500
              spinning                       0.700
              switching and interrupts       0.100
            cores per GB/s                   0.314
            interrupts                       1,010
            context switches                 2,020
            server power                     101 W
              of it idle                    80.0 W
            energy per request              100 uJ
              and in the memory            19.8 nJ

            counter
            ──────────────────────
            queue reads     12,345
            tag collisions       0
        "#]]
        .assert_eq(&summary(&sample::outcome()));
    }

    #[test]
    fn summary_of_a_stopped_run_without_requests_prints() {
        let outcome = Outcome { jobs: Vec::new(), finished: false, elapsed: Span::ZERO, ..sample::outcome() };
        let text = summary(&outcome);
        assert!(text.contains("stopped before its jobs were done"));
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn summary_explains_a_run_without_erases() {
        let told = |erases: u64, amplification: u64| {
            let counters = vec![("write_amplification_percent", amplification), ("erases", erases)];
            summary(&Outcome { counters, ..sample::outcome() }).contains("No block was erased")
        };
        assert_eq!([told(0, 250), told(3, 250), told(0, 0)], [true, false, false]);
    }

    #[test]
    fn summary_reports_reads_of_unwritten_blocks() {
        let told = |counters| summary(&Outcome { counters, ..sample::outcome() });
        let text = told(vec![("unwritten_read_bytes", 4096), ("unwritten_read_percent", 48)]);
        assert!(text.contains("48 % of the bytes read were never written"), "{text}");
        assert!(!told(vec![("erases", 3)]).contains("never written"));
    }
}
