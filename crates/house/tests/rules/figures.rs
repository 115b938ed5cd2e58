//! Figures of results: how many files name a figure. A new figure should need its row and the place that measures it.
//!
//! The name of a figure is found as a word. A name of one word (`ios`) is one of other things, too, and is found between quotes only.

use std::collections::BTreeSet;

use crate::limits::{Counted, Limits};
use crate::sources::Source;
use crate::touches::{count_files_with_words, product_and_fuzz_sources, spread};

/// File with the rows of all figures.
const FIGURES: &str = "crates/studies/src/results/figures.rs";
/// Files that may name a figure without being listed.
const ALLOWED_FILES: usize = 2;

/// Names in the rows of `figures!`, such as `ios: known("requests", ...);`.
fn figure_names(text: &str) -> BTreeSet<String> {
    let rows = text.split("\nfigures! {\n").skip(1).flat_map(|table| table.lines().take_while(|line| *line != "}"));
    let name = |row: &str| {
        let (name, rest) = row.strip_prefix("    ")?.split_once(": ")?;
        let is_name = name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_');
        (is_name && rest.contains('(')).then(|| String::from(name))
    };
    rows.filter_map(name).collect()
}

fn touches(home: &str, sources: &[Source]) -> Counted {
    let table = sources.iter().find(|source| source.path == home).expect("the file of the figures");
    let (long, short) = figure_names(&table.text).into_iter().partition(|name| name.contains('_'));
    let mut counts = count_files_with_words(&long, sources);
    counts.extend(count_files_with_quoted_names(&short, home, sources));
    counts
}

/// Number of files that hold each of some names between quotes, or that define it.
fn count_files_with_quoted_names(names: &BTreeSet<String>, home: &str, sources: &[Source]) -> Counted {
    let files = |name: &String| {
        let quoted = format!("\"{name}\"");
        sources.iter().filter(|source| source.path == home || source.text.contains(&quoted)).count()
    };
    names.iter().map(|name| (name.clone(), files(name))).collect()
}

#[test]
fn each_figure_is_named_in_few_source_files() {
    let counts = touches(FIGURES, &product_and_fuzz_sources());
    assert!(counts.len() > 30, "figures are found: {counts:?}");
    Limits { table: "figures", allowed: ALLOWED_FILES, step: 1 }.hold(&counts);
}

#[test]
fn median_and_p90_of_files_naming_a_figure_stay_within_limits() {
    let spread = spread("files of a figure,", &touches(FIGURES, &product_and_fuzz_sources()));
    Limits { table: "figures_spread", allowed: 0, step: 1 }.hold(&spread);
}

#[test]
fn files_that_name_a_figure_in_quotes_are_counted() {
    let table = "macro_rules! figures { }\n\nfigures! {\n    /// Text.\n    ios: known(\"requests\", |run| run.ios());\n    \
                 p99_ns: percentile(\n        \"p99\",\n        names: other(),\n    );\n}\n";
    let planted = [
        Source::new("figures.rs", table),
        Source::new("a.rs", "row.get(\"p99_ns\")"),
        Source::new("b.rs", "row[\"ios\"] + p99_ns_max"),
        Source::new("c.rs", "job.ios()"),
    ];
    let counts: Vec<(String, usize)> = touches("figures.rs", &planted).into_iter().collect();
    assert_eq!(counts, [(String::from("ios"), 2), (String::from("p99_ns"), 2)]);
}
