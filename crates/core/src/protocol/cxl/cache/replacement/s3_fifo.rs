//! S3-FIFO replacement policy, with three queues (Yang et al., "FIFO Queues Are All You Need for Cache Eviction", SOSP
//! 2023).
//!
//! ```text
//!     admitted --> small queue, a tenth --+--> accessed twice or more: main queue
//!                                         +--> else: replaced, and its page noted among the ghosts
//!     admitted, and among the ghosts --------> main queue --> accessed: again to its end; else replaced
//! ```
//!
//! The main queue may be longer than nine tenths of the frames only while the small queue is shorter than its tenth.
//! Frames are then taken from the main queue, so that a move from the small queue to the main one never has to evict a
//! page. Ghosts are the pages that were last evicted from the small queue: as many as the main queue has frames, less
//! those that have returned since.

use std::collections::VecDeque;
use std::ops::Range;

use super::ReplacementPolicy;
use crate::number::{index};
use crate::table::NumberHashMap;

/// Largest number of accesses of a page that S3-FIFO counts.
const ACCESSES_MAX: u8 = 3;
/// Least number of accesses with which a page moves from the small queue to the main queue instead of being evicted.
const ACCESSES_TO_STAY: u8 = 2;
/// Number of frames of the cache for each frame of the small queue.
const FRAMES_OF_SMALL: u32 = 10;

/// S3-FIFO replacement policy (small and main queue of frames, ghost queue of evicted pages).
#[derive(Clone, Debug)]
pub struct S3Fifo {
    small: VecDeque<u32>,
    small_frames: usize,
    main: S3FifoMainQueue,
    /// Number of accesses of each frame's page, four bits for each frame.
    accesses: Vec<u8>,
    ghosts: GhostQueue,
}

/// Main queue of S3-FIFO. Frames that have been in it since the start of the run come first, in the order of their
/// numbers, and then all others.
#[derive(Clone, Debug)]
struct S3FifoMainQueue {
    first: Range<u32>,
    others: VecDeque<u32>,
}

/// Ghost queue of S3-FIFO: the pages that were last evicted from the small queue.
#[derive(Clone, Debug)]
struct GhostQueue {
    most: usize,
    /// Evicted pages in the order of their eviction, each with its serial number in that order.
    order: VecDeque<(u64, u64)>,
    /// Serial number of the latest eviction of each page that has not returned to the cache.
    places: NumberHashMap<u64, u64>,
    next: u64,
}

impl GhostQueue {
    fn add(&mut self, page: u64) {
        self.places.insert(page, self.next);
        self.order.push_back((page, self.next));
        self.next += 1;
        if self.order.len() > self.most
            && let Some((oldest, place)) = self.order.pop_front()
            && self.places.get(&oldest) == Some(&place)
        {
            self.places.remove(&oldest);
        }
    }

    /// Removes a page from the ghost queue. Returns true if the page was in the queue.
    fn take(&mut self, page: u64) -> bool {
        self.places.remove(&page).is_some()
    }
}

impl S3Fifo {
    fn accesses(&self, frame: u32) -> u8 {
        self.accesses[index(frame) / 2] >> (frame % 2 * 4) & 15
    }

    fn set_accesses(&mut self, frame: u32, accesses: u8) {
        let (place, shift) = (index(frame) / 2, frame % 2 * 4);
        self.accesses[place] = self.accesses[place] & !(15 << shift) | accesses << shift;
    }

    fn evict_from_small(&mut self, page_of: &dyn Fn(u32) -> u64) -> Option<u32> {
        let frame = self.small.pop_front()?;
        let stays = self.accesses(frame) >= ACCESSES_TO_STAY;
        self.set_accesses(frame, 0);
        if stays {
            self.main.others.push_back(frame);
            return None;
        }
        self.ghosts.add(page_of(frame));
        Some(frame)
    }

    fn evict_from_main(&mut self) -> Option<u32> {
        let frame = self.main.first.next().or_else(|| self.main.others.pop_front())?;
        let accesses = self.accesses(frame);
        if accesses == 0 {
            return Some(frame);
        }
        self.set_accesses(frame, accesses - 1);
        self.main.others.push_back(frame);
        None
    }
}

impl ReplacementPolicy for S3Fifo {
    fn new(frames: u32, is_full: bool) -> S3Fifo {
        let small_frames = (frames / FRAMES_OF_SMALL).max(1);
        let most = index((frames - small_frames).max(1));
        S3Fifo {
            small: VecDeque::new(),
            small_frames: index(small_frames),
            main: S3FifoMainQueue { first: if is_full { 0..frames } else { 0..0 }, others: VecDeque::new() },
            accesses: vec![0; index(frames.div_ceil(2))],
            ghosts: GhostQueue { most, order: VecDeque::new(), places: NumberHashMap::default(), next: 0 },
        }
    }

    fn admit(&mut self, frame: u32, page: u64) {
        self.set_accesses(frame, 0);
        match self.ghosts.take(page) {
            true => self.main.others.push_back(frame),
            false => self.small.push_back(frame),
        }
    }

    fn touch(&mut self, frame: u32) {
        self.set_accesses(frame, (self.accesses(frame) + 1).min(ACCESSES_MAX));
    }

    fn evict(&mut self, page_of: &dyn Fn(u32) -> u64) -> u32 {
        loop {
            let is_main_empty = self.main.first.is_empty() && self.main.others.is_empty();
            let evicted = match self.small.len() >= self.small_frames || is_main_empty {
                true => self.evict_from_small(page_of),
                false => self.evict_from_main(),
            };
            if let Some(frame) = evicted {
                return frame;
            }
        }
    }
}
