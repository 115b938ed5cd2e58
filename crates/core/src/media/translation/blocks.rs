//! Erase blocks of a flash drive as translation policies see them: valid units, age, wear and stream of each; and pages
//! of the mapping table.

use crate::number::{index, length, real};
use crate::random::Random;

/// Physical location of one mapping unit on flash: a block, and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashUnitLocation {
    /// Number of the block on the drive.
    pub block: u32,
    /// Number of the mapping unit's position within the block, in the order of writes.
    pub position: u32,
}

impl FlashUnitLocation {
    /// Location that stands for a mapping unit that is not on the drive: never written, or deallocated.
    pub const NONE: FlashUnitLocation = FlashUnitLocation { block: u32::MAX, position: u32::MAX };
}

/// Stream of writes to flash that has an open block of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashWriteStream {
    /// User writes, in one of the streams into which the policy or the host separates them.
    User(u8),
    /// User writes to the SLC cache, whose mapping units are moved to ordinary blocks later.
    Slc,
    /// Writes of mapping table pages, on drives whose memory does not hold the whole table.
    Map,
    /// Units that garbage collection moves, in one of the streams into which the policy separates them.
    Moved(u8),
}

/// Page of the mapping table that is in the drive's memory and may be replaced by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedMapPage {
    /// Number of the page in the mapping table.
    pub page: u32,
    /// True if the page of the mapping table has changed and must be written to flash when it leaves memory.
    pub is_changed: bool,
}

/// State of one erase block: valid mapping units, wear, age and stream.
#[derive(Clone, Debug, Default)]
pub(super) struct EraseBlockState {
    /// Number of mapping units in the erase block that are valid.
    pub valid: u32,
    /// Number of positions of the erase block that have been written, or left empty by a flush.
    pub written: u32,
    /// Number of erases of the block in this run.
    pub erases: u32,
    /// Number of erases of the block before this run, less those of the least erased block.
    pub erased_before: u32,
    /// Rank of the block in the order in which blocks were filled up, from 1; 0 as long as the block is not full.
    pub sealed: u64,
    /// Sum of the times at which the user wrote the mapping units of this erase block. Time is the number of units that
    /// the user has written.
    pub written_at_sum: u64,
    /// Number of the write stream that has filled the erase block.
    pub stream: u8,
    /// Log of the mapping units written to the block in this run, in the order of positions.
    pub log: Vec<BlockLogEntry>,
}

/// Entry of a block's log: the mapping unit that was written to a position.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockLogEntry {
    pub position: u32,
    pub unit: u32,
}

/// All erase blocks of a drive, and the clock of user writes.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// State of each block by number. SLC blocks follow the ordinary ones, and no policy sees them.
    pub(super) all: Vec<EraseBlockState>,
    /// Number of ordinary blocks, which are not part of the SLC cache.
    pub(super) main: u32,
    /// Number of mapping units in each ordinary block.
    pub(super) units: u32,
    /// Number of mapping units in each SLC block.
    pub(super) slc_units: u32,
    /// Number of mapping units that the user has written so far, which serves as the time of policies.
    pub(super) now: u64,
}

impl Blocks {
    pub(super) fn new(main: u32, units: u32, slc: u32, slc_units: u32) -> Blocks {
        Blocks { all: vec![EraseBlockState::default(); index(main + slc)], main, units, slc_units, now: 0 }
    }

    /// Returns the number of mapping units that a block can hold; SLC blocks hold fewer.
    pub(super) fn capacity(&self, block: u32) -> u32 {
        if block < self.main { self.units } else { self.slc_units }
    }

    /// Returns the number of ordinary (not SLC) blocks, full or not.
    pub fn count(&self) -> u32 {
        self.main
    }

    /// Returns the number of mapping units in each ordinary (not SLC) block.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Returns the time as the number of mapping units that the user has written so far.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the numbers of the full ordinary blocks, in ascending order. Only they can be victims of garbage
    /// collection.
    pub fn full(&self) -> impl Iterator<Item = u32> {
        (0..self.count()).filter(|block| self.is_full(*block))
    }

    /// True if every position of a block has been written, or left empty by a flush.
    pub fn is_full(&self, block: u32) -> bool {
        self.all[index(block)].sealed > 0
    }

    /// Returns the number of mapping units in a block that are valid.
    pub fn valid(&self, block: u32) -> u32 {
        self.all[index(block)].valid
    }

    /// True if erasing a block makes room, because not all of its mapping units are valid.
    pub fn has_invalid_units(&self, block: u32) -> bool {
        self.valid(block) < self.units
    }

    /// Returns the number of erases of a block, less a constant that is the same for all blocks.
    pub fn erases(&self, block: u32) -> u32 {
        self.all[index(block)].erases + self.all[index(block)].erased_before
    }

    /// Returns the rank of a full block in the order in which blocks were filled up, from 1; 0 for a block that is not
    /// full.
    pub fn order(&self, block: u32) -> u64 {
        self.all[index(block)].sealed
    }

    /// Returns the number of the stream that has filled a block: user streams first, then the stream of map pages if
    /// there is one, then streams of moved units.
    pub fn stream(&self, block: u32) -> u8 {
        self.all[index(block)].stream
    }

    /// Returns the mean age of the mapping units of a block: the number of units that the user has written since each
    /// of them. Moving a unit does not make it younger.
    pub fn age(&self, block: u32) -> f64 {
        real(self.now) - self.written_at(block)
    }

    /// Draws one of the full blocks at random, all with equal probability; `None` if as many draws as there are blocks
    /// hit no full block.
    pub fn draw_full_block(&self, random: &mut Random) -> Option<u32> {
        (0..self.count()).find_map(|_| {
            let block = (random.unit() * f64::from(self.count())) as u32;
            self.is_full(block).then_some(block)
        })
    }

    /// Returns the mean time at which the user wrote the mapping units of a block, as a number of units that the user
    /// had written.
    pub(super) fn written_at(&self, block: u32) -> f64 {
        let this = &self.all[index(block)];
        real(this.written_at_sum) / f64::from(this.written.max(1))
    }

    /// Returns the number of erases in this run of the most erased block, and the number for all blocks together; SLC
    /// blocks do not count.
    pub(super) fn erase_extremes(&self) -> (u32, u64) {
        let erases = self.all[..index(self.main)].iter().map(|block| block.erases);
        (erases.clone().max().unwrap_or(0), erases.map(u64::from).sum())
    }

    /// Returns the index, in a list of free blocks, of the block with the fewest erases; `None` if the list is empty.
    pub fn least_erased_free_block(&self, free: &[u32]) -> Option<usize> {
        (0..free.len()).min_by_key(|place| self.erases(free[*place]))
    }

    /// Returns the index, in a list of free blocks, of the block with the most erases; the first one if several have as
    /// many. `None` if the list is empty.
    pub fn most_erased_free_block(&self, free: &[u32]) -> Option<usize> {
        (0..free.len()).max_by_key(|place| (self.erases(free[*place]), length(free.len() - place)))
    }
}
