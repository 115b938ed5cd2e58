//! Programs of tests that are made of several files: every file is part of its program.

use std::fs;
use std::path::Path;

use crate::sources::root;

const TEST_PROGRAMS: [&str; 6] = [
    "crates/core/tests/library",
    "crates/studies/tests/library",
    "crates/house/tests/rules",
    "crates/cli/tests/program",
    "crates/serve/tests/conversations",
    "crates/serve/tests/served",
];

/// Names of files and folders beside a program's `main.rs` that it does not declare as modules.
fn find_undeclared_modules(folder: &Path) -> Vec<String> {
    let main = fs::read_to_string(folder.join("main.rs")).expect("a program");
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let names = entries.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    names.filter(|name| name != "main" && !main.contains(&format!("\nmod {name};\n"))).collect()
}

#[test]
fn every_file_of_a_test_program_is_declared_in_its_main_file() {
    for folder in TEST_PROGRAMS {
        assert_eq!(find_undeclared_modules(&root().join(folder)), [""; 0], "{folder}/main.rs");
    }
}

#[test]
fn undeclared_file_of_a_test_program_is_found() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("left_out");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("main.rs", "\nmod one;\n"), ("one.rs", ""), ("two.rs", "")] {
        fs::write(folder.join(name), text).unwrap();
    }
    assert_eq!(find_undeclared_modules(&folder), ["two"]);
}
