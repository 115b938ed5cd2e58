//! What the workspace depends on comes from where `deny.toml` says, under a licence that it allows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::ROOT;
use serde_json::Value;

/// The words of `[section]` in deny.toml.
fn allowed(section: &str, key: &str) -> BTreeSet<String> {
    let rules: toml::Table = fs::read_to_string(Path::new(ROOT).join("deny.toml")).unwrap().parse().unwrap();
    let words = rules[section][key].as_array().unwrap();
    words.iter().map(|word| String::from(word.as_str().unwrap())).collect()
}

/// Whether a licence expression (SPDX 2.3, annex D) can be met by the allowed ones alone. `/` is an old way to say OR.
fn is_licence_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (met, rest) = parse_licence_or(&words, allowed);
    assert!(rest.is_empty(), "{expression} is no licence expression");
    met
}

fn parse_licence_or<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = parse_licence_and(words, allowed);
    while let ["OR", more @ ..] = rest {
        let (other, left) = parse_licence_and(more, allowed);
        (met, rest) = (met | other, left);
    }
    (met, rest)
}

fn parse_licence_and<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = one(words, allowed);
    while let ["AND", more @ ..] = rest {
        let (other, left) = one(more, allowed);
        (met, rest) = (met & other, left);
    }
    (met, rest)
}

fn one<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inner @ ..] => {
            let (met, rest) = parse_licence_or(inner, allowed);
            (met, rest.strip_prefix(&[")"]).expect("a parenthesis is closed"))
        }
        [licence, "WITH", exception, rest @ ..] => (allowed.contains(&format!("{licence} WITH {exception}")), rest),
        [licence, rest @ ..] => (allowed.contains(*licence), rest),
        [] => panic!("a licence is missing"),
    }
}

#[test]
fn licence_expression_is_met_only_by_allowed_licences() {
    let allowed = BTreeSet::from(["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].map(String::from));
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 OR MIT AND Zlib", true),
        ("(GPL-3.0 OR MIT) AND Zlib", true),
        ("MIT AND (GPL-3.0 OR Apache-2.0)", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
    ] {
        assert_eq!(is_licence_met(expression, &allowed), met, "{expression}");
    }
}

#[test]
fn all_dependencies_have_an_allowed_licence() {
    // Dependencies of other platforms may not have been downloaded here.
    let host = Command::new("rustc").args(["--print", "host-tuple"]).current_dir(ROOT).output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", host.trim()]);
    let ran = cargo.current_dir(ROOT).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let metadata: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "{} packages", packages.len());
    let allowed = allowed("licenses", "allow");
    let is_wrong =
        |package: &&Value| !package["license"].as_str().is_some_and(|licence| is_licence_met(licence, &allowed));
    let wrong: Vec<String> = packages
        .iter()
        .filter(is_wrong)
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert_eq!(wrong, [""; 0], "deny.toml does not allow these");
}

#[test]
fn all_dependencies_come_from_an_allowed_registry_with_checksum() {
    let lock: toml::Table = fs::read_to_string(Path::new(ROOT).join("Cargo.lock")).unwrap().parse().unwrap();
    let allowed = allowed("sources", "allow-registry");
    let is_wrong = |package: &&toml::Value| match package.get("source").and_then(toml::Value::as_str) {
        // A package without a source is a member of the workspace.
        None => !package["name"].as_str().unwrap().starts_with("phaselink"),
        Some(source) => {
            let registry = source.strip_prefix("registry+");
            !registry.is_some_and(|registry| allowed.contains(registry)) || package.get("checksum").is_none()
        }
    };
    let wrong: Vec<&toml::Value> = lock["package"].as_array().unwrap().iter().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
