//! Flushes between the writes of a thread, as fio asks for them.

use crate::request::Op;
use serde::Serialize;

/// When a job has the drive bring what it has acknowledged to where it outlives power. On a raw device all of them are the
/// same command, of a drive whose buffer is volatile; others need none (Linux, `blkdev_issue_flush`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flushes {
    /// After every so many writes of a thread, or 0 for never (fio `fsync`, `fdatasync`).
    pub fsync: u32,
    pub fdatasync: u32,
    /// Once a thread is done with what it has written (fio `end_fsync`).
    pub at_end: bool,
}

impl Flushes {
    /// fio's options with their values, those that are on.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u32)> + use<> {
        let all = [("fsync", self.fsync), ("fdatasync", self.fdatasync), ("end_fsync", self.at_end.into())];
        all.into_iter().filter(|(_, value)| *value > 0)
    }
}

/// Those that a thread has still to ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flushing {
    flushes: Flushes,
    /// Writes so far, and whether there were any since the last flush.
    written: u64,
    is_dirty: bool,
}

impl Flushing {
    pub(super) fn new(flushes: Flushes) -> Flushing {
        Flushing { flushes, ..Flushing::default() }
    }

    /// The thread has asked for a request.
    pub(super) fn on_request(&mut self, op: Op) {
        if op == Op::Write {
            self.written += 1;
            self.is_dirty = true;
        }
    }

    /// Whether it is time for a flush, which is then taken as asked for.
    pub(super) fn take_due(&mut self) -> bool {
        self.is_dirty && self.take_if_due()
    }

    #[inline(never)]
    fn take_if_due(&mut self) -> bool {
        let Flushes { fsync, fdatasync, .. } = self.flushes;
        let is_time = |every: u32| every > 0 && self.written.is_multiple_of(every.into());
        let is_due = is_time(fsync) || is_time(fdatasync);
        self.is_dirty &= !is_due;
        is_due
    }

    /// The same at the end of the thread.
    pub(super) fn take_last(&mut self) -> bool {
        let is_due = self.flushes.at_end && self.is_dirty;
        self.is_dirty &= !is_due;
        is_due
    }
}
