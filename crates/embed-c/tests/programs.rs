//! C programs against the header and the library: the example, recorded arrivals, and every misuse.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use phaselink_core::crash::format::encode;
use phaselink_core::crash::recording::{
    Durability, DurabilityRules, RecordedCommand, RecordedEventKind, RecordedOp, Recording,
};

const HEADER: &str = include_str!("../include/phaselink_drive.h");

/// Compiles a C program against the shared library, and runs it; none without a C compiler.
fn run(source: &str, words: &[&str]) -> Option<Output> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = crate_folder.join(source);
    let name = source.file_stem().expect("a name").to_string_lossy().into_owned();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let libraries = libraries();
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(crate_folder.join("include"))
        .arg(&source)
        .arg("-L")
        .arg(&libraries)
        .arg("-lphaselink_drive")
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .arg("-o")
        .arg(&program)
        .output();
    let Ok(compiled) = compiled else {
        assert!(std::env::var("CI").is_err(), "no C compiler: the C interface is not tested");
        return None;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(Command::new(program).args(words).output().expect("the program runs"))
}

/// Folder in which cargo leaves the libraries that tests are built from.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().expect("it stands in a folder").to_path_buf()
}

fn output(output: Option<Output>) -> Option<String> {
    let output = output?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the path of a file of the repository; none in a package, which does not have it.
fn of_repository(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let is_package = !Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md").exists();
    if is_package {
        println!("{file} is no part of the package: run this test in the repository");
        return None;
    }
    Some(path)
}

/// Writes a recording of one write of two blocks in flight, and returns its path.
fn recording() -> PathBuf {
    let write =
        RecordedCommand { kind: RecordedOp::Write(vec![7; 1024].into()), offset: 0, bytes: 1024, durable: false };
    let recording = Recording {
        capacity_bytes: 4096,
        rules: DurabilityRules { block_bytes: 512, atomic_bytes: 512, durability: Durability::OnFlush },
        zones: None,
        requests: vec![write],
        lines: Vec::new(),
        events: vec![RecordedEventKind::Arrived(0)],
        prepared: 0,
    };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-write.recording");
    std::fs::write(&path, encode(&recording)).expect("a file");
    path
}

#[test]
fn recorded_arrivals_complete_at_the_same_picosecond_and_misuse_is_reported() {
    let Some(arrivals) = of_repository("crates/embed/tests/library/arrivals.csv") else { return };
    let (arrivals, recording) = (arrivals.to_string_lossy(), recording());
    if let Some(text) = output(run("tests/arrivals.c", &[&arrivals, &recording.to_string_lossy()])) {
        assert!(text.contains(&format!("version {}", env!("CARGO_PKG_VERSION"))), "{text}");
    }
}

#[test]
fn documented_event_loop_runs_with_identical_output_twice() {
    if of_repository("examples/embed/event_loop.c").is_none() {
        return;
    }
    let run = || output(run("../../examples/embed/event_loop.c", &["tlc-gen4"]));
    if let Some(text) = run() {
        assert!(text.starts_with("1000 operations in ") && text.contains("a flush takes"), "{text}");
        assert_eq!(run(), Some(text));
    }
}

#[test]
fn header_has_the_library_version_and_all_exported_functions() {
    assert!(HEADER.contains(&format!("#define PHASELINK_DRIVE_VERSION \"{}\"", env!("CARGO_PKG_VERSION"))));
    let source = include_str!("../src/lib.rs");
    let named = source.split("extern \"C\" fn ").skip(1).filter_map(|rest| rest.split('(').next());
    let properties = source.lines().filter_map(|line| line.trim().strip_prefix("phaselink_drive_")?.split(':').next());
    let functions: Vec<String> = named
        .filter(|name| !name.starts_with('$'))
        .map(String::from)
        .chain(properties.map(|name| format!("phaselink_drive_{name}")))
        .collect();
    assert!(functions.len() > 20, "{functions:?}");
    let missing: Vec<&String> = functions.iter().filter(|name| !HEADER.contains(&format!("{name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
