//! JSON documents of `sweep`, with and without a target.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{ByName, Interval, RowFigures};

/// Points of a plan.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SweepDocument {
    /// File of the plan.
    pub plan: String,
    /// Keys that vary.
    pub axes: Vec<String>,
    /// Figures that rows have.
    pub columns: Vec<String>,
    /// Number of points of the whole plan.
    pub points: usize,
    /// Points that have run, in the order of the plan unless they are sorted.
    pub rows: Vec<SweepRow>,
}

/// Search for the cheapest point of a plan that meets a target.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchDocument {
    /// Bounds that the point has to meet.
    pub target: Vec<String>,
    /// Unit of costs.
    pub unit: String,
    /// Number of points that can run.
    pub points: usize,
    /// Number of points that closed forms rule out.
    pub ruled_out: usize,
    /// Number of points that are spared because no part of them is faster than one that misses the target.
    pub slower: usize,
    /// Number of points that are spared because they cost as much as one that meets the target, or more.
    pub dearer: usize,
    /// Cheapest point that meets the target; null if none does.
    pub best: Option<SweepRow>,
    /// Points that have run, the cheapest first.
    pub rows: Vec<SweepRow>,
}

/// Point of a plan. Further keys are those of its axes, as in `link.lanes`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SweepRow {
    /// Values of the axes.
    #[serde(flatten)]
    #[schemars(with = "AxisValues")]
    pub axes: Map<String, Value>,
    /// Seed of everything random.
    pub seed: u64,
    /// Cost of the point in `unit`, of a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// True if the point meets the target, of a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meets: Option<bool>,
    /// Figures of all requests together.
    #[serde(flatten)]
    pub figures: RowFigures,
    /// Hash of all that the run depends on.
    #[schemars(regex(pattern = "^[0-9a-f]{32}$"))]
    pub hash: String,
    /// Intervals by column, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<ByName<Option<Interval>>>,
}

/// Values of axes by their keys.
#[derive(JsonSchema)]
struct AxisValues {
    /// Values by key.
    #[serde(flatten)]
    _values: std::collections::BTreeMap<String, AxisValue>,
}

/// Value of an axis.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
enum AxisValue {
    _Number(f64),
    _Text(String),
    _Boolean(bool),
}
