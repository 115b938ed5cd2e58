//! JSON document of `fit`.

use schemars::JsonSchema;
use serde::Serialize;

/// JSON document of `phaselink fit`: values of a drive's keys with which the simulated drive best reproduces figures
/// that fio measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FitDocument {
    /// Name of the drive whose keys are fitted; its values are the start of the search.
    pub drive: String,
    /// Relative error that the fit assumes the model to have in each figure, as a fraction: 0.005 is 0.5 %.
    pub model_error_share: f64,
    /// Seed of all random numbers in the simulations of a fit.
    pub seed: u64,
    /// Fitted keys of the drive, each with its fitted value and 90 % confidence interval.
    pub keys: Vec<FittedKey>,
    /// Figures that fio measured, each with the value that the simulated drive gives with the fitted keys.
    pub figures: Vec<FittedFigure>,
    /// Names of keys on which no measured figure depends, so that a fit leaves their start values.
    pub unseen: Vec<String>,
    /// Groups of keys that a fit can hardly distinguish, because their changes have similar effects on the measured
    /// figures.
    pub not_told_apart: Vec<AlikeKeys>,
    /// Relative difference between measured and fitted figures beyond randomness, as a fraction; null if randomness and
    /// the assumed model error explain all of the difference.
    pub misfit_share: Option<f64>,
    /// Remarks of a fit as English sentences, the most important first.
    pub findings: Vec<String>,
    /// Number of simulations that the fit has run.
    pub simulations: u64,
}

/// Key of a drive file with the value and the 90 % confidence interval that `phaselink fit` found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FittedKey {
    /// Full name of the fitted key in the drive file, such as `media.read_ns`.
    pub key: String,
    /// Value of the fitted key before the fit, in the key's unit.
    pub start: f64,
    /// Value of the key with which simulated figures are closest to measured ones, in the key's unit.
    pub value: f64,
    /// Lower end of the 90 % confidence interval of a fitted value, in the key's unit; null if no measured figure
    /// depends on the key at smaller values.
    pub low: Option<f64>,
    /// Upper end of the 90 % confidence interval of a fitted value, in the key's unit; null if no measured figure
    /// depends on the key at larger values.
    pub high: Option<f64>,
    /// True if the measured figures determine the fitted value, or bound the value on at least one side.
    pub determined: bool,
}

/// Figure of a job that fio measured, with the value that the fitted drive gives in simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FittedFigure {
    /// Name of the measured fio job, with its access pattern, block size and queue depth.
    pub job: String,
    /// Name of the measured figure with its direction, such as `read p99` or `write IOPS`.
    pub figure: String,
    /// Unit of a figure's measured and fitted values.
    pub unit: FigureUnit,
    /// Value of the figure that fio measured.
    pub measured: f64,
    /// Value of the figure in a simulation of the drive with the fitted keys.
    pub fitted: f64,
}

/// Unit of a figure to which `phaselink fit` fits a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum FigureUnit {
    /// Throughput in requests a second.
    #[serde(rename = "1/s")]
    PerS,
    /// Latency in nanoseconds.
    #[serde(rename = "ns")]
    Ns,
}

/// Group of keys that `phaselink fit` can hardly distinguish, because their changes have similar effects on the
/// measured figures.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AlikeKeys {
    /// Full names, as in the drive file, of keys that a fit can hardly distinguish.
    pub keys: Vec<String>,
    /// Weight of the second of two keys relative to the first in the combination that the fit knows least; null for
    /// more than two keys.
    pub ratio: Option<f64>,
    /// True if the measured figures determine each of these keys although they are correlated; false if only a
    /// combination of them is known.
    pub known: bool,
}
