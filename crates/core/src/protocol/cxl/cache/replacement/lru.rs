//! LRU replacement policy: evicts the page that has not been accessed for the longest time. The frames form a list in
//! the order of their last accesses.

use super::ReplacementPolicy;
use crate::table::NumberHashMap;

/// Value that stands for no frame, at both ends of the list of frames.
const NONE: u32 = u32::MAX;

/// LRU replacement policy: evicts the page that has not been accessed for the longest time.
#[derive(Clone, Debug)]
pub struct Lru {
    frames: u32,
    /// List neighbours of the frames whose neighbours have changed since the start. Every other frame still stands
    /// between the frames with the next lower and the next higher number.
    neighbours: NumberHashMap<u32, FrameNeighbours>,
    oldest: u32,
    newest: u32,
}

/// Neighbours of a cache frame in the list by last use.
#[derive(Clone, Copy, Debug)]
struct FrameNeighbours {
    older: u32,
    newer: u32,
}

impl Lru {
    fn neighbours(&self, frame: u32) -> FrameNeighbours {
        self.neighbours.get(&frame).copied().unwrap_or(FrameNeighbours {
            older: frame.checked_sub(1).unwrap_or(NONE),
            newer: if frame + 1 == self.frames { NONE } else { frame + 1 },
        })
    }

    fn change(&mut self, frame: u32, change: impl FnOnce(&mut FrameNeighbours)) {
        let mut neighbours = self.neighbours(frame);
        change(&mut neighbours);
        self.neighbours.insert(frame, neighbours);
    }

    fn unlink(&mut self, frame: u32) {
        let FrameNeighbours { older, newer } = self.neighbours(frame);
        match older {
            NONE => self.oldest = newer,
            _ => self.change(older, |it| it.newer = newer),
        }
        match newer {
            NONE => self.newest = older,
            _ => self.change(newer, |it| it.older = older),
        }
    }
}

impl ReplacementPolicy for Lru {
    fn new(frames: u32, is_full: bool) -> Lru {
        let (oldest, newest) = if is_full { (0, frames - 1) } else { (NONE, NONE) };
        Lru { frames, neighbours: NumberHashMap::default(), oldest, newest }
    }

    fn admit(&mut self, frame: u32, _page: u64) {
        let older = std::mem::replace(&mut self.newest, frame);
        match older {
            NONE => self.oldest = frame,
            _ => self.change(older, |it| it.newer = frame),
        }
        self.neighbours.insert(frame, FrameNeighbours { older, newer: NONE });
    }

    fn touch(&mut self, frame: u32) {
        if frame != self.newest {
            self.unlink(frame);
            self.admit(frame, 0);
        }
    }

    fn evict(&mut self, _page_of: &dyn Fn(u32) -> u64) -> u32 {
        let oldest = self.oldest;
        self.unlink(oldest);
        oldest
    }
}
