//! How many files name one thing: a key, a figure, an opcode. A thing that many files name costs a change in each of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::Counted;
use crate::sources::{CRATES, Source, all, product};

/// Files that are compiled into a product and the targets of the fuzzer, all with paths from the root of the repository.
pub(crate) fn product_and_fuzz_sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for folder in CRATES.map(|name| format!("crates/{name}/src")) {
        let placed = product(&folder).into_iter();
        sources.extend(placed.map(|source| Source::new(&format!("{folder}/{}", source.path), &source.text)));
    }
    let fuzz = all("fuzz/src").into_iter();
    sources.extend(fuzz.map(|source| Source::new(&format!("fuzz/src/{}", source.path), &source.text)));
    sources
}

/// Number of files that hold each of some names as a word, in code or in a string.
pub(crate) fn count_files_with_words(names: &BTreeSet<String>, sources: &[Source]) -> Counted {
    let mut counts: Counted = names.iter().map(|name| (name.clone(), 0)).collect();
    for source in sources {
        let found: BTreeSet<&str> = words(&source.text).map(|(_, word)| word).collect();
        for word in found {
            if let Some(count) = counts.get_mut(word) {
                *count += 1;
            }
        }
    }
    counts
}

/// Number of files that hold each of some paths of two words, such as `Action::Read`, or that define it.
pub(crate) fn count_files_with_paths(names: &BTreeSet<String>, home: &str, sources: &[Source]) -> Counted {
    let mut counts: Counted = names.iter().map(|path| (path.clone(), 0)).collect();
    for source in sources {
        let found: BTreeSet<String> = pairs(&source.text, "::").into_iter().collect();
        for (path, count) in &mut counts {
            *count += usize::from(source.path == home || found.contains(path));
        }
    }
    counts
}

/// Words of a text, each with its place.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let found = text.split(move |sign| !is_part(sign)).filter(|word| !word.is_empty());
    found.map(move |word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// Every two words of a text with a separator between them; words of a group in braces are spelt out.
pub(crate) fn pairs(text: &str, separator: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, word) in words(text) {
        let Some(rest) = text[at + word.len()..].strip_prefix(separator) else { continue };
        let ends = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or(""),
            None => rest.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_').next().unwrap_or(""),
        };
        found.extend(words(ends).map(|(_, end)| format!("{word}{separator}{end}")));
    }
    found
}

/// Median and 90th percentile of counts, by names that begin with `what`.
pub(crate) fn spread(what: &str, counts: &Counted) -> Counted {
    let mut sorted: Vec<usize> = counts.values().copied().collect();
    sorted.sort_unstable();
    let at = |hundredths: usize| sorted.get((sorted.len() * hundredths).div_ceil(100).saturating_sub(1)).copied();
    let of = |share: &str, hundredths| (format!("{what} {share}"), at(hundredths).unwrap_or(0));
    BTreeMap::from([of("median", 50), of("p90", 90)])
}

#[test]
fn files_that_contain_a_word_or_a_path_are_counted() {
    let planted = [
        Source::new("home.rs", "enum Action { Read, Write }"),
        Source::new("a.rs", "Action::Read; ZoneAction::Write; read_ns(\"set read_ns=1\");"),
        Source::new("b.rs", "use x::Action::{Read, Write}; let read_ns_max = 1;"),
    ];
    let names = |names: &[&str]| names.iter().map(|name| String::from(*name)).collect();
    let counts = count_files_with_words(&names(&["read_ns", "gone"]), &planted);
    assert_eq!(counts, BTreeMap::from([(String::from("gone"), 0), (String::from("read_ns"), 1)]));
    let counts = count_files_with_paths(&names(&["Action::Read", "Action::Write"]), "home.rs", &planted);
    assert_eq!(counts, BTreeMap::from([(String::from("Action::Read"), 3), (String::from("Action::Write"), 2)]));
}

#[test]
fn median_and_90th_percentile_are_elements_of_the_count_list() {
    let counts: Counted = (1..=10).map(|count| (count.to_string(), count)).collect();
    assert_eq!(spread("key", &counts), BTreeMap::from([(String::from("key median"), 5), (String::from("key p90"), 9)]));
}
