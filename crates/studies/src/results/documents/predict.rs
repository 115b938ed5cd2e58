//! JSON document of `predict`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{ByName, Description, FigureInterval, OpName, StageTime};

/// JSON document of `phaselink predict`: latency and throughput limits of drives, computed by closed forms without
/// simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictDocument {
    /// Predicted drives, in the order in which the command line names them.
    pub drives: Vec<PredictedDrive>,
}

/// Latency and throughput limits of one drive under each job, by closed forms.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictedDrive {
    /// Name of the predicted drive, and the number of drives if there are several.
    pub drive: String,
    /// Predictions for a drive, one for each job, as if no other job ran at the time.
    pub jobs: Vec<PredictedJob>,
    /// Predicted drive with every key resolved, overrides applied.
    pub description: Description,
    /// Prediction intervals of predicted figures from uncertain constants of the model, by name of the figure; absent
    /// without `--intervals`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<ByName<FigureInterval>>,
}

/// Predicted latency and throughput limits of one job on one drive, by closed forms.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictedJob {
    /// Name of the predicted job.
    pub name: String,
    /// Queue depth of the predicted job: requests that each thread keeps in flight.
    pub iodepth: u32,
    /// Number of threads of the predicted job.
    pub threads: u32,
    /// Mean size of the predicted job's requests, in bytes.
    pub mean_bytes: f64,
    /// Classes into which the requests of the predicted job divide, by direction and size.
    pub classes: Vec<PredictedClass>,
    /// Throughput limits of each resource under the predicted job, the lowest limit first.
    pub limits: Vec<ResourceLimit>,
    /// Name of the bottleneck of the predicted job: the resource with the lowest throughput limit.
    pub bottleneck: String,
    /// Number of requests in flight at which the bottleneck can saturate; null if the latency of the job's requests has
    /// no closed form.
    pub saturation_depth: Option<f64>,
    /// Predicted mean latency of the job's requests with one request in flight, in ns; null without a closed form.
    pub alone_ns: Option<f64>,
    /// Predicted throughput and latency of the job at its own queue depth and number of threads.
    pub loaded: LoadedJob,
}

/// Class of a predicted job's requests that have one direction and one size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictedClass {
    /// Direction of the requests of this class: read or write.
    pub op: OpName,
    /// Size of each request of this class, in bytes.
    pub bytes: u32,
    /// Fraction of the predicted job's requests that belong to this class, 0 to 1.
    pub share: f64,
    /// Predicted latency of a request of this class with no other request in flight; null without a closed form.
    pub alone: Option<AloneLatency>,
}

/// Predicted latency of a request with no other request in flight, by a closed form.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AloneLatency {
    /// Relation of the closed form to simulated latencies of lone requests: exact, mean or lower bound.
    pub certainty: CertaintyName,
    /// Reason in words why the closed form is a mean or a lower bound; null if the closed form is exact.
    pub why: Option<String>,
    /// Stages of a lone request's latency with their times by the closed form, in the order of the stages; the times
    /// sum to `total_ns`.
    pub stages: Vec<StageTime>,
    /// Predicted latency of a lone request, in ns.
    pub total_ns: f64,
    /// Mean of lone random reads of flash, beside their lower bound in `total_ns`; absent for other requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_read: Option<PredictedLoneFlashRead>,
}

/// Predicted mean of lone random reads of flash, and what it consists of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictedLoneFlashRead {
    /// Mean latency of a lone read, in ns.
    pub latency_ns: f64,
    /// Share of the reads that come from the flash cells, 0 to 1; the write buffer has the data of the others.
    pub cells_share: f64,
    /// Array read time of each kind of page, in ns, in ascending order; every kind has the same share of the data.
    pub page_read_ns: Vec<f64>,
    /// Number of pages of different dies that a request reads together, the slowest of which it waits for.
    pub pages_together: u32,
}

/// Relation of a predicted latency (closed form) to the simulated latencies of lone requests: equal to each, equal to
/// their mean, or a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CertaintyName {
    /// Every simulated lone request has exactly the latency of the closed form.
    Exact,
    /// Simulated lone requests have the latency of the closed form on average.
    Mean,
    /// Simulated lone requests have at least the latency of the closed form.
    AtLeast,
}

/// Throughput that one resource of drive or host cannot exceed under a predicted job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ResourceLimit {
    /// Name of the resource with this throughput limit, such as `flash dies`.
    pub resource: String,
    /// Number of servers (parallel units) of the resource, such as dies or cores.
    pub servers: f64,
    /// Mean service time of a request at one server of the resource, in ns.
    pub busy_ns: f64,
    /// Largest throughput that the resource allows, in requests a second.
    pub iops_max: f64,
    /// Largest bandwidth of user data that the resource allows, in bytes a second.
    pub bytes_per_s_max: f64,
}

/// Predicted throughput and latency of a job at its queue depth and number of threads.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoadedJob {
    /// Number of requests that all threads of the predicted job together keep in flight.
    pub outstanding: u64,
    /// Upper bound of the predicted job's throughput, in requests a second.
    pub iops_max: f64,
    /// Upper bound of the predicted job's bandwidth, in bytes a second.
    pub bytes_per_s_max: f64,
    /// Estimate of the predicted job's throughput in requests a second: the balanced job bound of queueing theory, with
    /// waits for uneven service times added. Null if the theory does not apply.
    pub iops_balanced: Option<f64>,
    /// Lower bound of the predicted job's mean latency at its queue depth, in ns; null without a closed form.
    pub mean_ns_min: Option<f64>,
}
