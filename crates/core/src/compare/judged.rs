//! Latency by which drives are compared: that of all requests, of reads and of writes apart, of commits, or of queries.

use super::{Cell, ComparedGroup, Label};
use crate::ledger::DirectionOutcome;
use crate::results::words::requests;

/// Requests whose latency an application waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedLatency {
    /// All requests, which are of one kind.
    All,
    /// Reads of a mix.
    Reads,
    /// Writes of a mix.
    Writes,
    /// Commits: writes up to the end of the flush behind them.
    Commits,
    /// Queries: chains of reads that follow from one another.
    Queries,
}

impl JudgedLatency {
    /// Returns the latencies that matter for these groups: commits if the jobs flush, queries if they make some, otherwise reads and
    /// writes apart if there are both.
    pub fn of(groups: &[ComparedGroup]) -> &'static [JudgedLatency] {
        let cells = || groups.iter().flat_map(|group| group.cells.iter().flatten());
        let is_mixed = cells().any(|cell| cell.reads.ios > 0 && cell.writes.ios > 0);
        match cells().any(|cell| cell.commits.ios > 0) {
            true => &[JudgedLatency::Commits],
            false if cells().any(|cell| cell.queries.ios > 0) => &[JudgedLatency::Queries],
            false if is_mixed => &[JudgedLatency::Reads, JudgedLatency::Writes],
            false => &[JudgedLatency::All],
        }
    }

    /// Returns the requests of a cell that it is about, with their latency and stages.
    pub(super) fn requests(self, cell: &Cell) -> &DirectionOutcome {
        match self {
            JudgedLatency::All => &cell.all,
            JudgedLatency::Reads => &cell.reads,
            JudgedLatency::Writes => &cell.writes,
            JudgedLatency::Commits => &cell.commits,
            JudgedLatency::Queries => &cell.queries,
        }
    }

    /// Returns its mean, in ns.
    pub(super) fn mean_ns(self, cell: &Cell) -> f64 {
        self.requests(cell).total.mean_ns()
    }

    /// Returns what drives are ranked by in words, for jobs of this label: `latency of random reads`.
    pub(super) fn latency(self, label: &Label) -> String {
        match self {
            JudgedLatency::All => label.rw.map_or(String::from("latency"), |rw| format!("latency of {}", requests(rw))),
            JudgedLatency::Reads => String::from("latency of reads"),
            JudgedLatency::Writes => String::from("latency of writes"),
            JudgedLatency::Commits => String::from("latency of commits"),
            JudgedLatency::Queries => String::from("latency of queries"),
        }
    }

    /// Returns the requests that it is about in words, for jobs of this label: `random reads`.
    pub(super) fn name(self, label: &Label) -> &'static str {
        match self {
            JudgedLatency::All => label.rw.map_or("requests", requests),
            JudgedLatency::Reads => "reads",
            JudgedLatency::Writes => "writes",
            JudgedLatency::Commits => "commits",
            JudgedLatency::Queries => "queries",
        }
    }
}
