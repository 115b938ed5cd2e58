//! Tables as a C header with look-up functions.

use super::listed;
use crate::export::ExportAnswer;
use crate::export::checks::DIRECTIONS;
use crate::export::table::Level;

const TEMPLATE: &str = include_str!("latency.h");

/// Returns the tables as a C header.
pub(super) fn text(answer: &ExportAnswer) -> String {
    let axes = answer.axes();
    let lists = [
        ("MIXES", "read_percents", &axes.read_percents),
        ("SIZES", "bytes", &axes.bytes),
        ("DEPTHS", "in_flight", &axes.in_flight),
        ("LOADS", "load_percents", &axes.load_percents),
        ("QUANTILES", "percents", &answer.percents),
    ];
    let counts = lists.map(|(count, _, values)| format!("enum {{ PHASELINK_{count} = {} }};\n", values.len()));
    let lists = lists.map(|(_, name, values)| array(name, values));
    let tables = [("ns", Level::InFlight, axes.in_flight.len()), ("load_ns", Level::Load, axes.load_percents.len())];
    let tables = tables.map(|(name, level, levels)| {
        let side = axes.bytes.len() * levels * answer.percents.len();
        array(name, &all_latencies_ns(answer, level, side))
    });
    let text = [&counts[..], &lists, &[array("iops_max", &answer.iops_max())], &tables].concat().concat();
    answer.filled(TEMPLATE, &text)
}

/// Returns the latencies of all mixes, each with `side` latencies of reads and as many of writes; negative ones stand for
/// requests that a mix lacks.
fn all_latencies_ns(answer: &ExportAnswer, level: Level, side: usize) -> Vec<f64> {
    let sides = answer.axes().read_percents.into_iter().flat_map(|percent| DIRECTIONS.map(|name| (percent, name)));
    let ns = |(percent, direction): (f64, &str)| {
        let ns: Vec<f64> = answer.quantiles(level, percent, direction).flatten().copied().collect();
        if ns.is_empty() { vec![-1.0; side] } else { ns }
    };
    sides.flat_map(ns).collect()
}

fn array(name: &str, values: &[f64]) -> String {
    format!("static const double phaselink_{name}[{}] = {{{}}};\n", values.len(), listed(values))
}
