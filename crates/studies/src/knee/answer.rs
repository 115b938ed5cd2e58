//! Answer of `knee`: latency at each load, and the knee.

use schemars::JsonSchema;
use serde::Serialize;

use crate::compare::keeps_up;
use crate::results::documents::{ByName, Description, MeasuredIn, TailResult};
use crate::results::{Figures, find};
use crate::tails;
use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::workload::Job;

/// Factor by which the p99 grows from the lowest load to the knee.
const GROWTH: f64 = 2.0;

/// JSON document of `phaselink knee`: latency of a job at each load, and the load at the knee.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KneeAnswer {
    /// Name of the drive whose latency grows with the load.
    pub drive: String,
    /// fio options of the job whose load is set.
    pub options: ByName<String>,
    /// Seed of all random numbers of the runs at each load.
    pub seed: u64,
    /// Throughput of the job at its queue depth, in requests a second, of which the loads are shares; null for given
    /// loads.
    pub saturated_iops: Option<f64>,
    /// Largest throughput that a run reached, in requests a second.
    pub iops_max: f64,
    /// Load at the knee, in requests a second: p99 of reads (of writes without reads) is twice that at the lowest load;
    /// the largest throughput if p99 never doubles. Null if p99 is unknown.
    pub knee_iops: Option<f64>,
    /// True if p99 has doubled at the knee; false if the drive saturates before, or the highest load does not reach the
    /// knee.
    pub is_doubled: bool,
    /// Name of the figure that decides on the knee, such as `read_p99_ns`.
    pub knee_figure: &'static str,
    /// Latency of the job at each load, the lowest load first.
    pub points: Vec<LoadPoint>,
    /// Drive with every key resolved, overrides applied.
    pub description: Description,
}

/// Latency of a job at one load.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoadPoint {
    /// Load in requests a second, reads and writes together, at random times.
    pub offered_iops: f64,
    /// Throughput in requests a second that the drive reached at this load.
    pub iops: f64,
    /// True if the drive serves at least 95 % of the load; otherwise its latencies grow with the length of the run.
    pub keeps_up: bool,
    /// Median latency of reads, in ns; null if it is unknown, or without reads.
    pub read_p50_ns: Option<f64>,
    /// Median latency of writes, in ns; null if it is unknown, or without writes.
    pub write_p50_ns: Option<f64>,
    /// Percentiles of latency from p99 on by name of the figure, each with its 95 % confidence interval, or with the
    /// number of requests that it needs.
    pub tails: ByName<TailResult>,
    /// State of the drive (steady or burst) in which requests were counted.
    pub measured: MeasuredIn,
}

impl LoadPoint {
    /// Collects the latencies of a run at a load.
    pub(super) fn new(offered_iops: f64, outcome: &Outcome) -> LoadPoint {
        let figures = Figures::of(outcome);
        let get = |name: &str| find(name).and_then(|figure| figures.get(figure));
        LoadPoint {
            offered_iops,
            iops: outcome.iops(),
            keeps_up: keeps_up(outcome.iops(), offered_iops),
            read_p50_ns: get("read_p50_ns"),
            write_p50_ns: get("write_p50_ns"),
            tails: tails::document(outcome),
            measured: MeasuredIn::of(outcome.measured),
        }
    }

    /// Returns a percentile of the point in ns by the name of its figure; `None` if it is unknown.
    pub fn ns(&self, name: &str) -> Option<f64> {
        match name {
            "read_p50_ns" => self.read_p50_ns,
            "write_p50_ns" => self.write_p50_ns,
            _ => self.tail(name)?.value_ns,
        }
    }

    /// Returns a tail of the point by the name of its figure.
    pub(super) fn tail(&self, name: &str) -> Option<&TailResult> {
        self.tails.0.iter().find(|(known, _)| known == name).map(|(_, tail)| tail)
    }
}

impl KneeAnswer {
    pub(super) fn new(
        drive: &Drive,
        job: &Job,
        seed: u64,
        saturated_iops: Option<f64>,
        points: Vec<LoadPoint>,
    ) -> KneeAnswer {
        let knee_figure = if job.read_percent > 0.0 { "read_p99_ns" } else { "write_p99_ns" };
        let iops_max = points.iter().map(|point| point.iops).fold(0.0, f64::max);
        let doubled = load_of_doubled_tail(&points, knee_figure);
        let is_known = points.iter().any(|point| point.ns(knee_figure).is_some());
        let options = job.options().into_iter().map(|(name, value)| (String::from(name), value));
        KneeAnswer {
            drive: drive.title(),
            options: ByName(options.collect()),
            seed,
            saturated_iops,
            iops_max,
            knee_iops: doubled.or(is_known.then_some(iops_max)),
            is_doubled: doubled.is_some(),
            knee_figure,
            points,
            description: Description(drive.resolved()),
        }
    }
}

/// Returns the achieved load at which a percentile is twice that of the lowest load, on the line between the two points
/// around it; `None` if it never doubles.
fn load_of_doubled_tail(points: &[LoadPoint], figure: &str) -> Option<f64> {
    let known: Vec<(f64, f64)> = points.iter().filter_map(|point| Some((point.iops, point.ns(figure)?))).collect();
    let limit = GROWTH * known.first()?.1;
    let pair = known.windows(2).find(|pair| pair[1].1 >= limit)?;
    let ((low_iops, low_ns), (high_iops, high_ns)) = (pair[0], pair[1]);
    Some(low_iops + (high_iops - low_iops) * (limit - low_ns) / (high_ns - low_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(iops: f64, p99_ns: Option<f64>) -> LoadPoint {
        let tail = TailResult { value_ns: p99_ns, ..TailResult::default() };
        LoadPoint {
            offered_iops: iops,
            iops,
            keeps_up: true,
            read_p50_ns: None,
            write_p50_ns: None,
            tails: ByName(vec![(String::from("read_p99_ns"), tail)]),
            measured: MeasuredIn::of(Default::default()),
        }
    }

    #[test]
    fn knee_is_where_p99_doubles() {
        let at = |p99: [Option<f64>; 4]| {
            let points = [1e3, 2e3, 3e3, 4e3].into_iter().zip(p99).map(|(iops, ns)| point(iops, ns));
            load_of_doubled_tail(&points.collect::<Vec<_>>(), "read_p99_ns")
        };
        assert_eq!(at([Some(100.0), Some(120.0), Some(180.0), Some(220.0)]), Some(3500.0));
        assert_eq!(at([None, Some(100.0), Some(400.0), Some(900.0)]), Some(2000.0 + 1000.0 / 3.0));
        assert_eq!(at([Some(100.0), Some(110.0), Some(120.0), Some(199.0)]), None);
        assert_eq!(at([None; 4]), None);
    }
}
