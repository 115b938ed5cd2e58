//! `phaselink-fuzz [--inputs N] [--seed N] [TARGET...]`: mutants against all targets, or some.
//!
//! An input that a target does not survive is written to `fuzz/crashes/`, and read from there with `--replay FILE`.
//! `--list` prints the targets, `--seeds FOLDER` writes the inputs that mutants begin with.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs, io};

use phaselink_fuzz::{ALL, Target, find, hunt};

const USAGE: &str =
    "usage: phaselink-fuzz [--inputs N] [--seed N] [--replay FILE | --seeds FOLDER | --list] [TARGET...]";

/// The command line.
struct Wanted {
    targets: Vec<&'static Target>,
    inputs: u64,
    seed: u64,
    action: Action,
}

/// What to do with the targets.
enum Action {
    Hunt,
    Replay(PathBuf),
    WriteSeeds(PathBuf),
    List,
}

fn wanted() -> Option<Wanted> {
    let mut wanted = Wanted { targets: Vec::new(), inputs: 1_000_000, seed: 1, action: Action::Hunt };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--inputs" => wanted.inputs = arguments.next()?.parse().ok()?,
            "--seed" => wanted.seed = arguments.next()?.parse().ok()?,
            "--replay" => wanted.action = Action::Replay(arguments.next()?.into()),
            "--seeds" => wanted.action = Action::WriteSeeds(arguments.next()?.into()),
            "--list" => wanted.action = Action::List,
            name => wanted.targets.push(find(name)?),
        }
    }
    if wanted.targets.is_empty() {
        wanted.targets.extend(ALL);
    }
    Some(wanted)
}

fn main() -> ExitCode {
    let Some(wanted) = wanted() else {
        let names: Vec<&str> = ALL.iter().map(|target| target.name).collect();
        eprintln!("{USAGE}\ntargets: {}", names.join(", "));
        return ExitCode::from(2);
    };
    let done = wanted.targets.iter().map(|target| match &wanted.action {
        Action::Hunt => hunt_one(target, &wanted),
        Action::Replay(file) => fs::read(file).map(|input| (target.run)(&input)),
        Action::WriteSeeds(folder) => write_seeds(target, folder),
        Action::List => {
            println!("{}", target.name);
            Ok(())
        }
    });
    let errors: Vec<io::Error> = done.filter_map(Result::err).collect();
    errors.iter().for_each(|error| eprintln!("{error}"));
    if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write_seeds(target: &Target, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut seeds = (0..).zip((target.seeds)());
    seeds.try_for_each(|(number, seed)| fs::write(folder.join(format!("seed-{number}")), seed))
}

/// Mutants against one target; those that it does not survive are saved.
fn hunt_one(target: &Target, wanted: &Wanted) -> io::Result<()> {
    let started = Instant::now();
    let bag = hunt::hunt(target, wanted.inputs, wanted.seed, |inputs| {
        eprint!("\r{:<13} {inputs:>9} inputs", target.name);
    });
    let seconds = started.elapsed().as_secs_f64();
    eprint!("\r");
    println!("{:<13} {:>9} inputs in {seconds:.0} s, {} crashes", target.name, bag.inputs, bag.crashes.len());
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/crashes"));
    fs::create_dir_all(folder)?;
    for (number, input) in bag.crashes.iter().enumerate() {
        fs::write(folder.join(format!("{}-{}-{number}", target.name, wanted.seed)), input)?;
    }
    match bag.crashes.len() {
        0 => Ok(()),
        count => Err(io::Error::other(format!("{count} crashes of {} are in {}", target.name, folder.display()))),
    }
}
