//! Axes of a sweep: keys of the drive or the job that vary, and the values of each.

use crate::reproduce::fio_option_text;
use phaselink_core::config::document::{Node, Place, Value};
use phaselink_core::number::{real, real_length, whole, wide_index};

/// Largest number of values of one axis, and of points of a sweep.
pub(super) const POINTS_MAX: usize = 1_000_000;
/// Significant decimal digits to which computed values are rounded: steps of 0.1 give 0.3, not 0.30000000000000004.
const DIGITS: usize = 12;
/// Number (2^53) up to which a 64-bit float represents every whole number exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Part of the plan that an axis varies, derived from the axis's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SweptPlanPart<'a> {
    /// Axis varies the drive itself (key `drive`) over shipped drives or drive files.
    Drive,
    /// Axis varies an option of the fio job (key `job.OPTION`).
    Job(&'a str),
    /// Axis varies a key of the drive's configuration, such as `link.lanes`.
    Description(&'a str),
}

/// Key that a sweep varies, with all its values.
#[derive(Clone, Debug)]
pub(super) struct SweptKey {
    pub key: String,
    /// Values that the key takes in the sweep, at least one.
    pub values: Vec<Node>,
}

/// Axis of a sweep: one or more keys that vary together. All have equally many values; point n uses the n-th value of
/// each.
#[derive(Clone, Debug)]
pub(super) struct SweepAxis {
    pub swept: Vec<SweptKey>,
}

impl SweptKey {
    pub(super) fn target(&self) -> SweptPlanPart<'_> {
        target(&self.key)
    }

    /// Returns value number `place` of the key as text, in the form of results and of fio options.
    pub(super) fn text(&self, place: usize) -> String {
        let node = &self.values[place];
        match &node.value {
            Value::Boolean(boolean) if !matches!(self.target(), SweptPlanPart::Job(_)) => boolean.to_string(),
            value => fio_option_text(value).unwrap_or_else(|| node.quote.clone()),
        }
    }

    /// True if the key takes at least two different values in the sweep.
    pub(super) fn has_several_values(&self) -> bool {
        (1..self.values.len()).any(|place| self.text(place) != self.text(0))
    }
}

impl SweepAxis {
    pub(super) fn len(&self) -> usize {
        self.swept.first().map_or(0, |swept| swept.values.len())
    }
}

/// Returns the part of the plan that an axis with this key varies.
pub(super) fn target(key: &str) -> SweptPlanPart<'_> {
    match key.strip_prefix("job.") {
        Some(option) => SweptPlanPart::Job(option),
        None if key == "drive" => SweptPlanPart::Drive,
        None => SweptPlanPart::Description(key),
    }
}

/// Spacing between the values of a range on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RangeSpacing {
    /// Constant difference in a range: each value is the one before it plus this number.
    Step(f64),
    /// Constant ratio in a range: each value is the one before it times this number.
    Factor(f64),
    /// Range has this number of values with equal differences, both ends included.
    Linear(usize),
    /// Range has this number of values with equal ratios, both ends included.
    Logarithmic(usize),
}

/// Error in a range: a text of what was found, and a text of what is allowed.
pub(super) type Wrong = (String, &'static str);

/// Returns the values of a range from `from` to `to`. If a step or factor does not hit `to` exactly, the last value is
/// below it.
pub(super) fn range(from: f64, to: f64, spacing: RangeSpacing) -> Result<Vec<f64>, Wrong> {
    if !from.is_finite() || !to.is_finite() || from > to {
        return Err((format!("a range from {from} to {to}"), "from no larger than to, both finite"));
    }
    let is_geometric = matches!(spacing, RangeSpacing::Factor(_) | RangeSpacing::Logarithmic(_));
    if is_geometric && from <= 0.0 {
        return Err((format!("a logarithmic range from {from}"), "from above 0"));
    }
    let values = count(from, to, spacing)?;
    if values > real_length(POINTS_MAX) {
        return Err((format!("a range of {values:.0} values"), "at most 1,000,000"));
    }
    let last = wide_index(whole(values)) - 1;
    let value = |place: usize| match spacing {
        RangeSpacing::Step(step) => from + step * real_length(place),
        RangeSpacing::Factor(factor) => from * libm::pow(factor, real_length(place)),
        _ if place == last => to,
        RangeSpacing::Linear(_) => from + (to - from) * (real_length(place) / real_length(last)),
        RangeSpacing::Logarithmic(_) => from * libm::pow(to / from, real_length(place) / real_length(last)),
    };
    Ok((0..=last).map(|place| round_to_digits(value(place))).collect())
}

/// Returns the number of values of a range. A last step that exceeds the end only by rounding errors counts as well.
fn count(from: f64, to: f64, spacing: RangeSpacing) -> Result<f64, Wrong> {
    const SLACK: f64 = 1e-9;
    match spacing {
        RangeSpacing::Step(step) if step > 0.0 => Ok(((to - from) / step + SLACK).floor() + 1.0),
        RangeSpacing::Step(step) => Err((format!("a step of {step}"), "above 0")),
        RangeSpacing::Factor(factor) if factor > 1.0 => {
            Ok((libm::log(to / from) / libm::log(factor) + SLACK).floor() + 1.0)
        }
        RangeSpacing::Factor(factor) => Err((format!("a factor of {factor}"), "above 1")),
        RangeSpacing::Linear(count) | RangeSpacing::Logarithmic(count) if count >= 2 => Ok(real_length(count)),
        RangeSpacing::Linear(count) | RangeSpacing::Logarithmic(count) => {
            Err((format!("a count of {count}"), "2 or more"))
        }
    }
}

/// Returns all powers of two from `from` to `to`. `None` if one of these is no power of two, or the range is empty.
pub(super) fn powers_of_two(from: i128, to: i128) -> Option<Vec<f64>> {
    let exponent = |number: i128| {
        let number = u64::try_from(number).ok().filter(|number| number.is_power_of_two())?;
        Some(number.trailing_zeros()).filter(|exponent| *exponent <= 53)
    };
    let exponents = exponent(from)?..=exponent(to)?;
    (!exponents.is_empty()).then(|| exponents.map(|exponent| real(1u64 << exponent)).collect())
}

fn round_to_digits(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// Returns numbers as values of a configuration file at this position. Whole numbers become integers.
pub(super) fn nodes(place: &Place, numbers: &[f64]) -> Vec<Node> {
    let node = |number: &f64| {
        let is_whole = number.fract() == 0.0 && number.abs() <= WHOLE_MAX;
        let value = if is_whole { Value::Integer(*number as i128) } else { Value::Float(*number) };
        Node { place: place.clone(), value, quote: number.to_string() }
    };
    numbers.iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stepped_range_ends_at_or_below_its_last_value() {
        assert_eq!(range(50.0, 200.0, RangeSpacing::Step(50.0)).unwrap(), [50.0, 100.0, 150.0, 200.0]);
        assert_eq!(range(1.0, 4.0, RangeSpacing::Step(2.0)).unwrap(), [1.0, 3.0]);
        assert_eq!(range(1.0, 3.9, RangeSpacing::Step(3.0)).unwrap(), [1.0]);
        assert_eq!(range(0.1, 0.5, RangeSpacing::Step(0.1)).unwrap(), [0.1, 0.2, 0.3, 0.4, 0.5]);
    }

    #[test]
    fn counted_range_includes_both_ends_with_equal_steps_or_ratios() {
        assert_eq!(range(1.0, 2.0, RangeSpacing::Linear(5)).unwrap(), [1.0, 1.25, 1.5, 1.75, 2.0]);
        assert_eq!(range(1.0, 1000.0, RangeSpacing::Logarithmic(4)).unwrap(), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(range(1.0, 1000.0, RangeSpacing::Factor(10.0)).unwrap(), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(range(3.0, 50.0, RangeSpacing::Factor(4.0)).unwrap(), [3.0, 12.0, 48.0]);
    }

    #[test]
    fn power_of_two_range_includes_both_ends() {
        assert_eq!(powers_of_two(1, 16), Some(vec![1.0, 2.0, 4.0, 8.0, 16.0]));
        assert_eq!(powers_of_two(8, 8), Some(vec![8.0]));
        for (from, to) in [(0, 8), (3, 8), (1, 9), (16, 8), (-2, 8), (1, i128::MAX)] {
            assert_eq!(powers_of_two(from, to), None, "{from} to {to}");
        }
    }

    #[test]
    fn invalid_range_is_refused() {
        for (from, to, spacing) in [
            (2.0, 1.0, RangeSpacing::Step(1.0)),
            (1.0, 2.0, RangeSpacing::Step(0.0)),
            (1.0, 2.0, RangeSpacing::Step(-1.0)),
            (1.0, 2.0, RangeSpacing::Step(1e-300)),
            (1.0, f64::INFINITY, RangeSpacing::Step(1.0)),
            (f64::NAN, 1.0, RangeSpacing::Step(1.0)),
            (1.0, 2.0, RangeSpacing::Step(f64::NAN)),
            (1.0, 2.0, RangeSpacing::Factor(1.0)),
            (0.0, 2.0, RangeSpacing::Logarithmic(3)),
            (1.0, 2.0, RangeSpacing::Linear(1)),
            (1.0, 2.0, RangeSpacing::Linear(usize::MAX)),
        ] {
            assert!(range(from, to, spacing).is_err(), "{from} to {to} {spacing:?}");
        }
    }
}
