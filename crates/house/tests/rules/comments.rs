//! Words of comments, in documentation and in code, that a reader stumbles over: calques, notes on a neighbour, beginnings that lean on
//! the text before.

use crate::limits::{Counted, Limits};
use crate::sources::{Source, all, all_crate_sources};

/// Words that no comment should hold, with capitals or without; the words of the field are in CONTRIBUTING.md.
const PHRASES: [&str; 14] = [
    "(next field",
    "what comes",
    "that come before",
    "under way",
    "on its way",
    "one behind the other",
    "is no size",
    "as loss of power",
    "goes on",
    "is nobody's",
    "keeps flying",
    "in doubt",
    "is read besides",
    "runs out first",
];
/// Words with which no comment in code should begin.
const BEGINNINGS: [&str; 13] = [
    "The same",
    "Those",
    "That of",
    "Likewise",
    "All of them",
    "They ",
    "What ",
    "Whether ",
    "Nobody",
    "Who",
    "It ",
    "Nor ",
    "One that",
];

/// Comments of a file, each with all its lines, and whether it is documentation.
fn comments(text: &str) -> Vec<(bool, String)> {
    let (mut found, mut open): (Vec<(bool, String)>, bool) = (Vec::new(), false);
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix("//");
        if let Some(comment) = comment {
            let is_documentation = comment.starts_with(['/', '!']);
            let words = comment.trim_start_matches(['/', '!']).trim();
            match found.last_mut().filter(|last| open && last.0 == is_documentation) {
                Some((_, text)) => *text = format!("{text} {words}"),
                None => found.push((is_documentation, String::from(words))),
            }
        }
        open = comment.is_some();
    }
    found
}

/// Number of comments with each of the words.
fn count_discouraged_phrases(sources: &[Source]) -> Counted {
    let mut counts = Counted::new();
    for (is_documentation, text) in sources.iter().flat_map(|source| comments(&source.text)) {
        let lower = text.to_lowercase();
        let held = PHRASES.iter().filter(|phrase| lower.contains(*phrase)).map(|phrase| format!("holds {phrase}"));
        let begun =
            BEGINNINGS.iter().filter(|words| !is_documentation && !text.contains('?') && text.starts_with(*words));
        for name in held.chain(begun.map(|words| format!("begins {}", words.trim()))) {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

#[test]
fn discouraged_phrases_in_comments_stay_within_their_limits() {
    let counts = count_discouraged_phrases(&[all_crate_sources(), all("fuzz/src")].concat());
    Limits { table: "comments", allowed: 0, step: 1 }.hold(&counts);
}

#[test]
fn discouraged_phrases_in_comments_are_counted() {
    let text = "/// Number of reads (next\n/// field: of writes).\nreads: u64,\n    // The same for writes.\n/// Those of documentation are\n\
                /// another rule's.\nlet a = \"// goes on\";\n// Reads go\n// on: it Goes on.\n// What now?\n";
    let counts: Vec<(String, usize)> = count_discouraged_phrases(&[Source::new("x.rs", text)]).into_iter().collect();
    let expected = ["begins The same", "holds (next field", "holds goes on"];
    assert_eq!(counts, expected.map(|name| (String::from(name), 1)));
}
