//! Measurements beside the model's values as tables, lists and comma-separated values.

use std::collections::BTreeMap;
use std::fmt::Write;

use phaselink_studies::report::Table;
use phaselink_studies::report::csv::quoted;
use phaselink_studies::validate::{
    Agreement, ConfoundedPair, FoldsDocument, MeasuredValue, Provenance, SourcePlan, ValidatedRow, ValidatedSource,
};

use super::{Validated, count};
use crate::describe;
use crate::output::{Style, shown, styled};

/// Maximum number of classes of unanswered measurements that `phaselink validate` lists. Measurements of all other
/// classes are counted together.
const CLASSES_MAX: usize = 40;

/// Returns the tables of a cross-validation: folds, sources and parameters, for a terminal or in Markdown.
pub(super) fn folds(found: &FoldsDocument, is_markdown: bool) -> String {
    let formatted = |table: &Table| if is_markdown { table.markdown() } else { shown(table) };
    let mut folds = Table::new().left("left out").right("rows").right("estimated from").right("median error %");
    for column in ["rates: WMAPE %", "latencies: median %", "WMAPE %", "bias %", "in 90 % interval"] {
        folds = folds.right(column);
    }
    for fold in &found.folds {
        let name = if fold.order_only { format!("{} (order of size)", fold.name) } else { fold.name.clone() };
        let counts = [fold.agreement.rows, fold.train_rows].map(|count| count.to_string());
        folds.row([name].into_iter().chain(counts).chain(figures(&fold.agreement)));
    }
    let mut sources = Table::new().left("source").right("rows").right("median error %");
    for column in ["rates: WMAPE %", "latencies: median %", "WMAPE %", "bias %", "in 90 % interval"] {
        sources = sources.right(column);
    }
    for it in &found.sources {
        let name_and_count = [it.source.clone(), it.agreement.rows.to_string()];
        sources.row(name_and_count.into_iter().chain(figures(&it.agreement)));
    }
    let mut parts = vec![
        describe::wrapped(&verdict(found), ""),
        formatted(&folds),
        headed("Left-out rows by source", is_markdown),
        formatted(&sources),
    ];
    if !found.curve.is_empty() {
        parts.extend([headed("Error against the number of sources", is_markdown), formatted(&curve(found))]);
    }
    parts.extend([headed("Parameters", is_markdown), formatted(&parameters(found)), confounded(found)]);
    if !found.singles.is_empty() {
        parts.push(headed("Constants from rows of one machine", is_markdown));
        parts.push(format!(
            "No fold can judge them, and they have no spread. With the parameters, {} values are estimated.\n",
            found.parameters.len() + found.singles.len()
        ));
        parts.push(formatted(&singles(found)));
    }
    parts.join("\n")
}

fn headed(title: &str, is_markdown: bool) -> String {
    if is_markdown { format!("### {title}\n") } else { styled(title, Style::Bold) }
}

/// Returns a table of errors against the number of sources from which parameters were estimated.
fn curve(found: &FoldsDocument) -> Table {
    let mut table = Table::new().left("left out, and estimated from").right("rows").right("estimated from");
    table = table.right("rates: WMAPE %").right("latencies: median %");
    for point in &found.curve {
        let errors = [point.agreement.wmape_rates_pct, point.agreement.median_latency_error_pct].map(pct);
        let counts = [point.agreement.rows, point.train_rows].map(|count| count.to_string());
        table.row([point.name.clone()].into_iter().chain(counts).chain(errors));
    }
    table
}

/// Returns a table of the parameters, with their estimates from all rows and in each fold.
fn parameters(found: &FoldsDocument) -> Table {
    let mut table =
        Table::new().left("parameter").left("key").right("range").right("rows").left("of").right("estimate");
    table = table.right("spread %").left("in each fold");
    for it in &found.parameters {
        let shown = |value: &Option<f64>| value.map_or(String::from("-"), describe::figure);
        let of_folds: Vec<String> = it.folds.iter().map(shown).collect();
        let key = if it.only.is_empty() { it.key.clone() } else { format!("{} ({})", it.key, it.only) };
        let range = format!("{} to {}", describe::figure(it.range.0), describe::figure(it.range.1));
        let (rows, sources) = (it.rows.to_string(), it.sources.join(" "));
        let spread =
            if of_folds.iter().any(|value| value != "-") { format!("{:.0}", it.spread_pct) } else { "-".into() };
        table.row([it.name.clone(), key, range, rows, sources, describe::figure(it.value), spread, of_folds.join(" ")]);
    }
    table
}

/// Returns a table of constants that were set from rows of a single machine.
fn singles(found: &FoldsDocument) -> Table {
    let mut table = Table::new().left("of").left("key").right("value").left("from");
    for it in &found.singles {
        table.row([it.of.clone(), it.key.clone(), describe::figure(it.value), it.from.clone()]);
    }
    table
}

/// Returns a sentence on the pairs of parameters that the rows cannot tell apart.
fn confounded(found: &FoldsDocument) -> String {
    if found.confounded.is_empty() {
        return String::from("All parameters can be told apart.\n");
    }
    let pair = |it: &ConfoundedPair| format!("{} and {} ({:+.2})", it.parameters.0, it.parameters.1, it.correlation);
    let pairs: Vec<String> = found.confounded.iter().map(pair).collect();
    format!("Cannot be told apart, with the correlation of their errors: {}.\n", pairs.join("; "))
}

/// Returns a summary of the cross-validation: mean errors of left-out rows by fold and by source, and the coverage of
/// prediction intervals.
fn verdict(found: &FoldsDocument) -> String {
    let folds: Vec<&Agreement> =
        found.folds.iter().filter(|fold| !fold.order_only).map(|fold| &fold.agreement).collect();
    let sources: Vec<&Agreement> = found.sources.iter().map(|source| &source.agreement).collect();
    let mean = |of: &[&Agreement], read: fn(&Agreement) -> Option<f64>| {
        let known: Vec<f64> = of.iter().filter_map(|agreement| read(agreement)).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        if known.is_empty() { String::from("-") } else { format!("{mean:.1} %") }
    };
    let interval = found.interval.map_or(String::from("-"), |(low, high)| format!("{low:.3} to {high:.3}"));
    format!(
        "Left out, in the mean of the folds that count: rates off by {} (WMAPE), latencies by {} (median), {} of measurements in \
         their 90 % interval. In the mean of their sources: rates off by {}, latencies by {}. With {} parameters that are estimated \
         from all rows, half of these are within {}. 90 % of left-out measurements are {interval} of the prediction.",
        mean(&folds, |it| it.wmape_rates_pct),
        mean(&folds, |it| it.median_latency_error_pct),
        mean(&folds, |it| it.coverage_pct),
        mean(&sources, |it| it.wmape_rates_pct),
        mean(&sources, |it| it.median_latency_error_pct),
        found.parameters.len(),
        pct(found.fitted.median_error_pct) + " %",
    )
}

/// Returns the list of `phaselink validate --list`: sources of measurements, with titles and numbers of rows.
pub(super) fn list(plans: &[SourcePlan], measurements: &[MeasuredValue]) -> String {
    let mut table = Table::new().left("source").right("rows").left("title");
    for plan in plans {
        table.row([plan.source.clone(), count(measurements, &plan.source).to_string(), plan.title.clone()]);
    }
    shown(&table)
}

/// Returns the text of a validation: conclusion, summary by source, unanswered measurements, and the `worst` rows of
/// each source with the largest errors.
pub(super) fn text(validated: &Validated, worst: usize) -> String {
    let mut text = describe::wrapped(&conclusion(&validated.total), "");
    let _ = writeln!(text, "\n{}", shown(&sources(validated)));
    let _ = writeln!(text, "{}\n{}", styled("Not answered", Style::Bold), shown(&classes(&validated.total)));
    for source in validated.sources.iter().filter(|_| worst > 0) {
        let table = largest_errors(&validated.rows, &source.source, worst);
        if !table.is_empty() {
            let _ = writeln!(
                text,
                "{}\n{}",
                styled(&format!("Largest errors of {}", source.source), Style::Bold),
                shown(&table)
            );
        }
    }
    text
}

/// Returns the conclusion and the tables of sources and of unanswered classes in Markdown.
pub(super) fn markdown(validated: &Validated) -> String {
    format!(
        "{}\n\n{}\n{}",
        conclusion(&validated.total),
        sources(validated).markdown(),
        classes(&validated.total).markdown()
    )
}

/// Returns the conclusion of `phaselink validate`: number of measurements that the model answers, and error of its
/// predictions.
pub(super) fn conclusion(total: &ValidatedSource) -> String {
    let (answerable, predicted) = (total.rows - total.unanswerable, total.predicted.rows);
    let share = 100.0 * total.answered as f64 / (answerable as f64).max(1.0);
    let mut text = format!(
        "{} of {} measurements are answered, {share:.0} % of those that a simulation of requests can answer.",
        total.answered, total.rows
    );
    let _ = match total.predicted.median_error_pct {
        Some(median) => write!(
            text,
            " {predicted} of them are predictions; half of these are within {median:.1} % of the measurement."
        ),
        None => write!(text, " None of them is a prediction."),
    };
    text
}

/// Returns a table with a line for each source of measurements, and a line for all sources together.
pub(super) fn sources(validated: &Validated) -> Table {
    let mut table = Table::new().left("source");
    for column in ["rows", "answered", "median error %", "rates: WMAPE %", "latencies: median %", "WMAPE %", "bias %"] {
        table = table.right(column);
    }
    table = table.right("in 90 % interval").right("predicted").right("their median error %");
    for source in validated.sources.iter().chain([&validated.total]) {
        let counts = [source.rows, source.answered].map(|count| count.to_string());
        let predicted = [source.predicted.rows.to_string(), pct(source.predicted.median_error_pct)];
        table.row([source.source.clone()].into_iter().chain(counts).chain(figures(&source.all)).chain(predicted));
    }
    table
}

fn figures(agreement: &Agreement) -> [String; 6] {
    [
        agreement.median_error_pct,
        agreement.wmape_rates_pct,
        agreement.median_latency_error_pct,
        agreement.wmape_latencies_pct,
        agreement.bias_pct,
        agreement.coverage_pct,
    ]
    .map(pct)
}

fn pct(value: Option<f64>) -> String {
    value.map_or(String::from("-"), |value| format!("{value:.1}"))
}

/// Returns a table of unanswered measurements by class, the largest class first.
pub(super) fn classes(total: &ValidatedSource) -> Table {
    let mut table = Table::new().left("class").right("rows");
    let mut classes: Vec<(&String, &usize)> = total.left_out.iter().collect();
    classes.sort_by_key(|(name, rows)| (std::cmp::Reverse(**rows), *name));
    for (class, rows) in classes.iter().take(CLASSES_MAX) {
        table.row([(*class).clone(), rows.to_string()]);
    }
    let rest: usize = classes.iter().skip(CLASSES_MAX).map(|(_, rows)| **rows).sum();
    if rest > 0 {
        table.row([String::from("others"), rest.to_string()]);
    }
    table
}

/// Returns a table of the `worst` answered rows of a source with the largest errors, each with the reason if it is
/// known.
pub(super) fn largest_errors(rows: &[ValidatedRow], source: &str, worst: usize) -> Table {
    let mut rows: Vec<(&ValidatedRow, f64)> = rows
        .iter()
        .filter(|row| row.source == source)
        .filter_map(|row| Some((row, (row.predicted? / row.measured).ln().abs())))
        .collect();
    rows.sort_by(|(left, left_error), (right, right_error)| {
        right_error.total_cmp(left_error).then_with(|| left.id.cmp(&right.id))
    });
    let mut table = Table::new().left("id").right("measured").right("predicted").left("unit").right("error %");
    table = table.left("provenance").left("reason");
    for (row, _) in rows.iter().take(worst) {
        table.row([
            row.id.clone(),
            describe::figure(row.measured),
            row.predicted.map_or(String::from("-"), describe::figure),
            row.unit.clone(),
            row.error_pct.map_or(String::from("-"), |pct| format!("{pct:+.1}")),
            row.provenance.map_or("", Provenance::word).into(),
            if row.because.is_empty() { String::from("not known") } else { row.because.clone() },
        ]);
    }
    table
}

/// Returns all measurements with the model's values as comma-separated values. The first line has the keys of the JSON
/// document.
pub(super) fn csv(rows: &[ValidatedRow]) -> String {
    let objects: Vec<serde_json::Value> =
        rows.iter().map(|row| serde_json::to_value(row).unwrap_or_default()).collect();
    let mut text = String::new();
    if let Some(first) = objects.first().and_then(serde_json::Value::as_object) {
        text.push_str(&first.keys().cloned().collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    for object in objects.iter().filter_map(serde_json::Value::as_object) {
        let cells: Vec<String> = object.values().map(|value| quoted(plain(value))).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats the number of measurements by provenance, as in `12 fitted, 30 predicted`.
pub(super) fn provenances(counts: &BTreeMap<Provenance, usize>) -> String {
    let parts = Provenance::ALL.iter().filter_map(|it| Some(format!("{} {}", counts.get(it)?, it.word())));
    parts.collect::<Vec<_>>().join(", ")
}
