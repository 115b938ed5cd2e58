//! `phaselink predict`: what closed forms say of drives, without simulating them.

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::predict::{Prediction, json, page, predict, table};
use serde_json::Value;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::run::workload::{Workload, WorkloadFlags};
use crate::{input, output};

const EXAMPLES: &str = "\
A lone request's stages, the throughput that each resource allows, and what follows for the depth of
the job; each job of a file as if it were alone. Several drives make a table with a line for each.

Examples:
  phaselink predict                                     4 KiB random reads, one at a time
  phaselink predict nvme --bs 512 --iodepth 32          another drive, flags named as in fio
  phaselink predict my-drive.toml --fio jobs.fio        a fio job file
  phaselink predict nvme nvme-polled dc-express         drives side by side
  phaselink predict nvme --set media.read_ns=300 --json for a script";

/// Predict latency, limits and bottleneck in closed form, nothing simulated.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Drive files, or names of shipped drives
    #[arg(value_name = "DRIVE", default_value = "dc-express")]
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
        drives.iter().zip(&workloads).map(|(drive, workload)| predict(drive, &workload.jobs)).collect();
    match arguments.json {
        true => output::print_json(&document(&drives, &predictions))?,
        false => output::print(&text(&workloads, &predictions))?,
    }
    Ok(Ending::Fine)
}

fn document(drives: &[Drive], predictions: &[Prediction]) -> Value {
    drives.iter().zip(predictions).map(|(drive, prediction)| json(prediction, drive.resolved())).collect()
}

fn text(workloads: &[Workload], predictions: &[Prediction]) -> String {
    match predictions {
        [one] => page(one),
        several => {
            let notes: &str = workloads.first().map_or("", |workload| &workload.summary);
            format!("{notes}\n{}", output::with_bold_head(&table(several)))
        }
    }
}
