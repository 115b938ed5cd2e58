//! Values that follow from one run by an expression, for tables in which each row reads a single run.

use super::evaluate::{ExpressionValue, evaluate};
use super::experiment::ExperimentRun;
use super::expression::{Expression, parse};
use super::plan_experiment::PlanExperiment;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};

/// Name by which expressions refer to the run.
const RUN: &str = "run";

/// Expression over a single run, which the expression calls `run`: `run.mean_ns`, or `1e9 * run.working / run.iops`.
#[derive(Clone, Debug)]
pub struct RunExpression {
    expression: Expression,
    experiments: Vec<PlanExperiment>,
}

impl RunExpression {
    /// Parses an expression over one run; `file` and `line` are its place, for messages.
    ///
    /// # Errors
    /// Mistakes of syntax, unknown names, and expressions that give no number.
    pub fn parse(file: &str, line: Option<usize>, text: &str) -> Result<RunExpression, Problems> {
        let experiments =
            vec![PlanExperiment { name: String::from(RUN), runs: vec![0], forms: Vec::new(), swept: None }];
        let expression = parse(text, &experiments).map_err(|mistakes| {
            let problems = mistakes.into_iter().map(|it| Problem::new(file, line, it.found, it.allowed));
            Problems(problems.collect())
        })?;
        match evaluate(&expression, &experiments, &|_, _| 1.0) {
            Ok(ExpressionValue::Number(_)) => Ok(RunExpression { expression, experiments }),
            Ok(value) => Err(Problem::new(file, line, format!("`{text}` gives {}", value.kind()), "a number").into()),
            Err(found) => Err(Problem::new(file, line, found, "a number").into()),
        }
    }

    /// Checks that the run has every stage and parameter that the expression names.
    ///
    /// # Errors
    /// Each stage and parameter that the run's drive does not have; `file` and `line` are the place of the expression.
    pub fn check(&self, file: &str, line: Option<usize>, run: &ExperimentRun) -> Result<(), Problems> {
        let facts = run.facts();
        let mut problems = Problems::default();
        self.expression.visit(&mut |_, quantity| {
            let mistake = quantity.and_then(|quantity| quantity.check(&facts).err());
            problems.0.extend(mistake.map(|it| Problem::new(file, line, it.found, it.allowed)));
        });
        problems.or(())
    }

    /// Returns the value of the expression for one run; `None` if it is not finite.
    pub fn read(&self, run: &ExperimentRun, outcome: &Outcome) -> Option<f64> {
        let facts = run.facts();
        let read = |_: usize, quantity: &super::quantity::RunQuantity| quantity.read(outcome, &facts);
        let value = evaluate(&self.expression, &self.experiments, &read).ok()?;
        value.as_scalar().filter(|number| number.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_expression_without_a_number_is_refused_with_its_place() {
        let refused = |text: &str| RunExpression::parse("plan.toml", Some(3), text).unwrap_err().to_string();
        assert!(refused("run.iops > 3").starts_with("plan.toml:3: `run.iops > 3` gives a truth"));
        assert!(refused("run.iop").starts_with("plan.toml:3: unknown quantity `iop`, did you mean iops?"));
        assert!(refused("other.iops").contains("unknown experiment `other`"));
        assert!(RunExpression::parse("plan.toml", None, "1e9 * run.working / run.iops").is_ok());
    }
}
