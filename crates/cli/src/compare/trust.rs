//! Uncertainty of a comparison's figures as text: sampling errors, and prediction intervals from uncertain constants.

use phaselink_studies::compare::{Cell, ComparedGroup, named};
use phaselink_studies::precision::{Measurement, PrecisionGoal};
use phaselink_studies::report::Table;
use phaselink_studies::results::{CompareTable, Figure, comparison_columns};
use phaselink_studies::uncertainty::Interval;

use super::Comparison;
use crate::output::shown;
use crate::{describe, intervals, precision};

/// Returns the text on sampling errors (`--precision`) and prediction intervals (`--intervals`) of a comparison; empty
/// without both options.
pub(super) fn text(comparison: &Comparison, groups: &[ComparedGroup]) -> String {
    let known = comparison.precision.map(|goal| known(comparison, groups, goal));
    let doubted = comparison.intervals.draws().map(|_| interval_table(comparison, groups));
    [known, doubted].into_iter().flatten().map(|part| format!("\n{part}")).collect()
}

/// Returns a line for each drive and group on the precision that its figures have reached.
fn known(comparison: &Comparison, groups: &[ComparedGroup], goal: PrecisionGoal) -> String {
    let named = named(groups);
    let line = |group: &ComparedGroup, name: &str, measurement: &Measurement| {
        let place = named.place(&group.label);
        describe::wrapped(&format!("{name}, {place}: {}", precision::text(measurement, goal)), "  ")
    };
    let each = |group: &ComparedGroup| -> String {
        let cells = comparison.drives.iter().zip(&group.cells);
        let measured = cells.filter_map(|(drive, cell)| Some((&drive.name, cell.as_ref()?.measurement.as_ref()?)));
        measured.map(|(name, measurement)| line(group, name, measurement)).collect()
    };
    groups.iter().map(each).collect()
}

/// Returns a table of prediction intervals, and for each drive the constants that contribute most to them.
fn interval_table(comparison: &Comparison, groups: &[ComparedGroup]) -> String {
    let columns = comparison_columns(CompareTable::Intervals);
    let Some(first) = columns.first() else { return String::new() };
    let of_first = || cells(groups).filter_map(|cell| interval(cell, first));
    let draws = of_first().map(|interval| interval.draws).max().unwrap_or(0);
    let model_error = of_first().find_map(|interval| interval.model_error);
    let mut text = describe::wrapped(&intervals::explanation(draws, model_error), "");
    text.push_str(&format!("\n{}\n", shown(&table(comparison, groups, &columns))));
    for (place, drive) in comparison.drives.iter().enumerate() {
        let of_drive = groups.iter().filter_map(|group| interval(group.cells[place].as_ref()?, first));
        let names = intervals::largest_contributors(of_drive);
        if !names.is_empty() {
            let line = format!("{}: most of it in the {} from {}", drive.name, first.heading, describe::listed(&names));
            text.push_str(&describe::wrapped(&line, "  "));
        }
    }
    text
}

fn cells(groups: &[ComparedGroup]) -> impl Iterator<Item = &Cell> {
    groups.iter().flat_map(|group| group.cells.iter().flatten())
}

fn interval<'a>(cell: &'a Cell, figure: &Figure) -> Option<&'a Interval> {
    cell.doubted.as_ref()?.find(figure.name)?.interval.as_ref()
}

fn table(comparison: &Comparison, groups: &[ComparedGroup], columns: &[&Figure]) -> Table {
    let named = named(groups);
    let mut table = named.table().left("drive").labels();
    for figure in columns {
        table = table.left(figure.column.0);
    }
    for group in groups {
        table.group();
        let mut labels = named.cells(&group.label);
        for (drive, cell) in comparison.drives.iter().zip(&group.cells) {
            let shown = columns
                .iter()
                .map(|figure| cell.as_ref().map_or(String::from("-"), |cell| interval_ends_text(cell, figure)));
            table.row(labels.iter().cloned().chain([drive.name.clone()]).chain(shown));
            labels.fill(String::new());
        }
    }
    table
}

/// Formats the ends of a figure's prediction interval, as in `9.8 to 12.1`.
fn interval_ends_text(cell: &Cell, figure: &Figure) -> String {
    let shown = |value: f64| describe::figure(value / figure.column.1);
    interval(cell, figure)
        .map_or(String::from("-"), |interval| format!("{} to {}", shown(interval.low), shown(interval.high)))
}
