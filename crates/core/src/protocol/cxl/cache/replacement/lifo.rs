//! LIFO replacement policy: evicts the page that was admitted last, so that a full cache keeps all of its pages but
//! one.

use super::ReplacementPolicy;

/// LIFO replacement policy: evicts the page that was admitted to the cache last.
#[derive(Clone, Debug)]
pub struct Lifo {
    latest: u32,
}

impl ReplacementPolicy for Lifo {
    fn new(frames: u32, _is_full: bool) -> Lifo {
        Lifo { latest: frames - 1 }
    }

    fn admit(&mut self, frame: u32, _page: u64) {
        self.latest = frame;
    }

    fn touch(&mut self, _frame: u32) {}

    fn evict(&mut self, _page_of: &dyn Fn(u32) -> u64) -> u32 {
        self.latest
    }
}
