//! Short constructors of time spans, for defaults and bounds in `section!`.

use crate::time::Span;

/// Span of `n` nanoseconds.
pub(crate) const fn ns(n: u64) -> Span {
    Span::from_ns(n)
}

/// Span of `n` microseconds.
pub(crate) const fn us(n: u64) -> Span {
    Span::from_us(n)
}

/// Span of no time, the lower bound of most latencies.
pub(crate) const ZERO: Span = Span::ZERO;

/// Upper bound of any single latency in a drive file: 100 s.
pub(crate) const LONGEST: Span = Span::from_s(100);
