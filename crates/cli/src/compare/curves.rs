//! Plots of a comparison: drives over block size, queue depth and threads, and the tails of their latencies.

use phaselink_core::number::{real, whole};
use phaselink_studies::compare::{Cell, ComparedGroup, LineLabel, means_ns, named};
use phaselink_studies::report::html::axis::{AxisScale, PlotAxis};
use phaselink_studies::report::html::columns::{Column, columns};
use phaselink_studies::report::html::comparison;
use phaselink_studies::report::html::lines::{PlotLine, lines};
use phaselink_studies::report::html::page::{heading, side_by_side};
use phaselink_studies::report::html::{LatencySeries, percentile_plot_for_row};
use phaselink_studies::results::units;

use super::Comparison;
use crate::describe;

/// Minimum number of values of block size, queue depth or threads for which a comparison has a curve.
const VALUES_MIN: usize = 3;
/// Maximum number of drives in one plot of percentiles, which has as many colours.
const DRIVES_MAX: usize = 8;

/// Size of jobs over which curves are drawn: its name, its value in a group's label, and the format of a value.
struct Size {
    name: &'static str,
    of: fn(&LineLabel) -> Option<u64>,
    shown: fn(f64) -> String,
}

const SIZES: [Size; 3] = [
    Size {
        name: "block size",
        of: |label| label.bytes.map(u64::from),
        shown: |bytes| describe::size(whole(bytes)).replace("iB", "").replace(" B", ""),
    },
    Size { name: "depth of a thread", of: |label| label.iodepth.map(u64::from), shown: |depth| format!("{depth:.0}") },
    Size { name: "threads", of: |label| Some(label.threads.into()), shown: |threads| format!("{threads:.0}") },
];

/// Groups that differ in one size only, each with its value of the size, in ascending order.
struct Curve<'a> {
    title: String,
    groups: Vec<(u64, &'a ComparedGroup)>,
}

/// Returns title and content of each plot section: figures over each job size, and percentiles. A size that takes too
/// few values for a curve gets no section.
pub(super) fn sections(compared: &Comparison, groups: &[ComparedGroup]) -> Vec<(String, String)> {
    let over = SIZES.iter().enumerate().flat_map(|(place, size)| {
        let curves = curves(groups, place);
        let drawn: String = curves.iter().map(|curve| curve_plots(compared, size, curve)).collect();
        (!drawn.is_empty()).then(|| (format!("Over {}", size.name), drawn))
    });
    over.chain([(String::from("Percentiles"), percentile_plots(compared, groups))]).collect()
}

/// Returns the curves over the size with index `size`: sets of groups whose other sizes are equal.
fn curves(groups: &[ComparedGroup], size: usize) -> Vec<Curve<'_>> {
    let others = |group: &ComparedGroup| {
        let others = SIZES.iter().enumerate().filter(|(place, _)| *place != size);
        others.map(|(_, other)| (other.of)(&group.label)).collect::<Vec<_>>()
    };
    let mut found: Vec<(Vec<Option<u64>>, Curve)> = Vec::new();
    for group in groups {
        let Some(value) = (SIZES[size].of)(&group.label) else { continue };
        let key = others(group);
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, curve)) => curve.groups.push((value, group)),
            None => found.push((key, Curve { title: curve_title(size, &group.label), groups: vec![(value, group)] })),
        }
    }
    let mut curves: Vec<Curve> = found.into_iter().map(|(_, curve)| curve).collect();
    curves.iter_mut().for_each(|curve| curve.groups.sort_by_key(|(value, _)| *value));
    curves.retain(|curve| curve.groups.len() >= VALUES_MIN);
    curves
}

/// Returns the title of a curve: the sizes that all its groups share, such as `8 threads, depth 4`.
fn curve_title(size: usize, label: &LineLabel) -> String {
    let bytes = label.bytes.map(|bytes| describe::size(bytes.into()));
    let depth = label.iodepth.map(|depth| format!("depth {depth}"));
    let threads = Some(describe::counted(label.threads.into(), "thread"));
    let parts = [bytes, depth, threads].into_iter().enumerate().filter(|(place, _)| *place != size);
    parts.filter_map(|(_, part)| part).collect::<Vec<_>>().join(", ")
}

/// Returns the plots of one curve: throughput and latencies of all drives, and each drive's mean latency by cause.
fn curve_plots(compared: &Comparison, size: &Size, curve: &Curve) -> String {
    let x = PlotAxis { name: size.name, scale: AxisScale::Logarithmic, shown: &size.shown };
    let plot = |name: &str, scale, shown: &dyn Fn(f64) -> String, figure: fn(&Cell) -> f64| {
        lines(&x, &PlotAxis { name, scale, shown }, &figure_lines_by_drive(compared, curve, figure), "")
    };
    let seconds = |ns: f64| units::quantity(ns / 1e9, "s");
    let rate = |bytes: f64| units::quantity(bytes, "B/s");
    let plots = [
        plot("bandwidth", AxisScale::Linear, &rate, |cell| cell.outcome.bytes_per_s()),
        plot("requests a second", AxisScale::Linear, &units::count, |cell| cell.outcome.iops()),
        plot("mean latency", AxisScale::Logarithmic, &seconds, |cell| cell.all.total.mean_ns()),
        plot("99 % latency", AxisScale::Logarithmic, &seconds, |cell| cell.all.total.percentile(99.0).as_ns()),
    ];
    let cells = curve.groups.iter().flat_map(|(_, group)| group.cells.iter().flatten());
    let longest_ns = cells.map(|cell| cell.all.total.mean_ns()).fold(0.0, f64::max);
    let spent = (0..compared.drives.len()).map(|drive| stacked(compared, size, curve, drive, longest_ns));
    let spent: Vec<String> = spent.collect();
    heading(&curve.title) + &side_by_side(&plots) + &heading("Where the time of a request goes") + &side_by_side(&spent)
}

/// Returns a plot line of a figure for each drive, over the groups of a curve.
fn figure_lines_by_drive(compared: &Comparison, curve: &Curve, figure: fn(&Cell) -> f64) -> Vec<PlotLine> {
    let line = |(place, name): (usize, &String)| {
        let point = |(value, group): &(u64, &ComparedGroup)| (real(*value), group.cells[place].as_ref().map(figure));
        PlotLine::through(name.as_str(), curve.groups.iter().map(point))
    };
    compared.drives.iter().map(|drive| &drive.name).enumerate().map(line).collect()
}

/// Returns a plot of one drive's mean latency, as columns stacked by cause. `longest_ns` scales the axis equally for
/// all drives.
fn stacked(compared: &Comparison, size: &Size, curve: &Curve, drive: usize, longest_ns: f64) -> String {
    let column = |(value, group): &(u64, &ComparedGroup)| {
        let figures = &group.cells[drive].as_ref()?.all;
        let parts = means_ns(figures).into_iter().map(|(_, mean_ns)| mean_ns).collect();
        Some(Column { name: (size.shown)(real(*value)), parts })
    };
    let seconds = |ns: f64| units::quantity(ns / 1e9, "s");
    let y = PlotAxis { name: "mean latency", scale: AxisScale::Linear, shown: &seconds };
    let name = compared.drives[drive].name.as_str();
    let stacked: Vec<Column> = curve.groups.iter().filter_map(column).collect();
    columns(size.name, &y, &comparison::causes(), &stacked, longest_ns, name)
}

/// Returns a plot for each group with the latency percentiles of all drives.
fn percentile_plots(compared: &Comparison, groups: &[ComparedGroup]) -> String {
    let named = named(groups);
    let of_group = |group: &ComparedGroup| {
        let cells = compared.drives.iter().zip(&group.cells).take(DRIVES_MAX);
        let series = cells.filter_map(|(drive, cell)| {
            Some(LatencySeries { name: drive.name.clone(), latency: &cell.as_ref()?.all.total })
        });
        let series: Vec<LatencySeries> = series.collect();
        let title = named.place(&group.label).replace(describe::UNBROKEN, " ");
        (!series.is_empty()).then(|| percentile_plot_for_row(&series, &title))
    };
    let plots: Vec<String> = groups.iter().filter_map(of_group).collect();
    side_by_side(&plots)
}
