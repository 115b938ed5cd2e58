//! Flushes between the writes of a thread, as fio asks for them.

use crate::request::Op;
use serde::Serialize;

/// Times at which a job flushes, so that acknowledged writes survive a power cut. On a raw device all kinds are the
/// same command of a drive whose buffer is volatile; other drives need none (Linux, `blkdev_issue_flush`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flushes {
    /// Number of writes of a thread after which it flushes, 0 for never (fio `fsync`).
    pub fsync: u32,
    /// Number of writes of a thread after which it flushes data, 0 for never (fio `fdatasync`).
    pub fdatasync: u32,
    /// True if a thread flushes its writes at its end (fio `end_fsync`).
    pub at_end: bool,
}

impl Flushes {
    /// fio options that are on, with their values.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u32)> + use<> {
        let all = [("fsync", self.fsync), ("fdatasync", self.fdatasync), ("end_fsync", self.at_end.into())];
        all.into_iter().filter(|(_, value)| *value > 0)
    }
}

/// Flushes that a thread has still to issue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlushState {
    flushes: Flushes,
    /// True if the drive has to be flushed.
    are_needed: bool,
    /// Number of writes so far.
    written: u64,
    is_dirty: bool,
}

impl FlushState {
    pub(super) fn new(flushes: Flushes, are_needed: bool) -> FlushState {
        FlushState { flushes, are_needed, ..FlushState::default() }
    }

    /// Counts a request of the thread, its last one if `is_last` is true. Returns true if a flush would follow it that the drive
    /// does not need.
    #[inline(always)]
    pub(super) fn on_request(&mut self, op: Op, is_last: bool) -> bool {
        if op == Op::Write {
            self.written += 1;
            self.is_dirty = true;
        }
        !self.are_needed && self.is_dirty && self.take_spared(is_last)
    }

    /// Returns true if a flush would be due. A finished thread flushes at its end alone.
    #[inline(never)]
    fn take_spared(&mut self, is_last: bool) -> bool {
        if is_last {
            return std::mem::take(&mut self.is_dirty) && self.flushes.at_end;
        }
        self.take_if_due()
    }

    /// Returns true if a flush is due, which then counts as issued.
    pub(super) fn take_due(&mut self) -> bool {
        self.is_dirty && self.are_needed && self.take_if_due()
    }

    #[inline(never)]
    fn take_if_due(&mut self) -> bool {
        let Flushes { fsync, fdatasync, .. } = self.flushes;
        let is_time = |every: u32| every > 0 && self.written.is_multiple_of(every.into());
        let is_due = is_time(fsync) || is_time(fdatasync);
        self.is_dirty &= !is_due;
        is_due
    }

    /// Returns true if a flush is due at the end of the thread, which then counts as issued.
    pub(super) fn take_last(&mut self) -> bool {
        let is_due = self.flushes.at_end && self.is_dirty && self.are_needed;
        self.is_dirty &= !is_due;
        is_due
    }
}
