//! Output of `phaselink check`: every key of a drive with its value, origin and meaning, for a person at a terminal.

use std::fmt::Write;

use serde_json::Value as Json;

use crate::config::origin::{ReplacedValue, ValueOrigin};
use crate::config::section::{KeyDescription, Section, full_key_name};
use crate::config::value::{readable, unit};
use crate::drive::Drive;

/// Smallest width of the column of meanings, in characters; long names and values push it past the width of the
/// terminal rather than narrow it further.
const MEANING_WIDTH_MIN: usize = 36;

/// One key of a drive as text for the table: name, value, origin, meaning.
struct ExplainedKey {
    name: &'static str,
    value: String,
    origin: &'static str,
    meaning: String,
    /// Items of a key whose value is a list, one for each line.
    items: Vec<String>,
}

/// Returns the table of every key of a drive; see [`Drive::explain_within`].
pub(super) fn explain(drive: &Drive, width: usize, remark: &str) -> String {
    let mut text = match drive.summary.as_str() {
        "" => format!("{}\n", drive.name),
        summary => format!("{}: {summary}\n", drive.name),
    };
    if !drive.sources.bases.is_empty() {
        let _ = writeln!(text, "starts from the drive {}", drive.sources.bases.join(", from "));
    }
    if !remark.is_empty() {
        let _ = writeln!(text, "{remark}");
    }
    explain_section(&mut text, drive, &drive.header(), width);
    explain_faults(&mut text, drive);
    // Most drives have no volume, zones, placement or key store, so omit these sections unless they are in use.
    let is_shown = |section: &&dyn Section| match section.path() {
        "volume" => drive.volume.is_there(),
        "zones" => drive.zones.is_there(),
        "placement" => drive.placement.is_there(),
        "key_value" => drive.key_value.is_there(),
        _ => true,
    };
    for section in drive.sections().into_iter().filter(is_shown) {
        let preset = drive.sources.presets.get(section.path());
        let preset = preset.map_or(String::new(), |name| format!(" (preset {name})"));
        let _ = writeln!(text, "\n[{}] {}{preset}", section.path(), section.about());
        if let Some(replaced) = replaced_values(drive, section.path(), |_| true) {
            let _ = writeln!(text, "  the preset replaces {replaced}");
        }
        explain_section(&mut text, drive, section, width);
        if section.path() == drive.stack.path() && !drive.stack.stages.is_empty() {
            explain_clock(&mut text, drive);
        }
    }
    explain_fitted(&mut text, drive, width);
    text
}

/// Returns one line for each section whose values a preset on the command line has replaced; see [`Drive::notes`].
pub(super) fn notes(drive: &Drive) -> Vec<String> {
    let sections = drive.sections().into_iter().map(|section| section.path());
    let note = |section| {
        let replaced = replaced_values(drive, section, |replaced| replaced.is_set)?;
        let preset = drive.sources.presets.get(section)?;
        Some(format!("{}: {section}.preset = {preset} replaces {replaced}", drive.name))
    };
    sections.filter_map(note).collect()
}

/// Returns those values of a section that its preset has replaced and that `which` selects, as `key = value`; `None` if
/// there are none.
fn replaced_values(drive: &Drive, section: &str, which: fn(&ReplacedValue) -> bool) -> Option<String> {
    let of_section = drive.sources.replaced.iter().filter(|replaced| replaced.section == section && which(replaced));
    let keys: Vec<String> =
        of_section.map(|replaced| format!("{} = {}", replaced.key, value_text(&replaced.value, ""))).collect();
    (!keys.is_empty()).then(|| keys.join(", "))
}

/// Appends to `text` each fault rule with the keys that differ from their defaults, and the durability of acknowledged
/// writes if a rule cuts the power.
fn explain_faults(text: &mut String, drive: &Drive) {
    for (place, fault) in drive.faults.iter().enumerate() {
        let keys = fault.said().into_iter().skip(1).map(|(key, value)| format!("{key} {}", value_text(&value, key)));
        let keys: Vec<String> = keys.collect();
        let what = if keys.is_empty() { String::from("every match") } else { keys.join(", ") };
        let _ = writeln!(text, "      fault {}, {}: {what}", place + 1, fault.action.name());
    }
    if drive.loses_power() {
        let durability =
            if drive.keeps_acknowledged() { "and survives a power cut" } else { "and may be lost in a power cut" };
        let _ = writeln!(text, "      an acknowledged write is {}, {durability}", drive.protocol().promise(drive));
    }
}

/// Appends to `text` the keys of one section, one row each, for a terminal of `terminal` columns.
fn explain_section(text: &mut String, drive: &Drive, section: &dyn Section, terminal: usize) {
    let keys = section.keys().into_iter().zip(section.values());
    let rows: Vec<ExplainedKey> = keys.map(|(key, (_, value))| row(drive, section.path(), key, &value)).collect();
    let width = |column: fn(&ExplainedKey) -> &str| rows.iter().map(|row| column(row).len()).max().unwrap_or(0);
    let (names, values) = (width(|row| row.name), width(|row| &row.value));
    for row in &rows {
        let head = format!("  {:names$}  {:>values$}  {:9}  ", row.name, row.value, row.origin);
        let lines = wrap_words(&row.meaning, terminal.saturating_sub(head.len()).max(MEANING_WIDTH_MIN));
        for (line, words) in lines.iter().enumerate() {
            let margin = if line == 0 { head.as_str() } else { "" };
            let _ = writeln!(text, "{margin:indent$}{words}", indent = head.len());
        }
        for item in &row.items {
            let _ = writeln!(text, "      {item}");
        }
    }
}

/// Returns the row of one key: name, value with unit, origin, and meaning with the default if the value differs from
/// it.
fn row(drive: &Drive, path: &str, key: KeyDescription, value: &Json) -> ExplainedKey {
    let name = full_key_name(path, key.name);
    let origin = drive.sources.of(&name);
    let is_fitted = drive.fitted.iter().any(|mark| mark.key == name);
    let default = match origin {
        ValueOrigin::Default => String::new(),
        _ if *value == key.default || path.is_empty() => String::new(),
        _ => format!(" (default {})", value_text(&key.default, key.name)),
    };
    ExplainedKey {
        name: key.name,
        value: value_text(value, key.name) + if is_fitted { " *" } else { "" },
        origin: origin.label(),
        meaning: format!("{}{default}", key.about),
        items: value
            .as_array()
            .filter(|_| name != "faults")
            .map_or(Vec::new(), |items| items.iter().map(item).collect()),
    }
}

/// Formats a value with the unit of its key; a list as its number of items.
fn value_text(value: &Json, key: &str) -> String {
    match value {
        Json::Array(items) => format!("{} items", items.len()),
        Json::Number(_) => [&readable(value), unit(key)].join(" ").trim_end().into(),
        _ => value.to_string(),
    }
}

/// Formats one item of a list as its keys and values: `name "fio", submit_ns 253 ns, …`.
fn item(table: &Json) -> String {
    let keys = table.as_object().into_iter().flatten();
    let keys: Vec<String> = keys.map(|(key, value)| format!("{key} {}", value_text(value, key))).collect();
    keys.join(", ")
}

/// Appends to `text` the factor by which the host's clock scales the times of the software stack.
fn explain_clock(text: &mut String, drive: &Drive) {
    let (ratio, core_ghz) = (drive.software_ratio(), drive.host.core_ghz);
    let (hold, whose, ipc_ratio) = drive.measured_software_core();
    let ipc = ipc_ratio
        .map_or(String::new(), |ratio| format!(" on a core with {ratio:.2} times as many instructions per clock"));
    if ratio == 1.0 {
        let _ = writeln!(text, "  the stages' processor times were measured at the clock of the host, {core_ghz} GHz");
    } else {
        let _ = writeln!(
            text,
            "  the stages' processor times were measured at {hold} GHz ({whose}){ipc}: at {core_ghz} GHz they take {ratio:.3} times as long"
        );
    }
}

/// Appends to `text` the reason for each fitted constant.
fn explain_fitted(text: &mut String, drive: &Drive, width: usize) {
    if !drive.fitted.is_empty() {
        text.push_str("\n* fitted, that is, chosen so that a published result comes out:\n");
    }
    for mark in &drive.fitted {
        let _ = writeln!(text, "  {}", mark.key);
        for line in wrap_words(&mark.why, width.saturating_sub(6).max(MEANING_WIDTH_MIN)) {
            let _ = writeln!(text, "      {line}");
        }
    }
}

/// Breaks a text between words into lines of at most `width` bytes, longer words excepted; returns at least one line.
fn wrap_words(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let last = lines.len() - 1;
        match lines[last].len() {
            0 => lines[last].push_str(word),
            used if used + 1 + word.len() <= width => lines[last].extend([" ", word]),
            _ => lines.push(String::from(word)),
        }
    }
    lines
}
