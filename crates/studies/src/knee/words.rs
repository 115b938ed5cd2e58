//! Answer of `knee` in words: text and HTML page.

use super::{KneeAnswer, LoadPoint};
use crate::report::html::axis::{AxisScale, PlotAxis};
use crate::report::html::lines::{PlotLine, lines};
use crate::report::html::page::{Page, side_by_side};
use crate::report::{Answer, Prose, Table};
use crate::results::units::{ColumnScale, count, quantity};
use crate::results::{Figure, find};

/// Percentiles whose growth the answer shows.
const SHOWN: [&str; 4] = ["p50", "p99", "p99_9", "p99_99"];
/// Kinds of requests that have percentiles of their own.
const KINDS: [&str; 2] = ["read", "write"];

/// Definition of the knee and of the latencies.
const HOW: &str = "The knee is the load at which p99 of reads (of writes, if there are no reads) is twice that at the lowest load, \
                   or the largest throughput if it never doubles. Requests arrive at random times (Poisson process); latency \
                   counts from the planned arrival.";

impl Answer for KneeAnswer {
    const VERB: &'static str = "knee";

    fn text(&self) -> Prose {
        let notes = self
            .overload_sentence()
            .into_iter()
            .chain(self.widest_tail_sentence())
            .chain(self.unsupported_tail_sentence())
            .chain([String::from(HOW)]);
        Prose::default().paragraph(self.conclusion(), "").gap().table(self.table()).gap().paragraphs(notes, "  ")
    }

    fn page(&self) -> Option<String> {
        let job: Vec<String> = self.options.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let page = Page::new(&format!("{}: latency against load", self.drive), &[format!("Job: {}.", job.join(" "))])
            .conclusion(&[self.conclusion()])
            .section("Latency against load", &self.plots())
            .table("All loads", &self.table())
            .table("95 % intervals", &self.tail_interval_table());
        let notes: String = [HOW].iter().map(|note| crate::report::html::page::paragraph(note)).collect();
        Some(page.section("How it was measured", &notes).finish())
    }
}

impl KneeAnswer {
    /// Returns plots of the percentiles of reads and of writes against load, as HTML.
    pub fn plots(&self) -> String {
        side_by_side(&KINDS.iter().filter_map(|kind| self.percentile_plot_by_throughput(kind)).collect::<Vec<_>>())
    }

    /// Returns a sentence with the load at the knee and the growth of the tail up to it.
    fn conclusion(&self) -> String {
        let heading = find(self.knee_figure).map_or("p99", |figure| figure.heading);
        let first = self.points.iter().find_map(|point| Some((point.iops, point.ns(self.knee_figure)?)));
        let most = count(self.iops_max);
        let Some(((low, ns), knee)) = first.zip(self.knee_iops) else {
            return format!("{} reaches {most} requests a second; its {heading} needs more requests.", self.drive);
        };
        let (low, ns) = (count(low), quantity(ns / 1e9, "s"));
        match self.is_doubled {
            true => format!(
                "The knee of {} is at {} requests a second, where {heading} is twice the {ns} at {low}. The largest throughput of these \
                 runs is {most}.",
                self.drive,
                count(knee)
            ),
            false => format!(
                "{} has no knee up to {most} requests a second, its largest throughput in these runs: {heading}, {ns} at {low}, does \
                 not double.",
                self.drive
            ),
        }
    }

    /// Returns the percentiles that at least one load has, by kind of request.
    fn columns(&self) -> Vec<&'static Figure> {
        let names = KINDS.iter().flat_map(|kind| SHOWN.iter().map(move |percentile| format!("{kind}_{percentile}_ns")));
        let is_known = |name: &String| self.points.iter().any(|point| point.ns(name).is_some());
        names.filter(is_known).filter_map(|name| find(&name)).collect()
    }

    /// Returns a table with a row for each load.
    fn table(&self) -> Table {
        let columns = self.columns();
        let table = Table::new().right("offered IOPS").right("IOPS").labels();
        let mut table = columns.iter().fold(table, |table, figure| table.right(figure.heading)).left("");
        let rates = ColumnScale::of(self.points.iter().map(|point| point.offered_iops));
        let scale = |figure: &&Figure| {
            let name = figure.name;
            ColumnScale::of(self.points.iter().filter_map(move |point| point.ns(name)).map(|ns| ns / 1e9))
        };
        let scales: Vec<ColumnScale> = columns.iter().map(scale).collect();
        for point in &self.points {
            let latency = |(figure, scale): (&&Figure, &ColumnScale)| {
                point.ns(figure.name).map_or(String::from("-"), |ns| scale.quantity(ns / 1e9, "s"))
            };
            let late = if point.keeps_up { "" } else { "does not keep up" };
            let rates = [rates.count(point.offered_iops), rates.count(point.iops)];
            let latencies = columns.iter().zip(&scales).map(latency);
            table.row(rates.into_iter().chain(latencies).chain([String::from(late)]));
        }
        table
    }

    /// Returns a table of the 95 % confidence intervals of all tails, with a row for each load.
    fn tail_interval_table(&self) -> Table {
        let columns: Vec<&Figure> = self.columns().into_iter().filter(|figure| !figure.name.contains("p50")).collect();
        let table =
            columns.iter().fold(Table::new().right("IOPS").labels(), |table, figure| table.right(figure.heading));
        self.points.iter().fold(table, |mut table, point| {
            let ends = |figure: &&Figure| {
                let tail = point.tail(figure.name);
                let ends = tail.and_then(|tail| Some([tail.low_ns?, tail.high_ns?].map(|ns| quantity(ns / 1e9, "s"))));
                ends.map_or(String::from("-"), |[low, high]| format!("{low} to {high}"))
            };
            table.row([count(point.iops)].into_iter().chain(columns.iter().map(ends)));
            table
        })
    }

    /// Returns a sentence on the loads that the drive does not serve; `None` if it serves all of them.
    fn overload_sentence(&self) -> Option<String> {
        let first = self.points.iter().find(|point| !point.keeps_up)?;
        Some(format!(
            "From {} requests a second on, the drive does not keep up: latencies there grow with the length of the run.",
            count(first.offered_iops)
        ))
    }

    /// Returns a sentence on the tail with the widest interval, relative to its value.
    fn widest_tail_sentence(&self) -> Option<String> {
        let widths = self.points.iter().filter(|point| point.keeps_up).flat_map(|point| {
            point.tails.0.iter().filter_map(move |(name, tail)| {
                let half_width = (tail.high_ns? - tail.low_ns?) / 2.0;
                Some((half_width / tail.value_ns?, point, find(name)?.heading))
            })
        });
        let (share, point, heading): (f64, &LoadPoint, &str) = widths.max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(format!(
            "The widest 95 % interval is that of {heading} at {} requests a second: to {:.0} % of the value.",
            count(point.iops),
            100.0 * share
        ))
    }

    /// Returns a sentence on the number of requests that a tail needs which no load has; `None` if all are known.
    fn unsupported_tail_sentence(&self) -> Option<String> {
        let name = |kind: &&str| format!("{kind}_p99_99_ns");
        let point = self.points.first()?;
        let tails = KINDS.iter().filter_map(|kind| Some((find(&name(kind))?, point.tail(&name(kind))?)));
        let (figure, tail) = tails.into_iter().find(|(_, tail)| tail.value_ns.is_none())?;
        Some(format!("Without a value: {} {} (--ios).", figure.heading, tail.why_unknown.as_deref()?))
    }

    /// Returns a plot of the percentiles of reads or of writes against the throughput reached; `None` without such
    /// requests.
    fn percentile_plot_by_throughput(&self, kind: &str) -> Option<String> {
        let columns = self.columns().into_iter().filter(|figure| figure.name.starts_with(kind));
        let line = |figure: &'static Figure| {
            PlotLine::through(figure.heading, self.points.iter().map(|point| (point.iops, point.ns(figure.name))))
        };
        let drawn: Vec<PlotLine> = columns.map(line).collect();
        let x = PlotAxis { name: "requests a second", scale: AxisScale::Linear, shown: &count };
        let seconds = |ns: f64| quantity(ns / 1e9, "s");
        let y = PlotAxis { name: "latency", scale: AxisScale::Logarithmic, shown: &seconds };
        (!drawn.is_empty()).then(|| lines(&x, &y, &drawn, &format!("{kind}s")))
    }
}
