//! `phaselink-mutants [--seed N] [--of-each N | --since REVISION [--at-most N]]`: mutants, and who notices. `--record FILE`
//! writes down which test killed which, `--killed FILE` reads that and tries on each mutant first the test that killed it then,
//! `--only WORDS` only those in whose name the words stand.
//!
//! `cargo mutants` lists them; a seeded sample is compiled into one copy of the tree (`tree`, `rewrite`), where an environment
//! variable turns one on (`switch`); the tests that reach it run with it (`trial`). What is made is in `target/mutants`.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod equivalents;
mod list;
mod report;
mod rewrite;
// For the mutated copy alone; here for format and lints.
#[allow(dead_code)]
mod switch;
mod tree;
mod trial;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use equivalents::Equivalents;
use list::{AREAS, Mutant};
use tree::{Program, Tree};
use trial::{Outcome, Suite};

const USAGE: &str = "usage: phaselink-mutants [--seed N] [--of-each N | --since REVISION [--at-most N]] [--only WORDS] [--killed FILE] [--record FILE]";

/// The crates whose functions can be switched.
const CRATES: [&str; 3] = ["crates/core/src/**", "crates/ring/src/**", "crates/serve/src/**"];

/// The command line.
struct Wanted {
    seed: u64,
    /// Mutants of each area.
    of_each: usize,
    /// Only what differs from this revision, and so many of it.
    since: Option<String>,
    at_most: usize,
    /// Only those in whose name this stands are tried.
    only: Option<String>,
    /// Which test killed which before.
    killed: Option<PathBuf>,
    /// Where the outcome of each mutant is written.
    record: Option<PathBuf>,
}

fn wanted() -> Option<Wanted> {
    let mut wanted = Wanted { seed: 1, of_each: 90, since: None, at_most: 60, only: None, killed: None, record: None };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next()?;
        match argument.as_str() {
            "--seed" => wanted.seed = value.parse().ok()?,
            "--of-each" => wanted.of_each = value.parse().ok()?,
            "--since" => wanted.since = Some(value),
            "--at-most" => wanted.at_most = value.parse().ok()?,
            "--only" => wanted.only = Some(value),
            "--killed" => wanted.killed = Some(value.into()),
            "--record" => wanted.record = Some(value.into()),
            _ => return None,
        }
    }
    Some(wanted)
}

fn main() -> ExitCode {
    let Some(wanted) = wanted() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match hunt(&wanted) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Whether every mutant was killed or is listed as equivalent, and the list is right.
fn hunt(wanted: &Wanted) -> Result<bool, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let below = root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into())).join("mutants");
    fs::create_dir_all(&below).map_err(|error| format!("{}: {error}", below.display()))?;
    let list = fs::read_to_string(root.join("mutants/equivalent.txt")).unwrap_or_default();
    let equivalents = Equivalents::parse(&list).map_err(|error| format!("mutants/equivalent.txt: {error}"))?;
    let (all, mutants) = mutants(wanted, &root, &below)?;
    if mutants.is_empty() {
        println!("no mutants there");
        return Ok(true);
    }
    let before = wanted.killed.as_ref().map(|file| read(file)).transpose()?.unwrap_or_default();
    let is_wanted = |mutant: &Mutant| wanted.only.as_ref().is_none_or(|words| mutant.name.contains(words));
    let attempt = |suites: &[Suite], number: u32, mutant: &Mutant| match is_wanted(mutant) {
        true => attempt(suites, number, mutant, report::killer(&before, mutant)),
        false => Ok(Outcome::Skipped),
    };
    let outcomes = outcomes(&Tree::new(root, &below), mutants, attempt, &below)?;
    if let Some(record) = &wanted.record {
        fs::write(record, report::table(&outcomes)).map_err(|error| format!("{}: {error}", record.display()))?;
    }
    let gone = if wanted.since.is_none() { equivalents.gone(&all) } else { Vec::new() };
    let wrong = [gone, equivalents.killed(&outcomes)].concat();
    wrong.iter().for_each(|line| println!("{line}"));
    print!("{}", report::score(&outcomes, &equivalents));
    Ok(report::unexplained(&outcomes, &equivalents).is_empty() && wrong.is_empty())
}

/// All that there are, and those to be tried.
fn mutants(wanted: &Wanted, root: &Path, below: &Path) -> Result<(Vec<Mutant>, Vec<Mutant>), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["mutants", "--list", "--json"]).current_dir(root);
    match &wanted.since {
        Some(revision) => {
            let diff = below.join("since.diff");
            fs::write(&diff, difference(root, revision)?).map_err(|error| format!("{}: {error}", diff.display()))?;
            cargo.arg("--in-diff").arg(diff);
            CRATES.iter().for_each(|glob| _ = cargo.args(["-f", glob]));
        }
        None => AREAS.iter().flat_map(|(_, folders)| *folders).for_each(|folder| _ = cargo.args(["-f", &glob(folder)])),
    }
    let listed = output(&mut cargo)?;
    let all = list::parse(if listed.trim().is_empty() { "[]" } else { &listed })?;
    let switchable = switchable(root, &all)?;
    println!("{} mutants, of which {} cannot be switched at run time", all.len(), all.len() - switchable.len());
    let drawn = match wanted.since {
        Some(_) => list::first(switchable, wanted.seed, wanted.at_most),
        None => list::sample(&switchable, wanted.seed, wanted.of_each),
    };
    Ok((all, drawn))
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn glob(folder: &str) -> String {
    if folder.ends_with('/') { format!("{folder}**") } else { String::from(folder) }
}

fn difference(root: &Path, revision: &str) -> Result<String, String> {
    output(Command::new("git").args(["diff", "--merge-base", revision]).current_dir(root))
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn switchable(root: &Path, all: &[Mutant]) -> Result<Vec<Mutant>, String> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for mutant in all {
        if !texts.contains_key(mutant.file.as_str()) {
            let text =
                fs::read_to_string(root.join(&mutant.file)).map_err(|error| format!("{}: {error}", mutant.file))?;
            texts.insert(&mutant.file, text);
        }
    }
    let can = |mutant: &&Mutant| rewrite::can_be_switched(&texts[mutant.file.as_str()], mutant);
    Ok(all.iter().filter(can).cloned().collect())
}

/// Build, learn which tests reach which mutants, and try these, as many at a time as there are processors.
fn outcomes(
    tree: &Tree,
    mutants: Vec<Mutant>,
    attempt: impl Fn(&[Suite], u32, &Mutant) -> Result<Outcome, String> + Sync,
    below: &Path,
) -> Result<Vec<(Mutant, Outcome)>, String> {
    println!("{} mutants are drawn", mutants.len());
    let built = tree.build(&mutants)?;
    let suites = learn(&built.programs, below)?;
    let outcome = |number: &u32, mutant: &Mutant| match built.refused.contains(number) {
        true => Ok(Outcome::Refused),
        false => attempt(&suites, *number, mutant),
    };
    let numbered: Vec<(u32, Mutant)> = (1..).zip(mutants).collect();
    let found = on_all_processors(&numbered, |(number, mutant)| outcome(number, mutant))?;
    Ok(numbered.into_iter().map(|(_, mutant)| mutant).zip(found).collect())
}

fn attempt(suites: &[Suite], number: u32, mutant: &Mutant, killer: Option<&str>) -> Result<Outcome, String> {
    let outcome = trial::attempt(suites, number, mutant, killer).map_err(|error| error.to_string())?;
    println!("{}", report::line(mutant, &outcome));
    Ok(outcome)
}

fn learn(programs: &[Program], below: &Path) -> Result<Vec<Suite>, String> {
    on_all_processors(programs, |program| {
        let suite = Suite::learn(program, below).map_err(|error| error.to_string())?;
        eprintln!("{}", suite.summary());
        suite.failing.iter().for_each(|test| println!("fails without a mutant, and is left out: {test}"));
        Ok(suite)
    })
}

/// What a function says of each, in their order.
fn on_all_processors<T: Sync, R: Send>(
    all: &[T],
    each: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(at) else { return Ok(found) };
            found.push((at, each(one)?));
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut found = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(String::from("a worker panicked"))));
        joined.collect::<Result<Vec<Vec<_>>, String>>()
    })?
    .into_iter()
    .flatten()
    .collect::<Vec<_>>();
    found.sort_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, one)| one).collect())
}
