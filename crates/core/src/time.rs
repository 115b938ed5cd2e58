//! Simulated time in whole picoseconds.
//!
//! A picosecond divides every symbol time of PCI Express generations 1 to 6 closely enough that no
//! figure of this project rounds visibly. [`Time`] is an instant, [`Span`] a length of time; only the
//! combinations that make sense are defined.
//!
//! Additions are made by the million and are not checked. They still cannot wrap around into the past: no run lasts
//! beyond [`Time::NEVER`], which is half of what 64 bits can count. Every conversion of a user's numbers to a span,
//! products included, gives at most [`Span::MAX`], of which four more fit into the other half.

use crate::number::{real, whole};
use serde::Serialize;
use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

/// Instant of simulated time, in picoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Time(u64);

/// Length of simulated time, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Span(u64);

impl Time {
    /// Start of a run.
    pub const ZERO: Time = Time(0);
    /// Instant later than every event that is handled: 106 days after the start.
    pub const NEVER: Time = Time(1 << 63);

    /// Makes the instant `ps` picoseconds after the start of the run.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// Returns the picoseconds since the start of the run.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Returns the nanoseconds since the start of the run.
    pub fn as_ns(self) -> f64 {
        real(self.0) / 1e3
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// Span of length zero.
    pub const ZERO: Span = Span(0);
    /// Longest span that a user can ask for: 26 days.
    pub const MAX: Span = Span(1 << 61);

    /// Returns a span of `ps` picoseconds, but not more than [`Span::MAX`].
    const fn at_most_max(ps: u64) -> Span {
        if ps < Span::MAX.0 { Span(ps) } else { Span::MAX }
    }

    /// Returns a span of `ps` picoseconds, without a limit.
    pub const fn from_ps(ps: u64) -> Span {
        Span(ps)
    }

    /// Returns a span of `ns` whole nanoseconds, at most [`Span::MAX`].
    pub const fn from_ns(ns: u64) -> Span {
        Span::at_most_max(ns.saturating_mul(1_000))
    }

    /// Returns a span of `us` whole microseconds, at most [`Span::MAX`].
    pub const fn from_us(us: u64) -> Span {
        Span::at_most_max(us.saturating_mul(1_000_000))
    }

    /// Returns a span of `ms` whole milliseconds, at most [`Span::MAX`].
    pub const fn from_ms(ms: u64) -> Span {
        Span::at_most_max(ms.saturating_mul(1_000_000_000))
    }

    /// Returns a span of `s` whole seconds, at most [`Span::MAX`].
    pub const fn from_s(s: u64) -> Span {
        Span::at_most_max(s.saturating_mul(1_000_000_000_000))
    }

    /// Returns a span of `ns` nanoseconds, rounded to the nearest picosecond; zero for a negative number or NaN.
    pub fn from_ns_f64(ns: f64) -> Span {
        Span::at_most_max(whole((ns * 1e3).round()))
    }

    /// Returns the length of the span in picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Returns the length of the span in nanoseconds.
    pub fn as_ns(self) -> f64 {
        real(self.0) / 1e3
    }

    /// Returns the length of the span in microseconds.
    pub fn as_us(self) -> f64 {
        real(self.0) / 1e6
    }

    /// Returns the length of the span in seconds.
    pub fn as_s(self) -> f64 {
        real(self.0) / 1e12
    }

    /// True if the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the span multiplied by a ratio (a change of clock frequency, say), to the nearest picosecond.
    pub fn scale(self, ratio: f64) -> Span {
        Span::at_most_max(whole((real(self.0) * ratio).round()))
    }

    /// Returns the span minus `other`, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// Returns the span multiplied by a factor in units of 2^-16, rounded down to a picosecond.
    #[inline]
    pub const fn paced(self, factor: u32) -> Span {
        Span(((self.0 as u128 * factor as u128) >> 16) as u64)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0 + span.0)
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0 + other.0)
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        self.saturating_sub(other)
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Span) {
        *self = *self - other;
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, times: u64) -> Span {
        self.0.checked_mul(times).map_or(Span::MAX, Span::at_most_max)
    }
}

impl Rem for Span {
    type Output = Span;

    /// Returns what is left of this span after as many whole `unit`s as it holds.
    fn rem(self, unit: Span) -> Span {
        Span(self.0 % unit.0)
    }
}

impl Div<u64> for Span {
    type Output = Span;
    fn div(self, parts: u64) -> Span {
        Span(self.0 / parts)
    }
}

impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Add::add)
    }
}

impl fmt::Display for Span {
    /// Writes the span with up to three decimals in the largest unit that is not longer than the span: `76 ns`, `2.432
    /// us`, `1.5 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1_000 => (real(self.0), "ps"),
            1_000..1_000_000 => (real(self.0) / 1e3, "ns"),
            1_000_000..1_000_000_000 => (real(self.0) / 1e6, "us"),
            1_000_000_000..1_000_000_000_000 => (real(self.0) / 1e9, "ms"),
            _ => (real(self.0) / 1e12, "s"),
        };
        let digits = format!("{value:.3}");
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        f.pad(&format!("{digits} {unit}"))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_arithmetic_saturates() {
        assert_eq!(Time::ZERO - Span::from_ns(1), Time::ZERO);
        assert_eq!(Span::MAX * 2, Span::MAX);
        assert_eq!([Span::from_s(u64::MAX), Span::from_ns(1).scale(1e300)], [Span::MAX; 2]);
        assert_eq!(Span::from_ns_f64(-1.0), Span::ZERO);
        let furthest = (0..3).fold(Time::NEVER, |at, _| at + Span::MAX);
        assert!(furthest > Time::NEVER, "three of the longest spans behind the last instant of a run still count up");
    }

    #[test]
    fn span_prints_in_its_largest_fitting_unit() {
        assert_eq!(Span::from_ns(76).to_string(), "76 ns");
        assert_eq!(Span::from_ps(2_432_000).to_string(), "2.432 us");
        assert_eq!(Span::from_us(1500).to_string(), "1.5 ms");
        assert_eq!(Span::ZERO.to_string(), "0 ps");
    }
}
