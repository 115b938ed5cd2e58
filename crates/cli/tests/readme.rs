//! The examples of the front page: every command in a block marked `console` is run, and prints what the page shows.
//!
//! A block marked `file=NAME` is a file that later commands find. A line `...` stands for any number of lines. A block
//! marked `needs=PROGRAM,...` is left out where one of these is missing and cannot be installed, but never where `CI` is
//! in the environment; `needs=guest` stands for what `guest/rig.sh` fetches. With `UPDATE_EXPECT=1` in the environment
//! the page is written anew with what the commands print now.
#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::programs::are_here;
use common::{ROOT, Ran, directory};

/// Run a command of the page; `phaselink` is the built program, and what the page names of the repository is there.
fn shell(command: &str, here: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_phaselink")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let library = here.join("target/dist/libphaselink_client.so");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(here).env("PATH", path).env("PHASELINK_CLIENT", library);
    let ran = Ran::from(shell.output().unwrap());
    ran.stdout + &ran.stderr
}

/// `printed` in the form in which the page shows it: cut in the middle where `shown` is.
fn cut_like(shown: &[&str], printed: &str) -> Vec<String> {
    let lines: Vec<String> = printed.lines().map(String::from).collect();
    let Some(cut) = shown.iter().position(|line| *line == "...") else { return lines };
    let tail = shown.len() - cut - 1;
    assert!(cut + tail <= lines.len(), "less is printed than shown:\n{printed}");
    [&lines[..cut], &[String::from("...")], &lines[lines.len() - tail..]].concat()
}

/// The lines of a block with what its commands print now.
fn rerun(block: &[&str], here: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for part in block.chunk_by(|_, next| !next.starts_with("$ ")) {
        let command = part[0].strip_prefix("$ ").expect("a block begins with a command");
        let mut printed = cut_like(&part[1..], &shell(command, here));
        lines.push(String::from(part[0]));
        // A blank line sets the next command apart.
        let is_last = part.as_ptr_range().end == block.as_ptr_range().end;
        if !is_last && printed.last().is_some_and(|line| !line.is_empty()) {
            printed.push(String::new());
        }
        lines.append(&mut printed);
    }
    lines
}

/// Whether what a block needs is here, by the words behind its opening fence.
fn has_what_it_needs(kind: &str) -> bool {
    let needs = kind.split_once("needs=").map_or("", |(_, programs)| programs);
    let has = |program: &str| match program {
        "guest" => {
            let rig = Path::new(ROOT).join("crates/cli/tests/guest/rig.sh");
            Command::new(rig).arg("prepare").status().is_ok_and(|status| status.success())
        }
        _ => are_here(&[program]),
    };
    let missing = needs.split(',').find(|program| !program.is_empty() && !has(program));
    if let Some(program) = missing {
        eprintln!("skipped: a block of README.md needs {program}");
    }
    missing.is_none() || std::env::var_os("CI").is_some()
}

fn prepared_directory() -> std::path::PathBuf {
    let here = directory("readme");
    // Tests have their libraries beside them, whatever they are built for.
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    fs::create_dir(here.join("target")).unwrap();
    symlink(built, here.join("target/dist")).unwrap();
    symlink(fs::canonicalize(Path::new(ROOT).join("crates")).unwrap(), here.join("crates")).unwrap();
    for folder in ["drives", "examples", "examples/crash"] {
        fs::create_dir(here.join(folder)).unwrap();
        let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap().map(Result::unwrap);
        for entry in entries.filter(|entry| entry.path().is_file()) {
            fs::copy(entry.path(), here.join(folder).join(entry.file_name())).unwrap();
        }
    }
    here
}

#[test]
fn every_command_of_the_front_page_prints_what_the_page_shows() {
    let page = Path::new(ROOT).join("README.md");
    let text = fs::read_to_string(&page).unwrap();
    let here = prepared_directory();
    let (mut renewed, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        renewed.push(String::from(line));
        let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if let Some((_, name)) = kind.split_once("file=") {
            fs::write(here.join(name), block.join("\n") + "\n").unwrap();
        }
        match kind.split(' ').next() {
            Some("console") if has_what_it_needs(kind) => renewed.extend(rerun(&block, &here)),
            _ => renewed.extend(block.iter().map(|line| line.to_string())),
        }
        renewed.push(String::from("```"));
    }
    let renewed = renewed.join("\n") + "\n";
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(&page, &renewed).unwrap();
    }
    for (number, (shown, printed)) in text.lines().zip(renewed.lines()).enumerate() {
        assert_eq!(shown, printed, "README.md:{} (UPDATE_EXPECT=1 renews it)", number + 1);
    }
    assert_eq!(text, renewed, "README.md (UPDATE_EXPECT=1 renews it)");
}
