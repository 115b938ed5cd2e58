//! Rows of `presets/<section>.toml`: named sets of values from which a section can start.
//!
//! A row holds keys of its section, a `summary`, and `fitted` and `assumed` marks whose keys are those of the section.

use std::sync::OnceLock;

use crate::config::document::{self, Entry, Table, Value};

/// Sections that have presets, the file that holds them, and its text.
const FILES: &[(&str, &str, &str)] = &[
    ("link", "presets/link.toml", include_str!("../../presets/link.toml")),
    ("dma", "presets/dma.toml", include_str!("../../presets/dma.toml")),
    ("host", "presets/host.toml", include_str!("../../presets/host.toml")),
    ("root_complex", "presets/root_complex.toml", include_str!("../../presets/root_complex.toml")),
    ("stack", "presets/stack.toml", include_str!("../../presets/stack.toml")),
    ("power", "presets/power.toml", include_str!("../../presets/power.toml")),
    ("media", "presets/media.toml", include_str!("../../presets/media.toml")),
];

/// Marks of the schema's defaults that are assumed.
const DEFAULTS: (&str, &str) = ("presets/defaults.toml", include_str!("../../presets/defaults.toml"));

/// The rows of each file, parsed when they are first asked for: sweeps read thousands of drives.
static ROWS: [OnceLock<Table>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];

/// A preset as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Section of the drive file whose `preset` may name it.
    pub section: &'static str,
    pub name: String,
    pub summary: String,
}

/// All presets, section by section in the order of their files.
pub fn all() -> Vec<Preset> {
    let list = |(section, _, _): &(&'static str, &str, &str)| -> Vec<Preset> {
        let preset = |row: &Entry| Preset { section, summary: summary(row), name: row.key.clone() };
        rows(section).iter().map(preset).collect()
    };
    FILES.iter().flat_map(list).collect()
}

/// Whether a section can start from a preset.
pub(crate) fn has(section: &str) -> bool {
    FILES.iter().any(|(path, _, _)| *path == section)
}

/// The rows of a section; none if it has no presets.
///
/// # Panics
/// If a file that is part of the program is not valid TOML.
pub(crate) fn rows(section: &str) -> &'static Table {
    static NONE: Table = Table::new();
    let Some(place) = FILES.iter().position(|(path, _, _)| *path == section) else {
        return &NONE;
    };
    ROWS[place].get_or_init(|| {
        let (_, file, text) = FILES[place];
        let document = document::parse(file, text);
        assert!(document.problems.is_empty(), "{:?}", document.problems);
        document.table
    })
}

/// The list `assumed` of the schema's defaults.
///
/// # Panics
/// If the file that is part of the program is not valid TOML.
pub(crate) fn assumed_defaults() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let document = document::parse(DEFAULTS.0, DEFAULTS.1);
        assert!(document.problems.is_empty(), "{:?}", document.problems);
        document.table
    })
}

fn summary(row: &Entry) -> String {
    let Value::Table(keys) = &row.node.value else {
        return String::new();
    };
    match document::entry(keys, "summary").map(|entry| &entry.node.value) {
        Some(Value::String(summary)) => summary.clone(),
        _ => String::new(),
    }
}
