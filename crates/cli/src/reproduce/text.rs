//! Judged results as a table, as JSON and as comma-separated values.

use std::fmt::Write;

use phaselink_core::report::Table;
use phaselink_core::reproduce::{Kind, Row, Verdict};
use serde_json::Value;

use crate::describe;
use crate::output::{Style, styled, with_bold_head};

/// Longest description of a quantity in the table.
const QUANTITY_CHARACTERS_MAX: usize = 30;

/// The table, the reasons for what is not reproduced, and a count.
pub fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for paper in rows.chunk_by(|left, right| left.paper == right.paper) {
        let _ = writeln!(text, "{}\n", styled(&paper[0].paper, Style::Bold));
        text.push_str(&coloured(&table(paper).to_string(), paper));
        text.push('\n');
    }
    write_reasons(&mut text, rows, Verdict::Unexplained, "Unexplained: the model makes no claim");
    write_reasons(&mut text, rows, Verdict::Off, "Off");
    let count = |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let fitted = rows.iter().filter(|row| row.fitted > 0).count();
    let _ = writeln!(
        text,
        "{}: {} reproduced, {} off, {} unexplained. {fitted} depend on fitted constants.",
        describe::counted(rows.len() as u64, "result"),
        count(Verdict::Reproduced),
        count(Verdict::Off),
        count(Verdict::Unexplained),
    );
    text
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new().left("id").left("quantity").right("published").right("simulated").left("unit");
    for column in ["error %", "allowed"] {
        table = table.right(column);
    }
    table = table.left("verdict").right("fitted");
    for row in rows {
        table.row([
            row.id.clone(),
            shortened(&row.quantity),
            value(row, Some(row.published)),
            value(row, row.simulated),
            row.unit.clone(),
            error(row),
            if row.kind == Kind::Shape { String::new() } else { row.tolerance_pct.to_string() },
            String::from(verdict(row)),
            if row.fitted == 0 { String::new() } else { row.fitted.to_string() },
        ]);
    }
    table
}

/// A number, or whether a shape holds.
fn value(row: &Row, value: Option<f64>) -> String {
    match (row.kind, value) {
        (_, None) => String::from("-"),
        (Kind::Shape, Some(value)) => String::from(if value == 1.0 { "holds" } else { "does not" }),
        (Kind::Number, Some(value)) => number(value),
    }
}

/// Five significant digits, or all those before the point.
fn number(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = (4 - magnitude).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => String::from(text.trim_end_matches('0').trim_end_matches('.')),
        false => text,
    }
}

fn error(row: &Row) -> String {
    match (row.kind, row.error_pct) {
        (Kind::Number, Some(error_pct)) => format!("{error_pct:+.2}"),
        _ => String::new(),
    }
}

fn verdict(row: &Row) -> &'static str {
    match row.verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Off => "off",
        Verdict::Unexplained => "unexplained",
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= QUANTITY_CHARACTERS_MAX {
        return String::from(text);
    }
    let kept: String = text.chars().take(QUANTITY_CHARACTERS_MAX - 3).collect();
    format!("{}...", kept.trim_end())
}

/// On a terminal the rows that are not reproduced stand out.
fn coloured(table: &str, rows: &[Row]) -> String {
    const HEAD_LINES: usize = 2;
    let table = with_bold_head(table);
    let style = |line: usize| match rows.get(line.checked_sub(HEAD_LINES)?)?.verdict {
        Verdict::Reproduced => None,
        Verdict::Off => Some(Style::Red),
        Verdict::Unexplained => Some(Style::Yellow),
    };
    let lines = table.lines().enumerate().map(|(number, line)| match style(number) {
        Some(style) => styled(line, style) + "\n",
        None => format!("{line}\n"),
    });
    lines.collect()
}

fn write_reasons(text: &mut String, rows: &[Row], verdict: Verdict, title: &str) {
    let mut rows = rows.iter().filter(|row| row.verdict == verdict).peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "{}", styled(title, Style::Bold));
    for row in rows {
        let reason = format!("  {}: {} ({}; {})", row.id, row.reason, row.quantity, row.source);
        text.push_str(&describe::wrapped(&reason, "      "));
    }
    text.push('\n');
}

/// One result as an object.
pub fn object(row: &Row) -> Value {
    serde_json::to_value(row).expect("a row is plain data")
}

/// All results as lines of comma-separated values, with the keys of [`object`] at their head.
pub fn csv(rows: &[Row]) -> String {
    let objects: Vec<Value> = rows.iter().map(object).collect();
    let mut text = String::new();
    let line = |cells: &mut dyn Iterator<Item = String>| cells.collect::<Vec<_>>().join(",") + "\n";
    if let Some(first) = objects.first().and_then(Value::as_object) {
        text.push_str(&line(&mut first.keys().cloned()));
    }
    for object in objects.iter().filter_map(Value::as_object) {
        text.push_str(&line(&mut object.values().map(cell)));
    }
    text
}

/// A field, quoted where RFC 4180 wants it; lists are separated by blanks.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(|item| item.as_str().unwrap_or_default()).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_have_five_digits_and_no_zeros_at_their_end() {
        let numbers = [0.0, 2432.0, 273_000.0, 0.25, 12.820_001, -0.000_123_456].map(number);
        assert_eq!(numbers, ["0", "2432", "273000", "0.25", "12.82", "-0.00012346"]);
    }

    #[test]
    fn cells_with_commas_or_quotes_are_quoted() {
        let cells = [json!(null), json!("a, \"b\""), json!(1.5), json!(["x", "y"])].map(|value| cell(&value));
        assert_eq!(cells, ["", "\"a, \"\"b\"\"\"", "1.5", "x y"]);
    }
}
