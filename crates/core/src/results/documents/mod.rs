//! Documents that `--json` prints, as types. Their JSON Schema is derived from the types and their comments.

mod compare;
mod dma;
mod fit;
mod named;
mod predict;
mod reproduce;
mod run;
mod schema;
mod sweep;
#[cfg(test)]
mod tests;
mod trace_info;
mod validate;

use schemars::JsonSchema;
use serde::Serialize;

pub use compare::*;
pub use dma::*;
pub use fit::*;
pub use named::*;
pub use predict::*;
pub use reproduce::*;
pub use run::*;
pub use schema::schema;
pub use sweep::*;
pub use trace_info::*;
pub use validate::*;

/// Converts a document to JSON.
pub fn value(document: &impl Serialize) -> serde_json::Value {
    // Keys of documents are texts, and nothing else can fail.
    serde_json::to_value(document).unwrap_or_default()
}

/// Mean time of a request in a stage of the ledger, or of the drive's software stack.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StageMean {
    /// Name of the stage.
    pub stage: StageName,
    /// Mean time of a request in the stage, in ns.
    pub mean_ns: f64,
}

/// Time of a request in a stage of the ledger, or of the drive's software stack, by a closed form.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StageTime {
    /// Name of the stage.
    pub stage: StageName,
    /// Time of a request in the stage, in ns.
    pub ns: f64,
}

/// Direction of requests or transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OpName {
    /// Data go to the reader.
    Read,
    /// Data go from the writer.
    Write,
}

/// Interval in which a figure lies in nine of ten draws of all uncertain constants, and of the model's own error where it is known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// Value that one draw of twenty is below.
    pub low: f64,
    /// Value that one draw of twenty is above.
    pub high: f64,
    /// Number of draws in which the figure was known.
    pub draws: usize,
    /// Constants that contribute most, the strongest first.
    pub contributions: Vec<Contribution>,
    /// Shares of the prediction between which nine of ten measurements of left-out machines lay, by which the ends are moved
    /// outwards; null if no machine was measured with this drive, stack or host, or if the figure is neither a time nor a rate.
    pub model_error: Option<(f64, f64)>,
}

/// Part of one constant in the uncertainty of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Contribution {
    /// Key of the constant in the drive file.
    pub key: String,
    /// Rank correlation (Spearman) over the draws of the figure with the part of this constant that stronger constants leave:
    /// 1 if the figure rises with it alone, -1 if it falls. Squares of all add up to the share that ranks explain.
    pub correlation: f64,
}

/// Value of a figure with its interval.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FigureInterval {
    /// Value of the figure with the constants as they are.
    pub value: Option<f64>,
    /// Interval of the figure.
    #[serde(flatten)]
    pub interval: Interval,
}

/// Confidence in mean and p99 of a run that goes on until both are known well enough.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PrecisionResult {
    /// Half width over value that was asked for.
    pub wanted_share: f64,
    /// True if both figures are known so well.
    pub reached: bool,
    /// Confidence of the intervals, 0 to 1.
    pub confidence: f64,
    /// Mean latency; null if the run is too short to know.
    pub mean: Option<KnownFigure>,
    /// 99th percentile of latency; null if the run is too short to know.
    pub p99: Option<KnownFigure>,
    /// Requests that are left out as warm-up; null if the run is too short to know.
    pub warm_up_ios: Option<u64>,
    /// Requests of a batch; null if the run is too short to know.
    pub batch_ios: Option<u64>,
    /// Reason why nothing can be said; null if something can.
    pub why_unknown: Option<String>,
}

/// Figure with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KnownFigure {
    /// Value of the figure, in ns.
    pub value_ns: f64,
    /// Half width of its interval, in ns.
    pub half_width_ns: f64,
}
