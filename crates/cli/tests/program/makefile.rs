//! What `make` checks is checked, or said to have been left out.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{ROOT, directory};

/// Whether `make target` works, and what it prints, where cargo has no subcommands.
fn make_without_subcommands(target: &str, ci: Option<&str>) -> (bool, String) {
    let tools = directory("makefile");
    fs::write(tools.join("cargo"), "#!/bin/sh\nexit 101\n").unwrap();
    fs::set_permissions(tools.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut make = Command::new("make");
    make.args(["-s", target]).current_dir(ROOT).env("PATH", path).env_remove("CI").env_remove("MAKEFLAGS");
    let ran = make.envs(ci.map(|ci| ("CI", ci))).output().unwrap();
    (ran.status.success(), String::from_utf8(ran.stdout).unwrap())
}

#[test]
fn missing_rustfmt_and_clippy_fail_only_in_ci() {
    for (target, told) in [
        ("format-check", "rustfmt is not installed: the format is not checked\n"),
        ("lint", "clippy is not installed: lints are not checked\n"),
    ] {
        assert_eq!(make_without_subcommands(target, None), (true, String::from(told)));
        assert_eq!(make_without_subcommands(target, Some("true")), (false, String::from(told)));
    }
}

#[test]
fn unavailable_advisories_are_reported() {
    let (_, printed) = make_without_subcommands("advisories", None);
    assert!(printed.contains("advisories are NOT checked"), "{printed}");
}
