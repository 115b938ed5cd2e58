//! Queries: reads that follow from one another, as those of a search through a graph.
//!
//! A query reads in rounds. The reads of a round are issued together, and the next round only once all of them have completed:
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

/// Rounds of the requests of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Number of requests of a round; zero on threads without rounds.
    size: u32,
    /// Number of requests of the present round that have been issued.
    issued: u32,
}

impl Rounds {
    /// Returns the rounds of a thread of `job`.
    pub fn of(job: &Job) -> Rounds {
        Rounds { size: if job.query_rounds > 0 { job.iodepth } else { 0 }, issued: 0 }
    }

    /// True if a thread with so many requests in flight may issue one more: of the present round, or of the next one once none is in flight.
    #[inline(always)]
    pub fn may_issue(&mut self, in_flight: u32) -> bool {
        if self.size > 0 && self.issued == self.size && in_flight == 0 {
            self.issued = 0;
        }
        self.size == 0 || self.issued < self.size
    }

    /// Counts a request that has been issued.
    #[inline(always)]
    pub fn on_issue(&mut self) {
        self.issued = self.issued.wrapping_add(1);
    }
}

/// Query of a thread whose reads have not all completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenQuery {
    /// Time at which its first read was wanted.
    begin: Time,
    /// Number of its reads that have completed.
    completed: u32,
}

impl OpenQuery {
    /// Query of which no read has completed.
    pub const NEW: OpenQuery = OpenQuery { begin: Time::NEVER, completed: 0 };

    /// Counts a completed read that was wanted at `wanted`. Returns the begin of the query if that was the last of its `ios` reads, and
    /// goes on with the next query then.
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
    fn round_is_issued_whole_and_the_next_only_when_none_is_in_flight() {
        let mut rounds = Rounds { size: 2, issued: 0 };
        assert!(rounds.may_issue(0));
        rounds.on_issue();
        // The first read has completed before the second is issued, which belongs to the same round.
        assert!(rounds.may_issue(0));
        rounds.on_issue();
        assert!(!rounds.may_issue(2) && !rounds.may_issue(1));
        assert!(rounds.may_issue(0));
        rounds.on_issue();
        assert!(rounds.may_issue(1));
    }

    #[test]
    fn query_ends_with_its_last_read_and_counts_from_the_first_wanted() {
        let mut query = OpenQuery::NEW;
        let at = Time::from_ps;
        assert_eq!(query.complete(at(7), 3), None);
        assert_eq!(query.complete(at(5), 3), None);
        assert_eq!(query.complete(at(9), 3), Some(at(5)));
        assert_eq!(query, OpenQuery::NEW);
    }
}
