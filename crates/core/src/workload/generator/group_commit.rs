//! Group commit: clients whose records one thread writes to a log together, with one flush for all of them.
//!
//! ```text
//!     client 1   think ──► record ├──────── commit ────────┤ think ──► ...
//!     client 2        think ──► record ├──── commit ───────┤
//!     client 3   think ──────────────────► record ├──────────── commit ──────────┤
//!     thread     [write][flush]           [write of 1, 2 ][flush][write of 3 ...]
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::random_stream_seed;
use crate::number::{index, length, narrow, real};
use crate::request::{Io, NamedWritePlace, NextRequest, Op};
use crate::time::{Span, Time};
use crate::workload::Job;
use crate::workload::pace::exponential;

/// Log of one thread, with the clients whose records it commits in groups.
#[derive(Clone, Debug)]
pub(super) struct GroupCommitLog {
    random: Xoshiro256PlusPlus,
    think: Span,
    record_bytes: u32,
    /// First byte of the clients' log on the drive. The log's length `log_bytes` is a whole number of records.
    first_byte: u64,
    log_bytes: u64,
    position: u64,
    /// Times at which the clients will hand in their next log records, the earliest first.
    clients: BinaryHeap<Reverse<Time>>,
    /// Groups of log records that have been written but not taken as committed, the oldest first. Each record is the
    /// time at which its client handed it in.
    groups: VecDeque<Vec<Time>>,
    /// Emptied lists of earlier groups, whose memory the next groups use.
    spare: Vec<Vec<Time>>,
    /// Number of clients of the last group that was written; they start to think when the next write is generated.
    committing: usize,
}

impl GroupCommitLog {
    /// Makes the log of thread `thread` of `job`. All clients begin with a think time when the thread begins.
    pub(super) fn new(job: &Job, thread: u32, capacity_bytes: u64, seed: u64) -> GroupCommitLog {
        let record_bytes = job.write_blocks.first().map_or(0, |share| share.bytes);
        let region_bytes = job.region_bytes(capacity_bytes);
        GroupCommitLog {
            random: Xoshiro256PlusPlus::seed_from_u64(random_stream_seed(seed, &job.name, thread)),
            think: job.thinktime,
            record_bytes,
            first_byte: job.offset,
            log_bytes: region_bytes - region_bytes % u64::from(record_bytes),
            position: 0,
            clients: BinaryHeap::with_capacity(index(job.group_commit)),
            groups: VecDeque::with_capacity(2),
            spare: Vec::new(),
            committing: index(job.group_commit),
        }
    }

    /// Returns the next write of a thread that is free since `now`, because its last group is committed. The write
    /// holds all records that have been handed in by then, or the first one to come; it does not go beyond the end of
    /// the log.
    pub(super) fn next(&mut self, now: Time) -> Option<NextRequest> {
        self.start_think_times(now);
        let due = self.clients.peek()?.0.max(now);
        let mut group = self.spare.pop().unwrap_or_default();
        group.clear();
        // A write must not wrap around the end of the log, so limit the group to the space up to the end.
        let rest = (self.log_bytes - self.position) / u64::from(self.record_bytes);
        while (group.len() as u64) < rest
            && let Some(Reverse(handed_in)) = self.clients.peek().copied().filter(|client| client.0 <= due)
        {
            self.clients.pop();
            group.push(handed_in);
        }
        let bytes = narrow::<u32, u64>(length(group.len()) * u64::from(self.record_bytes));
        let offset = self.first_byte + self.position;
        self.position = (self.position + u64::from(bytes)) % self.log_bytes;
        self.committing = group.len();
        self.groups.push_back(group);
        Some(NextRequest {
            io: Io { op: Op::Write, offset, bytes },
            due,
            drive: 0,
            ends_commit: false,
            target: NamedWritePlace::Any,
        })
    }

    /// Takes the oldest group of log records, which has been committed. Calls `record` for each with the time at which
    /// its client handed it in.
    pub(super) fn take_group(&mut self, mut record: impl FnMut(Time)) {
        if let Some(group) = self.groups.pop_front() {
            group.iter().for_each(|handed_in| record(*handed_in));
            self.spare.push(group);
        }
    }

    /// Starts the think times of the clients whose records were in the last group at `now`, when that group is
    /// committed.
    fn start_think_times(&mut self, now: Time) {
        for _ in 0..std::mem::take(&mut self.committing) {
            let think = match self.think.is_zero() {
                true => Span::ZERO,
                false => exponential(real(self.think.as_ps()), &mut self.random),
            };
            self.clients.push(Reverse(now + think));
        }
    }
}
