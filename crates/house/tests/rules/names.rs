//! Names of types: each is defined once in its crate, unless it is a role that several protocols or front-ends have.

use std::collections::BTreeMap;

use crate::sources::{CRATES, Source, all};

/// Roles: names of types that may be defined several times in a crate, such as a section of a drive file and its model, or the
/// driver, controller, queue and status of each protocol.
const ROLES: &[&str] = &[
    "Arguments",
    "Buffer",
    "Client",
    "Command",
    "Controller",
    "Counts",
    "Data",
    "Driver",
    "Host",
    "Latency",
    "Limits",
    "Link",
    "Media",
    "Queue",
    "Read",
    "Request",
    "RootComplex",
    "Session",
    "Stack",
    "Status",
    "Trace",
];
/// Roles that there may be at most.
const ALLOWED_ROLES: usize = 25;

/// Types that are defined more than once, each with its files.
fn find_duplicate_types(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        for name in source.text.lines().filter_map(parse_type_name) {
            found.entry(String::from(name)).or_default().push(source.path.clone());
        }
    }
    found.retain(|_, files| files.len() > 1);
    found
}

fn parse_type_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.strip_prefix('(').map_or(Some(rest), |rest| Some(rest.split_once(')')?.1))?.trim_start(),
        None => line,
    };
    let rest = ["struct ", "enum ", "trait "].iter().find_map(|kind| line.strip_prefix(kind))?;
    let end = rest.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(rest.len());
    rest[..end].starts_with(|sign: char| sign.is_ascii_uppercase()).then_some(&rest[..end])
}

fn find_duplicate_type_violations(crate_name: &str, sources: &[Source]) -> Vec<String> {
    let twice = find_duplicate_types(sources).into_iter().filter(|(name, _)| !ROLES.contains(&name.as_str()));
    twice.map(|(name, files)| format!("{crate_name}: {name} in {}", files.join(", "))).collect()
}

#[test]
fn type_name_is_unique_in_its_crate_unless_listed_as_a_role() {
    let found: Vec<String> = CRATES
        .iter()
        .flat_map(|name| find_duplicate_type_violations(name, &all(&format!("crates/{name}/src"))))
        .collect();
    crate::at_most(0, &found);
}

#[test]
fn shared_role_type_names_are_few_and_all_used() {
    let twice: Vec<String> =
        CRATES.iter().flat_map(|name| find_duplicate_types(&all(&format!("crates/{name}/src"))).into_keys()).collect();
    let unused: Vec<&&str> = ROLES.iter().filter(|role| !twice.iter().any(|name| name == *role)).collect();
    assert!(ROLES.len() <= ALLOWED_ROLES && unused.is_empty(), "no role: {unused:?}");
}

#[test]
fn a_type_name_that_is_defined_twice_is_found() {
    let planted = [
        Source::new("a.rs", "pub(crate) struct Wanted<T> {\nstruct Command;\nenum Once {"),
        Source::new("b.rs", "    pub enum Wanted {\npub struct Command {\n// struct Once"),
    ];
    assert_eq!(find_duplicate_type_violations("x", &planted), ["x: Wanted in a.rs, b.rs"]);
}
