//! Shipped drives and devices: the files of `drives/` and `devices/`, and the sets of drives that commands start from.

use std::sync::OnceLock;

use crate::config::document::{self, Table, Value};
use crate::problem::Problem;
use crate::shipped::{DEVICES, DRIVES};
use crate::spelling;

/// A drive or device file that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Name by which `preset` and the command line refer to it.
    pub name: &'static str,
    /// Path of the file in the repository.
    pub file: &'static str,
    /// Text of the file.
    pub text: &'static str,
}

/// All shipped drives, sorted by name.
pub fn all() -> impl ExactSizeIterator<Item = Shipped> {
    DRIVES.iter().map(|(name, file, text)| Shipped { name, file, text })
}

/// Names of all shipped drives.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|drive| drive.name)
}

/// All shipped devices without an interface (files of `devices/`), sorted by name.
pub fn devices() -> impl ExactSizeIterator<Item = Shipped> {
    DEVICES.iter().map(|(name, file, text)| Shipped { name, file, text })
}

/// Shipped device or drive of this name.
pub fn find_device(name: &str) -> Option<Shipped> {
    devices().find(|device| device.name == name).or_else(|| find(name))
}

/// Shipped drive of this name.
pub fn find(name: &str) -> Option<Shipped> {
    all().find(|drive| drive.name == name)
}

/// Problem of a command line word that names no drive, with the most similar name.
pub fn unknown(word: &str) -> Problem {
    let question = spelling::question(spelling::nearest(word, names()));
    let allowed = format!("{}, or the path of a drive file", names().collect::<Vec<_>>().join(", "));
    Problem::new("command line", None, format!("there is no drive `{word}`{question}"), allowed)
}

/// Problem of a command line word that names neither a device nor a drive, with the most similar name.
pub fn unknown_device(word: &str) -> Problem {
    let names: Vec<&str> = devices().map(|device| device.name).chain(names()).collect();
    let question = spelling::question(spelling::nearest(word, names.iter().copied()));
    let allowed = format!("{}, or the path of a file", names.join(", "));
    Problem::new("command line", None, format!("there is no device `{word}`{question}"), allowed)
}

/// Name of the drive that commands run if none is named.
pub fn usual() -> &'static str {
    set("usual").first().expect("the set names a drive")
}

/// Names of a set of drives to compare, in the order in which they are shown; empty if there is no set of this name.
pub fn set(name: &str) -> Vec<&'static str> {
    let Some(Value::Array(drives)) = document::entry(set_table(), name).map(|entry| &entry.node.value) else {
        return Vec::new();
    };
    let name = |node: &'static document::Node| match &node.value {
        Value::String(name) => Some(name.as_str()),
        _ => None,
    };
    drives.iter().filter_map(name).collect()
}

/// All sets of drives, by name, with the names of their drives.
pub fn sets() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    set_table().iter().map(|entry| (entry.key.as_str(), set(&entry.key)))
}

fn set_table() -> &'static Table {
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
    fn every_drive_of_a_set_is_shipped() {
        assert!(find(usual()).is_some());
        for (name, drives) in sets() {
            assert!(!drives.is_empty() && drives.iter().all(|drive| find(drive).is_some()), "{name}: {drives:?}");
        }
    }
}
