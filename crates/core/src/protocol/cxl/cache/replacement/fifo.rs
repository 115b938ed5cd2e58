//! FIFO replacement policy: evicts the page that was admitted first. As frames are filled in turn, a hand that goes
//! round the frames points at that page.

use super::ReplacementPolicy;

/// FIFO replacement policy: evicts the page that was admitted to the cache first.
#[derive(Clone, Debug)]
pub struct FirstInFirstOut {
    frames: u32,
    hand: u32,
}

impl ReplacementPolicy for FirstInFirstOut {
    fn new(frames: u32, _is_full: bool) -> FirstInFirstOut {
        FirstInFirstOut { frames, hand: 0 }
    }

    fn admit(&mut self, _frame: u32, _page: u64) {}

    fn touch(&mut self, _frame: u32) {}

    fn evict(&mut self, _page_of: &dyn Fn(u32) -> u64) -> u32 {
        let oldest = self.hand;
        self.hand = (oldest + 1) % self.frames;
        oldest
    }
}
