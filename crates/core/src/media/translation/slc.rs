//! SLC cache: blocks that hold one bit in each cell, so that they are programmed and read fast, as a cache of user
//! writes.
//!
//! User writes go to the cache as long as it has erased blocks, and otherwise to ordinary blocks. While the drive is
//! idle, the cache is *folded*: the valid units of its oldest block move to the open block of moved units, and the
//! block is erased. Units that were overwritten or deallocated in the meantime are never written to ordinary blocks.
//!
//! ```text
//!     user write -> erased block of one bit a cell? --yes--> open block --full--> full, the oldest first
//!                        |                                                            | idle
//!                        no -> open block of the policy's stream                      v
//!                                                           valid units -> open block (moved); erased
//! ```

use std::collections::VecDeque;

use super::{CollectionProgress, FlashWriteStream, MovedUnitRun, TranslationLayer};
use crate::number::index;

/// Size of the SLC cache: number and size of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcCacheShape {
    /// Number of SLC blocks.
    pub blocks: u32,
    /// Number of mapping units in each SLC block.
    pub block_units: u32,
}

/// State of the SLC cache: its free, open and full blocks, and the block being folded.
#[derive(Clone, Debug)]
pub(super) struct SlcCache {
    /// Numbers of the erased SLC blocks, in the order in which they are opened.
    free: VecDeque<u32>,
    /// Number of the SLC block that user writes are filling; `None` if the next write opens one.
    pub open: Option<u32>,
    /// Numbers of the full SLC blocks, the oldest one first.
    full: VecDeque<u32>,
    /// Fold of one SLC block that is in progress; `None` if there is none.
    folding: Option<CollectionProgress>,
}

impl SlcCache {
    /// Creates an empty SLC cache, whose blocks have the numbers from `first` on.
    pub(super) fn new(first: u32, shape: SlcCacheShape) -> SlcCache {
        let free = (first..first + shape.blocks).collect();
        SlcCache { free, open: None, full: VecDeque::new(), folding: None }
    }

    /// True if the SLC cache can accept the next write: it has an open or an erased block.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.open.is_some() || !self.free.is_empty()
    }

    /// Returns the number of the open SLC block; opens an erased one if there is none. The cache must have room.
    pub(super) fn open(&mut self) -> u32 {
        *self.open.get_or_insert_with(|| self.free.pop_front().expect("the caller has asked for room"))
    }

    /// Moves the open SLC block, which is now full, to the list of full SLC blocks. Does nothing if `block` is not the
    /// open SLC block.
    #[inline]
    pub(super) fn seal(&mut self, block: u32) {
        if self.open == Some(block) {
            self.open = None;
            self.full.push_back(block);
        }
    }
}

impl TranslationLayer {
    /// True if the drive has no SLC cache, or none that can accept the next write.
    pub fn is_slc_used_up(&self) -> bool {
        !self.slc.as_ref().is_some_and(SlcCache::has_room)
    }

    /// Fills the SLC cache with mapping units that have all been overwritten: the state of a drive that has been busy
    /// for a long time.
    pub(super) fn fill_slc_with_overwritten_units(&mut self) {
        let Some(slc) = &mut self.slc else { return };
        slc.full.extend(slc.free.drain(..));
        for block in &slc.full {
            self.sealed += 1;
            let this = &mut self.blocks.all[index(*block)];
            (this.written, this.sealed) = (self.blocks.slc_units, self.sealed);
        }
    }

    /// Folds the SLC cache: makes room for up to `units` valid mapping units of its oldest block, and moves them. Adds
    /// the moves to `moved`, and the erased blocks to `erased`. Returns false if there is nothing to fold.
    pub fn fold(&mut self, units: u32, moved: &mut Vec<MovedUnitRun>, erased: &mut Vec<u32>) -> bool {
        let Some(slc) = &mut self.slc else { return false };
        let begin =
            |victim| CollectionProgress { victim, stream: FlashWriteStream::Moved(0), cohorts: Vec::new(), logged: 0 };
        let Some(mut folding) = slc.folding.take().or_else(|| slc.full.pop_front().map(begin)) else { return false };
        let units = units.min(self.blocks.valid(folding.victim));
        self.make_room(units.max(1), moved, erased);
        // `make_room` does not collect blocks of the cache, so these units are still valid.
        self.move_units_of_victim(&mut folding, units, moved);
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
