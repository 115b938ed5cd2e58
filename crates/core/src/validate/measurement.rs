//! Measurements: the table of values with their sources and conditions, one value a line.

use crate::problem::{Problem, Problems};
use crate::reproduce::fields;

/// Columns of the table, in order.
pub const COLUMNS: [&str; 12] =
    ["id", "source", "machine", "device", "link", "software", "workload", "quantity", "value", "unit", "kind", "note"];

/// Measured value with the conditions under which it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredValue {
    /// Value in the unit of the row; of a bound, such as `>512`, its number.
    pub value: f64,
    /// Texts of the columns, in the order of [`COLUMNS`].
    texts: Vec<String>,
}

impl MeasuredValue {
    /// Text of a column; `None` if there is no such column.
    pub fn column(&self, name: &str) -> Option<&str> {
        let place = COLUMNS.iter().position(|column| *column == name)?;
        Some(&self.texts[place])
    }

    /// Identifier of the row.
    pub fn id(&self) -> &str {
        &self.texts[0]
    }

    /// Short name of the source: the identifier up to its first hyphen.
    pub fn source(&self) -> &str {
        self.id().split('-').next().unwrap_or_default()
    }

    /// Measured quantity in words.
    pub fn quantity(&self) -> &str {
        self.column("quantity").unwrap_or_default()
    }

    /// Unit of the value.
    pub fn unit(&self) -> &str {
        self.column("unit").unwrap_or_default()
    }
}

/// Reads the table; `file` names it in problems.
///
/// # Errors
/// Each line with another number of fields, without a number as its value, or with an identifier that came before.
pub fn read(file: &str, text: &str) -> Result<Vec<MeasuredValue>, Problems> {
    let mut lines = text.lines().enumerate();
    let (mut rows, mut problems) = (Vec::new(), Problems::default());
    let head = lines.next().map_or(Ok(Vec::new()), |(_, line)| fields(line));
    if head.as_deref().unwrap_or_default() != COLUMNS {
        problems.0.push(Problem::new(file, 1, "another head", COLUMNS.join(",")));
    }
    let mut known = std::collections::BTreeSet::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        match row(line) {
            Ok(row) if known.insert(String::from(row.id())) => rows.push(row),
            Ok(row) => {
                let found = format!("a second row `{}`", row.id());
                problems.0.push(Problem::new(file, number + 1, found, "one row for each id"));
            }
            Err(found) => problems.0.push(Problem::new(file, number + 1, found, COLUMNS.join(","))),
        }
    }
    problems.or(rows)
}

fn row(line: &str) -> Result<MeasuredValue, String> {
    let texts = fields(line)?;
    if texts.len() != COLUMNS.len() {
        return Err(format!("{} fields", texts.len()));
    }
    // A bound, such as `>512`, stands as its number; plans leave such rows out.
    let value = texts[8].trim_start_matches('>').parse::<f64>().ok().filter(|value| value.is_finite());
    value.map(|value| MeasuredValue { value, texts: texts.clone() }).ok_or_else(|| format!("the value `{}`", texts[8]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_faulty_line_is_told_and_none_is_dropped() {
        let text = format!(
            "{}\nA-1,s,m,d,l,so,w,q,1.5,ns,result,\nA-1,s,m,d,l,so,w,q,2,ns,result,\nB\nC,,,,,,,,x,,,\n",
            COLUMNS.join(",")
        );
        let problems: Vec<String> = read("t.csv", &text).unwrap_err().0.iter().map(Problem::to_string).collect();
        let starts = ["t.csv:3: a second row `A-1`", "t.csv:4: 1 fields", "t.csv:5: the value `x`"];
        assert!(problems.iter().zip(starts).all(|(found, start)| found.starts_with(start)), "{problems:?}");
        assert_eq!(problems.len(), 3);
        assert!(read("t.csv", "id\n").unwrap_err().to_string().contains("t.csv:1: another head"));
    }

    #[test]
    fn columns_are_found_by_name() {
        let text = format!("{}\nA-1,s,m,d,l,so,\"w, x\",q,1.5,ns,result,n\n", COLUMNS.join(","));
        let row = &read("t.csv", &text).unwrap()[0];
        assert_eq!((row.source(), row.value, row.column("workload")), ("A", 1.5, Some("w, x")));
        assert_eq!(row.column("colour"), None);
    }
}
