//! What to tell of an entry that a section did not take.

use super::document::{Entry, Place};
use super::section::{Section, full_name};
use super::value::{KeyFault, stem};
use crate::problem::Problem;
use crate::spelling::{LIKENESS_AMONG_MANY_MIN, nearest, nearest_above, question};

/// What to tell of an entry that `section` did not take; `all` sections are searched for the key that was meant.
pub(crate) fn problems_of(fault: KeyFault, entry: &Entry, section: &dyn Section, all: &[&dyn Section]) -> Vec<Problem> {
    let key = full_name(section.path(), &entry.key);
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

fn allowed(section: &dyn Section, key: &str) -> String {
    let key = section.keys().into_iter().find(|known| known.name == key);
    key.map_or(String::new(), |key| key.allowed)
}

/// The problem of a key that `here` does not have, with the key that was meant: the same with another unit, or one that
/// is spelt more like it (`lanes` rather than `lane_bytes_per_ns` for `lane`), the same in another section, or the one
/// spelt most like it.
pub(crate) fn unknown_key(entry: &Entry, here: &dyn Section, all: &[&dyn Section]) -> Problem {
    let names = names(here);
    let spelt = nearest(&entry.key, names.iter().copied());
    let meant = same_stem(&entry.key, &names)
        .map(|same| String::from(spelt.unwrap_or(same)))
        .or_else(|| elsewhere(entry, here, all))
        .or_else(|| spelt.map(String::from))
        .or_else(|| alike_elsewhere(entry, all));
    let allowed = if meant.is_none() { names.join(", ") } else { String::new() };
    let found = match here.path() {
        "" => format!("unknown key {}", entry.key),
        path => format!("unknown key {} in [{path}]", entry.key),
    };
    entry.place.problem(found + &question(meant.as_deref()), allowed)
}

fn names(section: &dyn Section) -> Vec<&'static str> {
    section.keys().iter().map(|key| key.name).collect()
}

/// The key that differs in its unit alone, or lacks one.
fn same_stem(word: &str, names: &[&'static str]) -> Option<&'static str> {
    let same = |name: &&&str| stem(name) == stem(word) || stem(name) == word;
    names.iter().find(same).copied()
}

/// The other sections that have this key, in this unit or another.
fn elsewhere(entry: &Entry, here: &dyn Section, all: &[&dyn Section]) -> Option<String> {
    let find = |section: &&dyn Section| {
        let names = names(*section);
        let exact = names.iter().find(|name| **name == entry.key).copied();
        let name = exact.or_else(|| same_stem(&entry.key, &names))?;
        Some(in_section(&entry.place, section.path(), name))
    };
    let others = all.iter().filter(|section| section.path() != here.path());
    let meant: Vec<String> = others.filter_map(find).collect();
    if meant.is_empty() { None } else { Some(meant.join(" or ")) }
}

fn alike_elsewhere(entry: &Entry, all: &[&dyn Section]) -> Option<String> {
    let find = |section: &&dyn Section| {
        let name = nearest_above(LIKENESS_AMONG_MANY_MIN, &entry.key, names(*section))?;
        Some(in_section(&entry.place, section.path(), name))
    };
    all.iter().find_map(find)
}

/// A key of another section, spelt as it would stand in a file or after `--set`.
fn in_section(place: &Place, path: &str, key: &str) -> String {
    match (path, place.line) {
        ("", _) => format!("{key} above all sections"),
        (_, Some(_)) => format!("[{path}] {key}"),
        (_, None) => format!("{path}.{key}"),
    }
}
