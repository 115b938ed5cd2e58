//! Flushes between the writes of a thread, as fio's options request them.

use crate::request::Op;
use serde::Serialize;

/// Times at which a job flushes, so that acknowledged writes survive a power cut. On a raw device all kinds are one
/// command of a drive whose buffer is volatile; other drives need no flush (Linux, `blkdev_issue_flush`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flushes {
    /// Number of writes of a thread between two flushes of data and metadata; 0 for no such flushes (fio `fsync`).
    pub fsync: u32,
    /// Number of writes of a thread between two flushes of data alone; 0 for no such flushes (fio `fdatasync`).
    pub fdatasync: u32,
    /// True if a thread flushes its writes at its end (fio `end_fsync`).
    pub at_end: bool,
}

impl Flushes {
    /// Returns name and value of each fio option for flushes that is on.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u32)> + use<> {
        let all = [("fsync", self.fsync), ("fdatasync", self.fdatasync), ("end_fsync", self.at_end.into())];
        all.into_iter().filter(|(_, value)| *value > 0)
    }
}

/// Flush state of a thread: its writes so far, and whether any of them is still to be flushed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadFlushState {
    flushes: Flushes,
    /// True if the drive needs flushes, because its acknowledged writes may be lost with the power.
    are_needed: bool,
    /// Number of writes of the thread so far.
    written: u64,
    is_dirty: bool,
}

impl ThreadFlushState {
    pub(super) fn new(flushes: Flushes, are_needed: bool) -> ThreadFlushState {
        ThreadFlushState { flushes, are_needed, ..ThreadFlushState::default() }
    }

    /// Counts a request of the thread; `is_last` says that it is the last one. Returns true if a flush would follow the
    /// request, but is spared because the drive does not need it.
    #[inline(always)]
    pub(super) fn on_request(&mut self, op: Op, is_last: bool) -> bool {
        if op == Op::Write {
            self.written += 1;
            self.is_dirty = true;
        }
        !self.are_needed && self.is_dirty && self.count_unneeded_flush(is_last)
    }

    /// Returns true if a flush would be due on a drive that needs flushes, and counts it as done. After the last
    /// request of a thread, only the flush at its end (fio `end_fsync`) counts.
    #[inline(never)]
    fn count_unneeded_flush(&mut self, is_last: bool) -> bool {
        if is_last {
            return std::mem::take(&mut self.is_dirty) && self.flushes.at_end;
        }
        self.take_if_due()
    }

    /// Returns true if the thread must flush now; the flush then counts as issued.
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

    /// Returns true if the thread must flush at its end (fio `end_fsync`); the flush then counts as issued.
    pub(super) fn take_final_flush(&mut self) -> bool {
        let is_due = self.flushes.at_end && self.is_dirty && self.are_needed;
        self.is_dirty &= !is_due;
        is_due
    }
}
