//! The rows of a sweep as a page: each column of the plan over the axis that has most values, a curve for each combination
//! of the others.

use std::collections::BTreeMap;

use super::Plan;
use super::axis::{self, Swept};
use super::findings::findings;
use super::text::{RanPoint, heading, rows_table};
use crate::config::document::Value;
use crate::report::html::axis::{PlotAxis, Scale};
use crate::report::html::lines::{PlotLine, Point, lines_reaching};
use crate::report::html::page::{Page, list, side_by_side};
use crate::results::Figure;
use crate::results::units;
use crate::workload;

/// Curves in one plot: as many as there are colours.
const CURVES_MAX: usize = 8;
/// Plots of one column; more are nothing that anyone looks at.
const PLOTS_MAX: usize = 12;
/// Rows of the table.
const ROWS_MAX: usize = 2000;
/// Largest over smallest value from which an axis is logarithmic.
const LOGARITHMIC_RATIO: f64 = 8.0;

/// The page.
pub fn page(plan: &Plan, rows: &[RanPoint]) -> String {
    let told: Vec<String> = heading(plan, rows.len()).lines().map(String::from).collect();
    let curves = Curves::of(plan);
    let columns = plan.columns().iter().enumerate();
    let drawn: Vec<String> = columns.flat_map(|(place, column)| curves.drawn(rows, place, column)).collect();
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

/// Curves that the points of a plan form.
struct Curves<'a> {
    plan: &'a Plan,
    /// The key over which they run; none if nothing that varies is a number.
    over: Option<&'a Swept>,
}

/// The plot a curve is in, and the curve: what does not vary along it.
type Name = (String, String);

impl<'a> Curves<'a> {
    fn of(plan: &'a Plan) -> Curves<'a> {
        let numbers = plan
            .swept()
            .filter(|swept| swept.varies() && (0..swept.values.len()).all(|it| number(swept, it).is_some()));
        // Of keys that vary together, and of axes of one length, the first.
        let over = numbers.fold(None, |best: Option<&Swept>, swept| match best {
            Some(best) if best.values.len() >= swept.values.len() => Some(best),
            _ => Some(swept),
        });
        Curves { plan, over }
    }

    /// The plots of one column.
    fn drawn(&self, rows: &[RanPoint], place: usize, column: &Figure) -> Vec<String> {
        let Some(over) = self.over else { return Vec::new() };
        let mut plots: BTreeMap<usize, (String, Vec<Curve>)> = BTreeMap::new();
        let mut order: Vec<Name> = Vec::new();
        for row in rows {
            let (name, x) = self.place_of(row, over);
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

    /// In which plot and curve a row is, and where along it.
    fn place_of(&self, row: &RanPoint, over: &Swept) -> (Name, f64) {
        let (mut others, mut x) = (Vec::new(), 0.0);
        self.plan.visit(row.point, |swept, place| {
            if std::ptr::eq(swept, over) {
                x = number(swept, place).unwrap_or(0.0);
            } else if swept.varies() && !self.goes_with(swept, over) {
                others.push(format!("{} = {}", swept.key, swept.text(place)));
            }
        });
        // What varies slowest tells plots apart if there would be too many curves in one.
        let apart = if self.curves() > CURVES_MAX && others.len() > 1 { others.remove(0) } else { String::new() };
        ((apart, others.join(", ")), x)
    }

    /// Curves in all.
    fn curves(&self) -> usize {
        let lengths = self.plan.text.axes.iter().filter(|axis| !self.over.is_some_and(|over| has(axis, over)));
        lengths.map(|axis| axis.len()).product()
    }

    /// True if two keys belong to one axis.
    fn goes_with(&self, one: &Swept, two: &Swept) -> bool {
        self.plan.text.axes.iter().any(|axis| has(axis, one) && has(axis, two))
    }
}

fn has(axis: &axis::Axis, swept: &Swept) -> bool {
    axis.swept.iter().any(|own| std::ptr::eq(own, swept))
}

/// Add a point to its line. Points of several seeds are one, their mean, with the least and the largest as its ends.
fn add(lines: &mut Vec<Curve>, name: &str, x: f64, y: Option<f64>, ends: Option<(f64, f64)>) {
    let Some(y) = y else { return };
    if !lines.iter().any(|line| line.name == name) {
        lines.push(Curve { name: String::from(name), points: Vec::new() });
    }
    let Some(line) = lines.iter_mut().find(|line| line.name == name) else { return };
    match line.points.iter_mut().find(|point| point.x == x) {
        None => line.points.push(Seeds { x, values: vec![y], ends }),
        Some(point) => point.values.push(y),
    }
}

/// A curve under construction.
struct Curve {
    name: String,
    points: Vec<Seeds>,
}

/// A point: its value with each seed, and its ends if they are known.
struct Seeds {
    x: f64,
    values: Vec<f64>,
    ends: Option<(f64, f64)>,
}

impl Curve {
    /// From left to right.
    fn line(&self) -> PlotLine {
        let mut points: Vec<Point> = self.points.iter().map(Seeds::point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        PlotLine { name: self.name.clone(), points, is_loose: false }
    }
}

impl Seeds {
    fn point(&self) -> Point {
        let least = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let y = self.values.iter().sum::<f64>() / self.values.len() as f64;
        Point { x: self.x, y, ends: if self.values.len() > 1 { Some((least, largest)) } else { self.ends } }
    }
}

/// One plot of a column; its vertical axis reaches the values of all plots of the column.
fn plot(over: &Swept, column: &Figure, title: &str, all: &[PlotLine], reached: &[f64]) -> String {
    let xs = || all.iter().flat_map(|line| &line.points).map(|point| point.x);
    let (low, high) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    let scale = if low > 0.0 && high >= LOGARITHMIC_RATIO * low { Scale::Logarithmic } else { Scale::Linear };
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
    lines_reaching(&x, &PlotAxis { name: column.heading, scale: Scale::Linear, shown: &shown }, kept, &caption, reached)
}

/// The value at a place as a number; sizes as fio writes them, too.
fn number(swept: &Swept, place: usize) -> Option<f64> {
    match &swept.values[place].value {
        Value::Integer(integer) => Some(*integer as f64),
        Value::Float(float) => Some(*float),
        Value::String(text) => workload::bytes(text).map(|bytes| bytes as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_one_point_are_a_range() {
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
    fn the_longest_axis_of_numbers_is_that_of_the_curves() {
        let text = "drive = 'nvme'\n[[axis]]\nkey = 'job.iodepth'\nvalues = [1, 2]\n[[axis]]\nkey = 'job.bs'\n\
                    values = ['512', '4k', '64k']\n[[axis]]\nkey = 'host.wait'\nvalues = ['spin', 'sleep', 'hybrid', 'spin']\n";
        let plan = Plan::parse("p.toml", text).unwrap();
        let over = Curves::of(&plan).over.unwrap();
        assert_eq!((over.key.as_str(), number(over, 1)), ("job.bs", Some(4096.0)));
        assert_eq!(Curves::of(&plan).curves(), 8);
    }
}
