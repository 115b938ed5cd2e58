//! What a run knows of its mean and p99, for programs.

use serde_json::{Value, json};

use super::{Known, Measurement};

/// One object; `share` is how well they were to be known. Figures are null where nothing can be said.
pub fn json(measurement: &Measurement, share: f64) -> Value {
    let known = |known: Known| json!({ "value_ns": known.value_ns, "half_width_ns": known.half_width_ns });
    let estimate = measurement.estimate();
    json!({
        "wanted_share": share,
        "reached": measurement.is_known(),
        "confidence": 0.95,
        "mean": estimate.ok().map(|estimate| known(estimate.mean)),
        "p99": estimate.ok().map(|estimate| known(estimate.p99)),
        "warm_up_ios": estimate.ok().map(|estimate| estimate.warm_up_ios),
        "batch_ios": estimate.ok().map(|estimate| estimate.batch_ios),
        "why_unknown": estimate.err().map(|why| why.to_string()),
    })
}
