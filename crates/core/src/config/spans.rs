//! Short constructors of time spans, for defaults and bounds of keys in `section!`.

use crate::time::Span;

/// Returns a time span of `n` nanoseconds.
pub(crate) const fn ns(n: u64) -> Span {
    Span::from_ns(n)
}

/// Returns a time span of `n` microseconds.
pub(crate) const fn us(n: u64) -> Span {
    Span::from_us(n)
}

/// Time span of length zero, the lower bound of most latencies.
pub(crate) const ZERO: Span = Span::ZERO;

/// Largest value of any single latency in a drive file: 100 s.
pub(crate) const LONGEST: Span = Span::from_s(100);
