//! Erase blocks of a flash drive as policies see them: valid units, age, wear and stream of each; and pages
//! of the mapping table.

use crate::number::{index, length};
use crate::random::Random;

/// Physical location of one unit: a block, and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitLocation {
    /// Number of the block.
    pub block: u32,
    /// Number of the unit within the block.
    pub position: u32,
}

impl UnitLocation {
    /// Location of a unit that is not on the drive.
    pub const NONE: UnitLocation = UnitLocation { block: u32::MAX, position: u32::MAX };
}

/// Stream of writes that has an open block of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStream {
    /// Writes of the user: one of the streams into which the policy separates them.
    User(u8),
    /// Writes of the user to blocks that are used with one bit a cell, which are folded later.
    Slc,
    /// Pages of the mapping table, on drives whose memory does not hold all of it.
    Map,
    /// Units that garbage collection moves: one of the streams into which the policy separates them.
    Moved(u8),
}

/// Loaded page of the mapping table that may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapPage {
    /// Number of the page.
    pub page: u32,
    /// True if the page has to be written when it is replaced.
    pub is_changed: bool,
}

/// State of one erase block.
#[derive(Clone, Debug, Default)]
pub(super) struct EraseBlock {
    /// Number of valid units.
    pub valid: u32,
    /// Number of positions that have been written.
    pub written: u32,
    /// Number of erases in this run.
    pub erases: u32,
    /// Number of erases before this run, less those of the least erased block.
    pub erased_before: u32,
    /// Order in which blocks were filled up; 0 as long as the block is not full.
    pub sealed: u64,
    /// Sum of the instants, in units of the user, at which the user wrote the units of this block.
    pub written_at_sum: u64,
    /// Number of the stream that has filled the block.
    pub stream: u8,
    /// Units written to the block in this run, by position.
    pub log: Vec<LogEntry>,
}

/// Unit that was written to a position of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogEntry {
    pub position: u32,
    pub unit: u32,
}

/// All erase blocks of a drive.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// All blocks; those that are used with one bit a cell follow the others, and no policy sees them.
    pub(super) all: Vec<EraseBlock>,
    /// Number of the others.
    pub(super) main: u32,
    pub(super) units: u32,
    /// Number of units of a block that is used with one bit a cell.
    pub(super) slc_units: u32,
    pub(super) now: u64,
}

impl Blocks {
    pub(super) fn new(main: u32, units: u32, slc: u32, slc_units: u32) -> Blocks {
        Blocks { all: vec![EraseBlock::default(); index(main + slc)], main, units, slc_units, now: 0 }
    }

    /// Returns the number of units that a block holds.
    pub(super) fn capacity(&self, block: u32) -> u32 {
        if block < self.main { self.units } else { self.slc_units }
    }

    /// Returns the number of blocks, full or not.
    pub fn count(&self) -> u32 {
        self.main
    }

    /// Returns the number of units of a block.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Returns the time in units that the user has written.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the full blocks, the only ones that can be victims, by number.
    pub fn full(&self) -> impl Iterator<Item = u32> {
        (0..self.count()).filter(|block| self.is_full(*block))
    }

    /// Returns true if every position of a block has been written.
    pub fn is_full(&self, block: u32) -> bool {
        self.all[index(block)].sealed > 0
    }

    /// Returns the number of valid units of a block.
    pub fn valid(&self, block: u32) -> u32 {
        self.all[index(block)].valid
    }

    /// Returns true if erasing a block makes room: not all of its units are valid.
    pub fn makes_room(&self, block: u32) -> bool {
        self.valid(block) < self.units
    }

    /// Returns the number of erases of a block, less a number that all blocks share.
    pub fn erases(&self, block: u32) -> u32 {
        self.all[index(block)].erases + self.all[index(block)].erased_before
    }

    /// Returns a number that rises with the instant at which a block was filled up.
    pub fn order(&self, block: u32) -> u64 {
        self.all[index(block)].sealed
    }

    /// Returns the number of the stream that has filled a block: streams of the user first, then that of map
    /// pages on drives that have one, then those of moved units.
    pub fn stream(&self, block: u32) -> u8 {
        self.all[index(block)].stream
    }

    /// Returns the mean time since the user wrote the units of a block, in units that the user has written since. Moving a
    /// unit makes it no younger.
    pub fn age(&self, block: u32) -> f64 {
        self.now as f64 - self.written_at(block)
    }

    /// Returns one of the full blocks, each with the same chance; `None` if almost none is full.
    pub fn draw_full(&self, random: &mut Random) -> Option<u32> {
        (0..self.count()).find_map(|_| {
            let block = (random.unit() * f64::from(self.count())) as u32;
            self.is_full(block).then_some(block)
        })
    }

    /// Returns the mean instant at which the user wrote the units of a block.
    pub(super) fn written_at(&self, block: u32) -> f64 {
        let this = &self.all[index(block)];
        this.written_at_sum as f64 / f64::from(this.written.max(1))
    }

    /// Returns the erases of the most erased block in this run, and of all blocks together.
    pub(super) fn most_and_all_erases(&self) -> (u32, u64) {
        let erases = self.all[..index(self.main)].iter().map(|block| block.erases);
        (erases.clone().max().unwrap_or(0), erases.map(u64::from).sum())
    }

    /// Returns the position of the free block with the fewest erases in a list of free blocks.
    pub fn least_erased(&self, free: &[u32]) -> Option<usize> {
        (0..free.len()).min_by_key(|place| self.erases(free[*place]))
    }

    /// Returns the position of the free block with the most erases in a list of free blocks.
    pub fn most_erased(&self, free: &[u32]) -> Option<usize> {
        (0..free.len()).max_by_key(|place| (self.erases(free[*place]), length(free.len() - place)))
    }
}
