//! Pages of the documentation whose blocks are run. The first word behind a fence says what a block is:
//!
//! | word | a block of |
//! |---|---|
//! | `console` | commands behind `$ `, each with what it prints; a line `...` stands for any number of lines |
//! | `sh` | commands that end with 0; what they print is not shown |
//! | `usage` | synopses, of which command and flags are those of the program |
//! | `toml` | a drive or some sections of one; `toml plan`, `toml costs`, `toml prices`, `toml media`: part of a plan, prices of a sweep or of `breakeven`, a preset's row; `toml model`: a language model |
//! | `json` | a document |
//! | `python`, `rust`, `c` | code that other tests run or compile |
//! | `text` | what is no code: drawings, formulas, what the block of Python before it prints |
//!
//! and further words, what is to be known:
//!
//! | word | means |
//! |---|---|
//! | `file=NAME` | later commands find the block as this file |
//! | `needs=PROGRAM,...` | left out where one of these is missing and cannot be installed, but never where `CI` is in the environment; `guest` stands for what `guest/rig.sh` fetches |
//! | `beside` | run beside the blocks that follow, none of which needs what it does: a guest takes as long to start as all of these |
//! | `slow` | run by `make docs-test` alone |
//! | `integrations` | run by `make integrations` alone, with what that builds |
//! | `not-run="WHY"` | not run at all, for this reason |
//!
//! With `UPDATE_EXPECT=1` in the environment, pages are written anew with what the commands print now.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::programs::are_here;
use super::{ROOT, Ran, directory};

/// A block of a page: the words behind its fence, its lines, and the number of the first of them.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    pub words: &'a str,
    pub lines: Vec<&'a str>,
    pub number: usize,
}

impl<'a> Block<'a> {
    /// What it is.
    pub(crate) fn kind(&self) -> &'a str {
        self.words.split(' ').next().unwrap_or("")
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.split(' ').any(|found| found == word)
    }

    /// What stands behind `name=`, in quotes where it has blanks.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.words.split_once(&format!(" {name}="))?;
        value.strip_prefix('"').map_or(value.split(' ').next(), |quoted| quoted.split('"').next())
    }

    pub(crate) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }
}

/// The blocks of a page.
pub(crate) fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut lines) = (Vec::new(), text.lines().enumerate());
    while let Some((number, line)) = lines.next() {
        let Some(words) = line.strip_prefix("```") else { continue };
        let lines = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        blocks.push(Block { words, lines, number: number + 2 });
    }
    blocks
}

/// A page's folder, in which its commands run: it has what the page names of the repository.
#[derive(Debug)]
pub(crate) struct PageFolder(pub PathBuf);

impl PageFolder {
    /// # Panics
    /// If it cannot be made.
    pub(crate) fn new(test: &str) -> PageFolder {
        let here = directory(test);
        // Cargo puts the libraries of the workspace next to the test program, for each profile and target.
        let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        fs::create_dir(here.join("target")).unwrap();
        symlink(built, here.join("target/dist")).unwrap();
        symlink(fs::canonicalize(Path::new(ROOT).join("crates")).unwrap(), here.join("crates")).unwrap();
        for folder in ["examples", "examples/crash", "examples/hosts", "examples/key-value", "examples/recordings"] {
            fs::create_dir(here.join(folder)).unwrap();
            let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap().map(Result::unwrap);
            for entry in entries.filter(|entry| entry.path().is_file()) {
                fs::copy(entry.path(), here.join(folder).join(entry.file_name())).unwrap();
            }
        }
        PageFolder(here)
    }

    /// Run a command; `phaselink` is the built program.
    pub(crate) fn shell(&self, command: &str) -> Ran {
        let program = Path::new(env!("CARGO_BIN_EXE_phaselink")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let library = self.0.join("target/dist/libphaselink_client.so");
        let mut shell = Command::new("sh");
        shell.env_remove("COLUMNS");
        shell.args(["-c", command]).current_dir(&self.0).env("PATH", path).env("PHASELINK_CLIENT", library);
        Ran::from(shell.output().unwrap())
    }

    fn run_successfully(&self, place: &str, command: &str) {
        let ran = self.shell(command);
        assert_eq!(ran.code, Some(0), "{place}: {command}\n{}{}", ran.stdout, ran.stderr);
    }

    /// A file that a block stands for is one that the program takes.
    fn check_toml_block(&self, place: &str, block: &Block) {
        let text = block.text();
        let (file, text, command) = match block.words.split(' ').nth(1) {
            Some("plan") => ("block.sweep.toml", plan_with_sections(&text), "phaselink sweep block.sweep.toml"),
            Some("costs") => ("block.costs.toml", text, COSTS),
            Some("prices") => ("block.toml", text, "phaselink breakeven block.toml"),
            Some("model") => {
                ("block.toml", text, "phaselink kvcache optane-p5800x --duration 20 --kv-model block.toml")
            }
            Some("media") => ("block.toml", drive_with_preset_row(&text), "phaselink check block.toml"),
            _ => ("block.toml", drive(text), "phaselink check block.toml"),
        };
        fs::write(self.0.join(file), text).unwrap();
        self.run_successfully(place, command);
    }

    /// The lines of a `console` block with what its commands print now.
    fn rerun_console_block(&self, block: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        for part in block.chunk_by(|_, next| !next.starts_with("$ ")) {
            let command = part[0].strip_prefix("$ ").expect("a block begins with a command");
            let ran = self.shell(command);
            let mut printed =
                abridge_output_as_shown(&part[1..], &(ran.stdout + &ran.stderr.replace(CLOCKS_DIFFER, "")));
            lines.push(String::from(part[0]));
            // A blank line separates the output from the next command.
            let is_last = part.as_ptr_range().end == block.as_ptr_range().end;
            if !is_last && printed.last().is_some_and(|line| !line.is_empty()) {
                printed.push(String::new());
            }
            lines.append(&mut printed);
        }
        lines
    }

    /// Do with a block what its words say; its lines as they ought to be.
    fn run(&self, page: &str, block: &Block) -> Vec<String> {
        let place = format!("{page}:{}", block.number);
        if let Some(name) = block.value("file") {
            fs::write(self.0.join(name), block.text()).unwrap();
        }
        let is_elsewhere = block.value("not-run").is_some() || block.has("integrations");
        let is_left_out = is_elsewhere || (block.has("slow") && !is_everything_run());
        match block.kind() {
            _ if is_left_out || !has_what_it_needs(&place, block) => {}
            "console" => return self.rerun_console_block(&block.lines),
            // An example file may be wrong on purpose, or a script that a later command runs.
            _ if block.value("file").is_some() => {}
            "sh" => self.run_successfully(&place, &format!("set -e\n{}", block.text())),
            "toml" => self.check_toml_block(&place, block),
            "json" => {
                serde_json::from_str::<serde_json::Value>(&block.text())
                    .unwrap_or_else(|error| panic!("{place}: {error}"));
            }
            _ => {}
        }
        block.lines.iter().map(|line| line.to_string()).collect()
    }
}

/// What fio says on a host whose processors' time stamp counters differ, whatever it is asked to do.
const CLOCKS_DIFFER: &str = "fio: double CPU clock wrap\n";

/// Prices are those of a plan that asks for little.
const COSTS: &str = "printf 'drive = \"nvme\"\\nset = [\"link.generation=3\"]\\njob = { number_ios = 10 }\\n[[axis]]\\nkey = \"link.lanes\"\\nvalues = [1, 2]\\n' > \
                     asked.sweep.toml; phaselink sweep asked.sweep.toml --target 'iops>1' --costs block.costs.toml";

/// Whether blocks run that take long.
fn is_everything_run() -> bool {
    std::env::var_os("PAGES").is_some_and(|which| which == "all")
}

/// A drive with the sections of a block.
fn drive(text: String) -> String {
    let head = text.lines().take_while(|line| !line.starts_with('[')).collect::<Vec<_>>();
    let is_whole = head.iter().any(|line| line.starts_with("preset") || line.starts_with("interface"));
    if is_whole { text } else { format!("preset = \"nvme\"\n{text}") }
}

fn plan_with_sections(text: &str) -> String {
    format!("drive = \"dc-express\"\njob = {{ number_ios = 10 }}\n{text}")
}

/// A row of presets as a section of a drive, with its marks at the head of the file.
fn drive_with_preset_row(text: &str) -> String {
    let marks = text.lines().filter(|line| line.starts_with("fitted")).collect::<Vec<_>>().join("\n");
    let is_key = |line: &&str| !["[", "summary", "fitted"].iter().any(|start| line.starts_with(start));
    let keys = text.lines().filter(is_key).collect::<Vec<_>>().join("\n");
    format!("preset = \"nvme\"\n{}\n[media]\n{keys}\n", marks.replace("key = \"", "key = \"media."))
}

/// `printed` in the form in which the page shows it: cut in the middle where `shown` is.
fn abridge_output_as_shown(shown: &[&str], printed: &str) -> Vec<String> {
    let lines: Vec<String> = printed.lines().map(String::from).collect();
    let Some(cut) = shown.iter().position(|line| *line == "...") else { return lines };
    let tail = shown[cut + 1..].iter().rev().skip_while(|line| line.is_empty()).count();
    assert!(cut + tail <= lines.len(), "less is printed than shown:\n{printed}");
    [&lines[..cut], &[String::from("...")], &lines[lines.len() - tail..]].concat()
}

/// Whether what a block needs is here.
fn has_what_it_needs(place: &str, block: &Block) -> bool {
    let has = |program: &str| match program {
        "guest" => {
            let rig = Path::new(ROOT).join("crates/cli/tests/guest/rig.sh");
            Command::new(rig).arg("prepare").status().is_ok_and(|status| status.success())
        }
        _ => are_here(&[program]),
    };
    let needs = block.value("needs").unwrap_or("");
    let missing = needs.split(',').find(|program| !program.is_empty() && !has(program));
    if let Some(program) = missing {
        eprintln!("skipped: the block at {place} needs {program}");
    }
    missing.is_none() || std::env::var_os("CI").is_some()
}

/// Run all blocks of a page, and compare it with what they print.
///
/// # Panics
/// Where they print something else, or fail.
pub(crate) fn run(page: &str) {
    let path = Path::new(ROOT).join(page);
    let text = fs::read_to_string(&path).unwrap();
    let here = PageFolder::new(&format!("page-{}", path.file_stem().unwrap().display()));
    let lines: Vec<String> = text.lines().map(String::from).collect();
    let blocks = blocks(&text);
    let (mut renewed, mut from) = (Vec::new(), 0);
    for (block, ran) in blocks.iter().zip(run_all_blocks(&here, page, &blocks)) {
        let first = block.number - 1;
        renewed.extend_from_slice(&lines[from..first]);
        renewed.extend(ran);
        from = first + block.lines.len();
    }
    renewed.extend_from_slice(&lines[from..]);
    compare(page, &text, &(renewed.join("\n") + "\n"));
}

/// The lines that blocks ought to have.
fn run_all_blocks(here: &PageFolder, page: &str, blocks: &[Block]) -> Vec<Vec<String>> {
    thread::scope(|scope| {
        let run = |block| move || here.run(page, block);
        let started: Vec<_> = blocks
            .iter()
            .map(|block| match block.has("beside") {
                true => Err(scope.spawn(run(block))),
                false => Ok(run(block)()),
            })
            .collect();
        let finished = started.into_iter().map(|ran| ran.or_else(thread::ScopedJoinHandle::join));
        finished.map(|ran| ran.expect("what is wrong has been printed")).collect()
    })
}

/// # Panics
/// If both differ, and the page is not to be renewed.
pub(crate) fn compare(page: &str, text: &str, renewed: &str) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(Path::new(ROOT).join(page), renewed).unwrap();
    }
    for (number, (shown, printed)) in text.lines().zip(renewed.lines()).enumerate() {
        assert_eq!(shown, printed, "{page}:{} (UPDATE_EXPECT=1 renews it)", number + 1);
    }
    assert_eq!(text, renewed, "{page} (UPDATE_EXPECT=1 renews it)");
}
