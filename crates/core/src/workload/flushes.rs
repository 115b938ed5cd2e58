//! Flushes between the writes of a thread, as fio asks for them.

use super::Job;
use super::check::{Finding, Limits};
use crate::request::Op;

/// When a job has the drive bring what it has acknowledged to where it outlives power. On a raw device all of them are the
/// same command, of a drive whose buffer is volatile; others need none (Linux, `blkdev_issue_flush`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    pub fn new(flushes: Flushes) -> Flushing {
        Flushing { flushes, ..Flushing::default() }
    }

    /// The thread has asked for a request.
    pub fn on_request(&mut self, op: Op) {
        if op == Op::Write {
            self.written += 1;
            self.is_dirty = true;
        }
    }

    /// Whether it is time for a flush, which is then taken as asked for.
    pub fn take_due(&mut self) -> bool {
        let Flushes { fsync, fdatasync, .. } = self.flushes;
        let is_time = |every: u32| every > 0 && self.written.is_multiple_of(every.into());
        let is_due = self.is_dirty && (is_time(fsync) || is_time(fdatasync));
        self.is_dirty &= !is_due;
        is_due
    }

    /// The same at the end of the thread.
    pub fn take_last(&mut self) -> bool {
        let is_due = self.flushes.at_end && self.is_dirty;
        self.is_dirty &= !is_due;
        is_due
    }
}

/// Flushes go where it is known what they do.
pub(super) fn problem(job: &Job, limits: &Limits) -> Option<Finding> {
    let refused = |option: &'static str, found: &str, allowed: &str| {
        Some((option, format!("{option} {found}"), String::from(allowed)))
    };
    let (option, _) = job.flushes.named().next()?;
    if job.trace.is_some() {
        return refused(option, "with a trace", "leave it out: a trace is replayed as it is");
    }
    let of_files = job.flushes.named().map(|(name, _)| name).find(|name| *name != "fdatasync");
    if let Some(option) = of_files.filter(|_| limits.ways_in.is_some_and(|ways| ways.has_files)) {
        let allowed = "fdatasync alone, or stack.filesystem = \"raw\"";
        return refused(option, "over a file system, whose journal is not modelled", allowed);
    }
    if !limits.is_volatile {
        return None;
    }
    if !limits.flushes {
        let allowed = "an interface with a flush command, or buffer.power_loss_protection = true";
        return refused(option, "of a volatile buffer behind an interface without flushes", allowed);
    }
    match limits.drives {
        1 => None,
        _ => refused(option, "with several drives, of which it names none", "drives = 1, or leave it out"),
    }
}
