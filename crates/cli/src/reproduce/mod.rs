//! `phaselink reproduce`: runs the experiments of published papers, and compares published with simulated results.

mod doubt;
mod page;
mod text;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::Problems;
use phaselink_studies::reproduce::experiment::{ExperimentRun, Experiments};
use phaselink_studies::reproduce::papers::{self, Paper};
use phaselink_studies::reproduce::{self, Dependence, PaperFigure, Row, Verdict};
use rayon::prelude::*;

use crate::ending::{CommandEnding, Failure};
use crate::intervals::IntervalFlags;
use crate::output::{ReportFlags, Target};
use crate::progress::Progress;
use crate::{input, interrupt, notes, output};

const EXAMPLES: &str = include_str!("../../help/reproduce.txt");

/// Simulate the experiments of published papers, and print each published result beside the simulated one.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Names of the papers to reproduce, as --list prints them; without a name, all papers
    #[arg(value_name = "PAPER")]
    papers: Vec<String>,
    /// Print published and simulated results as JSON in place of tables
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print published and simulated results as comma-separated values, one line for each result, in place of tables
    #[arg(long)]
    csv: bool,
    /// Print only a table of published and simulated results for each paper, in Markdown
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    markdown: bool,
    /// Print only a table with one line for each paper: numbers of predicted results, of reproduced ones, and of
    /// results with fitted constants
    #[arg(long, conflicts_with_all = ["json", "csv", "markdown"])]
    summary: bool,
    /// Print only the names of the papers, one a line, and simulate nothing
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    list: bool,
    #[command(flatten)]
    report: ReportFlags,
    #[command(flatten)]
    intervals: IntervalFlags,
    /// Measure which uncertain constants change each result, by setting one constant at a time to each end of its
    /// range; with =DIR, also write the constants to DIR/PAPER/depends_on.csv
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    depends: Option<Option<PathBuf>>,
}

/// Results of a paper with their verdicts, and the paper's figures.
pub(crate) struct JudgedPaper {
    rows: Vec<Row>,
    figures: Vec<PaperFigure>,
}

/// Runs `phaselink reproduce`. Ends with `Off` (exit code 1) if a simulated result differs from the published one by
/// more than is allowed.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let papers = arguments.papers()?;
    if arguments.list {
        let names: Vec<String> = papers.iter().map(|paper| format!("{}\n", paper.name)).collect();
        output::print(&names.concat())?;
        return Ok(CommandEnding::Fine);
    }
    let report = arguments.report.open()?;
    let stopped = interrupt::flag();
    let judged = judge_papers(&papers, arguments, &stopped)?;
    let is_stopped = stopped.load(Ordering::Relaxed);
    if is_stopped {
        notes::tell(&format!("stopped: {} of {} papers are finished", judged.len(), papers.len()));
    }
    let rows: Vec<Row> = judged.iter().flat_map(|paper| paper.rows.iter().cloned()).collect();
    let document = || output::headed("reproduce", reproduce::document(&rows));
    if let Some(report) = report {
        report.write(&page::page(&judged), &document())?;
    }
    match (arguments.json, arguments.csv) {
        (true, _) => output::print_json(&document())?,
        (_, true) => output::print(&text::csv(&rows))?,
        _ if arguments.markdown => {
            output::print(&judged.iter().map(|paper| text::markdown(&paper.rows)).collect::<String>())?
        }
        _ if arguments.summary => output::print(&text::summary(&rows))?,
        _ => output::print(&text::text(&rows))?,
    }
    Ok(match rows.iter().any(|row| row.verdict == Verdict::Off) {
        _ if is_stopped => CommandEnding::Interrupted,
        true => CommandEnding::Off,
        false => CommandEnding::Fine,
    })
}

impl Arguments {
    fn papers(&self) -> Result<Vec<Paper>, Problems> {
        if self.papers.is_empty() {
            return Ok(papers::reproduction_papers().collect());
        }
        let papers = input::all(self.papers.iter().map(|name| papers::find(name)))?;
        if papers.iter().any(Paper::is_in_validation) {
            notes::tell(
                "the measurements of `modern` stand in `phaselink validate`; the name is kept for this release",
            );
        }
        Ok(papers)
    }

    /// Judges the results of one paper, after measuring the influence of uncertain constants with `--depends` or
    /// `--intervals`. None if the user has stopped the measurement.
    fn judge_with_intervals(
        &self,
        experiments: &mut Experiments,
        outcomes: &[Outcome],
        stopped: &AtomicBool,
    ) -> Result<Option<Vec<Row>>, Problems> {
        let is_whole = |rows: Vec<Row>| (!stopped.load(Ordering::Relaxed)).then_some(rows);
        if let Some(directory) = &self.depends {
            let dependence = doubt::measure(experiments, outcomes, stopped)?;
            if stopped.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if let Some(directory) = directory {
                let folder = directory.join(experiments.reproduction.paper());
                write(&folder.join("depends_on.csv"), &dependence)?;
            }
            experiments.reproduction.set_dependence(dependence);
        }
        if !experiments.is_measured() {
            let paper = experiments.reproduction.paper();
            notes::tell(&format!(
                "note: {paper}: constants in doubt have changed since dependence on them was measured (--depends)"
            ));
        }
        let rows = experiments.judge(outcomes);
        match self.intervals.draws() {
            Some(draws) => doubt::intervals(experiments, outcomes, rows, draws, stopped).map(is_whole),
            None => Ok(Some(rows)),
        }
    }
}

fn write(path: &Path, dependence: &Dependence) -> Result<(), Problems> {
    if let Some(folder) = path.parent() {
        output::create_directory(folder)?;
    }
    Target::create("--depends", path)?.write(&dependence.to_csv())
}

/// Runs all experiments of the papers in parallel, and judges the results of each paper whose experiments were finished
/// when the user stopped it.
fn judge_papers(papers: &[Paper], arguments: &Arguments, stopped: &AtomicBool) -> Result<Vec<JudgedPaper>, Problems> {
    let reproductions = input::all(papers.iter().map(Paper::load))?;
    for note in reproductions.iter().flat_map(|reproduction| reproduction.notes()) {
        notes::tell(&format!("note: {note}"));
    }
    let mut papers = input::all(reproductions.into_iter().map(Experiments::prepare))?;
    let runs: Vec<&ExperimentRun> = papers.iter().flat_map(|paper| &paper.runs).collect();
    let mut outcomes = outcomes(&runs, stopped).into_iter();
    let judged = papers.iter_mut().map(|paper| {
        let outcomes: Option<Vec<Outcome>> =
            outcomes.by_ref().take(paper.runs.len()).collect::<Vec<_>>().into_iter().collect();
        let Some(outcomes) = outcomes else { return Ok(None) };
        let rows = arguments.judge_with_intervals(paper, &outcomes, stopped)?;
        Ok(rows.map(|rows| JudgedPaper { rows, figures: paper.figures(&outcomes) }))
    });
    Ok(input::all(judged)?.into_iter().flatten().collect())
}

/// Runs experiments in their order, in parallel, so that papers finish one after the other. The outcome of a run that
/// the user has stopped is none.
fn outcomes(runs: &[&ExperimentRun], stopped: &AtomicBool) -> Vec<Option<Outcome>> {
    let progress = Progress::of(runs.len());
    let stop = || stopped.load(Ordering::Relaxed);
    let run = |(place, run): (usize, &&ExperimentRun)| {
        let outcome = (!stop()).then(|| run.outcome(|simulation| progress.outcome(simulation, stop)));
        (place, outcome.filter(|_| !stop()))
    };
    let mut outcomes: Vec<(usize, Option<Outcome>)> = runs.iter().enumerate().par_bridge().map(run).collect();
    progress.finish();
    outcomes.sort_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests;
