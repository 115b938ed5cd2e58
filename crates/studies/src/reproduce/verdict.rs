//! Verdict on one published result: the row with the simulated value, the error and the reason.

use serde_json::Value;

use super::dependence::ResultDependence;
use super::expected::{ClaimKind, PublishedResult};
use crate::results::documents::{Interval, Provenance, ReproduceDocument, value};
pub use crate::results::documents::{ReproducedRow as Row, RowVerdict as Verdict};

/// Returns the rows of results as a JSON document, without the head that all documents have.
pub fn document(rows: &[Row]) -> Value {
    value(&ReproduceDocument { rows: rows.to_vec() })
}

/// Remarks of a plan on one row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowRemarks<'a> {
    /// Reason why the published result cannot be compared, because the paper leaves something open.
    pub unexplained: Option<&'a str>,
    /// Reason, from the plan, why the simulated value differs from the published one, if it does.
    pub because: Option<&'a str>,
    /// Provenance of the value, if the plan states it.
    pub provenance: Option<Provenance>,
}

/// Returns the verdict on a published result by its simulated value. `dependence` names the uncertain constants on
/// which the value depends.
pub(super) fn judge(
    paper: &str,
    expected: &PublishedResult,
    remarks: RowRemarks,
    simulated: Option<f64>,
    dependence: ResultDependence,
) -> Row {
    let published = expected.published();
    let (verdict, reason) = match (remarks.unexplained, rejection_reason(expected, simulated)) {
        (Some(reason), _) => (Verdict::Unexplained, String::from(reason)),
        (None, Some(reason)) => (Verdict::Off, reason_with_cause(reason, remarks.because)),
        (None, None) if expected.kind == ClaimKind::Input => (Verdict::Given, String::new()),
        (None, None) => (Verdict::Reproduced, String::new()),
    };
    Row {
        paper: String::from(paper),
        id: expected.id.clone(),
        quantity: expected.quantity.clone(),
        unit: expected.unit.clone(),
        published,
        simulated,
        error_pct: simulated.map(|value| 100.0 * (value - published) / published.abs()),
        tolerance_pct: expected.tolerance_pct(),
        accepted: expected.accepted(),
        kind: expected.kind,
        verdict,
        provenance: match (expected.kind, remarks.provenance) {
            (ClaimKind::Input, _) => Provenance::Given,
            (_, Some(provenance)) => provenance,
            _ if dependence.fitted.is_empty() => Provenance::Predicted,
            _ => Provenance::Fitted,
        },
        fitted: dependence.fitted.len(),
        fitted_keys: dependence.fitted,
        depends_on: dependence.depends_on,
        interval: None,
        published_inside: None,
        reason,
        source: expected.source.clone(),
    }
}

/// Returns the reason why a simulated value does not reproduce the published result; none if it does.
fn rejection_reason(expected: &PublishedResult, simulated: Option<f64>) -> Option<String> {
    let Some(value) = simulated else { return Some(String::from("no finite value comes out")) };
    let (low, high) = expected.accepted();
    match value {
        value if (low..=high).contains(&value) => None,
        _ if expected.printed.is_none() => Some(String::from("does not hold")),
        value => {
            let error_pct = 100.0 * (value / expected.published() - 1.0);
            // Round to tenths of a percent. Adding 0.0 turns -0 into 0.
            let pct = |bound: f64| (1000.0 * (bound / expected.published() - 1.0)).round() / 10.0 + 0.0;
            Some(format!("off by {error_pct:+.1} %, and {:+.1} to {:+.1} % is allowed", pct(low), pct(high)))
        }
    }
}

fn reason_with_cause(reason: String, because: Option<&str>) -> String {
    match because {
        Some(because) => format!("{reason}: {because}"),
        None => reason,
    }
}

/// Returns the row with the prediction interval of its simulated value, and whether the interval meets the values
/// that count as published.
pub fn with_interval(mut row: Row, interval: Interval) -> Row {
    // A printed value represents all values that round to it; words such as "less than" represent one side.
    let (low, high) = row.accepted;
    row.published_inside = Some(interval.low <= high && low <= interval.high);
    row.interval = Some(interval);
    row
}
