//! Circles of imports: none between folders, and none of more than three files.
//!
//! Entries of a folder are compared at every level: files, and folders with all they hold. A folder's `mod.rs` belongs to the folder and
//! to no level inside it, since it puts together the files that it heads. Where ARCHITECTURE.md has a table of floors for a
//! crate, that table orders its top level: a protocol's folder reaches through several floors.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::imports;
use crate::sources::{CRATES, Source, product};

/// Crates whose top level is ordered by a table of floors.
const WITH_FLOORS: [&str; 4] = ["core", "studies", "serve", "cli"];
/// Files of one folder that may import each other in a circle.
const ALLOWED_FILES: usize = 3;

/// Which entry of a folder imports which others.
type Level = BTreeMap<String, BTreeSet<String>>;

/// Circles below a folder, by the folder and the names of the entries.
fn circles(sources: &[Source], with_top_level: bool) -> Vec<String> {
    let (modules, mut found) = (modules(sources), Vec::new());
    for (folder, level) in levels(sources, &modules) {
        if !with_top_level && folder.is_empty() {
            continue;
        }
        for circle in find_import_cycles(&level) {
            let prefix = |name: &str| {
                [&folder[..], name].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/")
            };
            let has_folder = circle.iter().any(|name| {
                let below = format!("{}/", prefix(name));
                sources.iter().any(|source| source.path.starts_with(&below))
            });
            if has_folder || circle.len() > ALLOWED_FILES {
                found.push(format!("{folder}/: {}", circle.into_iter().collect::<Vec<_>>().join(", ")));
            }
        }
    }
    found
}

fn modules(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    sources.iter().map(|source| (source.path.clone(), source.module())).collect()
}

/// Imports between the entries of each folder, by the folder's path.
fn levels(sources: &[Source], modules: &BTreeMap<String, Vec<String>>) -> BTreeMap<String, Level> {
    let mut levels: BTreeMap<String, Level> = BTreeMap::new();
    for (file, imported) in imports(sources) {
        for other in imported {
            let (own, other) = (&modules[&file], &modules[&other]);
            let shared = own.iter().zip(other).take_while(|(one, other)| one == other).count();
            if let (Some(from), Some(to)) = (own.get(shared), other.get(shared)) {
                let level = levels.entry(own[..shared].join("/")).or_default();
                level.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    levels
}

/// Groups of entries that all reach each other.
fn find_import_cycles(level: &Level) -> BTreeSet<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        level.keys().map(|entry| (entry, reached(entry, level))).collect();
    let group = |(entry, reached): (&&String, &BTreeSet<&String>)| {
        let back = reached.iter().filter(|other| reach.get(*other).is_some_and(|back| back.contains(*entry)));
        back.map(|other| String::from(*other)).collect::<BTreeSet<String>>()
    };
    reach.iter().map(group).filter(|group| group.len() > 1).collect()
}

fn reached<'a>(entry: &str, level: &'a Level) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = level.get(entry).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(level.get(next).into_iter().flatten());
        }
    }
    reached
}

#[test]
fn import_cycles_exist_neither_between_folders_nor_among_over_three_files() {
    let mut found = Vec::new();
    for name in CRATES {
        let circles = circles(&product(&format!("crates/{name}/src")), !WITH_FLOORS.contains(&name));
        found.extend(circles.iter().map(|circle| format!("crates/{name}/src/{circle}")));
    }
    crate::at_most(0, &found);
}

#[test]
fn import_cycle_between_folders_is_found_at_every_level() {
    let planted = [
        Source::new("data/mod.rs", "mod kept;"),
        Source::new("data/kept.rs", "use crate::memory::HostMemory;"),
        Source::new("memory/mod.rs", "use crate::data::kept::Kept;"),
    ];
    assert_eq!(circles(&planted, true), ["/: data, memory"]);
    assert_eq!(circles(&planted, false), [""; 0]);
    let below =
        planted.map(|source| Source::new(&format!("a/{}", source.path), &source.text.replace("crate", "crate::a")));
    assert_eq!(circles(&below, false), ["a/: data, memory"]);
}

#[test]
fn import_cycle_of_four_files_is_found_and_of_three_is_allowed() {
    let mut planted = vec![
        Source::new("a/one.rs", "use super::two::Two;"),
        Source::new("a/two.rs", "use super::three::Three;"),
        Source::new("a/three.rs", "use super::one::One;"),
    ];
    assert_eq!(circles(&planted, true), [""; 0]);
    planted[2] = Source::new("a/three.rs", "use super::four::Four;");
    planted.push(Source::new("a/four.rs", "use super::one::One;"));
    assert_eq!(circles(&planted, true), ["a/: four, one, three, two"]);
}
