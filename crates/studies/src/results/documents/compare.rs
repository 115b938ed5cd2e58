//! JSON document of `compare`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{ByName, CellFigures, Description, FigureInterval, MeasuredIn, PrecisionResult, StageMean, TailResult};
use crate::results::{Evidence, Finding};

/// JSON document of `phaselink compare`: figures of several drives under equal jobs, at each block size, number of
/// threads and queue depth.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompareDocument {
    /// Seed of all random numbers in the runs of a comparison; every drive runs with this seed.
    pub seed: u64,
    /// Access pattern of the compared jobs, as fio's option `rw` names it; null if jobs of one comparison have
    /// different patterns.
    pub rw: Option<String>,
    /// fio options of the compared jobs as `name=value`, without block size, number of threads and queue depth.
    pub options: Vec<String>,
    /// Overrides of drive keys in a comparison (`--set key=value`), as the user typed them.
    pub set: Vec<String>,
    /// Findings of a comparison, the most general first: which drive is faster, and why.
    pub findings: Vec<Finding>,
    /// Measurements with which the model of each compared drive was checked; then of each software stack, and of each
    /// host.
    pub evidence: Vec<Evidence>,
    /// Results of a comparison: one object for each drive at each block size, number of threads and queue depth.
    pub cells: Vec<ComparedCell>,
    /// Results at equal offered load, for lines in which the throughputs of the drives differ at least three times;
    /// absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub equal_load: Vec<ComparedAtLoad>,
    /// Compared drives with every key resolved, overrides applied, in the order in which the drives were named.
    pub descriptions: Vec<Description>,
}

/// Results of all drives in `phaselink compare` that are offered the same number of requests a second.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ComparedAtLoad {
    /// Offered load in requests a second, whose times of arrival are random (Poisson process): 80 % of the throughput of
    /// the slowest drive, rounded down to two digits.
    pub offered_iops: f64,
    /// Results of the drives at this load, in the order in which the drives were named.
    pub cells: Vec<ComparedCell>,
}

/// Result of one drive in `phaselink compare` at one block size, number of threads and queue depth.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ComparedCell {
    /// Figures of a compared drive that ran the jobs.
    Ran(Box<RanCell>),
    /// Compared drive that did not run, because its queues have too few entries for the requests in flight.
    Short(ShortCell),
}

/// Drive and job parameters (block size, threads, queue depth) of one result of `phaselink compare`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CellLabels {
    /// Name of the compared drive.
    pub drive: String,
    /// Size of each request of the compared jobs, in bytes; null if requests have several sizes.
    pub bs: Option<u32>,
    /// Number of threads that issue requests in the compared jobs.
    pub numjobs: u32,
    /// Queue depth in the compared jobs: requests that each thread keeps in flight; null if threads have different
    /// depths.
    pub iodepth: Option<u32>,
    /// Requests a second that the jobs of one compared result offer, reads and writes together; null if jobs issue the
    /// next request after a completion.
    pub offered_iops: Option<f64>,
    /// Access pattern of the jobs of one compared result, as fio's option `rw` names it; null if these jobs have
    /// different patterns.
    pub rw: Option<String>,
    /// Place of the data when the compared drive acknowledges a write, in words, such as `an acknowledged write is in
    /// the cells`.
    pub acknowledged_write: String,
}

/// Figures of one drive in `phaselink compare` at one block size, number of threads and queue depth.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RanCell {
    /// Drive, block size, number of threads and queue depth of a compared result.
    #[serde(flatten)]
    pub labels: CellLabels,
    /// Figures of all requests of a compared drive under these jobs, such as throughput and mean latency.
    #[serde(flatten)]
    pub figures: CellFigures,
    /// True if the compared drive serves at least 95 % of the offered requests a second; null without an offered rate.
    pub keeps_up: Option<bool>,
    /// Percentiles of latency of a compared drive from p99 on by name of the figure, each with its 95 % confidence
    /// interval, or with the reason why the run has too few requests for it.
    pub tails: ByName<TailResult>,
    /// State of the compared drive (steady or burst) in which its requests were counted.
    pub measured: MeasuredIn,
    /// Name of the resource that limits the throughput of a compared drive: saturated, or awaited for more than a
    /// quarter of the latency. Null if only latency limits throughput.
    pub limit: Option<String>,
    /// Utilisation of each resource of a compared drive and its host, in descending order.
    pub usage: Vec<ResourceUse>,
    /// Mean time of reads and writes of the compared drive in each latency stage, in the order of the stages; the times
    /// sum to the mean latency.
    pub stages: Vec<StageMean>,
    /// 95 % confidence intervals of mean and p99 latency of the compared drive; absent without `--precision`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<PrecisionResult>,
    /// Prediction intervals from uncertain constants for the compared drive, by name of the figure; absent without
    /// `--intervals`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<ByName<FigureInterval>>,
}

/// Drive that `phaselink compare` did not run, because its queues have too few entries for the requests in flight.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ShortCell {
    /// Drive, block size, number of threads and queue depth that did not run in a comparison.
    #[serde(flatten)]
    pub labels: CellLabels,
    /// Largest number of requests that the queues of the compared drive hold.
    pub iodepth_max: u32,
}

/// Utilisation of one resource of drive or host during a simulated run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ResourceUse {
    /// Name of a resource of drive or host whose utilisation is stated, such as `media banks`.
    pub resource: String,
    /// Utilisation of a resource of drive or host: fraction of the run during which the resource is busy, 0 to 1.
    pub share: f64,
}
