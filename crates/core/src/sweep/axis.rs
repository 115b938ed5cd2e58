//! Axes of a sweep: keys that vary, and their values.

use crate::config::document::{Node, Place, Value};
use crate::reproduce::option_text;

/// Most values of one axis, and most points of a sweep.
pub(super) const POINTS_MAX: usize = 1_000_000;
/// Digits that computed values keep: steps of 0.1 give 0.3, not 0.30000000000000004.
const DIGITS: usize = 12;
/// Largest number whose whole values a 64-bit float represents exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A part of the plan that varies, as named by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AxisTarget<'a> {
    /// `drive`: shipped drives or drive files.
    Drive,
    /// `job.OPTION`: an option of fio.
    Job(&'a str),
    /// A key of the drive, as in `link.lanes`.
    Description(&'a str),
}

/// A key with its values.
#[derive(Clone, Debug)]
pub(super) struct Swept {
    pub key: String,
    /// Never empty.
    pub values: Vec<Node>,
}

/// Keys that vary together: their first values, their second values, and so on. All have as many.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub swept: Vec<Swept>,
}

impl Swept {
    pub(super) fn target(&self) -> AxisTarget<'_> {
        target(&self.key)
    }

    /// The value at a place, as results show it and as an option of fio has it.
    pub(super) fn text(&self, place: usize) -> String {
        let node = &self.values[place];
        match &node.value {
            Value::Boolean(boolean) if !matches!(self.target(), AxisTarget::Job(_)) => boolean.to_string(),
            value => option_text(value).unwrap_or_else(|| node.quote.clone()),
        }
    }

    /// True if the axis has more than one value.
    pub(super) fn varies(&self) -> bool {
        (1..self.values.len()).any(|place| self.text(place) != self.text(0))
    }
}

impl Axis {
    pub(super) fn len(&self) -> usize {
        self.swept.first().map_or(0, |swept| swept.values.len())
    }
}

/// Returns the thing that a key of an axis changes.
pub(super) fn target(key: &str) -> AxisTarget<'_> {
    match key.strip_prefix("job.") {
        Some(option) => AxisTarget::Job(option),
        None if key == "drive" => AxisTarget::Drive,
        None => AxisTarget::Description(key),
    }
}

/// Spacing of a range's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spacing {
    /// Each value is the one before it plus this.
    Step(f64),
    /// Each value is the one before it times this.
    Factor(f64),
    /// As many values as this, with equal differences.
    Linear(usize),
    /// As many values as this, with equal ratios.
    Logarithmic(usize),
}

/// Mistake in a range, and the allowed form.
pub(super) type Wrong = (String, &'static str);

/// The values from `from` up to `to`; with a step or factor that does not meet `to`, the last lies below it.
pub(super) fn range(from: f64, to: f64, spacing: Spacing) -> Result<Vec<f64>, Wrong> {
    if !from.is_finite() || !to.is_finite() || from > to {
        return Err((format!("a range from {from} to {to}"), "from no larger than to, both finite"));
    }
    let is_geometric = matches!(spacing, Spacing::Factor(_) | Spacing::Logarithmic(_));
    if is_geometric && from <= 0.0 {
        return Err((format!("a logarithmic range from {from}"), "from above 0"));
    }
    let values = count(from, to, spacing)?;
    if values > POINTS_MAX as f64 {
        return Err((format!("a range of {values:.0} values"), "at most 1,000,000"));
    }
    let last = values as usize - 1;
    let value = |place: usize| match spacing {
        Spacing::Step(step) => from + step * place as f64,
        Spacing::Factor(factor) => from * libm::pow(factor, place as f64),
        _ if place == last => to,
        Spacing::Linear(_) => from + (to - from) * (place as f64 / last as f64),
        Spacing::Logarithmic(_) => from * libm::pow(to / from, place as f64 / last as f64),
    };
    Ok((0..=last).map(|place| tidy(value(place))).collect())
}

/// How many values a range has; a little more than the last step counts as all of it, for want of exact decimals.
fn count(from: f64, to: f64, spacing: Spacing) -> Result<f64, Wrong> {
    const SLACK: f64 = 1e-9;
    match spacing {
        Spacing::Step(step) if step > 0.0 => Ok(((to - from) / step + SLACK).floor() + 1.0),
        Spacing::Step(step) => Err((format!("a step of {step}"), "above 0")),
        Spacing::Factor(factor) if factor > 1.0 => Ok((libm::log(to / from) / libm::log(factor) + SLACK).floor() + 1.0),
        Spacing::Factor(factor) => Err((format!("a factor of {factor}"), "above 1")),
        Spacing::Linear(count) | Spacing::Logarithmic(count) if count >= 2 => Ok(count as f64),
        Spacing::Linear(count) | Spacing::Logarithmic(count) => Err((format!("a count of {count}"), "2 or more")),
    }
}

/// The powers of two from `from` to `to`, which are such powers themselves.
pub(super) fn powers_of_two(from: i128, to: i128) -> Option<Vec<f64>> {
    let exponent = |number: i128| {
        let number = u64::try_from(number).ok().filter(|number| number.is_power_of_two())?;
        Some(number.trailing_zeros()).filter(|exponent| *exponent <= 53)
    };
    let exponents = exponent(from)?..=exponent(to)?;
    (!exponents.is_empty()).then(|| exponents.map(|exponent| (1u64 << exponent) as f64).collect())
}

fn tidy(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// Numbers as values that stand at a place; whole ones are whole numbers there.
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
    fn steps_end_at_the_last_value_or_below_it() {
        assert_eq!(range(50.0, 200.0, Spacing::Step(50.0)).unwrap(), [50.0, 100.0, 150.0, 200.0]);
        assert_eq!(range(1.0, 4.0, Spacing::Step(2.0)).unwrap(), [1.0, 3.0]);
        assert_eq!(range(1.0, 3.9, Spacing::Step(3.0)).unwrap(), [1.0]);
        assert_eq!(range(0.1, 0.5, Spacing::Step(0.1)).unwrap(), [0.1, 0.2, 0.3, 0.4, 0.5]);
    }

    #[test]
    fn counts_meet_both_ends_with_equal_differences_or_ratios() {
        assert_eq!(range(1.0, 2.0, Spacing::Linear(5)).unwrap(), [1.0, 1.25, 1.5, 1.75, 2.0]);
        assert_eq!(range(1.0, 1000.0, Spacing::Logarithmic(4)).unwrap(), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(range(1.0, 1000.0, Spacing::Factor(10.0)).unwrap(), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(range(3.0, 50.0, Spacing::Factor(4.0)).unwrap(), [3.0, 12.0, 48.0]);
    }

    #[test]
    fn powers_of_two_include_both_ends() {
        assert_eq!(powers_of_two(1, 16), Some(vec![1.0, 2.0, 4.0, 8.0, 16.0]));
        assert_eq!(powers_of_two(8, 8), Some(vec![8.0]));
        for (from, to) in [(0, 8), (3, 8), (1, 9), (16, 8), (-2, 8), (1, i128::MAX)] {
            assert_eq!(powers_of_two(from, to), None, "{from} to {to}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (from, to, spacing) in [
            (2.0, 1.0, Spacing::Step(1.0)),
            (1.0, 2.0, Spacing::Step(0.0)),
            (1.0, 2.0, Spacing::Step(-1.0)),
            (1.0, 2.0, Spacing::Step(1e-300)),
            (1.0, f64::INFINITY, Spacing::Step(1.0)),
            (f64::NAN, 1.0, Spacing::Step(1.0)),
            (1.0, 2.0, Spacing::Step(f64::NAN)),
            (1.0, 2.0, Spacing::Factor(1.0)),
            (0.0, 2.0, Spacing::Logarithmic(3)),
            (1.0, 2.0, Spacing::Linear(1)),
            (1.0, 2.0, Spacing::Linear(usize::MAX)),
        ] {
            assert!(range(from, to, spacing).is_err(), "{from} to {to} {spacing:?}");
        }
    }
}
