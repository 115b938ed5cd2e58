//! Results of a command, and the exit code that the shell gets.

use std::collections::BTreeSet;
use std::io;

use phaselink_core::problem::{Problem, Problems};

use crate::interrupt::INTERRUPTED;
use crate::output;

/// Largest number of problems that are printed; a thousand are hardly mistakes, but another kind of file.
const LINES_MAX: usize = 1000;

/// Result of a command that has done its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Fine,
    /// A simulated figure is off, a check has failed.
    Off,
    /// The user has stopped the command; results so far have been printed.
    Interrupted,
}

/// Reason why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// All problems of the input.
    Wrong(Problems),
    /// Standard output does not accept the result.
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

/// Prints failures to standard error, one problem a line, and returns the exit code of the process.
///
/// A reader that has closed the pipe has seen what it wanted: that is no failure.
pub(crate) fn exit_code(ending: Result<Ending, Failure>) -> u8 {
    match ending {
        Ok(Ending::Fine) => 0,
        Ok(Ending::Off) => 1,
        Ok(Ending::Interrupted) => INTERRUPTED,
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(Failure::Output(error)) => {
            output::errors([format!("the result cannot be written: {error}")]);
            2
        }
        Err(Failure::Wrong(problems)) => {
            output::errors(distinct(&problems));
            2
        }
    }
}

/// Returns the problems in their order, each once, because several drives may share one, and at most [`LINES_MAX`].
fn distinct(problems: &Problems) -> Vec<String> {
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
