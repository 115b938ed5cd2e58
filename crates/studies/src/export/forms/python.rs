//! Tables as a Python module with look-ups and a drive for SimPy.

use super::listed;
use crate::export::ExportAnswer;
use crate::export::checks::DIRECTIONS;
use crate::export::table::Level;

const TEMPLATE: &str = include_str!("latency.py");

/// Returns the tables as a Python module.
pub(super) fn text(answer: &ExportAnswer) -> String {
    let axes = answer.axes();
    let lists = [
        ("READ_PERCENTS", &axes.read_percents),
        ("BYTES", &axes.bytes),
        ("IN_FLIGHT", &axes.in_flight),
        ("LOAD_PERCENTS", &axes.load_percents),
        ("PERCENTS", &answer.percents),
    ];
    let lists = lists.map(|(name, values)| format!("{name} = [{}]\n", listed(values)));
    let iops = answer.iops_max();
    let iops: Vec<String> = iops.chunks(axes.bytes.len()).map(bracketed).collect();
    let iops = format!("IOPS_MAX = [{}]\n", iops.join(", "));
    let tables = [("NS", Level::InFlight, axes.in_flight.len()), ("LOAD_NS", Level::Load, axes.load_percents.len())];
    let tables = tables.map(|(name, level, levels)| {
        let mixes = axes.read_percents.iter().map(|percent| {
            let both = DIRECTIONS.map(|direction| latencies_of_direction(answer, level, (*percent, direction), levels));
            format!("[{}]", both.join(", "))
        });
        format!("{name} = [{}]\n", mixes.collect::<Vec<_>>().join(", "))
    });
    answer.filled(TEMPLATE, &[&lists[..], &[iops], &tables].concat().concat())
}

/// Returns the latencies of one direction at one mix: a list of sizes, each with a list of levels; `None` without such
/// requests.
fn latencies_of_direction(
    answer: &ExportAnswer,
    level: Level,
    (percent, direction): (f64, &str),
    levels: usize,
) -> String {
    let cells: Vec<String> = answer.quantiles(level, percent, direction).map(bracketed).collect();
    let sizes: Vec<String> = cells.chunks(levels).map(|cells| format!("[{}]", cells.join(", "))).collect();
    if sizes.is_empty() { String::from("None") } else { format!("[{}]", sizes.join(", ")) }
}

fn bracketed(values: &[f64]) -> String {
    format!("[{}]", listed(values))
}
