//! Questions whether an NVMe namespace has zones, keys, placement or metadata. Its kind should answer once.

use crate::limits::{Limits, single};
use crate::sources::Source;
use crate::touches::{product_files, words};

/// Folders in which namespaces are served and simulated.
const FOLDERS: [&str; 2] = ["crates/core/src/protocol/nvme/", "crates/serve/src/nvme/"];
/// Fields and functions that hold a part of a namespace, if it has that.
const PARTS: [&str; 5] = ["zones", "keys", "key_value", "placement", "metadata"];
/// Beginnings of what asks such an optional part whether it is there.
const ASKING: [&str; 10] = [
    ".is_some",
    ".is_none",
    ".as_ref()",
    ".as_mut()",
    ".as_deref",
    ".map(",
    ".map_or",
    ".and_then(",
    ".iter().flat_map(",
    ".iter_mut().for_each(",
];

/// Places that ask for a part, by file and line.
fn questions(sources: &[Source]) -> Vec<String> {
    let own = sources.iter().filter(|source| FOLDERS.iter().any(|folder| source.path.starts_with(folder)));
    let mut found = Vec::new();
    for source in own {
        for (at, line) in source.text.lines().enumerate() {
            let asked = words(line).filter(|(place, word)| PARTS.contains(word) && asks(line, *place, word));
            found.extend(asked.map(|(_, part)| format!("{}:{}: {part}: {}", source.path, at + 1, line.trim())));
        }
    }
    found
}

/// True if a part that is named at a place of a line is asked whether it is there, by a function or by a pattern.
fn asks(line: &str, place: usize, part: &str) -> bool {
    if !line[..place].ends_with('.') {
        return false;
    }
    let rest = &line[place + part.len()..];
    let rest = rest.strip_prefix("()").unwrap_or(rest);
    let is_matched =
        line[..place].contains("Some(") && line[..place].contains(" = ") || line[..place].contains("match ");
    ASKING.iter().any(|asking| rest.starts_with(asking)) || is_matched && rest.starts_with([' ', ',', ')', '{'])
}

#[test]
fn few_places_ask_whether_a_namespace_has_a_part() {
    let found = questions(&product_files());
    println!("{}", found.join("\n"));
    Limits { table: "questions", allowed: 0, step: 1 }.hold(&single("questions for parts of a namespace", found.len()));
}

#[test]
fn a_question_is_found_in_each_form() {
    let text = "if self.zones.is_some() || limits.key_value.is_some() {\nif let Some(zones) = &mut self.zones {\n\
                match (store.zones(), store.keys()) {\nlet it = self.metadata.as_ref().map(f);\nlet metadata = self.metadata.map_or(0, f);\n\
                let zones = self.zones.len();\nself.keys = None;\n";
    let found = questions(&[Source::new("crates/serve/src/nvme/x.rs", text), Source::new("crates/cli/src/x.rs", text)]);
    assert_eq!(found.len(), 7, "{found:#?}");
}
