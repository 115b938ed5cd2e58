//! TOML text as a tree in which every key and value has its file and line.
//!
//! The parser reports all syntax errors of a text at once. Despite such errors, it still returns the entries that are
//! certain, so that problems in their values are found in the same run.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::problem::Problem;

/// Largest number of characters of a value that an error message quotes.
const QUOTE_CHARACTERS_MAX: usize = 40;
/// Message of the TOML parser for a key or table that is given twice. After this error alone, the structure of the rest
/// of the text is still certain.
const DUPLICATE: &str = "duplicate key";

/// Position of a key or value in a text: file and line, for error messages.
#[derive(Clone, Debug)]
pub struct Place {
    /// Name of the file, or the command-line option that the text comes from, such as `--set media.read_ns=300`.
    pub file: Arc<str>,
    /// Line of the key or value, from 1; `None` for a text that has no lines.
    pub line: Option<usize>,
}

/// TOML value with its position in the text.
#[derive(Clone, Debug)]
pub struct Node {
    /// File and line at which the value starts.
    pub place: Place,
    /// Parsed TOML value, with its type.
    pub value: Value,
    /// Text of the value as written, truncated to the length that a message quotes.
    pub quote: String,
}

/// TOML value of any type, such as an integer, a string or a table.
#[derive(Clone, Debug)]
pub enum Value {
    /// Whole number. A number that does not fit in 128 bits is clamped to the nearest limit.
    Integer(i128),
    /// TOML float.
    Float(f64),
    /// TOML boolean.
    Boolean(bool),
    /// TOML string.
    String(String),
    /// TOML array, with the place of each element.
    Array(Vec<Node>),
    /// TOML table, inline or with a header of its own.
    Table(Table),
    /// Date or time, which no key accepts.
    Datetime,
}

/// Entries of a TOML table, in the order of the text.
pub type Table = Vec<Entry>;

/// Entry of a TOML table: a key with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of the key, without the names of enclosing tables.
    pub key: String,
    /// Position of the key. The value may be an array or table that ends several lines below.
    pub place: Place,
    /// Value of the entry, with a position of its own.
    pub node: Node,
}

/// Result of parsing a TOML text: its entries and its syntax errors.
#[derive(Debug)]
pub struct ParsedToml {
    /// Entries at the top level of the text. Empty if a damaged table header makes all of them uncertain.
    pub table: Table,
    /// Syntax errors of the text, in order, at most one per line.
    pub problems: Vec<Problem>,
}

/// Returns the entry named `key` of a table, or `None`.
pub fn entry<'a>(table: &'a Table, key: &str) -> Option<&'a Entry> {
    table.iter().find(|entry| entry.key == key)
}

impl Place {
    /// Returns the position that stands for a text without lines: the command line, or a whole file.
    pub fn whole(file: impl Into<Arc<str>>) -> Place {
        Place { file: file.into(), line: None }
    }

    /// Returns a problem at this position: the text that was found, and a text of what is allowed.
    pub fn problem(&self, found: impl Into<String>, allowed: impl Into<String>) -> Problem {
        Problem::new(&*self.file, self.line, found, allowed)
    }
}

/// Parses a TOML text. The returned table is empty if a damaged header makes it uncertain which section later keys
/// belong to.
pub fn parse(file: &str, text: &str) -> ParsedToml {
    if text.trim_start().starts_with('{') {
        let problem =
            Place::whole(file).problem("the file is JSON", "TOML, with lines such as read_ns = 300 below [media]");
        return ParsedToml { table: Table::new(), problems: vec![problem] };
    }
    let source = TomlTextSource::new(file, text);
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut problems: Vec<Problem> = errors.iter().map(|error| source.problem(error)).collect();
    problems.sort_by_key(|problem| problem.line);
    problems.dedup_by_key(|problem| problem.line);
    let headers_are_sure = !errors.iter().any(|error| source.makes_section_uncertain(error));
    let table = if headers_are_sure { source.table(root.get_ref()) } else { Table::new() };
    ParsedToml { table, problems }
}

/// Parses a text that is a single TOML value, such as `300` or `"sleep"`.
///
/// # Errors
///
/// The message of the TOML parser.
pub(crate) fn parse_value(place: &Place, text: &str) -> Result<Node, String> {
    let source = TomlTextSource { file: place.file.clone(), text, line_starts: None };
    let value = DeValue::parse(text).map_err(|error| String::from(error.message()))?;
    Ok(source.node(&value))
}

/// TOML text with the byte offsets of its lines, to find the line of a syntax element.
struct TomlTextSource<'a> {
    file: Arc<str>,
    text: &'a str,
    /// Byte offset at which each line starts; `None` if messages do not name lines.
    line_starts: Option<Vec<usize>>,
}

impl<'a> TomlTextSource<'a> {
    fn new(file: &str, text: &'a str) -> TomlTextSource<'a> {
        let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = Some(std::iter::once(0).chain(after_newlines).collect());
        TomlTextSource { file: file.into(), text, line_starts }
    }

    fn place(&self, at: usize) -> Place {
        let line = self.line_starts.as_ref().map(|starts| starts.partition_point(|start| *start <= at));
        Place { file: self.file.clone(), line }
    }

    fn quote(&self, span: Range<usize>) -> String {
        let first_line = self.text.get(span).unwrap_or("").lines().next().unwrap_or("");
        let mut quote: String = first_line.chars().take(QUOTE_CHARACTERS_MAX).collect();
        if quote.len() < first_line.len() {
            quote.push('…');
        }
        quote
    }

    fn problem(&self, error: &toml::de::Error) -> Problem {
        let span = error.span().unwrap_or(0..0);
        let place = self.place(span.start);
        let found = match self.quote(span.clone()).as_str() {
            "" => format!("{}, in `{}`", error.message(), self.line(&place)),
            quote => format!("{}, at `{quote}`", error.message()),
        };
        place.problem(found, "")
    }

    fn line(&self, place: &Place) -> &str {
        let number = place.line.unwrap_or(1);
        self.text.lines().nth(number - 1).unwrap_or("").trim()
    }

    /// True if a syntax error makes it uncertain which section the following keys belong to.
    fn makes_section_uncertain(&self, error: &toml::de::Error) -> bool {
        let at = error.span().map_or(0, |span| span.start);
        error.message() != DUPLICATE && self.line(&self.place(at)).starts_with('[')
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        let entry = |(key, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| Entry {
            key: key.get_ref().to_string(),
            place: self.place(key.span().start),
            node: self.node(value),
        };
        table.iter().map(entry).collect()
    }

    /// Converts a parsed value and everything inside it. The TOML parser limits the nesting, and so the depth of this
    /// recursion.
    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let converted = match value.get_ref() {
            DeValue::Integer(integer) => Value::Integer(clamp_to_i128(integer.as_str(), integer.radix())),
            DeValue::Float(float) => Value::Float(float.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(boolean) => Value::Boolean(*boolean),
            DeValue::String(string) => Value::String(string.to_string()),
            DeValue::Array(array) => Value::Array(array.iter().map(|item| self.node(item)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table)),
            DeValue::Datetime(_) => Value::Datetime,
        };
        Node { place: self.place(value.span().start), value: converted, quote: self.quote(value.span()) }
    }
}

/// Converts checked digits to an integer. An integer that does not fit in 128 bits becomes the nearest limit.
fn clamp_to_i128(digits: &str, radix: u32) -> i128 {
    let limit = if digits.starts_with('-') { i128::MIN } else { i128::MAX };
    i128::from_str_radix(digits, radix).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Option<usize>> {
        parse("t", text).problems.iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn keys_and_values_have_their_line_numbers() {
        let table = parse("t", "# head\r\na = 1\r\n\r\n[s]\r\nb = [\r\n2,\r\n]\r\n").table;
        let section = entry(&table, "s").unwrap();
        let Value::Table(inner) = &section.node.value else { panic!() };
        assert_eq!(entry(&table, "a").unwrap().place.line, Some(2));
        assert_eq!(section.place.line, Some(4));
        assert_eq!(entry(inner, "b").unwrap().place.line, Some(5));
        let Value::Array(items) = &inner[0].node.value else { panic!() };
        assert_eq!(items[0].place.line, Some(6));
    }

    #[test]
    fn all_syntax_errors_are_reported_with_lines() {
        assert_eq!(lines("a = \nb = 3\nc = 12x\nd 4\n"), [Some(1), Some(3), Some(4)]);
        assert_eq!(lines("[media]\na = 1\na = 2\n[media]\n"), [Some(3), Some(4)]);
    }

    #[test]
    fn duplicate_key_keeps_other_entries_and_bad_header_drops_them() {
        assert_eq!(parse("t", "a = 1\na = 2\nb = 3\n").table.len(), 2);
        assert!(parse("t", "[media\nb = 3\n").table.is_empty());
    }

    #[test]
    fn integer_beyond_128_bits_is_clamped_to_the_limit() {
        let node = parse_value(&Place::whole("t"), &"9".repeat(60)).unwrap();
        assert!(matches!(node.value, Value::Integer(i128::MAX)));
    }
}
