//! Problems of an input: all mistakes at once, each with its place, what was found and what is allowed.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Number of characters above which a text, which quotes an input, is cut in the middle when it is printed.
const TOLD_CHARACTERS_MAX: usize = 1000;

/// Mistake in a drive file, job file, trace or command line, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the file, or a stand-in for it (`--set`, `command line`).
    pub file: String,
    /// Line in the file, counted from 1; `None` if it is not known.
    pub line: Option<usize>,
    /// Text that says what was found in the input.
    pub found: String,
    /// Text that says what is allowed in the input, as the end of "allowed: …"; empty if `found` says it already.
    pub allowed: String,
}

/// All mistakes of an input, in file order. An error never holds an empty list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    /// Makes a problem at a line of `file`, or at no known line of it.
    pub fn new(
        file: impl Into<String>,
        line: impl Into<Option<usize>>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Problem {
        Problem { file: file.into(), line: line.into(), found: found.into(), allowed: allowed.into() }
    }

    /// Returns the problem for an interface without a command line: `place` stands for the command line, and keywords
    /// for flags.
    fn without_flags(&self, place: &str) -> Problem {
        let file = match self.file.as_str() {
            "command line" | "question" => place,
            file => file.strip_prefix("--set ").or(file.strip_prefix("--keys ")).unwrap_or(file),
        };
        let file = if file.starts_with("--") { without_flags(file) } else { String::from(file) };
        Problem::new(file, self.line, without_flags(&self.found), without_flags(&self.allowed))
    }
}

/// Replaces flags of the program in a text by keywords: `--number-ios` becomes `number_ios`. Flags of fio stay.
fn without_flags(text: &str) -> String {
    let mut words = Vec::new();
    for word in text.split(' ') {
        let of_fio = words.last().is_some_and(|before: &String| before.trim_start_matches('(') == "fio");
        words.push(match word.find("--") {
            Some(at) if !of_fio => format!("{}{}", &word[..at], word[at + 2..].replace('-', "_")),
            _ => String::from(word),
        });
    }
    words.join(" ")
}

impl Problems {
    /// Returns `value` if there are no problems, otherwise all problems.
    pub fn or<T>(self, value: T) -> Result<T, Problems> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Returns the problems for an interface without a command line: `place` stands for the command line, and keywords
    /// for flags, such as `number_ios` for `--number-ios`.
    pub fn without_flags(&self, place: &str) -> Problems {
        Problems(self.0.iter().map(|problem| problem.without_flags(place)).collect())
    }
}

/// Returns the values of all results, or the problems of all results if any of them has problems.
///
/// # Errors
/// Problems of every part that has any, in order, each of them once.
pub fn all<T>(parts: impl IntoIterator<Item = Result<T, Problems>>) -> Result<Vec<T>, Problems> {
    let (mut values, mut problems) = (Vec::new(), Problems::default());
    for part in parts {
        match part {
            Ok(value) => values.push(value),
            Err(found) => {
                let new = found.0.into_iter().filter(|problem| !problems.0.contains(problem)).collect::<Vec<_>>();
                problems.0.extend(new);
            }
        }
    }
    problems.or(values)
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems(vec![problem])
    }
}

/// True if a terminal would not show the character as it stands in a line: control characters, ends of lines, and those
/// that change the direction of the text after them (Unicode Standard Annex 9, section 2).
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a text in one line, with escapes in place of the characters that a terminal would obey.
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

/// Returns a text that may quote an input, cut to some 1000 characters and printable.
fn shortened(text: &str) -> Cow<'_, str> {
    let half = TOLD_CHARACTERS_MAX / 2;
    let Some((end_of_head, _)) = text.char_indices().nth(half) else { return printable(text) };
    let tail = &text[end_of_head..];
    let Some((start_of_tail, _)) = tail.char_indices().nth_back(half - 1) else { return printable(text) };
    if start_of_tail == 0 {
        return printable(text);
    }
    let left_out = tail[..start_of_tail].chars().count();
    let mut cut = printable(&text[..end_of_head]).into_owned();
    // Writing to a `String` cannot fail.
    let _ = write!(cut, " … {left_out} characters left out … {}", printable(&tail[start_of_tail..]));
    cut.into()
}

impl fmt::Display for Problem {
    /// Writes `drive.toml:12: found; allowed: …`, in one line that a terminal shows as it stands.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shortened(&self.file))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", shortened(&self.found))?;
        if !self.allowed.is_empty() {
            write!(f, "; allowed: {}", shortened(&self.allowed))?;
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

/// Condition between keys of a drive's description that their values do not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenCondition {
    /// Full names of the keys that the broken condition involves.
    pub keys: Vec<&'static str>,
    /// Text that says what values were found.
    pub found: String,
    /// Text that says what values are allowed.
    pub allowed: String,
}

impl BrokenCondition {
    /// Returns the broken condition if `is_broken` is true.
    pub(crate) fn when(
        is_broken: bool,
        keys: &[&'static str],
        found: String,
        allowed: String,
    ) -> Option<BrokenCondition> {
        is_broken.then(|| BrokenCondition { keys: keys.to_vec(), found, allowed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_escapes_control_characters_in_one_line() {
        let problem = Problem::new("a\nb.toml", 3, "name is \u{1b}[31mred\u{202e}", "text\r");
        assert_eq!(problem.to_string(), r"a\nb.toml:3: name is \u{1b}[31mred\u{202e}; allowed: text\r");
        assert_eq!(printable("é…"), "é…");
    }

    #[test]
    fn repeated_problem_is_listed_once() {
        let problem = |found| Err::<(), _>(Problem::new("f", None, found, "").into());
        let listed = all([problem("a"), Ok(()), problem("b"), problem("a")]).unwrap_err();
        assert_eq!(listed.to_string(), "f: a\nf: b");
    }

    #[test]
    fn problem_without_flags_names_its_keywords() {
        let of =
            |file: &str| Problem::new(file, None, "--number-ios is 0 (fio --size)", "--bs").without_flags("question");
        assert_eq!(of("command line").to_string(), "question: number_ios is 0 (fio --size); allowed: bs");
        assert_eq!(of("--set media.read_ns=x").file, "media.read_ns=x");
    }

    #[test]
    fn quote_above_1000_characters_is_abridged() {
        let shortened = |length: usize| Problem::new("f", None, "é".repeat(length), "").to_string();
        assert_eq!(shortened(1000), format!("f: {}", "é".repeat(1000)));
        let half = "é".repeat(500);
        assert_eq!(shortened(1001), format!("f: {half} … 1 characters left out … {half}"));
        assert!(shortened(1_000_000).chars().count() < 1100);
    }
}
