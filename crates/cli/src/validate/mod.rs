//! `phaselink validate`: compares measurements of many machines with the model's values.

mod files;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_studies::evidence;
use phaselink_studies::report::{Answer, Table};
use phaselink_studies::reproduce::experiment::ExperimentRun;
use phaselink_studies::reproduce::papers;
use phaselink_studies::validate::{Calibration, ValidateQuestion, Validation, tails};
use rayon::prelude::*;

use crate::ending::{CommandEnding, Failure, print_answer};
use crate::output::{self, ReportFlags};
use crate::progress::Progress;
use crate::{interrupt, notes};

const EXAMPLES: &str = include_str!("../../help/validate.txt");

/// Compare published measurements of hosts, links, drives and I/O engines with the model's values.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Short names of the sources of measurements, such as PCB (--list prints all); without a name, all sources
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Print measurements and model's values as JSON in place of tables
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values in place of tables, one line for each measurement
    #[arg(long)]
    csv: bool,
    /// Print only the tables of measurements and model's values, in Markdown
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    markdown: bool,
    /// Print only the sources of measurements, with titles and numbers of rows, and simulate nothing
    #[arg(long, conflicts_with_all = ["json", "csv", "markdown", "report"])]
    list: bool,
    /// Number of measurements with the largest errors of the model that are listed for each source
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with_all = ["json", "csv", "markdown", "list", "folds"])]
    worst: usize,
    /// Compare tails of drives under load with what the model makes of their data sheets; takes some minutes
    #[arg(long, conflicts_with_all = ["sources", "csv", "markdown", "list", "report", "folds", "worst"])]
    tails: bool,
    /// Cross-validate the model: estimate the parameters of each fold from some measurements, and judge the estimate on
    /// left-out ones; takes many minutes
    #[arg(long, conflicts_with_all = ["csv", "list", "report"])]
    folds: bool,
    /// With --folds, also judge each left-out source with parameters from no other source, and from a single one
    #[arg(long, requires = "folds")]
    curve: bool,
    /// Print the number of measurements of each shipped drive, stack and host, and the model's error there, as the TOML
    /// table that `run`, `compare` and `check` quote
    #[arg(long, conflicts_with_all = ["json", "csv", "markdown", "list", "folds", "report", "data", "sources"])]
    evidence: bool,
    /// Folder with measurements and plans (docs/validation.md) that replace the shipped ones
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    report: ReportFlags,
}

/// Compares measured tails of drives with those of their data sheets.
fn validate_tails(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let (progress, stopped) = (Progress::of(tails::SIMULATIONS), interrupt::flag());
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let answer = tails::judge(&|drive, jobs| progress.simulate(drive, jobs, 1, is_stopped));
    progress.finish();
    if is_stopped() {
        notes::tell("stopped: no drive is judged");
        return Ok(CommandEnding::Interrupted);
    }
    print_answer(&answer?, arguments.json, None)?;
    Ok(CommandEnding::Fine)
}

/// Runs `phaselink validate`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    if arguments.tails {
        return validate_tails(arguments);
    }
    let set = arguments.data.as_deref().map_or_else(files::shipped, files::measurements_of_folder)?;
    let question = ValidateQuestion { sources: arguments.sources.clone(), worst: arguments.worst };
    if arguments.list {
        output::print(&output::shown(&set.list(&question.plans(&set)?)))?;
        return Ok(CommandEnding::Fine);
    }
    let report = arguments.report.open()?;
    let stopped = interrupt::flag();
    if arguments.folds {
        let validation = Validation::prepare(&set.measurements, &question.plans(&set)?)?;
        return folds(arguments, &validation, set.calibration.as_ref(), &stopped);
    }
    let validation = question.study(&set)?;
    let Some(outcomes) = outcomes(&validation.runs, &stopped) else {
        notes::tell("stopped: no measurement is judged");
        return Ok(CommandEnding::Interrupted);
    };
    let answer = validation.answer(&outcomes, question.worst);
    if arguments.evidence {
        let left_out = set.calibration.as_ref().and_then(Calibration::interval);
        let papers = all(papers::reproduction_papers().map(|paper| paper.load()))?;
        output::print(&evidence::to_toml(&validation.evidence(&answer.rows, &papers), left_out))?;
        return Ok(CommandEnding::Fine);
    }
    match (arguments.csv, arguments.markdown) {
        (false, false) => return print_answer(&answer, arguments.json, report).map(|()| CommandEnding::Fine),
        (true, _) => output::print(&answer.csv())?,
        (false, true) => output::print(&answer.markdown())?,
    }
    if let Some(report) = report {
        report.write(&answer.page().unwrap_or_default(), &answer.document())?;
    }
    Ok(CommandEnding::Fine)
}

/// Runs `phaselink validate --folds`: estimates the parameters of each fold, judges the fold's left-out rows, and
/// prints the tables.
fn folds(
    arguments: &Arguments,
    validation: &Validation,
    calibration: Option<&Calibration>,
    stopped: &AtomicBool,
) -> Result<CommandEnding, Failure> {
    let Some(calibration) = calibration else {
        let allowed = "a file folds.toml with [[parameter]] and [[fold]] (docs/validation.md)";
        return Err(Problems::from(Problem::new("--data", None, "no folds", allowed)).into());
    };
    let told = RefCell::new(String::new());
    let simulate = |purpose: &str, runs: &[ExperimentRun]| {
        if told.replace(String::from(purpose)) != purpose {
            notes::tell(&format!("{purpose}: {} simulations at a time", runs.len()));
        }
        outcomes(runs, stopped)
    };
    let Some(found) = calibration.cross_validate(validation, arguments.curve, &simulate)? else {
        notes::tell("stopped: no fold is judged");
        return Ok(CommandEnding::Interrupted);
    };
    match arguments.markdown {
        true => output::print(&found.text().within(
            output::width::prose_width_columns(),
            markdown_heading,
            Table::markdown,
        ))?,
        false => print_answer(&found, arguments.json, None)?,
    }
    Ok(CommandEnding::Fine)
}

fn markdown_heading(text: &str) -> String {
    format!("### {text}\n")
}

/// Runs all experiments in parallel, and returns their outcomes in order. None if the user has stopped them.
fn outcomes(runs: &[ExperimentRun], stopped: &AtomicBool) -> Option<Vec<Outcome>> {
    let progress = Progress::of(runs.len());
    let stop = || stopped.load(Ordering::Relaxed);
    let run = |run: &ExperimentRun| {
        let outcome = (!stop()).then(|| {
            let outcome = run.outcome(|simulation| progress.outcome(simulation, stop));
            if run.is_of_transfers() {
                progress.one();
            }
            outcome
        });
        outcome.filter(|_| !stop())
    };
    let outcomes: Option<Vec<Outcome>> = runs.par_iter().map(run).collect();
    progress.finish();
    outcomes
}
