//! The comparison for scripts.

use phaselink_core::compare;
use phaselink_core::drive::Drive;
use serde_json::{Map, Value};

use super::{Cell, Comparison, Group};
use crate::precision;

/// One object: `cells` with the figures, `descriptions` with every drive as it was run.
pub(super) fn document(comparison: &Comparison, groups: &[Group]) -> Value {
    let cells = groups.iter().flat_map(|group| {
        let cells = comparison.drives.iter().zip(&group.cells);
        cells.map(|(drive, cell)| entry(comparison, group, drive, cell.as_ref()))
    });
    let rw = groups.first().and_then(|group| group.label.rw);
    let (options, set) = (&comparison.options, &comparison.set);
    compare::document((comparison.seed, rw), options, set, cells.collect(), &comparison.drives)
}

fn entry(comparison: &Comparison, group: &Group, drive: &Drive, cell: Option<&Cell>) -> Map<String, Value> {
    let mut entry = compare::entry(&group.label, drive, cell.map(|cell| &cell.ran));
    let measurement = cell.and_then(|cell| cell.measurement.as_ref());
    if let Some((measurement, share)) = measurement.zip(comparison.precision) {
        entry.insert(String::from("precision"), precision::json(measurement, share));
    }
    if let Some(doubted) = cell.and_then(|cell| cell.doubted.as_ref()) {
        entry.insert(String::from("intervals"), doubted.json());
    }
    entry
}
