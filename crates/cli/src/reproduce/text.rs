//! Judged results of papers as tables, JSON and comma-separated values.

use phaselink_core::number::length;
use std::collections::BTreeSet;
use std::fmt::Write;

use phaselink_studies::report::Table;
use phaselink_studies::report::csv::quoted;
use phaselink_studies::reproduce::{ClaimKind, Row, Verdict};
use phaselink_studies::validate::Provenance;
use serde_json::Value;

use crate::describe;
use crate::output::{TextStyle, shown, styled_for_stdout, table_with_bold_heading};

/// Maximum number of characters of a published quantity's description in the table of results.
const QUANTITY_CHARACTERS_MAX: usize = 30;

/// Returns the text of `phaselink reproduce`: a table for each paper, reasons for results that are not reproduced, and
/// numbers of results by verdict.
pub(super) fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for paper in rows.chunk_by(|left, right| left.paper == right.paper) {
        let _ = writeln!(text, "{}\n", styled_for_stdout(&paper[0].paper, TextStyle::Bold));
        text.push_str(&with_coloured_rows(&table(paper).to_string(), paper));
        text.push('\n');
    }
    write_verdict_reasons(
        &mut text,
        rows,
        Verdict::Unexplained,
        "Unexplained: the paper leaves open what is to be compared, or a simulation cannot show it",
    );
    write_verdict_reasons(&mut text, rows, Verdict::Off, "Off");
    text.push_str(&describe::wrapped(&count(rows), ""));
    text
}

/// Returns the formatted table of verdicts, with a line for each paper; see [`summary_table`].
pub(super) fn summary(rows: &[Row]) -> String {
    shown(&summary_table(rows))
}

/// Returns a table with a line for each paper: counts of predictions, of results that depend on fitted constants, of
/// inputs and of fitted constants.
pub(super) fn summary_table(rows: &[Row]) -> Table {
    let mut table = Table::new().left("source").right("predicted").right("reproduced").right("others");
    for column in ["reproduced", "inputs", "fitted constants"] {
        table = table.right(column);
    }
    for paper in rows.chunk_by(|left, right| left.paper == right.paper) {
        let results = |leaning: bool| {
            paper.iter().filter(move |row| row.kind != ClaimKind::Input && is_free_of_fitted_constants(row) != leaning)
        };
        let good = |leaning| results(leaning).filter(|row| row.verdict == Verdict::Reproduced).count();
        let fitted: BTreeSet<&String> = paper.iter().flat_map(|row| &row.fitted_keys).collect();
        let inputs = paper.iter().filter(|row| row.kind == ClaimKind::Input).count();
        let counts = [results(false).count(), good(false), results(true).count(), good(true), inputs, fitted.len()];
        table
            .row([paper[0].paper.clone()].into_iter().chain(counts.map(|count| count.to_string())).collect::<Vec<_>>());
    }
    table
}

/// Returns the conclusion of `phaselink reproduce`: number of reproduced results, and the result that is off by most.
pub(super) fn conclusion(rows: &[Row]) -> Vec<String> {
    let results = || rows.iter().filter(|row| row.kind != ClaimKind::Input);
    let share = |leaning: bool| {
        let of = || results().filter(move |row| is_free_of_fitted_constants(row) != leaning);
        (of().filter(|row| row.verdict == Verdict::Reproduced).count(), of().count())
    };
    let ((good, predictions), (fitted, leaning)) = (share(false), share(true));
    let mut sentences = vec![format!(
        "{good} of {} {} reproduced.",
        describe::counted(length(predictions), "prediction"),
        if good == 1 { "is" } else { "are" }
    )];
    if leaning > 0 {
        let others = describe::counted(length(leaning), "other result");
        sentences
            .push(format!("Of {others}, which lean on fitted or solved constants or return an input, {fitted} are."));
    }
    let off =
        results().filter(|row| row.verdict == Verdict::Off && !is_published_statement(row) && row.error_pct.is_some());
    let farthest = off.max_by(|left, right| {
        let error = |row: &Row| row.error_pct.unwrap_or(0.0).abs();
        error(left).total_cmp(&error(right))
    });
    sentences.extend(
        farthest.map(|row| {
            format!("Farthest off: {} ({}), by {:+.0} %.", row.id, row.quantity, row.error_pct.unwrap_or(0.0))
        }),
    );
    sentences
}

/// Returns the table of the HTML page of `phaselink reproduce`, in which each verdict follows the result's identifier.
pub(super) fn page_table(rows: &[Row]) -> Table {
    let mut table = Table::new().left("id").left("verdict").right("published").right("simulated").left("unit");
    for column in ["error %", "allowed"] {
        table = table.right(column);
    }
    table = table.left("quantity").left("provenance").right("fitted").right("assumed");
    for row in rows {
        table.row([
            row.id.clone(),
            String::from(verdict(row.verdict)),
            value(row, Some(row.published)),
            value(row, row.simulated),
            row.unit.clone(),
            error(row),
            allowed_deviation_text(row),
            row.quantity.clone(),
            String::from(row.provenance.word()),
            nonzero_count_text(row.fitted),
            nonzero_count_text(row.depends_on.len().saturating_sub(row.fitted)),
        ]);
    }
    table
}

/// Returns the results of one paper as a Markdown section with its name.
pub(super) fn markdown(rows: &[Row]) -> String {
    rows.first().map_or(String::new(), |first| format!("## {}\n\n{}\n", first.paper, table(rows).markdown()))
}

/// Returns a sentence with the number of results by verdict: predictions, results that depend on fitted constants, and
/// inputs.
pub(super) fn count(rows: &[Row]) -> String {
    let (inputs, results): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.kind == ClaimKind::Input);
    let (predictions, leaning): (Vec<&Row>, Vec<&Row>) =
        results.iter().partition(|row| is_free_of_fitted_constants(row));
    let fitted: BTreeSet<(&str, &str)> =
        rows.iter().flat_map(|row| row.fitted_keys.iter().map(|key| (row.paper.as_str(), key.as_str()))).collect();
    let papers: BTreeSet<&str> = rows.iter().map(|row| row.paper.as_str()).collect();
    let mut text = format!(
        "{}. Predictions: {}. Results that lean on fitted or solved constants, or return an input: {}. Inputs: {}. {} in {}.",
        describe::counted(length(rows.len()), "row"),
        verdict_counts_text(&predictions),
        verdict_counts_text(&leaning),
        verdict_counts_text(&inputs),
        describe::counted(length(fitted.len()), "fitted constant"),
        describe::counted(length(papers.len()), "paper"),
    );
    let known = predictions.iter().filter_map(|row| row.published_inside).count();
    let inside = predictions.iter().filter(|row| row.published_inside == Some(true)).count();
    if known > 0 {
        let _ = write!(text, " The interval of {inside} of {known} predicted numbers holds the published one.");
    }
    text
}

/// True if no constant was fitted to a published result or its table, so that the simulated result is a prediction.
fn is_free_of_fitted_constants(row: &Row) -> bool {
    row.provenance == Provenance::Predicted
}

/// Formats the number of rows by verdict, as in `12 (9 reproduced, 2 off, 1 unexplained)`.
fn verdict_counts_text(rows: &[&Row]) -> String {
    let count = |wanted: Verdict| rows.iter().filter(|row| row.verdict == wanted).count();
    let all = [Verdict::Given, Verdict::Reproduced, Verdict::Off, Verdict::Unexplained];
    let parts: Vec<String> = all
        .into_iter()
        .map(|wanted| (count(wanted), verdict(wanted)))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    format!("{} ({})", rows.len(), parts.join(", "))
}

/// Returns a table that compares published with simulated values, one row for each published result. It has columns for
/// prediction intervals if any result has one.
pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new().left("id").left("quantity").right("published").right("simulated").left("unit");
    for column in ["error %", "allowed"] {
        table = table.right(column);
    }
    table = table.left("verdict").left("provenance").right("fitted").right("assumed");
    let has_intervals = rows.iter().any(|row| row.interval.is_some());
    if has_intervals {
        table = table.right("from").right("to").left("published").left("most of it from");
    }
    for row in rows {
        let mut cells = vec![
            row.id.clone(),
            shorten_quantity_text(&row.quantity),
            value(row, Some(row.published)),
            value(row, row.simulated),
            row.unit.clone(),
            error(row),
            allowed_deviation_text(row),
            String::from(verdict(row.verdict)),
            String::from(row.provenance.word()),
            nonzero_count_text(row.fitted),
            nonzero_count_text(row.depends_on.len().saturating_sub(row.fitted)),
        ];
        if has_intervals {
            cells.extend(interval(row));
        }
        table.row(cells);
    }
    table
}

fn nonzero_count_text(number: usize) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}

/// Returns the deviation in per cent that the printed digits and words of a paper allow: `2`, or `-1 to 10` if the
/// sides differ.
fn allowed_deviation_text(row: &Row) -> String {
    if is_published_statement(row) || row.kind == ClaimKind::Input {
        return String::new();
    }
    let (below, above) = (row.published - row.accepted.0, row.accepted.1 - row.published);
    let pct = |part: f64| number((1000.0 * part / row.published).round() / 10.0 + 0.0);
    match (below - above).abs() < 1e-6 * row.published {
        true => pct(above),
        false => format!("{} to {}", pct(-below), pct(above)),
    }
}

/// Returns four cells on a row's prediction interval: both ends, the word `inside` or `outside` for the published
/// value, and the constants that contribute most.
fn interval(row: &Row) -> [String; 4] {
    let Some(interval) = &row.interval else { return Default::default() };
    let names: Vec<String> =
        interval.contributions.iter().map(|part| format!("{} {:+.2}", part.key, part.correlation)).collect();
    let place = if row.published_inside == Some(true) { "inside" } else { "outside" };
    [number(interval.low), number(interval.high), String::from(place), names.join(", ")]
}

/// Returns true if a published result is a statement, which holds or does not, and not a number.
pub(super) fn is_published_statement(row: &Row) -> bool {
    row.unit.is_empty() && row.accepted == (1.0, 1.0)
}

/// Formats the value of a published result: a number, or `holds` or `does not` for a statement; `-` without a value.
pub(super) fn value(row: &Row, value: Option<f64>) -> String {
    match value {
        None => String::from("-"),
        Some(value) if is_published_statement(row) => String::from(if value == 1.0 { "holds" } else { "does not" }),
        Some(value) => number(value),
    }
}

/// Formats a number with five significant digits, or with all digits before the point.
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
    match row.error_pct {
        Some(error_pct) if !is_published_statement(row) && row.kind != ClaimKind::Input => {
            format!("{error_pct:+.2}")
        }
        _ => String::new(),
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Given => "given",
        Verdict::Reproduced => "reproduced",
        Verdict::Off => "off",
        Verdict::Unexplained => "unexplained",
    }
}

fn shorten_quantity_text(text: &str) -> String {
    if text.chars().count() <= QUANTITY_CHARACTERS_MAX {
        return String::from(text);
    }
    let kept: String = text.chars().take(QUANTITY_CHARACTERS_MAX - 3).collect();
    format!("{}...", kept.trim_end())
}

/// Returns a table of results with rows that are off in red and unexplained rows in yellow, if standard output is a
/// terminal.
fn with_coloured_rows(table: &str, rows: &[Row]) -> String {
    const HEAD_LINES: usize = 2;
    let table = table_with_bold_heading(table);
    let style = |line: usize| match rows.get(line.checked_sub(HEAD_LINES)?)?.verdict {
        Verdict::Given | Verdict::Reproduced => None,
        Verdict::Off => Some(TextStyle::Red),
        Verdict::Unexplained => Some(TextStyle::Yellow),
    };
    let lines = table.lines().enumerate().map(|(number, line)| match style(number) {
        Some(style) => styled_for_stdout(line, style) + "\n",
        None => format!("{line}\n"),
    });
    lines.collect()
}

fn write_verdict_reasons(text: &mut String, rows: &[Row], verdict: Verdict, title: &str) {
    let mut rows = rows.iter().filter(|row| row.verdict == verdict).peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "{}", styled_for_stdout(title, TextStyle::Bold));
    for row in rows {
        let reason = format!("  {}: {} ({}; {})", row.id, row.reason, row.quantity, row.source);
        text.push_str(&describe::wrapped(&reason, "      "));
    }
    text.push('\n');
}

/// Returns one published result of a paper, with its simulated value and verdict, as a JSON object.
fn object(row: &Row) -> Value {
    serde_json::to_value(row).expect("a row is plain data")
}

/// Returns all results as comma-separated values. The first line has the keys of [`object`].
pub(super) fn csv(rows: &[Row]) -> String {
    let objects: Vec<Value> = rows.iter().map(object).collect();
    let mut text = String::new();
    let line = |cells: &mut dyn Iterator<Item = String>| cells.collect::<Vec<_>>().join(",") + "\n";
    if let Some(first) = objects.first().and_then(Value::as_object) {
        text.push_str(&line(&mut first.keys().cloned()));
    }
    for object in objects.iter().filter_map(Value::as_object) {
        text.push_str(&line(&mut object.values().map(csv_field)));
    }
    text
}

/// Formats a field for comma-separated values, quoted if RFC 4180 requires it.
fn csv_field(value: &Value) -> String {
    quoted(plain(value))
}

/// Formats a value without quotes. The items of a list are separated by blanks.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_have_five_digits_without_trailing_zeros() {
        let numbers = [0.0, 2432.0, 273_000.0, 0.25, 12.820_001, -0.000_123_456].map(number);
        assert_eq!(numbers, ["0", "2432", "273000", "0.25", "12.82", "-0.00012346"]);
    }

    #[test]
    fn csv_fields_with_commas_or_quotes_are_quoted() {
        let values = [json!(null), json!("a, \"b\""), json!(1.5), json!(["x", "y"]), json!(["x,y", "z"])];
        let cells = values.map(|value| csv_field(&value));
        assert_eq!(cells, ["", "\"a, \"\"b\"\"\"", "1.5", "x y", "\"x,y z\""]);
    }
}
