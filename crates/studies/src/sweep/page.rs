//! HTML page of a sweep's results. Each column of the plan is plotted over the numeric axis with the most values, with
//! a curve for each combination of the other axes.

use std::collections::BTreeMap;

use super::Plan;
use super::axis::{self, SweptKey};
use super::findings::findings;
use super::text::{FinishedPoint, heading, rows_table};
use crate::report::html::axis::{AxisScale, PlotAxis};
use crate::report::html::lines::{PlotLine, Point, lines_with_shared_range};
use crate::report::html::page::{Page, list, side_by_side};
use crate::results::Figure;
use crate::results::units;
use phaselink_core::config::document::Value;
use phaselink_core::number::{real, real_length};
use phaselink_core::workload;

/// Largest number of curves in one plot, equal to the number of colours.
const CURVES_MAX: usize = 8;
/// Largest number of plots for one column (figure) of a sweep's results.
const PLOTS_MAX: usize = 12;
/// Largest number of rows in the table of a sweep's HTML page.
const ROWS_MAX: usize = 2000;
/// Ratio of largest to smallest value from which a plot's horizontal axis is logarithmic.
const LOGARITHMIC_RATIO: f64 = 8.0;

/// Returns the HTML page of a sweep's results, with plots and a table.
pub fn page(plan: &Plan, rows: &[FinishedPoint]) -> String {
    let told: Vec<String> = heading(plan, rows.len()).lines().map(String::from).collect();
    let curves = CurveAssignment::of(plan);
    let columns = plan.columns().iter().enumerate();
    let drawn: Vec<String> = columns.flat_map(|(place, column)| curves.plots_of_column(rows, place, column)).collect();
    let drawn = if drawn.is_empty() { String::new() } else { side_by_side(&drawn) };
    let shown = &rows[..rows.len().min(ROWS_MAX)];
    let table = rows_table(plan, shown);
    let title = match rows.len() - shown.len() {
        0 => String::from("All rows"),
        left => format!("The first {ROWS_MAX} rows; result.json has {left} more"),
    };
    let name = plan.text.file.rsplit('/').next().unwrap_or(&plan.text.file);
    let found = findings(plan, rows);
    Page::new(&format!("Sweep {name}"), &told)
        .conclusion(&found.conclusion)
        .section("Curves", &drawn)
        .section("What was found beside it", &list(found.others.iter().map(String::as_str)))
        .table(&title, &table)
        .finish()
}

/// Assignment of a sweep's points to curves, which run along one of its keys.
struct CurveAssignment<'a> {
    plan: &'a Plan,
    /// Key on the horizontal axis. `None` if no key that varies has only numeric values.
    over: Option<&'a SweptKey>,
}

/// Title of a plot, and name of a curve in it: the keys and values that are constant along the curve.
type Name = (String, String);

impl<'a> CurveAssignment<'a> {
    fn of(plan: &'a Plan) -> CurveAssignment<'a> {
        let numbers = plan.swept_keys().filter(|swept| {
            swept.has_several_values() && (0..swept.values.len()).all(|it| number(swept, it).is_some())
        });
        // Of several axes with equal length, choose the first.
        let over = numbers.fold(None, |best: Option<&SweptKey>, swept| match best {
            Some(best) if best.values.len() >= swept.values.len() => Some(best),
            _ => Some(swept),
        });
        CurveAssignment { plan, over }
    }

    /// Returns the plots of one column of the plan as HTML. `place` is the number of the column.
    fn plots_of_column(&self, rows: &[FinishedPoint], place: usize, column: &Figure) -> Vec<String> {
        let Some(over) = self.over else { return Vec::new() };
        let mut plots: BTreeMap<usize, (String, Vec<Curve>)> = BTreeMap::new();
        let mut order: Vec<Name> = Vec::new();
        for row in rows {
            let (name, x) = self.curve_position(row, over);
            let number = order.iter().position(|known| *known == name).unwrap_or_else(|| {
                order.push(name.clone());
                order.len() - 1
            });
            let plot = order.iter().position(|(title, _)| *title == order[number].0).unwrap_or(number);
            let (_, lines) = plots.entry(plot).or_insert_with(|| (name.0.clone(), Vec::new()));
            add(lines, &name.1, x, row.figures.get(column), row.ends(place));
        }
        let drawn: Vec<(&String, Vec<PlotLine>)> = plots
            .values()
            .take(PLOTS_MAX)
            .map(|(title, lines)| (title, lines.iter().map(Curve::line).collect()))
            .collect();
        let points = || drawn.iter().flat_map(|(_, lines)| lines).flat_map(|line| &line.points);
        let ends = |point: &Point| point.ends.map_or([point.y; 2], |(low, high)| [low, high]);
        let reached: Vec<f64> = points().flat_map(ends).collect();
        drawn.iter().map(|(title, lines)| plot(over, column, title, lines, &reached)).collect()
    }

    /// Returns the plot and the curve that a sweep's point belongs to, and its horizontal position on that curve.
    fn curve_position(&self, row: &FinishedPoint, over: &SweptKey) -> (Name, f64) {
        let (mut others, mut x) = (Vec::new(), 0.0);
        self.plan.visit(row.point, |swept, place| {
            if std::ptr::eq(swept, over) {
                x = number(swept, place).unwrap_or(0.0);
            } else if swept.has_several_values() && !self.vary_on_one_axis(swept, over) {
                others.push(format!("{} = {}", swept.key, swept.text(place)));
            }
        });
        // If one plot would have too many curves, draw a plot for each value of the slowest axis.
        let apart = if self.curves() > CURVES_MAX && others.len() > 1 { others.remove(0) } else { String::new() };
        ((apart, others.join(", ")), x)
    }

    /// Returns the number of curves in all plots of one figure of a sweep.
    fn curves(&self) -> usize {
        let lengths = self.plan.text.axes.iter().filter(|axis| !self.over.is_some_and(|over| has(axis, over)));
        lengths.map(|axis| axis.len()).product()
    }

    /// True if two keys vary together on one axis of the sweep.
    fn vary_on_one_axis(&self, one: &SweptKey, two: &SweptKey) -> bool {
        self.plan.text.axes.iter().any(|axis| has(axis, one) && has(axis, two))
    }
}

fn has(axis: &axis::SweepAxis, swept: &SweptKey) -> bool {
    axis.swept.iter().any(|own| std::ptr::eq(own, swept))
}

/// Adds a value to the curve `name` at position `x`. Values of several seeds become one point: their mean, with the
/// smallest and the largest as its range.
fn add(lines: &mut Vec<Curve>, name: &str, x: f64, y: Option<f64>, ends: Option<(f64, f64)>) {
    let Some(y) = y else { return };
    if !lines.iter().any(|line| line.name == name) {
        lines.push(Curve { name: String::from(name), points: Vec::new() });
    }
    let Some(line) = lines.iter_mut().find(|line| line.name == name) else { return };
    match line.points.iter_mut().find(|point| point.x == x) {
        None => line.points.push(SeedValues { x, values: vec![y], ends }),
        Some(point) => point.values.push(y),
    }
}

/// Curve of a plot while its points are being collected.
struct Curve {
    name: String,
    points: Vec<SeedValues>,
}

/// Point of a curve: one value per seed, and the ends of its interval if known.
struct SeedValues {
    x: f64,
    values: Vec<f64>,
    ends: Option<(f64, f64)>,
}

impl Curve {
    /// Returns the curve ready for plotting, its points sorted by horizontal position.
    fn line(&self) -> PlotLine {
        let mut points: Vec<Point> = self.points.iter().map(SeedValues::point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        PlotLine { name: self.name.clone(), points, is_loose: false }
    }
}

impl SeedValues {
    fn point(&self) -> Point {
        let least = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let y = self.values.iter().sum::<f64>() / real_length(self.values.len());
        Point { x: self.x, y, ends: if self.values.len() > 1 { Some((least, largest)) } else { self.ends } }
    }
}

/// Returns one plot of a column as HTML. Its vertical axis covers `reached`, the values of all plots of the column.
fn plot(over: &SweptKey, column: &Figure, title: &str, all: &[PlotLine], reached: &[f64]) -> String {
    let xs = || all.iter().flat_map(|line| &line.points).map(|point| point.x);
    let (low, high) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    let scale = if low > 0.0 && high >= LOGARITHMIC_RATIO * low { AxisScale::Logarithmic } else { AxisScale::Linear };
    let text = |value: f64| {
        let place = (0..over.values.len()).find(|place| number(over, *place) == Some(value));
        place.map_or_else(|| format!("{value}"), |place| over.text(place))
    };
    let shown = |value: f64| units::figure(column.unit, Some(value));
    let kept = &all[..all.len().min(CURVES_MAX)];
    let more = all.len() - kept.len();
    let apart = if title.is_empty() { "" } else { ", " };
    let caption = match more {
        0 => format!("{}{apart}{title}", column.heading),
        _ => format!("{}{apart}{title} ({more} more curves are in the table)", column.heading),
    };
    let x = PlotAxis { name: &over.key, scale, shown: &text };
    lines_with_shared_range(
        &x,
        &PlotAxis { name: column.heading, scale: AxisScale::Linear, shown: &shown },
        kept,
        &caption,
        reached,
    )
}

/// Returns value number `place` of a key as a number, also from sizes as fio writes them (`64k`). `None` if it is
/// neither.
fn number(swept: &SweptKey, place: usize) -> Option<f64> {
    match &swept.values[place].value {
        Value::Integer(integer) => Some(*integer as f64),
        Value::Float(float) => Some(*float),
        Value::String(text) => workload::bytes(text).map(real),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_several_seeds_give_a_range() {
        let mut lines = Vec::new();
        for (x, y) in [(1.0, 10.0), (1.0, 14.0), (2.0, 3.0)] {
            add(&mut lines, "a", x, Some(y), None);
        }
        add(&mut lines, "a", 3.0, None, None);
        let line = lines[0].line();
        let points: Vec<_> = line.points.iter().map(|point| (point.x, point.y, point.ends)).collect();
        assert_eq!(points, [(1.0, 12.0, Some((10.0, 14.0))), (2.0, 3.0, None)]);
    }

    #[test]
    fn longest_numeric_axis_becomes_the_horizontal_axis() {
        let text = "drive = 'nvme'\n[[axis]]\nkey = 'job.iodepth'\nvalues = [1, 2]\n[[axis]]\nkey = 'job.bs'\n\
                    values = ['512', '4k', '64k']\n[[axis]]\nkey = 'host.wait'\nvalues = ['spin', 'sleep', 'hybrid', 'spin']\n";
        let plan = Plan::parse("p.toml", text).unwrap();
        let over = CurveAssignment::of(&plan).over.unwrap();
        assert_eq!((over.key.as_str(), number(over, 1)), ("job.bs", Some(4096.0)));
        assert_eq!(CurveAssignment::of(&plan).curves(), 8);
    }
}
