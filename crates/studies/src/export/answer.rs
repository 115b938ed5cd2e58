//! Answer of `export`: quantiles of latency at each condition, and the errors of drawing latencies from them.

use phaselink_core::ledger::{Latency, Outcome};
use schemars::JsonSchema;
use serde::Serialize;

use crate::results::documents::{Description, MeasuredIn};

/// Percentiles of every condition, from the shortest latency (0) to the longest (100).
pub(super) const PERCENTS: [f64; 32] = [
    0.0, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0, 70.0, 75.0, 80.0, 85.0,
    90.0, 92.5, 95.0, 96.0, 97.0, 98.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0,
];

/// Percentiles that the checks compare.
pub(super) const CHECKED: [f64; 2] = [50.0, 99.0];

/// JSON document of `phaselink export`: quantiles of a drive's latency by mix, size and requests in flight.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExportAnswer {
    /// Name of the drive.
    pub drive: String,
    /// Access pattern of all conditions, in fio's words: `randrw` or `rw`.
    pub pattern: String,
    /// Number of threads that share the requests in flight.
    pub threads: u32,
    /// Number of requests that were simulated at each condition.
    pub requests: u64,
    /// Seed of all random numbers of the simulations.
    pub seed: u64,
    /// Percentiles of the latencies of every condition, in per cent, from 0 (shortest) to 100 (longest).
    pub percents: Vec<f64>,
    /// Latencies at each mix of reads and writes, size, and number of requests in flight, in this order.
    pub conditions: Vec<ExportCondition>,
    /// Latencies at each mix, size and load of requests at random times, in this order.
    pub loads: Vec<ExportLoad>,
    /// Errors of latencies between two conditions.
    pub left_out: Vec<LeftOutCheck>,
    /// Errors of latencies of requests at random times, at loads that are not in the table.
    pub checks: Vec<LoadCheck>,
    /// Drive with every key resolved, overrides applied.
    pub description: Description,
}

/// Latencies of a drive at one mix, size, and number of requests in flight.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExportCondition {
    /// Share of reads among the requests, in per cent.
    pub read_percent: f64,
    /// Size of each request in bytes.
    pub bytes: u32,
    /// Number of requests that were in flight at once, over all threads.
    pub in_flight: u32,
    /// Throughput in requests a second.
    pub iops: f64,
    /// Latencies of reads from submission to completion; null without reads.
    pub reads: Option<LatencyQuantiles>,
    /// Latencies of writes from submission to completion; null without writes.
    pub writes: Option<LatencyQuantiles>,
    /// State of the drive (steady or burst) in which requests were counted.
    pub measured: MeasuredIn,
}

/// Latencies of a drive at one mix and size, for requests at random times (Poisson process).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExportLoad {
    /// Share of reads among the requests, in per cent.
    pub read_percent: f64,
    /// Size of each request in bytes.
    pub bytes: u32,
    /// Load in per cent of the largest throughput at this mix and size over all conditions.
    pub load_percent: f64,
    /// Load in requests a second, reads and writes together.
    pub offered_iops: f64,
    /// Latencies of reads from arrival to completion; null without reads.
    pub reads: Option<LatencyQuantiles>,
    /// Latencies of writes from arrival to completion; null without writes.
    pub writes: Option<LatencyQuantiles>,
}

/// Distribution of latencies as quantiles, between which it is a straight line.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LatencyQuantiles {
    /// Number of counted requests.
    pub requests: u64,
    /// Mean latency in ns.
    pub mean_latency_ns: f64,
    /// Largest percentile below 100 with at least ten independent requests beyond it, in per cent; 0 if there is none.
    /// Latencies at larger percentiles are those of the run, and vary between runs.
    pub known_to_percent: f64,
    /// Latency in ns at each percentile of `percents`.
    pub ns: Vec<f64>,
}

impl ExportCondition {
    /// Collects the latencies of a run at a condition.
    pub(super) fn new(read_percent: f64, bytes: u32, in_flight: u32, outcome: &Outcome) -> ExportCondition {
        ExportCondition {
            read_percent,
            bytes,
            in_flight,
            iops: outcome.iops(),
            reads: LatencyQuantiles::of(&outcome.jobs[0].read.total),
            writes: LatencyQuantiles::of(&outcome.jobs[0].write.total),
            measured: MeasuredIn::of(outcome.measured),
        }
    }
}

impl ExportLoad {
    /// Collects the latencies of a run at a load.
    pub(super) fn new(plan: &LoadPlan, outcome: &Outcome) -> ExportLoad {
        ExportLoad {
            read_percent: plan.read_percent,
            bytes: plan.bytes,
            load_percent: plan.load_percent,
            offered_iops: plan.offered_iops,
            reads: LatencyQuantiles::of(&outcome.jobs[0].read.total),
            writes: LatencyQuantiles::of(&outcome.jobs[0].write.total),
        }
    }
}

impl LatencyQuantiles {
    /// Returns the quantiles of counted latencies; `None` if none were counted.
    fn of(latency: &Latency) -> Option<LatencyQuantiles> {
        let is_known = |percent: &f64| *percent > 0.0 && *percent < 100.0 && latency.estimate(*percent).is_ok();
        let ns = |percent: f64| match percent {
            0.0 => latency.min().as_ns(),
            100.0 => latency.max().as_ns(),
            _ => latency.percentile(percent).as_ns(),
        };
        (latency.count() > 0).then(|| LatencyQuantiles {
            requests: latency.count(),
            mean_latency_ns: latency.mean().as_ns(),
            known_to_percent: PERCENTS.into_iter().filter(is_known).fold(0.0, f64::max),
            ns: PERCENTS.map(ns).into(),
        })
    }
}

/// Errors of latencies that are looked up between the neighbours of a condition that is left out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LeftOutCheck {
    /// Axis of the conditions that are left out in turn: `in_flight`, `load_percent`, or `bytes` (of both tables).
    pub axis: &'static str,
    /// Percentile that is compared, in per cent.
    pub percent: f64,
    /// Number of conditions that were left out, reads and writes apart.
    pub conditions: usize,
    /// Median error, in per cent of the simulated latency.
    pub median_error_percent: f64,
    /// Largest error, in per cent of the simulated latency.
    pub max_error_percent: f64,
}

/// Latencies of requests at random times, simulated and drawn from the table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoadCheck {
    /// Share of reads among the requests, in per cent.
    pub read_percent: f64,
    /// Size of each request in bytes.
    pub bytes: u32,
    /// Load in per cent of the largest throughput of this mix and size.
    pub load_percent: f64,
    /// Load in requests a second, reads and writes together.
    pub offered_iops: f64,
    /// `read` or `write`.
    pub direction: &'static str,
    /// Latencies of the simulated drive.
    pub simulated: CheckedLatency,
    /// Latencies that are looked up in the table by load.
    pub by_load: CheckedLatency,
    /// Latencies of a replica that draws each from the table by requests in flight.
    pub by_in_flight: CheckedLatency,
}

/// Percentiles of latency that a check compares.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct CheckedLatency {
    /// Median latency in ns.
    pub median_ns: f64,
    /// p99 in ns.
    pub tail_ns: f64,
}

/// Load of a check: requests of one mix and size at random times.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadPlan {
    pub(super) read_percent: f64,
    pub(super) bytes: u32,
    pub(super) load_percent: f64,
    pub(super) offered_iops: f64,
}

impl CheckedLatency {
    pub(super) fn of(latency: &Latency) -> CheckedLatency {
        let ns = |percent: f64| latency.percentile(percent).as_ns();
        CheckedLatency { median_ns: ns(CHECKED[0]), tail_ns: ns(CHECKED[1]) }
    }

    /// Returns the errors of p50 and p99 as shares of the simulated ones.
    pub fn errors(&self, simulated: CheckedLatency) -> [f64; 2] {
        [self.median_ns / simulated.median_ns - 1.0, self.tail_ns / simulated.tail_ns - 1.0]
    }
}
