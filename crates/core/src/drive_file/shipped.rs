//! The drives that come with the program: the files of `drives/`, and the sets of them that commands start from.

use std::sync::OnceLock;

use crate::config::document::{self, Table, Value};
use crate::problem::Problem;
use crate::shipped::{DEVICES, DRIVES};
use crate::spelling;

/// A drive file that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// What `preset` and the command line call it.
    pub name: &'static str,
    /// Its file in the repository.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// All of them, by name.
pub fn all() -> impl ExactSizeIterator<Item = Shipped> {
    DRIVES.iter().map(|(name, file, text)| Shipped { name, file, text })
}

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|drive| drive.name)
}

/// The devices without an interface, by name: the files of `devices/`.
pub fn devices() -> impl ExactSizeIterator<Item = Shipped> {
    DEVICES.iter().map(|(name, file, text)| Shipped { name, file, text })
}

/// The device or drive of this name.
pub fn find_device(name: &str) -> Option<Shipped> {
    devices().find(|device| device.name == name).or_else(|| find(name))
}

/// The drive of this name.
pub fn find(name: &str) -> Option<Shipped> {
    all().find(|drive| drive.name == name)
}

/// The problem of a word that names no drive.
pub fn unknown(word: &str) -> Problem {
    let question = spelling::question(spelling::nearest(word, names()));
    let allowed = format!("{}, or the path of a drive file", names().collect::<Vec<_>>().join(", "));
    Problem::new("command line", None, format!("there is no drive `{word}`{question}"), allowed)
}

/// The problem of a word that names neither a device nor a drive.
pub fn unknown_device(word: &str) -> Problem {
    let names: Vec<&str> = devices().map(|device| device.name).chain(names()).collect();
    let question = spelling::question(spelling::nearest(word, names.iter().copied()));
    let allowed = format!("{}, or the path of a file", names.join(", "));
    Problem::new("command line", None, format!("there is no device `{word}`{question}"), allowed)
}

/// What is run where no drive is named.
pub fn usual() -> &'static str {
    set("usual").first().expect("the set names a drive")
}

/// A set of drives to be compared, in the order in which they are shown; empty if there is none of this name.
pub fn set(name: &str) -> Vec<&'static str> {
    let Some(Value::Array(drives)) = document::entry(sets(), name).map(|entry| &entry.node.value) else {
        return Vec::new();
    };
    let name = |node: &'static document::Node| match &node.value {
        Value::String(name) => Some(name.as_str()),
        _ => None,
    };
    drives.iter().filter_map(name).collect()
}

fn sets() -> &'static Table {
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
        for entry in sets() {
            let drives = set(&entry.key);
            assert!(!drives.is_empty() && drives.iter().all(|name| find(name).is_some()), "{}: {drives:?}", entry.key);
        }
    }
}
