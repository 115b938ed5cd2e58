//! Mistakes that keep points from running, each listed once for all of its points.

use crate::problem::{Problem, Problems};

use super::Plan;

/// Problems of many points.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    entries: Vec<Refusal>,
    points: usize,
}

#[derive(Clone, Debug)]
struct Refusal {
    problem: Problem,
    /// The first point that has it, and how many do.
    first: usize,
    points: usize,
}

impl Refusals {
    /// Note what is wrong with a point.
    pub fn add(&mut self, point: usize, problems: Problems) {
        self.points += 1;
        for problem in problems.0 {
            match self.entries.iter_mut().find(|entry| entry.problem == problem) {
                Some(entry) => entry.points += 1,
                None => self.entries.push(Refusal { problem, first: point, points: 1 }),
            }
        }
    }

    /// Points that cannot run.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Every problem with the first point that has it, in the order of the lines of the plan.
    pub fn problems(&self, plan: &Plan) -> Problems {
        let mut problems: Vec<Problem> = self.entries.iter().map(|entry| entry.problem(plan)).collect();
        problems.sort_by(|left, right| (&left.file, left.line).cmp(&(&right.file, right.line)));
        Problems(problems)
    }
}

impl Refusal {
    /// A problem that every point has is not one of the axes.
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
