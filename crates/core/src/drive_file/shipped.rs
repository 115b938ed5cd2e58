//! Shipped drives and devices: the files of `drives/` and `devices/`, and the named sets of drives for comparisons.

use std::sync::OnceLock;

use crate::config::document::{self, Table, Value};
use crate::problem::Problem;
use crate::shipped::{DEVICES, DRIVES};
use crate::spelling;

/// Drive or device file that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct ShippedFile {
    /// Name of the drive or device, for the key `preset` and for the command line.
    pub name: &'static str,
    /// Path of the drive or device file in the repository.
    pub file: &'static str,
    /// Text of the drive or device file.
    pub text: &'static str,
}

/// Returns all shipped drives, sorted by name.
pub fn all() -> impl ExactSizeIterator<Item = ShippedFile> {
    DRIVES.iter().map(|(name, file, text)| ShippedFile { name, file, text })
}

/// Returns the names of all shipped drives, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|drive| drive.name)
}

/// Returns all shipped devices without an interface (files of `devices/`), sorted by name.
pub fn devices() -> impl ExactSizeIterator<Item = ShippedFile> {
    DEVICES.iter().map(|(name, file, text)| ShippedFile { name, file, text })
}

/// Returns the shipped device or drive of this name, if there is one.
pub fn find_device(name: &str) -> Option<ShippedFile> {
    devices().find(|device| device.name == name).or_else(|| find(name))
}

/// Returns the shipped drive of this name, if there is one.
pub fn find(name: &str) -> Option<ShippedFile> {
    all().find(|drive| drive.name == name)
}

/// Returns the problem of a word on the command line that names no drive, with the most similar name.
pub fn unknown(word: &str) -> Problem {
    let question = spelling::question(spelling::nearest(word, names()));
    let allowed = format!("{}, or the path of a drive file", names().collect::<Vec<_>>().join(", "));
    Problem::new("command line", None, format!("there is no drive `{word}`{question}"), allowed)
}

/// Returns the problem of a word on the command line that names neither a device nor a drive, with the most similar
/// name.
pub fn unknown_device(word: &str) -> Problem {
    let names: Vec<&str> = devices().map(|device| device.name).chain(names()).collect();
    let question = spelling::question(spelling::nearest(word, names.iter().copied()));
    let allowed = format!("{}, or the path of a file", names.join(", "));
    Problem::new("command line", None, format!("there is no device `{word}`{question}"), allowed)
}

/// Returns the name of the drive on which commands run if the user names none.
pub fn default_drive_name() -> &'static str {
    set("usual").first().expect("the set names a drive")
}

/// Returns the names of the drives in a set for comparisons, in the order in which they are shown; empty if there is no
/// set of this name.
pub fn set(name: &str) -> Vec<&'static str> {
    let Some(Value::Array(drives)) = document::entry(drive_set_table(), name).map(|entry| &entry.node.value) else {
        return Vec::new();
    };
    let name = |node: &'static document::Node| match &node.value {
        Value::String(name) => Some(name.as_str()),
        _ => None,
    };
    drives.iter().filter_map(name).collect()
}

/// Returns the name of each set of drives, with the names of its drives.
pub fn sets() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    drive_set_table().iter().map(|entry| (entry.key.as_str(), set(&entry.key)))
}

fn drive_set_table() -> &'static Table {
    static SETS: OnceLock<Table> = OnceLock::new();
    SETS.get_or_init(|| {
        let document = document::parse("presets/sets.toml", include_str!("../../presets/sets.toml"));
        assert!(document.problems.is_empty(), "{:?}", document.problems);
        document.table
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_drives_of_a_set_are_shipped() {
        assert!(find(default_drive_name()).is_some());
        for (name, drives) in sets() {
            assert!(!drives.is_empty() && drives.iter().all(|drive| find(drive).is_some()), "{name}: {drives:?}");
        }
    }
}
