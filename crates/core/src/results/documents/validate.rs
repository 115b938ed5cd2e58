//! JSON document of `validate`, and the provenance of values that are compared with measured ones.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measurements beside the model's values.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ValidateDocument {
    /// Sources in the order of the table, each with counts and errors.
    pub sources: Vec<ValidatedSource>,
    /// Counts and errors of all sources together.
    pub total: ValidatedSource,
    /// Measured values, each with the model's or with the class of what the model does not answer.
    pub rows: Vec<ValidatedRow>,
}

/// Counts and errors of one source.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ValidatedSource {
    /// Short name of the source, with which its identifiers begin.
    pub source: String,
    /// Name of the source in words.
    pub title: String,
    /// Number of measured values.
    pub rows: usize,
    /// Number of values that the model answers.
    pub answered: usize,
    /// Number of values that no simulation of requests could answer, such as hardware counters.
    pub unanswerable: usize,
    /// Number of values that are not answered, by class.
    pub left_out: BTreeMap<String, usize>,
    /// Number of answered values by provenance.
    pub provenance: BTreeMap<Provenance, usize>,
    /// Errors of all answered values.
    pub all: Agreement,
    /// Errors of predictions alone, which are all that counts.
    pub predicted: Agreement,
}

/// Errors of a set of values. An error is predicted over measured, less 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Agreement {
    /// Number of values.
    pub rows: usize,
    /// Median of the magnitudes of all errors in per cent; null without a value.
    pub median_error_pct: Option<f64>,
    /// Weighted mean absolute error of rates and bandwidths in per cent: the sum of differences over the sum of measured values, of
    /// rates and of bandwidths, weighted by their numbers; null without a value.
    pub wmape_rates_pct: Option<f64>,
    /// Weighted mean absolute error of latencies in per cent; null without a value.
    pub wmape_latencies_pct: Option<f64>,
    /// Median of the magnitudes of errors of latencies in per cent; null without a value.
    pub median_latency_error_pct: Option<f64>,
    /// Geometric mean of predicted over measured, less 1, in per cent; null without a value.
    pub bias_pct: Option<f64>,
    /// Share of values that lie in their 90 % interval, in per cent; null without an interval.
    pub coverage_pct: Option<f64>,
}

/// Measured value beside the model's.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ValidatedRow {
    /// Identifier of the value.
    pub id: String,
    /// Short name of the source.
    pub source: String,
    /// Measured quantity in words.
    pub quantity: String,
    /// Unit of all values of the row.
    pub unit: String,
    /// Kind of figure.
    pub figure: MeasuredKind,
    /// Measured value.
    pub measured: f64,
    /// Value of the model; null if it gives none.
    pub predicted: Option<f64>,
    /// Error in per cent: 100 (predicted - measured) / measured.
    pub error_pct: Option<f64>,
    /// Lower end of the 90 % interval of the model's value; null if it is unknown.
    pub low: Option<f64>,
    /// Upper end of the 90 % interval of the model's value; null if it is unknown.
    pub high: Option<f64>,
    /// Provenance of the model's value; null if there is none.
    pub provenance: Option<Provenance>,
    /// Class of what the model does not answer; null if it answers.
    pub left_out: Option<String>,
    /// Known reason for a difference; empty if none is known.
    pub because: String,
}

/// Kind of a measured figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MeasuredKind {
    /// Time of a request, or of a part of it.
    Latency,
    /// Number of requests in a time.
    Rate,
    /// Number of bytes in a time.
    Bandwidth,
    /// Cycles, switches, shares and counts.
    Other,
}

/// Provenance of the model's value of a row. Predictions alone count for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// The description holds the value as it is given.
    Given,
    /// An input comes out again: the value follows from a given one alone.
    Returned,
    /// A constant of the description was computed from a value of the same table, on which this one depends.
    Solved,
    /// A parameter was estimated from this row, among others.
    Fitted,
    /// No constant was taken from this row or its table.
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

/// Estimates of parameters from all folds but one, and errors on the fold that was left out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FoldsDocument {
    /// Folds, each with the errors of its left-out rows.
    pub folds: Vec<FoldResult>,
    /// Sources, each with the errors of its rows in all folds that count.
    pub sources: Vec<SourceResult>,
    /// Points of the curve of error against the number of sources.
    pub curve: Vec<CurvePoint>,
    /// Parameters, each with its value in every fold.
    pub parameters: Vec<ParameterResult>,
    /// Constants that rows of one machine or drive set, which no fold can judge.
    pub singles: Vec<SingleConstant>,
    /// Pairs of parameters that the rows of all folds cannot tell apart.
    pub confounded: Vec<ConfoundedPair>,
    /// Ends of 90 % of left-out measurements, as shares of the predicted value; null without a left-out row.
    pub interval: Option<(f64, f64)>,
    /// Errors of all rows of all folds with parameters that were estimated from these rows: no predictions.
    pub fitted: Agreement,
}

/// Errors of the rows of a fold, with parameters that were estimated from other rows alone.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FoldResult {
    /// Name of the fold.
    pub name: String,
    /// True if the fold shows an order of size, and is not counted.
    pub order_only: bool,
    /// Number of rows that the parameters were estimated from.
    pub train_rows: usize,
    /// Errors of the rows that were left out. Their intervals follow from the errors of the other folds.
    pub agreement: Agreement,
}

/// Errors of the left-out rows of a source, over all folds that count.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SourceResult {
    /// Short name of the source.
    pub source: String,
    /// Errors of the rows that were left out.
    pub agreement: Agreement,
}

/// Errors of left-out rows with parameters that were estimated from none or some of the other sources.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CurvePoint {
    /// Names of the left-out source and of the source that the parameters are estimated from, as in `CHE from VLD`.
    pub name: String,
    /// Number of rows that the parameters were estimated from.
    pub train_rows: usize,
    /// Errors of the rows that were left out, without intervals.
    pub agreement: Agreement,
}

/// Constant that was set from rows of one machine or drive: it is estimated, too, and has no spread over folds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SingleConstant {
    /// Drive, preset or experiment that has the constant.
    pub of: String,
    /// Key of the description.
    pub key: String,
    /// Its value, as the description has it.
    pub value: f64,
    /// Rows that it was set from.
    pub from: String,
}

/// Two parameters that the rows cannot tell apart.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ConfoundedPair {
    /// Names of the parameters.
    pub parameters: (String, String),
    /// Correlation of their errors: near -1, the rows tell their sum (or product) alone.
    pub correlation: f64,
}

/// Parameter with its estimates.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ParameterResult {
    /// Name of the parameter.
    pub name: String,
    /// Key of the description.
    pub key: String,
    /// Setting of the runs that the parameter belongs to; empty: all runs.
    pub only: String,
    /// Range before the estimate, of which 90 % lie between its ends.
    pub range: (f64, f64),
    /// Number of rows that the parameter changes, of those that the estimate is from.
    pub rows: usize,
    /// Sources of these rows.
    pub sources: Vec<String>,
    /// Estimate from the rows of all folds, in the unit of the key.
    pub value: f64,
    /// Estimate in each fold, in the order of the folds; null if no row of the fold depends on the parameter.
    pub folds: Vec<Option<f64>>,
    /// Largest over smallest estimate of the folds that have rows of it, less 1, in per cent.
    pub spread_pct: f64,
}
