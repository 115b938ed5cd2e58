//! HTML page of `phaselink kvcache`, for `--report`.

use phaselink_core::ledger::stage::LatencyCause;
use phaselink_studies::inference::tiers::TIER_NAMES;
use phaselink_studies::report::html::axis::{PlotAxis, Scale};
use phaselink_studies::report::html::colour;
use phaselink_studies::report::html::columns::{Column, LegendKey, columns};
use phaselink_studies::report::html::page::{Page, paragraph, side_by_side};
use phaselink_studies::results::units;

use super::text::{assumptions, blocks, conclusion, table, title};
use super::{AnsweredDrive, CacheQuestion};

/// Returns the HTML page of `phaselink kvcache` with the results of all drives.
pub(super) fn page(question: &CacheQuestion, answered: &[AnsweredDrive]) -> String {
    let plots = [first_tokens(question, answered), places(question, answered)];
    let mut page = Page::new("Key-value cache on drives", &[assumptions(question, answered)])
        .conclusion(&conclusion(question, answered))
        .section("What the drives change", &(side_by_side(&plots) + &paragraph(NOTE)))
        .table("All figures", &table(answered));
    for one in answered {
        page = page.table(&format!("Blocks with {}", title(question, one)), &blocks(one));
    }
    page.finish()
}

const NOTE: &str = "Means; the table has 95 % intervals of what is sampled. Waiting is the time until the last read of a \
                    request from the drive and its copy from host memory.";

fn key(name: &str, cause: LatencyCause) -> LegendKey {
    LegendKey { name: name.into(), colour: colour::of_cause(cause) }
}

fn first_tokens(question: &CacheQuestion, answered: &[AnsweredDrive]) -> String {
    let seconds = |s: f64| units::quantity(s, "s");
    let y = PlotAxis { name: "mean time to the first token", scale: Scale::Linear, shown: &seconds };
    let keys = [key("computing", LatencyCause::Software), key("waiting for cached blocks", LatencyCause::DataTransfer)];
    let column = |name: String, prefill_s: f64, all_s: f64| Column { name, parts: vec![prefill_s, all_s - prefill_s] };
    let mut drawn = Vec::new();
    for one in answered {
        let answer = &one.answer;
        let requests_per_s = answer.totals.requests as f64 / answer.duration_s;
        let prefill_s = answer.prefill_shares[0] / requests_per_s;
        // A drive that cannot keep up has no mean time to the first token, so it has no column.
        if let Some(first_token) = answer.first_token {
            drawn.push(column(title(question, one), prefill_s.min(first_token.mean_s), first_token.mean_s));
        }
    }
    if let Some(one) = answered.first() {
        let answer = &one.answer;
        let requests_per_s = answer.totals.requests as f64 / answer.duration_s;
        for (name, place, time) in [("no drive", 1, &answer.without_drive), ("no cache", 2, &answer.recomputed)] {
            let prefill_s = (answer.prefill_shares[place] / requests_per_s).min(time.mean_s);
            drawn.push(column(name.into(), prefill_s, time.mean_s));
        }
    }
    columns("cache on", &y, &keys, &drawn, 0.0, "Time to the first token")
}

fn places(question: &CacheQuestion, answered: &[AnsweredDrive]) -> String {
    let share = |share: f64| units::percent(share);
    let y = PlotAxis { name: "share of the bytes of prompts", scale: Scale::Linear, shown: &share };
    let causes = [LatencyCause::Copy, LatencyCause::Memory, LatencyCause::DataTransfer];
    let mut keys: Vec<LegendKey> = TIER_NAMES.iter().zip(causes).map(|(name, cause)| key(name, cause)).collect();
    keys.push(key("computed", LatencyCause::Software));
    let column = |one: &AnsweredDrive| {
        let totals = &one.answer.totals;
        let counts = totals.hits.iter().chain([&totals.computed]);
        let parts = counts.map(|count| count.bytes as f64 / totals.used.bytes.max(1) as f64).collect();
        Column { name: title(question, one), parts }
    };
    let drawn: Vec<Column> = answered.iter().map(column).collect();
    columns("cache on", &y, &keys, &drawn, 1.0, "Where blocks are found")
}
