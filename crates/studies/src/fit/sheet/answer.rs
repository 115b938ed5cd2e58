//! Answer of `fit --data-sheet`: the drive with the origin of each key, beside the sheet's latencies and under load.

use schemars::JsonSchema;
use serde::Serialize;

use super::drive::SheetDriveCandidate;
use super::quantiles::LatencyByQuantile;
use crate::report::{Answer, Prose, Table};
use crate::results::units;

/// JSON document of `phaselink fit --data-sheet`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SheetAnswer {
    /// Name of the drive.
    pub drive: String,
    /// Keys that the sheet decides, with what they come from.
    pub keys: Vec<SheetKey>,
    /// Latencies of the nearly idle drive, on the sheet and simulated.
    pub idle: Vec<SheetFigure>,
    /// Latencies of reads and writes under more writes, which nothing on the sheet says.
    pub predicted: Vec<SheetLoad>,
    /// Number of simulations.
    pub simulations: u32,
    /// Drive file.
    pub drive_file: String,
}

/// Key of the drive with its value and its origin.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SheetKey {
    /// Name of the key.
    pub key: String,
    /// Value as in a drive file.
    pub value: String,
    /// Figure of the sheet that gives the value, or the reason for it.
    pub from: String,
    /// Least value of the range, in the key's unit, if the sheet leaves one.
    pub low: Option<f64>,
    /// Largest value of the range.
    pub high: Option<f64>,
}

/// Percentile of a latency on the sheet and simulated.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SheetFigure {
    /// `read` or `write`.
    pub direction: &'static str,
    /// Percentile in per cent.
    pub percentile: f64,
    /// Latency on the sheet in microseconds.
    pub measured_us: f64,
    /// Simulated latency in microseconds.
    pub simulated_us: f64,
}

/// Predicted latencies at a load.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SheetLoad {
    /// Random writes a second.
    pub writes_per_s: f64,
    /// Latencies of reads in microseconds: p50, p99, p99.9 and p99.99.
    pub read_us: [f64; 4],
    /// Latencies of writes in microseconds: p50, p99, p99.9 and p99.99.
    pub write_us: [f64; 4],
}

/// Quantiles of the predicted latencies.
const PREDICTED: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

impl SheetAnswer {
    pub(super) fn new(
        drive: &SheetDriveCandidate,
        (reads, writes): &(LatencyByQuantile, LatencyByQuantile),
        loads: Vec<(f64, LatencyByQuantile, LatencyByQuantile)>,
        simulations: u32,
    ) -> SheetAnswer {
        let figures = |direction, measured: &LatencyByQuantile, simulated: &LatencyByQuantile| {
            let pair = |((quantile, measured_us), (_, simulated_us)): (&(f64, f64), &(f64, f64))| SheetFigure {
                direction,
                percentile: 100.0 * quantile,
                measured_us: *measured_us,
                simulated_us: *simulated_us,
            };
            measured.points().iter().zip(simulated.points()).map(pair).collect::<Vec<_>>()
        };
        let load = |(writes_per_s, reads, writes): (f64, LatencyByQuantile, LatencyByQuantile)| SheetLoad {
            writes_per_s,
            read_us: PREDICTED.map(|quantile| reads.near(quantile)),
            write_us: PREDICTED.map(|quantile| writes.near(quantile)),
        };
        SheetAnswer {
            drive: drive.sheet.name.clone(),
            idle: [figures("read", &drive.sheet.reads(), reads), figures("write", &drive.sheet.writes(), writes)]
                .concat(),
            predicted: loads.into_iter().map(load).collect(),
            simulations,
            drive_file: drive.drive_file(),
            keys: drive.keys(),
        }
    }
}

impl Answer for SheetAnswer {
    const VERB: &'static str = "sheet";

    fn text(&self) -> Prose {
        let prose = Prose::default().lines(self.conclusion()).gap().table(self.load_table()).gap();
        prose.table(self.idle_table()).gap().table(self.key_table())
    }
}

impl SheetAnswer {
    /// Returns the conclusion in a sentence or two.
    fn conclusion(&self) -> String {
        let mut off: Vec<f64> = self
            .idle
            .iter()
            .filter(|it| it.direction == "read")
            .map(|it| (it.simulated_us / it.measured_us - 1.0).abs())
            .collect();
        off.sort_by(f64::total_cmp);
        let idle = format!(
            "{} from its data sheet: nearly idle, simulated percentiles of reads are {} off in the median.",
            self.drive,
            units::percent(off.get(off.len() / 2).copied().unwrap_or_default())
        );
        match self.predicted.get(2) {
            Some(load) => format!(
                "{idle}\nPredicted beside {} writes a second: reads of {:.0} us at p50, {:.0} us at p99 and {:.0} us at p99.99.",
                units::count(load.writes_per_s),
                load.read_us[0],
                load.read_us[1],
                load.read_us[3]
            ),
            None => idle,
        }
    }

    fn load_table(&self) -> Table {
        let mut table = Table::new().right("writes/s");
        for direction in ["read", "write"] {
            for percentile in ["p50 us", "p99", "p99.9", "p99.99"] {
                table = table.right(format!("{direction} {percentile}"));
            }
        }
        for load in &self.predicted {
            let latencies = load.read_us.iter().chain(&load.write_us).map(|us| format!("{us:.0}"));
            table.row(std::iter::once(units::count(load.writes_per_s)).chain(latencies));
        }
        table
    }

    fn idle_table(&self) -> Table {
        let mut table = Table::new().left("nearly idle").right("sheet us").right("simulated us").right("difference");
        for it in &self.idle {
            table.row([
                format!("{} p{}", it.direction, (it.percentile * 1e4).round() / 1e4),
                format!("{:.1}", it.measured_us),
                format!("{:.1}", it.simulated_us),
                format!("{:+.1} %", 100.0 * (it.simulated_us / it.measured_us - 1.0)),
            ]);
        }
        table
    }

    fn key_table(&self) -> Table {
        let mut table = Table::new().left("key").right("value").left("from");
        for it in &self.keys {
            table.row([it.key.clone(), it.value.clone(), it.from.clone()]);
        }
        table
    }
}
