//! Target of a search: bounds on figures, such as `p99<5us, iops>500k`.

use crate::predict::Prediction;
use crate::results::{ClosedBound, FIGURES, Figure, Figures, Unit, find};
use phaselink_core::problem::Problem;
use std::fmt;

/// Relative margin by which randomness may move a figure between two drives of which one is clearly faster.
const MARGIN: f64 = 0.02;
/// Relative margin by which a run may beat the closed form that bounds it.
const CLOSED_FORM_MARGIN: f64 = 0.01;

/// Upper or lower bound on one figure, such as `p99<5us`.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Figure that the bound applies to, such as p99 latency.
    pub figure: &'static Figure,
    is_least: bool,
    /// True if a value equal to the limit meets the bound (`<=` or `>=`).
    is_inclusive: bool,
    limit: f64,
    text: String,
}

/// Target of a search: bounds on figures, all of which a point must meet.
#[derive(Clone, Debug, Default)]
pub struct Target(pub Vec<Bound>);

impl Target {
    /// Parses bounds that are separated by commas, such as `p99<5us,iops>=500k`.
    ///
    /// # Errors
    /// The first text that is not a bound, and the allowed form.
    pub fn parse(text: &str) -> Result<Target, Problem> {
        let bounds = text.split(',').map(|bound| Bound::parse(bound.trim()));
        let bounds: Result<Vec<Bound>, String> = bounds.collect();
        bounds.map(Target).map_err(|found| {
            let allowed = "figures with bounds, as in p99<5us,iops>=500k (docs/sweep.md lists the figures)";
            Problem::new("command line", None, found, allowed)
        })
    }

    /// True if a run meets every bound. An unknown figure meets none.
    pub fn is_met(&self, figures: &Figures) -> bool {
        self.0.iter().all(|bound| figures.get(bound.figure).is_some_and(|value| bound.is_met_by_value(value)))
    }

    /// True if a run misses the target so clearly that no slower drive can meet it: in throughput or latency, and by
    /// more than randomness explains.
    pub fn is_missed_clearly(&self, figures: &Figures) -> bool {
        self.0
            .iter()
            .filter(|bound| bound.demands_speed())
            .any(|bound| figures.get(bound.figure).is_some_and(|value| bound.is_missed_beyond_margin(value, MARGIN)))
    }

    /// True if closed forms show that the target cannot be met. They bound the throughput of a job from above, and its
    /// mean latency from below.
    pub fn is_ruled_out(&self, prediction: &Prediction) -> bool {
        let [job] = &prediction.jobs[..] else { return false };
        let loaded = job.loaded();
        self.0.iter().any(|bound| {
            let best = bound.figure.closed_bound.and_then(|bound| match bound {
                ClosedBound::Throughput => Some(loaded.most_iops),
                ClosedBound::Bandwidth => Some(loaded.most_iops * job.workload.mean_bytes()),
                ClosedBound::MeanLatency => loaded.least_ns,
            });
            bound.demands_speed() && best.is_some_and(|best| bound.is_missed_beyond_margin(best, CLOSED_FORM_MARGIN))
        })
    }
}

impl Bound {
    fn parse(text: &str) -> Result<Bound, String> {
        let at = text.find(['<', '>']).ok_or_else(|| format!("`{text}` without < or >"))?;
        let (name, rest) = (text[..at].trim(), &text[at + 1..]);
        let is_inclusive = rest.starts_with('=');
        let value = rest.trim_start_matches('=').trim();
        let figure = figure(name).ok_or_else(|| format!("`{text}` of the unknown figure `{name}`"))?;
        let is_bare = value.ends_with(|letter: char| letter.is_ascii_digit());
        if figure.unit == Unit::Ns && name != figure.name && is_bare {
            return Err(format!("`{text}` without a unit of time: {name}<{value}us, or {}<{value} in ns", figure.name));
        }
        let limit = number(value, figure.unit).ok_or_else(|| format!("`{text}` with `{value}`"))?;
        Ok(Bound { figure, is_least: text[at..].starts_with('>'), is_inclusive, limit, text: text.into() })
    }

    fn is_met_by_value(&self, value: f64) -> bool {
        match (self.is_least, self.is_inclusive) {
            (true, true) => value >= self.limit,
            (true, false) => value > self.limit,
            (false, true) => value <= self.limit,
            (false, false) => value < self.limit,
        }
    }

    /// True if a value is beyond the limit by more than `margin`, a fraction of the value.
    fn is_missed_beyond_margin(&self, value: f64, margin: f64) -> bool {
        match self.is_least {
            true => value * (1.0 + margin) < self.limit,
            false => value * (1.0 - margin) > self.limit,
        }
    }

    /// True if the bound demands speed: throughput of at least, or latency of at most, a limit. A slower part cannot
    /// help to meet it.
    fn demands_speed(&self) -> bool {
        match self.figure.unit {
            Unit::PerS | Unit::BytesPerS => self.is_least,
            unit => unit == Unit::Ns && !self.is_least,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the figure of this name, which may lack its unit suffix (`p99` for `p99_ns`).
fn figure(name: &str) -> Option<&'static Figure> {
    find(name).or_else(|| {
        let short = |figure: &&Figure| {
            let (start, unit) = figure.name.rsplit_once('_').unwrap_or((figure.name, ""));
            matches!(unit, "ns" | "w") && start == name
        };
        FIGURES.iter().find(short)
    })
}

/// Parses a number with a decimal prefix (`500k`), with a unit of time for latencies (`5us`), or with `%` for shares.
fn number(text: &str, unit: Unit) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let factor = match (unit, suffix.trim()) {
        (_, "") => 1.0,
        (Unit::Ns, "ns") => 1.0,
        (Unit::Ns, "us") => 1e3,
        (Unit::Ns, "ms") => 1e6,
        (Unit::Ns, "s") => 1e9,
        (Unit::Share, "%") => 0.01,
        (Unit::Ns | Unit::Share, _) => return None,
        (_, "k") => 1e3,
        (_, "M") => 1e6,
        (_, "G") => 1e9,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str) -> Bound {
        Target::parse(text).expect("right").0.remove(0)
    }

    #[test]
    fn bounds_accept_figure_names_prefixes_and_units() {
        for (text, name, limit) in [
            ("p99<5us", "p99_ns", 5e3),
            ("p99_9_ns <= 20ms", "p99_9_ns", 2e7),
            ("mean < 0.5s", "mean_ns", 5e8),
            ("iops>500k", "iops", 5e5),
            ("bytes_per_s>=1.5G", "bytes_per_s", 1.5e9),
            ("link_busy_share<80%", "link_busy_share", 0.8),
            ("server<300", "server_w", 300.0),
        ] {
            let bound = bound(text);
            assert_eq!((bound.figure.name, (bound.limit - limit).abs() < 1e-9 * limit), (name, true), "{text}");
        }
        assert_eq!(Target::parse("p99<5us, iops>1").expect("two").0.len(), 2);
        for wrong in ["p99", "p98<5us", "p99<5k", "p99<5", "iops>5us", "p99<", "iops>x", ""] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bounds_are_strict_or_inclusive_as_written() {
        assert!(
            bound("iops>=5").is_met_by_value(5.0)
                && !bound("iops>5").is_met_by_value(5.0)
                && bound("iops>5").is_met_by_value(5.1)
        );
        assert!(
            bound("p99<=5ns").is_met_by_value(5.0)
                && !bound("p99<5ns").is_met_by_value(5.0)
                && bound("p99<5ns").is_met_by_value(4.9)
        );
    }

    #[test]
    fn slower_candidates_are_ruled_out_only_by_a_significant_miss() {
        assert!(
            bound("iops>100").is_missed_beyond_margin(97.0, MARGIN)
                && !bound("iops>100").is_missed_beyond_margin(99.0, MARGIN)
        );
        assert!(
            bound("p99<100ns").is_missed_beyond_margin(103.0, MARGIN)
                && !bound("p99<100ns").is_missed_beyond_margin(101.0, MARGIN)
        );
        assert!(bound("queries_per_s>5").demands_speed() && !bound("queries_per_s<5").demands_speed());
        assert!(
            bound("p99<5ns").demands_speed() && !bound("p99>5ns").demands_speed() && !bound("server<5").demands_speed()
        );
    }
}
