//! Descriptions of drives.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use phaselink_core::drive;
use phaselink_core::drive_file::{Described, KeyOverride, refuse_files};
use phaselink_core::problem::{Problem, Problems};

/// Description of a drive: memory, controller, link, host and software stack.
#[derive(Clone, Debug)]
pub struct Drive(Described);

impl Drive {
    /// Returns the shipped drive of this name, such as `nvme` or `optane-p5800x` (`phaselink check` lists them).
    ///
    /// # Errors
    /// If no shipped drive has this name.
    pub fn shipped(name: &str) -> Result<Drive, Problems> {
        Drive::of(Described::shipped(name, &[], refuse_files))
    }

    /// Reads the text of a drive file, which names no other files.
    ///
    /// # Errors
    /// All mistakes of the text, each with its line and what is allowed.
    pub fn from_toml(text: &str) -> Result<Drive, Problems> {
        Drive::of(Described::read("drive.toml", text, &[], refuse_files))
    }

    /// Reads a drive file, and the files that it names.
    ///
    /// # Errors
    /// If a file cannot be read, and all mistakes of its text.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Drive, Problems> {
        let name = path.as_ref().to_string_lossy();
        Drive::of(Described::read(&name, &read(&name)?, &[], read))
    }

    /// Returns the drive with another value of a key, such as `media.read_ns`, in the unit that the key's name ends with.
    ///
    /// # Errors
    /// If there is no such key, or the drive cannot have this value.
    pub fn with(&self, key: &str, value: impl Display) -> Result<Drive, Problems> {
        let given = format!("{key}={value}");
        Drive::of(self.0.with(&[KeyOverride::parse_override_given_as(&given, &given)?]))
    }

    /// Returns the name of the drive.
    pub fn name(&self) -> &str {
        &self.0.drive().name
    }

    /// Returns the drive as the text of a drive file with every key that differs from its default.
    pub fn to_toml(&self) -> String {
        self.0.drive().to_toml()
    }

    /// Returns every key with its value and the source of the value, as text of at most 100 columns.
    pub fn explain(&self) -> String {
        self.0.drive().explain()
    }

    /// Returns the drive with interrupts on if its software stack sleeps until an interrupt, as in the program.
    fn of(read: Result<Described, Problems>) -> Result<Drive, Problems> {
        read.map(|drive| Drive(drive.with_interrupts_raised()))
    }

    /// Returns the description as the core's models take it.
    pub(crate) fn model(&self) -> &drive::Drive {
        self.0.drive()
    }
}

/// Reads a file that a user or a drive file has named.
fn read(name: &str) -> Result<String, Problem> {
    fs::read_to_string(name).map_err(|error| Problem::new(name, None, format!("cannot be read: {error}"), ""))
}
