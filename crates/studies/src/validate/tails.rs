//! Tails under load, predicted from data sheets: drives whose latencies were measured at many loads, each described from
//! its sheet and its nearly idle latencies alone, and judged at all other loads.
//!
//! Every drive is a fold: nothing of a drive's measurements under load takes part in its description. What all drives
//! share (structure of the model, and the constants that a sheet without percentiles would take) is told in
//! `validation/README.md`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::fit::sheet::{DataSheet, JobSimulator, SheetDriveCandidate, solve_sheet_drive};
use crate::report::{Answer, Prose, Table};
use crate::results::units;
use phaselink_core::ledger::quantile::{NORMAL_95, student_t_quantile};
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
    /// Least latency in microseconds of the 90 % prediction interval, from the errors of the other drives at this
    /// percentile.
    pub low_us: f64,
    /// Largest latency in microseconds of the 90 % prediction interval.
    pub high_us: f64,
    /// True if the measurement lies in the prediction interval.
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
    /// Share of the measurements in their 90 % prediction intervals.
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

/// Latencies that were measured at one mixed load of a drive.
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
pub fn judge(run: JobSimulator) -> Result<TailsAnswer, Problems> {
    let (loads, mut latencies, mut knees) = (measured_loads(), Vec::new(), Vec::new());
    for (name, text) in SHEETS {
        let sheet = DataSheet::parse(&format!("validation/sheets/{name}.toml"), text)?;
        let drive = solve_sheet_drive(&sheet, run)?;
        let mut of_drive = loads.iter().filter(|load| load.drive == *name);
        // The data sheet has the first load, so predict only the others.
        for load in of_drive.clone().skip(1).filter(|load| load.is_below_knee()) {
            latencies.extend(predict_tails_at_load(&drive, load, run)?);
        }
        if let Some(load) = of_drive.next_back() {
            let asked = BEYOND * sheet.random_write_iops;
            let (predicted_per_s, _) = drive.simulate_under_load(load.reads_per_s, asked, SECONDS, run)?;
            knees.push(KneeFigure { drive: String::from(*name), measured_per_s: load.writes_per_s, predicted_per_s });
        }
    }
    add_prediction_intervals(&mut latencies);
    let errors = errors(&latencies);
    Ok(TailsAnswer { latencies, errors, knees })
}

impl MeasuredLoad {
    fn is_below_knee(&self) -> bool {
        self.writes_per_s >= BELOW_KNEE * self.asked
    }
}

fn measured_loads() -> Vec<MeasuredLoad> {
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

fn predict_tails_at_load(
    drive: &SheetDriveCandidate,
    load: &MeasuredLoad,
    run: JobSimulator,
) -> Result<Vec<TailFigure>, Problems> {
    let (_, at) = drive.simulate_under_load(load.reads_per_s, load.writes_per_s, SECONDS, run)?;
    let figure = |(direction, percentile, measured_us): &(&'static str, f64, f64)| TailFigure {
        drive: String::from(load.drive),
        writes_per_s: load.writes_per_s,
        direction,
        percentile: *percentile,
        measured_us: *measured_us,
        predicted_us: at(*direction == "read", *percentile),
        low_us: 0.0,
        high_us: f64::INFINITY,
        in_interval: false,
    };
    Ok(load.latencies.iter().map(figure).collect())
}

/// Gives each figure its 90 % prediction interval from the errors of the other drives at its percentile, and tells whether
/// the measurement lies in it.
///
/// All loads of a drive are off alike, so that a drive counts as one observation, whatever its number of loads: the mean of
/// the squared logarithms of its errors. The mean of n other drives is known with n degrees of freedom, since predictions
/// are not shifted; for two drives, Student's t makes the interval 1.8 times as wide as that of many.
fn add_prediction_intervals(figures: &mut [TailFigure]) {
    let all = figures.to_vec();
    for figure in figures {
        let is_alike = |other: &&TailFigure| {
            other.direction == figure.direction && other.percentile == figure.percentile && other.drive != figure.drive
        };
        let squares = |drive: &str| -> Option<f64> {
            let of_drive = all.iter().filter(is_alike).filter(|other| other.drive == drive);
            let squares: Vec<f64> =
                of_drive.map(|it| libm::pow(libm::log(it.measured_us / it.predicted_us), 2.0)).collect();
            (!squares.is_empty()).then(|| squares.iter().sum::<f64>() / real_length(squares.len()))
        };
        let others: Vec<f64> = SHEETS.iter().filter_map(|(drive, _)| squares(drive)).collect();
        let freedom = real_length(others.len().max(2));
        let deviation = libm::sqrt(others.iter().sum::<f64>() / real_length(others.len().max(1)));
        let ratio = libm::exp(student_t_quantile(NORMAL_95, freedom) * deviation);
        (figure.low_us, figure.high_us) = (figure.predicted_us / ratio, figure.predicted_us * ratio);
        figure.in_interval = (figure.low_us..=figure.high_us).contains(&figure.measured_us);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(drive: &str, predicted_us: f64) -> TailFigure {
        let drive = String::from(drive);
        let (low_us, high_us) = (0.0, 0.0);
        TailFigure {
            drive,
            writes_per_s: 1e4,
            direction: "read",
            percentile: 99.0,
            measured_us: 100.0,
            predicted_us,
            low_us,
            high_us,
            in_interval: false,
        }
    }

    #[test]
    fn interval_uses_each_other_drive_once_and_widens_for_few_drives() {
        // Errors of e^0.1 and e^-0.1, the second at three loads, give a deviation of 0.1 and a factor of 2.92.
        let [over, under] = [0.1, -0.1].map(|error| 100.0 * libm::exp(error));
        let mut figures = vec![figure("pm9a3", 100.0), figure("wd-dc", over)];
        figures.extend((0..3).map(|_| figure("7450-pro", under)));
        add_prediction_intervals(&mut figures);
        let widest = libm::log(figures[0].high_us / figures[0].low_us) / 2.0;
        assert!((widest - 0.292).abs() < 0.003, "{widest}");
        assert!(figures.iter().all(|figure| figure.in_interval));
        figures[0].predicted_us = 150.0;
        add_prediction_intervals(&mut figures);
        assert!(!figures[0].in_interval, "{:?}", figures[0]);
    }
}
