//! `phaselink predict`: what closed forms say of drives, without simulating them.

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::predict::{self, Prediction, json, table};
use serde_json::Value;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::run::workload::{Workload, WorkloadFlags};
use crate::{input, output};

const EXAMPLES: &str = include_str!("../help/predict.txt");

/// Predict latency, limits and bottleneck in closed form, nothing simulated.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Drive files, or names of shipped drives
    #[arg(value_name = "DRIVE", default_value = shipped::usual())]
    drives: Vec<String>,
    /// Print JSON instead of tables: an array with an object for each drive
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Run the command.
pub fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let drives = input::drives(&arguments.drives, &arguments.flags.resolve()?)?;
    let workloads = input::all(drives.iter().map(|drive| arguments.workload.resolve(&drive.limits())))?;
    let predictions: Vec<Prediction> =
        drives.iter().zip(&workloads).map(|(drive, workload)| predict::predict(drive, &workload.jobs)).collect();
    match arguments.json {
        true => output::print_json(&document(&drives, &predictions))?,
        false => output::print(&text(&workloads, &predictions))?,
    }
    Ok(Ending::Fine)
}

fn document(drives: &[Drive], predictions: &[Prediction]) -> Value {
    let each = drives.iter().zip(predictions).map(|(drive, prediction)| json(prediction, drive.resolved()));
    each.map(|document| output::headed("predict", document)).collect()
}

fn text(workloads: &[Workload], predictions: &[Prediction]) -> String {
    match predictions {
        [one] => predict::text(one),
        several => {
            let notes: &str = workloads.first().map_or("", |workload| &workload.summary);
            format!("{notes}\n{}", output::with_bold_head(&table(several)))
        }
    }
}
