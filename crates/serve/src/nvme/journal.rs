//! Command counters and failed commands of a controller, which the SMART / health and error log pages report.

use std::collections::VecDeque;

use phaselink_core::number::length;
use phaselink_core::protocol::nvme::commands::{CommandRow, MediaUse};
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};
use phaselink_core::request::Op;

use super::limits::ERROR_LOG_ENTRIES;

/// Command that was refused or failed, as an entry of the error log reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournaledFailure {
    /// Number of failures since power-on, this one included.
    pub number: u64,
    pub queue: u16,
    pub command_id: u16,
    pub status: Status,
    pub namespace: u32,
    /// First logical block that the command addressed.
    pub slba: u64,
}

/// Numbers of commands and bytes since power-on, and the latest failed commands, of one controller.
#[derive(Clone, Debug, Default)]
pub struct CommandJournal {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) failures_since_power_on: u64,
    /// Latest failed commands, the newest first.
    pub(super) failures: VecDeque<JournaledFailure>,
}

impl CommandJournal {
    /// Counts an executed command of `bytes` bytes, if it reads blocks or a value from the media, or writes data of the
    /// host or copied data there.
    #[inline]
    pub fn count(&mut self, row: &CommandRow, bytes: u32) {
        match (row.media, row.counts) {
            (MediaUse::Read, _) => {
                self.reads += 1;
                self.read_bytes += u64::from(bytes);
            }
            (MediaUse::Write, Op::Write) => {
                self.writes += 1;
                self.written_bytes += u64::from(bytes);
            }
            _ => {}
        }
    }

    /// Records a command of submission queue `queue` that was refused or failed with `status`.
    #[cold]
    pub fn record_failure(&mut self, queue: u16, entry: &SubmissionEntry, status: Status) {
        let (command_id, namespace, slba) = (entry.command_id, entry.namespace_id, entry.slba());
        self.push_failed_command(JournaledFailure { number: 0, queue, command_id, status, namespace, slba });
    }

    /// Adds a failed command under the next number, and drops the oldest if the list of failed commands is full.
    fn push_failed_command(&mut self, failure: JournaledFailure) {
        self.failures_since_power_on += 1;
        self.failures.truncate(ERROR_LOG_ENTRIES - 1);
        self.failures.push_front(JournaledFailure { number: self.failures_since_power_on, ..failure });
    }

    /// Returns true if a failed command is recorded.
    #[inline]
    pub fn has_failed_commands(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Moves all counts and failures of `other` into this journal and leaves `other` empty.
    pub fn absorb_counts(&mut self, other: &mut CommandJournal) {
        let other = std::mem::take(other);
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.reads += other.reads;
        self.writes += other.writes;
        // Count failures that `other` has counted but no longer lists.
        self.failures_since_power_on += other.failures_since_power_on - length(other.failures.len());
        other.failures.into_iter().rev().for_each(|failure| self.push_failed_command(failure));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::protocol::nvme::commands::Action;

    #[test]
    fn absorbed_journal_is_added_once_and_emptied() {
        let fail = |journal: &mut CommandJournal, command_id: u16| {
            let entry = SubmissionEntry { command_id, ..SubmissionEntry::default() };
            journal.record_failure(1, &entry, Status::INVALID_FIELD);
        };
        let (mut all, mut other) = (CommandJournal::default(), CommandJournal::default());
        for journal in [&mut all, &mut other] {
            (0..3).for_each(|_| journal.count(Action::Read.row(), 1_000_000));
            (0..5).for_each(|_| journal.count(Action::Write.row(), 2_000_000));
            (0..2).for_each(|id| fail(journal, id));
        }
        all.absorb_counts(&mut other);
        assert_eq!((all.reads, all.writes, all.read_bytes, all.written_bytes), (6, 10, 6_000_000, 20_000_000));
        assert_eq!((all.failures_since_power_on, all.failures.len()), (4, 4));
        assert_eq!((other.reads, other.has_failed_commands()), (0, false), "the absorbed journal begins anew");
        all.absorb_counts(&mut other);
        assert_eq!((all.reads, all.failures_since_power_on), (6, 4));
    }
}
