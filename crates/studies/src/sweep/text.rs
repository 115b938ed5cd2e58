//! Results of a sweep as a table, as comma-separated values and as JSON, in the order of the plan's points.

use std::fmt::Write;

use serde_json::{Map, Value as Json, json};

use super::Plan;
use super::axis::{SweptKey, SweptPlanPart};
use super::hash::Hash;
use super::plan::PlanJobText;
use crate::report::csv::quoted;
use crate::report::{Table, units};
use crate::results::documents::{ByName, RowFigures, SweepRow, value};
use crate::results::{Figures, number};
use crate::uncertainty::Interval;
use phaselink_core::config::document::Value;
use phaselink_core::number::length;
use phaselink_core::workload::option_words;

/// Point of a sweep that has run, with its results.
#[derive(Clone, Copy, Debug)]
pub struct FinishedPoint<'a> {
    /// Number of the sweep's point, counted from 0 in the order of the plan.
    pub point: usize,
    /// Hash of everything that the results of the point depend on.
    pub hash: Hash,
    /// Figures that the point's run has produced, such as throughput and p99 latency.
    pub figures: &'a Figures,
    /// Prediction interval of each column of the plan, in order. `None` if intervals were not requested.
    pub intervals: Option<&'a [Option<Interval>]>,
    /// Cost of the point, and true if it meets the target. `None` outside a search.
    pub verdict: Option<(f64, bool)>,
}

impl FinishedPoint<'_> {
    fn interval(&self, column: usize) -> Option<&Interval> {
        self.intervals?.get(column)?.as_ref()
    }

    /// Returns the ends of the prediction interval of a column (figure) of the sweep's results, if it is known.
    pub(super) fn ends(&self, column: usize) -> Option<(f64, f64)> {
        self.interval(column).map(|interval| (interval.low, interval.high))
    }
}

/// Returns a sweep's results as text for people: the keys that vary, and the columns of the plan. Hashes are left out.
pub fn table(plan: &Plan, rows: &[FinishedPoint]) -> String {
    rows_table(plan, rows).to_string()
}

/// Returns a sweep's results as a table, one row for each point, for output in several forms.
pub fn rows_table(plan: &Plan, rows: &[FinishedPoint]) -> Table {
    let mut table = Table::new();
    let shown: Vec<&SweptKey> = plan.swept_keys().filter(|swept| swept.has_several_values()).collect();
    for swept in &shown {
        table = if is_numeric_axis(swept) { table.right(&swept.key) } else { table.left(&swept.key) };
    }
    let with_seed = plan.text.seeds.len() > 1;
    if with_seed {
        table = table.right("seed");
    }
    let is_search = rows.iter().any(|row| row.verdict.is_some());
    if is_search {
        table = table.right("cost").left("target");
    }
    for column in &plan.text.columns {
        table = table.right(column.heading);
        if has_intervals(rows) {
            table = table.right("from").right("to");
        }
    }
    for row in rows {
        let mut cells = Vec::new();
        plan.visit(row.point, |swept, place| cells.extend(swept.has_several_values().then(|| swept.text(place))));
        cells.extend(with_seed.then(|| plan.seed(row.point).to_string()));
        if is_search {
            let verdict =
                row.verdict.map(|(price, is_met)| [cost(price), String::from(if is_met { "met" } else { "missed" })]);
            cells.extend(verdict.unwrap_or_default());
        }
        for (place, column) in plan.text.columns.iter().enumerate() {
            cells.push(units::figure(column.unit, row.figures.get(column)));
            if has_intervals(rows) {
                let ends = row.interval(place).map(|interval| [interval.low, interval.high]);
                cells.extend(ends.map_or([None; 2], |ends| ends.map(Some)).map(|end| units::figure(column.unit, end)));
            }
        }
        table.row(cells);
    }
    table
}

/// Returns the cost of a drive as text with at most two decimals.
pub fn cost(cost: f64) -> String {
    let digits = format!("{cost:.2}");
    digits.trim_end_matches('0').trim_end_matches('.').into()
}

/// Returns a sweep's results in the form of JSON documents, one object for each point.
pub fn objects(plan: &Plan, rows: &[FinishedPoint]) -> Vec<SweepRow> {
    rows.iter().map(|row| object(plan, row)).collect()
}

fn has_intervals(rows: &[FinishedPoint]) -> bool {
    rows.iter().any(|row| row.intervals.is_some())
}

/// Returns a text with the plan, the number of rows, and the job that all rows share.
pub fn heading(plan: &Plan, rows: usize) -> String {
    let points = if rows == 1 { "point" } else { "points" };
    let mut parts = vec![format!("{} {points}", units::grouped(length(rows)))];
    parts.extend(plan.text.drive.as_ref().map(|drive| format!("drive {}", drive.text)));
    if let [seed] = plan.text.seeds[..] {
        parts.push(format!("seed {seed}"));
    }
    let constant = plan.swept_keys().filter(|swept| !swept.has_several_values());
    parts.extend(constant.map(|swept| format!("{} = {}", swept.key, swept.text(0))));
    format!("{}: {}\n{}\n", plan.text.file, parts.join(", "), job(plan))
}

/// Returns the job of a sweep as text, without the options that an axis varies.
fn job(plan: &Plan) -> String {
    let given = match &plan.text.job {
        PlanJobText::File(path) => return format!("Jobs of {}", path.text),
        PlanJobText::Options(_, given) => given,
    };
    let is_swept = |name: &str| plan.swept_keys().any(|swept| swept.target() == SweptPlanPart::Job(name));
    let options = plan.job_options_with_defaults(given).into_iter().filter(|(name, _)| !is_swept(name));
    let options: Vec<(String, String)> = options.collect();
    format!("Job: {}", option_words(options.iter().map(|(name, text)| (name.as_str(), text.as_str()))))
}

fn is_numeric_axis(swept: &SweptKey) -> bool {
    swept.values.iter().all(|node| matches!(node.value, Value::Integer(_) | Value::Float(_)))
}

/// Returns a sweep's results as comma-separated values (RFC 4180, but with line feeds): all axes, the seed, the columns
/// of the plan in full precision, and the hash. An unknown figure is empty.
pub fn csv(plan: &Plan, rows: &[FinishedPoint]) -> String {
    let columns = &plan.text.columns;
    let keys = plan.swept_keys().map(|swept| swept.key.as_str());
    let names = columns.iter().map(|column| column.name);
    let ends = columns.iter().filter(|_| has_intervals(rows));
    let ends = ends.flat_map(|column| ["low", "high"].map(|end| format!("{}_{end}", column.name)));
    let mut text = line(keys.chain(["seed"]).chain(names).chain(["hash"]).map(String::from).chain(ends));
    for row in rows {
        let mut cells = Vec::new();
        plan.visit(row.point, |swept, place| cells.push(swept.text(place)));
        cells.push(plan.seed(row.point).to_string());
        cells.extend(columns.iter().map(|column| match number(row.figures.get(column)) {
            Json::Null => String::new(),
            value => value.to_string(),
        }));
        cells.push(row.hash.to_string());
        for place in (0..columns.len()).filter(|_| has_intervals(rows)) {
            let ends = row.interval(place).map(|interval| [interval.low, interval.high]);
            cells.extend(
                ends.map_or([String::new(), String::new()], |ends| ends.map(|end| number(Some(end)).to_string())),
            );
        }
        text.push_str(&line(cells));
    }
    text
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().map(quoted).collect();
    cells.join(",") + "\n"
}

/// Returns a sweep's results as one JSON object: description of the sweep, and an array with an object for each row.
///
/// Each row is one line. Rows are written one at a time, so that the document needs no more memory than its text.
pub fn json(plan: &Plan, rows: &[FinishedPoint]) -> String {
    let axes: Vec<&str> = plan.swept_keys().map(|swept| swept.key.as_str()).collect();
    let columns: Vec<&str> = plan.text.columns.iter().map(|column| column.name).collect();
    let mut text = String::from("{\n");
    for (key, value) in [
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("verb", json!("sweep")),
        ("plan", json!(plan.text.file)),
        ("axes", json!(axes)),
        ("columns", json!(columns)),
        ("points", json!(plan.points())),
    ] {
        let _ = writeln!(text, "  \"{key}\": {value},");
    }
    text.push_str("  \"rows\": [");
    for (place, row) in rows.iter().enumerate() {
        let _ = write!(text, "{}\n    {}", if place > 0 { "," } else { "" }, value(&object(plan, row)));
    }
    text.push_str("\n  ]\n}\n");
    text
}

fn object(plan: &Plan, row: &FinishedPoint) -> SweepRow {
    let mut axes = Map::new();
    plan.visit(row.point, |swept, place| drop(axes.insert(swept.key.clone(), swept.json(place))));
    let columns = plan.text.columns.iter();
    let figures = columns.clone().map(|column| (column.name.into(), number(row.figures.get(column))));
    let intervals = columns.enumerate().map(|(place, column)| (column.name.into(), row.interval(place).cloned()));
    SweepRow {
        axes,
        seed: plan.seed(row.point),
        cost: row.verdict.map(|(cost, _)| cost),
        meets: row.verdict.map(|(_, is_met)| is_met),
        figures: RowFigures(figures.collect()),
        hash: row.hash.to_string(),
        intervals: row.intervals.is_some().then(|| ByName(intervals.collect())),
    }
}

impl SweptKey {
    /// Returns value number `place` of a key as JSON, with its type. A value that is neither a number nor a boolean
    /// becomes a string.
    fn json(&self, place: usize) -> Json {
        match &self.values[place].value {
            Value::Integer(integer) => i64::try_from(*integer).map_or_else(|_| json!(self.text(place)), Json::from),
            Value::Float(float) => number(Some(*float)),
            Value::Boolean(boolean) => Json::from(*boolean),
            _ => json!(self.text(place)),
        }
    }
}
