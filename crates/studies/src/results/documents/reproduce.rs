//! JSON document of `reproduce`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Interval, Provenance};

/// JSON document of `phaselink reproduce`: published results of papers, each with the simulated value.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReproduceDocument {
    /// Published results, each with the simulated value and the verdict.
    pub rows: Vec<ReproducedRow>,
}

/// Result that a paper publishes, with the simulated value and the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReproducedRow {
    /// Name of the folder that holds the reproduction of the paper, such as `dc-express-fast14`.
    pub paper: String,
    /// Identifier of the published result, unique in its paper.
    pub id: String,
    /// Published quantity in words.
    pub quantity: String,
    /// Unit of the published and the simulated value.
    pub unit: String,
    /// Value that the paper prints; 1 (true) for a result that is a statement.
    pub published: f64,
    /// Value that the simulation gives for the published result; null without a finite value.
    pub simulated: Option<f64>,
    /// Error of the simulated value in per cent: 100 (simulated - published) / |published|; null without a simulated
    /// value.
    pub error_pct: Option<f64>,
    /// Largest magnitude of `error_pct`, in per cent, with which a published number counts as reproduced.
    pub tolerance_pct: f64,
    /// Lowest and highest simulated value that count as reproduced; words in the paper such as "just under" allow one
    /// side alone.
    pub accepted: (f64, f64),
    /// Kind of claim that the paper makes: input, number or statement.
    pub kind: ClaimKind,
    /// Verdict on the published result: given, reproduced, off or unexplained.
    pub verdict: RowVerdict,
    /// Provenance of the simulated value; only predicted values are evidence for the model.
    pub provenance: Provenance,
    /// Number of fitted constants of the model on which the simulated value depends.
    pub fitted: usize,
    /// Keys of the fitted constants of the model on which the simulated value depends.
    pub fitted_keys: Vec<String>,
    /// Keys of the uncertain constants of the model, assumed or fitted, on which the simulated value depends.
    pub depends_on: Vec<String>,
    /// Prediction interval of the simulated value from uncertain constants of the model; null without `--intervals`.
    pub interval: Option<Interval>,
    /// True if the prediction interval of the simulated value overlaps the range that counts as reproduced; null
    /// without an interval.
    pub published_inside: Option<bool>,
    /// Reason in words why the verdict is `off` or `unexplained`; empty for `given` and `reproduced`.
    pub reason: String,
    /// Section, figure or table of the paper that prints the published value.
    pub source: String,
}

/// Kind of claim that a published result makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClaimKind {
    /// Input of the simulation: the drive description takes the published value as given, so that agreement is no
    /// evidence for the model.
    Input,
    /// Published number with a unit, which is compared with a simulated number.
    Number,
    /// Published statement that holds or does not hold: published and simulated values are 1 or 0.
    Shape,
}

/// Verdict on a published result of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RowVerdict {
    /// Published value is an input that the drive description holds.
    Given,
    /// Simulated value is within the range that the paper's printed digits and words allow; for a statement: the
    /// statement holds.
    Reproduced,
    /// Simulated value is outside the range that the paper's printed digits and words allow, or there is no finite
    /// value.
    Off,
    /// Published result is not judged, because the paper leaves the conditions open or no simulation can give the
    /// value; `reason` says which.
    Unexplained,
}
