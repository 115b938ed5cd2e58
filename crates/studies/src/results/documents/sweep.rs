//! JSON documents of `sweep`, with and without a target.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{ByName, Interval, RowFigures};

/// JSON document of `phaselink sweep`: figures of every point of a plan, that is, of each combination of swept values
/// and seeds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SweepDocument {
    /// Path of the file with the sweep's plan.
    pub plan: String,
    /// Swept keys of the plan: keys of the drive or options of the job, each with several values.
    pub axes: Vec<String>,
    /// Names of the figures that the plan selects, such as `iops`; each row has these figures.
    pub columns: Vec<String>,
    /// Number of points in the whole plan, including points that have not run.
    pub points: usize,
    /// Points of the plan that have run, in the plan's order unless `--sort` gives another order.
    pub rows: Vec<SweepRow>,
}

/// JSON document of `phaselink sweep --target`: search for the cheapest point of a plan that meets all constraints.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchDocument {
    /// Constraints that a point must meet in the search, such as `p99_ns < 5000`.
    pub target: Vec<String>,
    /// Unit of the costs that the search minimises, such as a currency.
    pub unit: String,
    /// Number of points of the plan among which the search looks.
    pub points: usize,
    /// Number of points that the search does not run, because closed forms show that the target is out of reach.
    pub ruled_out: usize,
    /// Number of points that the search does not run, because no part of them is faster than in a point that clearly
    /// misses the target.
    pub slower: usize,
    /// Number of points that the search does not run, because a point that meets the target costs no more.
    pub dearer: usize,
    /// Cheapest point that meets the target; null if no point meets the target.
    pub best: Option<SweepRow>,
    /// Points that the search has run, the cheapest first.
    pub rows: Vec<SweepRow>,
}

/// Figures of one point of a sweep. The object also has a key for each swept key of the plan, such as `link.lanes`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SweepRow {
    /// Values of the swept keys at this point, by name of the key.
    #[serde(flatten)]
    #[schemars(with = "AxisValues")]
    pub axes: Map<String, Value>,
    /// Seed of all random numbers in the run of this point.
    pub seed: u64,
    /// Cost of the point in the search's unit; absent without `--target`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// True if the figures of the point meet the target of the search; absent without `--target`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meets: Option<bool>,
    /// Figures of all requests in the run of this point, as selected by the plan's columns.
    #[serde(flatten)]
    pub figures: RowFigures,
    /// Hash of everything that the figures of this point depend on: drive, jobs and seed.
    #[schemars(regex(pattern = "^[0-9a-f]{32}$"))]
    pub hash: String,
    /// Prediction intervals of this point's figures from uncertain constants, by name of the figure; absent without
    /// `--intervals`, null for a figure without an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<ByName<Option<Interval>>>,
}

/// Values of the swept keys at one point of a sweep, by name of the key.
#[derive(JsonSchema)]
struct AxisValues {
    /// Values of the swept keys, by name of the key.
    #[serde(flatten)]
    _values: std::collections::BTreeMap<String, AxisValue>,
}

/// Value of a swept key at one point of a sweep: number, text or boolean.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
enum AxisValue {
    _Number(f64),
    _Text(String),
    _Boolean(bool),
}
