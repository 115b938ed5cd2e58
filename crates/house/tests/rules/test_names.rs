//! Names of tests: a sentence with a condition and an outcome, short enough to be read in a list.

use crate::sources::{Source, all};

/// Characters that a name may have.
const ALLOWED: usize = 80;

/// Tests whose names are too long.
fn find_long_test_names(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let tests = source.text.split("#[test]\n").skip(1).filter_map(name);
        let long = tests.filter(|name| name.len() > ALLOWED);
        found.extend(long.map(|name| format!("{}: {name} has {} characters", source.path, name.len())));
    }
    found
}

/// Name of the first function of a text, before which only attributes and comments stand.
fn name(text: &str) -> Option<&str> {
    let is_other = |line: &&str| !line.trim_start().starts_with("#[") && !line.trim_start().starts_with("//");
    let line = text.lines().find(is_other)?.trim_start();
    line.split_once("fn ")?.1.split(['(', '<']).next()
}

#[test]
fn no_name_of_a_test_has_more_than_eighty_characters() {
    let sources = [all("crates"), all("fuzz"), all("integrations"), all("benches")].concat();
    crate::at_most(0, &find_long_test_names(&sources));
}

#[test]
fn a_test_name_of_eighty_one_characters_is_found() {
    let planted = |length: usize| {
        let text =
            format!("#[test]\n#[ignore = \"why\"]\nfn {}() {{}}\nfn {}() {{}}\n", "a".repeat(length), "b".repeat(99));
        [Source::new("x.rs", &text)]
    };
    assert_eq!(find_long_test_names(&planted(80)), [""; 0]);
    assert_eq!(find_long_test_names(&planted(81)), [format!("x.rs: {} has 81 characters", "a".repeat(81))]);
}
