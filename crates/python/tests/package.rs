//! The tests of the package are Python's: `test.sh` runs them with what cargo has built.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder in which cargo leaves the files that tests are built from.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().expect("it stands in a folder").to_path_buf()
}

#[test]
fn python_package_passes_its_own_tests() {
    let library =
        ["lib_native.so", "lib_native.dylib"].map(|name| built().join(name)).into_iter().find(|it| it.exists());
    let library = library.expect("cargo has built the extension");
    let program = built().with_file_name("phaselink");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("test.sh");
    let ran = Command::new(script).arg("quick").env("LIBRARY", library).env("PHASELINK", program).status();
    assert!(ran.expect("there is a shell").success());
}
