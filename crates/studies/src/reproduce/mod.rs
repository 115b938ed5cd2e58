//! Reproductions: published results, compared with simulated ones.
//!
//! A reproduction is a folder without code. `plan.toml` says which experiments to run and how each published figure
//! follows from them, `expected.csv` holds the published values with their sources, and `depends_on.csv` the uncertain
//! constants on which each row was found to depend. The caller runs the experiments; this module lists every needed run
//! once, and gives a verdict on every published row. Nothing is dropped: a row that the plan does not mention is an
//! error of the plan.
//!
//! ```text
//! Reproduction::load ── runs() ── caller resolves drives ── check() ── caller simulates ── judge()
//!                                       └── with constants moved ── values() ── ids_of_moved_rows()
//! ```

mod dependence;
mod evaluate;
mod expected;
pub mod experiment;
mod expression;
mod figure;
mod lexer;
mod mistake;
pub mod papers;
mod plan;
mod plan_experiment;
mod plan_form;
mod printed;
mod quantity;
mod run_value;
#[cfg(test)]
mod test_outcomes;
mod verdict;

use crate::shipped::PAPERS;
pub use phaselink_core::config::result_column_of_stage;

use std::collections::BTreeSet;

use crate::results::documents::Provenance;
use dependence::ResultDependence;
use evaluate::{ExpressionValue, evaluate};
use expected::PublishedResult;
use expression::Expression;
use mistake::ExpressionMistake;
use phaselink_core::config::UncertaintyCause;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};
use plan::{PlanRow, ReproductionPlan};
use quantity::RunQuantity;

pub use dependence::{Dependence, MOVED_SHARE};
pub use expected::{ClaimKind, fields};
pub use figure::PaperFigure;
pub use plan::RunSpec;
pub(crate) use plan::fio_option_text;
pub use run_value::RunExpression;
use verdict::RowRemarks;
pub use verdict::{Row, Verdict, document, with_interval};

/// Reproduction of the results of a paper: a plan of experiments, and the published results that are compared with it.
#[derive(Clone, Debug)]
pub struct Reproduction {
    paper: String,
    plan: ReproductionPlan,
    expected: Vec<PublishedResult>,
    dependence: Dependence,
}

/// Properties of the drive of a run, overrides applied, that verdicts need.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Keys of the uncertain constants of the drive, each with the reason of its uncertainty.
    pub doubts: Vec<(UncertaintyCause, String)>,
    /// Resolved description of the drive: an object for each section, with keys as in drive files.
    pub description: serde_json::Value,
}

impl From<&Drive> for Facts {
    fn from(drive: &Drive) -> Facts {
        let doubts =
            drive.relevant_uncertain_constants().into_iter().map(|(cause, doubt)| (cause, doubt.key.clone())).collect();
        Facts { doubts, description: drive.resolved() }
    }
}

impl Facts {
    /// Returns the number at a dotted key of the description, or 1 or 0 for a truth value; `None` for anything else.
    fn parameter(&self, key: &str) -> Option<f64> {
        let value = self.description.pointer(&format!("/{}", key.replace('.', "/")))?;
        value.as_f64().or_else(|| value.as_bool().map(|truth| f64::from(u8::from(truth))))
    }

    /// Returns the names under which results report the stages of the software stack.
    fn stack_stages(&self) -> Vec<&str> {
        let stages = self.description.pointer("/stack/stages").and_then(serde_json::Value::as_array);
        stages.into_iter().flatten().filter_map(|stage| stage["name"].as_str()).map(result_column_of_stage).collect()
    }
}

impl Reproduction {
    /// Reads the reproduction of `paper` from the texts of its `plan.toml` and `expected.csv`.
    ///
    /// # Errors
    /// All problems of both texts at once: syntax, unknown keys, experiments, quantities and functions, expressions of
    /// the wrong kind, and published rows without a row of the plan or the reverse.
    pub fn load(paper: &str, plan_text: &str, expected_text: &str) -> Result<Reproduction, Problems> {
        let file = |name: &str| format!("reproductions/{paper}/{name}");
        let mut problems = Problems::default();
        let plan = plan::read(&file("plan.toml"), plan_text, &mut problems);
        let expected = expected::read(&file("expected.csv"), expected_text, &mut problems);
        let reproduction =
            Reproduction { paper: String::from(paper), plan, expected, dependence: Dependence::default() };
        if problems.0.is_empty() {
            problems.0.extend(reproduction.unmatched_row_problems());
            problems.0.extend(reproduction.figure_problems());
            problems.0.extend(
                reproduction.rows().filter_map(|(row, expected)| reproduction.value_kind_problem(row, expected)),
            );
        }
        problems.0.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        problems.or(reproduction)
    }

    /// Adds the uncertain constants on which the simulated values of the published results were found to depend; `text`
    /// is the text of `depends_on.csv`.
    ///
    /// # Errors
    /// Lines of another form.
    pub fn with_dependence(mut self, text: &str) -> Result<Reproduction, Problems> {
        self.dependence = Dependence::parse(&format!("reproductions/{}/depends_on.csv", self.paper), text)?;
        Ok(self)
    }

    /// Replaces the uncertain constants on which the simulated values of the published results depend by newly measured
    /// ones.
    pub fn set_dependence(&mut self, dependence: Dependence) {
        self.dependence = dependence;
    }

    /// Returns the uncertain constants on which the simulated values of the published results depend, as far as they
    /// are known.
    pub fn dependence(&self) -> &Dependence {
        &self.dependence
    }

    /// Returns notes for a reader of the results: one for each quantity that the plan calls by an earlier name.
    pub fn notes(&self) -> &[String] {
        &self.plan.notes
    }

    /// Returns the name of the paper, which is the name of its folder.
    pub fn paper(&self) -> &str {
        &self.paper
    }

    /// Returns every simulation that the plan needs, each once.
    pub fn runs(&self) -> &[RunSpec] {
        &self.plan.runs
    }

    /// Returns a problem of a run, such as an unknown drive, at the place of the plan's experiment that needs the run.
    ///
    /// # Panics
    /// If there is no such run.
    pub fn run_problem_at_experiment(&self, run: usize, found: &str, allowed: &str) -> Problem {
        self.plan.places[run].problem(found, allowed)
    }

    /// Checks, before anything runs, that every stage and parameter that an expression names exists in the drives of
    /// its runs; `facts` are those of [`Reproduction::runs`], in order.
    ///
    /// # Errors
    /// Every name that does not exist.
    ///
    /// # Panics
    /// If the numbers of facts and runs differ.
    pub fn check(&self, facts: &[Facts]) -> Result<(), Problems> {
        assert_eq!(facts.len(), self.plan.runs.len(), "one set of facts for each run");
        let mut problems = Problems::default();
        for row in &self.plan.rows {
            let faults = self.faults(row, facts);
            problems.0.extend(faults.into_iter().map(|mistake| mistake.at(&row.place)));
        }
        problems.0.extend(self.missing_quantity_problems(facts));
        problems.or(())
    }

    /// Returns the verdict on every published row; `outcomes` and `facts` are those of [`Reproduction::runs`], in
    /// order.
    ///
    /// # Panics
    /// If the numbers of outcomes, facts and runs differ.
    pub fn judge(&self, outcomes: &[&Outcome], facts: &[Facts]) -> Vec<Row> {
        let values = self.values(outcomes, facts);
        let judged = |((row, expected), value): ((&PlanRow, &PublishedResult), Option<f64>)| {
            let remarks = RowRemarks {
                unexplained: row.unexplained.as_deref(),
                because: row.because.as_deref(),
                provenance: row.provenance,
            };
            verdict::judge(&self.paper, expected, remarks, value, self.dependence_of(row, facts))
        };
        self.rows().zip(values).map(judged).collect()
    }

    /// Returns the simulated value of every row, in the order of [`Reproduction::judge`]; `None` for a row without a
    /// finite one.
    ///
    /// # Panics
    /// If the numbers of outcomes, facts and runs differ.
    pub fn values(&self, outcomes: &[&Outcome], facts: &[Facts]) -> Vec<Option<f64>> {
        assert_eq!(outcomes.len(), self.plan.runs.len(), "one outcome for each run");
        assert_eq!(facts.len(), self.plan.runs.len(), "one set of facts for each run");
        let read = |run: usize, quantity: &RunQuantity| quantity.read(outcomes[run], &facts[run]);
        self.rows().map(|(row, _)| row.value.as_ref().and_then(|value| self.number(value, &read))).collect()
    }

    /// Returns the ids of the rows whose simulated values differ between `before` and `after` by enough to count as
    /// moved, see [`Dependence`]. Rows of the kind input are left out, because they follow the description.
    pub fn ids_of_moved_rows<'a>(&'a self, before: &[Option<f64>], after: &[Option<f64>]) -> Vec<&'a str> {
        let rows = self.rows().zip(before.iter().zip(after));
        let moved = rows.filter(|((_, expected), (before, after))| has_moved(expected, **before, **after));
        moved.map(|((row, _), _)| row.id.as_str()).collect()
    }

    /// Returns, for each run, true if a published result that `wanted` selects by id and kind reads a figure of it that
    /// uncertain constants can change. With a `key`, only that constant counts: a constant of the section `power`
    /// changes only power figures.
    pub fn runs_to_repeat(&self, wanted: impl Fn(&str, ClaimKind) -> bool, key: Option<&str>) -> Vec<bool> {
        let is_of_power = key.is_some_and(|key| key.starts_with("power."));
        let mut is_needed = vec![false; self.plan.runs.len()];
        for (row, _) in self.rows().filter(|(row, expected)| wanted(&row.id, expected.kind)) {
            self.visit(row, &mut |run, quantity| is_needed[run] |= !is_of_power || quantity.may_depend_on_power());
        }
        is_needed
    }

    /// Returns the uncertain constants on which a simulated value depends: as measured, if that was done for all
    /// constants that are uncertain now, else all uncertain constants of the drives that the value reads. So a value
    /// never seems to depend on fewer constants than it does.
    fn dependence_of(&self, row: &PlanRow, facts: &[Facts]) -> ResultDependence {
        if self.is_measured(facts) {
            return self.dependence.of(&row.id);
        }
        let mut all = Dependence::default();
        self.visit(row, &mut |run, quantity| {
            if !matches!(quantity, RunQuantity::Parameter(_)) {
                facts[run].doubts.iter().for_each(|(cause, key)| all.note(*cause, key, [row.id.as_str()]));
            }
        });
        all.of(&row.id)
    }

    /// True if the dependences were measured for exactly the constants that are uncertain now.
    ///
    /// `facts` are those of [`Reproduction::runs`], in order.
    pub fn is_measured(&self, facts: &[Facts]) -> bool {
        let now: BTreeSet<(UncertaintyCause, String)> =
            facts.iter().flat_map(|facts| facts.doubts.iter().cloned()).collect();
        now == self.dependence.constants()
    }

    /// Returns the published results in their order, each with the row of the plan that says how it is simulated.
    fn rows(&self) -> impl Iterator<Item = (&PlanRow, &PublishedResult)> {
        self.expected.iter().filter_map(|expected| {
            let row = self.plan.rows.iter().find(|row| row.id == expected.id);
            row.map(|row| (row, expected))
        })
    }

    fn unmatched_row_problems(&self) -> Vec<Problem> {
        let planned: BTreeSet<&str> = self.plan.rows.iter().map(|row| row.id.as_str()).collect();
        let published: BTreeSet<&str> = self.expected.iter().map(|row| row.id.as_str()).collect();
        let unplanned = self.expected.iter().filter(|row| !planned.contains(row.id.as_str())).map(|row| {
            let found = format!("the plan has no row `{}`", row.id);
            row.place.problem(found, "a [[row]] with a value, or with unexplained = \"why\"")
        });
        let unpublished = self.plan.rows.iter().filter(|row| !published.contains(row.id.as_str())).map(|row| {
            let found = format!("expected.csv has no row `{}`", row.id);
            row.place.problem(found, "rows for published results")
        });
        unplanned.chain(unpublished).collect()
    }

    /// Returns the problem of a row whose value has the wrong kind: a number or a comparison is needed. No kind depends
    /// on a result, so that any results will do for the check.
    fn value_kind_problem(&self, row: &PlanRow, expected: &PublishedResult) -> Option<Problem> {
        let value = evaluate(row.value.as_ref()?, &self.plan.experiments, &|_, _| 1.0);
        let (found, allowed) = match (value, expected.printed) {
            (Ok(ExpressionValue::Number(_)), Some(_)) | (Ok(ExpressionValue::Truth(_)), None) => {
                return self.missing_run_problem(row, expected);
            }
            (Err(found), _) => (found, ""),
            (Ok(value), Some(_)) => (format!("`{}` gives {}", row.id, value.kind()), "a number"),
            (Ok(value), None) => (format!("`{}` gives {}", row.id, value.kind()), "a comparison"),
        };
        Some(row.place.problem(found, allowed))
    }

    /// Returns the problem of a row that reads no run but is not declared so. A value that follows from given numbers
    /// alone must have the kind input; one of a closed form must have the provenance returned.
    fn missing_run_problem(&self, row: &PlanRow, expected: &PublishedResult) -> Option<Problem> {
        let mut reads_runs = false;
        self.visit(row, &mut |_, quantity| reads_runs |= !matches!(quantity, RunQuantity::Parameter(_)));
        if !reads_runs && self.reads_form(row) {
            let is_told = row.provenance == Some(Provenance::Returned);
            let found = format!("`{}` is what a closed form returns", row.id);
            return (!is_told).then(|| row.place.problem(found, "provenance = \"returned\""));
        }
        let is_idle = !reads_runs && expected.kind != ClaimKind::Input;
        is_idle.then(|| expected.place.problem(format!("`{}` reads no result of a run", row.id), "the kind input"))
    }

    fn number(&self, value: &Expression, read: &impl Fn(usize, &RunQuantity) -> f64) -> Option<f64> {
        let value = evaluate(value, &self.plan.experiments, read);
        value.expect("checked when the plan was loaded").as_scalar().filter(|number| number.is_finite())
    }

    fn faults(&self, row: &PlanRow, facts: &[Facts]) -> Vec<ExpressionMistake> {
        let mut faults = Vec::new();
        self.visit(row, &mut |run, quantity| faults.extend(quantity.check(&facts[run]).err()));
        faults.dedup();
        faults
    }

    /// True if the value of a row of the plan reads a closed form.
    fn reads_form(&self, row: &PlanRow) -> bool {
        let mut reads_form = false;
        if let Some(value) = &row.value {
            value.visit(&mut |place, _| reads_form |= self.plan.experiments[place].is_closed_form());
        }
        reads_form
    }

    /// Calls `visit` with each run, by its index, and each quantity of it that the value of a row of the plan reads.
    fn visit(&self, row: &PlanRow, visit: &mut impl FnMut(usize, &RunQuantity)) {
        let Some(value) = &row.value else { return };
        value.visit(&mut |experiment, quantity| {
            let Some(quantity) = quantity else { return };
            self.plan.experiments[experiment].runs.iter().for_each(|run| visit(*run, quantity));
        });
    }
}

/// True if a simulated value has changed by enough to depend on the constant that was set to another value.
fn has_moved(expected: &PublishedResult, before: Option<f64>, after: Option<f64>) -> bool {
    let share = match expected.kind {
        ClaimKind::Input => return false,
        ClaimKind::Shape => 0.0,
        ClaimKind::Number => MOVED_SHARE.min(expected.tolerance_pct() / 100.0 / 2.0),
    };
    match (before, after) {
        (Some(before), Some(after)) => (after - before).abs() > share * before.abs(),
        (before, after) => before.is_some() != after.is_some(),
    }
}

#[cfg(test)]
mod tests;
