//! Program `phaselink`, which reads files and options, runs the simulations of `phaselink-core` in parallel, and
//! prints. All models of storage are in the core.
//!
//! The program is a library with one function, to build faster: cargo begins to compile a library once it knows the
//! signatures of its dependencies, but a program only once they are compiled.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// On other systems than Linux, code that only the Linux commands use is unused.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

#[cfg(target_os = "linux")]
mod bench;
mod breakeven;
mod check;
#[cfg(target_os = "linux")]
mod child;
mod compare;
mod completions;
#[cfg(target_os = "linux")]
mod crash;
mod describe;
mod dma;
mod docs;
mod drive_flags;
mod ecc;
#[cfg(any(test, not(target_os = "linux")))]
mod elsewhere;
mod ending;
mod endurance;
mod explore;
mod export;
#[cfg(target_os = "linux")]
mod fault;
mod fit;
mod input;
mod interrupt;
mod intervals;
mod knee;
mod kvcache;
#[cfg(target_os = "linux")]
mod mount;
mod notes;
mod output;
mod precision;
mod predict;
mod progress;
mod reproduce;
mod run;
#[cfg(target_os = "linux")]
mod serve;
mod sweep;
mod torture;
mod trace;
mod trace_info;
mod traces;
mod validate;
mod whatif;

#[cfg(target_os = "linux")]
pub use serve::served;

/// Documentation page on front-ends, whose example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/adding-a-front-end.md")]
pub struct AddingAFrontEnd;

/// Documentation page on embedded drives, whose examples run as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/embed.md")]
pub struct EmbeddedDrivesPage;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(not(target_os = "linux"))]
use elsewhere::{bench, crash, fault, serve};
use ending::{CommandEnding, Failure};
use phaselink_core::workload::options::OPTIONS;

const EXAMPLES: &str = include_str!("../help/main.txt");

/// Simulate and serve storage devices for fast non-volatile memory over PCI Express, packet by packet.
#[derive(Debug, Parser)]
#[command(name = "phaselink", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(arg_required_else_help = true)]
struct Arguments {
    /// Print only results and errors: no notes and no progress bars on standard error
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(Box<compare::Arguments>),
    Run(Box<run::Arguments>),
    Knee(Box<knee::Arguments>),
    Predict(Box<predict::Arguments>),
    Sweep(sweep::Arguments),
    Fit(Box<fit::Arguments>),
    Trace(trace::Arguments),
    TraceInfo(trace_info::Arguments),
    Dma(Box<dma::Arguments>),
    Check(check::Arguments),
    Endurance(endurance::Arguments),
    Breakeven(breakeven::Arguments),
    Kvcache(Box<kvcache::Arguments>),
    Export(Box<export::Arguments>),
    Whatif(whatif::Arguments),
    Reproduce(reproduce::Arguments),
    Validate(validate::Arguments),
    Ecc(ecc::Arguments),
    Torture(torture::Arguments),
    Serve(serve::Arguments),
    Fault(fault::Arguments),
    Bench(Box<bench::Arguments>),
    Crash(Box<crash::Arguments>),
    Explore(explore::Arguments),
    Docs(docs::Arguments),
    Completions(completions::Arguments),
}

/// Runs the command line of this process, and returns its exit code.
pub fn main() -> ExitCode {
    ExitCode::from(run(std::env::args_os()))
}

/// Runs a command line and returns its exit code: 0 if all is fine, 1 if the result is off, 2 for wrong input, 130 if
/// interrupted.
///
/// `arguments` are the words of the command line, of which the first is the program's name. Results go to standard
/// output, which is flushed at the end, and messages to standard error. Ctrl-C may end the process.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let matches = command().try_get_matches_from(join_options_with_files(arguments.into_iter()));
    let code = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => ending::exit_code(traces::checked(run_parsed_command(arguments))),
        Err(error) if unknown_fio_option(&error).is_some() => {
            let (flag, name) = unknown_fio_option(&error).unwrap_or_default();
            eprintln!("error: {flag} is an option of fio that has no flag of its own: write -O {name}=VALUE");
            2
        }
        Err(error) => {
            // If standard output is closed, there is no reader to report to.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(2)
        }
    };
    // If the reader has closed the pipe, it needs no more output.
    let _ = std::io::stdout().flush();
    code
}

fn run_parsed_command(arguments: Arguments) -> Result<CommandEnding, Failure> {
    notes::quiet(arguments.quiet);
    match arguments.command {
        Command::Compare(arguments) => compare::command(&arguments),
        Command::Run(arguments) => run::command(&arguments),
        Command::Knee(arguments) => knee::command(&arguments),
        Command::Predict(arguments) => predict::command(&arguments),
        Command::Sweep(arguments) => sweep::command(&arguments),
        Command::Fit(arguments) => fit::command(&arguments),
        Command::Trace(arguments) => trace::command(&arguments),
        Command::TraceInfo(arguments) => trace_info::command(&arguments),
        Command::Dma(arguments) => dma::command(&arguments),
        Command::Check(arguments) => check::command(&arguments),
        Command::Endurance(arguments) => endurance::command(&arguments),
        Command::Breakeven(arguments) => breakeven::command(&arguments),
        Command::Kvcache(arguments) => kvcache::command(&arguments),
        Command::Export(arguments) => export::command(&arguments),
        Command::Whatif(arguments) => whatif::command(&arguments),
        Command::Reproduce(arguments) => reproduce::command(&arguments),
        Command::Validate(arguments) => validate::command(&arguments),
        Command::Ecc(arguments) => ecc::command(&arguments),
        Command::Torture(arguments) => torture::command(&arguments),
        Command::Serve(arguments) => serve::command(&arguments),
        Command::Fault(arguments) => fault::command(&arguments),
        Command::Bench(arguments) => bench::command(&arguments),
        Command::Crash(arguments) => crash::command(&arguments),
        Command::Explore(arguments) => explore::command(&arguments),
        Command::Docs(arguments) => docs::command(&arguments),
        Command::Completions(arguments) => completions::command(&arguments),
    }
}

/// Returns the command line grammar. Negative numbers are values of options, so that an option reports which values it
/// allows.
fn command() -> clap::Command {
    let command = Arguments::command().mut_subcommand("knee", knee::grammar_with_help_at_load);
    command.mut_subcommands(|verb| verb.allow_negative_numbers(true))
}

/// Returns the unknown option of a command line error, and its name in fio, if fio has such an option.
fn unknown_fio_option(error: &clap::Error) -> Option<(String, String)> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = flag.strip_prefix("--")?.replace('-', "_");
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let is_option = OPTIONS.iter().any(|option| option.names.contains(&name.as_str()));
    (is_unknown && is_option).then(|| (flag.clone(), name))
}

/// Options whose file is optional, each with the file name ending by which the next word is taken as the file.
const FILE_FLAGS: [(&str, &str); 3] = [("--json", ".json"), ("--csv", ".csv"), ("--record", ".json")];

/// Joins an option and its file, `--json out.json`, to `--json=out.json`. A word without the ending is a drive or a
/// job.
fn join_options_with_files(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for word in arguments {
        let ending =
            joined.last().and_then(|last| FILE_FLAGS.iter().find(|(flag, _)| last == flag)).map(|(_, end)| end);
        match (ending, joined.last_mut()) {
            (Some(ending), Some(last)) if word.to_string_lossy().ends_with(ending) => {
                last.push("=");
                last.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_may_be_separated_from_its_file_by_a_space() {
        let words = |line: &str| -> Vec<String> {
            let words = join_options_with_files(line.split(' ').map(OsString::from));
            words.into_iter().map(|word| word.into_string().unwrap()).collect()
        };
        assert_eq!(words("run --json out.json nvme"), ["run", "--json=out.json", "nvme"]);
        assert_eq!(words("sweep p.toml --csv t.csv"), ["sweep", "p.toml", "--csv=t.csv"]);
        assert_eq!(words("run --json nvme out.json"), ["run", "--json", "nvme", "out.json"]);
    }

    #[test]
    fn fio_options_without_a_flag_are_recognised() {
        let told = |line: &str| {
            let matches = command().try_get_matches_from(line.split(' '));
            matches.err().and_then(|error| unknown_fio_option(&error))
        };
        let expected = (String::from("--fsync"), String::from("fsync"));
        assert_eq!(told("phaselink run tlc-gen4 --fsync 1"), Some(expected));
        assert_eq!(told("phaselink run tlc-gen4 --fsyncs 1"), None);
    }

    #[test]
    fn command_line_arguments_do_not_conflict() {
        command().debug_assert();
    }
}
