//! Search for the cheapest point of a plan that meets a target. The core decides which points run next.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use phaselink_core::number::length;
use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::predict::predict;
use phaselink_studies::results::documents::{SearchDocument, value};
use phaselink_studies::results::units::grouped;
use phaselink_studies::sweep::search::{CandidateState, EXAMPLES, PriceList, Search, SearchCandidate, Target};
use phaselink_studies::sweep::text::{self, FinishedPoint};
use phaselink_studies::sweep::{Hash, PointResolver, Sweep};
use rayon::prelude::*;

use super::drawn::Work;
use super::state_file::StateFile;
use super::{RunnablePoints, pending, run};
use crate::ending::{CommandEnding, Failure};
use crate::{describe, input, notes, output};

/// Options of the search of `phaselink sweep`: constraints (`p99<5us`), the objective to minimise, and prices.
#[derive(Args, Debug)]
#[command(next_help_heading = "Search")]
pub(super) struct SearchFlags {
    /// Find the cheapest point of the plan that meets these constraints, as in 'p99<5us,iops>500k', without simulating
    /// all points
    #[arg(long, value_name = "BOUNDS", conflicts_with_all = ["csv", "markdown", "report", "precision", "intervals", "where_", "sort", "best"])]
    target: Option<String>,
    /// Objective that the search of --target minimises: cost, or a key of the drive with a numeric value, such as
    /// link.lanes [default: cost]
    #[arg(long, value_name = "KEY", requires = "target")]
    minimise: Option<String>,
    /// File with prices of a drive's parts (TOML) for the search of --target [default: PLAN.costs.toml beside the plan,
    /// or examples]
    #[arg(long, value_name = "FILE", requires = "target")]
    costs: Option<PathBuf>,
}

/// Points of a plan among which a search finds the cheapest, with the plan's path and its sweep.
pub(super) struct SearchPoints<'a> {
    pub plan: &'a Path,
    pub sweep: &'a Sweep,
    pub points: &'a RunnablePoints,
}

/// State and result of a search for the cheapest point.
struct FoundPoint<'a> {
    among: &'a SearchPoints<'a>,
    target: &'a Target,
    search: Search,
    /// Unit of all costs of the search, such as USD.
    unit: String,
    /// Number of points that do not run, because closed-form bounds (`phaselink predict`) miss the target.
    ruled_out: usize,
}

impl SearchFlags {
    /// Returns the target of the search, or none without `--target`.
    ///
    /// # Errors
    ///
    /// If the target is invalid.
    pub(super) fn target(&self) -> Result<Option<Target>, Problem> {
        self.target.as_deref().map(Target::parse).transpose()
    }

    /// Searches for the cheapest point, and prints the result as text, or as JSON if `document` is given. If `document`
    /// contains a file, writes the JSON to the file and prints the text.
    pub(super) fn command(
        &self,
        target: &Target,
        among: &SearchPoints<'_>,
        state: &mut StateFile,
        stopped: &AtomicBool,
        document: Option<Option<output::Target>>,
    ) -> Result<CommandEnding, Failure> {
        if among.sweep.plan().has_several_seeds() {
            let found = "a search in a plan with several seeds";
            return Err(Problem::new(among.plan.display().to_string(), None, found, "one seed").into());
        }
        let (file, costs) = self.costs(among.plan)?;
        let candidates = candidates(among, target, &file, &costs)?;
        let ruled_out = among.points.len() - candidates.len();
        let mut found = FoundPoint { among, target, search: Search::new(candidates), unit: costs.unit, ruled_out };
        found.search(state, stopped)?;
        if stopped.load(Ordering::Relaxed) {
            let ran = found.search.ran().count();
            eprintln!("stopped: {ran} points are in {}; the same command goes on from there", state.path());
            return Ok(CommandEnding::Interrupted);
        }
        if let Some(Some(file)) = document {
            file.write(&found.json(state))?;
            output::print(&found.text(state))?;
        } else {
            output::print(&if document.is_some() { found.json(state) } else { found.text(state) })?;
        }
        Ok(if found.search.best().is_some() { CommandEnding::Fine } else { CommandEnding::Off })
    }

    /// Returns the prices of a drive's parts, with the name of the price file for messages.
    fn costs(&self, plan: &Path) -> Result<(String, PriceList), Problems> {
        if let Some(key) = self.minimise.as_deref().filter(|key| *key != "cost") {
            return Ok((String::from("--minimise"), PriceList::of_key(key)));
        }
        let beside = plan.with_extension("costs.toml");
        let file = self.costs.clone().or_else(|| beside.exists().then(|| beside.clone()));
        let Some(file) = file else {
            notes::tell(&format!("note: prices are made-up examples; write your own into {}", beside.display()));
            return Ok((String::from("example prices"), PriceList::parse("example prices", EXAMPLES)?));
        };
        let name = file.display().to_string();
        let costs = PriceList::parse(&name, &input::description(&name)?)?;
        Ok((name, costs))
    }
}

/// Returns all points with their costs, except for points whose closed-form bounds miss the target.
fn candidates(
    among: &SearchPoints<'_>,
    target: &Target,
    file: &str,
    costs: &PriceList,
) -> Result<Vec<SearchCandidate>, Problems> {
    let candidate = |resolver: &mut PointResolver<'_>, point: usize| {
        let (drive, jobs) = resolver.resolve(point)?;
        let cost = costs.of(file, drive)?;
        let is_possible = !target.is_ruled_out(&predict(drive, &jobs));
        Ok(is_possible.then(|| SearchCandidate::new(among.sweep.plan(), point, cost)))
    };
    let points = among.points.par_iter();
    let priced = points.map_init(|| among.sweep.resolver(), |resolver, (point, _)| candidate(resolver, *point));
    Ok(input::all(priced.collect::<Vec<_>>())?.into_iter().flatten().collect())
}

impl FoundPoint<'_> {
    /// Runs the points that the search asks for, step by step, until the result is known or `stopped` is set.
    fn search(&mut self, state: &mut StateFile, stopped: &AtomicBool) -> Result<(), Problems> {
        loop {
            let wave: Vec<Work> = self.search.wave().into_iter().filter_map(|point| self.work(point)).collect();
            if wave.is_empty() || stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            run(self.among.sweep, None, &[], &pending(&wave, state), state, stopped)?;
            for work in &wave {
                if let Some(figures) = state.figures(work.hash) {
                    self.search.tell(work.point, self.target, figures);
                }
            }
        }
    }

    fn hash(&self, point: usize) -> Option<Hash> {
        let place = self.among.points.binary_search_by_key(&point, |(point, _)| *point).ok()?;
        Some(self.among.points[place].1)
    }

    fn work(&self, point: usize) -> Option<Work> {
        Some(Work { point, draw: None, hash: self.hash(point)? })
    }

    /// Returns the rows of the points that have run, the cheapest first.
    fn rows<'a>(&self, state: &'a StateFile) -> Vec<FinishedPoint<'a>> {
        let row = |(candidate, verdict): (&SearchCandidate, CandidateState)| {
            let hash = self.hash(candidate.point)?;
            let verdict = Some((candidate.cost, verdict == CandidateState::Met));
            Some(FinishedPoint {
                point: candidate.point,
                hash,
                figures: state.figures(hash)?,
                intervals: None,
                verdict,
            })
        };
        self.search.ran().filter_map(row).collect()
    }

    fn constraint_texts(&self) -> Vec<String> {
        self.target.0.iter().map(ToString::to_string).collect()
    }

    fn text(&self, state: &StateFile) -> String {
        let (plan, bounds, rows) =
            (self.among.sweep.plan(), describe::listed(&self.constraint_texts()), self.rows(state));
        let answer = match self.search.best() {
            Some(best) => {
                let cost = text::cost(best.cost);
                format!("cheapest with {bounds}, at {cost} {}:\n  {}", self.unit, plan.describe(best.point))
            }
            None => format!("no point has {bounds}"),
        };
        let table = output::table_with_bold_heading(&text::table(plan, &rows));
        format!(
            "{}\n{table}\n{}\n{answer}\n",
            text::heading(plan, self.among.points.len()),
            self.skipped_run_sentence()
        )
    }

    /// Returns a sentence on the number of runs that were not needed.
    fn skipped_run_sentence(&self) -> String {
        let [slower, dearer] =
            [CandidateState::Slower, CandidateState::Dearer].map(|state| grouped(length(self.search.count(state))));
        let (points, ruled_out) = (grouped(length(self.among.points.len())), grouped(length(self.ruled_out)));
        let runs = grouped(length(self.search.ran().count()));
        format!(
            "{runs} of {points} points ran; closed forms rule out {ruled_out}, {slower} are slower than one that misses \
             the target, {dearer} dearer than one that meets it."
        )
    }

    fn json(&self, state: &StateFile) -> String {
        let plan = self.among.sweep.plan();
        let rows = text::objects(plan, &self.rows(state));
        let document = SearchDocument {
            target: self.constraint_texts(),
            unit: self.unit.clone(),
            points: self.among.points.len(),
            ruled_out: self.ruled_out,
            slower: self.search.count(CandidateState::Slower),
            dearer: self.search.count(CandidateState::Dearer),
            best: rows.iter().find(|row| row.meets == Some(true)).cloned(),
            rows,
        };
        output::json_text(&output::headed("sweep", value(&document)))
    }
}
