//! Presets: rows of `presets/<section>.toml`. Each is a named set of values from which a section can start.
//!
//! A row holds keys of its section, a `summary`, and lists `fitted` and `assumed`, whose keys are those of the section.
//! A row can start from a row above it (`preset`) and takes the values and marks from there that it does not give
//! itself.

use std::sync::OnceLock;

use crate::config::document::{self, Entry, Node, Table, Value};

/// Keys of a preset's row that list uncertain constants.
const MARKS: [&str; 2] = ["fitted", "assumed"];

/// For each section that has presets: the section, the file with their rows, and the text of the file.
const FILES: &[(&str, &str, &str)] = &[
    ("link", "presets/link.toml", include_str!("../../presets/link.toml")),
    ("dma", "presets/dma.toml", include_str!("../../presets/dma.toml")),
    ("fabric", "presets/fabric.toml", include_str!("../../presets/fabric.toml")),
    ("host", "presets/host.toml", include_str!("../../presets/host.toml")),
    ("root_complex", "presets/root_complex.toml", include_str!("../../presets/root_complex.toml")),
    ("stack", "presets/stack.toml", include_str!("../../presets/stack.toml")),
    ("power", "presets/power.toml", include_str!("../../presets/power.toml")),
    ("media", "presets/media.toml", include_str!("../../presets/media.toml")),
];

/// File that lists the schema's defaults that are assumed, and its text.
const DEFAULTS: (&str, &str) = ("presets/defaults.toml", include_str!("../../presets/defaults.toml"));

/// Rows of each preset file, parsed when they are first needed: sweeps read thousands of drives.
static ROWS: [OnceLock<Table>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];

/// Section, name and summary of a preset, for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Section that can start from the preset, by naming it.
    pub section: &'static str,
    /// Name of the preset.
    pub name: String,
    /// Description of the preset in one line.
    pub summary: String,
}

/// Returns all presets, section by section in the order of their files.
pub fn all() -> Vec<Preset> {
    let list = |(section, _, _): &(&'static str, &str, &str)| -> Vec<Preset> {
        let preset = |row: &Entry| Preset { section, summary: summary(row), name: row.key.clone() };
        rows(section).iter().map(preset).collect()
    };
    FILES.iter().flat_map(list).collect()
}

/// True if there are presets for the section.
pub(crate) fn has(section: &str) -> bool {
    FILES.iter().any(|(path, _, _)| *path == section)
}

/// Returns the presets of a section by name; an empty table if it has none.
///
/// # Panics
/// If a file that is part of the program is not valid TOML.
pub fn rows(section: &str) -> &'static Table {
    static NONE: Table = Table::new();
    let Some(place) = FILES.iter().position(|(path, _, _)| *path == section) else {
        return &NONE;
    };
    ROWS[place].get_or_init(|| {
        let (_, file, text) = FILES[place];
        let document = document::parse(file, text);
        assert!(document.problems.is_empty(), "{:?}", document.problems);
        document.table.into_iter().fold(Table::new(), complete)
    })
}

/// Adds a preset's row to the rows above it, together with the values and marks that it takes from the row it starts
/// from.
///
/// # Panics
/// If no row above has the name from which the row starts.
fn complete(mut above: Table, mut row: Entry) -> Table {
    let Value::Table(keys) = &mut row.node.value else {
        return above;
    };
    if let Some(place) = keys.iter().position(|entry| entry.key == "preset") {
        let Value::String(name) = keys.remove(place).node.value else {
            panic!("preset of {} is the name of a row", row.key);
        };
        let base =
            document::entry(&above, &name).unwrap_or_else(|| panic!("{name}, which {} names, is above it", row.key));
        let Value::Table(of_base) = &base.node.value else { unreachable!("rows are tables") };
        inherit_base_row(keys, of_base);
    }
    above.push(row);
    above
}

/// Copies keys and marks of a base row to the keys of another row, except those that the row gives itself.
fn inherit_base_row(keys: &mut Table, base: &Table) {
    let is_list = |entry: &Entry| MARKS.contains(&entry.key.as_str());
    let mut own: Vec<String> = keys.iter().filter(|entry| !is_list(entry)).map(|entry| entry.key.clone()).collect();
    keys.extend(base.iter().filter(|entry| !is_list(entry) && !own.contains(&entry.key)).cloned());
    own.extend(
        keys.iter().filter(|entry| is_list(entry)).flat_map(marks).filter_map(marked_key_name).map(String::from),
    );
    for mut list in base.iter().filter(|entry| is_list(entry)).cloned() {
        if let Value::Array(marks) = &mut list.node.value {
            marks.retain(|mark| marked_key_name(mark).is_none_or(|key| !own.iter().any(|own| own == key)));
        }
        keys.push(list);
    }
}

/// Returns the items of a list `fitted` or `assumed`, each of which declares a constant uncertain; none if the entry is
/// no list.
fn marks(list: &Entry) -> &[Node] {
    if let Value::Array(marks) = &list.node.value { marks } else { &[] }
}

/// Returns the name of the key that an item of a list `fitted` or `assumed` declares uncertain.
fn marked_key_name(mark: &Node) -> Option<&str> {
    let Value::Table(mark) = &mark.value else { return None };
    match &document::entry(mark, "key")?.node.value {
        Value::String(key) => Some(key),
        _ => None,
    }
}

/// Returns the table with the list `assumed`, which names the schema's defaults that are assumed.
///
/// # Panics
/// If the file that is part of the program is not valid TOML.
pub(crate) fn assumed_defaults_table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let document = document::parse(DEFAULTS.0, DEFAULTS.1);
        assert!(document.problems.is_empty(), "{:?}", document.problems);
        document.table
    })
}

/// Returns the summary of a preset's row, or an empty text.
fn summary(row: &Entry) -> String {
    let Value::Table(keys) = &row.node.value else {
        return String::new();
    };
    match document::entry(keys, "summary").map(|entry| &entry.node.value) {
        Some(Value::String(summary)) => summary.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preset_row_inherits_missing_keys_and_marks_from_its_base() {
        let text = r#"
            [old]
            wait = "spin"
            poll_ns = 20
            wake_ns = 100
            interrupt_ns = 400
            assumed = [{ key = "poll_ns" }, { key = "wake_ns" }, { key = "interrupt_ns" }]
            [new]
            preset = "old"
            wake_ns = 50
            assumed = [{ key = "poll_ns", low = 1 }]
        "#;
        let rows = document::parse("rows", text).table.into_iter().fold(Table::new(), complete);
        let Value::Table(new) = &document::entry(&rows, "new").unwrap().node.value else { unreachable!() };
        let has = |key: &str, quote: &str| document::entry(new, key).is_some_and(|entry| entry.node.quote == quote);
        assert!(has("wait", "\"spin\"") && has("wake_ns", "50") && document::entry(new, "preset").is_none());
        let of = |list: &Entry| marks(list).iter().filter_map(marked_key_name).map(String::from).collect::<Vec<_>>();
        let lists: Vec<_> = new.iter().filter(|entry| entry.key == "assumed").map(of).collect();
        assert_eq!(lists, [vec!["poll_ns"], vec!["interrupt_ns"]]);
    }
}
