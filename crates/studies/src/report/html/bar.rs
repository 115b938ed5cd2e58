//! Stacked horizontal bar as SVG, with a numbered legend.

use phaselink_core::number::real_length;
use std::fmt::Write;

use super::super::table::characters;
use super::super::units;

/// Width of the drawing in its own units, each about a pixel.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 40.0;
/// Gap between the segments of a bar, in the drawing's units.
const GAP: f64 = 2.0;
/// Width that a character of a label needs, in the drawing's units.
const CHARACTER: f64 = 6.8;

/// One segment of a stacked bar; its texts are escaped already.
pub(super) struct BarSegment {
    pub name: String,
    /// Share of the bar's whole width, from 0 to 1.
    pub share: f64,
    /// Text of the figure that the legend shows beside the share.
    pub figure: String,
    /// Value of the figure in the unit that the head of the CSV file names.
    pub value: f64,
    /// CSS colour of the segment, light enough for dark text.
    pub colour: String,
}

/// Draws a stacked bar as SVG, with a label in each segment that has room for its name or number, and a numbered
/// legend. `unit` is the unit of the values in the CSV file.
///
/// If the shares sum to less than 1, the rest of the bar is empty.
pub(super) fn stacked_bar_svg(label: &str, unit: &str, segments: &[BarSegment]) -> String {
    let mut drawing = format!("<rect class=\"track\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"3\"/>\n");
    let mut left = 0.0;
    for (place, segment) in segments.iter().enumerate() {
        let width = (segment.share * WIDTH).min(WIDTH - left).max(0.0);
        if width > 0.0 {
            drawing.push_str(&bar_segment_rectangle(place, segment, left, width));
        }
        left += width;
    }
    let rows = segments.iter().map(|it| vec![it.name.clone(), it.share.to_string(), it.value.to_string()]);
    drawing.push_str(&super::data(&["part", "share", unit], rows));
    format!(
        "<figure>\n<svg class=\"stack\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n{drawing}</svg>\n{}</figure>\n",
        legend(segments)
    )
}

fn bar_segment_rectangle(place: usize, segment: &BarSegment, left: f64, width: f64) -> String {
    let BarSegment { name, share, figure, colour, .. } = segment;
    let mut text = format!(
        "<g><title>{name}: {figure}, {}</title><rect x=\"{left:.2}\" width=\"{:.2}\" height=\"{HEIGHT}\" \
         rx=\"2\" fill=\"{colour}\"/>",
        units::percent(*share),
        (width - GAP).max(0.5),
    );
    let number = (place + 1).to_string();
    let label = [name, &number].into_iter().find(|label| real_length(characters(label)) * CHARACTER + 8.0 <= width);
    if let Some(label) = label {
        let (x, y) = (left + (width - GAP) / 2.0, HEIGHT / 2.0 + 4.0);
        let _ = write!(text, "<text class=\"inside\" x=\"{x:.2}\" y=\"{y}\">{label}</text>");
    }
    text + "</g>\n"
}

fn legend(segments: &[BarSegment]) -> String {
    let rows: String = segments
        .iter()
        .enumerate()
        .map(|(place, segment)| {
            format!(
                "<tr><td class=\"number\">{}</td><td><span class=\"key\" style=\"background:{}\"></span>{}</td>\
                 <td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
                place + 1,
                segment.colour,
                segment.name,
                segment.figure,
                units::percent(segment.share),
            )
        })
        .collect();
    format!("<div class=\"wide\"><table>\n<tbody>\n{rows}</tbody>\n</table></div>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(name: &str, share: f64) -> BarSegment {
        BarSegment { name: name.to_string(), share, figure: "1 ns".to_string(), value: 1.0, colour: "red".to_string() }
    }

    #[test]
    fn bar_labels_shorten_with_segment_width() {
        let drawing = stacked_bar_svg(
            "",
            "ns",
            &[segment("a long stage name", 0.9), segment("another stage", 0.05), segment("x", 0.001)],
        );
        assert!(drawing.contains(">a long stage name</text>"));
        assert!(drawing.contains(">2</text>"));
        assert!(!drawing.contains(">3</text>") && !drawing.contains(">x</text>"));
    }

    #[test]
    fn shares_above_the_whole_stay_within_the_drawing() {
        let drawing = stacked_bar_svg("", "ns", &[segment("a", 0.8), segment("b", 0.8)]);
        assert!(drawing.contains("x=\"720.00\" width=\"178.00\""), "{drawing}");
    }
}
