//! `phaselink fit`: finds the values of a drive's keys with which simulated results equal those that fio has measured.

use std::sync::atomic::Ordering;

use clap::Args;
use phaselink_core::problem::Problems;
use phaselink_studies::fit::sheet::DataSheet;
use phaselink_studies::fit::{self, FitEffort, FitTask, FitTrial, ObservedRun, TrialFigures};
use rayon::prelude::*;

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure, print_answer};
use crate::progress::Progress;
use crate::{input, interrupt, notes, output, precision};

const EXAMPLES: &str = include_str!("../help/fit.txt");

/// Find values of a drive's keys with which simulated results equal fio's measurements, and a 90 % interval for each
/// value.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Files with measured results: JSON of fio --output-format=json on a real drive, or of `phaselink run --json`
    #[arg(value_name = "RESULT.json", required_unless_present = "data_sheet")]
    results: Vec<String>,
    /// Data sheet of a drive, with latencies of the nearly idle drive: find the whole drive from it (phaselink docs
    /// data-sheet)
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["results", "drive", "keys", "without", "model_error"])]
    data_sheet: Option<String>,
    /// Drive file, or name of a shipped drive, with the start values of the keys of --keys and the fixed values of all
    /// other keys
    #[arg(long, value_name = "DRIVE", required_unless_present = "data_sheet")]
    drive: Option<String>,
    /// Keys of the drive whose values the fit searches, separated by commas, as in media.read_ns,nvme.parse_ns
    /// (`phaselink check DRIVE` lists all keys)
    #[arg(long, value_name = "KEY,…", required_unless_present = "data_sheet", value_delimiter = ',')]
    keys: Vec<String>,
    /// fio options of the measured jobs that the fit ignores, separated by commas, as in cpus_allowed,prio
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    without: Vec<String>,
    /// Largest number of counted requests in each simulated run of the fit; fewer if fewer were measured
    #[arg(long, value_name = "N", default_value_t = fit::NUMBER_IOS_DEFAULT, value_parser = clap::value_parser!(u64).range(1000..))]
    number_ios: u64,
    /// Assumed relative error of the model in each figure, as in 0.5%, which widens the intervals of the values; close
    /// to 0 for simulated results
    #[arg(long, value_name = "PERCENT", default_value = "0.5%", value_parser = precision::share)]
    model_error: f64,
    /// Seed of all random numbers of the fit: of its simulations, and of further start values
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print fitted values and differences as JSON in place of tables
    #[arg(long)]
    json: bool,
    /// Print a drive file in place of tables: the drive of --drive with the fitted values and their intervals
    #[arg(long, conflicts_with = "json")]
    toml: bool,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Runs `phaselink fit`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    if let Some(file) = &arguments.data_sheet {
        return fit_from_data_sheet(file, arguments);
    }
    let drive = arguments.drive.as_deref().unwrap_or_default();
    let described = input::drive(drive, &arguments.flags.resolve()?)?;
    let keys = fit::keys(described.drive(), &arguments.keys)?;
    let question = FitTask::new(described, keys, arguments.observed_runs_to_fit()?, arguments.fit_search_effort())?;
    let fit = fit::fit(&question, &run_in_parallel)?;
    match (arguments.json, arguments.toml) {
        (true, _) => output::print_json(&output::headed("fit", fit::document(&question, &fit)))?,
        (_, true) => {
            let changes = arguments.flags.texts();
            output::print(&fit::drive_file(&question, &fit, drive, &changes))?;
        }
        _ => output::print(&output::table_with_bold_heading(&fit::text(&fit)))?,
    }
    Ok(CommandEnding::Fine)
}

/// Finds the drive that a data sheet means, and prints it.
fn fit_from_data_sheet(file: &str, arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let sheet = DataSheet::parse(file, &input::description(file)?)?;
    let (progress, stopped) = (Progress::of(fit::sheet::SIMULATIONS_MAX), interrupt::flag());
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let answer = fit::sheet::solve(&sheet, &|drive, jobs| progress.simulate(drive, jobs, arguments.seed, is_stopped));
    progress.finish();
    if is_stopped() {
        notes::tell("stopped: no drive is found");
        return Ok(CommandEnding::Interrupted);
    }
    let answer = answer?;
    match arguments.toml {
        true => output::print(&answer.drive_file)?,
        false => print_answer(&answer, arguments.json, None)?,
    }
    Ok(CommandEnding::Fine)
}

impl Arguments {
    fn fit_search_effort(&self) -> FitEffort {
        FitEffort { ios_max: self.number_ios, model_error: self.model_error, seed: self.seed }
    }

    fn observed_runs_to_fit(&self) -> Result<Vec<ObservedRun>, Problems> {
        let read = |file: &String| fit::read(file, &input::result(file)?, &self.without);
        Ok(input::all(self.results.iter().map(read))?.concat())
    }
}

/// Runs the simulations of one step of the fit in parallel, and returns their figures in order.
fn run_in_parallel(trials: &[FitTrial], answer: &(dyn Fn(&FitTrial) -> TrialFigures + Sync)) -> Vec<TrialFigures> {
    trials.par_iter().map(answer).collect()
}
