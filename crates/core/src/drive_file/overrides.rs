//! Overrides: single keys given on the command line, such as `--set media.read_ns=300`.

use crate::config::document::{self, Entry, Node, Place, Table, Value};
use crate::problem::Problem;

/// Key and its value from the command line, which take precedence over a drive file. Reading a drive with the override
/// checks that the key exists and allows the value.
#[derive(Clone, Debug)]
pub struct KeyOverride {
    table: Table,
}

impl KeyOverride {
    /// Parses `section.key=value`, or `key=value` for the keys above all sections. The value is written as in a drive
    /// file; a bare word that TOML does not know is a string.
    ///
    /// # Errors
    /// A problem if there is no `=`, no key, or the value is neither TOML nor a word.
    pub fn parse(text: &str) -> Result<KeyOverride, Problem> {
        KeyOverride::parse_override_given_as(&format!("--set {text}"), text)
    }

    /// Parses `section.key=value` that the user has given in another form, such as `--stack linux-6`; problems quote
    /// that form, `given`.
    ///
    /// # Errors
    /// As [`KeyOverride::parse`].
    pub fn parse_override_given_as(given: &str, text: &str) -> Result<KeyOverride, Problem> {
        KeyOverride::parse_override_at(Place::whole(given), text)
    }

    /// True if the override sets a key of this section.
    pub fn is_of(&self, section: &str) -> bool {
        document::entry(&self.table, section).is_some()
    }

    /// Parses `section.key=value`, or `key=value`; `place` is the position of the text, for messages.
    pub fn parse_override_at(place: Place, text: &str) -> Result<KeyOverride, Problem> {
        let expected = "section.key=value, as in media.read_ns=300";
        let Some((name, value)) = text.split_once('=') else {
            return Err(place.problem("there is no = between key and value", expected));
        };
        let words: Vec<&str> = name.split('.').map(str::trim).collect();
        if words.len() > 2 || words.iter().any(|word| word.is_empty()) {
            return Err(place.problem(format!("{} is not the name of a key", name.trim()), expected));
        }
        let node = parse_value_or_word(&place, value.trim())?;
        Ok(KeyOverride { table: nest_in_key_tables(&place, &words, node) })
    }

    /// Makes an override of a key, given as `section.key` or `key`, from a value of a file; `node` has the value and
    /// its place.
    pub fn at(key: &str, node: &Node) -> KeyOverride {
        let words: Vec<&str> = key.split('.').collect();
        KeyOverride { table: nest_in_key_tables(&node.place, &words, node.clone()) }
    }

    /// Returns the override as the entries of a drive file that gives this key alone.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }
}

/// Returns a value as a table of its key: `{ words[0] = { words[1] = node } }`.
fn nest_in_key_tables(place: &Place, words: &[&str], node: Node) -> Table {
    let Some((first, rest)) = words.split_first() else {
        return Table::new();
    };
    let node = match rest {
        [] => node,
        _ => Node {
            quote: node.quote.clone(),
            place: place.clone(),
            value: Value::Table(nest_in_key_tables(place, rest, node)),
        },
    };
    vec![Entry { key: String::from(*first), place: place.clone(), node }]
}

/// Parses a value as TOML; a text that is no TOML becomes a string if it may be a bare word.
fn parse_value_or_word(place: &Place, text: &str) -> Result<Node, Problem> {
    document::parse_value(place, text).or_else(|error| match is_bare_word(text) {
        true => Ok(word(place, text)),
        false => {
            Err(place.problem(format!("`{text}` is not a value: {error}"), "a TOML value, or a word without quotes"))
        }
    })
}

/// True if a text may be a bare word: it is not empty, has no control characters, and does not start like a TOML
/// string, array or table.
fn is_bare_word(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(['"', '\'', '[', '{']) && !text.contains(char::is_control)
}

/// Returns a bare word as a node of TOML, which is a string.
fn word(place: &Place, text: &str) -> Node {
    let text = String::from(text);
    Node { place: place.clone(), value: Value::String(text.clone()), quote: text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        let mut table = KeyOverride::parse(text).unwrap().table;
        match table.remove(0).node.value {
            Value::Table(mut inner) => inner.remove(0).node.value,
            value => value,
        }
    }

    #[test]
    fn override_value_is_toml_or_a_bare_string() {
        assert!(matches!(value("media.read_ns=300"), Value::Integer(300)));
        assert!(matches!(value(" media.read_ns = 2.5 "), Value::Float(2.5)));
        assert!(matches!(value("nvme.interrupts=true"), Value::Boolean(true)));
        assert!(matches!(value("media.preset=dram"), Value::String(word) if word == "dram"));
        assert!(matches!(value("name='a = b'"), Value::String(text) if text == "a = b"));
        assert!(matches!(value("stack.stages=[]"), Value::Array(items) if items.is_empty()));
    }

    #[test]
    fn override_without_key_and_value_shows_the_form() {
        for text in ["", "media.read_ns", "=3", "media.=3", ".read_ns=3", "a.b.c=3", "a.b=", "a.b=[1", "a.b='x"] {
            let problem = KeyOverride::parse(text).unwrap_err();
            assert_eq!(problem.file, format!("--set {text}"));
            assert!(!problem.allowed.is_empty(), "{problem}");
        }
    }
}
