//! The registry of figures: every number that a run is reduced to, one row each.
//!
//! A run's outcome holds histograms; a sweep of many thousands keeps these few numbers of each instead.

use serde_json::{Map, Value as Json};

use super::percentiles::{P50, P90, P95, P99, P99_9, P99_99, Percentile};
use crate::config::document::Place;
use crate::ledger::{JobOutcome, Latency, Outcome, WireUse};
use crate::problem::Problems;
use crate::spelling::{nearest, question};

/// Unit of a figure, which decides how tables print it and what bounds may be written for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Whole number of requests.
    Requests,
    /// Number of something a second.
    PerS,
    /// Bytes a second.
    BytesPerS,
    /// Nanoseconds.
    Ns,
    /// Share from 0 to 1.
    Share,
    /// Processor cores.
    Cores,
    /// Watts.
    W,
    /// Joules.
    J,
}

/// Figure of a run: a row of the registry.
#[derive(Debug)]
pub struct Figure {
    /// Name in plans and in results for programs; its last word is the unit.
    pub name: &'static str,
    /// Name in tables for people.
    pub heading: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// Explanation, for schemas, stubs and pages.
    pub about: &'static str,
    /// Heading of a column of bare numbers, and the value that such a column prints as 1.
    pub column: (&'static str, f64),
    /// True if cells of `compare --json` have it.
    pub is_in_cells: bool,
    /// False if every run has a value of it.
    pub may_be_unknown: bool,
    reading: Reading,
}

/// How a figure is read from a run.
#[derive(Clone, Copy, Debug)]
enum Reading {
    /// Number that every run has.
    Known(fn(&Measured) -> f64),
    /// Number that some runs do not have.
    Unknown(fn(&Measured) -> Option<f64>),
    /// Statistic of latencies, unknown without requests.
    Of(Requests, fn(&Latency) -> f64),
    /// Percentile of latencies, unknown if no request lies beyond it.
    Percentile(Requests, Percentile),
}

/// Requests of a run whose latencies a figure is about.
#[derive(Clone, Copy, Debug)]
enum Requests {
    All,
    Reads,
    Writes,
}

/// Outcome of a run with the latencies of all its jobs together.
struct Measured<'a> {
    outcome: &'a Outcome,
    all: Latency,
    reads: Latency,
    writes: Latency,
}

/// Number of figures.
const COUNT: usize = 32;

/// Name of the figure that says how well mean and p99 are known.
pub const PRECISION: &str = "precision_share";

/// Every figure, in the order in which results keep them.
///
/// Latencies are those of reads and writes of all jobs together, unless their name begins with one of the two.
pub const FIGURES: [Figure; COUNT] = [
    known("ios", Unit::Requests, |run| run.outcome.ios() as f64, "Number of requests.").headed("requests").in_cells(),
    known("iops", Unit::PerS, |run| run.outcome.iops(), "Requests a second.")
        .headed("IOPS")
        .column("kIOPS", 1e3)
        .in_cells(),
    known("read_iops", Unit::PerS, |run| run.sum(|job| job.read.iops()), "Reads a second.").headed("read IOPS"),
    known("write_iops", Unit::PerS, |run| run.sum(|job| job.write.iops()), "Writes a second.").headed("write IOPS"),
    known("bytes_per_s", Unit::BytesPerS, |run| run.outcome.bytes_per_s(), "User data, in bytes a second.")
        .headed("bandwidth")
        .column("GB/s", 1e9)
        .in_cells(),
    latency("min_ns", Requests::All, |latency| latency.min().as_ns(), "Shortest latency, in ns.")
        .headed("min")
        .in_cells(),
    latency(
        "mean_ns",
        Requests::All,
        Latency::mean_ns,
        "Mean latency, in ns, from the application's call to the completion.",
    )
    .headed("mean")
    .column("mean us", 1e3)
    .in_cells(),
    percentile("p50_ns", Requests::All, P50, "Median latency, in ns.").column("p50", 1e3).in_cells(),
    percentile("p90_ns", Requests::All, P90, "90th percentile of latency, in ns.").in_cells(),
    percentile("p95_ns", Requests::All, P95, "95th percentile of latency, in ns."),
    percentile("p99_ns", Requests::All, P99, "99th percentile of latency, in ns; unknown if no request lies beyond.")
        .column("p99", 1e3)
        .in_cells(),
    percentile(
        "p99_9_ns",
        Requests::All,
        P99_9,
        "99.9th percentile of latency, in ns; unknown if no request lies beyond.",
    )
    .column("p99.9", 1e3)
    .in_cells(),
    percentile(
        "p99_99_ns",
        Requests::All,
        P99_99,
        "99.99th percentile of latency, in ns; unknown if no request lies beyond.",
    ),
    latency("max_ns", Requests::All, |latency| latency.max().as_ns(), "Longest latency, in ns.")
        .headed("max")
        .in_cells(),
    latency("read_mean_ns", Requests::Reads, Latency::mean_ns, "Mean latency of reads, in ns; unknown without reads.")
        .headed("read mean"),
    percentile("read_p50_ns", Requests::Reads, P50, "Median latency of reads, in ns.").headed("read p50"),
    percentile("read_p99_ns", Requests::Reads, P99, "99th percentile of latency of reads, in ns.").headed("read p99"),
    percentile("read_p99_9_ns", Requests::Reads, P99_9, "99.9th percentile of latency of reads, in ns.")
        .headed("read p99.9"),
    latency(
        "write_mean_ns",
        Requests::Writes,
        Latency::mean_ns,
        "Mean latency of writes, in ns; unknown without writes.",
    )
    .headed("write mean"),
    percentile("write_p50_ns", Requests::Writes, P50, "Median latency of writes, in ns.").headed("write p50"),
    percentile("write_p99_ns", Requests::Writes, P99, "99th percentile of latency of writes, in ns.")
        .headed("write p99"),
    percentile("write_p99_9_ns", Requests::Writes, P99_9, "99.9th percentile of latency of writes, in ns.")
        .headed("write p99.9"),
    known(
        "link_busy_share",
        Unit::Share,
        |run| run.link_busy_share(),
        "Utilisation of the busier direction of the link, 0 to 1.",
    )
    .headed("link")
    .in_cells(),
    known(
        "upstream_busy_share",
        Unit::Share,
        |run| run.busy_share(&run.outcome.upstream),
        "Utilisation of the link to the host, 0 to 1.",
    )
    .headed("to host"),
    known(
        "downstream_busy_share",
        Unit::Share,
        |run| run.busy_share(&run.outcome.downstream),
        "Utilisation of the link to the device, 0 to 1.",
    )
    .headed("to device"),
    known("busy_cores", Unit::Cores, |run| run.outcome.busy_cores(), "Cores kept busy, on average over the run.")
        .headed("cores")
        .in_cells(),
    known(
        "cores_per_gb_per_s",
        Unit::Cores,
        |run| run.outcome.cores_per_gb_per_s(),
        "Busy cores for each 10^9 bytes a second of user data.",
    )
    .headed("cores per GB/s"),
    known("server_w", Unit::W, |run| run.outcome.energy.server_w, "Power of the whole server, in watts.")
        .headed("power"),
    known(
        "joules_per_io",
        Unit::J,
        |run| run.outcome.joules_per_io(),
        "Energy of the whole server for each request, in joules.",
    )
    .headed("energy")
    .column("uJ/IO", 1e-6)
    .in_cells(),
    known(
        "joules_per_io_above_idle",
        Unit::J,
        |run| run.outcome.joules_per_io_above_idle(),
        "Energy of the server above that of the idle server, for each request, in joules.",
    )
    .headed("energy above idle")
    .column("active", 1e-6)
    .in_cells(),
    unknown(
        "memory_joules_per_io",
        Unit::J,
        |run| run.outcome.memory_joules_per_io(),
        "Energy of the device's memory for each request, in joules; unknown if the drive file does not say.",
    )
    .headed("energy of memory")
    .in_cells(),
    // A run does not know it: [`Figures::known_to`] adds it.
    unknown(
        PRECISION,
        Unit::Share,
        |_| None,
        "Half width over value of the 95 % confidence intervals of mean and p99, the larger one.",
    )
    .headed("known to"),
];

const fn known(name: &'static str, unit: Unit, read: fn(&Measured) -> f64, about: &'static str) -> Figure {
    figure(name, unit, about, Reading::Known(read))
}

const fn unknown(name: &'static str, unit: Unit, read: fn(&Measured) -> Option<f64>, about: &'static str) -> Figure {
    figure(name, unit, about, Reading::Unknown(read))
}

const fn latency(name: &'static str, of: Requests, read: fn(&Latency) -> f64, about: &'static str) -> Figure {
    figure(name, Unit::Ns, about, Reading::Of(of, read))
}

const fn percentile(name: &'static str, of: Requests, percentile: Percentile, about: &'static str) -> Figure {
    figure(name, Unit::Ns, about, Reading::Percentile(of, percentile)).headed(percentile.heading)
}

const fn figure(name: &'static str, unit: Unit, about: &'static str, reading: Reading) -> Figure {
    let may_be_unknown = !matches!(reading, Reading::Known(_));
    Figure { name, heading: name, unit, about, column: (name, 1.0), is_in_cells: false, may_be_unknown, reading }
}

impl Figure {
    const fn headed(self, heading: &'static str) -> Figure {
        Figure { heading, column: (heading, 1.0), ..self }
    }

    const fn column(self, heading: &'static str, one: f64) -> Figure {
        Figure { column: (heading, one), ..self }
    }

    const fn in_cells(self) -> Figure {
        Figure { is_in_cells: true, ..self }
    }

    /// Returns a value of it for JSON: whole numbers of requests without a point, null if it is unknown.
    pub fn json(&self, value: Option<f64>) -> Json {
        match (self.unit, value) {
            (Unit::Requests, _) => number(value),
            _ => Json::from(value),
        }
    }
}

/// Columns of a plan that names none, and of a page that shows a few figures.
pub const COLUMNS_DEFAULT: [&str; 8] =
    ["iops", "bytes_per_s", "mean_ns", "p50_ns", "p99_ns", "p99_9_ns", "busy_cores", "link_busy_share"];

/// Names of figures in earlier versions, with the current ones.
const EARLIER: [(&str, &str); 4] = [
    ("p999_ns", "p99_9_ns"),
    ("p9999_ns", "p99_99_ns"),
    ("bw_bytes", "bytes_per_s"),
    ("cores_per_gbps", "cores_per_gb_per_s"),
];

/// Returns the current name of a figure, if `name` is one of an earlier version.
pub fn current_name(name: &str) -> Option<&'static str> {
    EARLIER.iter().find(|(earlier, _)| *earlier == name).map(|(_, current)| *current)
}

/// Returns the figure that has this name, or had it in an earlier version.
pub fn find(name: &str) -> Option<&'static Figure> {
    let name = current_name(name).unwrap_or(name);
    FIGURES.iter().find(|figure| figure.name == name)
}

/// Returns a note on a column that is named as in an earlier version.
pub(crate) fn rename_note(name: &str, place: &Place) -> Option<String> {
    let line = place.line.map_or(String::new(), |line| format!(":{line}"));
    current_name(name).map(|current| format!("{}{line}: the column `{name}` is called {current} now", place.file))
}

/// Returns the figures of these names.
///
/// # Errors
/// Each name that no column has, at `place`.
pub(crate) fn columns<'a>(names: impl IntoIterator<Item = (&'a str, Place)>) -> Result<Vec<&'static Figure>, Problems> {
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

impl Measured<'_> {
    fn sum(&self, figure: impl Fn(&JobOutcome) -> f64) -> f64 {
        self.outcome.jobs.iter().map(figure).sum()
    }

    fn busy_share(&self, wire: &WireUse) -> f64 {
        wire.busy_share(self.outcome.elapsed)
    }

    fn link_busy_share(&self) -> f64 {
        self.busy_share(&self.outcome.upstream).max(self.busy_share(&self.outcome.downstream))
    }

    fn latency(&self, of: Requests) -> &Latency {
        match of {
            Requests::All => &self.all,
            Requests::Reads => &self.reads,
            Requests::Writes => &self.writes,
        }
    }

    fn read(&self, reading: Reading) -> Option<f64> {
        match reading {
            Reading::Known(read) => Some(read(self)),
            Reading::Unknown(read) => read(self),
            Reading::Of(of, read) => Some(self.latency(of)).filter(|latency| latency.count() > 0).map(read),
            Reading::Percentile(of, percentile) => percentile.of_ns(self.latency(of)),
        }
    }
}

/// Values of all figures of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures([Option<f64>; COUNT]);

impl Figures {
    /// Reads every figure from an outcome.
    pub fn of(outcome: &Outcome) -> Figures {
        let (mut reads, mut writes) = (Latency::default(), Latency::default());
        for job in &outcome.jobs {
            reads.merge(&job.read.total);
            writes.merge(&job.write.total);
        }
        let mut all = reads.clone();
        all.merge(&writes);
        let measured = Measured { outcome, all, reads, writes };
        Figures(FIGURES.each_ref().map(|figure| measured.read(figure.reading)))
    }

    /// Adds the share to which mean and p99 are known with 95 % confidence, if that can be said.
    pub fn known_to(mut self, share: Option<f64>) -> Figures {
        let place = FIGURES.iter().position(|figure| figure.name == PRECISION);
        if let Some(value) = place.and_then(|place| self.0.get_mut(place)) {
            *value = share;
        }
        self
    }

    /// Returns the value of a figure; none if it is unknown.
    pub fn get(&self, figure: &Figure) -> Option<f64> {
        FIGURES.iter().zip(self.0).find(|(known, _)| known.name == figure.name).and_then(|(_, value)| value)
    }

    /// Returns values by name, null for unknown ones.
    pub(crate) fn to_json(&self) -> Map<String, Json> {
        FIGURES.iter().zip(self.0).map(|(figure, value)| (figure.name.into(), number(value))).collect()
    }

    /// Reads values by name; none unless every figure is there.
    pub(crate) fn from_json(object: &Map<String, Json>) -> Option<Figures> {
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

/// Returns a number for JSON; whole ones are written without a point, unknown ones are null.
pub fn number(value: Option<f64>) -> Json {
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
    fn percentiles_of_figures_have_the_names_of_the_list() {
        for figure in &FIGURES {
            let Reading::Percentile(_, percentile) = figure.reading else { continue };
            assert!(figure.name.ends_with(&format!("{}_ns", percentile.name)), "{}", figure.name);
            assert!(figure.heading.ends_with(percentile.heading), "{}", figure.name);
        }
    }

    #[test]
    fn the_page_of_sweeps_lists_every_figure() {
        let page = include_str!("../../../../docs/sweep.md");
        let head = "| name | table | figure |\n|---|---|---|\n";
        let (before, rest) = page.split_once(head).expect("a table of figures");
        let (_, after) = rest.split_once("\n\n").expect("an end of the table");
        let row = |figure: &Figure| format!("| `{}` | {} | {} |", figure.name, figure.heading, figure.about);
        let rows: Vec<String> = FIGURES.iter().map(row).collect();
        expect_test::expect_file!["../../../../docs/sweep.md"]
            .assert_eq(&format!("{before}{head}{}\n\n{after}", rows.join("\n")));
    }

    #[test]
    fn latencies_of_a_direction_are_those_of_its_requests_alone() {
        let outcome = crate::tests::sample::outcome();
        let figures = Figures::of(&outcome);
        let get = |name: &str| figures.get(find(name).unwrap());
        assert_eq!(get("read_mean_ns"), Some(outcome.jobs[0].read.total.mean_ns()));
        assert_eq!(get("write_mean_ns"), Some(outcome.jobs[0].write.total.mean_ns()));
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
