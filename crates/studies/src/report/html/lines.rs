//! Plots of lines through points, with the intervals of the points where they are known.

use std::fmt::Write;

use super::axis::{AxisRuler, BOTTOM, HEIGHT, LEFT, PlotAxis, RIGHT, TOP, WIDTH, level, vertical_axis_svg};
use super::{colour, escape};

/// Largest number of points of a line at which each of them gets a dot.
const DOTS_MAX: usize = 24;

/// Line of a plot, or a set of marks.
#[derive(Clone, Debug)]
pub struct PlotLine {
    /// Name of the line in the legend.
    pub name: String,
    /// Points that the line connects, in this order.
    pub points: Vec<Point>,
    /// True if the points are marks that no line connects.
    pub is_loose: bool,
}

/// Point of a plot, with the ends of its interval, if that is known.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Value on the horizontal axis, in its unit.
    pub x: f64,
    /// Value on the vertical axis, in its unit.
    pub y: f64,
    /// Lower and upper end of the interval of `y`; none if it is unknown.
    pub ends: Option<(f64, f64)>,
}

impl PlotLine {
    /// Makes a line through points without intervals; points with an unknown value are left out.
    pub fn through(name: impl Into<String>, points: impl IntoIterator<Item = (f64, Option<f64>)>) -> PlotLine {
        let points = points.into_iter().filter_map(|(x, y)| Some(Point { x, y: y?, ends: None }));
        PlotLine { name: name.into(), points: points.collect(), is_loose: false }
    }

    /// Makes marks that no line connects, such as published values beside simulated ones.
    pub fn marks(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> PlotLine {
        PlotLine { is_loose: true, ..PlotLine::through(name, points.into_iter().map(|(x, y)| (x, Some(y)))) }
    }
}

/// Draws lines over the axes `x` and `y`, as HTML with a legend and a caption; a single line has no legend.
pub fn lines(x: &PlotAxis, y: &PlotAxis, lines: &[PlotLine], caption: &str) -> String {
    lines_with_shared_range(x, y, lines, caption, &[])
}

/// Draws lines over the axes `x` and `y`, as HTML with a legend and a caption. The vertical axis includes the values
/// `reached`, so that several plots can have one scale.
pub fn lines_with_shared_range(
    x: &PlotAxis,
    y: &PlotAxis,
    lines: &[PlotLine],
    caption: &str,
    reached: &[f64],
) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (room_x, room_y) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let foot = HEIGHT - BOTTOM;
    let over = match lines.iter().all(|line| line.points.len() <= DOTS_MAX) {
        true => AxisRuler::at(x.scale, points().map(|point| point.x), room_x),
        false => AxisRuler::around(x.scale, points().map(|point| point.x), room_x),
    };
    let ends = points().flat_map(|point| point.ends.map(|(low, high)| [low, high])).flatten();
    let up =
        AxisRuler::around(y.scale, points().map(|point| point.y).chain(ends).chain(reached.iter().copied()), room_y);
    let mut drawing = vertical_axis_svg(y, &up, (LEFT, WIDTH - RIGHT, foot)) + &level(x, &over, (LEFT, foot, room_x));
    let plot = Plot { x, y, over: &over, up: &up, foot };
    lines.iter().enumerate().for_each(|(place, line)| plot.draw(&mut drawing, line, &stroke(line, place)));
    let label = escape(&label(x, y, caption));
    drawing.push_str(&values(lines));
    format!(
        "<figure>\n{}{}<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n{drawing}</svg>\n</figure>\n",
        super::caption(caption),
        legend(lines),
    )
}

/// Returns the text that describes a plot: its caption, and the name of one axis over that of the other.
fn label(x: &PlotAxis, y: &PlotAxis, caption: &str) -> String {
    let axes = if y.name.is_empty() { format!("over {}", x.name) } else { format!("{} over {}", y.name, x.name) };
    match caption {
        "" => axes,
        _ if caption == y.name => axes,
        _ => format!("{caption}: {axes}"),
    }
}

/// Returns the points of all lines as comma-separated values, with the ends of their intervals.
fn values(lines: &[PlotLine]) -> String {
    let row = |name: &str, point: &Point| {
        let ends = point.ends.map_or([String::new(), String::new()], |(low, high)| [low.to_string(), high.to_string()]);
        [String::from(name), point.x.to_string(), point.y.to_string()].into_iter().chain(ends).collect()
    };
    let rows = lines.iter().flat_map(|line| line.points.iter().map(move |point| row(&line.name, point)));
    super::data(&["line", "x", "y", "low", "high"], rows)
}

fn legend(lines: &[PlotLine]) -> String {
    if lines.len() < 2 {
        return String::new();
    }
    super::legend(lines.iter().enumerate().map(|(place, line)| (line.name.as_str(), stroke(line, place))))
}

/// Returns the CSS colour of line number `place`; marks have that of the text.
fn stroke(line: &PlotLine, place: usize) -> String {
    if line.is_loose { String::from("var(--text)") } else { colour::of_series(place) }
}

/// Axes of a line plot, and the scales from values to positions in the drawing.
struct Plot<'a> {
    x: &'a PlotAxis<'a>,
    y: &'a PlotAxis<'a>,
    over: &'a AxisRuler,
    up: &'a AxisRuler,
    foot: f64,
}

impl Plot<'_> {
    fn draw(&self, drawing: &mut String, line: &PlotLine, stroke: &str) {
        if line.is_loose {
            return self.draw_mark_points(drawing, line);
        }
        self.draw_interval_band(drawing, line, stroke);
        let places: Vec<String> = line.points.iter().map(|point| self.svg_point(point.x, point.y)).collect();
        let name = escape(&line.name);
        let joined = places.join(" ");
        let _ = writeln!(drawing, "<polyline stroke=\"{stroke}\" points=\"{joined}\"><title>{name}</title></polyline>");
        for point in line.points.iter().filter(|_| line.points.len() <= DOTS_MAX) {
            let (x, y) = self.place(point.x, point.y);
            let told = format!("{}, {}: {}", line.name, (self.x.shown)(point.x), (self.y.shown)(point.y));
            let told = escape(&told);
            let _ = writeln!(
                drawing,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{stroke}\"><title>{told}</title></circle>"
            );
        }
    }

    /// Draws a diamond for each point of the marks.
    fn draw_mark_points(&self, drawing: &mut String, line: &PlotLine) {
        for point in &line.points {
            let (x, y) = self.place(point.x, point.y);
            let told = escape(&format!("{}, {}: {}", line.name, (self.x.shown)(point.x), (self.y.shown)(point.y)));
            let _ = writeln!(
                drawing,
                "<path class=\"published\" d=\"M{x:.1} {:.1}l6 6l-6 6l-6 -6Z\"><title>{told}</title></path>",
                y - 6.0
            );
        }
    }

    /// Draws the area between the ends of the intervals of a line's points.
    fn draw_interval_band(&self, drawing: &mut String, line: &PlotLine, fill: &str) {
        let ends = || line.points.iter().filter_map(|point| Some((point.x, point.ends?)));
        let upper = ends().map(|(x, (_, high))| self.svg_point(x, high));
        let lower: Vec<String> = ends().map(|(x, (low, _))| self.svg_point(x, low)).collect();
        let around: Vec<String> = upper.chain(lower.into_iter().rev()).collect();
        if !around.is_empty() {
            let _ = writeln!(drawing, "<polygon class=\"band\" fill=\"{fill}\" points=\"{}\"/>", around.join(" "));
        }
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (LEFT + self.over.place(x), self.foot - self.up.place(y))
    }

    fn svg_point(&self, x: f64, y: f64) -> String {
        let (x, y) = self.place(x, y);
        format!("{x:.1},{y:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::axis::AxisScale;

    fn axis(name: &'static str, scale: AxisScale) -> PlotAxis<'static> {
        PlotAxis { name, scale, shown: &|value| format!("{value}") }
    }

    #[test]
    fn line_spans_its_axes_and_draws_its_interval_as_area() {
        let points = [(1.0, 0.0, None), (4.0, 100.0, Some((50.0, 100.0)))];
        let points = points.map(|(x, y, ends)| Point { x, y, ends }).to_vec();
        let drawn = lines(
            &axis("lanes", AxisScale::Logarithmic),
            &axis("%", AxisScale::Linear),
            &[PlotLine { name: "<a>".into(), points, is_loose: false }],
            "caption",
        );
        assert!(drawn.contains("points=\"70.0,226.0 422.0,24.0\"><title>&lt;a&gt;"), "{drawn}");
        assert!(
            drawn.contains("<polygon class=\"band\" fill=\"var(--series-1)\" points=\"422.0,24.0 422.0,125.0\"/>"),
            "{drawn}"
        );
        assert!(!drawn.contains("class=\"keys\""), "one line needs no legend");
    }

    #[test]
    fn unknown_values_draw_no_point() {
        let line = PlotLine::through("a", [(1.0, None), (2.0, Some(3.0))]);
        assert_eq!((line.points.len(), line.points[0].x), (1, 2.0));
        let drawn = lines(
            &axis("x", AxisScale::Linear),
            &axis("y", AxisScale::Linear),
            &[line, PlotLine::through("b", [])],
            "",
        );
        assert!(drawn.contains("class=\"keys\"") && !drawn.contains("NaN"));
    }
}
