//! Precision of a run's mean and p99 latency, for JSON documents.

use super::Measurement;
use crate::results::documents::PrecisionResult;

/// Returns the precision of a measurement for documents, with the relative precision that was requested.
pub fn document(measurement: &Measurement) -> PrecisionResult {
    let estimate = measurement.estimate();
    PrecisionResult {
        figure: measurement.goal.tail.map(|figure| String::from(figure.name)),
        wanted_share: measurement.goal.share,
        reached: measurement.is_known(),
        confidence: 0.95,
        mean: estimate.ok().map(|estimate| estimate.mean),
        p99: estimate.ok().map(|estimate| estimate.p99),
        warm_up_ios: estimate.ok().map(|estimate| estimate.warm_up_ios),
        batch_ios: estimate.ok().map(|estimate| estimate.batch_ios),
        why_unknown: estimate.err().map(|why| why.to_string()),
    }
}
