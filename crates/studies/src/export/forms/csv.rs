//! Tables as CSV: a row for each condition, load and direction, a column for each percentile.

use std::fmt::Write;

use super::listed;
use crate::export::checks::DIRECTIONS;
use crate::export::{ExportAnswer, LatencyQuantiles};

/// Returns both tables as CSV with a heading. Rows have either requests in flight or a load; the other column is empty.
pub(super) fn text(answer: &ExportAnswer) -> String {
    let percents: Vec<String> = answer.percents.iter().map(|percent| format!("p{percent}_ns")).collect();
    let heading = "read_percent,direction,bytes,in_flight,load_percent,iops,requests,mean_latency_ns,known_to_percent";
    let mut text = format!("{heading},{}\n", percents.join(","));
    for at in &answer.conditions {
        let place = format!("{},{},{}", at.bytes, at.in_flight, "");
        rows(&mut text, at.read_percent, &place, at.iops, [&at.reads, &at.writes]);
    }
    for at in &answer.loads {
        let place = format!("{},{},{}", at.bytes, "", at.load_percent);
        rows(&mut text, at.read_percent, &place, at.offered_iops, [&at.reads, &at.writes]);
    }
    text
}

/// Adds the rows of reads and of writes at one place.
fn rows(text: &mut String, read_percent: f64, place: &str, iops: f64, both: [&Option<LatencyQuantiles>; 2]) {
    for (direction, quantiles) in DIRECTIONS.into_iter().zip(both) {
        let Some(quantiles) = quantiles else { continue };
        let LatencyQuantiles { requests, mean_latency_ns, known_to_percent, ns } = quantiles;
        let ns = listed(ns).replace(' ', "");
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "{read_percent},{direction},{place},{iops},{requests},{mean_latency_ns},{known_to_percent},{ns}"
        );
    }
}
