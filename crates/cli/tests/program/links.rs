//! Links between the documents of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{DOCS, ROOT};

/// Returns the targets of a document's links.
fn links(text: &str) -> Vec<&str> {
    let behind = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    behind.map(|(link, _)| link).filter(|link| !link.contains("://") && !link.contains(' ')).collect()
}

/// Returns the anchor of a heading in links.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn has_anchor(text: &str, wanted: &str) -> bool {
    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_start_matches('#')) == wanted)
}

/// Markdown files of a folder of the repository.
fn pages(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

/// All documents that have links: those at the root, pages, papers, and the front pages of the crates.
fn documents() -> Vec<PathBuf> {
    let folders = ["", DOCS, "crates/studies/reproductions"].map(pages).concat();
    let below = ["crates/studies/reproductions", "crates"].map(|folder| Path::new(ROOT).join(folder));
    let readmes = below.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let readmes = readmes.map(|folder| folder.join("README.md")).filter(|path| path.exists());
    folders.into_iter().chain(readmes).collect()
}

fn is_there(document: &Path, link: &str) -> bool {
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { document.into() } else { document.parent().unwrap().join(file) };
    target.exists() && (place.is_empty() || has_anchor(&fs::read_to_string(&target).unwrap(), place))
}

#[test]
fn every_link_of_the_documents_has_a_target() {
    let documents = documents();
    assert!(documents.len() > 45, "{}", documents.len());
    let mut broken = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let wrong = links(&text).into_iter().filter(|link| !is_there(&document, link));
        broken.extend(wrong.map(|link| format!("{}: {link}", document.display())));
    }
    assert_eq!(broken, [""; 0]);
}

#[test]
fn link_without_a_file_or_a_heading_is_broken() {
    let readme = Path::new(ROOT).join("README.md");
    assert!(is_there(&readme, "LICENSE") && is_there(&readme, "#install"));
    assert!(!is_there(&readme, "LICENCE") && !is_there(&readme, "#no-such-heading"));
}
