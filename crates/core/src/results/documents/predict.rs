//! JSON document of `predict`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{ByName, Description, FigureInterval, OpName, StageTime};

/// Closed forms of drives.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictDocument {
    /// Drives, in the order that was asked for.
    pub drives: Vec<PredictedDrive>,
}

/// Latency and limits of a drive in closed form.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictedDrive {
    /// Name of the drive.
    pub drive: String,
    /// Jobs, each as if it were alone.
    pub jobs: Vec<PredictedJob>,
    /// Drive key by key.
    pub description: Description,
    /// Intervals of figures, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<ByName<FigureInterval>>,
}

/// Latency and limits of a job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictedJob {
    /// Name of the job.
    pub name: String,
    /// Requests that each thread keeps in flight.
    pub iodepth: u32,
    /// Number of threads.
    pub threads: u32,
    /// Mean size of a request, in bytes.
    pub mean_bytes: f64,
    /// Kinds of requests.
    pub classes: Vec<PredictedClass>,
    /// Limits of resources, the bottleneck first.
    pub limits: Vec<ResourceLimit>,
    /// Resource with the lowest limit.
    pub bottleneck: String,
    /// Requests in flight from which on the bottleneck can be full; null if it has no closed form.
    pub saturation_depth: Option<f64>,
    /// Mean latency of lone requests, in ns; null if it has no closed form.
    pub alone_ns: Option<f64>,
    /// Throughput and latency at the depth of the job.
    pub loaded: LoadedJob,
}

/// Kind of requests of a job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictedClass {
    /// Direction of the requests.
    pub op: OpName,
    /// Size of a request, in bytes.
    pub bytes: u32,
    /// Share of the job's requests, 0 to 1.
    pub share: f64,
    /// Latency of a lone request; null if it has no closed form.
    pub alone: Option<AloneLatency>,
}

/// Latency of a lone request in closed form.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AloneLatency {
    /// Certainty of the closed form.
    pub certainty: CertaintyName,
    /// Reason why the latency is not exact; null if it is.
    pub why: Option<String>,
    /// Stages in which the request spends time, in their order; they sum to `total_ns`.
    pub stages: Vec<StageTime>,
    /// Latency, in ns.
    pub total_ns: f64,
}

/// Certainty of a closed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CertaintyName {
    /// Every lone request takes exactly as long.
    Exact,
    /// Lone requests take as long in the mean.
    Mean,
    /// Lone requests take at least as long.
    AtLeast,
}

/// Throughput that a resource cannot exceed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ResourceLimit {
    /// Name of the resource.
    pub resource: String,
    /// Number of units of the resource that serve side by side.
    pub servers: f64,
    /// Time for which a request keeps one of them busy, in ns.
    pub busy_ns: f64,
    /// Requests a second that the resource can serve.
    pub iops_max: f64,
    /// User data that the resource can serve, in bytes a second.
    pub bytes_per_s_max: f64,
}

/// Throughput and latency at the depth of a job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoadedJob {
    /// Requests that all threads together keep in flight.
    pub outstanding: u64,
    /// Upper bound of the throughput, in requests a second.
    pub iops_max: f64,
    /// Upper bound of the bandwidth, in bytes a second.
    pub bytes_per_s_max: f64,
    /// Throughput as balanced job bounds estimate it, in requests a second; null if it has no closed form.
    pub iops_balanced: Option<f64>,
    /// Lower bound of the mean latency, in ns; null if it has no closed form.
    pub mean_ns_min: Option<f64>,
}
