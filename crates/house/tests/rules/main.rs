//! Rules of the repository that no compiler checks. Each is tried on the tree and on a planted fault.

mod actions;
mod casts;
mod circles;
mod comments;
mod documentation;
mod figures;
mod floors;
mod functions;
mod imports;
mod keys;
mod limits;
mod lines;
mod names;
mod opcodes;
mod pages;
mod parameters;
mod protocols;
mod questions;
mod security;
mod sources;
mod test_names;
mod test_programs;
mod touches;

/// Fails with the list of violations if there are more than `allowed`, the number that is still to be mended.
fn at_most(allowed: usize, violations: &[String]) {
    let (found, list) = (violations.len(), violations.join("\n"));
    assert!(found <= allowed, "{found} violations, at most {allowed} are allowed:\n{list}");
}

#[test]
#[should_panic(expected = "2 violations, at most 1 are allowed:\na\nb")]
fn more_violations_than_allowed_fail_with_a_list() {
    at_most(1, &[String::from("a"), String::from("b")]);
}
