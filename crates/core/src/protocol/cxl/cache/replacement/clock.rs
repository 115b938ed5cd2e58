//! CLOCK replacement policy: a hand goes round the frames of the cache. It spares a page that has been accessed since
//! it last passed, and evicts the first page that has not (Corbató, "A Paging Experiment with the Multics System",
//! 1968). A page that is admitted counts as not accessed yet.

use crate::number::{index};
use super::ReplacementPolicy;

/// CLOCK replacement policy: first in, first out with a second chance for pages that have been accessed.
#[derive(Clone, Debug)]
pub struct Clock {
    frames: u32,
    hand: u32,
    /// Bit mask with one bit for each frame: set if the frame's page has been accessed since the hand passed it.
    accessed: Vec<u64>,
}

impl Clock {
    fn place(frame: u32) -> (usize, u64) {
        (index(frame) / 64, 1 << (frame % 64))
    }
}

impl ReplacementPolicy for Clock {
    fn new(frames: u32, _is_full: bool) -> Clock {
        Clock { frames, hand: 0, accessed: vec![0; index(frames.div_ceil(64))] }
    }

    fn admit(&mut self, _frame: u32, _page: u64) {}

    fn touch(&mut self, frame: u32) {
        let (word, bit) = Clock::place(frame);
        self.accessed[word] |= bit;
    }

    fn evict(&mut self, _page_of: &dyn Fn(u32) -> u64) -> u32 {
        loop {
            let frame = self.hand;
            self.hand = (frame + 1) % self.frames;
            let (word, bit) = Clock::place(frame);
            if self.accessed[word] & bit == 0 {
                return frame;
            }
            self.accessed[word] &= !bit;
        }
    }
}
