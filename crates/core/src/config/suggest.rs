//! What was probably meant by a name that does not exist.

use super::document::{Entry, Place};
use super::problem::Problem;
use super::section::Section;
use super::value::stem;

/// Names less alike than this are not worth suggesting.
const LIKENESS_MIN: f64 = 0.5;
/// A key of another section must be more alike, because more of them stand for choice.
const LIKENESS_ELSEWHERE_MIN: f64 = 0.75;
/// Shorter words are the beginning of too much.
const BEGINNING_BYTES_MIN: usize = 3;
/// Longer words are not compared: the comparison takes quadratic time.
const WORD_BYTES_MAX: usize = 64;

/// The candidate most like `word`, if any is like it at all.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_above(LIKENESS_MIN, word, candidates)
}

fn nearest_above<'a>(likeness_min: f64, word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let mut best = (likeness_min, None);
    for candidate in candidates {
        let likeness = likeness(word, candidate);
        if likeness > best.0 {
            best = (likeness, Some(candidate));
        }
    }
    best.1
}

/// From 0 to 1; a word that is the beginning of the candidate is at least as like as a key elsewhere must be.
fn likeness(word: &str, candidate: &str) -> f64 {
    let likeness = strsim::normalized_damerau_levenshtein(word, candidate);
    let is_beginning = word.len() >= BEGINNING_BYTES_MIN && candidate.starts_with(word);
    if is_beginning { likeness.max(LIKENESS_ELSEWHERE_MIN) } else { likeness }
}

/// `, did you mean sleep?`, or nothing.
pub(crate) fn question(meant: Option<&str>) -> String {
    meant.map_or(String::new(), |meant| format!(", did you mean {meant}?"))
}

/// The problem of a key that `here` does not have, with the key that was meant: the same with another
/// unit, the same in another section, or the one spelt most like it.
pub(crate) fn unknown_key(entry: &Entry, here: &dyn Section, all: &[&dyn Section]) -> Problem {
    let names = names(here);
    let meant = same_stem(&entry.key, &names)
        .map(String::from)
        .or_else(|| elsewhere(entry, here, all))
        .or_else(|| nearest(&entry.key, names.iter().copied()).map(String::from))
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
        let name = nearest_above(LIKENESS_ELSEWHERE_MIN, &entry.key, names(*section))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_strangers_are_not() {
        assert_eq!(nearest("slep", ["spin", "sleep", "hybrid"]), Some("sleep"));
        assert_eq!(nearest("nand", ["dram", "nand-slc", "nand-mlc"]), Some("nand-slc"));
        assert_eq!(nearest("zzz", ["spin", "sleep", "hybrid"]), None);
        assert_eq!(nearest(&"sleep".repeat(100_000), ["sleep"]), None);
    }
}
