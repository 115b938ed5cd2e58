//! Axes of plots: coordinates of values, and values of the ticks.

use phaselink_core::number::{real_length, whole, wide_index};
use std::fmt::Write;

/// Width and height of a plot, and the margins of its plotting area, in the drawing's units.
pub(super) const WIDTH: f64 = 450.0;
pub(super) const HEIGHT: f64 = 270.0;
pub(super) const LEFT: f64 = 70.0;
pub(super) const RIGHT: f64 = 28.0;
pub(super) const TOP: f64 = 24.0;
pub(super) const BOTTOM: f64 = 44.0;

/// Scale of an axis: linear or logarithmic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisScale {
    /// Linear scale, which starts at zero unless a value is below zero.
    Linear,
    /// Logarithmic scale, for values above zero; other values are drawn at its lowest end.
    Logarithmic,
}

/// Axis of a plot with its title, unit and scale.
#[derive(Clone, Copy)]
pub struct PlotAxis<'a> {
    /// Title of the axis, unit included.
    pub name: &'a str,
    /// Scale that converts values into coordinates.
    pub scale: AxisScale,
    /// Function that formats a value as the label of its tick.
    pub shown: &'a dyn Fn(f64) -> String,
}

impl std::fmt::Debug for PlotAxis<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Axis").field("name", &self.name).field("scale", &self.scale).finish_non_exhaustive()
    }
}

/// Axis over a range of values, with its ticks; its length is `room` in the drawing's units.
#[derive(Clone, Debug)]
pub(super) struct AxisRuler {
    scale: AxisScale,
    low: f64,
    high: f64,
    room: f64,
    ticks: Vec<f64>,
}

impl AxisRuler {
    /// Makes an axis from the lowest to the highest value, both extended to ticks at round values. A linear axis starts
    /// at or below zero.
    pub(super) fn around(scale: AxisScale, values: impl Iterator<Item = f64>, room: f64) -> AxisRuler {
        let (low, high) = drawable_range(scale, values);
        let ticks = match scale {
            AxisScale::Linear => linear_ticks(low.min(0.0), high),
            AxisScale::Logarithmic => logarithmic_ticks(low, high),
        };
        let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
        AxisRuler { scale, low: first, high: if last > first { last } else { first + 1.0 }, room, ticks }
    }

    /// Makes an axis exactly from the lowest to the highest value, with ticks at the given values.
    pub(super) fn at(scale: AxisScale, values: impl Iterator<Item = f64>, room: f64) -> AxisRuler {
        let mut ticks: Vec<f64> = values.filter(|value| is_drawable_on_scale(scale, *value)).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let (low, high) = drawable_range(scale, ticks.iter().copied());
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        AxisRuler { scale, low, high, room, ticks }
    }

    /// Returns the distance of a value from the beginning of the axis, in the drawing's units; values beyond an end
    /// have that of the end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            AxisScale::Linear => (value - self.low) / (self.high - self.low),
            AxisScale::Logarithmic => libm::log(value.max(self.low) / self.low) / libm::log(self.high / self.low),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) * self.room } else { 0.0 }
    }

    /// Returns the value and coordinate of the ticks, without those that are nearer than `apart` to the one before.
    pub(super) fn ticks(&self, apart: f64) -> Vec<(f64, f64)> {
        let mut kept: Vec<(f64, f64)> = Vec::new();
        for tick in &self.ticks {
            let place = self.place(*tick);
            if kept.last().is_none_or(|(_, last)| place - last >= apart) {
                kept.push((*tick, place));
            }
        }
        kept
    }
}

fn is_drawable_on_scale(scale: AxisScale, value: f64) -> bool {
    value.is_finite() && (scale == AxisScale::Linear || value > 0.0)
}

/// Returns the lowest and the highest value that can be drawn on this scale; 1 and 1 if there are none.
fn drawable_range(scale: AxisScale, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let drawn = values.filter(|value| is_drawable_on_scale(scale, *value));
    let ends = drawn.fold(None, |ends: Option<(f64, f64)>, value| {
        Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    ends.unwrap_or((1.0, 1.0))
}

/// Returns round values at equal distances as ticks, the first no higher than `low` and the last no lower than `high`.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let reach = if high > low { high - low } else { 1.0 };
    let power = libm::pow(10.0, libm::floor(libm::log10(reach / 4.0)));
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= reach / 4.0);
    let step = step.unwrap_or(reach);
    let (first, last) = (libm::floor(low / step + 1e-9), libm::ceil((low + reach) / step - 1e-9));
    (0..=wide_index(whole(last - first))).map(|place| (first + real_length(place)) * step).collect()
}

/// Returns 1, 2 and 5 times the powers of ten as ticks, the first no higher than `low` and the last no lower than
/// `high`.
fn logarithmic_ticks(low: f64, high: f64) -> Vec<f64> {
    let all = || (-15..20).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * libm::pow(10.0, f64::from(power))));
    let first = all().take_while(|tick| *tick <= low * (1.0 + 1e-9)).last().unwrap_or(low);
    let mut ticks: Vec<f64> = all().filter(|tick| *tick >= first && *tick < high * (1.0 - 1e-9)).collect();
    ticks.extend(all().find(|tick| *tick >= high * (1.0 - 1e-9)));
    if ticks.len() < 2 {
        ticks = vec![first, first * 2.0];
    }
    ticks
}

/// Returns the grid lines, labels and title of a vertical axis at the left of a plot, as SVG. The numbers are the left
/// and right end of the grid lines and the y coordinate of the axis' lower end.
pub(super) fn vertical_axis_svg(axis: &PlotAxis, ruler: &AxisRuler, (left, right, foot): (f64, f64, f64)) -> String {
    let mut text = String::new();
    for (tick, place) in ruler.ticks(18.0) {
        let y = foot - place;
        let _ = writeln!(text, "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>");
        let label = super::escape(&(axis.shown)(tick));
        let _ = writeln!(text, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", left - 7.0, y + 4.0);
    }
    let name = super::escape(axis.name);
    let _ = writeln!(text, "<text x=\"4\" y=\"14\">{name}</text>");
    text
}

/// Returns the ticks, labels and title of a horizontal axis below a plot, as SVG. The numbers are the x coordinate of
/// its left end, its y coordinate and its length.
pub(super) fn level(axis: &PlotAxis, ruler: &AxisRuler, (left, foot, room): (f64, f64, f64)) -> String {
    let widest = ruler.ticks.iter().map(|tick| (axis.shown)(*tick).chars().count()).max().unwrap_or(1);
    let mut text = String::new();
    for (tick, place) in ruler.ticks(real_length(widest) * 6.6 + 8.0) {
        let x = left + place;
        let label = super::escape(&(axis.shown)(tick));
        let _ = writeln!(text, "<path class=\"grid\" d=\"M{x:.1} {foot:.1}v5\"/>");
        let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>", foot + 19.0);
    }
    let (x, y) = (left + room / 2.0, foot + 37.0);
    let _ =
        writeln!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", super::escape(axis.name));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(ruler: &AxisRuler) -> Vec<f64> {
        ruler.ticks.clone()
    }

    #[test]
    fn linear_axis_starts_at_zero_and_ends_at_a_round_value() {
        assert_eq!(
            values(&AxisRuler::around(AxisScale::Linear, [3.0, 97.0].into_iter(), 100.0)),
            [0.0, 25.0, 50.0, 75.0, 100.0]
        );
        assert_eq!(
            values(&AxisRuler::around(AxisScale::Linear, [-1.0, 1.0].into_iter(), 100.0)),
            [-1.0, -0.5, 0.0, 0.5, 1.0]
        );
    }

    #[test]
    fn logarithmic_axis_covers_all_values_between_its_ticks() {
        assert_eq!(
            values(&AxisRuler::around(AxisScale::Logarithmic, [3.0, 70.0].into_iter(), 100.0)),
            [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
        );
        let ruler = AxisRuler::around(AxisScale::Logarithmic, [1.0, 100.0].into_iter(), 100.0);
        assert_eq!(
            [1.0, 10.0, 100.0, 1e9, 0.0].map(|value| ruler.place(value).round()),
            [0.0, 50.0, 100.0, 100.0, 0.0]
        );
    }

    #[test]
    fn all_values_map_to_positions_on_the_axis() {
        for values in
            [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY], vec![1e-300, 1e300], vec![-5.0], vec![7.0, 7.0]]
        {
            for scale in [AxisScale::Linear, AxisScale::Logarithmic] {
                for ruler in [
                    AxisRuler::around(scale, values.iter().copied(), 10.0),
                    AxisRuler::at(scale, values.iter().copied(), 10.0),
                ] {
                    for value in values.iter().chain(&[0.0, -1.0, 1e9, f64::NAN]) {
                        assert!((0.0..=10.0).contains(&ruler.place(*value)), "{scale:?} {values:?} {value}");
                    }
                }
            }
        }
    }

    #[test]
    fn overlapping_axis_ticks_are_omitted() {
        let ruler = AxisRuler::at(AxisScale::Linear, [0.0, 1.0, 2.0, 3.0, 4.0].into_iter(), 40.0);
        assert_eq!(ruler.ticks(15.0).iter().map(|(tick, _)| *tick).collect::<Vec<_>>(), [0.0, 2.0, 4.0]);
    }
}
