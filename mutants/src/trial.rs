//! Trying mutants: which tests reach which, learned once, and then for each mutant those tests, the one that killed it before
//! first, and then the quick ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};
use std::{fs, io};

use crate::list::Mutant;
use crate::tree::Program;

/// Tests run together until they take so long, in seconds, and are looked at then.
const TOGETHER_S: f64 = 1.0;
/// What a run may take beyond ten times what it takes without a mutant. Other work on the machine is no hang.
const PATIENCE_S: f64 = 20.0;
/// Tests that take longer are left out: for what they alone would notice, a quick one should be written.
const SLOW_S: f64 = 15.0;
/// So long may a program take to run all its tests; those that are not done by then count as slow.
const LEARNED_WITHIN_S: u32 = 300;
/// A mutant that asks for memory without end is a dead one; a test's own mappings have room.
const MEMORY_KIB: u64 = 12 << 20;

/// A program of tests and what it does without a mutant.
#[derive(Debug)]
pub(crate) struct Suite {
    program: Program,
    /// The quick ones that pass, with seconds.
    tests: BTreeMap<String, f64>,
    /// Those that do not: they say nothing about mutants.
    pub failing: Vec<String>,
    /// Which tests reach a mutant. The empty name is a thread that is no test's.
    reached: BTreeMap<u32, BTreeSet<String>>,
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It does not compile.
    Refused,
    /// It was not tried.
    Skipped,
    Killed {
        by: String,
    },
    /// So many tests that reach it passed.
    Survived {
        tests: usize,
    },
}

/// A few tests of one program.
struct Batch<'a> {
    suite: &'a Suite,
    tests: Vec<&'a str>,
    seconds: f64,
}

impl Suite {
    /// What the tests of a program reach: as an earlier run below the same folder has found, or by running them all without a
    /// mutant.
    pub(crate) fn learn(program: &Program, below: &Path) -> io::Result<Suite> {
        let notes = below.join("learned").join(program.executable.file_name().unwrap_or_default());
        let (printed, reached) = (notes.with_extension("printed"), notes.with_extension("reached"));
        let made = |file: &Path| fs::metadata(file).and_then(|file| file.modified());
        if !made(&printed).is_ok_and(|learned| made(&program.executable).is_ok_and(|built| built < learned)) {
            fs::create_dir_all(below.join("learned"))?;
            let _ = fs::remove_file(&reached);
            fs::write(&printed, Suite::run_all(program, &reached)?)?;
        }
        let noted = fs::read_to_string(reached).unwrap_or_default();
        Ok(Suite::new(program.clone(), &fs::read_to_string(printed)?, &noted))
    }

    /// What libtest prints: the list of all tests, and then a line for each that is done.
    fn run_all(program: &Program, reached: &Path) -> io::Result<Vec<u8>> {
        let mut list = Command::new(&program.executable);
        let list = surroundings(&mut list, program).arg("--list").args(program.told).output()?.stdout;
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", &LEARNED_WITHIN_S.to_string()]).arg(&program.executable);
        // Times of tests are behind a flag that libtest takes on stable compilers only so.
        command.args(["-Z", "unstable-options", "--report-time"]).args(program.told).env("RUSTC_BOOTSTRAP", "1");
        command.env("PHASELINK_MUTANT", "all").env("PHASELINK_MUTANTS_REACHED", reached);
        Ok([list, surroundings(&mut command, program).output()?.stdout].concat())
    }

    /// From what libtest has printed, and the lines of the switch.
    fn new(program: Program, printed: &str, noted: &str) -> Suite {
        let all: BTreeSet<&str> = printed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        let passed = printed.lines().filter_map(passed).map(|(name, seconds)| (String::from(name), seconds));
        let tests: BTreeMap<String, f64> = passed.filter(|(_, seconds)| *seconds <= SLOW_S).collect();
        let failing = printed.lines().filter_map(failed).map(String::from).collect();
        let mut reached: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for (mutant, thread) in noted.lines().filter_map(|line| line.split_once('\t')) {
            let test = if all.contains(thread) { thread } else { "" };
            reached.entry(mutant.parse().unwrap_or(0)).or_default().insert(String::from(test));
        }
        Suite { program, tests, failing, reached }
    }

    pub(crate) fn summary(&self) -> String {
        let (label, tests, mutants) = (&self.program.label, self.tests.len(), self.reached.len());
        format!("{label}: {tests} tests reach {mutants} mutants")
    }

    /// The tests that may notice a mutant, the cheap ones first and in batches; those of its own modules before others.
    fn batches(&self, number: u32, mutant: &Mutant) -> Vec<Batch<'_>> {
        let Some(reached) = self.reached.get(&number) else { return Vec::new() };
        let (any, module) = (reached.contains(""), mutant.module());
        // What is made once a process is reached by one test, and used by others: most likely those beside it.
        let may_notice = |name: &String| any || reached.contains(name) || name.starts_with(&module);
        let tests = self.tests.iter().filter(|(name, _)| may_notice(name));
        let mut tests: Vec<(&String, f64)> = tests.map(|(name, seconds)| (name, *seconds)).collect();
        let is_elsewhere = |name: &str| !name.starts_with(&module);
        tests.sort_by(|a, b| is_elsewhere(a.0).cmp(&is_elsewhere(b.0)).then(a.1.total_cmp(&b.1)));
        let mut batches: Vec<Batch> = Vec::new();
        for (name, seconds) in tests {
            match batches.last_mut().filter(|batch| batch.seconds + seconds <= TOGETHER_S) {
                Some(batch) => {
                    batch.tests.push(name);
                    batch.seconds += seconds;
                }
                None => batches.push(Batch { suite: self, tests: vec![name], seconds }),
            }
        }
        batches
    }

    /// The test of this name, with that of its program before it.
    fn test(&self, name: &str) -> Option<Batch<'_>> {
        let name = name.strip_prefix(self.program.label.as_str())?.strip_prefix(": ")?;
        let (name, seconds) = self.tests.get_key_value(name)?;
        Some(Batch { suite: self, tests: vec![name], seconds: *seconds })
    }

    fn seconds(&self) -> f64 {
        self.tests.values().sum()
    }
}

/// What a mutant does to the tests that reach it. After the test that killed it before, as `program: test`, its own crate's unit
/// tests are first, then programs as they are quick.
pub(crate) fn attempt(suites: &[Suite], number: u32, mutant: &Mutant, killer: Option<&str>) -> io::Result<Outcome> {
    let known = killer.and_then(|killer| suites.iter().find_map(|suite| suite.test(killer)));
    if let Some(by) = known.map(|batch| batch.killer(number)).transpose()?.flatten() {
        return Ok(Outcome::Killed { by });
    }
    let mut ordered: Vec<&Suite> = suites.iter().collect();
    let is_other =
        |suite: &Suite| !(suite.program.label.ends_with(" lib") && suite.program.folder.ends_with(mutant.package()));
    ordered.sort_by(|a, b| is_other(a).cmp(&is_other(b)).then(a.seconds().total_cmp(&b.seconds())));
    let mut tests = 0;
    for batch in ordered.iter().flat_map(|suite| suite.batches(number, mutant)) {
        if let Some(by) = batch.killer(number)? {
            return Ok(Outcome::Killed { by });
        }
        tests += batch.tests.len();
    }
    Ok(Outcome::Survived { tests })
}

impl Batch<'_> {
    /// The test that notices a mutant, if one does. What fails without it as well is the machine's doing.
    fn killer(&self, number: u32) -> io::Result<Option<String>> {
        let output = self.run(&self.tests, number)?;
        if output.status.success() {
            return Ok(None);
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        let failed: Vec<&str> = printed.lines().filter_map(failed).collect();
        let suspects = if failed.is_empty() { &self.tests } else { &failed };
        if !self.run(suspects, 0)?.status.success() {
            return Ok(None);
        }
        let label = &self.suite.program.label;
        Ok(Some(match (failed.first(), is_timeout(&output)) {
            (Some(test), _) => format!("{label}: {test}"),
            (None, true) => format!("{label}: hangs"),
            (None, false) => format!("{label}: ends the process"),
        }))
    }

    fn run(&self, tests: &[&str], number: u32) -> io::Result<Output> {
        let seconds = PATIENCE_S + 10.0 * self.seconds;
        let mut command = Command::new("nice");
        command.args(["-n", "5", "timeout", "-s", "KILL", &format!("{seconds:.0}"), "sh", "-c"]);
        command.args([&format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"")]);
        command.arg(&self.suite.program.executable).args(["--test-threads=2", "--exact"]).args(tests);
        command.env("PHASELINK_MUTANT", number.to_string());
        surroundings(&mut command, &self.suite.program).output()
    }
}

/// As cargo would run it, without what a property test does after its failure.
fn surroundings<'a>(command: &'a mut Command, program: &Program) -> &'a mut Command {
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.env("PROPTEST_RNG_SEED", "1").env("PROPTEST_MAX_SHRINK_ITERS", "0");
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
}

#[cfg(unix)]
fn is_timeout(output: &Output) -> bool {
    use std::os::unix::process::ExitStatusExt;
    output.status.code() == Some(137) || output.status.signal() == Some(9)
}

#[cfg(not(unix))]
fn is_timeout(_: &Output) -> bool {
    false
}

/// `test link::wire::tests::a_name ... ok <0.012s>`: the name and the rest.
fn result(line: &str) -> Option<(&str, &str)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((name.trim_end_matches(" - should panic"), result))
}

fn passed(line: &str) -> Option<(&str, f64)> {
    let (name, result) = result(line)?;
    Some((name, result.strip_prefix("ok <")?.strip_suffix("s>")?.parse().ok()?))
}

fn failed(line: &str) -> Option<&str> {
    result(line).filter(|(_, result)| result.starts_with("FAILED")).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_tests_are_read() {
        assert_eq!(passed("test a::b ... ok <0.012s>"), Some(("a::b", 0.012)));
        assert_eq!(passed("test a::b - should panic ... ok <1.000s>"), Some(("a::b", 1.0)));
        assert_eq!(passed("test a::b ... FAILED <0.012s>"), None);
        assert_eq!(failed("test a::b ... FAILED <0.012s>"), Some("a::b"));
        assert_eq!(failed("test result: FAILED. 1 passed"), None);
        assert_eq!(failed("test a::b ... ignored"), None);
    }

    /// With a slow test that is left out and reaches mutant 3 alone.
    fn suite() -> Suite {
        let program =
            Program { label: "p lib".into(), executable: "p".into(), told: &[], folder: "crates/core".into() };
        let tests = [("link::slow", 0.9), ("link::quick", 0.2), ("media::quick", 0.1), ("media::slow", 500.0)];
        let line = |(name, seconds): &(&str, f64)| format!("{name}: test\ntest {name} ... ok <{seconds:.3}s>\n");
        let printed: String = tests.iter().map(line).collect();
        Suite::new(program, &printed, "1\tmedia::quick\n1\tlink::slow\n2\tworker\n3\tmedia::slow\n")
    }

    fn batches(number: u32) -> Vec<Vec<String>> {
        let place = (1, 1)..(1, 2);
        let mutant = Mutant {
            name: String::new(),
            file: String::from("crates/core/src/link/wire.rs"),
            function: place.clone(),
            span: place,
            replacement: String::new(),
            returns: String::new(),
        };
        let names = |batch: &Batch| batch.tests.iter().map(|test| String::from(*test)).collect();
        suite().batches(number, &mutant).iter().map(names).collect()
    }

    #[test]
    fn tests_of_the_same_modules_come_first_reached_or_not_and_quick_ones_before_slow_ones() {
        assert_eq!(batches(3), [vec!["link::quick"], vec!["link::slow"]]);
        assert_eq!(batches(1), [vec!["link::quick"], vec!["link::slow", "media::quick"]]);
    }

    #[test]
    fn a_mutant_that_another_thread_reaches_is_tried_by_all_tests_and_an_unreached_one_by_none() {
        assert_eq!(batches(2).concat().len(), 3);
        assert!(batches(4).is_empty());
    }

    #[test]
    fn the_test_that_killed_a_mutant_is_known_by_its_program_and_its_name() {
        let suite = suite();
        assert_eq!(suite.test("p lib: media::quick").map(|batch| batch.tests), Some(vec!["media::quick"]));
        for other in ["p other: media::quick", "p lib: media::gone", "p lib: media::slow", "p lib: hangs"] {
            assert!(suite.test(other).is_none(), "{other}");
        }
    }
}
