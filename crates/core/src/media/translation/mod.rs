//! The translation layer of a flash drive: where each unit of the user's addresses is, and how room is made for more.
//!
//! Cells are erased by the block and written in order, so that a unit that is written again goes somewhere else, and what
//! it leaves behind is cleaned up later: the units of a block that are still valid move to another, and the block is
//! erased. Owes its callers places, and what moves. Knows no time: [`super::flash`] does what it decides.
//!
//! What the user writes and what is moved go to blocks of their own: what has outlived its block will mostly outlive the
//! next, and does not keep those from becoming empty that are written often. What was on the drive before the run is in [`cohorts`], what has been written since in [`overlay`]; [`stationary`] says how full
//! blocks are in the steady state, so that a drive begins in it at once.

mod cohorts;
mod overlay;
mod precondition;
pub mod stationary;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::random::Random;
use cohorts::Cohorts;
use overlay::Overlay;
use stationary::Choice;

/// A place for one unit: a block, and which of its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub block: u32,
    pub position: u32,
}

impl Place {
    /// Of a unit that is nowhere.
    pub const NONE: Place = Place { block: u32::MAX, position: u32::MAX };
}

/// What a translation layer is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Units that the user can write, below 2^32 - 1.
    pub units: u64,
    pub block_units: u32,
    pub blocks: u32,
    /// Units of a block that are programmed together.
    pub line_units: u32,
    pub choice: Choice,
    /// Erases that one block may be ahead of another, before that is cleaned however full; 0 for any number.
    pub wear_gap: u32,
}

/// What a write goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    User,
    Moved,
}

/// Units that cleaning has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where the first was, and the positions over which they were spread.
    pub from: Place,
    pub positions: u32,
    pub units: u32,
    /// Where the first is now; the others follow it.
    pub to: Place,
}

/// What has been counted, in units and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub written: u64,
    pub moved: u64,
    /// Positions that were left empty since somebody did not wait for more.
    pub skipped: u64,
    pub erases: u64,
}

#[derive(Clone, Debug, Default)]
struct Block {
    valid: u32,
    /// Positions that have been written.
    written: u32,
    erases: u32,
    /// When it was full, in the order of such events; 0 as long as it is not.
    sealed: u64,
    /// What was written in this run, by position.
    log: Vec<Logged>,
}

#[derive(Clone, Copy, Debug)]
struct Logged {
    position: u32,
    unit: u32,
}

/// The block that is being cleaned.
#[derive(Clone, Debug)]
struct Cleaning {
    victim: u32,
    /// First numbers of cohorts that are still there, the last one first.
    cohorts: Vec<u64>,
    /// How far its log has been looked through.
    logged: usize,
}

/// The translation layer.
#[derive(Clone, Debug)]
pub struct Translation {
    shape: Shape,
    blocks: Vec<Block>,
    /// Blocks that are erased and not begun.
    free: Vec<u32>,
    /// Blocks that are being written, of each stream.
    open: [Option<u32>; 2],
    cleaning: Option<Cleaning>,
    cohorts: Cohorts,
    overlay: Overlay,
    random: Random,
    sealed: u64,
    counts: Counts,
}

impl Translation {
    /// A drive on which nothing has ever been written.
    ///
    /// # Panics
    /// If there is less room than the user's units and the blocks that are being written take.
    pub fn new(shape: Shape, seed: u64) -> Translation {
        assert!(shape.units < u64::from(u32::MAX), "a unit's number has 32 bits");
        assert!(Shape::blocks_min(shape.units, shape.block_units) <= shape.blocks, "{shape:?} leaves no room to move");
        Translation {
            shape,
            blocks: vec![Block::default(); shape.blocks as usize],
            free: (0..shape.blocks).rev().collect(),
            open: [None, None],
            cleaning: None,
            cohorts: Cohorts::none(),
            overlay: Overlay::new(),
            random: Random::stream(seed, "blocks to clean"),
            sealed: 0,
            counts: Counts::default(),
        }
    }

    /// Where a unit is; nowhere if it has not been written, or has been given back.
    #[inline]
    pub fn place(&self, unit: u32) -> Place {
        match self.cohorts.number(unit) {
            Some(number) => self.cohorts.place(number),
            None => self.overlay.get(unit),
        }
    }

    /// The user writes a unit: where it goes. [`Translation::make_room`] must have been called.
    #[inline]
    pub fn write(&mut self, unit: u32) -> Place {
        self.invalidate(unit);
        self.counts.written += 1;
        self.append(unit, Stream::User)
    }

    /// The user gives a unit back.
    pub fn discard(&mut self, unit: u32) {
        self.invalidate(unit);
        if self.overlay.get(unit) != Place::NONE {
            self.overlay.set(unit, Place::NONE);
        }
    }

    /// The user gives everything back.
    pub fn discard_all(&mut self) {
        self.cohorts = Cohorts::none();
        self.overlay = Overlay::new();
        self.blocks.iter_mut().for_each(|block| block.valid = 0);
        self.cleaning.iter_mut().for_each(|cleaning| cleaning.cohorts.clear());
    }

    /// Leave the rest of `positions` of the stream's block empty, up to its end at most.
    pub fn skip(&mut self, stream: Stream, positions: u32) {
        let Some(block) = self.open[stream as usize] else { return };
        let skipped = positions.min(self.shape.block_units - self.blocks[block as usize].written);
        self.blocks[block as usize].written += skipped;
        self.counts.skipped += u64::from(skipped);
        self.seal_if_full(block);
    }

    /// Room in the block that a stream is writing to; none if it would begin another.
    pub fn room(&self, stream: Stream) -> u32 {
        self.open[stream as usize].map_or(0, |block| self.shape.block_units - self.blocks[block as usize].written)
    }

    /// Clean as much as the next `units` of the user need, in even steps: `moved` gets what was moved, `erased` the blocks
    /// that were erased.
    ///
    /// Room for two blocks is kept. A block that is cleaned takes as much for what is still valid and leaves the rest to the
    /// user, together one block: with another in reserve, both streams find a block whenever they need one.
    pub fn make_room(&mut self, units: u32, moved: &mut Vec<Move>, erased: &mut Vec<u32>) {
        while self.cleaning.is_some() || self.begin_cleaning() {
            let left = self.left_to_move();
            let share = match self.room_until_clean(left) {
                room if room <= u64::from(units) => left,
                room => (u64::from(left) * u64::from(units)).div_ceil(room).min(left.into()) as u32,
            };
            self.move_units(share, moved);
            if self.left_to_move() > 0 {
                return;
            }
            self.finish_cleaning(erased);
        }
    }

    /// What has been counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What it is made of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Erases of the block with most, and of all together.
    pub fn erases(&self) -> (u32, u64) {
        let erases = self.blocks.iter().map(|block| block.erases);
        (erases.clone().max().unwrap_or(0), erases.map(u64::from).sum())
    }

    /// Valid units of the blocks that are full.
    pub fn valid_units(&self) -> Vec<u32> {
        self.blocks.iter().filter(|block| block.sealed > 0).map(|block| block.valid).collect()
    }

    /// What is wrong with its own account, if anything is: no two units may be in one place, and blocks have to know how
    /// many they hold. It looks at all units, and so is for small drives.
    pub fn inconsistency(&self) -> Option<String> {
        let mut held = vec![0; self.blocks.len()];
        let mut places = BTreeSet::new();
        for unit in 0..self.shape.units as u32 {
            let place = self.place(unit);
            if place == Place::NONE {
                continue;
            }
            held[place.block as usize] += 1;
            // Units of a cohort are spread over their positions, and share the first.
            if self.cohorts.number(unit).is_none() && !places.insert((place.block, place.position)) {
                return Some(format!(
                    "unit {unit} is where another is: position {} of block {}",
                    place.position, place.block
                ));
            }
        }
        let wrong =
            self.blocks.iter().zip(held).position(|(block, held)| held != block.valid || held > block.written)?;
        Some(format!("block {wrong} does not know how many units it holds"))
    }

    #[inline]
    fn invalidate(&mut self, unit: u32) {
        let place = match self.cohorts.number(unit) {
            Some(number) => {
                self.cohorts.leave(number);
                self.cohorts.place(number)
            }
            None => self.overlay.get(unit),
        };
        if place != Place::NONE {
            self.blocks[place.block as usize].valid -= 1;
        }
    }

    #[inline]
    fn append(&mut self, unit: u32, stream: Stream) -> Place {
        let block = self.writable(stream);
        let this = &mut self.blocks[block as usize];
        let place = Place { block, position: this.written };
        this.log.push(Logged { position: this.written, unit });
        this.written += 1;
        this.valid += 1;
        self.overlay.set(unit, place);
        self.seal_if_full(block);
        place
    }

    /// The block to which a stream writes next, which has room.
    fn writable(&mut self, stream: Stream) -> u32 {
        match self.open[stream as usize] {
            Some(block) => block,
            None => {
                // The one that has been erased least, so that all are in turn.
                let least = (0..self.free.len()).min_by_key(|place| self.blocks[self.free[*place] as usize].erases);
                let block = self.free.swap_remove(least.expect("cleaning keeps a block free"));
                self.open[stream as usize] = Some(block);
                block
            }
        }
    }

    #[inline]
    fn seal_if_full(&mut self, block: u32) {
        if self.blocks[block as usize].written == self.shape.block_units {
            self.sealed += 1;
            self.blocks[block as usize].sealed = self.sealed;
            self.open.iter_mut().filter(|open| **open == Some(block)).for_each(|open| *open = None);
        }
    }

    /// Units that can be written before a block has to be erased.
    fn room_in_all(&self) -> u64 {
        let free = u64::from(self.shape.block_units) * self.free.len() as u64;
        u64::from(self.room(Stream::User)) + u64::from(self.room(Stream::Moved)) + free
    }

    /// What is kept of that.
    fn reserve(&self) -> u64 {
        2 * u64::from(self.shape.block_units)
    }

    /// Units that the user can write until `left` have been moved, so that the reserve is there again when their block has
    /// been erased.
    fn room_until_clean(&self, left: u32) -> u64 {
        (self.room_in_all() + u64::from(self.shape.block_units)).saturating_sub(u64::from(left) + self.reserve())
    }

    /// Choose a block to clean, if it is time to.
    fn begin_cleaning(&mut self) -> bool {
        if self.room_in_all() > self.reserve() {
            return false;
        }
        let Some(victim) = self.worn_least().or_else(|| self.victim()) else { return false };
        let mut cohorts = self.cohorts.of_block(victim);
        cohorts.reverse();
        self.cleaning = Some(Cleaning { victim, cohorts, logged: 0 });
        true
    }

    /// The block that lags behind in wear by more than is allowed: what is in it is written so seldom that only moving it
    /// gives its cells their share.
    fn worn_least(&self) -> Option<u32> {
        if self.shape.wear_gap == 0 {
            return None;
        }
        let most = self.blocks.iter().map(|block| block.erases).max()?;
        let least = self.sealed_blocks().min_by_key(|block| self.blocks[*block as usize].erases)?;
        (most - self.blocks[least as usize].erases > self.shape.wear_gap).then_some(least)
    }

    fn victim(&mut self) -> Option<u32> {
        let valid = |this: &Translation, block: &u32| this.blocks[*block as usize].valid;
        match self.shape.choice {
            Choice::Oldest => self.sealed_blocks().min_by_key(|block| self.blocks[*block as usize].sealed),
            Choice::Emptiest => self.sealed_blocks().min_by_key(|block| valid(self, block)),
            Choice::EmptiestOf(choices) => {
                // A full drive has few blocks that are not sealed, so that few draws are lost.
                let drawn: Vec<u32> = (0..choices).filter_map(|_| self.draw_sealed()).collect();
                drawn.into_iter().min_by_key(|block| valid(self, block))
            }
        }
        .filter(|block| valid(self, block) < self.shape.block_units || self.shape.choice == Choice::Oldest)
    }

    fn sealed_blocks(&self) -> impl Iterator<Item = u32> {
        (0..self.shape.blocks).filter(|block| self.blocks[*block as usize].sealed > 0)
    }

    fn draw_sealed(&mut self) -> Option<u32> {
        (0..self.shape.blocks).find_map(|_| {
            let block = (self.random.unit() * f64::from(self.shape.blocks)) as u32;
            (self.blocks[block as usize].sealed > 0).then_some(block)
        })
    }

    fn left_to_move(&self) -> u32 {
        self.cleaning.as_ref().map_or(0, |cleaning| self.blocks[cleaning.victim as usize].valid)
    }

    /// Move so many units of the block that is being cleaned.
    fn move_units(&mut self, mut units: u32, moved: &mut Vec<Move>) {
        let Some(mut cleaning) = self.cleaning.take() else { return };
        while units > 0 {
            units -= match cleaning.cohorts.pop() {
                Some(start) => self.move_cohort(start, units, &mut cleaning, moved),
                None => self.move_logged(units, &mut cleaning, moved),
            };
        }
        self.cleaning = Some(cleaning);
    }

    fn move_cohort(&mut self, start: u64, units: u32, cleaning: &mut Cleaning, moved: &mut Vec<Move>) -> u32 {
        let block = self.writable(Stream::Moved);
        let to = Place { block, position: self.blocks[block as usize].written };
        let most = units.min(self.shape.block_units - to.position);
        let (part, rest) = self.cohorts.move_part(start, most, to);
        cleaning.cohorts.extend(rest);
        self.blocks[cleaning.victim as usize].valid -= part.units;
        self.blocks[block as usize].valid += part.units;
        self.blocks[block as usize].written += part.units;
        self.counts.moved += u64::from(part.units);
        if part.units > 0 {
            moved.push(Move { from: part.from, positions: part.positions, units: part.units, to });
        }
        self.seal_if_full(block);
        part.units
    }

    /// Move units that were written in this run, looking through the log of the block.
    fn move_logged(&mut self, units: u32, cleaning: &mut Cleaning, moved: &mut Vec<Move>) -> u32 {
        let log = std::mem::take(&mut self.blocks[cleaning.victim as usize].log);
        let mut found = 0;
        while found < units {
            let Logged { position, unit } = log[cleaning.logged];
            cleaning.logged += 1;
            let from = Place { block: cleaning.victim, position };
            if self.place(unit) != from {
                continue;
            }
            found += 1;
            self.blocks[cleaning.victim as usize].valid -= 1;
            self.counts.moved += 1;
            let to = self.append(unit, Stream::Moved);
            match moved.last_mut().filter(|last| last.is_followed_by(from, to)) {
                Some(last) => {
                    last.positions = position + 1 - last.from.position;
                    last.units += 1;
                }
                None => moved.push(Move { from, positions: 1, units: 1, to }),
            }
        }
        self.blocks[cleaning.victim as usize].log = log;
        found
    }

    /// Nothing in the block is valid: erase it.
    fn finish_cleaning(&mut self, erased: &mut Vec<u32>) {
        let Some(Cleaning { victim, .. }) = self.cleaning.take() else { return };
        let block = &mut self.blocks[victim as usize];
        assert_eq!(block.valid, 0, "a block is erased with units in it");
        *block = Block { erases: block.erases + 1, ..Block::default() };
        self.free.push(victim);
        self.counts.erases += 1;
        erased.push(victim);
    }
}

impl Move {
    /// Whether a unit follows the last one, here and there.
    fn is_followed_by(&self, from: Place, to: Place) -> bool {
        self.from.block == from.block
            && self.to.block == to.block
            && self.to.position + self.units == to.position
            && from.position >= self.from.position + self.positions
    }
}

impl Shape {
    /// Blocks that a drive needs at least: the user's units, the two that are being written, and one to move to.
    pub fn blocks_min(units: u64, block_units: u32) -> u32 {
        (units.div_ceil(block_units.into()) + 4).min(u32::MAX.into()) as u32
    }
}

#[cfg(test)]
impl Translation {
    /// Plant a fault: forget where a unit is, once cleaning has moved any. Whether it has been done.
    pub(crate) fn lose_moved(&mut self) -> bool {
        let lost = (0..self.shape.units as u32).find(|unit| self.place(*unit) != Place::NONE);
        let Some(unit) = lost.filter(|_| self.counts.moved > 0) else { return false };
        match self.cohorts.number(unit) {
            Some(number) => self.cohorts.leave(number),
            None => self.overlay.set(unit, Place::NONE),
        }
        true
    }
}
