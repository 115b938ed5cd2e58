//! The library as `cargo cinstall` (cargo-c) installs it: header, file for pkg-config, shared and static library, and a C program
//! that is compiled against them.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command, and returns what it prints.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().into()
}

fn is_there(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
}

/// Installs the library into a new folder, and returns that.
fn install(repository: &Path) -> PathBuf {
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
    let _ = std::fs::remove_dir_all(&prefix);
    let mut install = Command::new(env!("CARGO"));
    install.args(["cinstall", "--locked", "--offline", "--debug", "-p", "phaselink-embed-c", "--libdir", "lib"]);
    install.arg("--prefix").arg(&prefix);
    // Use a separate target folder. The flags of cargo-c would make cargo rebuild everything in a shared one.
    install.arg("--target-dir").arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("cargo-c"));
    printed(install.current_dir(repository));
    prefix
}

#[test]
fn program_compiles_against_the_installed_shared_and_static_library() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let needed = is_there(env!("CARGO"), &["cinstall", "--version"]) && is_there("pkg-config", &["--version"]);
    if !needed || !is_there("cc", &["--version"]) || !repository.join("ARCHITECTURE.md").exists() {
        return println!("cargo-c, pkg-config or cc is not installed: the installed C library is not checked");
    }
    let prefix = install(&repository);
    let library = prefix.join("lib");
    for file in ["include/phaselink_drive.h", "lib/libphaselink_drive.a", "lib/pkgconfig/phaselink_drive.pc"] {
        assert!(prefix.join(file).exists(), "{file} is missing");
    }
    let flags = |words: &[&str]| -> Vec<String> {
        let mut asked = Command::new("pkg-config");
        asked.args(words).arg("phaselink_drive").env("PKG_CONFIG_PATH", library.join("pkgconfig"));
        printed(&mut asked).split_whitespace().map(String::from).collect()
    };
    assert_eq!(flags(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let source = repository.join("examples/embed/event_loop.c");
    let compile = |name: &str, flags: Vec<String>| -> String {
        let program = prefix.join(name);
        printed(Command::new("cc").arg(&source).args(flags).arg("-o").arg(&program));
        printed(Command::new(&program).arg("tlc-gen4").env("LD_LIBRARY_PATH", &library))
    };
    let shared = compile("shared", flags(&["--cflags", "--libs"]));
    let with_static = flags(&["--cflags", "--libs", "--static"]).into_iter().map(|flag| match flag.as_str() {
        "-lphaselink_drive" => library.join("libphaselink_drive.a").display().to_string(),
        _ => flag,
    });
    let fixed = compile("static", with_static.collect());
    assert!(shared.starts_with("1000 operations in "), "{shared}");
    assert_eq!(fixed, shared);
}
