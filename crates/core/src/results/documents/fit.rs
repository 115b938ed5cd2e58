//! JSON document of `fit`.

use schemars::JsonSchema;
use serde::Serialize;

/// Values of a drive's keys with which its simulation gives what was measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FitDocument {
    /// Drive whose values the search starts from.
    pub drive: String,
    /// Share of each figure by which the model is taken to be off.
    pub model_error_share: f64,
    /// Seed of everything random.
    pub seed: u64,
    /// Keys that were asked for.
    pub keys: Vec<FittedKey>,
    /// Figures as measured and as simulated with the fitted values.
    pub figures: Vec<FittedFigure>,
    /// Keys that move no figure.
    pub unseen: Vec<String>,
    /// Groups of keys whose effects on the figures are alike.
    pub not_told_apart: Vec<AlikeKeys>,
    /// Share by which the figures are off that should fit; null if none are.
    pub misfit_share: Option<f64>,
    /// Findings in sentences.
    pub findings: Vec<String>,
    /// Number of simulations.
    pub simulations: u64,
}

/// Key of a drive with its fitted value.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FittedKey {
    /// Key of the drive file.
    pub key: String,
    /// Value of the drive.
    pub start: f64,
    /// Value that fits best.
    pub value: f64,
    /// Lower end of the 90 % interval; null if it has none.
    pub low: Option<f64>,
    /// Upper end of the 90 % interval; null if it has none.
    pub high: Option<f64>,
    /// True if the measured figures determine the value.
    pub determined: bool,
}

/// Figure as measured and as simulated.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FittedFigure {
    /// Name of the job.
    pub job: String,
    /// Name of the figure.
    pub figure: String,
    /// Unit of both values.
    pub unit: FigureUnit,
    /// Value that fio measured.
    pub measured: f64,
    /// Value that the simulation gives with the fitted values.
    pub fitted: f64,
}

/// Unit of a fitted figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum FigureUnit {
    /// Requests a second.
    #[serde(rename = "1/s")]
    PerS,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Ns,
}

/// Keys whose effects on the figures are alike.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AlikeKeys {
    /// Keys of the drive file.
    pub keys: Vec<String>,
    /// Effect of the second of two keys over that of the first; null if there are more keys.
    pub ratio: Option<f64>,
    /// True if the figures determine each of the values all the same.
    pub known: bool,
}
