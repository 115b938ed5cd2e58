//! `phaselink reproduce`: published results beside simulated ones.

mod text;

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::Override;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::reproduce::{Facts, PAPERS, Reproduction, Row, RunSpec, Verdict};
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::{Job, fio};
use rayon::prelude::*;

use crate::ending::{Ending, Failure};
use crate::progress::Progress;
use crate::{input, output};

/// A paper whose results are reproduced: the folder `reproductions/<name>`.
struct Paper {
    name: &'static str,
    plan: &'static str,
    expected: &'static str,
}

/// All of them.
fn all_papers() -> impl Iterator<Item = Paper> {
    PAPERS.iter().map(|&(name, plan, expected)| Paper { name, plan, expected })
}

const EXAMPLES: &str = include_str!("../../help/reproduce.txt");

/// Run the experiments of published papers and set each printed result beside the simulated one.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Papers; all of them if none is named
    #[arg(value_name = "PAPER")]
    papers: Vec<String>,
    /// Print a JSON array
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
    /// List the papers
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    list: bool,
}

/// One run of a plan, ready to go. Its simulation is set up when its turn comes, since those of all runs together could
/// take more memory than there is.
struct Ready {
    facts: Facts,
    drive: Drive,
    jobs: Vec<Job>,
    seed: u64,
}

impl Ready {
    fn run(&self, progress: &Progress) -> Outcome {
        let mut simulation = Simulation::new(&self.drive, &self.jobs, self.seed).expect("checked when it was prepared");
        progress.drive(&mut simulation, || false);
        simulation.outcome()
    }
}

/// Run the command.
pub fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let papers = arguments.papers()?;
    if arguments.list {
        let names: Vec<String> = papers.iter().map(|paper| format!("{}\n", paper.name)).collect();
        output::print(&names.concat())?;
        return Ok(Ending::Fine);
    }
    let rows = judge(&papers)?;
    match (arguments.json, arguments.csv) {
        (true, _) => output::print_json(&rows.iter().map(text::object).collect())?,
        (_, true) => output::print(&text::csv(&rows))?,
        _ => output::print(&text::text(&rows))?,
    }
    let is_off = rows.iter().any(|row| row.verdict == Verdict::Off);
    Ok(if is_off { Ending::Off } else { Ending::Fine })
}

impl Arguments {
    fn papers(&self) -> Result<Vec<Paper>, Problems> {
        if self.papers.is_empty() {
            return Ok(all_papers().collect());
        }
        let find = |name: &String| {
            all_papers().find(|paper| paper.name == name).ok_or_else(|| {
                let known: Vec<&str> = all_papers().map(|paper| paper.name).collect();
                Problem::new("command line", None, format!("there is no paper `{name}`"), known.join(", ")).into()
            })
        };
        input::all(self.papers.iter().map(find))
    }
}

/// Run everything that the papers need, on all processors, and judge their results.
fn judge(papers: &[Paper]) -> Result<Vec<Row>, Problems> {
    let load = |paper: &Paper| Reproduction::load(paper.name, paper.plan, paper.expected);
    let reproductions = input::all(papers.iter().map(load))?;
    let ready = input::all(reproductions.iter().map(prepare))?;
    let runs: Vec<&Ready> = ready.iter().flatten().collect();
    let progress = Progress::of(runs.len());
    let outcomes: Vec<Outcome> = runs.par_iter().map(|run| run.run(&progress)).collect();
    progress.finish();
    let mut outcomes = outcomes.into_iter();
    let rows = reproductions.iter().zip(&ready).flat_map(|(reproduction, runs)| {
        let outcomes: Vec<Outcome> = outcomes.by_ref().take(runs.len()).collect();
        let facts: Vec<Facts> = runs.iter().map(|run| run.facts.clone()).collect();
        reproduction.judge(&outcomes, &facts)
    });
    Ok(rows.collect())
}

/// The runs of one paper, checked.
fn prepare(reproduction: &Reproduction) -> Result<Vec<Ready>, Problems> {
    let runs = reproduction.runs().iter().enumerate().map(|(place, spec)| {
        // What is wrong is told at the place of the experiment.
        let placed = |problem: &Problem| reproduction.problem_of(place, &problem.found, &problem.allowed);
        prepare_run(spec).map_err(|problems| Problems(problems.0.iter().map(placed).collect()))
    });
    let runs = input::all(runs)?;
    let facts: Vec<Facts> = runs.iter().map(|run| run.facts.clone()).collect();
    reproduction.check(&facts)?;
    Ok(runs)
}

fn prepare_run(spec: &RunSpec) -> Result<Ready, Problems> {
    let overrides = input::all(spec.set.iter().map(|text| Override::parse(text).map_err(Problems::from)))?;
    let drive: Drive = input::drive(&spec.drive, &overrides)?;
    let mut jobs = Vec::new();
    for job in [Some(&spec.job), spec.beside.as_ref()].into_iter().flatten() {
        let options: Vec<(&str, &str)> = job.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        jobs.extend(fio::from_flags(&options)?.resolve(&drive.limits(), &Default::default())?);
    }
    Simulation::check(&drive, &jobs)?;
    Ok(Ready { facts: Facts::from(&drive), drive, jobs, seed: spec.seed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_loads_and_its_runs_fit_their_drives() {
        for paper in all_papers() {
            let reproduction = Reproduction::load(paper.name, paper.plan, paper.expected).unwrap();
            prepare(&reproduction).unwrap_or_else(|problems| panic!("{problems}"));
        }
    }
}
