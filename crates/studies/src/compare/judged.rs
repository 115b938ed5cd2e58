//! Latency by which drives are compared: that of all requests, of reads and of writes separately, of commits, or of
//! queries.

use super::{Cell, ComparedGroup, LineLabel};
use crate::results::words::requests;
use phaselink_core::ledger::DirectionOutcome;

/// Kind of request whose latency an application waits for, and by which drives are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedLatency {
    /// All requests, which are either reads or writes.
    All,
    /// Reads of a mix of reads and writes.
    Reads,
    /// Writes of a mix of reads and writes.
    Writes,
    /// Commits: each lasts from a write to the end of the flush that follows.
    Commits,
    /// Queries: chains of reads, each of which depends on the one before.
    Queries,
}

impl AwaitedLatency {
    /// Returns the latencies by which drives are ranked: commits if the jobs flush, else queries if there are any, else
    /// reads and writes separately if both occur, else all.
    pub fn of(groups: &[ComparedGroup]) -> &'static [AwaitedLatency] {
        let cells = || groups.iter().flat_map(|group| group.cells.iter().flatten());
        let is_mixed = cells().any(|cell| cell.reads.ios > 0 && cell.writes.ios > 0);
        match cells().any(|cell| cell.commits.ios > 0) {
            true => &[AwaitedLatency::Commits],
            false if cells().any(|cell| cell.queries.ios > 0) => &[AwaitedLatency::Queries],
            false if is_mixed => &[AwaitedLatency::Reads, AwaitedLatency::Writes],
            false => &[AwaitedLatency::All],
        }
    }

    /// Returns those requests of a result by whose latency drives are ranked, with their latency and stages.
    pub(super) fn requests(self, cell: &Cell) -> &DirectionOutcome {
        match self {
            AwaitedLatency::All => &cell.all,
            AwaitedLatency::Reads => &cell.reads,
            AwaitedLatency::Writes => &cell.writes,
            AwaitedLatency::Commits => &cell.commits,
            AwaitedLatency::Queries => &cell.queries,
        }
    }

    /// Returns the mean latency, in ns, of the requests by which drives are ranked.
    pub(super) fn mean_ns(self, cell: &Cell) -> f64 {
        self.requests(cell).total.mean_ns()
    }

    /// Returns the latency by which drives are ranked as text, for jobs of this label: `latency of random reads`.
    pub(super) fn latency(self, label: &LineLabel) -> String {
        match (self, label.rw) {
            (AwaitedLatency::All, None) => String::from("latency"),
            _ => format!("latency of {}", self.name(label)),
        }
    }

    /// Returns the requests by which drives are ranked as text, for jobs of this label: `random reads`.
    pub(super) fn name(self, label: &LineLabel) -> &'static str {
        match self {
            AwaitedLatency::All => label.rw.map_or("requests", requests),
            AwaitedLatency::Reads => "reads",
            AwaitedLatency::Writes => "writes",
            AwaitedLatency::Commits => "commits",
            AwaitedLatency::Queries => "queries",
        }
    }
}
