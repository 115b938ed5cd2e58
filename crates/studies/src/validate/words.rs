//! Answers of `validate` in words: text, Markdown, comma-separated values, and HTML page.

use phaselink_core::number::real_length;
use std::collections::BTreeMap;

use super::{Agreement, ConfoundedPair, FoldsDocument, MeasuredKind, Provenance, ValidateDocument};
use super::{ValidatedRow, ValidatedSource, to_smallest_unit};
use crate::report::csv::quoted;
use crate::report::html::page::{Page, side_by_side};
use crate::report::html::scatter::{ScatterPoint, ScatterSeries, scatter};
use crate::report::{Answer, Prose, Table};
use crate::results::units;
use crate::results::words::figure;

/// Largest number of classes of unanswered measurements that the text lists. Measurements of all other classes are
/// counted together.
const CLASSES_MAX: usize = 40;
/// Number of measurements with the largest errors that the page lists for each source.
const WORST: usize = 10;
/// Largest number of sources of measurements with a colour of their own in a plot. All other sources share one colour.
const COLOURS_MAX: usize = 7;
/// Headings of the errors of a set of measurements, in the order of [`errors`].
const ERRORS: [&str; 6] =
    ["median error %", "rates: WMAPE %", "latencies: median %", "WMAPE %", "bias %", "in 90 % interval"];

impl Answer for ValidateDocument {
    const VERB: &'static str = "validate";

    fn text(&self) -> Prose {
        let mut prose = Prose::default().paragraph(self.total.conclusion(), "").gap().table(self.sources()).gap();
        prose = prose.heading("Not answered").table(self.total.classes()).gap();
        for source in self.sources.iter().filter(|_| self.worst > 0) {
            let table = self.largest_error_table(&source.source, self.worst);
            if !table.is_empty() {
                prose = prose.heading(format!("Largest errors of {}", source.source)).table(table).gap();
            }
        }
        prose
    }

    fn page(&self) -> Option<String> {
        let by_provenance = format!("By provenance: {}.", provenance_counts_text(&self.total.provenance));
        let plots = [
            self.plot(MeasuredKind::Latency, "Latencies", &|ns| units::quantity(ns / 1e9, "s")),
            self.plot(MeasuredKind::Rate, "Rates", &|rate| units::quantity(rate, "/s")),
            self.plot(MeasuredKind::Bandwidth, "Bandwidths", &|rate| units::quantity(rate, "B/s")),
        ];
        let mut page = Page::new("Measurements, and what the model says", &[])
            .conclusion(&[self.total.conclusion(), by_provenance])
            .section("Measured against predicted", &side_by_side(&plots.into_iter().flatten().collect::<Vec<_>>()))
            .table("Agreement by source", &self.sources())
            .table("Not answered", &self.total.classes());
        for source in &self.sources {
            let table = self.largest_error_table(&source.source, WORST);
            if !table.is_empty() {
                page = page.table(&format!("Largest errors of {}", source.source), &table);
            }
        }
        Some(page.finish())
    }
}

impl ValidateDocument {
    /// Returns the conclusion and the tables of sources and of unanswered classes in Markdown.
    pub fn markdown(&self) -> String {
        let [sources, classes] = [self.sources(), self.total.classes()].map(|table| table.markdown());
        format!("{}\n\n{sources}\n{classes}", self.total.conclusion())
    }

    /// Returns all measurements with the model's values as comma-separated values. The first line has the keys of the
    /// JSON document.
    pub fn csv(&self) -> String {
        let objects: Vec<serde_json::Value> =
            self.rows.iter().map(|row| serde_json::to_value(row).unwrap_or_default()).collect();
        let mut text = String::new();
        if let Some(first) = objects.first().and_then(serde_json::Value::as_object) {
            text.push_str(&first.keys().cloned().collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        for object in objects.iter().filter_map(serde_json::Value::as_object) {
            let cells: Vec<String> = object.values().map(|value| quoted(plain_text(value))).collect();
            text.push_str(&cells.join(","));
            text.push('\n');
        }
        text
    }

    /// Returns a table with a line for each source of measurements, and a line for all sources together.
    fn sources(&self) -> Table {
        let table = Table::new().left("source").right("rows").right("answered");
        let table = ERRORS.into_iter().fold(table, Table::right);
        let mut table = table.right("predicted").right("their median error %");
        for source in self.sources.iter().chain([&self.total]) {
            let counts = [source.rows, source.answered].map(|count| count.to_string());
            let predicted = [source.predicted.rows.to_string(), percentage_text(source.predicted.median_error_pct)];
            table.row([source.source.clone()].into_iter().chain(counts).chain(errors(&source.all)).chain(predicted));
        }
        table
    }

    /// Returns a table of the `worst` answered rows of a source with the largest errors, each with the reason if it is
    /// known.
    fn largest_error_table(&self, source: &str, worst: usize) -> Table {
        let mut rows: Vec<(&ValidatedRow, f64)> = self
            .rows
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
                figure(row.measured),
                row.predicted.map_or(String::from("-"), figure),
                row.unit.clone(),
                row.error_pct.map_or(String::from("-"), |pct| format!("{pct:+.1}")),
                row.provenance.map_or("", Provenance::word).into(),
                if row.because.is_empty() { String::from("not known") } else { row.because.clone() },
            ]);
        }
        table
    }

    /// Returns a plot of predicted against measured values of one kind of figure, or none if no row has it.
    fn plot(&self, kind: MeasuredKind, title: &str, shown: &dyn Fn(f64) -> String) -> Option<String> {
        let is_drawn = |row: &&ValidatedRow| row.figure == kind && row.predicted.is_some();
        let count = |source: &str| self.rows.iter().filter(is_drawn).filter(|row| row.source == source).count();
        let mut names: Vec<(&str, usize)> =
            self.sources.iter().map(|it| (it.source.as_str(), count(&it.source))).collect();
        names.retain(|(_, count)| *count > 0);
        names.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let (own, shared) = names.split_at(names.len().min(COLOURS_MAX));
        let points = |sources: &[(&str, usize)]| -> Vec<ScatterPoint> {
            let is_of = |row: &&ValidatedRow| sources.iter().any(|(name, _)| *name == row.source);
            self.rows.iter().filter(is_drawn).filter(is_of).filter_map(point).collect()
        };
        let mut series: Vec<ScatterSeries> = own
            .iter()
            .map(|source| ScatterSeries { name: String::from(source.0), points: points(std::slice::from_ref(source)) })
            .collect();
        if !shared.is_empty() {
            series.push(ScatterSeries { name: String::from("others"), points: points(shared) });
        }
        (!series.is_empty()).then(|| scatter("measured", "predicted", shown, &series, title))
    }
}

impl ValidatedSource {
    /// Returns the conclusion: number of measurements that the model answers, and error of its predictions.
    fn conclusion(&self) -> String {
        let (answerable, predicted) = (self.rows - self.unanswerable, self.predicted.rows);
        let share = 100.0 * real_length(self.answered) / (answerable as f64).max(1.0);
        let predictions = match self.predicted.median_error_pct {
            Some(median) => {
                format!(
                    "{predicted} of them are predictions; half of these are within {median:.1} % of the measurement."
                )
            }
            None => String::from("None of them is a prediction."),
        };
        format!(
            "{} of {} measurements are answered, {share:.0} % of those that a simulation of requests can answer. {predictions}",
            self.answered, self.rows
        )
    }

    /// Returns a table of unanswered measurements by class, the largest class first.
    fn classes(&self) -> Table {
        let mut table = Table::new().left("class").right("rows");
        let mut classes: Vec<(&String, &usize)> = self.left_out.iter().collect();
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
}

impl Answer for FoldsDocument {
    const VERB: &'static str = "validate";

    fn text(&self) -> Prose {
        let prose = Prose::default().paragraph(self.verdict(), "").gap().table(self.fold_table()).gap();
        let mut prose = prose.heading("Left-out rows by source").table(self.source_table()).gap();
        if !self.curve.is_empty() {
            prose = prose.heading("Error against the number of sources").table(self.curve_table()).gap();
        }
        prose = prose.heading("Parameters").table(self.parameter_table()).gap().lines(self.confounded());
        if !self.singles.is_empty() {
            let note = format!(
                "No fold can judge them, and they have no spread. With the parameters, {} values are estimated.",
                self.parameters.len() + self.singles.len()
            );
            prose = prose.gap().heading("Constants from rows of one machine").lines(note).gap();
            prose = prose.table(self.single_source_table());
        }
        prose
    }
}

impl FoldsDocument {
    /// Returns a table of the errors of each fold's left-out rows.
    fn fold_table(&self) -> Table {
        let table = Table::new().left("left out").right("rows").right("estimated from");
        let mut table = ERRORS.into_iter().fold(table, Table::right);
        for fold in &self.folds {
            let name = if fold.order_only { format!("{} (order of size)", fold.name) } else { fold.name.clone() };
            let counts = [fold.agreement.rows, fold.train_rows].map(|count| count.to_string());
            table.row([name].into_iter().chain(counts).chain(errors(&fold.agreement)));
        }
        table
    }

    /// Returns a table of the errors of left-out rows by source.
    fn source_table(&self) -> Table {
        let mut table = ERRORS.into_iter().fold(Table::new().left("source").right("rows"), Table::right);
        for it in &self.sources {
            let name_and_count = [it.source.clone(), it.agreement.rows.to_string()];
            table.row(name_and_count.into_iter().chain(errors(&it.agreement)));
        }
        table
    }

    /// Returns a table of errors against the number of sources from which parameters were estimated.
    fn curve_table(&self) -> Table {
        let mut table = Table::new().left("left out, and estimated from").right("rows").right("estimated from");
        table = table.right("rates: WMAPE %").right("latencies: median %");
        for point in &self.curve {
            let errors =
                [point.agreement.wmape_rates_pct, point.agreement.median_latency_error_pct].map(percentage_text);
            let counts = [point.agreement.rows, point.train_rows].map(|count| count.to_string());
            table.row([point.name.clone()].into_iter().chain(counts).chain(errors));
        }
        table
    }

    /// Returns a table of the parameters, with their estimates from all rows and in each fold.
    fn parameter_table(&self) -> Table {
        let mut table =
            Table::new().left("parameter").left("key").right("range").right("rows").left("of").right("estimate");
        table = table.right("spread %").left("in each fold");
        for it in &self.parameters {
            let shown = |value: &Option<f64>| value.map_or(String::from("-"), figure);
            let of_folds: Vec<String> = it.folds.iter().map(shown).collect();
            let key = if it.only.is_empty() { it.key.clone() } else { format!("{} ({})", it.key, it.only) };
            let range = format!("{} to {}", figure(it.range.0), figure(it.range.1));
            let (rows, sources) = (it.rows.to_string(), it.sources.join(" "));
            let spread =
                if of_folds.iter().any(|value| value != "-") { format!("{:.0}", it.spread_pct) } else { "-".into() };
            table.row([it.name.clone(), key, range, rows, sources, figure(it.value), spread, of_folds.join(" ")]);
        }
        table
    }

    /// Returns a table of constants that were set from rows of a single machine.
    fn single_source_table(&self) -> Table {
        let mut table = Table::new().left("of").left("key").right("value").left("from");
        for it in &self.singles {
            table.row([it.of.clone(), it.key.clone(), figure(it.value), it.from.clone()]);
        }
        table
    }

    /// Returns a sentence on the pairs of parameters that the rows cannot tell apart.
    fn confounded(&self) -> String {
        if self.confounded.is_empty() {
            return String::from("All parameters can be told apart.");
        }
        let pair =
            |it: &ConfoundedPair| format!("{} and {} ({:+.2})", it.parameters.0, it.parameters.1, it.correlation);
        let pairs: Vec<String> = self.confounded.iter().map(pair).collect();
        format!("Cannot be told apart, with the correlation of their errors: {}.", pairs.join("; "))
    }

    /// Returns a summary of the cross-validation: mean errors of left-out rows by fold and by source, and the coverage of
    /// prediction intervals.
    fn verdict(&self) -> String {
        let folds: Vec<&Agreement> =
            self.folds.iter().filter(|fold| !fold.order_only).map(|fold| &fold.agreement).collect();
        let sources: Vec<&Agreement> = self.sources.iter().map(|source| &source.agreement).collect();
        let mean = |of: &[&Agreement], read: fn(&Agreement) -> Option<f64>| {
            let known: Vec<f64> = of.iter().filter_map(|agreement| read(agreement)).collect();
            let mean = known.iter().sum::<f64>() / real_length(known.len());
            if known.is_empty() { String::from("-") } else { format!("{mean:.1} %") }
        };
        let interval = self.interval.map_or(String::from("-"), |(low, high)| format!("{low:.3} to {high:.3}"));
        format!(
            "Left out, in the mean of the folds that count: rates off by {} (WMAPE), latencies by {} (median), {} of measurements in \
             their 90 % interval. In the mean of their sources: rates off by {}, latencies by {}. With {} parameters that are estimated \
             from all rows, half of these are within {}. 90 % of left-out measurements are {interval} of the prediction.",
            mean(&folds, |it| it.wmape_rates_pct),
            mean(&folds, |it| it.median_latency_error_pct),
            mean(&folds, |it| it.coverage_pct),
            mean(&sources, |it| it.wmape_rates_pct),
            mean(&sources, |it| it.median_latency_error_pct),
            self.parameters.len(),
            percentage_text(self.fitted.median_error_pct) + " %",
        )
    }
}

/// Returns the errors of a set of measurements in the order of [`ERRORS`].
fn errors(agreement: &Agreement) -> [String; 6] {
    [
        agreement.median_error_pct,
        agreement.wmape_rates_pct,
        agreement.median_latency_error_pct,
        agreement.wmape_latencies_pct,
        agreement.bias_pct,
        agreement.coverage_pct,
    ]
    .map(percentage_text)
}

fn percentage_text(value: Option<f64>) -> String {
    value.map_or(String::from("-"), |value| format!("{value:.1}"))
}

fn plain_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats the number of measurements by provenance, as in `12 fitted, 30 predicted`.
fn provenance_counts_text(counts: &BTreeMap<Provenance, usize>) -> String {
    let parts = Provenance::ALL.iter().filter_map(|it| Some(format!("{} {}", counts.get(it)?, it.word())));
    parts.collect::<Vec<_>>().join(", ")
}

fn point(row: &ValidatedRow) -> Option<ScatterPoint> {
    let (x, y) = (to_smallest_unit(row.measured, &row.unit), to_smallest_unit(row.predicted?, &row.unit));
    Some(ScatterPoint { name: row.id.clone(), x, y })
}
