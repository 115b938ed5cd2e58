//! A copy of the repository with mutants in it, and the tests built from that copy. The checkout itself is only read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use serde_json::Value;

use crate::list::{Mutant, turn};
use crate::rewrite::{Rewritten, rewrite};

/// Whose tests are built: a crate's folder and name.
const TESTED: [(&str, &str); 4] = [
    ("crates/ring", "phaselink-ring"),
    ("crates/core", "phaselink-core"),
    ("crates/serve", "phaselink-serve"),
    ("crates/cli", "phaselink"),
];

/// The program of tests that takes no part: the rules of the house read sources.
const READS_SOURCES: &str = "house";

/// What a program of tests is told of those that take part, if not all do.
const TOLD: [(&str, &[&str]); 2] = [
    // They take longer than all others together.
    ("phaselink-core library", &["--skip=fit::", "--skip=sanity::"]),
    ("phaselink program", &["results::", "serve::", "torture::"]),
];

/// A copy of the repository below the folder for what is built.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    copy: PathBuf,
    target: PathBuf,
    /// Where refused mutants are remembered.
    notes: PathBuf,
}

/// A program of tests.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// `phaselink-core lib`, `phaselink-core link`.
    pub label: String,
    pub executable: PathBuf,
    /// What it is told to choose its tests.
    pub told: &'static [&'static str],
    /// Where cargo would run it.
    pub folder: PathBuf,
}

/// What came of building.
#[derive(Debug)]
pub(crate) struct Built {
    pub programs: Vec<Program>,
    /// Mutants that the compiler refuses.
    pub refused: BTreeSet<u32>,
}

impl Tree {
    /// For the repository at `root`, with everything that is made in `below`.
    pub(crate) fn new(root: PathBuf, below: &Path) -> Tree {
        Tree { root, copy: below.join("tree"), target: below.join("build"), notes: below.join("refused") }
    }

    /// All tests with all mutants, numbered as they stand in the list from 1, that compile.
    pub(crate) fn build(&self, mutants: &[Mutant]) -> Result<Built, String> {
        let mut refused = self.refused_before(mutants);
        loop {
            let rewritten = self.rewritten(mutants, &refused)?;
            let in_copies: BTreeSet<u32> =
                rewritten.values().flat_map(|file| &file.copies).map(|copy| copy.0).collect();
            refused.extend((1..).take(mutants.len()).filter(|number| !in_copies.contains(number)));
            self.write(&rewritten).map_err(|error| format!("the copy of the tree: {error}"))?;
            let messages = self.cargo()?;
            let errors: Vec<&Value> =
                messages.iter().filter(|message| message["message"]["level"] == "error").collect();
            let blamed: BTreeSet<u32> = errors.iter().flat_map(|error| blamed(&rewritten, error)).collect();
            if errors.is_empty() {
                self.keep(mutants, &refused).map_err(|error| format!("{}: {error}", self.notes.display()))?;
                return Ok(Built { programs: self.programs(&messages), refused });
            }
            if blamed.is_empty() {
                let text = errors[0]["message"]["rendered"].as_str().unwrap_or_default();
                return Err(format!("the copy in {} does not compile:\n{text}", self.copy.display()));
            }
            eprintln!("{} mutants do not compile", blamed.len());
            refused.extend(blamed);
        }
    }

    /// Those that the compiler has refused before, in files that are what they were then: taken out at once, they spare
    /// cargo rounds in which it builds for nothing.
    fn refused_before(&self, mutants: &[Mutant]) -> BTreeSet<u32> {
        let known = fs::read_to_string(&self.notes).unwrap_or_default();
        let known: BTreeSet<&str> = known.lines().collect();
        let is_known = |mutant: &Mutant| known.contains(self.note(mutant).as_str());
        (1..).zip(mutants).filter(|(_, mutant)| is_known(mutant)).map(|(number, _)| number).collect()
    }

    fn keep(&self, mutants: &[Mutant], refused: &BTreeSet<u32>) -> io::Result<()> {
        let lines = (1..).zip(mutants).filter(|(number, _)| refused.contains(number));
        fs::write(&self.notes, lines.map(|(_, mutant)| self.note(mutant) + "\n").collect::<String>())
    }

    /// A mutant and the text that it is of.
    fn note(&self, mutant: &Mutant) -> String {
        let text = fs::read_to_string(self.root.join(&mutant.file)).unwrap_or_default();
        format!("{:016x} {}", turn(0, &text), mutant.name)
    }

    /// The files with mutants, as they have to be, by path.
    fn rewritten(&self, mutants: &[Mutant], refused: &BTreeSet<u32>) -> Result<BTreeMap<String, Rewritten>, String> {
        let mut by_file: BTreeMap<&str, Vec<(u32, &Mutant)>> = BTreeMap::new();
        for (number, mutant) in (1..).zip(mutants).filter(|(number, _)| !refused.contains(number)) {
            by_file.entry(&mutant.file).or_default().push((number, mutant));
        }
        let rewritten = by_file.into_iter().map(|(file, mutants)| {
            let text = fs::read_to_string(self.root.join(file)).map_err(|error| format!("{file}: {error}"))?;
            Ok((String::from(file), rewrite(&text, &mutants)))
        });
        rewritten.collect()
    }

    /// What differs is written, so that cargo builds again only that.
    fn write(&self, rewritten: &BTreeMap<String, Rewritten>) -> io::Result<()> {
        let files = self.files()?;
        for file in &files {
            let bytes = match rewritten.get(file) {
                Some(rewritten) => rewritten.text.clone().into_bytes(),
                None => fs::read(self.root.join(file))?,
            };
            let root_of_crate = TESTED.iter().any(|(folder, _)| *file == format!("{folder}/src/lib.rs"));
            let switch: &[u8] =
                if root_of_crate { b"\n#[allow(warnings)]\nmod phaselink_mutants_switch;\n" } else { b"" };
            write_if_new(&self.copy.join(file), &[&bytes, switch].concat())?;
        }
        let switches = TESTED.map(|(folder, _)| format!("{folder}/src/phaselink_mutants_switch.rs"));
        for switch in &switches {
            write_if_new(&self.copy.join(switch), include_bytes!("switch.rs"))?;
        }
        let kept: BTreeSet<PathBuf> = files.iter().chain(&switches).map(|file| self.copy.join(file)).collect();
        remove_others(&self.copy, &kept)
    }

    /// What git knows of or would take, as far as it is there.
    fn files(&self) -> io::Result<Vec<String>> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(&self.root);
        let listed = String::from_utf8_lossy(&git.output()?.stdout).into_owned();
        let files = listed.split('\0').filter(|file| !file.is_empty() && self.root.join(file).is_file());
        Ok(files.map(String::from).collect())
    }

    /// Build the tests; what cargo says, a line each.
    fn cargo(&self) -> Result<Vec<Value>, String> {
        let mut cargo = Command::new("nice");
        cargo.args(["-n", "5", "cargo", "test", "--no-run", "--message-format=json", "--lib"]);
        for (folder, package) in TESTED {
            cargo.args(["-p", package]);
            for test in self.tests(folder) {
                cargo.args(["--test", &test]);
            }
        }
        // Lints that forbid warnings have nothing to say about mutants.
        cargo.env("RUSTFLAGS", "--cap-lints=warn").env("CARGO_TARGET_DIR", &self.target);
        let ran = cargo.current_dir(&self.copy).stderr(Stdio::inherit()).output();
        let printed = ran.map_err(|error| format!("cargo: {error}"))?.stdout;
        let messages: Vec<Value> =
            String::from_utf8_lossy(&printed).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if messages.is_empty() { Err(String::from("cargo built nothing")) } else { Ok(messages) }
    }

    /// A crate's programs of integration tests, each of a file or of a folder with `main.rs`.
    fn tests(&self, folder: &str) -> Vec<String> {
        let found = fs::read_dir(self.root.join(folder).join("tests")).into_iter().flatten().flatten();
        let is_program =
            |path: &PathBuf| path.extension().is_some_and(|it| it == "rs") || path.join("main.rs").is_file();
        let paths = found.map(|entry| entry.path()).filter(is_program);
        let stems = paths.filter_map(|path| path.file_stem()?.to_str().map(String::from));
        let mut stems: Vec<String> = stems.filter(|stem| stem != READS_SOURCES).collect();
        stems.sort();
        stems
    }

    fn programs(&self, messages: &[Value]) -> Vec<Program> {
        let tests = messages.iter().filter(|message| message["profile"]["test"] == true);
        let program = |message: &Value| {
            let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
            let (_, package) = TESTED.iter().find(|(path, _)| folder.ends_with(path))?;
            let name = if message["target"]["kind"][0] == "test" { message["target"]["name"].as_str()? } else { "lib" };
            let executable = message["executable"].as_str()?.into();
            let label = format!("{package} {name}");
            let told = TOLD.iter().find(|(of, _)| *of == label).map_or(&[][..], |(_, told)| told);
            Some(Program { label, executable, told, folder })
        };
        tests.filter_map(program).collect()
    }
}

fn write_if_new(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::create_dir_all(file.parent().unwrap_or(file))?;
    fs::write(file, bytes)
}

/// Whatever else stands in a folder: a file of tests that was moved away would be built, and run, as long as it is there.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove_others(&entry.path(), kept)?,
            false if kept.contains(&entry.path()) => {}
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// The mutants in whose copies an error of the compiler stands.
fn blamed(rewritten: &BTreeMap<String, Rewritten>, error: &Value) -> Vec<u32> {
    let spans = error["message"]["spans"].as_array().into_iter().flatten().filter(|span| span["is_primary"] == true);
    let blamed = spans.filter_map(|span| {
        let file = rewritten.get(span["file_name"].as_str()?)?;
        Some(file.blamed(span["line_start"].as_u64()? as usize))
    });
    blamed.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_holds_what_the_tree_holds_and_no_file_that_was_moved_away() {
        let below = std::env::temp_dir().join(format!("phaselink-mutants-{}", std::process::id()));
        let (root, made) = (below.join("root"), below.join("made"));
        fs::create_dir_all(root.join("crates/core/tests")).unwrap();
        assert!(Command::new("git").args(["init", "--quiet"]).current_dir(&root).status().unwrap().success());
        let tree = Tree::new(root.clone(), &made);
        let (before, after) = ("crates/core/tests/before.rs", "crates/core/tests/after.rs");
        fs::write(root.join(before), "// Tests.\n").unwrap();
        tree.write(&BTreeMap::new()).unwrap();
        assert!(made.join("tree").join(before).is_file());
        fs::rename(root.join(before), root.join(after)).unwrap();
        tree.write(&BTreeMap::new()).unwrap();
        let copied = [before, after, "crates/core/src/phaselink_mutants_switch.rs"];
        let copied = copied.map(|file| made.join("tree").join(file).is_file());
        fs::remove_dir_all(below).unwrap();
        assert_eq!(copied, [false, true, true]);
    }
}
