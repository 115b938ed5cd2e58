//! JSON document of `compare`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{ByName, CellFigures, Description, FigureInterval, MeasuredIn, PrecisionResult, StageMean};
use crate::results::{Evidence, Finding};

/// Drives side by side under the same jobs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompareDocument {
    /// Seed of everything random.
    pub seed: u64,
    /// fio's name for the access pattern; null if jobs differ.
    pub rw: Option<String>,
    /// Options of the jobs besides their sizes, as `name=value`.
    pub options: Vec<String>,
    /// Overrides of the drives as typed.
    pub set: Vec<String>,
    /// Findings, the most general first: which drive is faster, and why.
    pub findings: Vec<Finding>,
    /// Measurements behind each drive, then each stack and each host.
    pub evidence: Vec<Evidence>,
    /// Each drive at each size of the jobs.
    pub cells: Vec<ComparedCell>,
    /// Drives as they were run, in their order.
    pub descriptions: Vec<Description>,
}

/// Drive at one size of the jobs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ComparedCell {
    /// Figures of the drive.
    Ran(Box<RanCell>),
    /// Drive whose queues are too short for the jobs.
    Short(ShortCell),
}

/// Drive and size of the jobs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CellLabels {
    /// Name of the drive.
    pub drive: String,
    /// Bytes of a request; null if requests differ.
    pub bs: Option<u32>,
    /// Number of threads.
    pub numjobs: u32,
    /// Requests that each thread keeps in flight; null if threads differ.
    pub iodepth: Option<u32>,
    /// fio's name for the access pattern; null if jobs differ.
    pub rw: Option<String>,
    /// Promise of the drive for a write that it has acknowledged.
    pub acknowledged_write: String,
}

/// Figures of a drive at one size of the jobs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RanCell {
    /// Drive and size of the jobs.
    #[serde(flatten)]
    pub labels: CellLabels,
    /// Figures of all requests together.
    #[serde(flatten)]
    pub figures: CellFigures,
    /// State of the drive in which requests were counted.
    pub measured: MeasuredIn,
    /// Resource that keeps the drive from more throughput; null if only latency does.
    pub limit: Option<String>,
    /// Utilisation of each resource, the busiest first.
    pub usage: Vec<ResourceUse>,
    /// Stages in which requests spent time, in their order; they sum to the mean latency.
    pub stages: Vec<StageMean>,
    /// Confidence in mean and p99, if a precision was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<PrecisionResult>,
    /// Intervals of figures, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<ByName<FigureInterval>>,
}

/// Drive whose queues are too short for the jobs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ShortCell {
    /// Drive and size of the jobs.
    #[serde(flatten)]
    pub labels: CellLabels,
    /// Requests that the drive's queues hold.
    pub iodepth_max: u32,
}

/// Utilisation of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ResourceUse {
    /// Name of the resource.
    pub resource: String,
    /// Share of the run for which the resource was busy, 0 to 1.
    pub share: f64,
}
