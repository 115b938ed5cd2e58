//! The verdict on one published result.

use serde::Serialize;

use super::expected::{Expected, Kind};

/// Whether a published result comes out of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within the tolerance and the bounds; for a shape, it holds.
    Reproduced,
    /// Not so.
    Off,
    /// The plan gives a reason why the model cannot claim it, whatever value comes out.
    Unexplained,
}

/// A published result beside the simulated one: an element of what `phaselink reproduce --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub paper: String,
    pub id: String,
    pub quantity: String,
    pub unit: String,
    /// For a shape 1, that is: true.
    pub published: f64,
    /// None if there is no value, or no finite one.
    pub simulated: Option<f64>,
    /// 100 (simulated - published) / |published|.
    pub error_pct: Option<f64>,
    /// Largest magnitude of `error_pct` that counts as reproduced.
    pub tolerance_pct: f64,
    pub kind: Kind,
    pub verdict: Verdict,
    /// Number of fitted constants that the simulated value depends on.
    pub fitted: usize,
    /// And which they are.
    pub fitted_keys: Vec<String>,
    /// Why the verdict is not `reproduced`; empty if it is.
    pub reason: String,
    /// Where the published value is printed.
    pub source: String,
}

/// Judge a published result by the simulated value.
pub(super) fn judge(
    paper: &str,
    expected: &Expected,
    unexplained: Option<&str>,
    simulated: Option<f64>,
    fitted_keys: Vec<String>,
) -> Row {
    let error_pct = simulated.map(|value| 100.0 * (value - expected.published) / expected.published.abs());
    let (verdict, reason) = match (unexplained, objection(expected, simulated, error_pct)) {
        (Some(reason), _) => (Verdict::Unexplained, String::from(reason)),
        (None, Some(reason)) => (Verdict::Off, reason),
        (None, None) => (Verdict::Reproduced, String::new()),
    };
    Row {
        paper: String::from(paper),
        id: expected.id.clone(),
        quantity: expected.quantity.clone(),
        unit: expected.unit.clone(),
        published: expected.published,
        simulated,
        error_pct,
        tolerance_pct: expected.tolerance_pct,
        kind: expected.kind,
        verdict,
        fitted: fitted_keys.len(),
        fitted_keys,
        reason,
        source: expected.source.clone(),
    }
}

/// Why a value does not reproduce the result. Bounds come first: they are what the paper states.
fn objection(expected: &Expected, simulated: Option<f64>, error_pct: Option<f64>) -> Option<String> {
    let (Some(value), Some(error_pct)) = (simulated, error_pct) else {
        return Some(String::from("no finite value comes out"));
    };
    let below = expected.low.filter(|low| value < *low);
    let above = expected.high.filter(|high| value > *high);
    let outside = error_pct.abs() > expected.tolerance_pct;
    match (below, above) {
        (Some(low), _) => Some(format!("below {low}")),
        (_, Some(high)) => Some(format!("above {high}")),
        _ if outside && expected.kind == Kind::Shape => Some(String::from("does not hold")),
        _ if outside => Some(format!("off by {error_pct:+.2} %, and {} % is allowed", expected.tolerance_pct)),
        _ => None,
    }
}
