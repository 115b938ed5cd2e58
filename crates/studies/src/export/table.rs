//! Look-up of a latency in a table: the rule that all exported forms share.
//!
//! A latency belongs to a size, a level, and a share of requests that are faster. The level is the number of requests in flight in
//! one table, and the load in the other. Each of the three lies on a straight line between the two nearest conditions or
//! quantiles. Outside the conditions there is no latency.

use super::answer::{ExportAnswer, LatencyQuantiles};
use phaselink_core::number::real_length;

/// Kind of level in the rows of a table: requests in flight, or load in per cent of the largest throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    InFlight,
    Load,
}

/// Latencies of reads or of writes at one mix, by size and level.
#[derive(Clone, Debug)]
pub(super) struct SimulatedLatencyTable<'a> {
    percents: &'a [f64],
    /// Sizes of requests in bytes, in rising order.
    sizes: Vec<f64>,
    /// Requests in flight or loads in per cent, in rising order.
    levels: Vec<f64>,
    /// Latencies of each size, and within it of each level.
    cells: Vec<Vec<&'a LatencyQuantiles>>,
}

/// Row of a table: size in bytes, level, and latencies.
pub(super) type TableRow<'a> = (f64, f64, &'a LatencyQuantiles);

/// Place of a value between two neighbours of a rising list.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interpolation {
    low: usize,
    high: usize,
    /// Weight of the higher neighbour, from 0 to 1.
    weight: f64,
}

impl Interpolation {
    /// Finds a value in a rising list; `None` outside.
    fn find_between(list: &[f64], value: f64) -> Option<Interpolation> {
        let high = list.iter().position(|entry| *entry >= value)?;
        if list[high] == value {
            return Some(Interpolation { low: high, high, weight: 0.0 });
        }
        let low = high.checked_sub(1)?;
        Some(Interpolation { low, high, weight: (value - list[low]) / (list[high] - list[low]) })
    }

    /// Returns the value on the line between two neighbours.
    fn interpolate_line(&self, at: impl Fn(usize) -> f64) -> f64 {
        if self.weight == 0.0 { at(self.low) } else { at(self.low) * (1.0 - self.weight) + at(self.high) * self.weight }
    }
}

impl ExportAnswer {
    /// Returns the rows of a mix for `read` or `write`, sorted by size and level; none without such requests.
    pub(super) fn rows(&self, level: Level, read_percent: f64, direction: &str) -> Vec<TableRow<'_>> {
        let side = |reads, writes| if direction == "read" { reads } else { writes };
        let closed = self
            .conditions
            .iter()
            .map(|at| (at.read_percent, f64::from(at.bytes), f64::from(at.in_flight), side(&at.reads, &at.writes)));
        let open = self
            .loads
            .iter()
            .map(|at| (at.read_percent, f64::from(at.bytes), at.load_percent, side(&at.reads, &at.writes)));
        let all: Vec<_> = if level == Level::InFlight { closed.collect() } else { open.collect() };
        let of_mix = all.into_iter().filter(|(percent, ..)| *percent == read_percent);
        of_mix.filter_map(|(_, bytes, level, quantiles)| Some((bytes, level, quantiles.as_ref()?))).collect()
    }

    /// Returns the table of a mix for `read` or `write`; `None` without such requests.
    pub(super) fn table(&self, level: Level, read_percent: f64, direction: &str) -> Option<SimulatedLatencyTable<'_>> {
        let rows = self.rows(level, read_percent, direction);
        let by_size: Vec<&[TableRow]> = rows.chunk_by(|one, other| one.0 == other.0).collect();
        let levels: Vec<f64> = by_size.first()?.iter().map(|row| row.1).collect();
        let is_whole = by_size.iter().all(|rows| rows.iter().map(|row| row.1).eq(levels.iter().copied()));
        is_whole.then(|| SimulatedLatencyTable {
            percents: &self.percents,
            sizes: by_size.iter().map(|rows| rows[0].0).collect(),
            levels,
            cells: by_size.iter().map(|rows| rows.iter().map(|row| row.2).collect()).collect(),
        })
    }
}

impl<'a> SimulatedLatencyTable<'a> {
    /// Returns the latency in ns that a share of requests (0 to 1) does not exceed; `None` outside the conditions.
    pub(super) fn ns(&self, bytes: f64, level: f64, share: f64) -> Option<f64> {
        let size = Interpolation::find_between(&self.sizes, bytes)?;
        let level = Interpolation::find_between(&self.levels, level)?;
        let quantile = Interpolation::find_between(self.percents, 100.0 * share)?;
        let cell = |size: usize, level: usize| {
            let quantiles = &self.cells[size][level].ns;
            quantile.interpolate_line(|place| quantiles[place])
        };
        Some(size.interpolate_line(|size| level.interpolate_line(|level| cell(size, level))))
    }

    /// Returns the level nearest to `count` requests in flight that the table covers.
    pub(super) fn covered(&self, count: usize) -> f64 {
        real_length(count).clamp(self.levels[0], self.levels[self.levels.len() - 1])
    }

    /// Returns the table without one level, by its place.
    pub(super) fn without_level(&self, place: usize) -> SimulatedLatencyTable<'a> {
        let mut table = self.clone();
        table.levels.remove(place);
        for row in &mut table.cells {
            row.remove(place);
        }
        table
    }

    /// Returns the table without one size, by its place.
    pub(super) fn without_size(&self, place: usize) -> SimulatedLatencyTable<'a> {
        let mut table = self.clone();
        table.sizes.remove(place);
        table.cells.remove(place);
        table
    }

    pub(super) fn sizes(&self) -> &[f64] {
        &self.sizes
    }

    pub(super) fn levels(&self) -> &[f64] {
        &self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolation_is_linear_and_refuses_values_outside() {
        let list = [1.0, 2.0, 4.0];
        assert_eq!(Interpolation::find_between(&list, 2.0), Some(Interpolation { low: 1, high: 1, weight: 0.0 }));
        let between = Interpolation::find_between(&list, 2.5).expect("within the list");
        assert_eq!((between.low, between.high, between.weight), (1, 2, 0.25));
        assert_eq!(between.interpolate_line(|place| [0.0, 100.0, 200.0][place]), 125.0);
        assert_eq!((Interpolation::find_between(&list, 0.5), Interpolation::find_between(&list, 4.1)), (None, None));
    }
}
