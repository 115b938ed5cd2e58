//! Decisions by the operation of an NVMe command outside its table: each is a list that can differ from another one.

use crate::limits::{Limits, single};
use crate::sources::Source;
use crate::touches::{product_and_fuzz_sources, words};

/// Enum of the operations.
const ENUM: &str = "Action";
/// File of the table, which may ask what it likes.
const TABLE: &str = "crates/core/src/protocol/nvme/commands/mod.rs";

/// Places that decide by an operation: by `match`, and otherwise (`matches!`, a pattern of `let`, a comparison).
fn find_operation_decisions(sources: &[Source]) -> [Vec<String>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    for source in sources.iter().filter(|source| source.path != TABLE) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let place = || format!("{}:{}: {}", source.path, at + 1, line.trim());
            found[0].extend(has_match_on_operation(&lines[at..]).then(place));
            found[1]
                .extend((has_matches_macro_on_operation(&lines[at..]) || has_pattern_on_operation(line)).then(place));
        }
    }
    found
}

/// True if a `match` begins in the first line, one of whose own arms names an operation in its pattern.
fn has_match_on_operation(lines: &[&str]) -> bool {
    let Some(first) = lines.first().filter(|line| line.ends_with('{')) else { return false };
    if !words(first).any(|(_, word)| word == "match") {
        return false;
    }
    let column = |line: &str| line.len() - line.trim_start().len();
    let (own, mut is_guard) = (column(first), false);
    let body = lines.iter().skip(1).take_while(|line| line.trim().is_empty() || column(line) > own);
    let patterns = body.filter(|line| {
        let is_arm = column(line) == own + 4 || is_guard;
        is_guard = is_arm && !line.contains("=>") && !line.ends_with([',', ';', '}']) && !line.trim().is_empty();
        is_arm
    });
    patterns.into_iter().any(|line| contains_operation_name(line.split("=>").next().unwrap_or("")))
}

fn has_matches_macro_on_operation(lines: &[&str]) -> bool {
    let Some((_, arguments)) = lines.first().and_then(|line| line.split_once("matches!(")) else { return false };
    let text = std::iter::once(arguments).chain(lines.iter().skip(1).copied()).collect::<Vec<_>>().join("\n");
    let mut depth = 1;
    let end = text.find(|sign: char| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        depth == 0
    });
    contains_operation_name(&text[..end.unwrap_or(text.len())])
}

fn has_pattern_on_operation(line: &str) -> bool {
    let pattern =
        line.split_once("let ").and_then(|(_, rest)| rest.split_once(" = ")).map_or("", |(pattern, _)| pattern);
    let compared =
        ["== ", "!= "].iter().flat_map(|sign| line.split(sign).skip(1)).filter_map(|rest| rest.get(..ENUM.len() + 2));
    !line.contains("matches!(")
        && (contains_operation_name(pattern) || compared.into_iter().any(contains_operation_name))
}

fn contains_operation_name(text: &str) -> bool {
    words(text).any(|(at, word)| word == ENUM && text[at + word.len()..].starts_with("::"))
}

#[test]
fn few_source_lines_branch_on_the_operation_of_a_command() {
    let [by_match, otherwise] = find_operation_decisions(&product_and_fuzz_sources());
    println!("{}", [&by_match[..], &otherwise[..]].concat().join("\n"));
    let mut counts = single("by match", by_match.len());
    counts.extend(single("by matches!, let or comparison", otherwise.len()));
    Limits { table: "actions", allowed: 0, step: 1 }.hold(&counts);
}

#[test]
fn every_form_of_branch_on_the_operation_is_found() {
    let text = "match command.action {\n    Action::Read => 1,\n    _ => 2,\n}\nlet x = match kind {\n    Kind::New => Action::Read,\n};\n\
                matches!(action, ZoneAction::Open | Kind::Old);\nmatches!(\n    action,\n    Action::Write { .. }\n);\n\
                if let Action::Key(key) = action {}\nlet action = Action::Read;\nif action == Action::Flush {}\n\
                match a {\n    Some(1)\n        if b =>\n    {\n        c\n    }\n    Some(2) => match d {\n        Ok(Action::Copy)\n        \
                | Ok(Action::Read) => 1,\n    },\n}\n";
    let found = find_operation_decisions(&[Source::new("x.rs", text), Source::new(TABLE, text)]);
    let lines: [Vec<usize>; 2] =
        found.map(|found| found.iter().filter_map(|found| found.split(':').nth(1)?.parse().ok()).collect());
    assert_eq!(lines, [vec![1, 22], vec![9, 13, 15]]);
}
