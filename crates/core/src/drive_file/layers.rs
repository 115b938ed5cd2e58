//! Layers of a drive description, lowest first: the drives from which it starts, the file, each `--set`.

use std::path::Path;

use crate::config::document::{self, Entry, Table, Value};
use crate::config::origin::Origin;
use crate::config::value;
use crate::problem::Problem;

/// Function that returns the text of another description file by its path; the core itself reads no files.
pub type ReadFile = fn(&str) -> Result<String, Problem>;

/// Largest number of files that start from each other. More are taken for a circle.
pub(super) const FILES_DEEP_MAX: usize = 16;

/// One layer of a description: the entries of one text.
pub(super) struct TextLayer {
    /// Kind of text.
    pub origin: Origin,
    /// File to which paths in this text are relative; `None` for an override.
    pub file: Option<String>,
    /// Entries of the text.
    pub table: Table,
}

impl TextLayer {
    /// Entry that names the preset of a section, if this layer has one.
    pub(super) fn preset(&self, path: &str) -> Option<&Entry> {
        match &document::entry(&self.table, path)?.node.value {
            Value::Table(keys) => document::entry(keys, "preset"),
            _ => None,
        }
    }

    /// Entry of a key of a section, if this layer has one.
    pub(super) fn key(&self, path: &str, key: &str) -> Option<&Entry> {
        match &document::entry(&self.table, path)?.node.value {
            Value::Table(keys) => document::entry(keys, key),
            _ => None,
        }
    }

    /// Path of the file that an entry names, or `None` if it names a shipped drive or preset.
    pub(super) fn path_in(&self, entry: &Entry) -> Option<String> {
        let name = value::text(&entry.node).ok()?;
        if !is_path(name) {
            return None;
        }
        let folder = self.file.as_deref().and_then(|file| Path::new(file).parent());
        Some(folder.map_or_else(|| String::from(name), |folder| folder.join(name).to_string_lossy().into_owned()))
    }
}

/// True if the name of a preset is the path of a file.
pub(super) fn is_path(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/')
}

/// Reader of files for descriptions that stand alone: refuses every path.
///
/// # Errors
/// Always, because no file can be read.
pub fn no_files(path: &str) -> Result<String, Problem> {
    Err(Problem::new(
        path,
        None,
        "a drive description cannot read other files here",
        "the names of shipped presets and drives",
    ))
}
