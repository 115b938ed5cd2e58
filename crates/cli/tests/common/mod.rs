//! The built program, run as a user runs it.
// Two test programs include this module, and one of them uses only a part of it.
#![allow(dead_code)]

#[cfg(unix)]
pub(crate) mod nbd;
#[cfg(unix)]
pub(crate) mod page;
pub(crate) mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Folder of the documentation in the repository.
pub(crate) const DOCS: &str = "crates/cli/docs";

/// What a command has printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ran {
    /// # Panics
    /// If the program has panicked or printed something that is not text: neither may ever happen.
    fn from(output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("all output is UTF-8");
        let ran = Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran
    }
}

/// The program, to run in the repository.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phaselink"));
    // A terminal's width in COLUMNS would change the output.
    command.current_dir(ROOT).env_remove("COLUMNS");
    command
}

/// Run it with arguments separated by blanks.
pub(crate) fn phaselink(arguments: &str) -> Ran {
    program().args(arguments.split_whitespace()).output().expect("the program starts").into()
}

/// Run it, expect success, and return what it prints.
pub(crate) fn printed(arguments: &str) -> String {
    let ran = phaselink(arguments);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "phaselink {arguments}");
    ran.stdout
}

/// An empty directory for a test of this name.
pub(crate) fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the build directory can be written");
    path
}
