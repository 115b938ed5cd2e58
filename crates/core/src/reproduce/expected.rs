//! The published side of a reproduction: `expected.csv`, one printed value a line.
//!
//! | column | holds |
//! |---|---|
//! | `id` | identifier of the result, with a suffix where one result prints several values |
//! | `quantity`, `unit` | what was measured, in words, and in what |
//! | `published` | the printed value; for a shape 1, that is: true |
//! | `tolerance_pct` | how far from it a simulated value may lie, in per cent |
//! | `low`, `high` | bounds of a claim such as "more than 700,000", kept as well as the tolerance; may be empty |
//! | `kind` | `number` or `shape` |
//! | `source` | where it is printed |
//! | `note` | how the value, the bounds or the tolerance follow from the text; may be empty |
//!
//! Fields are separated by commas; one that holds commas is put in double quotes (RFC 4180).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use crate::config::document::Place;
use crate::problem::{Problem, Problems};

const COLUMNS: [&str; 10] =
    ["id", "quantity", "unit", "published", "tolerance_pct", "low", "high", "kind", "source", "note"];

/// What kind of claim a row makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A value with a unit.
    Number,
    /// A statement that holds or does not: published and simulated are 1 or 0.
    Shape,
}

/// A published result.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub place: Place,
    pub id: String,
    pub quantity: String,
    pub unit: String,
    pub published: f64,
    pub tolerance_pct: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub kind: Kind,
    pub source: String,
}

/// Read the table; all problems go to `problems`, and rows with any are left out.
pub(super) fn read(file: &str, text: &str, problems: &mut Problems) -> Vec<Expected> {
    let mut rows = Vec::new();
    let file: Arc<str> = file.into();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = Place { file: file.clone(), line: Some(number + 1) };
        let reader = fields(line).map(|fields| Reader { place: &place, fields, problems: Vec::new() });
        match reader {
            Err(found) => problems.0.push(place.problem(found, "commas and quotes only inside double quotes")),
            Ok(reader) if number == 0 => problems.0.extend(reader.head()),
            Ok(reader) => match reader.row() {
                Ok(row) => rows.push(row),
                Err(found) => problems.0.extend(found),
            },
        }
    }
    refuse_repetitions(&rows, problems);
    rows
}

fn refuse_repetitions(rows: &[Expected], problems: &mut Problems) {
    let mut ids = BTreeSet::new();
    for row in rows.iter().filter(|row| !ids.insert(row.id.as_str())) {
        problems.0.push(row.place.problem(format!("a second row `{}`", row.id), "one row for each id"));
    }
}

/// Cut a line at its commas.
fn fields(line: &str) -> Result<Vec<String>, String> {
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

/// A field after its opening quote; two quotes stand for one.
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

/// Reads the fields of one line and collects what is wrong with them.
struct Reader<'a> {
    place: &'a Place,
    fields: Vec<String>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn refuse(&mut self, found: impl Into<String>, allowed: &str) {
        self.problems.push(self.place.problem(found, allowed));
    }

    fn head(mut self) -> Vec<Problem> {
        if self.fields != COLUMNS {
            self.refuse(format!("columns {}", self.fields.join(",")), &COLUMNS.join(","));
        }
        self.problems
    }

    fn row(mut self) -> Result<Expected, Vec<Problem>> {
        if self.fields.len() != COLUMNS.len() {
            self.refuse(format!("{} fields", self.fields.len()), &format!("{} fields", COLUMNS.len()));
            return Err(self.problems);
        }
        let row = Expected {
            place: self.place.clone(),
            id: self.text("id"),
            quantity: self.text("quantity"),
            unit: self.field("unit"),
            published: self.number("published").unwrap_or(f64::NAN),
            tolerance_pct: self.number("tolerance_pct").unwrap_or(f64::NAN),
            low: self.bound("low"),
            high: self.bound("high"),
            kind: self.kind(),
            source: self.text("source"),
        };
        self.check(&row);
        if self.problems.is_empty() { Ok(row) } else { Err(self.problems) }
    }

    fn check(&mut self, row: &Expected) {
        if row.kind == Kind::Shape && row.published != 1.0 {
            self.refuse(format!("published {} of a shape", row.published), "1, that is: true");
        }
        if row.published == 0.0 {
            self.refuse("published 0, from which no relative error can be told", "a quantity that is not 0");
        }
        if row.tolerance_pct < 0.0 {
            self.refuse(format!("tolerance_pct {}", row.tolerance_pct), "0 or more");
        }
        let low = row.low.unwrap_or(f64::NEG_INFINITY);
        if low > row.high.unwrap_or(f64::INFINITY) {
            self.refuse("low above high", "low up to high");
        }
    }

    /// The length of the line has been checked.
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

    fn number(&mut self, column: &str) -> Option<f64> {
        let text = self.field(column);
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        if number.is_none() {
            self.refuse(format!("{column} `{text}`"), "a number");
        }
        number
    }

    fn bound(&mut self, column: &str) -> Option<f64> {
        if self.field(column).is_empty() { None } else { self.number(column) }
    }

    fn kind(&mut self) -> Kind {
        match self.field("kind").as_str() {
            "number" => Kind::Number,
            "shape" => Kind::Shape,
            other => {
                self.refuse(format!("kind `{other}`"), "number, shape");
                Kind::Number
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_rows(lines: &str) -> Result<Vec<Expected>, Vec<String>> {
        let mut problems = Problems::default();
        let rows = read("expected.csv", &format!("{}\n{lines}", COLUMNS.join(",")), &mut problems);
        match problems.0.is_empty() {
            true => Ok(rows),
            false => Err(problems.0.iter().map(Problem::to_string).collect()),
        }
    }

    #[test]
    fn quoted_fields_hold_commas_and_quotes() {
        assert_eq!(fields(r#"a,"b, ""c""",,d "#).unwrap(), ["a", r#"b, "c""#, "", "d"]);
        assert!(fields(r#""a"#).is_err());
        assert!(fields(r#""a"b,c"#).is_err());
    }

    #[test]
    fn a_row_is_read_with_its_bounds() {
        let rows = read_rows("A-1,\"rate, reads\",1/s,700000,5,700000,,number,abstract,\n").unwrap();
        assert_eq!((rows[0].published, rows[0].low, rows[0].high), (7e5, Some(7e5), None));
        assert_eq!((rows[0].quantity.as_str(), rows[0].place.line), ("rate, reads", Some(2)));
    }

    #[test]
    fn every_problem_of_every_row_is_reported_with_its_line() {
        let found = read_rows("A,q,ns,x,-1,2,1,nubmer,,\n\nA,q\nB,q,,2,0,,,shape,s,\n").unwrap_err();
        assert_eq!(
            found,
            [
                "expected.csv:2: published `x`; allowed: a number",
                "expected.csv:2: kind `nubmer`; allowed: number, shape",
                "expected.csv:2: no source; allowed: a text",
                "expected.csv:2: tolerance_pct -1; allowed: 0 or more",
                "expected.csv:2: low above high; allowed: low up to high",
                "expected.csv:4: 2 fields; allowed: 10 fields",
                "expected.csv:5: published 2 of a shape; allowed: 1, that is: true",
            ]
        );
    }

    #[test]
    fn an_id_cannot_be_given_twice() {
        let found = read_rows("A,q,,1,0,,,shape,s,\nA,q,,1,0,,,shape,s,\n").unwrap_err();
        assert_eq!(found, ["expected.csv:3: a second row `A`; allowed: one row for each id"]);
    }

    #[test]
    fn a_wrong_head_is_refused() {
        let mut problems = Problems::default();
        read("e", "id,value\n", &mut problems);
        assert!(problems.0[0].found.contains("id,value"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,60}") {
            let _ = read_rows(&text);
        }

        #[test]
        fn any_fields_survive_quoting(texts in prop::collection::vec("[a-z,\" ]{0,8}", 1..6)) {
            let quoted = texts.iter().map(|text| format!("\"{}\"", text.replace('"', "\"\"")));
            let line = quoted.collect::<Vec<_>>().join(",");
            prop_assert_eq!(fields(&line).unwrap(), texts);
        }
    }
}
