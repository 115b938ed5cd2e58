//! Documents that `--json` prints, as types. `crate::schema` derives their JSON Schema from the types and their comments.

mod compare;
mod crash;
mod dma;
mod fit;
mod named;
mod predict;
mod reproduce;
mod run;
mod sweep;
mod trace_info;
mod validate;

use schemars::JsonSchema;
use serde::Serialize;

pub use compare::*;
pub use crash::*;
pub use dma::*;
pub use fit::*;
pub use named::*;
pub use predict::*;
pub use reproduce::*;
pub use run::*;
pub use sweep::*;
pub use trace_info::*;
pub use validate::*;

/// Converts a document to JSON.
pub fn value(document: &impl Serialize) -> serde_json::Value {
    // Conversion fails only for maps with keys that are not strings, and documents have none.
    serde_json::to_value(document).unwrap_or_default()
}

/// Mean time that a request spends in one stage of its latency, such as `media` or `link wait`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StageMean {
    /// Name of the latency stage in which requests spend this mean time.
    pub stage: StageName,
    /// Mean time that a request spends in the latency stage, in ns; requests that skip the stage count as 0.
    pub mean_ns: f64,
}

/// Time of a lone request in one stage of its latency, as a closed form of `phaselink predict` computes the time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StageTime {
    /// Name of the latency stage for which a closed form gives a time.
    pub stage: StageName,
    /// Time of a lone request in the latency stage by the closed form, in ns.
    pub ns: f64,
}

/// Direction of requests, or of DMA transfers: read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OpName {
    /// Read: a request reads from the drive, or a DMA transfer reads from host memory.
    Read,
    /// Write: a request writes to the drive, or a DMA transfer writes to host memory.
    Write,
}

/// 90 % prediction interval of a figure, from random draws of all uncertain constants of the model and from the model's
/// measured error, if known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// Lower end of a 90 % prediction interval, in the figure's unit: one draw of twenty gives a smaller value. A known
    /// model error moves the end further down.
    pub low: f64,
    /// Upper end of a 90 % prediction interval, in the figure's unit: one draw of twenty gives a larger value. A known
    /// model error moves the end further up.
    pub high: f64,
    /// Number of random draws of the uncertain constants in which a run gives a value for the figure.
    pub draws: usize,
    /// Uncertain constants that contribute most to the width of the prediction interval, the strongest first; at most
    /// three.
    pub contributions: Vec<Contribution>,
    /// Ends of 90 % of measured values as factors of the predicted value, by which the interval is widened. Null if
    /// drive, stack and host have no measurements, or if the figure is neither a time nor a rate.
    pub model_error: Option<(f64, f64)>,
}

/// Contribution of one uncertain constant of the model to the prediction interval of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Contribution {
    /// Full name of the uncertain constant's key in the drive file, such as `media.read_ns`.
    pub key: String,
    /// Spearman rank correlation between the figure and the part of the constant that stronger constants do not
    /// explain, from -1 to 1. Squares of all correlations sum to the explained share of the variance of ranks.
    pub correlation: f64,
}

/// Figure of a run or a prediction, with its 90 % prediction interval from uncertain constants of the model.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FigureInterval {
    /// Value of the figure with every constant of the model at its nominal value, in the figure's unit.
    pub value: Option<f64>,
    /// 90 % prediction interval of the figure, in the figure's unit.
    #[serde(flatten)]
    pub interval: Interval,
}

/// 95 % confidence intervals of mean and p99 latency in a run with `--precision`, which ends when both are narrow
/// enough.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PrecisionResult {
    /// Name of the percentile that `--precision` names, such as `read_p99_99_ns`, whose interval is among the tails of the
    /// run; null for mean and p99 latency.
    pub figure: Option<String>,
    /// Relative precision that `--precision` requests: half width of the confidence interval over the value, as a
    /// fraction (0.01 for 1 %).
    pub wanted_share: f64,
    /// True if the percentile that `--precision` names, or both mean and p99 latency, have reached the requested
    /// precision.
    pub reached: bool,
    /// Confidence level of the intervals of mean and p99 latency, as a fraction: 0.95.
    pub confidence: f64,
    /// Mean latency with its confidence interval, in ns; null if the run is too short for an estimate.
    pub mean: Option<KnownFigure>,
    /// 99th percentile of latency with its confidence interval, in ns; null if the run is too short for an estimate.
    pub p99: Option<KnownFigure>,
    /// Number of first requests that the confidence intervals leave out as warm-up; null if the run is too short for an
    /// estimate.
    pub warm_up_ios: Option<u64>,
    /// Number of consecutive requests in each batch, from whose means the confidence intervals are computed; null if
    /// the run is too short for an estimate.
    pub batch_ios: Option<u64>,
    /// Reason in words why the run has no confidence intervals; null if the run has them.
    pub why_unknown: Option<String>,
}

/// Latency figure of a run with the half width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KnownFigure {
    /// Estimated latency, mean or 99th percentile, in ns.
    pub value_ns: f64,
    /// Half width of the latency's 95 % confidence interval, in ns.
    pub half_width_ns: f64,
}

/// Percentile of latency with its 95 % confidence interval, or the number of requests that it needs.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TailResult {
    /// Latency in ns that the percentage of requests does not exceed; null if too few independent requests are beyond.
    pub value_ns: Option<f64>,
    /// Lower end of the percentile's 95 % confidence interval, in ns; null for an unknown percentile.
    pub low_ns: Option<f64>,
    /// Upper end of the percentile's 95 % confidence interval, in ns; null for an unknown percentile.
    pub high_ns: Option<f64>,
    /// Number of independent requests that would know the percentile as well as all counted ones do; null for an
    /// unknown percentile.
    pub effective_ios: Option<f64>,
    /// Number of requests of this kind that an unknown percentile needs; null for a known one.
    pub needed_ios: Option<u64>,
    /// Simulated time in seconds in which a run at this rate has the requests that an unknown percentile needs; null for
    /// a known one.
    pub needed_s: Option<f64>,
    /// Reason in words why the percentile is unknown; null for a known one.
    pub why_unknown: Option<String>,
}
