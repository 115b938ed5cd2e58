//! Imports between the files of one crate, read from the paths in their code.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::Source;

/// Parts of a path from the root of a crate.
type Parts = Vec<String>;

/// For each file of a crate, the files that it imports from, itself excluded.
pub(crate) fn imports(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let files: BTreeSet<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    let exported: BTreeMap<Parts, Parts> = sources.iter().flat_map(list_re_exports).collect();
    let found = sources.iter().map(|source| {
        let targets = paths(source)
            .into_iter()
            .filter_map(|path| find_defining_file(&resolve_re_exports(path, &exported, &files), &files));
        let others: BTreeSet<String> = targets.filter(|file| *file != source.path).collect();
        (source.path.clone(), others)
    });
    found.collect()
}

/// Every path in the code of a file that begins with `crate`, `super`, `self` or a module of the file, from the crate's root.
fn paths(source: &Source) -> Vec<Parts> {
    let own = declared_module_names(source);
    let starts = find_crate_path_starts(&source.text, &own);
    let spelt = starts.into_iter().flat_map(|start| expand_brace_groups(&source.text[start..]));
    spelt.filter_map(|path| resolve_absolute_path(&path, &source.module(), &own)).collect()
}

/// Names of the modules that a file declares.
fn declared_module_names(source: &Source) -> Vec<String> {
    let declared = source.text.lines().filter_map(|line| line.trim().strip_suffix(';')?.rsplit_once("mod "));
    declared.map(|(_, name)| String::from(name)).collect()
}

fn find_crate_path_starts(text: &str, own: &[String]) -> Vec<usize> {
    let heads = ["crate", "super", "self"].into_iter().chain(own.iter().map(String::as_str));
    let mut starts = Vec::new();
    for head in heads {
        let head = format!("{head}::");
        let begins = |start: &usize| {
            let before = text[..*start].chars().next_back();
            before.is_none_or(|sign| !sign.is_alphanumeric() && !matches!(sign, '_' | ':' | '$'))
        };
        starts.extend(text.match_indices(&head).map(|(start, _)| start).filter(begins));
    }
    starts
}

/// The paths that a text begins with, groups in braces spelt out.
fn expand_brace_groups(text: &str) -> Vec<Parts> {
    let mut found = Vec::new();
    expand_path(text, &mut Vec::new(), &mut found);
    found
}

/// Spells out one path with its groups, and returns the length of its text.
fn expand_path(text: &str, before: &mut Parts, found: &mut Vec<Parts>) -> usize {
    let (mut at, depth) = (0, before.len());
    loop {
        let rest = &text[at..];
        let word = rest.chars().take_while(|sign| sign.is_alphanumeric() || *sign == '_').count();
        if word > 0 {
            before.push(String::from(&rest[..word]));
            at += word;
        }
        match text[at..].strip_prefix("::") {
            Some(next) if next.starts_with('{') => {
                at += 3 + expand_path_group(&next[1..], before, found);
                break;
            }
            Some(_) if word > 0 => at += 2,
            _ => {
                found.push(before.clone());
                break;
            }
        }
    }
    before.truncate(depth);
    at
}

/// Spells out the paths of a group up to its closing brace, and returns the length of its text.
fn expand_path_group(text: &str, before: &mut Parts, found: &mut Vec<Parts>) -> usize {
    let mut at = 0;
    while let Some(sign) = text[at..].chars().next() {
        match sign {
            '}' => return at + 1,
            sign if sign.is_alphanumeric() || sign == '_' => at += expand_path(&text[at..], before, found).max(1),
            sign => at += sign.len_utf8(),
        }
    }
    at
}

/// A path from the root of the crate, if it begins inside the crate.
fn resolve_absolute_path(path: &[String], module: &[String], own: &[String]) -> Option<Parts> {
    let first = path.first()?;
    match first.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => {
            let supers = path.iter().take_while(|part| *part == "super").count();
            Some([&module[..module.len().checked_sub(supers)?], &path[supers..]].concat())
        }
        _ => own.contains(first).then(|| [module, path].concat()),
    }
}

/// Items that a file passes on with `pub use`: their path in this module, and the path they come from.
fn list_re_exports(source: &Source) -> Vec<(Parts, Parts)> {
    let (own, module) = (declared_module_names(source), source.module());
    let uses = source.text.split("\npub").skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix("(crate)").or_else(|| rest.strip_prefix("(super)")).unwrap_or(rest);
        rest.strip_prefix(" use ")?.split(';').next()
    });
    let paths = uses.flat_map(expand_brace_groups).filter_map(|path| resolve_absolute_path(&path, &module, &own));
    paths.filter_map(|path| Some(([&module[..], &[path.last()?.clone()]].concat(), path))).collect()
}

/// The path that an item has where it is defined, if a file of the crate passes it on.
fn resolve_re_exports(mut path: Parts, exported: &BTreeMap<Parts, Parts>, files: &BTreeSet<&str>) -> Parts {
    // Chains of re-exports are short. The bound ends the loop for a module that re-exports its own name.
    for _ in 0..5 {
        let lengths = (1..=path.len()).rev().filter(|length| find_module_file(&path[..*length], files).is_none());
        let Some((length, origin)) = lengths.filter_map(|length| Some((length, exported.get(&path[..length])?))).next()
        else {
            break;
        };
        path = [&origin[..], &path[length..]].concat();
    }
    path
}

/// The file in which the longest part of a path that is a module stands.
fn find_defining_file(path: &[String], files: &BTreeSet<&str>) -> Option<String> {
    (1..=path.len()).rev().find_map(|length| find_module_file(&path[..length], files))
}

fn find_module_file(path: &[String], files: &BTreeSet<&str>) -> Option<String> {
    let stem = path.join("/");
    [format!("{stem}.rs"), format!("{stem}/mod.rs")].into_iter().find(|file| files.contains(file.as_str()))
}

#[test]
fn imports_are_resolved_through_groups_supers_children_and_re_exports() {
    let planted = [
        Source::new("a/mod.rs", "\nmod inner;\npub(crate) use inner::{Deep, Other};\nfn f() { inner::g() }"),
        Source::new("a/inner.rs", "use super::super::b::{self, thing};"),
        Source::new("b.rs", "use crate::{a::Deep, c::{D, E}};"),
        Source::new("c.rs", "fn f() -> my_crate::b::Thing {}"),
    ];
    let found = imports(&planted);
    let of = |file: &str| found[file].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(of("a/mod.rs"), ["a/inner.rs"]);
    assert_eq!(of("a/inner.rs"), ["b.rs"]);
    assert_eq!(of("b.rs"), ["a/inner.rs", "c.rs"]);
    assert_eq!(of("c.rs"), [""; 0]);
}
