//! Errors of a table beside the simulation that it comes from.
//!
//! Two kinds are measured. *Between conditions*: each inner size, number of requests in flight and load is left out, and its
//! latencies are looked up between its neighbours. These are twice as far apart as in the table, so that this is a bound.
//! *At random times*: requests arrive by a Poisson process at loads that are not in the table, with other random numbers. The
//! simulated latencies stand beside those that are looked up by the load, and beside those of a replica that draws each
//! latency by the requests in flight.

use phaselink_core::ledger::Outcome;
use phaselink_core::number::index;

use super::answer::{CHECKED, CheckedLatency, ExportAnswer, LeftOutCheck, LoadCheck, LoadPlan};
use super::replay::DrawnLoad;
use super::table::{Level, SimulatedLatencyTable};

/// Loads of the table, in per cent of the largest throughput of a mix and size.
pub(super) const LOADS: [f64; 6] = [10.0, 25.0, 50.0, 70.0, 80.0, 90.0];
/// Loads of the checks, which lie between those of the table.
pub(super) const CHECKED_LOADS: [f64; 2] = [40.0, 75.0];
/// Names of reads and of writes.
pub(super) const DIRECTIONS: [&str; 2] = ["read", "write"];

/// Returns the errors of latencies between conditions, by axis and percentile; none for axes without an inner condition.
pub(super) fn left_out(answer: &ExportAnswer) -> Vec<LeftOutCheck> {
    let tables = |level| mixes(answer).flat_map(move |percent| tables(answer, level, percent)).flatten();
    let axes =
        ["in_flight", "load_percent", "bytes"].into_iter().flat_map(|axis| CHECKED.map(|percent| (axis, percent)));
    let check = |(axis, percent): (&'static str, f64)| {
        let levels = [(Level::InFlight, "in_flight"), (Level::Load, "load_percent")];
        let chosen = levels.into_iter().filter(|(_, name)| axis == "bytes" || axis == *name);
        let all = chosen.flat_map(|(level, _)| tables(level));
        let mut errors: Vec<f64> = all.flat_map(|table| interpolation_errors(&table, axis, percent / 100.0)).collect();
        errors.sort_by(f64::total_cmp);
        let max_error_percent = *errors.last()?;
        let median_error_percent = errors[errors.len() / 2];
        Some(LeftOutCheck { axis, percent, conditions: errors.len(), median_error_percent, max_error_percent })
    };
    axes.filter_map(check).collect()
}

/// Returns the error in per cent at each inner condition of a table along an axis.
fn interpolation_errors(table: &SimulatedLatencyTable, axis: &str, share: f64) -> Vec<f64> {
    let (sizes, levels) = (table.sizes(), table.levels());
    let is_size = axis == "bytes";
    let count = if is_size { sizes.len() } else { levels.len() };
    let error = |place: usize, other: f64| {
        let without = if is_size { table.without_size(place) } else { table.without_level(place) };
        let (bytes, level) = if is_size { (sizes[place], other) } else { (other, levels[place]) };
        let (true_ns, found_ns) = (table.ns(bytes, level, share)?, without.ns(bytes, level, share)?);
        Some(100.0 * (found_ns / true_ns - 1.0).abs())
    };
    let others = if is_size { levels } else { sizes };
    (1..count.saturating_sub(1)).flat_map(|place| others.iter().filter_map(move |other| error(place, *other))).collect()
}

/// Returns loads of each mix and size, in per cent of their largest throughput.
pub(super) fn check_load_plans(answer: &ExportAnswer, percents: &[f64]) -> Vec<LoadPlan> {
    let columns =
        answer.conditions.chunk_by(|one, other| (one.read_percent, one.bytes) == (other.read_percent, other.bytes));
    let plans = columns.flat_map(|conditions| {
        let iops_max = conditions.iter().map(|condition| condition.iops).fold(0.0, f64::max);
        let (read_percent, bytes) = (conditions[0].read_percent, conditions[0].bytes);
        percents.iter().map(move |load_percent| LoadPlan {
            read_percent,
            bytes,
            load_percent: *load_percent,
            offered_iops: iops_max * load_percent / 100.0,
        })
    });
    plans.collect()
}

impl LoadPlan {
    /// Sets the latencies of this load, by both tables, beside those of a simulation.
    pub(super) fn check(&self, answer: &ExportAnswer, outcome: &Outcome) -> Vec<LoadCheck> {
        let in_flight_max = answer.conditions.iter().map(|condition| condition.in_flight).max().unwrap_or(1);
        let drawn = DrawnLoad {
            tables: tables(answer, Level::InFlight, self.read_percent),
            read_percent: self.read_percent,
            bytes: self.bytes,
            iops: self.offered_iops,
            in_flight_max: index(in_flight_max),
            requests: answer.requests,
            seed: answer.seed,
        };
        let simulated = [&outcome.jobs[0].read.total, &outcome.jobs[0].write.total];
        let by_load = tables(answer, Level::Load, self.read_percent);
        let both = DIRECTIONS.into_iter().zip(simulated).zip(by_load).zip(drawn.run());
        both.filter_map(|(((direction, simulated), table), drawn)| {
            let at = |percent: f64| table.as_ref()?.ns(f64::from(self.bytes), self.load_percent, percent / 100.0);
            let by_load = CheckedLatency { median_ns: at(CHECKED[0])?, tail_ns: at(CHECKED[1])? };
            (simulated.count() > 0 && drawn.count() > 0).then(|| LoadCheck {
                read_percent: self.read_percent,
                bytes: self.bytes,
                load_percent: self.load_percent,
                offered_iops: self.offered_iops,
                direction,
                simulated: CheckedLatency::of(simulated),
                by_load,
                by_in_flight: CheckedLatency::of(&drawn),
            })
        })
        .collect()
    }
}

/// Returns the mixes of an answer, in their order.
pub(super) fn mixes(answer: &ExportAnswer) -> impl Iterator<Item = f64> {
    let mut mixes: Vec<f64> = answer.conditions.iter().map(|condition| condition.read_percent).collect();
    mixes.dedup();
    mixes.into_iter()
}

/// Returns the tables of reads and of writes at a mix.
pub(super) fn tables(answer: &ExportAnswer, level: Level, read_percent: f64) -> [Option<SimulatedLatencyTable<'_>>; 2] {
    DIRECTIONS.map(|direction| answer.table(level, read_percent, direction))
}

impl ExportAnswer {
    /// Returns the median errors in per cent of p50 and p99 over all checks, by load or by requests in flight; `None` without
    /// checks.
    pub(super) fn median_check_errors(&self, level: Level) -> Option<[f64; 2]> {
        let of = |check: &LoadCheck| if level == Level::Load { check.by_load } else { check.by_in_flight };
        let errors = |place: usize| self.checks.iter().map(move |check| of(check).errors(check.simulated)[place]);
        Some([median_absolute_percent(errors(0))?, median_absolute_percent(errors(1))?])
    }
}

/// Returns the median of errors, as their absolute values in per cent; `None` without errors.
fn median_absolute_percent(errors: impl Iterator<Item = f64>) -> Option<f64> {
    let mut errors: Vec<f64> = errors.map(|error| 100.0 * error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let middle = errors.len() / 2;
    errors
        .get(middle)
        .map(|upper| if errors.len().is_multiple_of(2) { (upper + errors[middle - 1]) / 2.0 } else { *upper })
}
