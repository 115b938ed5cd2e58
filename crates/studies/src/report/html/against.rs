//! Plot of simulated results against published ones: the error of each, the errors that count as reproduced, and the
//! interval that uncertain constants leave.

use phaselink_core::number::real_length;
use std::fmt::Write;

use super::escape;

const WIDTH: f64 = 860.0;
const ROW: f64 = 20.0;
const TOP: f64 = 30.0;
/// X coordinates in the drawing: the end of the names, which is the start of the error axis, and the end of that axis.
const LEFT: f64 = 240.0;
const RIGHT: f64 = 700.0;
/// Largest error that is drawn in its position, in per cent; a larger one is drawn at the edge.
const EDGE_PCT: f64 = 50.0;
const NAME_MAX: usize = 34;

/// One published result with its error; all errors are in per cent of the published value.
#[derive(Clone, Debug)]
pub struct PublishedResultError {
    /// Identifier of the published result.
    pub name: String,
    /// Error of the simulated value in per cent of the published value.
    pub error_pct: f64,
    /// Lowest and highest error, in per cent, that count as reproduced.
    pub accepted_pct: (f64, f64),
    /// Lowest and highest error, in per cent, of the prediction interval that uncertain constants leave; none if it was
    /// not computed.
    pub interval_pct: Option<(f64, f64)>,
    /// True if the error is within those that count as reproduced.
    pub is_reproduced: bool,
    /// Published and simulated value as text.
    pub figures: String,
}

/// Draws the results below each other: a mark at the error, hollow if not reproduced, grey for errors that count as
/// reproduced, a line for the prediction interval.
pub fn published_error_plot(results: &[PublishedResultError]) -> String {
    let height = TOP + real_length(results.len()) * ROW + 10.0;
    let mut drawing = String::new();
    for error in [-50.0, -25.0, 0.0, 25.0, 50.0] {
        let (x, label) =
            (place(error), if error == 0.0 { String::from("as published") } else { format!("{error:+} %") });
        let class = if error == 0.0 { "rail" } else { "grid" };
        let _ = writeln!(drawing, "<path class=\"{class}\" d=\"M{x:.1} {:.1}V{height}\"/>", TOP - 10.0);
        let _ = writeln!(drawing, "<text x=\"{x:.1}\" y=\"14\" text-anchor=\"middle\">{label}</text>");
    }
    results.iter().enumerate().for_each(|(number, result)| draw(&mut drawing, result, TOP + real_length(number) * ROW));
    let row = |result: &PublishedResultError| {
        let verdict = if result.is_reproduced { "reproduced" } else { "off" };
        vec![result.name.clone(), result.error_pct.to_string(), String::from(verdict), result.figures.clone()]
    };
    drawing.push_str(&super::data(&["id", "error_pct", "verdict", "figures"], results.iter().map(row)));
    format!(
        "<figure>\n<div class=\"wide\">\n<svg class=\"ladder\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Simulated results against published ones\">\n{drawing}</svg>\n</div>\n<figcaption>Error of the simulated \
         value. Grey: what the printed digits and words allow. Line: 90 % of draws of the constants in doubt, where asked for. \
         Hollow: off, or left open. At the edge: {EDGE_PCT} % and more.</figcaption>\n</figure>\n"
    )
}

fn place(error_pct: f64) -> f64 {
    let share = (error_pct.clamp(-EDGE_PCT, EDGE_PCT) + EDGE_PCT) / (2.0 * EDGE_PCT);
    LEFT + share * (RIGHT - LEFT)
}

fn draw(drawing: &mut String, result: &PublishedResultError, top: f64) {
    let (middle, base) = (top + ROW / 2.0, top + ROW / 2.0 + 4.0);
    let (from, to) = (place(result.accepted_pct.0), place(result.accepted_pct.1));
    let (width, told) = ((to - from).max(1.0), escape(&result.figures));
    let name = escape(&super::shortened(&result.name, NAME_MAX));
    let _ = writeln!(
        drawing,
        "<rect class=\"allowed\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"12\"/>",
        middle - 6.0
    );
    if let Some((low, high)) = result.interval_pct {
        let _ = writeln!(drawing, "<path class=\"interval\" d=\"M{:.1} {middle}H{:.1}\"/>", place(low), place(high));
    }
    let class = if result.is_reproduced { "mark" } else { "mark off" };
    let x = place(result.error_pct);
    let _ = writeln!(
        drawing,
        "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{middle}\" r=\"4\"><title>{name}: {told}</title></circle>"
    );
    let _ =
        writeln!(drawing, "<text class=\"main\" x=\"{}\" y=\"{base}\" text-anchor=\"end\">{name}</text>", LEFT - 12.0);
    let _ = writeln!(drawing, "<text x=\"{}\" y=\"{base}\">{told}</text>", RIGHT + 12.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(error_pct: f64, interval_pct: Option<(f64, f64)>) -> PublishedResultError {
        PublishedResultError {
            name: "<id>".into(),
            error_pct,
            accepted_pct: (-2.0, 2.0),
            interval_pct,
            is_reproduced: error_pct.abs() <= 2.0,
            figures: "1 and 2".into(),
        }
    }

    #[test]
    fn exact_results_are_centred_and_large_errors_clipped_to_the_edge() {
        let drawn = published_error_plot(&[result(0.0, Some((-10.0, 25.0))), result(1e9, None)]);
        assert!(drawn.contains("class=\"mark\" cx=\"470.0\""), "{drawn}");
        assert!(drawn.contains("class=\"mark off\" cx=\"700.0\""), "{drawn}");
        assert!(drawn.contains("class=\"interval\" d=\"M424.0 40H585.0\""), "{drawn}");
        assert!(drawn.contains("&lt;id&gt;"));
    }
}
