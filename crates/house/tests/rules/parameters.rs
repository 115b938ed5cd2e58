//! Functions with many parameters: those that belong together are a type.

use crate::limits::{Counted, Limits};
use crate::sources::Source;
use crate::touches::product_and_fuzz_sources;

/// Parameters that a function may have, `self` included.
const ALLOWED: usize = 6;

/// Parameters beyond those allowed, by the name of a function: all functions of one name together.
fn count_excess_parameters(sources: &[Source]) -> Counted {
    let mut counts = Counted::new();
    for (name, parameters) in sources.iter().flat_map(|source| list_functions_with_parameter_counts(&source.text)) {
        if parameters > ALLOWED {
            *counts.entry(String::from(name)).or_default() += parameters - ALLOWED;
        }
    }
    counts
}

/// Names of all functions with the numbers of their parameters.
fn list_functions_with_parameter_counts(text: &str) -> Vec<(&str, usize)> {
    let is_start = |at: &usize| !text[..*at].ends_with(|sign: char| sign.is_alphanumeric() || sign == '_');
    let starts = text.match_indices("fn ").map(|(at, _)| at).filter(is_start);
    starts.filter_map(|at| function(&text[at + 3..])).collect()
}

fn function(text: &str) -> Option<(&str, usize)> {
    let end = text.find(|sign: char| !sign.is_alphanumeric() && sign != '_')?;
    let (name, mut rest) = text.split_at(end);
    if rest.starts_with('<') {
        rest = &rest[find_closing_bracket(rest)? + 1..];
    }
    let list = rest.starts_with('(').then(|| &rest[1..find_closing_bracket(rest).unwrap_or(1)])?;
    Some((name, parameters(list)))
}

/// Place of the bracket that closes the first one of a text.
fn find_closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, sign) in text.char_indices() {
        depth += bracket_depth_change(text, at, sign);
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Change of depth by a bracket; the arrow of a result is none.
fn bracket_depth_change(text: &str, at: usize, sign: char) -> i32 {
    match sign {
        '(' | '[' | '{' | '<' => 1,
        ')' | ']' | '}' => -1,
        '>' if !text[..at].ends_with(['-', '=']) => -1,
        _ => 0,
    }
}

/// Number of parameters in a list, which may end with a comma.
fn parameters(list: &str) -> usize {
    let (mut depth, mut found, mut is_open) = (0, 0, false);
    for (at, sign) in list.char_indices() {
        depth += bracket_depth_change(list, at, sign);
        if depth == 0 && sign == ',' {
            is_open = false;
        } else if !sign.is_whitespace() && !is_open {
            (found, is_open) = (found + 1, true);
        }
    }
    found
}

#[test]
fn few_functions_have_more_than_six_parameters() {
    Limits { table: "parameters", allowed: 0, step: 1 }.hold(&count_excess_parameters(&product_and_fuzz_sources()));
}

#[test]
fn function_of_seven_parameters_is_found() {
    let text = "fn seven<F: Fn(u8, u8) -> u8>(\n    &self,\n    a: [u8; 2],\n    b: (u8, u8),\n    c: Map<u8, u8>,\n    d: F,\n    \
                e: u8,\n    f: u8,\n) -> u8 {}\nfn six(&mut self, a: u8, b: u8, c: u8, d: u8, e: u8) {}\nfn none() {}\n";
    assert_eq!(list_functions_with_parameter_counts(text), [("seven", 7), ("six", 6), ("none", 0)]);
    assert_eq!(count_excess_parameters(&[Source::new("x.rs", text)]), Counted::from([(String::from("seven"), 1)]));
}
