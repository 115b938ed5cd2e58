//! The program `phaselink`: a thin shell over `phaselink-core`. It reads files and flags, runs what the core
//! offers on all processors, and prints; whatever is about storage lives in the core.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod bench;
mod check;
mod compare;
mod describe;
mod drive_flags;
mod ecc;
mod ending;
mod endurance;
mod input;
mod interrupt;
mod intervals;
mod output;
mod precision;
mod predict;
mod progress;
mod reproduce;
mod run;
mod serve;
mod sweep;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = include_str!("../help/main.txt");

/// Simulate and serve storage devices for fast non-volatile memory over PCI Express, packet by packet.
#[derive(Debug, Parser)]
#[command(name = "phaselink", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(Box<compare::Arguments>),
    Run(Box<run::Arguments>),
    Predict(Box<predict::Arguments>),
    Sweep(sweep::Arguments),
    Trace(trace::Arguments),
    Check(check::Arguments),
    Endurance(endurance::Arguments),
    Reproduce(reproduce::Arguments),
    Ecc(ecc::Arguments),
    Serve(serve::Arguments),
    Bench(Box<bench::Arguments>),
}

fn main() -> ExitCode {
    let ending = match Arguments::parse().command {
        Command::Compare(arguments) => compare::command(&arguments),
        Command::Run(arguments) => run::command(&arguments),
        Command::Predict(arguments) => predict::command(&arguments),
        Command::Sweep(arguments) => sweep::command(&arguments),
        Command::Trace(arguments) => trace::command(&arguments),
        Command::Check(arguments) => check::command(&arguments),
        Command::Endurance(arguments) => endurance::command(&arguments),
        Command::Reproduce(arguments) => reproduce::command(&arguments),
        Command::Ecc(arguments) => ecc::command(&arguments),
        Command::Serve(arguments) => serve::command(&arguments),
        Command::Bench(arguments) => bench::command(*arguments),
    };
    ending::exit_code(ending)
}
