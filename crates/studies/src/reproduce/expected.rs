//! Published results of a reproduction: reader of `expected.csv`, which has one printed value or statement a line.
//!
//! | column | holds |
//! |---|---|
//! | `id` | identifier of the result, with a suffix where one result prints several values |
//! | `kind` | `input` (the model takes it as it is given), `number` or `shape` |
//! | `quantity`, `unit` | description of what was measured, and its unit |
//! | `printed` | the digits that the paper prints, with a power of ten into the unit: `2.432e3`; empty for a statement |
//! | `words` | the paper's own words at the number: `about`, `just under`, …; empty if there are none |
//! | `source` | place in the paper at which the result is printed |
//! | `note` | the wording, and what the quantity is taken to mean; may be empty |
//!
//! No column holds a tolerance: it follows from `printed` and `words` alone (see [`super::printed`]). Fields are
//! separated by commas; one that holds commas is put in double quotes (RFC 4180).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::printed::{Printed, Words};
pub use crate::results::documents::ClaimKind;
use phaselink_core::config::document::Place;
use phaselink_core::problem::{Problem, Problems};

const COLUMNS: [&str; 8] = ["id", "kind", "quantity", "unit", "printed", "words", "source", "note"];

/// One published result: a printed number or a statement, with its source.
#[derive(Clone, Debug)]
pub(super) struct PublishedResult {
    pub place: Place,
    pub id: String,
    pub quantity: String,
    pub unit: String,
    /// Printed number; `None` for a statement.
    pub printed: Option<Printed>,
    pub words: Words,
    pub kind: ClaimKind,
    pub source: String,
}

impl PublishedResult {
    /// Returns the published value: the printed number, or 1 (true) for a statement.
    pub(super) fn published(&self) -> f64 {
        self.printed.map_or(1.0, |printed| printed.value)
    }

    /// Returns the lowest and the highest simulated value that count as the published one.
    pub(super) fn accepted(&self) -> (f64, f64) {
        self.printed.map_or((1.0, 1.0), |printed| printed.accepted(self.words))
    }

    /// Returns the largest magnitude of a relative error, in per cent of the published value, that counts as
    /// reproduced.
    pub(super) fn tolerance_pct(&self) -> f64 {
        let (low, high) = self.accepted();
        let share = (self.published() - low).max(high - self.published()) / self.published();
        (1e6 * 100.0 * share).round() / 1e6
    }
}

/// Reads the table of published results. All problems are added to `problems`, and rows with problems are left out.
pub(super) fn read(file: &str, text: &str, problems: &mut Problems) -> Vec<PublishedResult> {
    let mut rows = Vec::new();
    let file: Arc<str> = file.into();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = Place { file: file.clone(), line: Some(number + 1) };
        let reader = fields(line).map(|fields| RowReader { place: &place, fields, problems: Vec::new() });
        match reader {
            Err(found) => problems.0.push(place.problem(found, "commas and quotes only inside double quotes")),
            Ok(reader) if number == 0 => problems.0.extend(reader.read_header_row()),
            Ok(reader) => match reader.row() {
                Ok(row) => rows.push(row),
                Err(found) => problems.0.extend(found),
            },
        }
    }
    refuse_duplicate_ids(&rows, problems);
    rows
}

fn refuse_duplicate_ids(rows: &[PublishedResult], problems: &mut Problems) {
    let mut ids = BTreeSet::new();
    for row in rows.iter().filter(|row| !ids.insert(row.id.as_str())) {
        problems.0.push(row.place.problem(format!("a second row `{}`", row.id), "one row for each id"));
    }
}

/// Splits a line of comma-separated values into its fields, without quotes (RFC 4180, without line breaks in fields).
///
/// # Errors
/// A quote that is not closed on its line, or text behind a closing quote.
pub fn fields(line: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => plain_field(rest),
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err(format!("`{after}` after a closing quote")),
        }
    }
}

fn plain_field(text: &str) -> (String, &str) {
    let (field, after) = text.split_at(text.find(',').unwrap_or(text.len()));
    (String::from(field.trim()), after)
}

/// Reads a quoted field, of which the opening quote has been read. Returns the field, in which two quotes stand for
/// one, and the text after the closing quote.
fn quoted_field(text: &str) -> Result<(String, &str), String> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"').ok_or("a quote that is not closed on its line")?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => rest = more,
            None => return Ok((field, after)),
        }
        field.push('"');
    }
}

/// Reader of one line of published results, which collects the problems of its fields.
struct RowReader<'a> {
    place: &'a Place,
    fields: Vec<String>,
    problems: Vec<Problem>,
}

impl RowReader<'_> {
    fn refuse(&mut self, found: impl Into<String>, allowed: &str) {
        self.problems.push(self.place.problem(found, allowed));
    }

    fn read_header_row(mut self) -> Vec<Problem> {
        if self.fields != COLUMNS {
            self.refuse(format!("columns {}", self.fields.join(",")), &COLUMNS.join(","));
        }
        self.problems
    }

    fn row(mut self) -> Result<PublishedResult, Vec<Problem>> {
        if self.fields.len() != COLUMNS.len() {
            self.refuse(format!("{} fields", self.fields.len()), &format!("{} fields", COLUMNS.len()));
            return Err(self.problems);
        }
        let row = PublishedResult {
            place: self.place.clone(),
            id: self.text("id"),
            quantity: self.text("quantity"),
            unit: self.field("unit"),
            printed: self.printed(),
            words: self.words(),
            kind: self.kind(),
            source: self.text("source"),
        };
        self.check(&row);
        if self.problems.is_empty() { Ok(row) } else { Err(self.problems) }
    }

    fn check(&mut self, row: &PublishedResult) {
        match (row.kind, row.printed) {
            (ClaimKind::Number, None) if self.field("printed").is_empty() => {
                self.refuse("a number without its printed digits", "printed, as in 2.432e3");
            }
            (ClaimKind::Shape, Some(_)) => {
                self.refuse("a shape with a printed number", "a statement, or the kind number")
            }
            (_, None) if row.words != Words::Plain => self.refuse("words without a number", "both, or neither"),
            _ => {}
        }
    }

    /// Returns the text of a column. The number of fields of the line must have been checked.
    fn field(&self, column: &str) -> String {
        let place = COLUMNS.iter().position(|name| *name == column).expect("one of the columns");
        self.fields[place].clone()
    }

    fn text(&mut self, column: &str) -> String {
        let text = self.field(column);
        if text.is_empty() {
            self.refuse(format!("no {column}"), "a text");
        }
        text
    }

    fn printed(&mut self) -> Option<Printed> {
        let text = self.field("printed");
        let printed = Printed::parse(&text);
        if printed.is_none() && !text.is_empty() {
            self.refuse(format!("printed `{text}`"), "digits above 0, with a power of ten, as in 2.432e3");
        }
        printed
    }

    fn words(&mut self) -> Words {
        let text = self.field("words");
        Words::parse(&text).unwrap_or_else(|| {
            self.refuse(format!("words `{text}`"), &Words::known());
            Words::Plain
        })
    }

    fn kind(&mut self) -> ClaimKind {
        match self.field("kind").as_str() {
            "input" => ClaimKind::Input,
            "number" => ClaimKind::Number,
            "shape" => ClaimKind::Shape,
            other => {
                self.refuse(format!("kind `{other}`"), "input, number, shape");
                ClaimKind::Number
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_rows(lines: &str) -> Result<Vec<PublishedResult>, Vec<String>> {
        let mut problems = Problems::default();
        let rows = read("expected.csv", &format!("{}\n{lines}", COLUMNS.join(",")), &mut problems);
        match problems.0.is_empty() {
            true => Ok(rows),
            false => Err(problems.0.iter().map(Problem::to_string).collect()),
        }
    }

    #[test]
    fn quoted_csv_fields_may_hold_commas_and_quotes() {
        assert_eq!(fields(r#"a,"b, ""c""",,d "#).unwrap(), ["a", r#"b, "c""#, "", "d"]);
        assert!(fields(r#""a"#).is_err());
        assert!(fields(r#""a"b,c"#).is_err());
    }

    #[test]
    fn published_row_is_read_with_the_tolerance_of_its_words() {
        let rows = read_rows("A-1,number,\"rate, reads\",1/s,700e3,exceed,abstract,\n").unwrap();
        assert_eq!(rows[0].published(), 7e5);
        assert_eq!(rows[0].tolerance_pct(), 20.0);
        assert!(rows[0].accepted().0 > 699_999.0 && rows[0].accepted().0 <= 7e5);
        assert_eq!((rows[0].quantity.as_str(), rows[0].place.line), ("rate, reads", Some(2)));
    }

    #[test]
    fn all_problems_of_published_rows_are_reported_with_lines() {
        let found =
            read_rows("A,nubmer,q,ns,x,rather,,\n\nA,q\nB,shape,q,,2,,s,\nC,number,q,,,,s,\nD,shape,q,,,about,s,\n");
        assert_eq!(
            found.unwrap_err(),
            [
                String::from(
                    "expected.csv:2: printed `x`; allowed: digits above 0, with a power of ten, as in 2.432e3"
                ),
                format!("expected.csv:2: words `rather`; allowed: {}", Words::known()),
                String::from("expected.csv:2: kind `nubmer`; allowed: input, number, shape"),
                String::from("expected.csv:2: no source; allowed: a text"),
                String::from("expected.csv:4: 2 fields; allowed: 8 fields"),
                String::from("expected.csv:5: a shape with a printed number; allowed: a statement, or the kind number"),
                String::from("expected.csv:6: a number without its printed digits; allowed: printed, as in 2.432e3"),
                String::from("expected.csv:7: words without a number; allowed: both, or neither"),
            ]
        );
    }

    #[test]
    fn duplicate_row_id_is_refused() {
        let found = read_rows("A,shape,q,,,,s,\nA,shape,q,,,,s,\n").unwrap_err();
        assert_eq!(found, ["expected.csv:3: a second row `A`; allowed: one row for each id"]);
    }

    #[test]
    fn wrong_csv_header_is_refused() {
        let mut problems = Problems::default();
        read("e", "id,value\n", &mut problems);
        assert!(problems.0[0].found.contains("id,value"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn published_row_reader_never_panics(text in "\\PC{0,60}") {
            let _ = read_rows(&text);
        }

        #[test]
        fn quoted_csv_fields_read_back_unchanged(texts in prop::collection::vec("[a-z,\" ]{0,8}", 1..6)) {
            let quoted = texts.iter().map(|text| format!("\"{}\"", text.replace('"', "\"\"")));
            let line = quoted.collect::<Vec<_>>().join(",");
            prop_assert_eq!(fields(&line).unwrap(), texts);
        }
    }
}
