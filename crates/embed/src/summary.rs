//! Summary of all completed operations of an embedded drive.

use phaselink_core::ledger::{DirectionOutcome, Outcome};
use phaselink_core::time::Span;

use crate::operation::OperationKind;

/// Statistics of the completed commands of one kind. A durable write on a drive with a volatile buffer counts as a
/// write and a flush.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OperationSummary {
    /// Kind of the operations.
    pub kind: OperationKind,
    /// Number of successful operations.
    pub operations: u64,
    /// Number of bytes that the operations transferred, discarded or filled with zeros.
    pub bytes: u64,
    /// Mean latency of the operations.
    pub mean: Span,
    /// Latency that 99 of 100 operations do not exceed.
    pub p99: Span,
    /// Longest latency of any operation.
    pub max: Span,
    /// Stages with the time that all operations together spent in each.
    pub stages: Vec<(String, Span)>,
}

/// Returns the summaries of the kinds of operations that occurred in an outcome.
pub(crate) fn of(outcome: &Outcome, stack: &[String]) -> Vec<OperationSummary> {
    let summaries = OperationKind::ALL.into_iter().map(|kind| of_kind(outcome, kind, stack));
    summaries.filter(|summary| summary.operations > 0).collect()
}

fn of_kind(outcome: &Outcome, kind: OperationKind, stack: &[String]) -> OperationSummary {
    let mut sum = DirectionOutcome::default();
    for job in &outcome.jobs {
        let direction = match kind {
            OperationKind::Read => &job.read,
            OperationKind::Write => &job.write,
            OperationKind::Flush => &job.flush,
            OperationKind::Discard => &job.discard,
            OperationKind::WriteZeroes => &job.zeroes,
        };
        sum.ios += direction.ios;
        sum.bytes += direction.bytes;
        sum.total.merge(&direction.total);
        sum.stages.add(&direction.stages);
    }
    OperationSummary {
        kind,
        operations: sum.ios,
        bytes: sum.bytes,
        mean: sum.total.mean(),
        p99: sum.total.percentile(99.0),
        max: sum.total.max(),
        stages: sum.stages.named(stack).map(|(name, span)| (String::from(name), span)).collect(),
    }
}
