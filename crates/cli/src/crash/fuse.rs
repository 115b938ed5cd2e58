//! Mounts the served drive as a plain file with nbdfuse, for applications that do not speak NBD.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::problem::Problem;
use rustix::process::{Pid, Signal, kill_process};

/// Longest time for mounting and for unmounting.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);

/// Mounted drive; dropping it unmounts.
#[derive(Debug)]
pub(super) struct Mounted {
    child: Child,
    folder: PathBuf,
    pub file: PathBuf,
}

impl Mounted {
    /// Mounts the export at `uri`, of `capacity_bytes`, as a file of a new folder in `parent`.
    ///
    /// # Errors
    /// If nbdfuse is missing, or cannot mount.
    pub(super) fn new(parent: &Path, uri: &str, capacity_bytes: u64) -> Result<Mounted, Problem> {
        if let Some((missing, allowed)) = missing(is_on_path) {
            return Err(Problem::new("--file", None, missing, allowed));
        }
        let failed = |error: io::Error| Problem::new("--file", None, format!("nbdfuse cannot be run: {error}"), "");
        let folder = parent.join("mount");
        fs::create_dir(&folder).map_err(failed)?;
        let file = folder.join("disk");
        let mut command = Command::new("nbdfuse");
        // A process group of its own, so that Ctrl-C reaches only us, and we unmount.
        command.arg(&file).arg(uri).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(failed)?;
        let mut mounted = Mounted { child, folder, file };
        mounted.wait_until_there(capacity_bytes)?;
        Ok(mounted)
    }

    fn wait_until_there(&mut self, capacity_bytes: u64) -> Result<(), Problem> {
        let until = Instant::now() + PATIENCE;
        let is_there = |file: &Path| fs::metadata(file).is_ok_and(|metadata| metadata.len() == capacity_bytes);
        while !is_there(&self.file) {
            let has_ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || Instant::now() > until {
                let found = "nbdfuse cannot mount the device, though its programs and /dev/fuse are there";
                return Err(Problem::new(
                    "--file",
                    None,
                    found,
                    "a system that lets this user mount, as no container does by itself",
                ));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Unmounts the file; cached data of the system is written to the drive.
    ///
    /// # Errors
    /// If another program still uses the file.
    pub(super) fn finish(mut self) -> Result<(), Problem> {
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > until {
                let found = "the file is still in use when the command of --run has ended";
                return Err(Problem::new("--file", None, found, "a command that ends what it starts"));
            }
            unmount(&self.folder, &[]);
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        unmount(&self.folder, &["-z"]);
        // nbdfuse normally ends with the mount; end it in any case.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Returns the first thing that mounting needs and this system has not, and how to get it.
fn missing(is_on_path: impl Fn(&str) -> bool) -> Option<(String, &'static str)> {
    let programs = [
        ("nbdfuse", "with it installed: package libnbd-bin of Debian and Ubuntu, nbdfuse of Fedora"),
        ("fusermount3", "with it installed: package fuse3"),
    ];
    if let Some((program, package)) = programs.into_iter().find(|(program, _)| !is_on_path(program)) {
        return Some((format!("the program {program} is missing, which makes a file of the device"), package));
    }
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.err().map(|error| (format!("/dev/fuse cannot be opened: {error}"), "a system with /dev/fuse for this user"))
}

/// True if a folder of the search path has a file of this name.
fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Starts to unmount. The mount is gone when nbdfuse ends.
fn unmount(folder: &Path, flags: &[&str]) {
    for program in ["fusermount3", "fusermount"] {
        let mut command = Command::new(program);
        command.arg("-u").args(flags).arg(folder);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if quiet.status().is_ok() {
            return;
        }
    }
}
