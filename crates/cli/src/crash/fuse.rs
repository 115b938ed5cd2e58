//! The device as a plain file, by nbdfuse: for applications that know no NBD.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::problem::Problem;
use rustix::process::{Pid, Signal, kill_process};

/// How long a mount and its end may take.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);

/// A mounted device. The mount ends with this.
#[derive(Debug)]
pub(super) struct Mounted {
    child: Child,
    folder: PathBuf,
    pub file: PathBuf,
}

impl Mounted {
    /// Mount the export at `uri`, of so many bytes, as a file of a new folder in `parent`.
    ///
    /// # Errors
    /// If nbdfuse is missing, or cannot mount.
    pub(super) fn new(parent: &Path, uri: &str, capacity_bytes: u64) -> Result<Mounted, Problem> {
        let failed = |error: io::Error| Problem::new("--file", None, format!("nbdfuse cannot be run: {error}"), "");
        let folder = parent.join("mount");
        fs::create_dir(&folder).map_err(failed)?;
        let file = folder.join("disk");
        let mut command = Command::new("nbdfuse");
        // A group of its own: Ctrl-C is for us, who then unmount.
        command.arg(&file).arg(uri).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Problem::new(
                "--file",
                None,
                "nbdfuse is missing, which makes a file of the device",
                "with it installed: package libnbd-bin of Debian and Ubuntu, nbdfuse of Fedora",
            ),
            _ => failed(error),
        })?;
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
                let found = "nbdfuse cannot mount the device";
                let allowed = "a system with /dev/fuse for everybody, and fusermount3 (package fuse3)";
                return Err(Problem::new("--file", None, found, allowed));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Unmount. What the system still holds of the file reaches the device.
    ///
    /// # Errors
    /// If somebody still uses the file.
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
        // Who does not end when the mount is gone does so now.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Ask for the end of a mount; whether it has come shows in nbdfuse's.
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
