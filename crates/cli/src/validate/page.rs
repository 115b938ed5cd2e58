//! HTML page of measurements beside the model's values, for `--report`.

use phaselink_studies::report::html::page::{Page, side_by_side};
use phaselink_studies::report::html::scatter::{ScatterPoint, ScatterSeries, scatter};
use phaselink_studies::results::units;
use phaselink_studies::validate::{MeasuredKind, ValidatedRow, in_smallest_unit};

use super::Validated;
use super::text::{classes, conclusion, largest_errors, provenances, sources};

/// Number of measurements with the largest errors that the page of `phaselink validate` lists for each source.
const WORST: usize = 10;
/// Maximum number of sources of measurements with a colour of their own in a plot. All other sources share one colour.
const COLOURS_MAX: usize = 7;

/// Returns the HTML page of `phaselink validate`: measurements beside the model's values.
pub(super) fn page(validated: &Validated) -> String {
    let told = [conclusion(&validated.total), format!("By provenance: {}.", provenances(&validated.total.provenance))];
    let plots = [
        plot(validated, MeasuredKind::Latency, "Latencies", &|ns| units::quantity(ns / 1e9, "s")),
        plot(validated, MeasuredKind::Rate, "Rates", &|rate| units::quantity(rate, "/s")),
        plot(validated, MeasuredKind::Bandwidth, "Bandwidths", &|rate| units::quantity(rate, "B/s")),
    ];
    let mut page = Page::new("Measurements, and what the model says", &[])
        .conclusion(&told)
        .section("Measured against predicted", &side_by_side(&plots.into_iter().flatten().collect::<Vec<_>>()))
        .table("Agreement by source", &sources(validated))
        .table("Not answered", &classes(&validated.total));
    for source in &validated.sources {
        let table = largest_errors(&validated.rows, &source.source, WORST);
        if !table.is_empty() {
            page = page.table(&format!("Largest errors of {}", source.source), &table);
        }
    }
    page.finish()
}

/// Returns a plot of predicted against measured values of one kind of figure, or none if no row has it.
fn plot(validated: &Validated, kind: MeasuredKind, title: &str, shown: &dyn Fn(f64) -> String) -> Option<String> {
    let is_drawn = |row: &&ValidatedRow| row.figure == kind && row.predicted.is_some();
    let count = |source: &str| validated.rows.iter().filter(is_drawn).filter(|row| row.source == source).count();
    let mut names: Vec<(&str, usize)> =
        validated.sources.iter().map(|it| (it.source.as_str(), count(&it.source))).collect();
    names.retain(|(_, count)| *count > 0);
    names.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let (own, shared) = names.split_at(names.len().min(COLOURS_MAX));
    let points = |sources: &[(&str, usize)]| -> Vec<ScatterPoint> {
        let rows =
            validated.rows.iter().filter(is_drawn).filter(|row| sources.iter().any(|(name, _)| *name == row.source));
        rows.filter_map(point).collect()
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

fn point(row: &ValidatedRow) -> Option<ScatterPoint> {
    let (x, y) = (in_smallest_unit(row.measured, &row.unit), in_smallest_unit(row.predicted?, &row.unit));
    Some(ScatterPoint { name: row.id.clone(), x, y })
}
