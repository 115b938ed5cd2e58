//! Percentiles of a latency, and what lies between them.

use std::collections::BTreeMap;

use phaselink_core::problem::Problem;

/// Difference below which two quantiles are the same: percentages are divided by 100.
const NEAR: f64 = 1e-9;

/// Latencies by quantile, both rising.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyByQuantile(Vec<(f64, f64)>);

impl LatencyByQuantile {
    /// Takes points of quantile and latency, both rising.
    pub fn new(points: Vec<(f64, f64)>) -> LatencyByQuantile {
        LatencyByQuantile(points)
    }

    /// Reads percentiles that have been checked, as in `p99.9`.
    pub fn of(percentiles: &BTreeMap<String, f64>) -> LatencyByQuantile {
        let mut points: Vec<(f64, f64)> =
            percentiles.iter().filter_map(|(name, us)| Some((percent(name)? / 100.0, *us))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        LatencyByQuantile(points)
    }

    /// Returns what is wrong with percentiles of a file: names, values, or an order that no distribution has.
    pub fn check(file: &str, key: &str, percentiles: &BTreeMap<String, f64>) -> Option<Problem> {
        let refused = |found: String, allowed: &str| Some(Problem::new(file, None, found, allowed));
        if let Some(name) = percentiles.keys().find(|name| percent(name).is_none()) {
            return refused(format!("{key} has `{name}`"), "percentiles from p1 to p99.9999, as in \"p99.9\" = 394");
        }
        let LatencyByQuantile(points) = LatencyByQuantile::of(percentiles);
        let is_rising = points.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        let in_range = points.iter().all(|(_, us)| (0.01..=1e7).contains(us));
        if points.is_empty() || !is_rising || !in_range {
            let values: Vec<String> = points.iter().map(|(_, us)| us.to_string()).collect();
            return refused(
                format!("{key} is {}", values.join(", ")),
                "one latency or more, rising, 0.01 to 10000000 us",
            );
        }
        if !percentiles.contains_key("p50") {
            return refused(format!("{key} has no p50"), "the median, and other percentiles");
        }
        None
    }

    /// All points: quantile and latency.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }

    /// Returns the latency at a quantile between the first and the last point: linear over the logarithm of what lies
    /// beyond, as an exponential tail is.
    pub fn at(&self, quantile: f64) -> Option<f64> {
        let beyond = |quantile: f64| -libm::log(1.0 - quantile);
        let place = self.0.iter().position(|point| point.0 >= quantile - NEAR)?;
        if (self.0[place].0 - quantile).abs() <= NEAR || place == 0 && self.0.len() == 1 {
            return Some(self.0[place].1);
        }
        let (before, after) = (self.0[place.checked_sub(1)?], self.0[place]);
        let part = (beyond(quantile) - beyond(before.0)) / (beyond(after.0) - beyond(before.0));
        Some(before.1 + part * (after.1 - before.1))
    }

    /// Returns the latency at a quantile, or that of the nearest point.
    pub fn near(&self, quantile: f64) -> f64 {
        let ends = [self.0.first(), self.0.last()].map(|point| point.copied().unwrap_or_default());
        self.at(quantile).unwrap_or(if quantile < ends[0].0 { ends[0].1 } else { ends[1].1 })
    }
}

/// Returns the percentage that a name such as `p99.9` stands for.
fn percent(name: &str) -> Option<f64> {
    let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
    (1.0..=99.9999).contains(&percent).then_some(percent)
}
