//! Results of a command, and the exit code of its process.

use std::collections::BTreeSet;
use std::io;

use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::report::Answer;

use crate::interrupt::INTERRUPTED;
use crate::output::{self, Report};

/// Maximum number of problems that a failed command prints. A file with more problems is hardly of the expected kind.
const LINES_MAX: usize = 1000;

/// Ending of a command that has done its work, which decides on the exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnding {
    Fine,
    /// The command has done its work, but a simulated figure is off or a check has failed: exit code 1.
    Off,
    /// The user has stopped the command, after which it has printed its results so far: exit code 130.
    Interrupted,
}

/// Reason why a command could not do its work; exit code 2.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command's input is invalid, for the listed reasons.
    Wrong(Problems),
    /// Standard output refuses the command's result.
    Output(io::Error),
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Failure {
        Failure::Wrong(problems)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure::Wrong(problem.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

/// Writes the report of an answer, if there is one, and prints the answer: as JSON, or as text of the terminal's width.
///
/// # Errors
///
/// Errors of [`Report::write`] and [`output::print`].
pub(crate) fn print_answer(answer: &impl Answer, is_json: bool, report: Option<Report>) -> Result<(), Failure> {
    if let Some(report) = report {
        report.write(&answer.page().unwrap_or_default(), &answer.document())?;
    }
    let printed = match is_json {
        true => output::print_json(&answer.document()),
        false => output::print(&output::terminal_text(&answer.text())),
    };
    printed.map_err(Failure::from)
}

/// Prints the problems of a failed command to standard error, one a line, and returns the exit code of the process.
///
/// A closed pipe counts as success, since its reader has seen enough.
pub(crate) fn exit_code(ending: Result<CommandEnding, Failure>) -> u8 {
    match ending {
        Ok(CommandEnding::Fine) => 0,
        Ok(CommandEnding::Off) => 1,
        Ok(CommandEnding::Interrupted) => INTERRUPTED,
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(Failure::Output(error)) => {
            output::errors([format!("the result cannot be written: {error}")]);
            2
        }
        Err(Failure::Wrong(problems)) => {
            output::errors(distinct_problem_lines(&problems));
            2
        }
    }
}

/// Returns the problems of a failed command as lines, in order and without repetitions, since several drives may share
/// a problem. At most [`LINES_MAX`] lines, and then the number of further problems.
fn distinct_problem_lines(problems: &Problems) -> Vec<String> {
    let mut told = BTreeSet::new();
    let lines = problems.0.iter().map(Problem::to_string);
    let mut lines: Vec<String> = lines.filter(|line| told.insert(line.clone())).collect();
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more problems"));
    }
    lines
}
