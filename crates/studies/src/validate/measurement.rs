//! Table of measured values with their sources and conditions, one value per line of CSV.

use crate::reproduce::fields;
use phaselink_core::problem::{Problem, Problems};

/// Names of the columns of the CSV table of measurements, in order.
pub const COLUMNS: [&str; 12] =
    ["id", "source", "machine", "device", "link", "software", "workload", "quantity", "value", "unit", "kind", "note"];

/// Measured value with the conditions under which it was measured: one row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredValue {
    /// Measured value in the unit of the row. For a bound such as `>512`, its number.
    pub value: f64,
    /// Texts of all columns of the row, in the order of [`COLUMNS`].
    texts: Vec<String>,
}

impl MeasuredValue {
    /// Returns the row's text in a column; `None` if the table has no such column.
    pub fn column(&self, name: &str) -> Option<&str> {
        let place = COLUMNS.iter().position(|column| *column == name)?;
        Some(&self.texts[place])
    }

    /// Returns the unique identifier of the measurement, its row in the table.
    pub fn id(&self) -> &str {
        &self.texts[0]
    }

    /// Returns the short name of the source: the row's identifier up to its first hyphen.
    pub fn source(&self) -> &str {
        self.id().split('-').next().unwrap_or_default()
    }

    /// Returns the name of the measured quantity, as text.
    pub fn quantity(&self) -> &str {
        self.column("quantity").unwrap_or_default()
    }

    /// Returns the unit of the measured value, as text.
    pub fn unit(&self) -> &str {
        self.column("unit").unwrap_or_default()
    }
}

/// Parses the CSV table of measured values. `file` is its name in problems.
///
/// # Errors
/// Each line with a wrong number of fields, without a number as its value, or with an identifier that came before.
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
    // A bound such as `>512` is read as its number. Plans leave such rows out.
    let value = texts[8].trim_start_matches('>').parse::<f64>().ok().filter(|value| value.is_finite());
    value.map(|value| MeasuredValue { value, texts: texts.clone() }).ok_or_else(|| format!("the value `{}`", texts[8]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faulty_measurement_lines_are_reported() {
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
    fn measurement_columns_are_found_by_name() {
        let text = format!("{}\nA-1,s,m,d,l,so,\"w, x\",q,1.5,ns,result,n\n", COLUMNS.join(","));
        let row = &read("t.csv", &text).unwrap()[0];
        assert_eq!((row.source(), row.value, row.column("workload")), ("A", 1.5, Some("w, x")));
        assert_eq!(row.column("colour"), None);
    }
}
