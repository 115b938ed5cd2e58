//! Questions whether an NVMe namespace has zones, keys, placement or metadata, and decisions by its kind. The kind should
//! answer once: enums of kinds match on `self` in the files that define them, and others call their functions.

use crate::limits::{Limits, single};
use crate::sources::{Source, all};
use crate::touches::words;

/// Folders in which namespaces are served and simulated.
const FOLDERS: [&str; 2] = ["crates/core/src/protocol/nvme/", "crates/serve/src/nvme/"];
/// Fields and functions that hold a part of a namespace, if it has that.
const PARTS: [&str; 5] = ["zones", "keys", "key_value", "placement", "metadata"];
/// Beginnings of what asks such an optional part whether it is there.
const ASKING: [&str; 17] = [
    ".is_some",
    ".is_none",
    ".is_ok",
    ".is_err",
    ".ok()",
    ".ok_or",
    ".as_ref()",
    ".as_mut()",
    ".as_deref",
    ".map(",
    ".map_or",
    ".and_then(",
    ".filter(",
    ".into_iter()",
    ".iter().flat_map(",
    ".iter().for_each(",
    ".iter_mut().for_each(",
];
/// Beginnings of what asks an optional part that a variable holds; the others are common for lists of bytes, too.
const ASKING_VARIABLE: [&str; 5] = [".is_some", ".is_none", ".ok_or", ".as_ref()", ".map_or"];
/// Enums of the kinds of namespaces, and of their parts.
const KINDS: [&str; 5] =
    ["NamespaceKind", "BlockNamespaceParts", "SimulatedNamespace", "KindState", "StoredCommandSetState"];

/// Files of the folders without their tests, which stand last. A function for tests alone ends no file.
fn serve_and_simulation_sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for folder in FOLDERS {
        for Source { path, text } in all(folder) {
            let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or("");
            sources.push(Source::new(&format!("{folder}{path}"), product));
        }
    }
    sources
}

/// Places that ask for a part, and places that decide by a kind, by file and line.
fn find_presence_checks_and_kind_branches(sources: &[Source]) -> [Vec<String>; 2] {
    let own = sources.iter().filter(|source| FOLDERS.iter().any(|folder| source.path.starts_with(folder)));
    let mut found = [Vec::new(), Vec::new()];
    for source in own {
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let place = |what: &str| format!("{}:{}: {what}: {}", source.path, at + 1, line.trim());
            let asked =
                words(line).filter(|(from, word)| PARTS.contains(word) && is_presence_check(&lines[at..], *from, word));
            found[0].extend(asked.map(|(_, part)| place(part)));
            found[1].extend((has_match_on_kind(&lines[at..]) || has_pattern_on_kind(line)).then(|| place("kind")));
        }
    }
    found
}

/// True if a part that is named at a place of the first line is asked whether it is there, by a function or a pattern.
fn is_presence_check(lines: &[&str], place: usize, part: &str) -> bool {
    let (before, rest) = (&lines[0][..place], &lines[0][place + part.len()..]);
    let rest = rest.strip_prefix("()").unwrap_or(rest);
    let ends = rest.starts_with([' ', ',', ')', '{']);
    let is_matched = before.rsplit_once(" = ").is_some_and(|(pattern, _)| pattern.contains("Some(")) && ends;
    if before.ends_with('.') {
        return is_matched || before.contains("match ") && ends || ASKING.iter().any(|asking| rest.starts_with(asking));
    }
    let is_variable = before.ends_with([' ', '&', '(']);
    let arm = lines.get(1).map_or("", |line| line.trim_start());
    let is_option = before.contains("match ") && ends && ["None", "Some("].iter().any(|start| arm.starts_with(start));
    is_variable && (is_matched || is_option || ASKING_VARIABLE.iter().any(|asking| rest.starts_with(asking)))
}

/// True if a `match` on another value than `self` begins in the first line, one of whose own arms names a kind.
fn has_match_on_kind(lines: &[&str]) -> bool {
    let Some(first) = lines.first().filter(|line| line.ends_with('{') && line.contains("match ")) else { return false };
    let column = |line: &str| line.len() - line.trim_start().len();
    let body = lines.iter().skip(1).take_while(|line| line.trim().is_empty() || column(line) > column(first));
    let mut arms = body.filter(|line| column(line) == column(first) + 4);
    !first.ends_with("match self {") && arms.any(|arm| contains_kind_name(arm.split("=>").next().unwrap_or("")))
}

/// True if a line asks for a kind by a pattern of `let` or `matches!`, other than of `self`, or for one command set.
fn has_pattern_on_kind(line: &str) -> bool {
    let pattern = line.split_once("let ").and_then(|(_, rest)| rest.split_once(" = "));
    let is_pattern = pattern.is_some_and(|(pattern, value)| {
        let is_self = value.strip_prefix("self").is_some_and(|rest| !rest.starts_with(['.', '_']));
        contains_kind_name(pattern) && !is_self && !pattern.contains(": ")
    });
    let is_macro = line.split_once("matches!(").is_some_and(|(_, arguments)| contains_kind_name(arguments));
    let asks_set = |set: &str| set.starts_with(|sign: char| sign.is_ascii_uppercase());
    is_pattern || is_macro || line.split(".offers(CommandSet::").skip(1).any(asks_set)
}

fn contains_kind_name(text: &str) -> bool {
    let is_followed = |rest: &str| rest.starts_with("::") || rest.starts_with(" {");
    words(text).any(|(at, word)| KINDS.contains(&word) && is_followed(&text[at + word.len()..]))
}

#[test]
fn few_source_lines_check_whether_a_namespace_has_a_part() {
    let [parts, kinds] = find_presence_checks_and_kind_branches(&serve_and_simulation_sources());
    println!("{}", [&parts[..], &kinds[..]].concat().join("\n"));
    let mut counts = single("questions for parts of a namespace", parts.len());
    counts.extend(single("decisions by the kind of a namespace", kinds.len()));
    Limits { table: "questions", allowed: 0, step: 1 }.hold(&counts);
}

#[test]
fn every_form_of_presence_check_is_found() {
    let text = "if self.zones.is_some() || limits.key_value.is_some() {\nif let Some(zones) = &mut self.zones {\n\
                match (store.zones(), store.keys()) {\nlet it = self.metadata.as_ref().map(f);\nlet metadata = self.metadata.map_or(0, f);\n\
                let zones = self.zones.len();\nself.keys = None;\nself.placement().ok_or(e)?;\nstore.zones().into_iter().for_each(f);\n\
                if let Some(placement) = placement {\nlet has = metadata.is_some();\nmatch placement {\n    None => 1,\n}\n\
                match metadata {\n    MetadataUse::None => 1,\n}\nmetadata.iter().map(f);\n// self.zones.is_some()\n";
    let [found, _] = find_presence_checks_and_kind_branches(&[
        Source::new("crates/serve/src/nvme/x.rs", text),
        Source::new("crates/cli/src/x.rs", text),
    ]);
    assert_eq!(found.len(), 12, "{found:#?}");
}

#[test]
fn every_form_of_branch_on_a_namespace_kind_is_found() {
    let text = "match &limits.kind {\n    NamespaceKind::Blocks(_) => 1,\n}\nmatch self {\n    NamespaceKind::Blocks(_) => 1,\n}\n\
                if let KindState::Placed(placement) = state {\nif let KindState::Placed(placement) = self {\n\
                if matches!(kind, NamespaceKind::Zoned(_)) {\nlet StoredCommandSetState::Zones(zones) = store.command_set_state() else { return };\n\
                limits.kind.offers(CommandSet::Keys)\nlimits.kind.offers(row.set)\nlet kind = NamespaceKind::PLAIN;\n\
                let kind: NamespaceKind = NamespaceKind::of(drive);\n";
    let [_, found] = find_presence_checks_and_kind_branches(&[Source::new("crates/serve/src/nvme/x.rs", text)]);
    assert_eq!(found.len(), 5, "{found:#?}");
}
