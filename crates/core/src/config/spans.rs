//! Words for defaults and bounds of spans in schemas.

use crate::time::Span;

pub(crate) const fn ns(n: u64) -> Span {
    Span::from_ns(n)
}

pub(crate) const fn us(n: u64) -> Span {
    Span::from_us(n)
}

pub(crate) const ZERO: Span = Span::ZERO;

/// Upper bound of any single latency in a description.
pub(crate) const LONGEST: Span = Span::from_s(100);
