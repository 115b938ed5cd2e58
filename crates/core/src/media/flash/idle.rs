//! Garbage collection while the drive is idle: the cache of one bit a cell is folded, and blocks are erased ahead, so that
//! the next writes find room.

use super::Flash;
use crate::time::{Span, Time};

/// Garbage collection in idle time.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleCollection {
    /// Time without a request after which it begins.
    after: Span,
    /// Number of erased blocks, more than those in reserve, at which it ends.
    blocks: u32,
    /// Time of the last request.
    last_at: Time,
}

impl IdleCollection {
    /// Creates the idle collection of a description; `None` if it has none.
    pub(super) fn new(after: Span, blocks: u32) -> Option<IdleCollection> {
        (!after.is_zero()).then_some(IdleCollection { after, blocks, last_at: Time::ZERO })
    }
}

impl Flash {
    /// Collects garbage in the idle time before a request at `now`, step by step, each when the dies have ended the last
    /// one. A step that is under way when the request comes goes on beside it.
    #[inline]
    pub(super) fn use_idle_time(&mut self, now: Time) {
        let Some(idle) = &mut self.idle else { return };
        let (mut at, blocks) = (idle.last_at + idle.after, idle.blocks);
        idle.last_at = now;
        loop {
            at = self.dies.iter().map(super::die::Die::is_free_at).fold(at, Time::max);
            if at >= now || !self.collect_ahead(at, blocks) {
                return;
            }
        }
    }

    /// Takes one step of garbage collection at `at`: as many units as a line has. Returns false if there is nothing to do.
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
