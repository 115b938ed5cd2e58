//! HTML page of `phaselink dma`, for `--report`: latency and bandwidth of DMA transfers.

use phaselink_core::drive::Drive;
use phaselink_core::ledger::DirectionOutcome;
use phaselink_core::number::whole;
use phaselink_studies::dma::Measured;
use phaselink_studies::report::html::axis::{AxisScale, PlotAxis};
use phaselink_studies::report::html::lines::{PlotLine, lines};
use phaselink_studies::report::html::page::{Page, heading, side_by_side};
use phaselink_studies::report::html::{LatencySeries, percentiles};
use phaselink_studies::results::units;

use super::text::{conditions_sentence, table};
use crate::describe;

/// Maximum number of sizes in one plot of percentiles, which has as many colours.
const SIZES_MAX: usize = 8;

/// Results of DMA transfers in one direction: for each size, with one transfer in flight and with many.
struct Direction<'a> {
    name: &'static str,
    sizes: Vec<(u32, &'a DirectionOutcome, &'a DirectionOutcome)>,
}

/// Returns the HTML page of `phaselink dma`: latency and bandwidth of DMA transfers.
pub(super) fn page(device: &Drive, measured: &[Measured]) -> String {
    let Some(first) = measured.first() else { return Page::new(&device.name, &[]).finish() };
    let told = [device.summary.clone(), describe::link(device), conditions_sentence(&first.question, device)];
    let directions = directions(measured);
    let curves: String = directions.iter().map(|direction| curves(direction, first.question.outstanding)).collect();
    Page::new(&device.name, &told)
        .section("Over size", &curves)
        .section(
            "Percentiles of transfers one at a time",
            &directions.iter().map(dma_latency_percentile_plots).collect::<String>(),
        )
        .table("All figures", &table(measured))
        .finish()
}

fn directions(measured: &[Measured]) -> Vec<Direction<'_>> {
    let mut found: Vec<Direction> = Vec::new();
    for size in measured {
        for (name, alone, loaded) in size.directions() {
            let entry = (size.question.bytes, alone, loaded);
            match found.iter_mut().find(|direction| direction.name == name) {
                Some(direction) => direction.sizes.push(entry),
                None => found.push(Direction { name, sizes: vec![entry] }),
            }
        }
    }
    found
}

fn curves(direction: &Direction, outstanding: u32) -> String {
    let size = |bytes: f64| describe::size(whole(bytes));
    let seconds = |ns: f64| units::quantity(ns / 1e9, "s");
    let rate = |bits: f64| units::quantity(bits, "b/s");
    let x = PlotAxis { name: "bytes of a transfer", scale: AxisScale::Logarithmic, shown: &size };
    let alone = |name: &str, percent: f64| {
        let point = |(bytes, alone, _): &(u32, &DirectionOutcome, &DirectionOutcome)| {
            (f64::from(*bytes), alone.total.supported_percentile(percent).map(|span| span.as_ns()))
        };
        PlotLine::through(name, direction.sizes.iter().map(point))
    };
    let mean = direction.sizes.iter().map(|(bytes, alone, _)| (f64::from(*bytes), Some(alone.total.mean_ns())));
    let latencies = [PlotLine::through("mean", mean), alone("50 %", 50.0), alone("99 %", 99.0), alone("99.9 %", 99.9)];
    let loaded = direction.sizes.iter().map(|(bytes, _, loaded)| (f64::from(*bytes), Some(8.0 * loaded.bytes_per_s())));
    let loaded = [PlotLine::through("bandwidth", loaded)];
    let many = format!("{outstanding} at a time");
    let plots = [
        lines(
            &x,
            &PlotAxis { name: "latency", scale: AxisScale::Linear, shown: &seconds },
            &latencies,
            "One at a time",
        ),
        lines(&x, &PlotAxis { name: "bandwidth", scale: AxisScale::Linear, shown: &rate }, &loaded, &many),
    ];
    heading(direction.name) + &side_by_side(&plots)
}

fn dma_latency_percentile_plots(direction: &Direction) -> String {
    let every = direction.sizes.len().div_ceil(SIZES_MAX).max(1);
    let sizes = direction.sizes.iter().step_by(every);
    let series =
        sizes.map(|(bytes, alone, _)| LatencySeries { name: describe::size((*bytes).into()), latency: &alone.total });
    heading(direction.name) + &percentiles(&series.collect::<Vec<_>>())
}
