//! Latency by which drives are compared: that of all requests, of reads and of writes apart, or of commits.

use super::{Cell, ComparedGroup};
use crate::ledger::DirectionOutcome;

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
}

impl JudgedLatency {
    /// Returns the latencies that matter for these groups: commits if the jobs flush, otherwise reads and writes apart if there
    /// are both.
    pub fn of(groups: &[ComparedGroup]) -> &'static [JudgedLatency] {
        let cells = || groups.iter().flat_map(|group| group.cells.iter().flatten());
        let is_mixed = cells().any(|cell| cell.reads.ios > 0 && cell.writes.ios > 0);
        match cells().any(|cell| cell.commits.ios > 0) {
            true => &[JudgedLatency::Commits],
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
        }
    }

    /// Returns its mean, in ns.
    pub(super) fn mean_ns(self, cell: &Cell) -> f64 {
        self.requests(cell).total.mean_ns()
    }

    /// Returns the verb of a drive that takes this time.
    pub(super) fn verb(self) -> &'static str {
        match self {
            JudgedLatency::All => "answers",
            JudgedLatency::Reads => "reads",
            JudgedLatency::Writes => "writes",
            JudgedLatency::Commits => "commits",
        }
    }

    /// Returns the verb of several drives.
    pub(super) fn verb_of_several(self) -> &'static str {
        self.verb().strip_suffix('s').unwrap_or(self.verb())
    }
}
