//! Documentation comments: each can be understood without its neighbours, and few are a clause in place of a sentence.

use crate::sources::{Source, all, all_crate_sources};

/// Words with which a comment leans on the text before it.
const LEANING: [&str; 7] = ["The same", "It ", "Those", "That of", "Likewise", "All of them", "They "];
/// First words of a clause, which is no sentence unless it asks.
const CLAUSES: [&str; 5] = ["What ", "Whether ", "How ", "Who ", "Where "];
/// Comments that may be a clause.
const ALLOWED_CLAUSES: usize = 60;

/// First lines of all documentation comments, each with its place.
fn documentation_first_lines(sources: &[Source]) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    for source in sources {
        let mut inside = false;
        for (at, line) in source.text.lines().enumerate() {
            let comment = line.trim_start().strip_prefix("///").or_else(|| line.trim_start().strip_prefix("//!"));
            if let (Some(text), false) = (comment, inside) {
                found.push((format!("{}:{}", source.path, at + 1), text.strip_prefix(' ').unwrap_or(text)));
            }
            inside = comment.is_some();
        }
    }
    found
}

fn find_dependent_first_lines(sources: &[Source]) -> Vec<String> {
    let leans = |text: &str| LEANING.iter().any(|words| text.starts_with(words));
    listed(sources, leans)
}

fn find_clause_first_lines(sources: &[Source]) -> Vec<String> {
    let is_clause = |text: &str| CLAUSES.iter().any(|word| text.starts_with(word)) && !text.contains('?');
    listed(sources, is_clause)
}

fn listed(sources: &[Source], is_wrong: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = documentation_first_lines(sources).into_iter().filter(|(_, text)| is_wrong(text));
    lines.map(|(place, text)| format!("{place}: {text}")).collect()
}

fn sources() -> Vec<Source> {
    [all_crate_sources(), all("fuzz/src")].concat()
}

#[test]
fn every_documentation_comment_is_understandable_alone() {
    crate::at_most(0, &find_dependent_first_lines(&sources()));
}

#[test]
fn few_documentation_comments_begin_with_a_clause() {
    crate::at_most(ALLOWED_CLAUSES, &find_clause_first_lines(&sources()));
}

#[test]
fn dependent_and_clause_documentation_comments_are_found() {
    let text = "/// Number of reads.\n/// It is a line further down.\nreads: u64,\n/// Those of writes.\nwrites: u64,\n\
                //! Whether it is on.\n\n    /// What follows?\n// The same in a plain comment.\n";
    let planted = [Source::new("x.rs", text)];
    assert_eq!(find_dependent_first_lines(&planted), ["x.rs:4: Those of writes."]);
    assert_eq!(find_clause_first_lines(&planted), ["x.rs:6: Whether it is on."]);
}
