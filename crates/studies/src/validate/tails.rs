//! Tails under load, predicted from data sheets: drives whose latencies were measured at many loads, each described from
//! its sheet and its nearly idle latencies alone, and judged at all other loads.
//!
//! Every drive is a fold: nothing of a drive's measurements under load takes part in its description. What all drives
//! share (structure of the model, and the constants that a sheet without percentiles would take) is told in
//! `validation/README.md`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::fit::sheet::{DataSheet, SheetDrive, SimulateJobs, solve_drive};
use crate::report::{Answer, Prose, Table};
use crate::results::units;
use phaselink_core::number::real_length;
use phaselink_core::problem::Problems;

/// Measured latencies, a line for each drive, load, direction and percentile.
const MEASURED: &str = include_str!("../../validation/tails.csv");

macro_rules! sheets {
    ($($name:literal)+) => {
        /// Data sheets of the drives with measured tails, each with its name.
        const SHEETS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../validation/sheets/", $name, ".toml")))),+];
    };
}

sheets! { "pm9a3" "wd-dc" "7450-pro" }

/// Percentiles that are judged.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];
/// Share of the asked writes that a drive achieves below the knee.
const BELOW_KNEE: f64 = 0.97;
/// Multiple of the steady rate of writes that is asked beyond the knee.
const BEYOND: f64 = 1.4;
/// Approximate number of all simulations.
pub const SIMULATIONS: usize = 85;
/// Simulated seconds at each load.
const SECONDS: u32 = 20;

/// JSON document of `phaselink validate --tails`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TailsAnswer {
    /// Latencies below the knee, measured and predicted.
    pub latencies: Vec<TailFigure>,
    /// Median of the relative errors without their signs, by direction and percentile.
    pub errors: Vec<TailError>,
    /// Rates beyond the knee, measured and predicted.
    pub knees: Vec<KneeFigure>,
}

/// Percentile of a latency at one load, measured and predicted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TailFigure {
    /// Name of the drive.
    pub drive: String,
    /// Achieved writes a second.
    pub writes_per_s: f64,
    /// `read` or `write`.
    pub direction: &'static str,
    /// Percentile in per cent.
    pub percentile: f64,
    /// Measured latency in microseconds.
    pub measured_us: f64,
    /// Predicted latency in microseconds.
    pub predicted_us: f64,
    /// True if the measurement lies between the least and the largest that the errors of the other drives allow at this
    /// percentile.
    pub in_interval: bool,
}

/// Error of one percentile over all drives and loads.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TailError {
    /// Name of the drive; `all` for all together.
    pub drive: String,
    /// `read` or `write`.
    pub direction: &'static str,
    /// Percentile in per cent.
    pub percentile: f64,
    /// Number of loads.
    pub loads: usize,
    /// Median of the relative errors without their signs, as a share.
    pub median_error: f64,
    /// Share of the measurements in their intervals.
    pub in_interval: f64,
}

/// Rate of a drive beyond the knee.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KneeFigure {
    /// Name of the drive.
    pub drive: String,
    /// Measured writes a second, beside the probe's reads.
    pub measured_per_s: f64,
    /// Predicted writes a second.
    pub predicted_per_s: f64,
}

#[derive(Clone, Debug)]
struct MeasuredLoad {
    drive: &'static str,
    asked: f64,
    writes_per_s: f64,
    reads_per_s: f64,
    /// Direction, percentile and latency in microseconds.
    latencies: Vec<(&'static str, f64, f64)>,
}

/// Describes each drive from its sheet, and predicts it at all loads. `run` simulates jobs on a drive.
///
/// # Errors
/// Only what is wrong with the shipped sheets.
pub fn judge(run: SimulateJobs) -> Result<TailsAnswer, Problems> {
    let (loads, mut latencies, mut knees) = (measured(), Vec::new(), Vec::new());
    for (name, text) in SHEETS {
        let sheet = DataSheet::parse(&format!("validation/sheets/{name}.toml"), text)?;
        let drive = solve_drive(&sheet, run)?;
        let mut of_drive = loads.iter().filter(|load| load.drive == *name);
        // The first load is the one that the sheet has.
        for load in of_drive.clone().skip(1).filter(|load| load.is_below_knee()) {
            latencies.extend(predicted(&drive, load, run)?);
        }
        if let Some(load) = of_drive.next_back() {
            let asked = BEYOND * sheet.random_write_iops;
            let (predicted_per_s, _) = drive.under_load(load.reads_per_s, asked, SECONDS, run)?;
            knees.push(KneeFigure { drive: String::from(*name), measured_per_s: load.writes_per_s, predicted_per_s });
        }
    }
    mark_intervals(&mut latencies);
    let errors = errors(&latencies);
    Ok(TailsAnswer { latencies, errors, knees })
}

impl MeasuredLoad {
    fn is_below_knee(&self) -> bool {
        self.writes_per_s >= BELOW_KNEE * self.asked
    }
}

fn measured() -> Vec<MeasuredLoad> {
    let mut loads: Vec<MeasuredLoad> = Vec::new();
    for line in MEASURED.lines().skip(1) {
        let cells: Vec<&'static str> = line.split(',').collect();
        let [drive, asked, writes, reads, direction, percentile, latency] = cells[..] else { continue };
        let number = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("tails.csv has `{text}`"));
        let latency = (direction, number(percentile), number(latency));
        match loads.last_mut().filter(|load| load.drive == drive && load.asked == number(asked)) {
            Some(load) => load.latencies.push(latency),
            None => loads.push(MeasuredLoad {
                drive,
                asked: number(asked),
                writes_per_s: number(writes),
                reads_per_s: number(reads),
                latencies: vec![latency],
            }),
        }
    }
    loads
}

fn predicted(drive: &SheetDrive, load: &MeasuredLoad, run: SimulateJobs) -> Result<Vec<TailFigure>, Problems> {
    let (_, at) = drive.under_load(load.reads_per_s, load.writes_per_s, SECONDS, run)?;
    let figure = |(direction, percentile, measured_us): &(&'static str, f64, f64)| TailFigure {
        drive: String::from(load.drive),
        writes_per_s: load.writes_per_s,
        direction,
        percentile: *percentile,
        measured_us: *measured_us,
        predicted_us: at(*direction == "read", *percentile),
        in_interval: false,
    };
    Ok(load.latencies.iter().map(figure).collect())
}

/// Tells of each figure whether the errors of the other drives at its percentile cover its own error.
fn mark_intervals(figures: &mut [TailFigure]) {
    let all = figures.to_vec();
    for figure in figures {
        let others = all.iter().filter(|other| {
            other.drive != figure.drive && other.direction == figure.direction && other.percentile == figure.percentile
        });
        let ratios: Vec<f64> = others.map(|other| other.measured_us / other.predicted_us).collect();
        let ratio = figure.measured_us / figure.predicted_us;
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        figure.in_interval = (least..=most).contains(&ratio);
    }
}

fn errors(figures: &[TailFigure]) -> Vec<TailError> {
    let names = SHEETS.iter().map(|(name, _)| *name).chain(["all"]);
    let mut errors = Vec::new();
    for (drive, direction) in names.flat_map(|name| [(name, "read"), (name, "write")]) {
        for percentile in PERCENTILES {
            let is_meant = |it: &&TailFigure| {
                (drive == "all" || it.drive == drive) && it.direction == direction && it.percentile == percentile
            };
            let meant: Vec<&TailFigure> = figures.iter().filter(is_meant).collect();
            let mut off: Vec<f64> = meant.iter().map(|it| (it.predicted_us / it.measured_us - 1.0).abs()).collect();
            off.sort_by(f64::total_cmp);
            let covered = meant.iter().filter(|it| it.in_interval).count();
            errors.push(TailError {
                drive: String::from(drive),
                direction,
                percentile,
                loads: meant.len(),
                median_error: off.get(off.len() / 2).copied().unwrap_or_default(),
                in_interval: real_length(covered) / real_length(meant.len().max(1)),
            });
        }
    }
    errors
}

impl Answer for TailsAnswer {
    const VERB: &'static str = "tails";

    fn text(&self) -> Prose {
        Prose::default().lines(self.conclusion()).gap().table(self.error_table()).gap().table(self.knee_table())
    }
}

impl TailsAnswer {
    fn conclusion(&self) -> String {
        let of = |percentile: f64| {
            let mut all = self.errors.iter().filter(|it| it.drive == "all" && it.direction == "read");
            let error = all.find(|it| it.percentile == percentile).map_or(0.0, |it| it.median_error);
            units::percent(error)
        };
        format!(
            "{} drives, each described from its data sheet and its nearly idle latencies alone: below the knee, reads among \
             writes are off by {} at p50, {} at p99, {} at p99.9 and {} at p99.99 (medians over all loads).",
            SHEETS.len(),
            of(50.0),
            of(99.0),
            of(99.9),
            of(99.99)
        )
    }

    fn error_table(&self) -> Table {
        let mut table = Table::new().left("drive").left("latency").right("loads");
        for percentile in PERCENTILES {
            table = table.right(format!("p{percentile} off %"));
        }
        table = table.right("in interval %");
        for group in self.errors.chunks(PERCENTILES.len()) {
            let Some(first) = group.first() else { continue };
            let covered = group.iter().map(|it| it.in_interval).sum::<f64>() / real_length(group.len());
            let offs = group.iter().map(|it| format!("{:.1}", 100.0 * it.median_error));
            let head = [first.drive.clone(), String::from(first.direction), first.loads.to_string()];
            table.row(head.into_iter().chain(offs).chain([format!("{:.0}", 100.0 * covered)]));
        }
        table
    }

    fn knee_table(&self) -> Table {
        let mut table = Table::new().left("beyond the knee").right("writes/s").right("predicted").right("difference");
        for it in &self.knees {
            table.row([
                it.drive.clone(),
                units::count(it.measured_per_s),
                units::count(it.predicted_per_s),
                format!("{:+.1} %", 100.0 * (it.predicted_per_s / it.measured_per_s - 1.0)),
            ]);
        }
        table
    }
}
