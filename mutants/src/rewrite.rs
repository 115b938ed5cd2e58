//! Many mutants in one source file: a function's body becomes a choice between its mutated copies and itself.
//!
//! Whole bodies are copied rather than expressions wrapped, because a copy is what `cargo mutants` would compile: types,
//! moves and borrows in it are as there.

use std::ops::Range;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::list::{Mutant, Place};

/// A rewritten file, and which of its lines, from 1, belong to which mutants.
#[derive(Debug, Default)]
pub(crate) struct Rewritten {
    pub text: String,
    /// The lines of each mutant's copy.
    pub copies: Vec<(u32, Range<usize>)>,
    /// The lines of each function that has copies, with all its mutants.
    pub functions: Vec<(Vec<u32>, Range<usize>)>,
}

impl Rewritten {
    /// Who is to blame for an error in a line: a mutant, or where none is, all those of the function.
    pub(crate) fn blamed(&self, line: usize) -> Vec<u32> {
        let copy = self.copies.iter().find(|(_, lines)| lines.contains(&line));
        let function = || self.functions.iter().find(|(_, lines)| lines.contains(&line));
        copy.map(|(mutant, _)| vec![*mutant])
            .or_else(|| function().map(|(mutants, _)| mutants.clone()))
            .unwrap_or_default()
    }
}

/// Whether a mutant can be switched at run time: a constant function reads no switch, and the type behind `impl` is one
/// body's alone.
pub(crate) fn can_be_switched(text: &str, mutant: &Mutant) -> bool {
    let function = &text[bytes(text, &mutant.function)];
    !mutant.returns.contains("impl ") && body(function).is_some_and(|body| !is_constant(&function[..body.start]))
}

fn is_constant(before_body: &str) -> bool {
    let words = before_body.split(|sign: char| !sign.is_alphanumeric() && sign != '_');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.iter().position(|word| *word == "fn").is_some_and(|at| words[..at].contains(&"const"))
}

/// The file with these mutants, by number, in it; all are its own. A function inside of another that has mutants keeps its
/// own to itself: the outer copies hold it unchanged.
pub(crate) fn rewrite(text: &str, mutants: &[(u32, &Mutant)]) -> Rewritten {
    let mut rewritten = Rewritten::default();
    let mut functions: Vec<&Range<Place>> = mutants.iter().map(|(_, mutant)| &mutant.function).collect();
    functions.sort_by_key(|function| (function.start, function.end));
    functions.dedup();
    let mut at = 0;
    for function in functions {
        let whole = bytes(text, function);
        let Some(body) = body(&text[whole.clone()]) else { continue };
        let body = whole.start + body.start..whole.start + body.end;
        if body.start < at {
            continue;
        }
        rewritten.text.push_str(&text[at..body.start]);
        let of_function: Vec<_> = mutants.iter().filter(|(_, mutant)| mutant.function == *function).collect();
        rewritten.put_choice(text, &body, &of_function);
        at = body.end;
    }
    rewritten.text.push_str(&text[at..]);
    rewritten
}

impl Rewritten {
    /// In the place of a body, which is what stands between its braces.
    fn put_choice(&mut self, text: &str, body: &Range<usize>, mutants: &[&(u32, &Mutant)]) {
        let first = self.line();
        for (number, mutant) in mutants {
            let replaced = bytes(text, &mutant.span);
            self.text.push_str(&format!("\nif crate::phaselink_mutants_switch::is({number}) {{\n"));
            let start = self.line();
            let (before, after) = (&text[body.start..replaced.start], &text[replaced.end..body.end]);
            self.text.push_str(&format!("{before}{}{after}\n", mutant.replacement));
            self.copies.push((*number, start..self.line() + 1));
            self.text.push_str("} else");
        }
        self.text.push_str(&format!(" {{\n{}\n}}\n", &text[body.clone()]));
        let numbers = mutants.iter().map(|(number, _)| *number).collect();
        self.functions.push((numbers, first..self.line() + 1));
    }

    fn line(&self) -> usize {
        self.text.matches('\n').count() + 1
    }
}

/// Between the braces of a function's body, in bytes of its text: its last token is that group.
fn body(function: &str) -> Option<Range<usize>> {
    let tokens: TokenStream = function.parse().ok()?;
    match tokens.into_iter().last()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            Some(group.span_open().byte_range().end..group.span_close().byte_range().start)
        }
        _ => None,
    }
}

fn bytes(text: &str, places: &Range<Place>) -> Range<usize> {
    byte(text, places.start)..byte(text, places.end)
}

fn byte(text: &str, (line, column): Place) -> usize {
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    start + text[start..].chars().take(column - 1).map(char::len_utf8).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "/// Ä\nfn f(a: u32) -> u32 {\n    a + 1 // '}'\n}\n\nfn g() { h(\"{\") }\n";

    fn mutant(function: Range<Place>, span: Range<Place>, replacement: &str) -> Mutant {
        let (name, file) = (String::from("crates/a/src/b.rs: c"), String::from("crates/a/src/b.rs"));
        Mutant { name, file, function, span, replacement: replacement.into(), returns: String::new() }
    }

    fn minus() -> Mutant {
        mutant((1, 1)..(4, 2), (3, 7)..(3, 8), "-")
    }

    #[test]
    fn a_body_becomes_a_choice_between_its_mutants_and_itself() {
        let (times, nothing) =
            (mutant((1, 1)..(4, 2), (3, 7)..(3, 8), "*"), mutant((6, 1)..(6, 18), (6, 10)..(6, 16), "()"));
        let rewritten = rewrite(TEXT, &[(1, &minus()), (2, &times), (3, &nothing)]);
        let lines: Vec<&str> = rewritten.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let expected = [
            "/// Ä",
            "fn f(a: u32) -> u32 {",
            "if crate::phaselink_mutants_switch::is(1) {",
            "a - 1 // '}'",
            "} else",
            "if crate::phaselink_mutants_switch::is(2) {",
            "a * 1 // '}'",
            "} else {",
            "a + 1 // '}'",
            "}",
            "}",
            "fn g() {",
            "if crate::phaselink_mutants_switch::is(3) {",
            "()",
            "} else {",
            "h(\"{\")",
            "}",
            "}",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn an_error_is_blamed_on_the_mutant_of_its_line_or_on_all_of_the_function() {
        let times = mutant((1, 1)..(4, 2), (3, 7)..(3, 8), "*");
        let rewritten = rewrite(TEXT, &[(1, &minus()), (2, &times)]);
        let blamed = |what: &str| {
            let line = rewritten.text.lines().position(|line| line.contains(what)).unwrap();
            rewritten.blamed(line + 1)
        };
        assert_eq!(
            [blamed("a - 1"), blamed("a * 1"), blamed("a + 1"), blamed("fn g")],
            [vec![1], vec![2], vec![1, 2], vec![]]
        );
    }

    #[test]
    fn constant_functions_and_types_behind_impl_cannot_be_switched() {
        assert!(can_be_switched(TEXT, &minus()));
        let constant = TEXT.replace("fn f(a", "pub const fn f(a");
        assert!(!can_be_switched(&constant, &minus()));
        let generic = TEXT.replace("fn f(a", "fn f<const N: usize>(a");
        assert!(can_be_switched(&generic, &minus()));
        assert!(!can_be_switched(TEXT, &Mutant { returns: "-> impl Iterator".into(), ..minus() }));
    }

    #[test]
    fn a_function_inside_of_another_stays_as_it_is() {
        let text = "fn f() {\n    fn g() -> u8 { 1 + 2 }\n    g() + 3;\n}\n";
        let (outer, inner) =
            (mutant((1, 1)..(4, 2), (3, 9)..(3, 10), "-"), mutant((2, 5)..(2, 27), (2, 22)..(2, 23), "*"));
        let rewritten = rewrite(text, &[(1, &outer), (2, &inner)]);
        assert!(rewritten.text.contains("g() - 3") && !rewritten.text.contains("1 * 2"), "{}", rewritten.text);
    }
}
