//! Queries: chains of reads, each of which depends on the results of earlier ones, as in a search through a graph.
//!
//! A query reads in rounds. The reads of a round are issued together, and the next round only once all of them have
//! completed:
//!
//! ```text
//!     round 1    round 2         round 3
//!     [read]     [read   ]       [read]
//!     [read  ]   [read]          [read ]
//!     ^       ^think  ^    ^think ^    ^
//!     begin                            end of the query
//! ```

use super::Job;
use crate::time::Time;

/// Rounds of a thread that makes queries: the reads of a round are issued together, those of the next round once all of
/// them have completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Number of requests of a round; zero for a thread that makes no queries.
    size: u32,
    /// Number of requests of the current round that have been issued.
    issued: u32,
}

impl Rounds {
    /// Returns the state of the rounds for a thread of `job`, before the first round.
    pub fn of(job: &Job) -> Rounds {
        Rounds { size: if job.query_rounds > 0 { job.iodepth } else { 0 }, issued: 0 }
    }

    /// True if a thread with `in_flight` requests in flight may issue another one: of the current round, or of the next
    /// round if none is in flight. Always true for a thread that makes no queries.
    #[inline(always)]
    pub fn may_issue(&mut self, in_flight: u32) -> bool {
        if self.size > 0 && self.issued == self.size && in_flight == 0 {
            self.issued = 0;
        }
        self.size == 0 || self.issued < self.size
    }

    /// Counts a request that has been issued in the current round.
    #[inline(always)]
    pub fn on_issue(&mut self) {
        self.issued = self.issued.wrapping_add(1);
    }
}

/// Query of a thread of which not all reads have completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenQuery {
    /// Earliest due time of the query's reads that have completed; `Time::NEVER` before the first one.
    begin: Time,
    /// Number of the query's reads that have completed.
    completed: u32,
}

impl OpenQuery {
    /// Query of which no read has completed yet.
    pub const NEW: OpenQuery = OpenQuery { begin: Time::NEVER, completed: 0 };

    /// Counts a completed read of the query that was due at `wanted`. After the last of its `ios` reads, returns the
    /// earliest of their due times and starts the next query.
    pub fn complete(&mut self, wanted: Time, ios: u32) -> Option<Time> {
        self.begin = self.begin.min(wanted);
        self.completed += 1;
        (self.completed >= ios).then(|| std::mem::replace(self, OpenQuery::NEW).begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_round_is_issued_whole_after_the_previous_one() {
        let mut rounds = Rounds { size: 2, issued: 0 };
        assert!(rounds.may_issue(0));
        rounds.on_issue();
        // The first read completes before the second is issued. Both belong to the same round.
        assert!(rounds.may_issue(0));
        rounds.on_issue();
        assert!(!rounds.may_issue(2) && !rounds.may_issue(1));
        assert!(rounds.may_issue(0));
        rounds.on_issue();
        assert!(rounds.may_issue(1));
    }

    #[test]
    fn query_lasts_from_its_first_to_its_last_read() {
        let mut query = OpenQuery::NEW;
        let at = Time::from_ps;
        assert_eq!(query.complete(at(7), 3), None);
        assert_eq!(query.complete(at(5), 3), None);
        assert_eq!(query.complete(at(9), 3), Some(at(5)));
        assert_eq!(query, OpenQuery::NEW);
    }
}
