//! Latency percentiles that results contain.

use phaselink_core::ledger::Latency;
use phaselink_core::time::Span;

/// Latency percentile that results contain, such as p99, with its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// Name of the percentile in machine-readable results, such as `p99_9`.
    pub name: &'static str,
    /// Name of the percentile in tables for people, such as `p99.9`.
    pub heading: &'static str,
    /// Percentage of requests whose latency is at most the percentile.
    pub percent: f64,
    /// True if tables for people have a column for this percentile.
    is_in_tables: bool,
}

pub(super) const P50: Percentile = percentile("p50", "p50", 50.0).in_tables();
pub(super) const P90: Percentile = percentile("p90", "p90", 90.0);
pub(super) const P95: Percentile = percentile("p95", "p95", 95.0);
pub(super) const P99: Percentile = percentile("p99", "p99", 99.0).in_tables();
pub(super) const P99_9: Percentile = percentile("p99_9", "p99.9", 99.9).in_tables();
pub(super) const P99_99: Percentile = percentile("p99_99", "p99.99", 99.99);

/// All latency percentiles of results, in ascending order. fio's output has a list of its own (`report/fio.rs`).
pub const PERCENTILES: [Percentile; 8] =
    [percentile("p1", "p1", 1.0), P50, P90, P95, P99, P99_9, P99_99, percentile("p99_999", "p99.999", 99.999)];

/// Returns the latency percentiles that tables for people show.
pub fn in_tables() -> impl Iterator<Item = &'static Percentile> + Clone {
    PERCENTILES.iter().filter(|percentile| percentile.is_in_tables)
}

const fn percentile(name: &'static str, heading: &'static str, percent: f64) -> Percentile {
    Percentile { name, heading, percent, is_in_tables: false }
}

impl Percentile {
    const fn in_tables(self) -> Percentile {
        Percentile { is_in_tables: true, ..self }
    }

    /// Returns the percentile whose name with unit is given, such as `p99_9_ns`, or `None`.
    pub fn named(name: &str) -> Option<&'static Percentile> {
        let name = name.strip_suffix("_ns")?;
        PERCENTILES.iter().find(|percentile| percentile.name == name)
    }

    /// Returns this percentile of latencies; `None` if too few independent requests lie beyond it.
    pub fn of(&self, latency: &Latency) -> Option<Span> {
        latency.estimate(self.percent).ok().map(|known| known.value)
    }

    /// Returns this percentile of latencies in nanoseconds; `None` if too few independent requests lie beyond it.
    pub fn of_ns(&self, latency: &Latency) -> Option<f64> {
        self.of(latency).map(Span::as_ns)
    }
}
