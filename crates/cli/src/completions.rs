//! `phaselink completions`: prints shell completions for commands and flags.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::ending::{Ending, Failure};
use crate::output;

const EXAMPLES: &str = include_str!("../help/completions.txt");

/// Print a script that lets a shell complete commands and flags.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

/// Runs the command.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "phaselink", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Ending::Fine)
}
