//! `phaselink-fuzz --list`: prints the names of all targets. `--seeds FOLDER TARGET` writes the seeds of a target into a folder,
//! from which libFuzzer starts. `--replay FILE TARGET` runs a target on one input.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use phaselink_fuzz::{ALL, Target, find};

const USAGE: &str = "usage: phaselink-fuzz --list | --seeds FOLDER TARGET | --replay FILE TARGET";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["--list"] => {
            ALL.iter().for_each(|target| println!("{}", target.name));
            Ok(())
        }
        ["--seeds", folder, name] => with_target(name, |target| write_seeds(target, Path::new(folder))),
        ["--replay", file, name] => with_target(name, |target| fs::read(file).map(|input| (target.run)(&input))),
        _ => Err(io::Error::other(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn with_target(name: &str, action: impl FnOnce(&Target) -> io::Result<()>) -> io::Result<()> {
    let unknown = || io::Error::other(format!("no target is called {name}; --list prints all names"));
    action(find(name).ok_or_else(unknown)?)
}

fn write_seeds(target: &Target, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut seeds = (0..).zip((target.seeds)());
    seeds.try_for_each(|(number, seed)| fs::write(folder.join(format!("seed-{number}")), seed))
}
