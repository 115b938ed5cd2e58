//! HTML page of break-even times, for `--report`.

use phaselink_core::ledger::stage::LatencyCause;
use phaselink_studies::breakeven::{BreakEven, Description, HISTORY, PARTS, sensitivity};
use phaselink_studies::report::html::axis::{PlotAxis, Scale};
use phaselink_studies::report::html::colour;
use phaselink_studies::report::html::columns::{Column, LegendKey, columns};
use phaselink_studies::report::html::lines::{PlotLine, lines};
use phaselink_studies::report::html::page::{Page, paragraph, side_by_side};

use super::{GROWTH, assumptions, changes, conclusion, history, table, time};
use crate::describe;

/// Returns the HTML page of the break-even times.
pub(super) fn page(description: &Description, times: &[BreakEven]) -> String {
    let bytes = times[0].block_bytes;
    let plots = [parts(times), rule(times)];
    Page::new("When does data belong on the drive?", &[assumptions(description)])
        .conclusion(&[conclusion(times)])
        .section("Break-even times", &(side_by_side(&plots) + &paragraph(HOW)))
        .table("All figures", &table(times))
        .table(
            &format!("A tenth more of each input, at {}", describe::size(bytes.into())),
            &changes(&sensitivity(description, bytes, GROWTH)),
        )
        .table("The rule since 1987", &history())
        .finish()
}

const HOW: &str = "A block that is accessed again within the break-even time costs less in memory, another one on the drive. The \
                   rule's history is drawn as far as its inputs are published; the page of each year is in the table.";

/// Returns a plot of break-even times by block size, as stacked columns of their parts.
fn parts(times: &[BreakEven]) -> String {
    let y = PlotAxis { name: "break-even time", scale: Scale::Linear, shown: &time };
    let causes = [LatencyCause::Software, LatencyCause::Copy, LatencyCause::Memory];
    let key =
        |(name, cause): (&&str, LatencyCause)| LegendKey { name: (*name).into(), colour: colour::of_cause(cause) };
    let keys: Vec<LegendKey> = PARTS.iter().zip(causes).map(key).collect();
    let column = |it: &BreakEven| Column { name: describe::size(it.block_bytes.into()), parts: it.parts_s.to_vec() };
    let drawn: Vec<Column> = times.iter().map(column).collect();
    columns("block", &y, &keys, &drawn, 0.0, "What the time comes from")
}

/// Returns a plot of the published break-even times since 1987 and those of this description, by year.
fn rule(times: &[BreakEven]) -> String {
    let year = |year: f64| format!("{year:.0}");
    let x = PlotAxis { name: "year", scale: Scale::Linear, shown: &year };
    let y = PlotAxis { name: "break-even time", scale: Scale::Logarithmic, shown: &time };
    let of = |device: &str| {
        let rules = HISTORY.iter().filter(|rule| rule.device == device);
        let points = rules.map(|rule| (f64::from(rule.year), Some(rule.seconds())));
        PlotLine::through(format!("{device}, published"), points.collect::<Vec<_>>())
    };
    let here = times.iter().map(|it| (YEAR_OF_PRICES, Some(it.seconds())));
    let here = PlotLine::through("this description, at 2026", here.collect::<Vec<_>>());
    lines(&x, &y, &[of("disk"), of("flash"), here], "The rule's history")
}

/// Year at which the plot shows the break-even times of the description.
const YEAR_OF_PRICES: f64 = 2026.0;
