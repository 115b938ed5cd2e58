//! Text patterns for a table's columns: literal text, `*` for any text, `{name}` for text that is captured under a
//! name.

use std::collections::BTreeMap;

/// Texts that a pattern has captured, by name.
pub(super) type Captures = BTreeMap<String, String>;

/// Pattern for one text: literal parts, `*`, and named captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextPattern(Vec<PatternPart>);

/// Part of a pattern: literal text, any text, or a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPart {
    Literal(String),
    Any,
    /// Text of at least one character that is captured under this name.
    Capture(String),
}

impl TextPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// A brace that is not closed, or that holds no valid name.
    pub(super) fn parse(text: &str) -> Result<TextPattern, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(place) = rest.find(['*', '{']) {
            let (literal, special) = rest.split_at(place);
            if !literal.is_empty() {
                parts.push(PatternPart::Literal(String::from(literal)));
            }
            rest = match special.strip_prefix('*') {
                Some(after) => {
                    parts.push(PatternPart::Any);
                    after
                }
                None => {
                    let (name, after) = special[1..].split_once('}').ok_or("a brace that is not closed")?;
                    if !is_capture_name(name) {
                        return Err(format!("`{{{name}}}`"));
                    }
                    parts.push(PatternPart::Capture(String::from(name)));
                    after
                }
            };
        }
        if !rest.is_empty() {
            parts.push(PatternPart::Literal(String::from(rest)));
        }
        Ok(TextPattern(parts))
    }

    /// Matches the pattern with the whole text. Adds the captured texts to `captures` and returns true if it matches. A
    /// capture takes as little text as possible.
    pub(super) fn matches(&self, text: &str, captures: &mut Captures) -> bool {
        let mut own = Captures::new();
        let is_match = matches(&self.0, text, &mut own);
        if is_match {
            captures.append(&mut own);
        }
        is_match
    }
}

fn is_capture_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

fn matches(parts: &[PatternPart], text: &str, captures: &mut Captures) -> bool {
    let Some((first, rest)) = parts.split_first() else { return text.is_empty() };
    match first {
        PatternPart::Literal(literal) => {
            text.strip_prefix(literal.as_str()).is_some_and(|after| matches(rest, after, captures))
        }
        PatternPart::Any => possible_end_indices(text).any(|end| matches(rest, &text[end..], captures)),
        PatternPart::Capture(name) => {
            let end = possible_end_indices(text).skip(1).find(|end| matches(rest, &text[*end..], captures));
            if let Some(end) = end {
                captures.insert(name.clone(), String::from(&text[..end]));
            }
            end.is_some()
        }
    }
}

/// Returns the byte indices at which a part of the text may end, the shortest part first.
fn possible_end_indices(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.char_indices().map(|(place, _)| place).chain([text.len()])
}

/// Replaces each `{name}` in a template by its captured text. `word` translates the text, given the name and the
/// capture.
///
/// # Errors
/// Names without a capture, and captured texts that `word` does not know.
pub(super) fn filled(
    template: &str,
    captures: &Captures,
    word: &dyn Fn(&str, &str) -> Result<String, String>,
) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').ok_or("a brace that is not closed")?;
        text.push_str(before);
        if !is_capture_name(name) {
            // These braces belong to a TOML table, such as a stage, and not to a name.
            text.push('{');
            rest = after;
            continue;
        }
        let captured = captures.get(name).ok_or_else(|| format!("`{{{name}}}`, which no pattern keeps"))?;
        text.push_str(&word(name, captured)?);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured_texts(pattern: &str, text: &str) -> Option<Vec<(String, String)>> {
        let mut captures = Captures::new();
        let is_match = TextPattern::parse(pattern).unwrap().matches(text, &mut captures);
        is_match.then(|| captures.into_iter().collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(name, text)| (String::from(*name), String::from(*text))).collect())
    }

    #[test]
    fn captures_take_the_shortest_text_that_matches() {
        assert_eq!(
            captured_texts("read {size} B; *window {window}", "read 8 B; random; window 4 KiB"),
            pairs(&[("size", "8"), ("window", "4 KiB")])
        );
        assert_eq!(captured_texts("{a}-{b}", "x-y-z"), pairs(&[("a", "x"), ("b", "y-z")]));
        assert_eq!(captured_texts("*; {a}", "x; y; z"), pairs(&[("a", "y; z")]));
        assert_eq!(captured_texts("{a}", ""), None);
        assert_eq!(captured_texts("abc", "abcd"), None);
        assert_eq!(captured_texts("*", ""), pairs(&[]));
    }

    #[test]
    fn unnamed_braces_are_refused_in_patterns_and_literal_in_templates() {
        assert!(TextPattern::parse("{").is_err() && TextPattern::parse("{A}").is_err());
        let captures = Captures::from([(String::from("n"), String::from("3"))]);
        let word = |_: &str, text: &str| Ok(String::from(text));
        assert_eq!(filled("s=[{ name = \"{n}\" }]", &captures, &word).unwrap(), "s=[{ name = \"3\" }]");
        assert!(filled("{m}", &captures, &word).unwrap_err().contains("`{m}`"));
    }
}
