//! Programs that others have written, for tests that meet them.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// A program, and Debian's package that has it where the names differ.
const PACKAGES: [(&str, &str); 9] = [
    ("debugfs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("fusermount3", "fuse3"),
    ("mke2fs", "e2fsprogs"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdfuse", "libnbd-bin"),
    ("nbdinfo", "libnbd-bin"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
];

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

fn package(program: &str) -> &str {
    PACKAGES.iter().find(|(known, _)| *known == program).map_or(program, |(_, package)| package)
}

/// Whether all of these are here. Those that are missing are installed where this is root on a system with apt.
pub(crate) fn are_here(programs: &[&str]) -> bool {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let missing: Vec<&str> = programs.iter().filter(|program| !has(program)).map(|program| package(program)).collect();
    if missing.is_empty() {
        return true;
    }
    let install = format!(
        "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {}",
        missing.join(" ")
    );
    let works = Command::new("sh").args(["-c", &install]).output().is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("skipped: {} are missing and apt cannot install them", missing.join(", "));
    }
    works
}
