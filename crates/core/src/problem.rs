//! What is wrong with an input: every problem at once, each with its place and what is allowed.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Longer texts are cut in the middle when they are told: they quote what somebody has written.
const TOLD_CHARACTERS_MAX: usize = 1000;

/// One mistake in a drive file, job file, trace or command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// File name, or what stands for it (`--set`, `command line`).
    pub file: String,
    /// Line in it, counted from 1, if the place is known.
    pub line: Option<usize>,
    /// What was found.
    pub found: String,
    /// What is allowed there, as the end of "allowed: …"; empty if the finding says it all.
    pub allowed: String,
}

/// All mistakes of an input, in file order. Never empty when returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    /// A problem at a known or unknown line of `file`.
    pub fn new(
        file: impl Into<String>,
        line: impl Into<Option<usize>>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Problem {
        Problem { file: file.into(), line: line.into(), found: found.into(), allowed: allowed.into() }
    }
}

impl Problems {
    /// `Ok(value)` if nothing is wrong, otherwise all problems.
    pub fn or<T>(self, value: T) -> Result<T, Problems> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

/// All the values, or all the problems.
///
/// # Errors
/// The problems of every part that has any, in order.
pub fn all<T>(parts: impl IntoIterator<Item = Result<T, Problems>>) -> Result<Vec<T>, Problems> {
    let (mut values, mut problems) = (Vec::new(), Problems::default());
    for part in parts {
        match part {
            Ok(value) => values.push(value),
            Err(found) => problems.0.extend(found.0),
        }
    }
    problems.or(values)
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems(vec![problem])
    }
}

/// Whether a character is no part of a line that a terminal shows as it stands: control characters, ends of lines, and
/// those that turn the direction of what follows (Unicode Standard Annex 9, section 2).
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The same text in one line, with what a terminal would obey written as an escape.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return text.into();
    }
    let mut shown = String::new();
    for character in text.chars() {
        match is_unprintable(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown.into()
}

/// A text that may quote another, short enough and printable.
fn told(text: &str) -> Cow<'_, str> {
    let half = TOLD_CHARACTERS_MAX / 2;
    let Some((end_of_head, _)) = text.char_indices().nth(half) else { return printable(text) };
    let tail = &text[end_of_head..];
    let Some((start_of_tail, _)) = tail.char_indices().nth_back(half - 1) else { return printable(text) };
    if start_of_tail == 0 {
        return printable(text);
    }
    let left_out = tail[..start_of_tail].chars().count();
    let mut cut = printable(&text[..end_of_head]).into_owned();
    // Writing to a string does not fail.
    let _ = write!(cut, " … {left_out} characters left out … {}", printable(&tail[start_of_tail..]));
    cut.into()
}

impl fmt::Display for Problem {
    /// `drive.toml:12: found; allowed: …`, in one line that a terminal shows as it stands.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&told(&self.file))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", told(&self.found))?;
        if !self.allowed.is_empty() {
            write!(f, "; allowed: {}", told(&self.allowed))?;
        }
        Ok(())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

impl std::error::Error for Problems {}

/// A condition between keys that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Full names of the keys involved.
    pub keys: &'static [&'static str],
    pub found: String,
    pub allowed: String,
}

impl Broken {
    /// The condition, if it is broken.
    pub(crate) fn when(
        is_broken: bool,
        keys: &'static [&'static str],
        found: String,
        allowed: String,
    ) -> Option<Broken> {
        is_broken.then_some(Broken { keys, found, allowed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_told_as_escapes_in_one_line() {
        let problem = Problem::new("a\nb.toml", 3, "name is \u{1b}[31mred\u{202e}", "text\r");
        assert_eq!(problem.to_string(), r"a\nb.toml:3: name is \u{1b}[31mred\u{202e}; allowed: text\r");
        assert_eq!(printable("é…"), "é…");
    }

    #[test]
    fn long_quotes_are_cut_in_the_middle_and_others_are_whole() {
        let told = |length: usize| Problem::new("f", None, "é".repeat(length), "").to_string();
        assert_eq!(told(1000), format!("f: {}", "é".repeat(1000)));
        let half = "é".repeat(500);
        assert_eq!(told(1001), format!("f: {half} … 1 characters left out … {half}"));
        assert!(told(1_000_000).chars().count() < 1100);
    }
}
