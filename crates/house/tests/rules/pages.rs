//! Length of the pages that a newcomer reads first, and files that pages name.

use crate::sources::{CRATES, all, read, root};

const README_LINES: usize = 200;
const README_PICTURES: usize = 2;
const ARCHITECTURE_LINES: usize = 150;

fn pictures(page: &str) -> usize {
    page.matches("![").count() + page.matches("<img").count()
}

#[test]
fn readme_has_at_most_200_lines_and_at_least_two_pictures() {
    let page = read("README.md");
    let lines = page.lines().count();
    assert!(lines <= README_LINES, "README.md has {lines} lines, at most {README_LINES} are allowed");
    let pictures = pictures(&page);
    assert!(pictures >= README_PICTURES, "README.md has {pictures} pictures, and needs {README_PICTURES}");
}

#[test]
fn architecture_page_has_at_most_150_lines() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines <= ARCHITECTURE_LINES, "ARCHITECTURE.md has {lines} lines, at most {ARCHITECTURE_LINES} are allowed");
}

#[test]
fn pictures_in_markdown_and_html_syntax_are_counted() {
    assert_eq!(pictures("![one](a.svg) [no picture](b.svg)\n<img src=\"c.png\">"), 2);
}

/// Source files that a page names in backquotes and that do not exist.
fn missing_sources(text: &str, sources: &[String]) -> Vec<String> {
    let named = text.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs") && !word.contains(['*', ' ']));
    let is_missing = |name: &&str| !sources.iter().any(|path| path.ends_with(&format!("/{name}")));
    named.filter(is_missing).map(String::from).collect()
}

/// Folders that the README of a crate names in backquotes and that it does not have.
fn missing_folders(text: &str, has_folder: impl Fn(&str) -> bool) -> Vec<String> {
    let named = text.split('`').skip(1).step_by(2).filter(|word| word.ends_with('/') && !word.contains(' '));
    named.filter(|name| !has_folder(name)).map(String::from).collect()
}

#[test]
fn source_files_and_folders_named_on_pages_exist() {
    let sources: Vec<String> = all("crates").into_iter().map(|source| format!("/crates/{}", source.path)).collect();
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md", "crates/cli/docs/decisions.md", "crates/cli/docs/one-request.md"]
    {
        assert_eq!(missing_sources(&read(page), &sources), [""; 0], "{page}");
    }
    for name in CRATES {
        let readme = root().join(format!("crates/{name}/README.md"));
        let Ok(text) = std::fs::read_to_string(&readme) else { continue };
        let missing = missing_folders(&text, |folder| readme.with_file_name(folder).is_dir());
        assert_eq!(missing, [""; 0], "crates/{name}/README.md");
    }
}

#[test]
fn missing_source_files_and_folders_named_on_a_page_are_found() {
    let text = "`nvme/set.rs`, `nvme/queue_set.rs`, `drives/`, `papers/` and `a * b.rs`";
    assert_eq!(missing_sources(text, &[String::from("/x/nvme/queue_set.rs")]), ["nvme/set.rs"]);
    assert_eq!(missing_folders(text, |folder| folder == "drives/"), ["papers/"]);
}
