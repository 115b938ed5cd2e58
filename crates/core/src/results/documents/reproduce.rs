//! JSON document of `reproduce`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Interval, Provenance};

/// Published results beside simulated ones.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReproduceDocument {
    /// Published results, each with its verdict.
    pub rows: Vec<ReproducedRow>,
}

/// Published result beside the simulated one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReproducedRow {
    /// Name of the paper's folder.
    pub paper: String,
    /// Identifier of the result.
    pub id: String,
    /// Quantity in words.
    pub quantity: String,
    /// Unit of both values.
    pub unit: String,
    /// Value that is printed; 1 for a statement, that is: true.
    pub published: f64,
    /// Value that the simulation gives; null if there is none, or no finite one.
    pub simulated: Option<f64>,
    /// Error of the simulated value in per cent: 100 (simulated - published) / |published|.
    pub error_pct: Option<f64>,
    /// Largest magnitude of `error_pct` that counts as reproduced.
    pub tolerance_pct: f64,
    /// Lowest and highest value that count as reproduced; words such as "just under" allow one side alone.
    pub accepted: (f64, f64),
    /// Kind of claim.
    pub kind: ClaimKind,
    /// Verdict on the result.
    pub verdict: RowVerdict,
    /// Provenance of the simulated value; predictions alone count for the model.
    pub provenance: Provenance,
    /// Number of fitted constants that move the simulated value.
    pub fitted: usize,
    /// Fitted constants that move the simulated value.
    pub fitted_keys: Vec<String>,
    /// Uncertain constants, assumed or fitted, that move the simulated value.
    pub depends_on: Vec<String>,
    /// Interval of the simulated value; null unless it was asked for.
    pub interval: Option<Interval>,
    /// True if the published value lies in the interval; null without one.
    pub published_inside: Option<bool>,
    /// Reason why the verdict is neither `given` nor `reproduced`; empty if it is.
    pub reason: String,
    /// Place where the published value is printed.
    pub source: String,
}

/// Kind of claim that a row makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClaimKind {
    /// Input that the description takes as given: it is echoed, and no merit of the model.
    Input,
    /// Value with a unit.
    Number,
    /// Statement that holds or does not: published and simulated are 1 or 0.
    Shape,
}

/// Verdict on a published result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RowVerdict {
    /// Input: the description holds the value as the paper gives it.
    Given,
    /// Within what the printed digits and words allow; for a shape, the statement holds.
    Reproduced,
    /// Outside of what the printed digits and words allow.
    Off,
    /// Not judged: the paper leaves open what is to be compared, or it is no matter of a simulation; the reason says which.
    Unexplained,
}
