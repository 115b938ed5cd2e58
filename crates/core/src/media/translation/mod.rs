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

pub mod blocks;
mod cohorts;
mod map_cache;
mod overlay;
mod placed;
mod placed_drive;
pub mod policy;
mod precondition;
mod run_in;
mod slc;
pub mod stationary;

#[cfg(test)]
mod map_tests;
#[cfg(test)]
mod placed_tests;
#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::config::PolicyName;
use crate::number::{index, narrow};
use crate::random::Random;
use blocks::{Blocks, EraseBlock, LogEntry};
pub use blocks::{UnitLocation, WriteStream};
use cohorts::Cohorts;
use map_cache::{MapCache, MapMiss};
use overlay::Overlay;
use placed::PlacedUnits;
pub use placed::{PlacedCounts, PlacedStreams};
pub use placed_drive::{PlacedDrive, PlacedMove, PlacedStatistics};
use policy::{Policy, PolicySettings};
use slc::SlcCache;
pub use slc::SlcShape;

/// Size and policies of a translation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationShape {
    /// Number of units that the user can write, below 2^32 - 1.
    pub units: u64,
    /// Number of units of a block.
    pub block_units: u32,
    /// Number of blocks, over-provisioning included.
    pub blocks: u32,
    /// Number of units of a block that are programmed together.
    pub line_units: u32,
    /// Policy by which writes are placed and victim blocks are chosen.
    pub policy: PolicyName,
    /// Keys that the policy reads.
    pub settings: PolicySettings,
    /// Part of the mapping table that is in memory; `None` if that holds all of it.
    pub map: Option<MapShape>,
    /// Blocks beside the others that are used with one bit a cell, if there are any.
    pub slc: Option<SlcShape>,
    /// Number of erases by which one block may be ahead of another before the latter is collected however full it is; 0
    /// for no limit.
    pub wear_gap: u32,
    /// Streams among which hosts choose, in place of those of the policy, if they can.
    pub placement: Option<PlacedStreams>,
}

/// Size of a mapping table, of which only a part is in the drive's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// Number of units whose places one page of the table holds.
    pub page_units: u32,
    /// Number of pages in memory.
    pub cached_pages: u32,
}

/// Accesses to flash that looking up a unit needs, on a drive whose memory does not hold all of the mapping table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapAccess {
    /// Location of the page that is read.
    pub read: UnitLocation,
    /// Number of the page that is written because it was replaced; [`TranslationLayer::write_map_page`] does so.
    pub written: Option<u32>,
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
    /// Pages of the mapping table that were read.
    pub map_reads: u64,
    /// Pages of the mapping table that were written.
    pub map_writes: u64,
    /// Units of the user that were written with one bit a cell, which count as written, too.
    pub slc_written: u64,
}

/// Block that is being collected, and the progress of that.
#[derive(Clone, Debug)]
struct GarbageCollection {
    victim: u32,
    /// Stream that takes its valid units.
    stream: WriteStream,
    /// First numbers of cohorts that are still there, the last one first.
    cohorts: Vec<u64>,
    /// Number of log entries that have been examined.
    logged: usize,
}

/// Flash translation layer with the state of all blocks.
#[derive(Clone, Debug)]
pub struct TranslationLayer {
    shape: TranslationShape,
    policy: Policy,
    /// Number of streams of the user, and the place of the first stream of moved units.
    user_streams: u8,
    first_moved: u8,
    /// Number of streams that garbage collection keeps a block for, and of those of the user among them: all, or those that
    /// have been written on drives whose hosts choose streams.
    kept_streams: u32,
    kept_user_streams: u32,
    /// Streams and counters of the units, on drives whose hosts choose streams.
    placed: Option<Box<PlacedUnits>>,
    map: Option<MapCache>,
    slc: Option<SlcCache>,
    blocks: Blocks,
    /// Blocks that are erased and empty.
    free: Vec<u32>,
    /// Open block of each stream: those of the user first.
    open: Vec<Option<u32>>,
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
        assert!(shape.all_units() < u64::from(u32::MAX), "{} units need more than 32 bits", shape.all_units());
        assert!(
            shape.blocks_min() <= shape.blocks,
            "too few blocks for the units and for garbage collection: {shape:?}"
        );
        let (user_streams, _) = shape.user_and_moved();
        let (user_first, moved_first) = Policy::streams(shape.policy);
        let map_streams = u8::from(shape.map.is_some());
        TranslationLayer {
            shape,
            policy: Policy::new(shape.policy, &shape.settings),
            user_streams,
            first_moved: user_streams + map_streams,
            kept_streams: u32::from(user_first) + u32::from(map_streams) + u32::from(moved_first),
            kept_user_streams: u32::from(user_first) + u32::from(map_streams),
            placed: shape.placement.map(|streams| Box::new(PlacedUnits::new(streams))),
            map: shape.map.map(|map| MapCache::new(shape.units, map.page_units, map.cached_pages, false)),
            slc: shape.slc.map(|slc| SlcCache::new(shape.blocks, slc)),
            blocks: match shape.slc {
                Some(slc) => Blocks::new(shape.blocks, shape.block_units, slc.blocks, slc.block_units),
                None => Blocks::new(shape.blocks, shape.block_units, 0, 0),
            },
            free: (0..shape.blocks).rev().collect(),
            open: vec![None; shape.streams()],
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
        let stream = self.stream_of(unit);
        self.write_to(unit, stream)
    }

    /// Writes a unit to the open block of a stream of the user, and returns its new location. The caller has called
    /// [`TranslationLayer::make_room`] before.
    #[inline]
    pub fn write_to(&mut self, unit: u32, stream: u8) -> UnitLocation {
        self.invalidate(unit);
        self.counts.written += 1;
        self.blocks.now += 1;
        if let Some(placed) = &mut self.placed {
            placed.note_write(unit, stream);
        }
        let stream = self.write_stream(stream);
        self.counts.slc_written += u64::from(stream == WriteStream::Slc);
        self.append(unit, stream, self.blocks.now)
    }

    /// Returns the number of the stream that takes the next write of a unit: those of the policy, and then that of blocks
    /// with one bit a cell.
    #[inline]
    pub fn stream_of(&mut self, unit: u32) -> u8 {
        match self.user_streams {
            streams if self.slc.as_ref().is_some_and(SlcCache::has_room) => streams,
            1 => 0,
            // Writes that name no stream have the first one.
            _ if self.placed.is_some() => 0,
            _ => self.policy.user_stream(&self.blocks, self.location(unit)),
        }
    }

    /// Returns the stream of the user with this number.
    #[inline]
    pub fn write_stream(&self, number: u8) -> WriteStream {
        if number < self.user_streams { WriteStream::User(number) } else { WriteStream::Slc }
    }

    /// Looks up the place of a unit in the mapping table; `changes` is true if it gets a new one. Returns the accesses to
    /// flash that this needs.
    #[inline]
    pub fn look_up(&mut self, unit: u32, changes: bool) -> Option<MapAccess> {
        let MapMiss { loaded, written } = self.map.as_mut()?.access(unit, changes, &mut self.policy)?;
        self.counts.map_reads += 1;
        Some(MapAccess { read: self.location(self.map_unit(loaded)), written })
    }

    /// Writes a page of the mapping table, and returns its new location. The caller has called
    /// [`TranslationLayer::make_room`] before.
    pub fn write_map_page(&mut self, page: u32) -> UnitLocation {
        let unit = self.map_unit(page);
        self.invalidate(unit);
        self.counts.map_writes += 1;
        self.append(unit, WriteStream::Map, self.blocks.now)
    }

    /// Returns true if the drive's memory does not hold all of the mapping table.
    #[inline]
    pub fn has_map_cache(&self) -> bool {
        self.map.is_some()
    }

    /// Returns the number of the unit that holds a page of the mapping table: these follow the user's units.
    fn map_unit(&self, page: u32) -> u32 {
        narrow::<u32, u64>(self.shape.units) + page
    }

    /// Notes that a unit has a new place, without an access to the mapping table.
    #[inline]
    fn note_place(&mut self, unit: u32) {
        if let Some(map) = self.map.as_mut().filter(|_| u64::from(unit) < self.shape.units) {
            map.note(unit);
        }
    }

    /// Deallocates a unit.
    pub fn discard(&mut self, unit: u32) {
        self.invalidate(unit);
        self.note_place(unit);
        if self.overlay.get(unit) != UnitLocation::NONE {
            self.overlay.set(unit, UnitLocation::NONE);
        }
    }

    /// Deallocates every unit.
    pub fn discard_all(&mut self) {
        self.cohorts = Cohorts::none();
        self.overlay = Overlay::new();
        self.blocks.all.iter_mut().for_each(|block| block.valid = 0);
        self.collection.iter_mut().for_each(|collection| collection.cohorts.clear());
    }

    /// Leaves up to `positions` of the stream's open block empty, at most up to its end.
    pub fn skip(&mut self, stream: WriteStream, positions: u32) {
        let Some(block) = self.open_of(stream) else { return };
        let capacity = self.blocks.capacity(block);
        let this = &mut self.blocks.all[index(block)];
        let skipped = positions.min(capacity - this.written);
        this.written += skipped;
        this.written_at_sum += u64::from(skipped) * self.blocks.now;
        self.counts.skipped += u64::from(skipped);
        if let (Some(placed), WriteStream::User(stream)) = (&mut self.placed, stream) {
            placed.note_skip(stream, skipped);
        }
        self.seal_if_full(block);
    }

    /// Returns the free positions of a stream's open block; 0 if it would begin another.
    pub fn room(&self, stream: WriteStream) -> u32 {
        let written = |block| self.blocks.all[index(block)].written;
        self.open_of(stream).map_or(0, |block| self.blocks.capacity(block) - written(block))
    }

    /// Collects as much garbage as the next `units` of the user need, in even steps. Adds the moves to `moved`, and the
    /// erased blocks to `erased`.
    ///
    /// Space for one block of each stream is kept in reserve, two with one stream of the user and one of moved units. A
    /// victim block needs space for its valid units and yields the rest to the user, together one block. The others are
    /// more than what the open blocks of all but one stream can hold, so that each finds a block whenever it needs one.
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

    /// Collects garbage while the drive is idle, until `blocks` erased blocks more than the reserve are there: moves up to
    /// `units` units. Adds the moves to `moved`, and the erased blocks to `erased`. Returns false if there is nothing to do.
    pub fn collect_ahead(&mut self, units: u32, blocks: u32, moved: &mut Vec<UnitMove>, erased: &mut Vec<u32>) -> bool {
        let goal = self.reserve() + u64::from(blocks) * u64::from(self.shape.block_units);
        if self.collection.is_none() && (self.room_in_all() >= goal || !self.start_collection()) {
            return false;
        }
        self.move_units(units.min(self.left_to_move()), moved);
        if self.left_to_move() == 0 {
            self.finish_collection(erased);
        }
        true
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
        self.blocks.most_and_all_erases()
    }

    /// Returns the number of valid units of each full block.
    pub fn valid_units(&self) -> Vec<u32> {
        self.blocks.full().map(|block| self.blocks.valid(block)).collect()
    }

    /// Returns a description of the first error in the mapping; `None` if there is none. No two units may be at one
    /// location, and each block must know how many valid units it holds. The check looks at all units, and so is for
    /// small drives.
    pub fn inconsistency(&self) -> Option<String> {
        let mut held = vec![0; self.blocks.all.len()];
        let mut places = BTreeSet::new();
        for unit in 0..narrow::<u32, u64>(self.shape.all_units()) {
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
            self.blocks.all.iter().zip(held).position(|(block, held)| held != block.valid || held > block.written)?;
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
            let block = &mut self.blocks.all[index(place.block)];
            assert!(block.valid > 0, "block {} has no valid unit, but unit {unit} is mapped to it", place.block);
            block.valid -= 1;
        }
    }

    /// Appends a unit, which the user wrote at `written_at`, to the open block of a stream.
    #[inline]
    fn append(&mut self, unit: u32, stream: WriteStream, written_at: u64) -> UnitLocation {
        let block = self.open_block(stream);
        let capacity = self.blocks.capacity(block);
        let this = &mut self.blocks.all[index(block)];
        assert!(this.written < capacity, "a unit is written to block {block}, which is full");
        let place = UnitLocation { block, position: this.written };
        this.log.push(LogEntry { position: this.written, unit });
        this.written += 1;
        this.valid += 1;
        this.written_at_sum += written_at;
        self.overlay.set(unit, place);
        self.seal_if_full(block);
        place
    }

    /// Returns the open block of a stream; opens a new one if there is none.
    fn open_block(&mut self, stream: WriteStream) -> u32 {
        if stream == WriteStream::Slc {
            return self.slc.as_mut().expect("a drive with blocks of one bit a cell").open();
        }
        let place = self.place_of(stream);
        match self.open[place] {
            Some(block) => block,
            None => {
                assert!(!self.free.is_empty(), "garbage collection keeps a block free");
                let next = self.policy.next_block(&self.blocks, &self.free, stream);
                let block = self.free.swap_remove(next);
                let opened = &mut self.blocks.all[index(block)];
                opened.stream = narrow::<u8, usize>(place);
                opened.log.reserve_exact(index(self.shape.block_units));
                self.open[place] = Some(block);
                block
            }
        }
    }

    /// Returns the open block of a stream, if it has one.
    #[inline]
    fn open_of(&self, stream: WriteStream) -> Option<u32> {
        match &self.slc {
            Some(slc) if stream == WriteStream::Slc => slc.open,
            _ => self.open[self.place_of(stream)],
        }
    }

    /// Returns the place of a stream among the open blocks.
    #[inline]
    fn place_of(&self, stream: WriteStream) -> usize {
        match stream {
            WriteStream::User(stream) => stream.into(),
            WriteStream::Slc | WriteStream::Map => self.user_streams.into(),
            WriteStream::Moved(stream) => (self.first_moved + stream).into(),
        }
    }

    #[inline]
    fn seal_if_full(&mut self, block: u32) {
        if self.blocks.all[index(block)].written == self.blocks.capacity(block) {
            self.sealed += 1;
            self.blocks.all[index(block)].sealed = self.sealed;
            self.slc.iter_mut().for_each(|slc| slc.seal(block));
            self.open.iter_mut().filter(|open| **open == Some(block)).for_each(|open| *open = None);
        }
    }

    /// Returns the number of units that can be written before a block has to be erased.
    fn room_in_all(&self) -> u64 {
        let free = u64::from(self.shape.block_units) * self.free.len() as u64;
        let open = self.open.iter().flatten().map(|block| self.blocks.all[index(*block)].written);
        open.map(|written| u64::from(self.shape.block_units - written)).sum::<u64>() + free
    }

    /// Returns the number of units of room that garbage collection keeps in reserve.
    fn reserve(&self) -> u64 {
        // Lines that other streams have begun were made room for, and take it later.
        let begun = u64::from(self.kept_user_streams - 1) * u64::from(self.shape.line_units);
        u64::from(self.kept_streams) * u64::from(self.shape.block_units) + begun
    }

    /// Returns the number of units that the user can write until `left` units have been moved, so that the reserve is
    /// there again when their block has been erased.
    fn room_until_collected(&self, left: u32) -> u64 {
        (self.room_in_all() + u64::from(self.shape.block_units)).saturating_sub(u64::from(left) + self.reserve())
    }

    /// Chooses a block to collect, if the reserve has been reached.
    fn begin_collection(&mut self) -> bool {
        self.room_in_all() <= self.reserve() && self.start_collection()
    }

    /// Chooses a block to collect.
    fn start_collection(&mut self) -> bool {
        let Some(victim) = self.least_worn_block().or_else(|| self.policy.victim(&self.blocks, &mut self.random))
        else {
            return false;
        };
        assert!(self.blocks.is_full(victim), "block {victim} is to be collected, but is not full");
        let stream = WriteStream::Moved(match &self.placed {
            Some(placed) => placed.streams().moved_stream(self.blocks.stream(victim), self.first_moved),
            None => self.policy.moved_stream(&self.blocks, victim),
        });
        let mut cohorts = self.cohorts.starts_in_block(victim);
        cohorts.reverse();
        self.collection = Some(GarbageCollection { victim, stream, cohorts, logged: 0 });
        true
    }

    /// Returns the block that has been erased less than others by more than is allowed: its units are written so seldom
    /// that only moving them gives its cells their share of wear.
    fn least_worn_block(&self) -> Option<u32> {
        if self.shape.wear_gap == 0 {
            return None;
        }
        let most = (0..self.shape.blocks).map(|block| self.blocks.erases(block)).max()?;
        let least = self.blocks.full().min_by_key(|block| self.blocks.erases(*block))?;
        (most - self.blocks.erases(least) > self.shape.wear_gap).then_some(least)
    }

    fn left_to_move(&self) -> u32 {
        self.collection.as_ref().map_or(0, |collection| self.blocks.all[index(collection.victim)].valid)
    }

    /// Moves `units` units of the block that is being collected.
    fn move_units(&mut self, units: u32, moved: &mut Vec<UnitMove>) {
        let Some(mut collection) = self.collection.take() else { return };
        self.move_from(&mut collection, units, moved);
        self.collection = Some(collection);
    }

    /// Moves `units` units of a block.
    fn move_from(&mut self, collection: &mut GarbageCollection, mut units: u32, moved: &mut Vec<UnitMove>) {
        while units > 0 {
            units -= match collection.cohorts.pop() {
                Some(start) => self.move_cohort(start, units, collection, moved),
                None => self.move_logged(units, collection, moved),
            };
        }
    }

    fn move_cohort(
        &mut self,
        start: u64,
        units: u32,
        collection: &mut GarbageCollection,
        moved: &mut Vec<UnitMove>,
    ) -> u32 {
        let block = self.open_block(collection.stream);
        let to = UnitLocation { block, position: self.blocks.all[index(block)].written };
        let most = units.min(self.shape.block_units - to.position);
        let (part, rest) = self.cohorts.move_part(start, most, to);
        if self.map.is_some() {
            for number in start..part.until {
                if let Some(unit) = self.cohorts.unit(number) {
                    self.note_place(unit);
                }
            }
        }
        collection.cohorts.extend(rest);
        let written_at = self.blocks.written_at(collection.victim) as u64;
        let victim = &mut self.blocks.all[index(collection.victim)];
        assert!(part.units <= victim.valid, "more units leave block {} than are valid in it", collection.victim);
        victim.valid -= part.units;
        let target = &mut self.blocks.all[index(block)];
        target.valid += part.units;
        target.written += part.units;
        target.written_at_sum += u64::from(part.units) * written_at;
        self.counts.moved += u64::from(part.units);
        if let Some(placed) = &mut self.placed {
            placed.note_moves_of_first(part.units);
        }
        if part.units > 0 {
            moved.push(UnitMove { from: part.from, positions: part.positions, units: part.units, to });
        }
        self.seal_if_full(block);
        part.units
    }

    /// Moves units that were written in this run, in the order of the block's log. Returns how many were moved.
    fn move_logged(&mut self, units: u32, collection: &mut GarbageCollection, moved: &mut Vec<UnitMove>) -> u32 {
        let written_at = self.blocks.written_at(collection.victim) as u64;
        let log = std::mem::take(&mut self.blocks.all[index(collection.victim)].log);
        let mut found = 0;
        while found < units {
            let LogEntry { position, unit } = log[collection.logged];
            collection.logged += 1;
            let from = UnitLocation { block: collection.victim, position };
            if self.location(unit) != from {
                continue;
            }
            found += 1;
            self.blocks.all[index(collection.victim)].valid -= 1;
            self.counts.moved += 1;
            if let Some(placed) = &mut self.placed {
                placed.note_move(unit);
            }
            let to = self.append(unit, collection.stream, written_at);
            self.note_place(unit);
            match moved.last_mut().filter(|last| last.is_followed_by(from, to)) {
                Some(last) => {
                    last.positions = position + 1 - last.from.position;
                    last.units += 1;
                }
                None => moved.push(UnitMove { from, positions: 1, units: 1, to }),
            }
        }
        self.blocks.all[index(collection.victim)].log = log;
        found
    }

    /// Erases the block that has been collected, in which no unit is valid.
    fn finish_collection(&mut self, erased: &mut Vec<u32>) {
        let Some(GarbageCollection { victim, .. }) = self.collection.take() else { return };
        self.erase(victim);
        self.free.push(victim);
        self.counts.erases += 1;
        erased.push(victim);
    }

    /// Erases a block in which no unit is valid.
    fn erase(&mut self, victim: u32) {
        let block = &mut self.blocks.all[index(victim)];
        assert_eq!(block.valid, 0, "block {victim} is erased with valid units in it");
        let (erases, erased_before) = (block.erases + 1, block.erased_before);
        // The memory of the log is that of the next units written here.
        let mut log = std::mem::take(&mut block.log);
        log.clear();
        *block = EraseBlock { erases, erased_before, log, ..EraseBlock::default() };
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
    /// Returns the least number of blocks of a drive: those of the user's units, an open one and one to move to for each
    /// stream.
    pub fn blocks_min(&self) -> u32 {
        let user = self.all_units().div_ceil(self.block_units.into());
        narrow::<u32, u64>((user + 2 * self.streams() as u64).min(u32::MAX.into()))
    }

    /// Returns the number of streams, each with an open block: those of the user, of map pages, and
    /// of moved units.
    pub fn streams(&self) -> usize {
        let (user, moved) = self.user_and_moved();
        usize::from(user) + usize::from(self.map.is_some()) + usize::from(moved)
    }

    /// Returns the number of streams of the user and of moved units.
    fn user_and_moved(&self) -> (u8, u8) {
        self.placement.map_or(Policy::streams(self.policy), |streams| (streams.user(), streams.moved()))
    }

    /// Returns the number of streams that a drive has used on which no host has chosen any.
    pub(super) fn streams_at_first(&self) -> u32 {
        let (user, moved) = Policy::streams(self.policy);
        u32::from(user) + u32::from(self.map.is_some()) + u32::from(moved)
    }

    /// Returns the number of units that the layer maps: those of the user and the pages of a mapping table that is not
    /// in memory as a whole.
    pub fn all_units(&self) -> u64 {
        self.units + self.map.map_or(0, |map| self.units.div_ceil(map.page_units.into()))
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
