//! Layers of a drive description, lowest first: the drives from which it starts, the file, each override (`--set`).

use std::path::Path;

use crate::config::document::{self, Entry, Table, Value};
use crate::config::origin::ValueOrigin;
use crate::config::value;
use crate::problem::Problem;

/// Function that returns the text of another description file by its path; the core itself reads no files.
pub type DescriptionReader = fn(&str) -> Result<String, Problem>;

/// Largest number of files that start from each other; a longer chain is taken for a cycle.
pub(super) const FILES_DEEP_MAX: usize = 16;

/// One layer of a drive description: the entries of one file or override.
pub(super) struct DescriptionLayer {
    /// Kind of text that the layer comes from: base drive, file or override.
    pub origin: ValueOrigin,
    /// Path of the file that the layer comes from, to which paths in it are relative; `None` for an override.
    pub file: Option<String>,
    /// Keys and sections that the file or override gives.
    pub table: Table,
}

impl DescriptionLayer {
    /// Returns the entry that names the preset of a section, if this layer has one.
    pub(super) fn preset(&self, path: &str) -> Option<&Entry> {
        match &document::entry(&self.table, path)?.node.value {
            Value::Table(keys) => document::entry(keys, "preset"),
            _ => None,
        }
    }

    /// Returns the entry of a key of a section, if this layer has one.
    pub(super) fn key(&self, path: &str, key: &str) -> Option<&Entry> {
        match &document::entry(&self.table, path)?.node.value {
            Value::Table(keys) => document::entry(keys, key),
            _ => None,
        }
    }

    /// Returns the path of the file that an entry `preset` names, relative to the layer's file; `None` if it names a
    /// shipped drive or preset.
    pub(super) fn preset_path_of(&self, entry: &Entry) -> Option<String> {
        let name = value::text(&entry.node).ok()?;
        if !is_path(name) {
            return None;
        }
        let folder = self.file.as_deref().and_then(|file| Path::new(file).parent());
        Some(folder.map_or_else(|| String::from(name), |folder| folder.join(name).to_string_lossy().into_owned()))
    }
}

/// True if the name of a preset is the path of a file: it ends in `.toml` or contains a `/`.
pub(super) fn is_path(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/')
}

/// Refuses to read the file at any path, for descriptions that must stand alone.
///
/// # Errors
/// Always, because no file can be read.
pub fn refuse_files(path: &str) -> Result<String, Problem> {
    Err(Problem::new(
        path,
        None,
        "a drive description cannot read other files here",
        "the names of shipped presets and drives",
    ))
}
