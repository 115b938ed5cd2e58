//! Keys of drive files: how many files name a key. A new key should need its row and the mechanism that reads it.
//!
//! A file names a key by its path (`media.read_ns` in a string, `media.read` for its field in code). A key of several words that no
//! other section has is also named by the word alone, in a file that names the section or its struct: elsewhere, the word is
//! something else, such as the payload of a protocol.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{Counted, Limits};
use crate::sources::Source;
use crate::touches::{pairs, product_and_fuzz_sources, spread, words};

/// Files that may name a key without being listed: nine keys of ten are to stay within.
const ALLOWED_FILES: usize = 4;
/// Variable that holds the keys above all sections.
const HEADER: &str = "drive";

/// One row of a `section!`.
#[derive(Debug)]
struct Key<'a> {
    home: &'a str,
    section: &'a str,
    /// Struct with the section's keys.
    holder: &'a str,
    name: &'a str,
    field: &'a str,
}

/// Keys in all rows of `section!`, such as `read_ns => read: Span = ns(100), ZERO..=LONGEST;`.
fn keys(sources: &[Source]) -> Vec<Key<'_>> {
    let mut found = Vec::new();
    for source in sources {
        for text in source.text.split("\nsection! {\n").skip(1) {
            let section = text.split('"').nth(1).and_then(|path| path.rsplit('.').next()).unwrap_or("");
            let section = if section.is_empty() { HEADER } else { section };
            let holder = text.split("pub struct ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("");
            let rows = text.lines().take_while(|line| *line != "}").filter_map(parse_key_row);
            found.extend(rows.map(|(name, field)| Key { home: &source.path, section, holder, name, field }));
        }
    }
    found
}

/// Names of a row's key and of its field.
fn parse_key_row(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.trim_start().split_once(" => ")?;
    let (field, rest) = rest.split_once(": ")?;
    let is_name = |name: &str| name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_');
    (is_name(name) && is_name(field) && rest.contains(" = ")).then_some((name, field))
}

fn touches(sources: &[Source]) -> Counted {
    let keys = keys(sources);
    let mut sections: BTreeMap<&str, usize> = BTreeMap::new();
    keys.iter().for_each(|key| *sections.entry(key.name).or_default() += 1);
    let mut counts = Counted::new();
    for source in sources {
        let paths: BTreeSet<String> = pairs(&source.text, ".").into_iter().collect();
        let words: BTreeSet<&str> = words(&source.text).map(|(_, word)| word).collect();
        for key in &keys {
            let path = |end: &str| paths.contains(&format!("{}.{end}", key.section));
            let is_own = key.name.contains('_') && sections[key.name] == 1 && words.contains(key.name);
            let is_word = is_own && (words.contains(key.section) || words.contains(key.holder));
            let is_named = source.path == key.home || is_word || path(key.name) || path(key.field);
            *counts.entry(format!("{}.{}", key.section, key.name)).or_default() += usize::from(is_named);
        }
    }
    counts
}

#[test]
fn each_configuration_key_is_named_in_few_source_files() {
    let counts = touches(&product_and_fuzz_sources());
    assert!(counts.len() > 200, "keys are found: {counts:?}");
    Limits { table: "keys", allowed: ALLOWED_FILES, step: 1 }.hold(&counts);
}

#[test]
fn median_and_p90_of_files_naming_a_key_stay_within_limits() {
    Limits { table: "keys_spread", allowed: 0, step: 1 }
        .hold(&spread("files of a key,", &touches(&product_and_fuzz_sources())));
}

#[test]
fn files_that_name_a_configuration_key_are_counted() {
    let section = |path: &str, rows: &str| {
        format!(
            "\nsection! {{\n    /// Text.\n    pub struct A (\"{path}\") {{\n        /// Text\n{rows}\n    }}\n}}\nfn f() {{ b => c }}\n"
        )
    };
    let planted = [
        Source::new(
            "media.rs",
            &section("media", "read_ns => read: Span = ns(1), any();\nname => name: String = no(), any();"),
        ),
        Source::new("zones.rs", &section("zones", "size_mib => size_mib: u64 = 0, any();")),
        Source::new("link.rs", &section("link", "size_mib => size_mib: u64 = 0, any();")),
        Source::new("a.rs", "drive.set(\"zones.size_mib=5 read_ns=1\");"),
        Source::new("b.rs", "let name = media.read + self.size_mib;"),
        Source::new("c.rs", "let A { read_ns, .. } = host;"),
        Source::new("d.rs", "let read_ns = wire.len();"),
    ];
    let counts: Vec<(String, usize)> = touches(&planted).into_iter().collect();
    let expected = [("link.size_mib", 1), ("media.name", 1), ("media.read_ns", 3), ("zones.size_mib", 2)];
    assert_eq!(counts, expected.map(|(name, count)| (String::from(name), count)));
}
