//! Scatter plot of several series over two logarithmic axes with one unit, beside the line on which both values are
//! equal.

use std::fmt::Write;

use super::axis::{AxisRuler, AxisScale, BOTTOM, HEIGHT, LEFT, PlotAxis, RIGHT, TOP, WIDTH, level, vertical_axis_svg};
use super::{colour, escape};

/// Point of a scatter plot.
#[derive(Clone, Debug)]
pub struct ScatterPoint {
    /// Name of the point, which is shown when the pointer rests on it.
    pub name: String,
    /// Value on the horizontal axis, in its unit.
    pub x: f64,
    /// Value on the vertical axis, in the same unit.
    pub y: f64,
}

/// Points of one colour in a scatter plot, with their entry in the legend.
#[derive(Clone, Debug)]
pub struct ScatterSeries {
    /// Name of the series in the legend.
    pub name: String,
    /// Points of the series.
    pub points: Vec<ScatterPoint>,
}

/// Draws a scatter plot as HTML, with a legend and a caption. `x` and `y` name the axes, `shown` formats a value.
/// Points with a value that is not above zero are left out.
pub fn scatter(x: &str, y: &str, shown: &dyn Fn(f64) -> String, series: &[ScatterSeries], caption: &str) -> String {
    let is_drawn = |point: &&ScatterPoint| point.x > 0.0 && point.y > 0.0 && (point.x * point.y).is_finite();
    let points = || series.iter().flat_map(|one| one.points.iter().filter(is_drawn));
    let values = || points().flat_map(|point| [point.x, point.y]);
    let (room_x, room_y, foot) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM, HEIGHT - BOTTOM);
    let over = AxisRuler::around(AxisScale::Logarithmic, values(), room_x);
    let up = AxisRuler::around(AxisScale::Logarithmic, values(), room_y);
    let axis = |name| PlotAxis { name, scale: AxisScale::Logarithmic, shown };
    let mut drawing =
        vertical_axis_svg(&axis(y), &up, (LEFT, WIDTH - RIGHT, foot)) + &level(&axis(x), &over, (LEFT, foot, room_x));
    let _ = writeln!(drawing, "<path class=\"rail\" d=\"M{LEFT} {foot}L{:.1} {TOP}\"/>", LEFT + room_x);
    for (place, one) in series.iter().enumerate() {
        for point in one.points.iter().filter(is_drawn) {
            let (left, top) = (LEFT + over.place(point.x), foot - up.place(point.y));
            let told = escape(&format!("{}: {} measured, {} predicted", point.name, shown(point.x), shown(point.y)));
            let fill = colour::of_series(place);
            let _ = writeln!(
                drawing,
                "<circle cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"2\" fill=\"{fill}\"><title>{told}</title></circle>"
            );
        }
    }
    let row =
        |name: &str, it: &ScatterPoint| [name, &it.name, &it.x.to_string(), &it.y.to_string()].map(String::from).into();
    let rows = series.iter().flat_map(|one| one.points.iter().map(move |point| row(&one.name, point)));
    drawing.push_str(&super::data(&["series", "name", x, y], rows));
    let keys =
        super::legend(series.iter().enumerate().map(|(place, one)| (one.name.as_str(), colour::of_series(place))));
    let (caption, label) = (super::caption(caption), escape(&format!("{y} over {x}")));
    format!(
        "<figure>\n{caption}{keys}<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n{drawing}</svg>\n</figure>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scatter_values_lie_on_the_diagonal() {
        let point = |name: &str, x: f64, y: f64| ScatterPoint { name: String::from(name), x, y };
        let points = vec![
            point("<low>", 1.0, 1.0),
            point("high", 100.0, 100.0),
            point("off", 1.0, 100.0),
            point("no", 0.0, 1.0),
        ];
        let series = ScatterSeries { name: String::from("a"), points };
        let drawn = scatter("measured", "predicted", &|value| format!("{value}"), &[series], "caption");
        assert!(
            drawn.contains("cx=\"70.0\" cy=\"226.0\" r=\"2\" fill=\"var(--series-1)\"><title>&lt;low&gt;"),
            "{drawn}"
        );
        assert!(drawn.contains("cx=\"422.0\" cy=\"24.0\""), "{drawn}");
        assert!(drawn.contains("cx=\"70.0\" cy=\"24.0\""), "{drawn}");
        assert!(!drawn.contains("no: "), "a value of zero has no logarithm");
        assert!(drawn.contains("<metadata>series,name,measured,predicted\na,&lt;low&gt;,1,1\n"), "{drawn}");
    }
}
