//! Blocks that are used with one bit a cell, so that they are programmed and read fast: a cache of the user's writes.
//!
//! Writes go there as long as there are erased blocks of the kind, and to the other blocks otherwise. While the drive is
//! idle, the cache is *folded*: the valid units of its oldest block move to the open block of moved units, and the block is
//! erased. Units that were overwritten or deallocated in the meantime are never written with several bits a cell.
//!
//! ```text
//!     user write -> erased block of one bit a cell? --yes--> open block --full--> full, the oldest first
//!                        |                                                            | idle
//!                        no -> open block of the policy's stream                      v
//!                                                           valid units -> open block (moved); erased
//! ```

use std::collections::VecDeque;

use super::{GarbageCollection, TranslationLayer, UnitMove, WriteStream};
use crate::number::index;

/// Size of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcShape {
    /// Number of blocks.
    pub blocks: u32,
    /// Number of units of each.
    pub block_units: u32,
}

/// State of the cache.
#[derive(Clone, Debug)]
pub(super) struct SlcCache {
    free: VecDeque<u32>,
    pub open: Option<u32>,
    /// Full blocks, the oldest one first.
    full: VecDeque<u32>,
    /// Block that is being folded.
    folding: Option<GarbageCollection>,
}

impl SlcCache {
    /// Creates an empty cache, whose blocks have the numbers from `first` on.
    pub(super) fn new(first: u32, shape: SlcShape) -> SlcCache {
        let free = (first..first + shape.blocks).collect();
        SlcCache { free, open: None, full: VecDeque::new(), folding: None }
    }

    /// Returns true if the cache takes the next write.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.open.is_some() || !self.free.is_empty()
    }

    /// Returns the open block; opens one if there is none.
    pub(super) fn open(&mut self) -> u32 {
        *self.open.get_or_insert_with(|| self.free.pop_front().expect("the caller has asked for room"))
    }

    /// Takes note of a block that has been filled, if it is one of the cache.
    #[inline]
    pub(super) fn seal(&mut self, block: u32) {
        if self.open == Some(block) {
            self.open = None;
            self.full.push_back(block);
        }
    }
}

impl TranslationLayer {
    /// Returns true if the drive has no cache of one bit a cell that takes the next write.
    pub fn is_slc_used_up(&self) -> bool {
        !self.slc.as_ref().is_some_and(SlcCache::has_room)
    }

    /// Fills the cache with units that have all been overwritten: the state of a drive that has long been busy.
    pub(super) fn use_up_slc(&mut self) {
        let Some(slc) = &mut self.slc else { return };
        slc.full.extend(slc.free.drain(..));
        for block in &slc.full {
            self.sealed += 1;
            let this = &mut self.blocks.all[index(*block)];
            (this.written, this.sealed) = (self.blocks.slc_units, self.sealed);
        }
    }

    /// Folds up to `units` units of the oldest block of the cache, and makes room for them. Adds the moves to `moved`, and
    /// the erased blocks to `erased`. Returns false if there is nothing to fold.
    pub fn fold(&mut self, units: u32, moved: &mut Vec<UnitMove>, erased: &mut Vec<u32>) -> bool {
        let Some(slc) = &mut self.slc else { return false };
        let begin =
            |victim| GarbageCollection { victim, stream: WriteStream::Moved(0), cohorts: Vec::new(), logged: 0 };
        let Some(mut folding) = slc.folding.take().or_else(|| slc.full.pop_front().map(begin)) else { return false };
        let units = units.min(self.blocks.valid(folding.victim));
        self.make_room(units.max(1), moved, erased);
        // Garbage collection in this step may have moved none of these: it sees no block of the cache.
        self.move_from(&mut folding, units, moved);
        let is_empty = self.blocks.valid(folding.victim) == 0;
        let victim = folding.victim;
        if is_empty {
            self.erase(victim);
            erased.push(victim);
        }
        if let Some(slc) = &mut self.slc {
            match is_empty {
                true => slc.free.push_back(victim),
                false => slc.folding = Some(folding),
            }
        }
        true
    }
}
