//! Numbers as text for people: three significant digits and a decimal prefix.

use super::Unit;
use phaselink_core::number::whole;
use phaselink_core::time::Span;
pub use phaselink_core::words::grouped;

const PREFIXES: [&str; 10] = ["p", "n", "u", "m", "", "k", "M", "G", "T", "P"];
const NO_PREFIX: usize = 4;
/// Largest quotient of two values of a column for which one prefix serves both.
const ONE_SCALE_MAX: f64 = 1e7;
/// Smallest value with too many digits before its point, so that its column gets the next prefix.
const SCALED_MAX: f64 = 1e6;
/// Largest number of decimals of a value whose column has a larger prefix than the value alone.
const DECIMALS_MAX: usize = 6;

/// Decimal prefix that all values of a table's column share, so that they can be compared at a glance; `None` if the
/// values differ too much for one prefix.
#[derive(Clone, Copy, Debug)]
pub struct ColumnScale(Option<usize>);

impl ColumnScale {
    /// Returns the scale of a column with these values: the prefix of the smallest one other than 0, or a larger prefix
    /// if the largest value would have seven digits before its point.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> ColumnScale {
        let sizes = values.map(f64::abs).filter(|size| *size > 0.0);
        let (least, most) = (sizes.clone().fold(f64::INFINITY, f64::min), sizes.fold(0.0, f64::max));
        let fits = |place: &usize| scale_to_prefix(most, *place) < SCALED_MAX;
        let is_narrow = most > 0.0 && most / least <= ONE_SCALE_MAX;
        ColumnScale(is_narrow.then(|| (scaled(least).1..PREFIXES.len()).find(fits)).flatten())
    }

    /// Returns a value of the column as text with its prefix before `unit`: `0.0740 us`, `9.12 us` and `1,235 us`.
    pub fn quantity(self, value: f64, unit: &str) -> String {
        match self.0 {
            None => quantity(value, unit),
            Some(place) => format!("{} {}{unit}", digits(scale_to_prefix(value, place)), PREFIXES[place]),
        }
    }

    /// Returns a time span of the column as text with its prefix.
    pub fn span(self, value: Span) -> String {
        self.0.map_or_else(|| span(value), |_| self.quantity(value.as_s(), "s"))
    }

    /// Returns a count of the column as text with its prefix, but no unit: `98.0 k` and `1,400 k`.
    pub fn count(self, value: f64) -> String {
        match self.0 {
            None => count(value),
            Some(..=NO_PREFIX) if value.abs() < 999.5 => count(value),
            Some(..=NO_PREFIX) => digits(value),
            Some(_) => self.quantity(value, ""),
        }
    }
}

/// Returns a value as text with three significant digits and a decimal prefix before `unit`: `2.66 GB/s`, `12.3 uJ`.
pub fn quantity(value: f64, unit: &str) -> String {
    let (scaled, place) = scaled(value);
    format!("{} {}{unit}", three_digits(scaled), PREFIXES[place])
}

/// Returns a count as text with three significant digits and a prefix, but no unit: `714 k`, `1.40 M`, `12`.
pub fn count(value: f64) -> String {
    if value.abs() < 999.5 {
        return if value.fract() == 0.0 { format!("{value:.0}") } else { three_digits(value) };
    }
    quantity(value, "")
}

/// Parses a count with a decimal prefix, such as `100k`, `1.5M` or `250`: k is 1,000. `None` for other texts, and for
/// infinite counts.
pub fn parse_count(text: &str) -> Option<f64> {
    let text = text.trim();
    let factors = [(['k', 'K'], 1e3), (['m', 'M'], 1e6), (['g', 'G'], 1e9)];
    let scaled = factors.into_iter().find_map(|(letters, factor)| Some((text.strip_suffix(letters)?, factor)));
    let (digits, factor) = scaled.unwrap_or((text, 1.0));
    let is_number = digits.starts_with(|digit: char| digit.is_ascii_digit());
    digits.parse::<f64>().ok().map(|count| count * factor).filter(|count| is_number && count.is_finite())
}

/// Returns the value of a figure as text for tables; `unknown` if it has none.
pub fn figure(unit: Unit, value: Option<f64>) -> String {
    let Some(value) = value else { return String::from("unknown") };
    match unit {
        Unit::Requests | Unit::PerS => count(value),
        Unit::BytesPerS => quantity(value, "B/s"),
        Unit::Ns => quantity(value / 1e9, "s"),
        Unit::Share => percent(value),
        Unit::Cores => format!("{value:.2}"),
        Unit::W => quantity(value, "W"),
        Unit::J => quantity(value, "J"),
    }
}

/// Returns a time span as text with three significant digits: `76.0 ns`, `1.40 us`.
pub fn span(span: Span) -> String {
    if span.is_zero() {
        return "0 ns".to_string();
    }
    quantity(span.as_s(), "s")
}

/// Returns a share between 0 and 1 as text in per cent with one decimal: `66.5 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns `value` scaled to its own decimal prefix, and the place of that prefix.
fn scaled(value: f64) -> (f64, usize) {
    let (mut scaled, mut place) = (value, NO_PREFIX);
    while scaled.abs() >= 999.5 && place + 1 < PREFIXES.len() {
        scaled /= 1e3;
        place += 1;
    }
    while scaled != 0.0 && scaled.abs() < 0.9995 && place > 0 {
        scaled *= 1e3;
        place -= 1;
    }
    (scaled, place)
}

/// Returns `value` scaled to the decimal prefix at `place`, with the steps and thus the rounding of [`scaled`].
fn scale_to_prefix(value: f64, place: usize) -> f64 {
    let larger = (NO_PREFIX..place).fold(value, |value, _| value / 1e3);
    (place..NO_PREFIX).fold(larger, |value, _| value * 1e3)
}

/// Returns a scaled value that is not negative as text: three significant digits, or all digits before the point.
fn digits(value: f64) -> String {
    if value >= 999.5 {
        return grouped(whole(value.round()));
    }
    let (mut size, mut decimals) = (value, 2);
    while size > 0.0 && size < 0.9995 && decimals < DECIMALS_MAX {
        size *= 10.0;
        decimals += 1;
    }
    if decimals > 2 { format!("{value:.decimals$}") } else { three_digits(value) }
}

/// Returns `value` as text with three significant digits. Its magnitude must be below 1000.
fn three_digits(value: f64) -> String {
    let size = value.abs();
    let decimals = if size >= 99.95 || size == 0.0 {
        0
    } else if size >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_round_up_to_the_next_prefix() {
        assert_eq!(quantity(2.656e9, "B/s"), "2.66 GB/s");
        assert_eq!(quantity(999.4, "W"), "999 W");
        assert_eq!(quantity(999.6, "W"), "1.00 kW");
        assert_eq!(quantity(1.23e-5, "J"), "12.3 uJ");
        assert_eq!(quantity(0.0, "J"), "0 J");
        assert_eq!(quantity(1e30, "B"), "1000000000000000 PB");
    }

    #[test]
    fn column_values_share_a_prefix_and_keep_their_whole_digits() {
        let column = |values: &[f64]| {
            let scale = ColumnScale::of(values.iter().copied());
            values.iter().map(|value| scale.quantity(*value, "s")).collect::<Vec<_>>()
        };
        assert_eq!(column(&[9.12e-6, 7.4e-5, 1.2349e-3]), ["9.12 us", "74.0 us", "1,235 us"]);
        assert_eq!(column(&[7.4e-8, 0.0123, 0.0]), ["0.0740 us", "12,300 us", "0 us"]);
        assert_eq!(column(&[1e-9, 1.0]), ["1.00 ns", "1.00 s"], "too far from each other");
        for alone in [0.0, 9.996e-7, 2.0, 1e30] {
            assert_eq!(column(&[alone]), [quantity(alone, "s")]);
        }
    }

    #[test]
    fn counts_below_a_thousand_have_no_decimals() {
        let column = |values: &[f64]| {
            let scale = ColumnScale::of(values.iter().copied());
            values.iter().map(|value| scale.count(*value)).collect::<Vec<_>>()
        };
        assert_eq!(column(&[1.4e6, 98_000.0]), ["1,400 k", "98.0 k"]);
        assert_eq!(column(&[64.0, 58_341.2]), ["64", "58,341"]);
        assert_eq!(column(&[64.0, 2_583_412.0]), ["0.0640 k", "2,583 k"]);
        for alone in [0.0, 0.5, 64.0, 714_285.7] {
            assert_eq!(column(&[alone]), [count(alone)]);
        }
    }

    #[test]
    fn spans_and_counts_are_formatted_as_in_papers() {
        assert_eq!(span(Span::from_ns(1400)), "1.40 us");
        assert_eq!(span(Span::from_ns(76)), "76.0 ns");
        assert_eq!(span(Span::ZERO), "0 ns");
        assert_eq!(count(714_285.7), "714 k");
        assert_eq!(count(64.0), "64");
        assert_eq!(count(0.5), "0.50");
    }

    #[test]
    fn thousands_are_grouped_by_commas() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }
}
