//! Numbers as text for people: three significant digits and a decimal prefix.

use super::Unit;
use phaselink_core::time::Span;
pub use phaselink_core::words::grouped;

const PREFIXES: [&str; 10] = ["p", "n", "u", "m", "", "k", "M", "G", "T", "P"];
const NO_PREFIX: usize = 4;

/// Returns a value as text with three significant digits and a decimal prefix before `unit`: `2.66 GB/s`, `12.3 uJ`.
pub fn quantity(value: f64, unit: &str) -> String {
    let (digits, prefix) = scaled(value);
    format!("{digits} {prefix}{unit}")
}

/// Returns a count as text with three significant digits and a prefix, but no unit: `714 k`, `1.40 M`, `12`.
pub fn count(value: f64) -> String {
    if value.abs() < 999.5 {
        return if value.fract() == 0.0 { format!("{value:.0}") } else { three_digits(value) };
    }
    let (digits, prefix) = scaled(value);
    format!("{digits} {prefix}")
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

/// Returns `value` scaled to three significant digits, and the decimal prefix for it.
fn scaled(value: f64) -> (String, &'static str) {
    if value == 0.0 {
        return ("0".to_string(), "");
    }
    let (mut scaled, mut place) = (value, NO_PREFIX);
    while scaled.abs() >= 999.5 && place + 1 < PREFIXES.len() {
        scaled /= 1e3;
        place += 1;
    }
    while scaled.abs() < 0.9995 && place > 0 {
        scaled *= 1e3;
        place -= 1;
    }
    (three_digits(scaled), PREFIXES[place])
}

/// Returns `value` as text with three significant digits. Its magnitude must be below 1000.
fn three_digits(value: f64) -> String {
    let size = value.abs();
    let decimals = if size >= 99.95 {
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
    fn quantities_keep_three_digits_and_take_the_next_prefix_when_rounded_up_to_it() {
        assert_eq!(quantity(2.656e9, "B/s"), "2.66 GB/s");
        assert_eq!(quantity(999.4, "W"), "999 W");
        assert_eq!(quantity(999.6, "W"), "1.00 kW");
        assert_eq!(quantity(1.23e-5, "J"), "12.3 uJ");
        assert_eq!(quantity(0.0, "J"), "0 J");
        assert_eq!(quantity(1e30, "B"), "1000000000000000 PB");
    }

    #[test]
    fn spans_and_counts_read_as_in_papers() {
        assert_eq!(span(Span::from_ns(1400)), "1.40 us");
        assert_eq!(span(Span::from_ns(76)), "76.0 ns");
        assert_eq!(span(Span::ZERO), "0 ns");
        assert_eq!(count(714_285.7), "714 k");
        assert_eq!(count(64.0), "64");
        assert_eq!(count(0.5), "0.50");
    }

    #[test]
    fn whole_numbers_are_grouped_in_threes() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }
}
