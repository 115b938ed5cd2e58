//! Percentile plot: latency over the share of requests. Both axes are logarithmic, so that each further nine of the
//! tail takes the same room.

use std::fmt::Write;

use super::super::table::characters;
use super::super::units;
use super::{colour, escape};
use phaselink_core::ledger::Latency;
use phaselink_core::number::{real, real_length, whole};
use phaselink_core::time::Span;

/// Width and height of a plot in the drawing's units, equal to those of line plots.
const WIDTH: f64 = 450.0;
const HEIGHT: f64 = 270.0;
/// Margins of the plotting area, in the drawing's units.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 44.0;
/// Width that a character of a label needs, in the drawing's units.
const CHARACTER: f64 = 6.8;
/// Number of points of one line.
const POINTS: usize = 240;

/// Line of a percentile plot.
#[derive(Clone, Debug)]
pub struct LatencySeries<'a> {
    /// Name of the line in the legend.
    pub name: String,
    /// Latencies whose percentiles are drawn.
    pub latency: &'a Latency,
}

/// Draws the percentiles of all series as HTML, with a legend. A line ends at the percentile beyond which one request
/// is left.
pub fn percentiles(series: &[LatencySeries]) -> String {
    super::page::side_by_side(&[percentile_plot(series, "Latency that a share of the requests does not exceed")])
}

/// Draws the percentiles of all series as HTML with this caption, to be placed beside other plots.
pub fn percentile_plot_for_row(series: &[LatencySeries], caption: &str) -> String {
    percentile_plot(series, caption)
}

fn percentile_plot(series: &[LatencySeries], caption: &str) -> String {
    let (above, label) = (super::caption(caption), if caption.is_empty() { "" } else { ", " });
    let label = format!("{label}{}", escape(caption));
    let axes = PercentileAxes::of_series(series);
    let mut drawing = axes.grid();
    for (place, line) in series.iter().enumerate() {
        let _ = writeln!(
            drawing,
            "<polyline stroke=\"{}\" points=\"{}\"><title>{}</title></polyline>",
            colour::of_series(place),
            axes.points(line.latency),
            escape(&line.name)
        );
    }
    drawing.push_str(&values(series));
    format!(
        "<figure>\n{above}{}<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Latency by percentile{label}\">\n{drawing}</svg>\n</figure>\n",
        super::legend(series.iter().enumerate().map(|(place, line)| (line.name.as_str(), colour::of_series(place))))
    )
}

/// Returns the percentiles at the axis' ticks as comma-separated values in ns, as far as a series has enough requests.
fn values(series: &[LatencySeries]) -> String {
    let row = |line: &LatencySeries, nines: f64| {
        let percent = 100.0 * (1.0 - libm::pow(10.0, -nines));
        let ns = line.latency.percentile(percent).as_ns();
        vec![line.name.clone(), format!("{percent:.6}"), ns.to_string()]
    };
    let rows = series
        .iter()
        .flat_map(|line| nine_ticks(nines_for_count(line.latency.count())).map(move |(_, nines)| row(line, nines)));
    super::data(&["line", "percent", "ns"], rows)
}

/// Ranges of the axes: the nines of the percentile beyond which the largest series has one request, and latencies in ps
/// between two ticks.
struct PercentileAxes {
    nines: f64,
    low_ps: f64,
    high_ps: f64,
}

impl PercentileAxes {
    fn of_series(series: &[LatencySeries]) -> PercentileAxes {
        let count = series.iter().map(|line| line.latency.count()).max().unwrap_or(1);
        let min_ps = series.iter().map(|line| line.latency.min().as_ps()).min().unwrap_or(1).max(1);
        let max_ps = series.iter().map(|line| line.latency.max().as_ps()).max().unwrap_or(1).max(min_ps);
        let low_ps = ticks().take_while(|tick| *tick <= real(min_ps)).last().unwrap_or(1.0);
        let high_ps = ticks().find(|tick| *tick > real(max_ps)).unwrap_or(real(max_ps) * 2.0);
        PercentileAxes { nines: nines_for_count(count).max(1.0), low_ps, high_ps }
    }

    fn x(&self, nines: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * nines / self.nines
    }

    fn y(&self, ps: f64) -> f64 {
        let share = libm::log(ps.max(self.low_ps) / self.low_ps) / libm::log(self.high_ps / self.low_ps);
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share)
    }

    /// Returns the coordinates of the line of one series, as SVG writes them.
    fn points(&self, latency: &Latency) -> String {
        let last = nines_for_count(latency.count());
        let point = |place: usize| {
            let nines = last * real_length(place) / real_length(POINTS - 1);
            let percent = 100.0 * (1.0 - libm::pow(10.0, -nines));
            let ps = real(latency.percentile(percent).as_ps());
            format!("{:.1},{:.1}", self.x(nines), self.y(ps))
        };
        (0..POINTS).map(point).collect::<Vec<_>>().join(" ")
    }

    fn grid(&self) -> String {
        let mut text = String::new();
        let visible = ticks().filter(|tick| (self.low_ps..=self.high_ps).contains(tick));
        for tick in visible {
            let y = self.y(tick);
            let name = units::span(Span::from_ps(whole(tick)));
            let _ = writeln!(text, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{}\"/>", WIDTH - RIGHT);
            let _ = writeln!(text, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>", LEFT - 8.0, y + 4.0);
        }
        let mut end = f64::MIN;
        for (name, nines) in nine_ticks(self.nines) {
            let (x, foot) = (self.x(nines), HEIGHT - BOTTOM);
            let half = real_length(characters(&name)) * CHARACTER / 2.0;
            if x - half < end {
                continue;
            }
            end = x + half + CHARACTER;
            let _ = writeln!(text, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{foot}\"/>");
            let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>", foot + 18.0);
        }
        text
    }
}

/// Returns the number of nines of the percentile beyond which one of `count` requests is left; not whole in general.
fn nines_for_count(count: u64) -> f64 {
    libm::log10(real(count.max(1)))
}

/// Returns the latencies at which the axis may have a tick, in ps: 1, 2 and 5 times the powers of ten, up to 10^7 s.
fn ticks() -> impl Iterator<Item = f64> {
    (0..20).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * libm::pow(10.0, f64::from(power))))
}

/// Returns name and position of the ticks of the horizontal axis, up to `nines`; the position is a number of nines.
fn nine_ticks(nines: f64) -> impl Iterator<Item = (String, f64)> {
    let first = [("0 %".to_string(), 0.0), ("50 %".to_string(), libm::log10(2.0)), ("90 %".to_string(), 1.0)];
    let later = (2..=18_usize).map(|count| match count {
        2 => ("99 %".to_string(), 2.0),
        _ => (format!("99.{} %", "9".repeat(count - 2)), real_length(count)),
    });
    first.into_iter().chain(later).take_while(move |(_, place)| *place <= nines + 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency_from_spans(spans: impl IntoIterator<Item = Span>) -> Latency {
        let mut latency = Latency::default();
        spans.into_iter().for_each(|span| latency.record(span));
        latency
    }

    #[test]
    fn equal_latencies_draw_a_horizontal_line() {
        let latency = latency_from_spans([Span::from_ns(2432); 1000]);
        let axes = PercentileAxes::of_series(&[LatencySeries { name: String::new(), latency: &latency }]);
        assert_eq!((axes.low_ps, axes.high_ps), (2e6, 5e6));
        let points = axes.points(&latency);
        let heights: Vec<&str> = points.split(' ').map(|point| point.split(',').nth(1).unwrap()).collect();
        assert!(heights.iter().all(|height| height == &heights[0]));
    }

    #[test]
    fn percentile_axis_ends_at_one_remaining_request() {
        let names: Vec<String> = nine_ticks(nines_for_count(10_000)).map(|(name, _)| name).collect();
        assert_eq!(names, ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }

    #[test]
    fn all_latencies_stay_within_the_percentile_plot() {
        for spans in [vec![Span::ZERO], vec![Span::ZERO, Span::MAX], vec![Span::from_ps(1)], vec![]] {
            let latency = latency_from_spans(spans);
            let axes = PercentileAxes::of_series(&[LatencySeries { name: String::new(), latency: &latency }]);
            for number in axes.points(&latency).split([' ', ',']) {
                let number: f64 = number.parse().unwrap();
                assert!((0.0..=WIDTH).contains(&number), "{number}");
            }
        }
    }
}
