//! What a run is reduced to: one number for each column of a sweep.
//!
//! A run's outcome holds histograms; a sweep of many thousands keeps these few numbers of each instead.

use serde_json::{Map, Value as Json};

use crate::config::document::Place;
use crate::ledger::{Latency, Outcome, WireUse};
use crate::problem::Problems;
use crate::report::names::renamed;
use crate::report::units;
use crate::spelling::{nearest, question};
use crate::time::Span;

/// In what a figure is counted, which decides how a table prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Plain number.
    Count,
    BytesPerS,
    Ns,
    /// 0 to 1.
    Share,
    Cores,
    W,
    J,
}

/// A column that a sweep can have.
#[derive(Debug)]
pub struct Figure {
    /// Name in plans and in results for programs; its last word is the unit.
    pub name: &'static str,
    /// Name in tables for people.
    pub heading: &'static str,
    pub unit: Unit,
    read: fn(&Measured) -> Option<f64>,
}

/// All requests of a run together.
struct Measured<'a> {
    outcome: &'a Outcome,
    latency: Latency,
    read: Latency,
    write: Latency,
}

const fn figure(name: &'static str, heading: &'static str, unit: Unit, read: fn(&Measured) -> Option<f64>) -> Figure {
    Figure { name, heading, unit, read }
}

/// Number of figures.
const COUNT: usize = 30;

/// The figure that says how well mean and p99 are known.
pub const PRECISION: &str = "precision_share";

/// Every figure, in the order in which results keep them.
///
/// Latencies are those of reads and writes of all jobs together, unless their name begins with one of the two. A percentile that no request lies beyond is
/// unknown.
pub const FIGURES: [Figure; COUNT] = [
    figure("ios", "requests", Unit::Count, |run| Some(run.outcome.ios() as f64)),
    figure("iops", "IOPS", Unit::Count, |run| Some(run.outcome.iops())),
    figure("read_iops", "read IOPS", Unit::Count, |run| Some(run.sum(|job| job.read.iops()))),
    figure("write_iops", "write IOPS", Unit::Count, |run| Some(run.sum(|job| job.write.iops()))),
    figure("bytes_per_s", "bandwidth", Unit::BytesPerS, |run| Some(run.outcome.bytes_per_s())),
    figure("min_ns", "min", Unit::Ns, |run| run.known(run.latency.min())),
    figure("mean_ns", "mean", Unit::Ns, |run| mean_ns(&run.latency)),
    figure("p50_ns", "p50", Unit::Ns, |run| percentile_ns(&run.latency, 50.0)),
    figure("p90_ns", "p90", Unit::Ns, |run| percentile_ns(&run.latency, 90.0)),
    figure("p95_ns", "p95", Unit::Ns, |run| percentile_ns(&run.latency, 95.0)),
    figure("p99_ns", "p99", Unit::Ns, |run| percentile_ns(&run.latency, 99.0)),
    figure("p99_9_ns", "p99.9", Unit::Ns, |run| percentile_ns(&run.latency, 99.9)),
    figure("p99_99_ns", "p99.99", Unit::Ns, |run| percentile_ns(&run.latency, 99.99)),
    figure("max_ns", "max", Unit::Ns, |run| run.known(run.latency.max())),
    figure("read_mean_ns", "read mean", Unit::Ns, |run| mean_ns(&run.read)),
    figure("read_p50_ns", "read p50", Unit::Ns, |run| percentile_ns(&run.read, 50.0)),
    figure("read_p99_ns", "read p99", Unit::Ns, |run| percentile_ns(&run.read, 99.0)),
    figure("read_p99_9_ns", "read p99.9", Unit::Ns, |run| percentile_ns(&run.read, 99.9)),
    figure("write_mean_ns", "write mean", Unit::Ns, |run| mean_ns(&run.write)),
    figure("write_p50_ns", "write p50", Unit::Ns, |run| percentile_ns(&run.write, 50.0)),
    figure("write_p99_ns", "write p99", Unit::Ns, |run| percentile_ns(&run.write, 99.0)),
    figure("write_p99_9_ns", "write p99.9", Unit::Ns, |run| percentile_ns(&run.write, 99.9)),
    figure("busy_cores", "cores", Unit::Cores, |run| Some(run.outcome.busy_cores())),
    figure("cores_per_gb_per_s", "cores per GB/s", Unit::Cores, |run| Some(run.outcome.cores_per_gb_per_s())),
    figure("link_busy_share", "link", Unit::Share, |run| {
        Some(run.busy_share(&run.outcome.upstream).max(run.busy_share(&run.outcome.downstream)))
    }),
    figure("upstream_busy_share", "to host", Unit::Share, |run| Some(run.busy_share(&run.outcome.upstream))),
    figure("downstream_busy_share", "to device", Unit::Share, |run| Some(run.busy_share(&run.outcome.downstream))),
    figure("server_w", "power", Unit::W, |run| Some(run.outcome.energy.server_w)),
    figure("joules_per_io", "energy", Unit::J, |run| Some(run.outcome.joules_per_io())),
    // Of a run until a precision is reached alone, which [`Figures::known_to`] knows.
    figure(PRECISION, "known to", Unit::Share, |_| None),
];

/// Columns of a plan that names none.
pub const COLUMNS_DEFAULT: [&str; 8] =
    ["iops", "bytes_per_s", "mean_ns", "p50_ns", "p99_ns", "p99_9_ns", "busy_cores", "link_busy_share"];

/// The figure that has this name, or had it once.
pub fn find(name: &str) -> Option<&'static Figure> {
    let name = renamed(name).unwrap_or(name);
    FIGURES.iter().find(|figure| figure.name == name)
}

/// What to tell of a column by a name that it had once.
pub(super) fn rename_note(name: &str, place: &Place) -> Option<String> {
    let line = place.line.map_or(String::new(), |line| format!(":{line}"));
    renamed(name).map(|current| format!("{}{line}: the column `{name}` is called {current} now", place.file))
}

/// The columns of these names.
///
/// # Errors
/// Each name that no column has, at `place`.
pub(super) fn columns<'a>(names: impl IntoIterator<Item = (&'a str, Place)>) -> Result<Vec<&'static Figure>, Problems> {
    let mut problems = Problems::default();
    let mut columns = Vec::new();
    for (name, place) in names {
        match find(name) {
            Some(figure) => columns.push(figure),
            None => {
                let known: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
                let meant = question(nearest(name, known.iter().copied()));
                problems.0.push(place.problem(format!("there is no column `{name}`{meant}"), known.join(", ")));
            }
        }
    }
    problems.or(columns)
}

impl Figure {
    /// `value` as a table shows it.
    pub fn shown(&self, value: Option<f64>) -> String {
        let Some(value) = value else {
            return String::from("unknown");
        };
        match self.unit {
            Unit::Count => units::count(value),
            Unit::BytesPerS => units::quantity(value, "B/s"),
            Unit::Ns => units::quantity(value / 1e9, "s"),
            Unit::Share => units::percent(value),
            Unit::Cores => format!("{value:.2}"),
            Unit::W => units::quantity(value, "W"),
            Unit::J => units::quantity(value, "J"),
        }
    }
}

impl Measured<'_> {
    fn sum(&self, figure: impl Fn(&crate::ledger::JobOutcome) -> f64) -> f64 {
        self.outcome.jobs.iter().map(figure).sum()
    }

    fn known(&self, span: Span) -> Option<f64> {
        (self.latency.count() > 0).then(|| span.as_ns())
    }

    fn busy_share(&self, wire: &WireUse) -> f64 {
        wire.busy_share(self.outcome.elapsed)
    }
}

/// None of no requests.
fn mean_ns(latency: &Latency) -> Option<f64> {
    (latency.count() > 0).then(|| latency.mean_ns())
}

fn percentile_ns(latency: &Latency, percent: f64) -> Option<f64> {
    latency.known_percentile(percent).map(Span::as_ns)
}

/// The figures of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures([Option<f64>; COUNT]);

impl Figures {
    /// What is kept of an outcome.
    pub fn of(outcome: &Outcome) -> Figures {
        let (mut read, mut write) = (Latency::default(), Latency::default());
        for job in &outcome.jobs {
            read.merge(&job.read.total);
            write.merge(&job.write.total);
        }
        let mut latency = read.clone();
        latency.merge(&write);
        let measured = Measured { outcome, latency, read, write };
        Figures(FIGURES.each_ref().map(|figure| (figure.read)(&measured)))
    }

    /// The same of a run whose mean and p99 are known to this share with 95 % confidence, if that can be said.
    pub fn known_to(mut self, share: Option<f64>) -> Figures {
        let place = FIGURES.iter().position(|figure| figure.name == PRECISION);
        if let Some(value) = place.and_then(|place| self.0.get_mut(place)) {
            *value = share;
        }
        self
    }

    /// The value in a column; none if it is unknown.
    pub fn get(&self, figure: &Figure) -> Option<f64> {
        FIGURES.iter().zip(self.0).find(|(known, _)| known.name == figure.name).and_then(|(_, value)| value)
    }

    /// By name, null for unknown ones.
    pub(super) fn to_json(&self) -> Map<String, Json> {
        FIGURES.iter().zip(self.0).map(|(figure, value)| (figure.name.into(), number(value))).collect()
    }

    /// None unless every figure is there.
    pub(super) fn from_json(object: &Map<String, Json>) -> Option<Figures> {
        let mut values = [None; COUNT];
        for (figure, value) in FIGURES.iter().zip(&mut values) {
            *value = match object.get(figure.name)? {
                Json::Null => None,
                number => Some(number.as_f64()?),
            };
        }
        Some(Figures(values))
    }
}

/// A number for JSON; whole ones are written without a point.
pub(super) fn number(value: Option<f64>) -> Json {
    match value {
        Some(value) if value.fract() == 0.0 && value.abs() < 2f64.powi(53) => Json::from(value as i64),
        Some(value) => Json::from(value),
        None => Json::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_name_of_its_own_and_the_defaults_exist() {
        for (place, figure) in FIGURES.iter().enumerate() {
            assert!(FIGURES[..place].iter().all(|other| other.name != figure.name), "{}", figure.name);
        }
        assert!(COLUMNS_DEFAULT.iter().all(|name| find(name).is_some()));
    }

    #[test]
    fn an_earlier_name_finds_the_same_figure_with_a_note() {
        assert_eq!(find("p999_ns").unwrap().name, "p99_9_ns");
        let note = rename_note("p999_ns", &Place { file: "p.toml".into(), line: Some(3) });
        assert_eq!(note.as_deref(), Some("p.toml:3: the column `p999_ns` is called p99_9_ns now"));
        assert_eq!(rename_note("p99_9_ns", &Place::whole("p.toml")), None);
    }

    #[test]
    fn the_percentiles_are_those_of_all_results() {
        use crate::report::names::PERCENTILES;
        assert!(PERCENTILES.iter().all(|(name, _)| find(name).is_some_and(|figure| figure.name == *name)));
    }

    #[test]
    fn latencies_of_a_direction_are_those_of_its_requests_alone() {
        let outcome = crate::tests::sample::outcome();
        let figures = Figures::of(&outcome);
        let get = |name: &str| figures.get(find(name).unwrap());
        assert_eq!(get("read_mean_ns"), Some(outcome.jobs[0].read.total.mean_ns()));
        assert_eq!(get("write_mean_ns"), mean_ns(&outcome.jobs[0].write.total));
        assert_ne!(get("read_mean_ns"), get("mean_ns"));
    }

    #[test]
    fn figures_read_back_from_json_to_the_last_bit() {
        let values = [0.1 + 0.2, 1e300, 5e-324, 1.0 / 3.0, 123_456_789.123_456_79, 2f64.powi(60)];
        for value in values {
            let figures = Figures([Some(value); COUNT]);
            let text = Json::Object(figures.to_json()).to_string();
            let object: Map<String, Json> = serde_json::from_str(&text).unwrap();
            assert_eq!(Figures::from_json(&object), Some(figures), "{value:?}");
        }
    }

    #[test]
    fn a_missing_figure_makes_a_line_worthless() {
        let mut object = Figures([None; COUNT]).to_json();
        assert!(Figures::from_json(&object).is_some());
        object.shift_remove("iops");
        assert!(Figures::from_json(&object).is_none());
    }
}
