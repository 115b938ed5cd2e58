//! Problems that prevent points of a sweep from running, each listed once for all its points.

use phaselink_core::problem::{Problem, Problems};

use super::Plan;

/// Collected problems of points that cannot run, with the number of points that have each.
#[derive(Clone, Debug, Default)]
pub struct PointProblems {
    entries: Vec<Refusal>,
    points: usize,
}

/// Problem for which points of a sweep cannot be simulated.
#[derive(Clone, Debug)]
struct Refusal {
    problem: Problem,
    /// Number of the first point that has the problem. The next field is the number of points that have it.
    first: usize,
    points: usize,
}

impl PointProblems {
    /// Adds the problems of a sweep's point that cannot run.
    pub fn add(&mut self, point: usize, problems: Problems) {
        self.points += 1;
        for problem in problems.0 {
            match self.entries.iter_mut().find(|entry| entry.problem == problem) {
                Some(entry) => entry.points += 1,
                None => self.entries.push(Refusal { problem, first: point, points: 1 }),
            }
        }
    }

    /// Returns the number of the sweep's points that cannot run.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Returns each problem once, in the order of the plan's lines. Its text names the first point that has it, and how
    /// many others do.
    pub fn problems(&self, plan: &Plan) -> Problems {
        let mut problems: Vec<Problem> = self.entries.iter().map(|entry| entry.problem(plan)).collect();
        problems.sort_by(|left, right| (&left.file, left.line).cmp(&(&right.file, right.line)));
        Problems(problems)
    }
}

impl Refusal {
    /// Returns the problem with the point that has it first. A problem of all points names none, as no axis causes it.
    fn problem(&self, plan: &Plan) -> Problem {
        let others = match self.points - 1 {
            0 => String::new(),
            1 => String::from(", and at 1 other point"),
            others => format!(", and at {others} other points"),
        };
        let found = match self.points == plan.points() {
            true => self.problem.found.clone(),
            false => format!("{} (at {}{others})", self.problem.found, plan.describe(self.first)),
        };
        Problem { found, ..self.problem.clone() }
    }
}
