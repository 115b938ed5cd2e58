//! JSON document of `validate`, and the provenance of values that are compared with measured ones.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// JSON document of `phaselink validate`: measurements of real machines, each with the value that the model predicts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ValidateDocument {
    /// Publications and data sets with the measurements, in the order of the table; each with counts of measurements
    /// and errors of the model.
    pub sources: Vec<ValidatedSource>,
    /// Counts of measurements and errors of the model over all sources together.
    pub total: ValidatedSource,
    /// Measured values, each with the model's value, or with the reason why the model has none.
    pub rows: Vec<ValidatedRow>,
    /// Number of measurements with the largest errors that the text lists for each source.
    #[serde(skip)]
    pub worst: usize,
}

/// Source of measurements (a publication or data set) with counts of its values and errors of the model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ValidatedSource {
    /// Short name of the source of measurements, with which the identifiers of its values begin; `all` for all sources.
    pub source: String,
    /// Full name of the source of measurements, in words.
    pub title: String,
    /// Number of measured values of the source.
    pub rows: usize,
    /// Number of measured values of the source for which the model gives a finite value.
    pub answered: usize,
    /// Number of measured values of the source that no simulation of requests can predict, such as hardware counters.
    pub unanswerable: usize,
    /// Number of measured values of the source without a value of the model, by class of the reason.
    pub left_out: BTreeMap<String, usize>,
    /// Number of values of the model for the source's measurements, by their provenance.
    pub provenance: BTreeMap<Provenance, usize>,
    /// Errors of all values that the model gives for the source, of any provenance.
    pub all: Agreement,
    /// Errors of the model's predictions for the source, without values that were given, returned, solved or fitted.
    /// Only predictions are evidence for the model.
    pub predicted: Agreement,
}

/// Errors of the model on a set of measurements. The error of a value is predicted / measured - 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Agreement {
    /// Number of measurements whose measured and predicted values are both above 0; the errors cover these alone.
    pub rows: usize,
    /// Median of the absolute errors of the model, in per cent; null without a measurement.
    pub median_error_pct: Option<f64>,
    /// Weighted mean absolute error of throughputs and bandwidths, in per cent. For each of the two, sum of absolute
    /// differences between predicted and measured values over sum of measured values. The result is the mean of the
    /// two, weighted by their numbers of measurements; null without a measurement.
    pub wmape_rates_pct: Option<f64>,
    /// Weighted mean absolute error of latencies, in per cent: sum of absolute differences over sum of measured
    /// latencies; null without a latency.
    pub wmape_latencies_pct: Option<f64>,
    /// Median of the absolute errors of latencies, in per cent; null without a latency.
    pub median_latency_error_pct: Option<f64>,
    /// Geometric mean of predicted / measured, less 1, in per cent; null without a measurement.
    pub bias_pct: Option<f64>,
    /// Percentage of measured values that lie in the 90 % prediction interval; null without an interval.
    pub coverage_pct: Option<f64>,
}

/// Measured value of a real machine, with the value that the model predicts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ValidatedRow {
    /// Identifier of the measured value, which begins with the short name of its source.
    pub id: String,
    /// Short name of the publication or data set with the measured value.
    pub source: String,
    /// Measured quantity in words.
    pub quantity: String,
    /// Unit of the measured value, of the model's value and of its interval.
    pub unit: String,
    /// Kind of the measured figure: latency, rate, bandwidth or other.
    pub figure: MeasuredKind,
    /// Value that the real machine gave, in the row's unit.
    pub measured: f64,
    /// Value that the model gives, in the row's unit; null without a finite value.
    pub predicted: Option<f64>,
    /// Error of the model's value in per cent: 100 (predicted - measured) / measured; null without a value of the model
    /// or for a measured 0.
    pub error_pct: Option<f64>,
    /// Lower end of the 90 % prediction interval of the model's value, in the row's unit; null without a calibration or
    /// without a value.
    pub low: Option<f64>,
    /// Upper end of the 90 % prediction interval of the model's value, in the row's unit; null without a calibration or
    /// without a value.
    pub high: Option<f64>,
    /// Provenance of the model's value, such as predicted or fitted; null without a value.
    pub provenance: Option<Provenance>,
    /// Class of the reason why the model gives no value for the measurement; null if the model gives one.
    pub left_out: Option<String>,
    /// Known reason in words for a difference between measured and predicted value; empty if none is known.
    pub because: String,
}

/// Kind of a figure that was measured on a real machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MeasuredKind {
    /// Latency of a request, or of a part of a request.
    Latency,
    /// Throughput in requests a unit of time.
    Rate,
    /// Bandwidth in bytes a unit of time.
    Bandwidth,
    /// Figure that is no latency, throughput or bandwidth, such as processor cycles, context switches, shares and
    /// counts.
    Other,
}

/// Provenance of the model's value for a measured or published result. Only predicted values are evidence for the
/// model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// Given: the drive description holds the measured value as an input.
    Given,
    /// Returned: the value follows from an input alone, so that the simulation only returns the input.
    Returned,
    /// Solved: a constant of the description was computed from a value of the compared table, and the compared value
    /// depends on this constant.
    Solved,
    /// Fitted: a constant of the model was estimated from the compared value, among other values.
    Fitted,
    /// Predicted: no constant of the model was derived from the compared value or its table.
    Predicted,
}

impl Provenance {
    /// All provenances of a value, from the one that shows least about the model to the one that shows most.
    pub const ALL: [Provenance; 5] =
        [Provenance::Given, Provenance::Returned, Provenance::Solved, Provenance::Fitted, Provenance::Predicted];

    /// Returns the word for this provenance in JSON documents.
    pub fn word(self) -> &'static str {
        match self {
            Provenance::Given => "given",
            Provenance::Returned => "returned",
            Provenance::Solved => "solved",
            Provenance::Fitted => "fitted",
            Provenance::Predicted => "predicted",
        }
    }
}

/// JSON document of `phaselink validate --folds`: cross-validation of the model, with errors on measurements that the
/// estimate of the parameters leaves out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FoldsDocument {
    /// Folds of the cross-validation, each with the errors on its left-out measurements.
    pub folds: Vec<FoldResult>,
    /// Sources of measurements, each with the errors on its left-out measurements over all folds that count.
    pub sources: Vec<SourceResult>,
    /// Points of the curve of error against number of sources from which parameters are estimated; empty without
    /// `--curve`.
    pub curve: Vec<CurvePoint>,
    /// Estimated parameters of the model, each with its value in every fold.
    pub parameters: Vec<ParameterResult>,
    /// Constants of the model that were set from measurements of one machine or drive alone, so that no fold can judge
    /// them.
    pub singles: Vec<SingleConstant>,
    /// Pairs of parameters whose estimates correlate so strongly that the measurements cannot distinguish them.
    pub confounded: Vec<ConfoundedPair>,
    /// Ends of the range that holds 90 % of left-out measurements, as factors of the predicted value; null without a
    /// left-out measurement.
    pub interval: Option<(f64, f64)>,
    /// Errors on the measurements of all folds with parameters that were estimated from these measurements. Such errors
    /// are no predictions.
    pub fitted: Agreement,
}

/// Fold of a cross-validation: errors on its left-out measurements, with parameters estimated from other measurements
/// alone.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FoldResult {
    /// Name of the fold of the cross-validation.
    pub name: String,
    /// True if the fold shows an order of magnitude only, and is left out of all totals.
    pub order_only: bool,
    /// Number of measurements from which the fold's parameters are estimated.
    pub train_rows: usize,
    /// Errors on the fold's left-out measurements; their prediction intervals follow from the errors of the other
    /// folds.
    pub agreement: Agreement,
}

/// Errors on the left-out measurements of one source, over all folds of a cross-validation that count.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SourceResult {
    /// Short name of the source of the left-out measurements.
    pub source: String,
    /// Errors on the source's left-out measurements.
    pub agreement: Agreement,
}

/// Point of the curve of error against number of sources: errors on left-out measurements, with parameters estimated
/// from no or some other sources.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CurvePoint {
    /// Left-out source, and the source from which parameters are estimated, as in `CHE from VLD`.
    pub name: String,
    /// Number of measurements from which the parameters of this point of the curve are estimated.
    pub train_rows: usize,
    /// Errors on the left-out measurements of this point of the curve, without prediction intervals.
    pub agreement: Agreement,
}

/// Constant of the model that was set from measurements of one machine or drive alone, so that cross-validation gives
/// no spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SingleConstant {
    /// Name of the drive, preset or experiment that holds the constant.
    pub of: String,
    /// Key of the constant in the drive description.
    pub key: String,
    /// Value of the constant in the drive description, in the unit of its key.
    pub value: f64,
    /// Measurements from which the constant was set.
    pub from: String,
}

/// Pair of parameters whose estimates correlate so strongly that the measurements cannot distinguish them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ConfoundedPair {
    /// Names of both parameters that the measurements cannot distinguish.
    pub parameters: (String, String),
    /// Correlation of the errors of both estimates, from -1 to 1: near -1, the measurements determine only the sum (or
    /// product) of the parameters.
    pub correlation: f64,
}

/// Parameter of the model that cross-validation estimates from measurements, with its estimates.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ParameterResult {
    /// Name of the estimated parameter.
    pub name: String,
    /// Key of the drive description that the estimated parameter sets.
    pub key: String,
    /// Setting that a run must have for the parameter to apply; empty if the parameter applies to all runs.
    pub only: String,
    /// Ends of the parameter's prior range, in the unit of its key: the value lies between them with 90 % probability
    /// before the estimate.
    pub range: (f64, f64),
    /// Number of measurements used for the estimate whose predicted values depend on the parameter.
    pub rows: usize,
    /// Short names of the publications whose measurements depend on the estimated parameter.
    pub sources: Vec<String>,
    /// Estimate of the parameter from the measurements of all folds, in the unit of its key.
    pub value: f64,
    /// Estimate of the parameter in each fold, in the order of the folds and in the unit of its key; null if no
    /// measurement of the fold depends on the parameter.
    pub folds: Vec<Option<f64>>,
    /// Largest estimate of the parameter over the smallest one, less 1, in per cent, over folds whose measurements
    /// depend on the parameter.
    pub spread_pct: f64,
}
