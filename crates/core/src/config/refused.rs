//! Error messages for entries of a drive file that a section refuses: what was found, what is allowed, and which key
//! was probably meant.

use super::document::{Entry, Place};
use super::section::{Section, full_key_name};
use super::value::{KeyFault, stem};
use crate::problem::Problem;
use crate::spelling::{LIKENESS_AMONG_MANY_MIN, most_similar_above, nearest, question};

/// Renamed keys whose old names are accepted until the next release: section, old name and new name.
const FORMER_KEYS: [(&str, &str, &str); 2] = [("translation", "cleaning", "policy"), ("", "trouble", "fault_lines")];

/// Returns the new name of a key, given its section and its old name. `None` if the key was not renamed.
pub(crate) fn current_key(section: &str, key: &str) -> Option<&'static str> {
    let former = FORMER_KEYS.iter().find(|(of, former, _)| *of == section && *former == key);
    former.map(|(.., name)| *name)
}

/// Returns the problems to report for an entry that `section` refused. If the key is unknown, `all` sections are
/// searched for the key that was probably meant.
pub(crate) fn refused_entry_problems(
    fault: KeyFault,
    entry: &Entry,
    section: &dyn Section,
    all: &[&dyn Section],
) -> Vec<Problem> {
    let key = full_key_name(section.path(), &entry.key);
    let is = format!("{key} is {}", entry.node.quote);
    match fault {
        KeyFault::Inside(problems) => problems,
        KeyFault::UnknownKey => vec![unknown_key(entry, section, all)],
        KeyFault::NotAllowed => vec![entry.place.problem(is, allowed(section, &entry.key))],
        KeyFault::UnknownName(nearest) => {
            let found = is + &question(nearest);
            vec![entry.place.problem(found, allowed(section, &entry.key))]
        }
    }
}

/// Returns a text that describes the values that a key of a section allows; empty if there is no such key.
fn allowed(section: &dyn Section, key: &str) -> String {
    let key = section.keys().into_iter().find(|known| known.name == key);
    key.map_or(String::new(), |key| key.allowed)
}

/// Returns the problem of a key that section `here` does not have, with the key that was probably meant. First choice
/// is a key of the section that differs only in its unit, or one spelt more like it (`lanes` rather than
/// `lane_bytes_per_ns` for `lane`). Next are a key of that name in another section, and the key with the most similar
/// spelling.
pub(crate) fn unknown_key(entry: &Entry, here: &dyn Section, all: &[&dyn Section]) -> Problem {
    let names = names(here);
    let spelt = nearest(&entry.key, names.iter().copied());
    let meant = same_name_without_unit(&entry.key, &names)
        .map(|same| String::from(spelt.unwrap_or(same)))
        .or_else(|| same_key_elsewhere(entry, here, all))
        .or_else(|| spelt.map(String::from))
        .or_else(|| similar_key_elsewhere(entry, all));
    let allowed = if meant.is_none() { names.join(", ") } else { String::new() };
    let found = match here.path() {
        "" => format!("unknown key {}", entry.key),
        path => format!("unknown key {} in [{path}]", entry.key),
    };
    entry.place.problem(found + &question(meant.as_deref()), allowed)
}

/// Returns the names of all keys of a drive file's section.
fn names(section: &dyn Section) -> Vec<&'static str> {
    section.keys().iter().map(|key| key.name).collect()
}

/// Returns the first of `names` that equals `word` apart from units, or `None`.
fn same_name_without_unit(word: &str, names: &[&'static str]) -> Option<&'static str> {
    let same = |name: &&&str| stem(name) == stem(word) || stem(name) == word;
    names.iter().find(same).copied()
}

/// Returns where other sections have this key, with this unit or another, as text for a suggestion. `None` if none has
/// it.
fn same_key_elsewhere(entry: &Entry, here: &dyn Section, all: &[&dyn Section]) -> Option<String> {
    let find = |section: &&dyn Section| {
        let names = names(*section);
        let exact = names.iter().find(|name| **name == entry.key).copied();
        let name = exact.or_else(|| same_name_without_unit(&entry.key, &names))?;
        Some(key_in_section(&entry.place, section.path(), name))
    };
    let others = all.iter().filter(|section| section.path() != here.path());
    let meant: Vec<String> = others.filter_map(find).collect();
    if meant.is_empty() { None } else { Some(meant.join(" or ")) }
}

/// Returns where any section has a key of similar spelling, as text for a suggestion. `None` if none has one.
fn similar_key_elsewhere(entry: &Entry, all: &[&dyn Section]) -> Option<String> {
    let find = |section: &&dyn Section| {
        let name = most_similar_above(LIKENESS_AMONG_MANY_MIN, &entry.key, names(*section))?;
        Some(key_in_section(&entry.place, section.path(), name))
    };
    all.iter().find_map(find)
}

/// Returns the name of a key in another section: `[media] read_ns` in a drive file, `media.read_ns` for a text without
/// lines.
fn key_in_section(place: &Place, path: &str, key: &str) -> String {
    match (path, place.line) {
        ("", _) => format!("{key} above all sections"),
        (_, Some(_)) => format!("[{path}] {key}"),
        (_, None) => format!("{path}.{key}"),
    }
}
