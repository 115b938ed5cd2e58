//! Links between the documents of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{DOCS, ROOT};

/// Returns the targets of a document's links.
fn link_targets(text: &str) -> Vec<&str> {
    let behind = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    behind.map(|(link, _)| link).filter(|link| !link.contains("://") && !link.contains(' ')).collect()
}

/// Returns the anchor of a heading in links.
fn heading_anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn has_heading_anchor(text: &str, wanted: &str) -> bool {
    text.lines().filter(|line| line.starts_with('#')).any(|line| heading_anchor(line.trim_start_matches('#')) == wanted)
}

/// Markdown files of a folder of the repository.
fn markdown_files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

/// All documents that have links: those at the root, pages, papers, and the front pages of the crates.
fn documents() -> Vec<PathBuf> {
    let folders = ["", DOCS, "crates/studies/reproductions"].map(markdown_files).concat();
    let below = ["crates/studies/reproductions", "crates"].map(|folder| Path::new(ROOT).join(folder));
    let readmes = below.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let readmes = readmes.map(|folder| folder.join("README.md")).filter(|path| path.exists());
    folders.into_iter().chain(readmes).collect()
}

fn has_link_target(document: &Path, link: &str) -> bool {
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { document.into() } else { document.parent().unwrap().join(file) };
    target.exists() && (place.is_empty() || has_heading_anchor(&fs::read_to_string(&target).unwrap(), place))
}

#[test]
fn all_document_links_have_a_target() {
    let documents = documents();
    assert!(documents.len() > 45, "{}", documents.len());
    let mut broken = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let wrong = link_targets(&text).into_iter().filter(|link| !has_link_target(&document, link));
        broken.extend(wrong.map(|link| format!("{}: {link}", document.display())));
    }
    assert_eq!(broken, [""; 0]);
}

#[test]
fn link_to_a_missing_file_or_heading_is_broken() {
    let readme = Path::new(ROOT).join("README.md");
    assert!(has_link_target(&readme, "LICENSE") && has_link_target(&readme, "#install"));
    assert!(!has_link_target(&readme, "LICENCE") && !has_link_target(&readme, "#no-such-heading"));
}
