//! Garbage collection while the drive is idle: the SLC cache is folded, and blocks are erased ahead, so that the next
//! writes find room.

use super::Flash;
use crate::time::{Span, Time};

/// Settings and state of garbage collection in idle time.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleCollection {
    /// Time without a request after which idle collection begins.
    after: Span,
    /// Number of erased flash blocks beyond the reserve at which garbage collection in idle time ends.
    blocks: u32,
    /// Time of the last request to the drive.
    last_at: Time,
}

impl IdleCollection {
    /// Creates idle collection that begins `after` the last request and ends with `blocks` erased blocks beyond the
    /// reserve; `None` if `after` is zero.
    pub(super) fn new(after: Span, blocks: u32) -> Option<IdleCollection> {
        (!after.is_zero()).then_some(IdleCollection { after, blocks, last_at: Time::ZERO })
    }
}

impl Flash {
    /// Runs the garbage collection of the idle time before a request at `now`. Each step begins when the dies have
    /// ended the last one. A step that is running at `now` continues beside the request.
    #[inline]
    pub(super) fn collect_in_idle_time(&mut self, now: Time) {
        let Some(idle) = &mut self.idle else { return };
        let (mut at, blocks) = (idle.last_at + idle.after, idle.blocks);
        idle.last_at = now;
        loop {
            at = self.dies.iter().map(super::die::FlashDie::is_free_at).fold(at, Time::max);
            if at >= now || !self.collect_ahead(at, blocks) {
                return;
            }
        }
    }

    /// Runs one step of idle garbage collection at `at`: moves as many mapping units as a line has. Folding the SLC
    /// cache comes before erasing ahead. Returns false if there is nothing to do.
    fn collect_ahead(&mut self, at: Time, blocks: u32) -> bool {
        let (mut moves, mut erased) = (std::mem::take(&mut self.moves), std::mem::take(&mut self.erased));
        let units = self.layout.line_units();
        let has_work = self.translation.fold(units, &mut moves, &mut erased)
            || self.translation.collect_ahead(units, blocks, &mut moves, &mut erased);
        (self.moves, self.erased) = (moves, erased);
        self.execute_collection(at);
        has_work
    }
}
