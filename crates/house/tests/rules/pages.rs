//! Length of the pages that a newcomer reads first.

use crate::sources::read;

const README_LINES: usize = 200;
const README_PICTURES: usize = 2;
const ARCHITECTURE_LINES: usize = 150;

fn pictures(page: &str) -> usize {
    page.matches("![").count() + page.matches("<img").count()
}

#[test]
fn readme_has_at_most_two_hundred_lines_and_at_least_two_pictures() {
    let page = read("README.md");
    let lines = page.lines().count();
    assert!(lines <= README_LINES, "README.md has {lines} lines, at most {README_LINES} are allowed");
    let pictures = pictures(&page);
    assert!(pictures >= README_PICTURES, "README.md has {pictures} pictures, and needs {README_PICTURES}");
}

#[test]
fn architecture_has_at_most_a_hundred_and_fifty_lines() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines <= ARCHITECTURE_LINES, "ARCHITECTURE.md has {lines} lines, at most {ARCHITECTURE_LINES} are allowed");
}

#[test]
fn pictures_of_both_spellings_are_counted() {
    assert_eq!(pictures("![one](a.svg) [no picture](b.svg)\n<img src=\"c.png\">"), 2);
}
