//! HTML page of `phaselink whatif`, for `--report`: drives ranked by speed-up of a recorded application.

use phaselink_core::ledger::stage::LatencyCause;
use phaselink_studies::report::html::axis::{PlotAxis, Scale};
use phaselink_studies::report::html::colour;
use phaselink_studies::report::html::columns::{Column, LegendKey, columns};
use phaselink_studies::report::html::page::{Page, list, paragraph, side_by_side};
use phaselink_studies::results::units;

use super::text::{assumptions, candidate_name, conclusion, table};
use super::{RankedCandidate, WhatIf};
use crate::describe;

/// Returns the HTML page of `phaselink whatif`: drives ranked by speed-up of a recorded application.
pub(super) fn page(asked: &WhatIf, ranked: &[RankedCandidate], unfit: &[String]) -> String {
    let names = ranked.iter().enumerate().map(|(place, one)| format!("{}: {}", place + 1, candidate_name(asked, one)));
    let names: Vec<String> = names.collect();
    let body = side_by_side(&[gains(ranked), times(ranked)]) + &list(names.iter().map(String::as_str));
    Page::new(&format!("Would it pay? {}", asked.file), &[assumptions(asked)])
        .conclusion(&conclusion(asked, ranked))
        .section("What other drives change", &body)
        .table("All figures", &table(asked, ranked))
        .section("Drives that cannot", &list(unfit.iter().map(String::as_str)))
        .section("How to read it", &paragraph(HOW))
        .finish()
}

const HOW: &str = "A request waits for the completion that came last before it when the application was recorded, and for the pause \
                   between the two, in which the application computed or slept. Pauses stay; waits become those of the other drive. \
                   The lower part of a gain is sure: nine of ten draws of all constants in doubt lie within the two lighter parts.";

fn key(name: &str, cause: LatencyCause) -> LegendKey {
    LegendKey { name: name.into(), colour: colour::of_cause(cause) }
}

/// Returns a plot of the candidates' speed-ups as stacked columns: lower end of the prediction interval, value, and
/// upper end.
fn gains(ranked: &[RankedCandidate]) -> String {
    let times = |gain: f64| describe::figure(gain);
    let y = PlotAxis { name: "times as fast as now", scale: Scale::Linear, shown: &times };
    let keys = [
        key("lower end", LatencyCause::Software),
        key("up to the value", LatencyCause::Copy),
        key("up to the upper end", LatencyCause::Completion),
    ];
    let column = |(place, one): (usize, &RankedCandidate)| Column {
        name: (place + 1).to_string(),
        parts: vec![one.gain.low, one.central - one.gain.low, one.gain.high - one.central],
    };
    let drawn: Vec<Column> = ranked.iter().enumerate().map(column).collect();
    columns("rank", &y, &keys, &drawn, 1.0, "Gain with its interval")
}

fn times(ranked: &[RankedCandidate]) -> String {
    let seconds = |s: f64| units::quantity(s, "s");
    let y = PlotAxis { name: "time of the replayed part", scale: Scale::Linear, shown: &seconds };
    let keys = [key("pauses", LatencyCause::Queueing), key("requests in flight", LatencyCause::DataTransfer)];
    let column = |(place, one): (usize, &RankedCandidate)| Column {
        name: (place + 1).to_string(),
        parts: vec![(one.elapsed_s - one.waited_s).max(0.0), one.waited_s],
    };
    let drawn: Vec<Column> = ranked.iter().enumerate().map(column).collect();
    columns("rank", &y, &keys, &drawn, 0.0, "Where the time goes")
}
