//! `phaselink predict`: computes latency, limits and bottleneck of drives in closed form, without simulation.

use clap::Args;
use phaselink_core::drive_file::{Described, shipped};
use phaselink_studies::predict::{self, Prediction, json, table};
use phaselink_studies::results::units;
use serde_json::Value;

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure};
use crate::intervals::{IntervalFlags, IntervalSubject, RunFigureIntervals};
use crate::run::workload::{Workload, WorkloadFlags, tell_engine_without_effect};
use crate::{describe, input, intervals, output};

const EXAMPLES: &str = include_str!("../help/predict.txt");

/// Compute latency, throughput limits and bottleneck of drives in closed form, without simulation.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drives whose latency and throughput limits are computed: drive files, or names of shipped drives
    #[arg(value_name = "DRIVE", default_value = shipped::default_drive_name())]
    drives: Vec<String>,
    /// Print latency and throughput limits as JSON in place of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    intervals: IntervalFlags,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Runs `phaselink predict`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let described = input::drives(&arguments.drives, &arguments.flags.resolve()?)?;
    let workloads = input::all(described.iter().map(|it| arguments.workload.resolve(&it.drive().limits())))?;
    let drives = described.iter().map(Described::drive);
    tell_engine_without_effect(drives.zip(workloads.iter().map(|workload| &workload.jobs[..])));
    let predictions: Vec<Prediction> = described
        .iter()
        .zip(&workloads)
        .map(|(described, workload)| predict::predict(described.drive(), &workload.jobs))
        .collect();
    let doubted = arguments.intervals_by_drive(&described, &workloads, &predictions);
    match arguments.json {
        true => output::print_json(&document(&described, &predictions, &doubted))?,
        false => {
            output::print(&format!("{}{}", text(&workloads, &predictions), intervals_text(&predictions, &doubted)))?
        }
    }
    Ok(CommandEnding::Fine)
}

impl Arguments {
    /// Returns the prediction intervals of each drive's figures. Empty without `--intervals`.
    fn intervals_by_drive(
        &self,
        described: &[Described],
        workloads: &[Workload],
        predictions: &[Prediction],
    ) -> Vec<RunFigureIntervals> {
        let pairs = described.iter().zip(workloads).zip(predictions);
        let subjects = pairs.filter_map(|((described, workload), prediction)| {
            let draws = self.intervals.draws_for_drive(described.drive())?;
            Some(IntervalSubject { draws, central: prediction.figures(), subject: (described, workload) })
        });
        intervals::intervals(subjects.collect(), |(described, workload), draws, draw| {
            let drive = input::drive_of_draw(described, draws, draw)?;
            let jobs = workload.on(&drive.limits())?;
            Some(predict::predict(&drive, &jobs).figures())
        })
    }
}

fn document(described: &[Described], predictions: &[Prediction], doubted: &[RunFigureIntervals]) -> Value {
    let each = described.iter().zip(predictions).enumerate().map(|(place, (described, prediction))| {
        let mut document = json(prediction, described.drive().resolved());
        document.intervals = doubted.get(place).map(RunFigureIntervals::document);
        document
    });
    output::headed("predict", predict::document(each))
}

fn text(workloads: &[Workload], predictions: &[Prediction]) -> String {
    match predictions {
        [one] => predict::text(one),
        several => {
            let notes: &str = workloads.first().map_or("", |workload| &workload.summary);
            format!("{notes}\n{}", output::table_with_bold_heading(&table(several)))
        }
    }
}

/// Formats a predicted figure in the unit that the figure's name implies, such as seconds for `mean_ns`.
fn figure_text(name: &str, value: f64) -> String {
    match name {
        name if name.contains("_ns") => units::quantity(value / 1e9, "s"),
        name if name.contains("bytes_per_s") => units::quantity(value, "B/s"),
        name if name.contains("depth") => describe::figure(value),
        _ => units::count(value),
    }
}

/// Returns a text with a table of prediction intervals for each drive; empty without `--intervals`.
fn intervals_text(predictions: &[Prediction], doubted: &[RunFigureIntervals]) -> String {
    let one = |(prediction, doubted): (&Prediction, &RunFigureIntervals)| {
        let rows =
            doubted.figures().map(|figure| (figure.name.clone(), figure, |value| figure_text(&figure.name, value)));
        format!("\n{}\n{}", prediction.drive, intervals::table(rows))
    };
    predictions.iter().zip(doubted).map(one).collect()
}
