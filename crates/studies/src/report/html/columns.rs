//! Plot of stacked columns side by side, such as the time of a request by stage for each block size.

use phaselink_core::number::{real_length, whole, wide_index};
use std::fmt::Write;

use super::axis::{AxisRuler, AxisScale, BOTTOM, HEIGHT, LEFT, PlotAxis, RIGHT, TOP, WIDTH, vertical_axis_svg};
use super::escape;

/// Width of a column as a share of the room that it has.
const THICK: f64 = 0.72;
/// Width of a character of a label, in the drawing's units.
const CHARACTER: f64 = 6.6;

/// Column of a plot: its label, and its stacked parts from the bottom up.
#[derive(Clone, Debug)]
pub struct Column {
    /// Label below the column.
    pub name: String,
    /// Heights of the column's parts in the unit of the axis, from the bottom up; one for each entry of the legend.
    pub parts: Vec<f64>,
}

/// Entry of a legend: the name of a part of all columns, and its colour.
#[derive(Clone, Debug)]
pub struct LegendKey {
    /// Name of the part, as the legend shows it.
    pub name: String,
    /// Colour of the part, as a CSS value.
    pub colour: String,
}

/// Draws stacked columns as SVG, with a legend of the parts that occur. `x` names what the columns differ in, `y` is
/// the axis of the heights. The axis reaches at least `most`, so that several plots can have one scale.
pub fn columns(x: &str, y: &PlotAxis, keys: &[LegendKey], columns: &[Column], most: f64, caption: &str) -> String {
    let sums = columns.iter().map(|column| column.parts.iter().sum::<f64>());
    let up = AxisRuler::around(AxisScale::Linear, sums.chain([most]), HEIGHT - TOP - BOTTOM);
    let foot = HEIGHT - BOTTOM;
    let mut drawing = vertical_axis_svg(y, &up, (LEFT, WIDTH - RIGHT, foot));
    let room = (WIDTH - LEFT - RIGHT) / real_length(columns.len().max(1));
    for (place, column) in columns.iter().enumerate() {
        let left = LEFT + room * (real_length(place) + (1.0 - THICK) / 2.0);
        stack(&mut drawing, y, keys, column, &up, (left, room * THICK, foot));
    }
    drawing.push_str(&labels(x, columns, room, foot));
    let is_seen = |place: usize| columns.iter().any(|column| column.parts[place] > 0.0);
    let seen = keys.iter().enumerate().filter(|(place, _)| is_seen(*place));
    let seen = seen.map(|(_, key)| (key.name.as_str(), key.colour.clone()));
    let label = escape(&format!("{caption}{}{} by {x}", if caption.is_empty() { "" } else { ": " }, y.name));
    let rows = columns.iter().flat_map(|column| {
        keys.iter().zip(&column.parts).map(|(key, part)| vec![column.name.clone(), key.name.clone(), part.to_string()])
    });
    drawing.push_str(&super::data(&["column", "part", "value"], rows));
    format!(
        "<figure>\n{}{}<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n{drawing}</svg>\n</figure>\n",
        super::caption(caption),
        super::legend(seen),
    )
}

fn stack(
    drawing: &mut String,
    y: &PlotAxis,
    keys: &[LegendKey],
    column: &Column,
    up: &AxisRuler,
    place: (f64, f64, f64),
) {
    let (left, width, foot) = place;
    let mut sum = 0.0;
    for (key, part) in keys.iter().zip(&column.parts) {
        let (below, above) = (up.place(sum), up.place(sum + part));
        sum += part;
        if *part <= 0.0 {
            continue;
        }
        let told = escape(&format!("{}, {}: {}", column.name, key.name, (y.shown)(*part)));
        let _ = writeln!(
            drawing,
            "<rect x=\"{left:.1}\" y=\"{:.2}\" width=\"{width:.1}\" height=\"{:.2}\" fill=\"{}\"><title>{told}</title></rect>",
            foot - above,
            above - below,
            key.colour
        );
    }
    let total = escape(&(y.shown)(sum));
    if real_length(total.chars().count()) * CHARACTER <= width / THICK {
        let (x, y) = (left + width / 2.0, foot - up.place(sum) - 5.0);
        let _ = writeln!(drawing, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{total}</text>");
    }
}

/// Returns the labels below the columns as SVG, as many as there is room for, and the title `x` of the axis. Names that
/// fit only in two rows alternate and take the title's room.
fn labels(x: &str, columns: &[Column], room: f64, foot: f64) -> String {
    let widest = real_length(columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(1));
    let every = wide_index(whole(libm::ceil((widest * CHARACTER + 6.0) / room).max(1.0)));
    let is_number = |column: &Column| column.name.starts_with(|first: char| first.is_ascii_digit());
    // Long names may alternate between two rows. Numbers need no second row, because every second number is enough.
    let rows = if every == 2 && !columns.iter().all(is_number) { 2 } else { 1 };
    let mut text = String::new();
    for (place, column) in columns.iter().enumerate().step_by(every / rows) {
        let (at, y) = (LEFT + room * (real_length(place) + 0.5), foot + 19.0 + 18.0 * real_length(place % rows));
        let name = escape(&column.name);
        let _ = writeln!(text, "<text x=\"{at:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{name}</text>");
    }
    if rows == 2 {
        return text;
    }
    let (at, y) = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, foot + 37.0);
    let _ = writeln!(text, "<text x=\"{at:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", escape(x));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<LegendKey> {
        names.iter().map(|name| LegendKey { name: String::from(*name), colour: String::from("red") }).collect()
    }

    fn drawn(of: &[Column]) -> String {
        let y = PlotAxis { name: "ns", scale: AxisScale::Linear, shown: &|value| format!("{value:.0}") };
        columns("size", &y, &keys(&["media", "transfer", "never"]), of, 0.0, "")
    }

    #[test]
    fn column_parts_stack_and_empty_parts_have_no_legend_key() {
        let drawn = drawn(&[Column { name: "4 KiB".into(), parts: vec![25.0, 75.0, 0.0] }]);
        assert!(drawn.contains("y=\"175.50\" width=\"253.4\" height=\"50.50\""), "{drawn}");
        assert!(drawn.contains("y=\"24.00\" width=\"253.4\" height=\"151.50\""), "{drawn}");
        assert!(drawn.contains("</i>transfer") && !drawn.contains("</i>never"));
    }

    #[test]
    fn column_labels_in_two_rows_are_all_drawn() {
        let names = ["4 x optane-p5800x", "4 x tlc-gen5-long", "no drive", "no cache"];
        let of: Vec<Column> = names.map(|name| Column { name: name.into(), parts: vec![1.0, 2.0, 0.0] }).into();
        let drawn = drawn(&of);
        assert!(names.iter().all(|name| drawn.contains(&format!(">{name}</text>"))), "{drawn}");
    }

    #[test]
    fn plot_without_columns_contains_no_nan() {
        assert!(!drawn(&[]).contains("NaN"));
        assert!(!drawn(&[Column { name: "a".into(), parts: vec![0.0; 3] }]).contains("NaN"));
    }
}
