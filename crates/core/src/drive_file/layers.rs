//! The texts of a description, lowest first: the drives from which it starts, the file, each `--set`.

use std::path::Path;

use crate::config::document::{self, Entry, Table, Value};
use crate::config::origin::Origin;
use crate::config::value;
use crate::problem::Problem;

/// How the texts of other description files are had, by path: the core reads no files.
pub type ReadFile = fn(&str) -> Result<String, Problem>;

/// How many files may start from each other. More are a circle.
pub(super) const FILES_DEEP_MAX: usize = 16;

/// One text of a description.
pub(super) struct Layer {
    pub origin: Origin,
    /// What paths in it are relative to; none for the command line.
    pub file: Option<String>,
    pub table: Table,
}

impl Layer {
    /// The entry that names the preset of a section.
    pub(super) fn preset(&self, path: &str) -> Option<&Entry> {
        match &document::entry(&self.table, path)?.node.value {
            Value::Table(keys) => document::entry(keys, "preset"),
            _ => None,
        }
    }

    /// A key of a section.
    pub(super) fn key(&self, path: &str, key: &str) -> Option<&Entry> {
        match &document::entry(&self.table, path)?.node.value {
            Value::Table(keys) => document::entry(keys, key),
            _ => None,
        }
    }

    /// The path of the file that an entry names, if it names one rather than something that comes with the program.
    pub(super) fn path_in(&self, entry: &Entry) -> Option<String> {
        let name = value::text(&entry.node).ok()?;
        if !is_path(name) {
            return None;
        }
        let folder = self.file.as_deref().and_then(|file| Path::new(file).parent());
        Some(folder.map_or_else(|| String::from(name), |folder| folder.join(name).to_string_lossy().into_owned()))
    }
}

/// Whether the name of a preset is that of a file.
pub(super) fn is_path(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/')
}

/// For descriptions that stand alone.
///
/// # Errors
/// Always: there are no files.
pub fn no_files(path: &str) -> Result<String, Problem> {
    Err(Problem::new(path, None, "other files cannot be read here", "presets and drives that come with the program"))
}
