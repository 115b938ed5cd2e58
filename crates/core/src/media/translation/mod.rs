//! Flash translation layer (FTL): maps logical units to physical locations, and collects garbage.
//!
//! Cells are erased by the block and written in order, so that a unit that is written again goes to a new location, and
//! its old one becomes invalid. Garbage collection makes room: it moves the units of a victim block that are still
//! valid to another block, and erases the victim. The layer decides locations and moves; it knows no time.
//! [`super::flash`] executes its decisions.
//!
//! User writes and moved units go to blocks of their own: a unit that has outlived its block will mostly outlive the
//! next, and would keep frequently written blocks from becoming empty. Units that were on the drive before the run are
//! in [`cohorts`], units written since in [`overlay`]; [`stationary`] computes the number of valid units of each block
//! in the steady state, so that a drive can begin in it.
//!
//! ```text
//!     user write   -> open block (user)   --full--> sealed --victim--> valid units -> open block (moved) -> sealed
//!                                                                  \-> erased -> free
//! ```

mod cohorts;
mod overlay;
mod precondition;
pub mod stationary;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::number::{index, narrow};
use crate::random::Random;
use cohorts::Cohorts;
use overlay::Overlay;
use stationary::VictimPolicy;

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

/// Size and policies of a translation layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TranslationShape {
    /// Number of units that the user can write, below 2^32 - 1.
    pub units: u64,
    /// Number of units of a block.
    pub block_units: u32,
    /// Number of blocks, over-provisioning included.
    pub blocks: u32,
    /// Number of units of a block that are programmed together.
    pub line_units: u32,
    /// Policy by which a victim block is chosen.
    pub victim_policy: VictimPolicy,
    /// Number of erases by which one block may be ahead of another before the latter is collected however full it is; 0
    /// for no limit.
    pub wear_gap: u32,
}

/// Stream of writes that has an open block of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStream {
    /// Writes of the user.
    User,
    /// Units that garbage collection moves.
    Moved,
}

/// Units that garbage collection has moved from one block to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitMove {
    /// Old location of the first unit.
    pub from: UnitLocation,
    /// Number of positions over which the units were spread.
    pub positions: u32,
    /// Number of units.
    pub units: u32,
    /// New location of the first unit; the others follow it.
    pub to: UnitLocation,
}

/// Counters of the translation layer, in units and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranslationCounts {
    /// Units that the user has written.
    pub written: u64,
    /// Units that garbage collection has moved.
    pub moved: u64,
    /// Positions that were left empty because a flush did not wait for more units.
    pub skipped: u64,
    /// Blocks that were erased.
    pub erases: u64,
}

#[derive(Clone, Debug, Default)]
struct EraseBlock {
    /// Number of valid units.
    valid: u32,
    /// Number of positions that have been written.
    written: u32,
    erases: u32,
    /// Order in which blocks were filled up; 0 as long as the block is not full.
    sealed: u64,
    /// Units written to the block in this run, by position.
    log: Vec<LogEntry>,
}

#[derive(Clone, Copy, Debug)]
struct LogEntry {
    position: u32,
    unit: u32,
}

/// Block that is being collected, and the progress of that.
#[derive(Clone, Debug)]
struct GarbageCollection {
    victim: u32,
    /// First numbers of cohorts that are still there, the last one first.
    cohorts: Vec<u64>,
    /// Number of log entries that have been examined.
    logged: usize,
}

/// Flash translation layer with the state of all blocks.
#[derive(Clone, Debug)]
pub struct TranslationLayer {
    shape: TranslationShape,
    blocks: Vec<EraseBlock>,
    /// Blocks that are erased and empty.
    free: Vec<u32>,
    /// Open block of each stream.
    open: [Option<u32>; 2],
    collection: Option<GarbageCollection>,
    cohorts: Cohorts,
    overlay: Overlay,
    random: Random,
    /// Number of blocks that have been filled up.
    sealed: u64,
    counts: TranslationCounts,
}

impl TranslationLayer {
    /// Creates the translation layer of a drive on which nothing has ever been written.
    ///
    /// # Panics
    /// If there are not enough blocks for the user's units and the open blocks.
    pub fn new(shape: TranslationShape, seed: u64) -> TranslationLayer {
        assert!(shape.units < u64::from(u32::MAX), "{} units need numbers of more than 32 bits", shape.units);
        assert!(
            TranslationShape::blocks_min(shape.units, shape.block_units) <= shape.blocks,
            "too few blocks for the units and for garbage collection: {shape:?}"
        );
        TranslationLayer {
            shape,
            blocks: vec![EraseBlock::default(); index(shape.blocks)],
            free: (0..shape.blocks).rev().collect(),
            open: [None, None],
            collection: None,
            cohorts: Cohorts::none(),
            overlay: Overlay::new(),
            random: Random::stream(seed, "blocks to clean"),
            sealed: 0,
            counts: TranslationCounts::default(),
        }
    }

    /// Returns the location of a unit; [`UnitLocation::NONE`] if it has not been written, or has been deallocated.
    #[inline]
    pub fn location(&self, unit: u32) -> UnitLocation {
        match self.cohorts.number(unit) {
            Some(number) => self.cohorts.location(number),
            None => self.overlay.get(unit),
        }
    }

    /// Writes a unit, and returns its new location. The caller has called [`TranslationLayer::make_room`] before.
    #[inline]
    pub fn write(&mut self, unit: u32) -> UnitLocation {
        self.invalidate(unit);
        self.counts.written += 1;
        self.append(unit, WriteStream::User)
    }

    /// Deallocates a unit.
    pub fn discard(&mut self, unit: u32) {
        self.invalidate(unit);
        if self.overlay.get(unit) != UnitLocation::NONE {
            self.overlay.set(unit, UnitLocation::NONE);
        }
    }

    /// Deallocates every unit.
    pub fn discard_all(&mut self) {
        self.cohorts = Cohorts::none();
        self.overlay = Overlay::new();
        self.blocks.iter_mut().for_each(|block| block.valid = 0);
        self.collection.iter_mut().for_each(|collection| collection.cohorts.clear());
    }

    /// Leaves up to `positions` of the stream's open block empty, at most up to its end.
    pub fn skip(&mut self, stream: WriteStream, positions: u32) {
        let Some(block) = self.open[stream as usize] else { return };
        let skipped = positions.min(self.shape.block_units - self.blocks[index(block)].written);
        self.blocks[index(block)].written += skipped;
        self.counts.skipped += u64::from(skipped);
        self.seal_if_full(block);
    }

    /// Returns the free positions of a stream's open block; 0 if it would begin another.
    pub fn room(&self, stream: WriteStream) -> u32 {
        self.open[stream as usize].map_or(0, |block| self.shape.block_units - self.blocks[index(block)].written)
    }

    /// Collects as much garbage as the next `units` of the user need, in even steps. Adds the moves to `moved`, and the
    /// erased blocks to `erased`.
    ///
    /// Space for two blocks is kept in reserve. A victim block needs space for its valid units and yields the rest to
    /// the user, together one block: with another one in reserve, both streams find a block whenever they need one.
    pub fn make_room(&mut self, units: u32, moved: &mut Vec<UnitMove>, erased: &mut Vec<u32>) {
        while self.collection.is_some() || self.begin_collection() {
            let left = self.left_to_move();
            let share = match self.room_until_collected(left) {
                room if room <= u64::from(units) => left,
                room => narrow::<u32, u64>((u64::from(left) * u64::from(units)).div_ceil(room).min(left.into())),
            };
            self.move_units(share, moved);
            if self.left_to_move() > 0 {
                return;
            }
            self.finish_collection(erased);
        }
    }

    /// Returns the counters.
    pub fn counts(&self) -> TranslationCounts {
        self.counts
    }

    /// Returns size and policies.
    pub fn shape(&self) -> &TranslationShape {
        &self.shape
    }

    /// Returns the erases of the most erased block, and of all blocks together.
    pub fn erases(&self) -> (u32, u64) {
        let erases = self.blocks.iter().map(|block| block.erases);
        (erases.clone().max().unwrap_or(0), erases.map(u64::from).sum())
    }

    /// Returns the number of valid units of each full block.
    pub fn valid_units(&self) -> Vec<u32> {
        self.blocks.iter().filter(|block| block.sealed > 0).map(|block| block.valid).collect()
    }

    /// Returns a description of the first error in the mapping; `None` if there is none. No two units may be at one
    /// location, and each block must know how many valid units it holds. The check looks at all units, and so is for
    /// small drives.
    pub fn inconsistency(&self) -> Option<String> {
        let mut held = vec![0; self.blocks.len()];
        let mut places = BTreeSet::new();
        for unit in 0..narrow::<u32, u64>(self.shape.units) {
            let place = self.location(unit);
            if place == UnitLocation::NONE {
                continue;
            }
            held[index(place.block)] += 1;
            // Units of a cohort are spread over its positions, and may share a computed one.
            if self.cohorts.number(unit).is_none() && !places.insert((place.block, place.position)) {
                return Some(format!(
                    "unit {unit} is mapped to position {} of block {}, where another unit is",
                    place.position, place.block
                ));
            }
        }
        let wrong =
            self.blocks.iter().zip(held).position(|(block, held)| held != block.valid || held > block.written)?;
        Some(format!("block {wrong} has a wrong count of valid units"))
    }

    #[inline]
    fn invalidate(&mut self, unit: u32) {
        let place = match self.cohorts.number(unit) {
            Some(number) => {
                self.cohorts.leave(number);
                self.cohorts.location(number)
            }
            None => self.overlay.get(unit),
        };
        if place != UnitLocation::NONE {
            let block = &mut self.blocks[index(place.block)];
            assert!(block.valid > 0, "block {} has no valid unit, but unit {unit} is mapped to it", place.block);
            block.valid -= 1;
        }
    }

    #[inline]
    fn append(&mut self, unit: u32, stream: WriteStream) -> UnitLocation {
        let block = self.open_block(stream);
        let this = &mut self.blocks[index(block)];
        assert!(this.written < self.shape.block_units, "a unit is written to block {block}, which is full");
        let place = UnitLocation { block, position: this.written };
        this.log.push(LogEntry { position: this.written, unit });
        this.written += 1;
        this.valid += 1;
        self.overlay.set(unit, place);
        self.seal_if_full(block);
        place
    }

    /// Returns the open block of a stream; opens a new one if there is none.
    fn open_block(&mut self, stream: WriteStream) -> u32 {
        match self.open[stream as usize] {
            Some(block) => block,
            None => {
                // The least erased block, so that all blocks are used equally.
                let least = (0..self.free.len()).min_by_key(|place| self.blocks[index(self.free[*place])].erases);
                let block = self.free.swap_remove(least.expect("garbage collection keeps a block free"));
                self.open[stream as usize] = Some(block);
                block
            }
        }
    }

    #[inline]
    fn seal_if_full(&mut self, block: u32) {
        if self.blocks[index(block)].written == self.shape.block_units {
            self.sealed += 1;
            self.blocks[index(block)].sealed = self.sealed;
            self.open.iter_mut().filter(|open| **open == Some(block)).for_each(|open| *open = None);
        }
    }

    /// Returns the number of units that can be written before a block has to be erased.
    fn room_in_all(&self) -> u64 {
        let free = u64::from(self.shape.block_units) * self.free.len() as u64;
        u64::from(self.room(WriteStream::User)) + u64::from(self.room(WriteStream::Moved)) + free
    }

    /// Returns the number of units of room that garbage collection keeps in reserve.
    fn reserve(&self) -> u64 {
        2 * u64::from(self.shape.block_units)
    }

    /// Returns the number of units that the user can write until `left` units have been moved, so that the reserve is
    /// there again when their block has been erased.
    fn room_until_collected(&self, left: u32) -> u64 {
        (self.room_in_all() + u64::from(self.shape.block_units)).saturating_sub(u64::from(left) + self.reserve())
    }

    /// Chooses a block to collect, if the reserve has been reached.
    fn begin_collection(&mut self) -> bool {
        if self.room_in_all() > self.reserve() {
            return false;
        }
        let Some(victim) = self.least_worn_block().or_else(|| self.choose_victim()) else { return false };
        let mut cohorts = self.cohorts.starts_in_block(victim);
        cohorts.reverse();
        self.collection = Some(GarbageCollection { victim, cohorts, logged: 0 });
        true
    }

    /// Returns the block that has been erased less than others by more than is allowed: its units are written so seldom
    /// that only moving them gives its cells their share of wear.
    fn least_worn_block(&self) -> Option<u32> {
        if self.shape.wear_gap == 0 {
            return None;
        }
        let most = self.blocks.iter().map(|block| block.erases).max()?;
        let least = self.sealed_blocks().min_by_key(|block| self.blocks[index(*block)].erases)?;
        (most - self.blocks[index(least)].erases > self.shape.wear_gap).then_some(least)
    }

    fn choose_victim(&mut self) -> Option<u32> {
        let valid = |this: &TranslationLayer, block: &u32| this.blocks[index(*block)].valid;
        match self.shape.victim_policy {
            VictimPolicy::Oldest => self.sealed_blocks().min_by_key(|block| self.blocks[index(*block)].sealed),
            VictimPolicy::Emptiest => self.sealed_blocks().min_by_key(|block| valid(self, block)),
            VictimPolicy::EmptiestOf(choices) => {
                // A full drive has few blocks that are not sealed, so that few draws are lost.
                let drawn: Vec<u32> = (0..choices).filter_map(|_| self.draw_sealed()).collect();
                drawn.into_iter().min_by_key(|block| valid(self, block))
            }
        }
        .filter(|block| valid(self, block) < self.shape.block_units || self.shape.victim_policy == VictimPolicy::Oldest)
    }

    fn sealed_blocks(&self) -> impl Iterator<Item = u32> {
        (0..self.shape.blocks).filter(|block| self.blocks[index(*block)].sealed > 0)
    }

    fn draw_sealed(&mut self) -> Option<u32> {
        (0..self.shape.blocks).find_map(|_| {
            let block = (self.random.unit() * f64::from(self.shape.blocks)) as u32;
            (self.blocks[index(block)].sealed > 0).then_some(block)
        })
    }

    fn left_to_move(&self) -> u32 {
        self.collection.as_ref().map_or(0, |collection| self.blocks[index(collection.victim)].valid)
    }

    /// Moves `units` units of the block that is being collected.
    fn move_units(&mut self, mut units: u32, moved: &mut Vec<UnitMove>) {
        let Some(mut collection) = self.collection.take() else { return };
        while units > 0 {
            units -= match collection.cohorts.pop() {
                Some(start) => self.move_cohort(start, units, &mut collection, moved),
                None => self.move_logged(units, &mut collection, moved),
            };
        }
        self.collection = Some(collection);
    }

    fn move_cohort(
        &mut self,
        start: u64,
        units: u32,
        collection: &mut GarbageCollection,
        moved: &mut Vec<UnitMove>,
    ) -> u32 {
        let block = self.open_block(WriteStream::Moved);
        let to = UnitLocation { block, position: self.blocks[index(block)].written };
        let most = units.min(self.shape.block_units - to.position);
        let (part, rest) = self.cohorts.move_part(start, most, to);
        collection.cohorts.extend(rest);
        let victim = &mut self.blocks[index(collection.victim)];
        assert!(part.units <= victim.valid, "more units leave block {} than are valid in it", collection.victim);
        victim.valid -= part.units;
        self.blocks[index(block)].valid += part.units;
        self.blocks[index(block)].written += part.units;
        self.counts.moved += u64::from(part.units);
        if part.units > 0 {
            moved.push(UnitMove { from: part.from, positions: part.positions, units: part.units, to });
        }
        self.seal_if_full(block);
        part.units
    }

    /// Moves units that were written in this run, in the order of the block's log. Returns how many were moved.
    fn move_logged(&mut self, units: u32, collection: &mut GarbageCollection, moved: &mut Vec<UnitMove>) -> u32 {
        let log = std::mem::take(&mut self.blocks[index(collection.victim)].log);
        let mut found = 0;
        while found < units {
            let LogEntry { position, unit } = log[collection.logged];
            collection.logged += 1;
            let from = UnitLocation { block: collection.victim, position };
            if self.location(unit) != from {
                continue;
            }
            found += 1;
            self.blocks[index(collection.victim)].valid -= 1;
            self.counts.moved += 1;
            let to = self.append(unit, WriteStream::Moved);
            match moved.last_mut().filter(|last| last.is_followed_by(from, to)) {
                Some(last) => {
                    last.positions = position + 1 - last.from.position;
                    last.units += 1;
                }
                None => moved.push(UnitMove { from, positions: 1, units: 1, to }),
            }
        }
        self.blocks[index(collection.victim)].log = log;
        found
    }

    /// Erases the block that has been collected, in which no unit is valid.
    fn finish_collection(&mut self, erased: &mut Vec<u32>) {
        let Some(GarbageCollection { victim, .. }) = self.collection.take() else { return };
        let block = &mut self.blocks[index(victim)];
        assert_eq!(block.valid, 0, "block {victim} is erased with valid units in it");
        *block = EraseBlock { erases: block.erases + 1, ..EraseBlock::default() };
        self.free.push(victim);
        self.counts.erases += 1;
        erased.push(victim);
    }
}

impl UnitMove {
    /// Returns true if a unit follows the last unit of this move, at both locations.
    fn is_followed_by(&self, from: UnitLocation, to: UnitLocation) -> bool {
        self.from.block == from.block
            && self.to.block == to.block
            && self.to.position + self.units == to.position
            && from.position >= self.from.position + self.positions
    }
}

impl TranslationShape {
    /// Returns the least number of blocks of a drive: those of the user's units, two open ones, one to move to, and one
    /// in reserve.
    pub fn blocks_min(units: u64, block_units: u32) -> u32 {
        narrow::<u32, u64>((units.div_ceil(block_units.into()) + 4).min(u32::MAX.into()))
    }
}

#[cfg(test)]
impl TranslationLayer {
    /// Plants a fault in a test: forgets the location of a unit, once garbage collection has moved any. Returns true if
    /// it did.
    pub(crate) fn lose_moved(&mut self) -> bool {
        let lost = (0..narrow::<u32, u64>(self.shape.units)).find(|unit| self.location(*unit) != UnitLocation::NONE);
        let Some(unit) = lost.filter(|_| self.counts.moved > 0) else { return false };
        match self.cohorts.number(unit) {
            Some(number) => self.cohorts.leave(number),
            None => self.overlay.set(unit, UnitLocation::NONE),
        }
        true
    }
}
