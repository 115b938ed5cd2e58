//! Registry of figures: all numbers to which a run is reduced, one row each.
//!
//! The outcome of a run holds histograms. A sweep of many thousand runs keeps only these few numbers of each.

use serde_json::{Map, Value as Json};

use super::percentiles::{P50, P90, P95, P99, P99_9, P99_99, Percentile};
use super::places::{ClosedBound, CompareTable, RunFigureGroup};
use phaselink_core::config::document::Place;
use phaselink_core::fabric::TARGET_CORES;
use phaselink_core::ledger::{JobOutcome, Latency, Outcome, PercentileEstimate, TooFewRequests, WireUse};
use phaselink_core::number::real;
use phaselink_core::problem::Problems;
use phaselink_core::spelling::{nearest, question};

/// Unit of a figure. It decides how tables print the figure and which bounds a user may write for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Count of requests, a whole number.
    Requests,
    /// Rate: number of events per second.
    PerS,
    /// Bandwidth in bytes per second.
    BytesPerS,
    /// Time in nanoseconds.
    Ns,
    /// Fraction from 0 to 1.
    Share,
    /// Number of processor cores.
    Cores,
    /// Power in watts.
    W,
    /// Energy in joules.
    J,
}

/// Figure of a run, such as mean latency: one row of the registry.
#[derive(Debug)]
pub struct Figure {
    /// Name of the figure in plans and machine-readable results; its last word is the unit.
    pub name: &'static str,
    /// Name of the figure in tables for people.
    pub heading: &'static str,
    /// Unit of the figure's values.
    pub unit: Unit,
    /// Explanation of the figure, for schemas, stubs and pages.
    pub about: &'static str,
    /// Heading of a column of plain numbers, and the value of the figure that such a column prints as 1.
    pub column: (&'static str, f64),
    /// True if the cells of `compare --json` contain this figure.
    pub is_in_cells: bool,
    /// Place among the columns of a sweep whose plan lists none; `None` if it has no column for this figure.
    in_sweeps: Option<u8>,
    /// True if the prediction intervals of a run (`--intervals`) have a row for this figure.
    pub is_in_intervals: bool,
    /// Part of a run's document and of its host table that contains this figure, and the figure's name in the table.
    pub in_run: Option<(RunFigureGroup, &'static str)>,
    /// Name of the figure in the tiles at the top of a run's page; `None` if it has no tile.
    pub tile: Option<&'static str>,
    /// Place among the columns of a comparison's tables, from left to right, and the tables that have the figure.
    in_compare: (u8, &'static [CompareTable]),
    /// Bound on this figure by closed forms; `None` if there is none.
    pub closed_bound: Option<ClosedBound>,
    /// True if some runs have no value of this figure.
    pub may_be_unknown: bool,
    reading: FigureFormula,
}

/// Way in which a figure is computed from the outcome of a run.
#[derive(Clone, Copy, Debug)]
enum FigureFormula {
    /// Function that computes the figure of a run, for figures that every run has.
    Known(fn(&MeasuredRun) -> f64),
    /// Function that computes the figure of a run, or `None` for runs that do not have it.
    Unknown(fn(&MeasuredRun) -> Option<f64>),
    /// Statistic of the latencies of some requests; unknown if there are no such requests.
    Of(LatencySource, fn(&Latency) -> f64),
    /// Percentile of the latencies of some requests; unknown if too few independent requests lie beyond it.
    Percentile(LatencySource, Percentile),
}

/// Requests of a run from whose latencies a figure is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LatencySource {
    All,
    Reads,
    Writes,
    Flushes,
    Commits,
    Queries,
}

/// Outcome of a run, with the latencies of all its jobs merged by kind of request.
struct MeasuredRun<'a> {
    outcome: &'a Outcome,
    all: Latency,
    reads: Latency,
    writes: Latency,
    flushes: Latency,
    commits: Latency,
    queries: Latency,
}

/// Name of the figure for the relative precision of mean and p99 latency.
pub const PRECISION: &str = "precision_share";

/// Defines the registry from rows of explanation, name, and the rest of the figure.
macro_rules! figures {
    ($(#[doc = $about:literal] $name:ident: $figure:expr;)+) => {
        /// Number of figures (such as mean latency) to which each run is reduced.
        const COUNT: usize = [$(stringify!($name)),+].len();

        /// All figures of a run, in the order in which results list them.
        ///
        /// Latencies cover reads and writes of all jobs together, unless the figure's name begins with a kind of
        /// request.
        pub const FIGURES: [Figure; COUNT] = {
            use CompareTable::{Alike, Commits, Energy, Intervals, Mixes, Queries};
            [$(Figure { name: stringify!($name), about: $about.trim_ascii(), ..$figure }),+]
        };
    };
}

figures! {
    /// Number of reads and writes completed in all jobs, without warm-up and ramp.
    ios: known("requests", Unit::Requests, |run| real(run.outcome.ios()));
    /// Throughput of reads and writes, in requests a second.
    iops: known("IOPS", Unit::PerS, |run| run.outcome.iops())
        .column("kIOPS", 1e3).in_sweeps(1).in_intervals().tile("requests a second").in_compare(50, &[Alike, Intervals]).bounded_by(ClosedBound::Throughput);
    /// Throughput of reads, in requests a second.
    read_iops: known("read IOPS", Unit::PerS, |run| run.sum(|job| job.read.iops()))
        .column("read kIOPS", 1e3).in_compare(51, &[Mixes, Queries]);
    /// Throughput of writes, in requests a second.
    write_iops: known("write IOPS", Unit::PerS, |run| run.sum(|job| job.write.iops())).column("write kIOPS", 1e3).in_compare(52, &[Mixes]);
    /// Bandwidth of user data that reads and writes transfer, in bytes a second.
    bytes_per_s: known("bandwidth", Unit::BytesPerS, |run| run.outcome.bytes_per_s())
        .column("GB/s", 1e9).in_sweeps(2).in_intervals().tile("user data").in_compare(60, &[Alike, Mixes, Intervals]).bounded_by(ClosedBound::Bandwidth);
    /// Shortest latency of a read or write, in ns; unknown without requests.
    min_ns: latency("min", LatencySource::All, |latency| latency.min().as_ns());
    /// Mean latency of reads and writes, in ns, from the time at which the application wants a request to its completion.
    mean_ns: latency("mean", LatencySource::All, Latency::mean_ns)
        .column("mean us", 1e3).in_sweeps(3).in_intervals().in_compare(20, &[Alike, Intervals]).bounded_by(ClosedBound::MeanLatency);
    /// Median latency of reads and writes, in ns; unknown with too few independent requests beyond it.
    p50_ns: percentile("p50", LatencySource::All, P50).in_sweeps(4).in_intervals().in_compare(21, &[Alike]);
    /// 90th percentile of the latency of reads and writes, in ns; unknown with too few independent requests beyond it.
    p90_ns: percentile("p90", LatencySource::All, P90);
    /// 95th percentile of the latency of reads and writes, in ns; unknown with too few independent requests beyond it.
    p95_ns: percentile("p95", LatencySource::All, P95).outside_cells();
    /// 99th percentile of the latency of reads and writes, in ns; unknown with too few independent requests beyond it.
    p99_ns: percentile("p99", LatencySource::All, P99).in_sweeps(5).in_intervals().in_compare(22, &[Alike, Intervals]);
    /// 99.9th percentile of the latency of reads and writes, in ns; unknown with too few independent requests beyond it.
    p99_9_ns: percentile("p99.9", LatencySource::All, P99_9).in_sweeps(6).in_intervals().in_compare(23, &[Alike, Intervals]);
    /// 99.99th percentile of the latency of reads and writes, in ns; unknown with too few independent requests beyond it.
    p99_99_ns: percentile("p99.99", LatencySource::All, P99_99).in_intervals().in_compare(24, &[Alike]);
    /// Mean latency of the slowest 1 % of reads and writes, in ns, which varies less between runs than p99.9 or the longest; unknown if no request is slower than p99.
    beyond_p99_mean_ns: unknown("mean beyond p99", Unit::Ns, |run| run.all.mean_beyond_ns(P99.percent)).column("beyond p99 us", 1e3);
    /// Longest latency of a read or write, in ns; unknown without requests.
    max_ns: latency("max", LatencySource::All, |latency| latency.max().as_ns());
    /// Mean latency of reads, in ns; unknown without reads.
    read_mean_ns: latency("read mean", LatencySource::Reads, Latency::mean_ns).column("read mean us", 1e3).in_compare(30, &[Mixes, Queries]);
    /// Median latency of reads, in ns; unknown with too few independent ones beyond it.
    read_p50_ns: percentile("read p50", LatencySource::Reads, P50);
    /// 99th percentile of the latency of reads, in ns; unknown with too few independent ones beyond it.
    read_p99_ns: percentile("read p99", LatencySource::Reads, P99).in_intervals().in_compare(31, &[Mixes]);
    /// 99.9th percentile of the latency of reads, in ns; unknown with too few independent ones beyond it.
    read_p99_9_ns: percentile("read p99.9", LatencySource::Reads, P99_9).in_intervals().in_compare(34, &[Mixes]);
    /// 99.99th percentile of the latency of reads, in ns; unknown with too few independent ones beyond it.
    read_p99_99_ns: percentile("read p99.99", LatencySource::Reads, P99_99).in_intervals().in_compare(35, &[Mixes]);
    /// Mean latency of writes, in ns; unknown without writes.
    write_mean_ns: latency("write mean", LatencySource::Writes, Latency::mean_ns)
        .column("write mean us", 1e3).in_compare(32, &[Mixes, Commits]);
    /// Median latency of writes, in ns; unknown with too few independent ones beyond it.
    write_p50_ns: percentile("write p50", LatencySource::Writes, P50);
    /// 99th percentile of the latency of writes, in ns; unknown with too few independent ones beyond it.
    write_p99_ns: percentile("write p99", LatencySource::Writes, P99).in_intervals().in_compare(33, &[Mixes]);
    /// 99.9th percentile of the latency of writes, in ns; unknown with too few independent ones beyond it.
    write_p99_9_ns: percentile("write p99.9", LatencySource::Writes, P99_9).in_intervals();
    /// 99.99th percentile of the latency of writes, in ns; unknown with too few independent ones beyond it.
    write_p99_99_ns: percentile("write p99.99", LatencySource::Writes, P99_99).in_intervals();
    /// Number of flushes that the host sends to the drive.
    flushes: known("flushes", Unit::Requests, |run| real(run.flushes.count())).in_compare(41, &[Commits]);
    /// Mean latency of flushes that the host sends to the drive, in ns; unknown without flushes.
    flush_mean_ns: latency("flush mean", LatencySource::Flushes, Latency::mean_ns).column("flush mean us", 1e3).in_compare(40, &[Commits]);
    /// 99th percentile of the latency of flushes, in ns; unknown with too few independent ones beyond it.
    flush_p99_ns: percentile("flush p99", LatencySource::Flushes, P99);
    /// Number of commits: flushes by the application after at least one write, even if the drive needs no flush command.
    commits: known("commits", Unit::Requests, |run| real(run.commits.count())).in_compare(12, &[Commits]);
    /// Mean latency of commits, in ns, from the first write since the previous flush to the end of the flush; unknown without commits.
    commit_mean_ns: latency("commit mean", LatencySource::Commits, Latency::mean_ns).column("commit mean us", 1e3).in_compare(10, &[Commits]);
    /// Median latency of commits (writes and the flush that follows), in ns; unknown with too few independent ones beyond it.
    commit_p50_ns: percentile("commit p50", LatencySource::Commits, P50);
    /// 99th percentile of the latency of commits (writes and the flush that follows), in ns; unknown with too few independent ones beyond it.
    commit_p99_ns: percentile("commit p99", LatencySource::Commits, P99).in_compare(11, &[Commits]);
    /// Number of queries: rounds of reads in which each round waits for the results of the previous one.
    queries: known("queries", Unit::Requests, |run| real(run.queries.count()));
    /// Throughput of queries (rounds of dependent reads), in queries a second.
    queries_per_s: known("queries a second", Unit::PerS, |run| run.sum(JobOutcome::queries_per_s))
        .column("queries/s", 1.0).in_compare(12, &[Queries]);
    /// Mean latency of queries, in ns, from the first read to the end of the last round of dependent reads; unknown without queries.
    query_mean_ns: latency("query mean", LatencySource::Queries, Latency::mean_ns).column("query mean us", 1e3).in_compare(10, &[Queries]);
    /// Median latency of queries (rounds of dependent reads), in ns; unknown with too few independent ones beyond it.
    query_p50_ns: percentile("query p50", LatencySource::Queries, P50);
    /// 99th percentile of the latency of queries (rounds of dependent reads), in ns; unknown with too few independent ones beyond it.
    query_p99_ns: percentile("query p99", LatencySource::Queries, P99).in_compare(11, &[Queries]);
    /// Utilisation of the busier direction of the PCI Express link, 0 to 1.
    link_busy_share: known("link busy", Unit::Share, |run| run.link_busy_share()).in_sweeps(8);
    /// Utilisation of the PCI Express link in the direction from device to host, 0 to 1.
    upstream_busy_share: known("to host", Unit::Share, |run| run.busy_share(&run.outcome.upstream)).outside_cells();
    /// Utilisation of the PCI Express link in the direction from host to device, 0 to 1.
    downstream_busy_share: known("to device", Unit::Share, |run| run.busy_share(&run.outcome.downstream)).outside_cells();
    /// Mean number of busy cores of the host during the run; spinning for completions counts as busy.
    busy_cores: known("cores", Unit::Cores, |run| run.outcome.busy_cores())
        .in_sweeps(7).in_intervals().in_run(RunFigureGroup::Cores, "cores busy").in_compare(70, &[Alike, Mixes, Queries, Intervals]);
    /// Busy cores of the host divided by the bandwidth of user data in 10^9 bytes a second; 0 without data.
    cores_per_gb_per_s: known("cores per GB/s", Unit::Cores, |run| run.outcome.cores_per_gb_per_s())
        .in_run(RunFigureGroup::Processor, "cores per GB/s").outside_cells();
    /// Mean number of busy cores of the target of NVMe over Fabrics during the run; unknown if the drive is in its host.
    busy_target_cores: unknown("target cores", Unit::Cores, |run| run.outcome.mean_busy_parts(TARGET_CORES))
        .in_run(RunFigureGroup::Processor, "target cores busy").outside_cells();
    /// Mean power of the whole server during the run, in watts; unknown if the drive file gives no power of the idle server.
    server_w: unknown("power", Unit::W, |run| Some(run.outcome.energy?.server_w))
        .in_intervals().in_run(RunFigureGroup::Power, "server power").outside_cells();
    /// Energy of the whole server for each read or write, in joules; unknown if the drive file gives no power of the idle server.
    joules_per_io: unknown("energy", Unit::J, |run| run.outcome.joules_per_io())
        .column("uJ/IO", 1e-6).in_intervals().in_run(RunFigureGroup::Energy, "energy per request").in_compare(80, &[Energy, Intervals]);
    /// Energy of the server beyond that of the idle server, for each read or write, in joules; unknown without the power of the idle server.
    joules_per_io_above_idle: unknown("energy above idle", Unit::J, |run| run.outcome.joules_per_io_above_idle())
        .column("active", 1e-6).in_compare(81, &[Energy]);
    /// Energy of the device's memory medium for each read or write, in joules; unknown if the drive file gives no energy of an access.
    memory_joules_per_io: unknown("energy of memory", Unit::J, |run| run.outcome.memory_joules_per_io())
        .in_run(RunFigureGroup::Energy, "  and in the memory");
    /// Relative precision: half width of the 95 % confidence interval over the value, the larger of mean and p99 latency; known for runs with `--precision`.
    precision_share: unknown("known to", Unit::Share, |_| None).outside_cells();
}

const fn known(heading: &'static str, unit: Unit, read: fn(&MeasuredRun) -> f64) -> Figure {
    figure(heading, unit, FigureFormula::Known(read))
}

const fn unknown(heading: &'static str, unit: Unit, read: fn(&MeasuredRun) -> Option<f64>) -> Figure {
    figure(heading, unit, FigureFormula::Unknown(read))
}

const fn latency(heading: &'static str, of: LatencySource, read: fn(&Latency) -> f64) -> Figure {
    figure(heading, Unit::Ns, FigureFormula::Of(of, read))
}

const fn percentile(heading: &'static str, of: LatencySource, percentile: Percentile) -> Figure {
    figure(heading, Unit::Ns, FigureFormula::Percentile(of, percentile)).column(heading, 1e3)
}

const fn figure(heading: &'static str, unit: Unit, reading: FigureFormula) -> Figure {
    let may_be_unknown = !matches!(reading, FigureFormula::Known(_));
    let column = (heading, 1.0);
    Figure {
        name: "",
        heading,
        unit,
        about: "",
        column,
        is_in_cells: true,
        in_sweeps: None,
        is_in_intervals: false,
        in_run: None,
        tile: None,
        in_compare: (0, &[]),
        closed_bound: None,
        may_be_unknown,
        reading,
    }
}

impl Figure {
    const fn column(self, heading: &'static str, one: f64) -> Figure {
        Figure { column: (heading, one), ..self }
    }

    const fn outside_cells(self) -> Figure {
        Figure { is_in_cells: false, ..self }
    }

    const fn in_sweeps(self, place: u8) -> Figure {
        Figure { in_sweeps: Some(place), ..self }
    }

    const fn in_intervals(self) -> Figure {
        Figure { is_in_intervals: true, ..self }
    }

    const fn in_run(self, part: RunFigureGroup, heading: &'static str) -> Figure {
        Figure { in_run: Some((part, heading)), ..self }
    }

    const fn tile(self, heading: &'static str) -> Figure {
        Figure { tile: Some(heading), ..self }
    }

    const fn in_compare(self, place: u8, tables: &'static [CompareTable]) -> Figure {
        Figure { in_compare: (place, tables), ..self }
    }

    const fn bounded_by(self, bound: ClosedBound) -> Figure {
        Figure { closed_bound: Some(bound), ..self }
    }

    /// Returns the requests and the percentile of a figure that is a percentile from p99 on; `None` for others.
    pub(crate) fn tail(&self) -> Option<(LatencySource, Percentile)> {
        match self.reading {
            FigureFormula::Percentile(of, percentile) if percentile.percent >= TAIL_MIN => Some((of, percentile)),
            _ => None,
        }
    }

    /// True if the figure belongs to one of these parts of a run.
    pub fn is_in_run(&self, parts: &[RunFigureGroup]) -> bool {
        self.in_run.is_some_and(|(own, _)| parts.contains(&own))
    }

    /// Returns a value of this figure as JSON. Numbers of requests are integers; an unknown value is null.
    pub fn json(&self, value: Option<f64>) -> Json {
        match (self.unit, value) {
            (Unit::Requests, _) => number(value),
            _ => Json::from(value),
        }
    }
}

/// Returns the columns of a sweep whose plan lists none, from left to right.
pub fn default_sweep_columns() -> Vec<&'static Figure> {
    figures_by_place(|figure| figure.in_sweeps)
}

/// Returns the columns of a table of comparisons, from left to right.
pub fn comparison_columns(table: CompareTable) -> Vec<&'static Figure> {
    figures_by_place(|Figure { in_compare: (place, tables), .. }| tables.contains(&table).then_some(*place))
}

fn figures_by_place(place: impl Fn(&Figure) -> Option<u8>) -> Vec<&'static Figure> {
    let mut figures: Vec<(u8, &Figure)> = FIGURES.iter().filter_map(|it| Some((place(it)?, it))).collect();
    figures.sort_by_key(|(place, _)| *place);
    figures.into_iter().map(|(_, figure)| figure).collect()
}

/// Renamed figures: the name in earlier versions, and the current name.
const EARLIER: [(&str, &str); 4] = [
    ("p999_ns", "p99_9_ns"),
    ("p9999_ns", "p99_99_ns"),
    ("bw_bytes", "bytes_per_s"),
    ("cores_per_gbps", "cores_per_gb_per_s"),
];

/// Returns the current name of a figure that had the name `name` in an earlier version, or `None`.
pub fn current_figure_name(name: &str) -> Option<&'static str> {
    EARLIER.iter().find(|(earlier, _)| *earlier == name).map(|(_, current)| *current)
}

/// Returns the figure that has this name now, or had it in an earlier version; `None` if there is none.
pub fn find(name: &str) -> Option<&'static Figure> {
    let name = current_figure_name(name).unwrap_or(name);
    FIGURES.iter().find(|figure| figure.name == name)
}

/// Returns the tail that has this name or heading, such as `read_p99_9_ns`, `read_p99_9` or `read p99.9`; `None` if
/// there is none.
pub fn tail_by_name(name: &str) -> Option<&'static Figure> {
    let name = name.replace(['.', ' ', '-'], "_");
    let is_meant = |figure: &&Figure| figure.name == name || figure.name.strip_suffix("_ns") == Some(&name);
    FIGURES.iter().find(is_meant).filter(|figure| figure.tail().is_some())
}

/// Returns a note that a column was renamed, if `name` is its name in an earlier version.
pub fn renamed_column_note(name: &str, place: &Place) -> Option<String> {
    let line = place.line.map_or(String::new(), |line| format!(":{line}"));
    current_figure_name(name)
        .map(|current| format!("{}{line}: the column `{name}` is called {current} now", place.file))
}

/// Returns the figures of these names, each given with its position in a file.
///
/// # Errors
/// Each name that no figure has, at its position.
pub fn columns<'a>(names: impl IntoIterator<Item = (&'a str, Place)>) -> Result<Vec<&'static Figure>, Problems> {
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

impl MeasuredRun<'_> {
    fn sum(&self, figure: impl Fn(&JobOutcome) -> f64) -> f64 {
        self.outcome.jobs.iter().map(figure).sum()
    }

    fn busy_share(&self, wire: &WireUse) -> f64 {
        wire.busy_share(self.outcome.elapsed)
    }

    fn link_busy_share(&self) -> f64 {
        self.busy_share(&self.outcome.upstream).max(self.busy_share(&self.outcome.downstream))
    }

    fn latency(&self, of: LatencySource) -> &Latency {
        match of {
            LatencySource::All => &self.all,
            LatencySource::Reads => &self.reads,
            LatencySource::Writes => &self.writes,
            LatencySource::Flushes => &self.flushes,
            LatencySource::Commits => &self.commits,
            LatencySource::Queries => &self.queries,
        }
    }

    fn read(&self, reading: FigureFormula) -> Option<f64> {
        match reading {
            FigureFormula::Known(read) => Some(read(self)),
            FigureFormula::Unknown(read) => read(self),
            FigureFormula::Of(of, read) => Some(self.latency(of)).filter(|latency| latency.count() > 0).map(read),
            FigureFormula::Percentile(of, percentile) => percentile.of_ns(self.latency(of)),
        }
    }
}

/// Values of all figures of one run, such as throughput and p99 latency; some may be unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures([Option<f64>; COUNT]);

impl MeasuredRun<'_> {
    fn of(outcome: &Outcome) -> MeasuredRun<'_> {
        let [mut reads, mut writes, mut flushes, mut commits, mut queries] = <[Latency; 5]>::default();
        for job in &outcome.jobs {
            reads.merge(&job.read.total);
            writes.merge(&job.write.total);
            flushes.merge(&job.flush.total);
            commits.merge(&job.commit);
            queries.merge(&job.query);
        }
        let mut all = reads.clone();
        all.merge(&writes);
        MeasuredRun { outcome, all, reads, writes, flushes, commits, queries }
    }
}

/// Smallest percentile, in per cent, that is a tail.
const TAIL_MIN: f64 = 99.0;

/// Percentile of latency from p99 on, with its estimate or the number of requests that it needs.
pub type TailEstimate = (&'static Figure, Result<PercentileEstimate, TooFewRequests>);

/// Returns the percentiles of a run from p99 on, each with its confidence interval.
pub fn tail_estimates(outcome: &Outcome) -> Vec<TailEstimate> {
    let measured = MeasuredRun::of(outcome);
    let tail = |figure: &'static Figure| {
        let (of, percentile) = figure.tail()?;
        Some((figure, measured.latency(of).estimate(percentile.percent)))
    };
    FIGURES.iter().filter_map(tail).collect()
}

/// Returns the percentiles of these latencies from p99 on, as those of all requests.
pub fn tail_estimates_of(latency: &Latency) -> impl Iterator<Item = TailEstimate> {
    FIGURES.iter().filter_map(|figure| match figure.tail()? {
        (LatencySource::All, percentile) => Some((figure, latency.estimate(percentile.percent))),
        _ => None,
    })
}

impl Figures {
    /// Computes every figure from the outcome of a run.
    pub fn of(outcome: &Outcome) -> Figures {
        let measured = MeasuredRun::of(outcome);
        Figures(FIGURES.each_ref().map(|figure| measured.read(figure.reading)))
    }

    /// Sets the relative precision of mean and p99 at 95 % confidence; `None` if it is not known.
    pub fn with_relative_precision(mut self, share: Option<f64>) -> Figures {
        let place = FIGURES.iter().position(|figure| figure.name == PRECISION);
        if let Some(value) = place.and_then(|place| self.0.get_mut(place)) {
            *value = share;
        }
        self
    }

    /// Returns the throughput in requests a second; none if it is unknown.
    pub fn iops(&self) -> Option<f64> {
        self.get(find("iops")?)
    }

    /// Returns the value of a figure; `None` if it is unknown in this run.
    pub fn get(&self, figure: &Figure) -> Option<f64> {
        FIGURES.iter().zip(self.0).find(|(known, _)| known.name == figure.name).and_then(|(_, value)| value)
    }

    /// Returns the values of all figures as a JSON object by name; unknown ones are null.
    pub fn figures_to_json(&self) -> Map<String, Json> {
        FIGURES.iter().zip(self.0).map(|(figure, value)| (figure.name.into(), number(value))).collect()
    }

    /// Reads the values of all figures from a JSON object. `None` unless it has every figure.
    pub fn figures_from_json(object: &Map<String, Json>) -> Option<Figures> {
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

/// Returns a number as JSON: whole numbers as integers, and null for an unknown one.
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
    fn figure_names_are_unique() {
        for (place, figure) in FIGURES.iter().enumerate() {
            assert!(FIGURES[..place].iter().all(|other| other.name != figure.name), "{}", figure.name);
        }
    }

    #[test]
    fn earlier_figure_name_finds_the_same_figure_with_a_note() {
        assert_eq!(find("p999_ns").unwrap().name, "p99_9_ns");
        let note = renamed_column_note("p999_ns", &Place { file: "p.toml".into(), line: Some(3) });
        assert_eq!(note.as_deref(), Some("p.toml:3: the column `p999_ns` is called p99_9_ns now"));
        assert_eq!(renamed_column_note("p99_9_ns", &Place::whole("p.toml")), None);
    }

    #[test]
    fn percentile_figures_have_the_names_of_the_percentile_list() {
        for figure in &FIGURES {
            let FigureFormula::Percentile(_, percentile) = figure.reading else { continue };
            assert!(figure.name.ends_with(&format!("{}_ns", percentile.name)), "{}", figure.name);
            assert!(figure.heading.ends_with(percentile.heading), "{}", figure.name);
        }
    }

    #[test]
    fn read_figures_use_only_read_latencies() {
        let outcome = crate::tests::sample::outcome();
        let figures = Figures::of(&outcome);
        let get = |name: &str| figures.get(find(name).unwrap());
        assert_eq!(get("read_mean_ns"), Some(outcome.jobs[0].read.total.mean_ns()));
        assert_eq!(get("write_mean_ns"), Some(outcome.jobs[0].write.total.mean_ns()));
        assert_ne!(get("read_mean_ns"), get("mean_ns"));
    }

    #[test]
    fn figures_read_back_from_json_bit_for_bit() {
        let values = [0.1 + 0.2, 1e300, 5e-324, 1.0 / 3.0, 123_456_789.123_456_79, 2f64.powi(60)];
        for value in values {
            let figures = Figures([Some(value); COUNT]);
            let text = Json::Object(figures.figures_to_json()).to_string();
            let object: Map<String, Json> = serde_json::from_str(&text).unwrap();
            assert_eq!(Figures::figures_from_json(&object), Some(figures), "{value:?}");
        }
    }

    #[test]
    fn stored_line_with_a_missing_figure_is_ignored() {
        let mut object = Figures([None; COUNT]).figures_to_json();
        assert!(Figures::figures_from_json(&object).is_some());
        object.shift_remove("iops");
        assert!(Figures::figures_from_json(&object).is_none());
    }
}
