//! Flash translation layer (FTL): maps logical units to physical locations, and collects garbage.
//!
//! Cells are erased by the block and written in order. A unit that is written again therefore goes to a new location,
//! and its old location becomes invalid. Garbage collection makes room: it moves the units of a victim block that are
//! still valid to another block, and erases the victim. The layer decides on locations and moves, and knows no time.
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

use crate::config::TranslationPolicyName;
use crate::number::{index, length, narrow, whole};
use crate::random::Random;
use blocks::{BlockLogEntry, Blocks, EraseBlockState};
pub use blocks::{FlashUnitLocation, FlashWriteStream};
use cohorts::UnitCohorts;
use map_cache::{MapCache, MapCacheMiss};
use overlay::ChangedLocations;
use placed::UnitStreamRecord;
pub use placed::{HostStreams, StreamUnitCounts};
pub use placed_drive::{CollectedMove, PlacedStatistics, UntimedPlacedDrive};
use policy::{Policy, TranslationPolicySettings};
use slc::SlcCache;
pub use slc::SlcCacheShape;

/// Size and policies of a translation layer: mapping units, blocks, streams, map cache and SLC cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationShape {
    /// Number of mapping units that the user can write, below 2^32 - 1.
    pub units: u64,
    /// Number of mapping units, from the first one on, that are on a preconditioned drive.
    pub used_units: u64,
    /// Number of mapping units in each ordinary (not SLC) block.
    pub block_units: u32,
    /// Number of ordinary (not SLC) blocks, over-provisioning included.
    pub blocks: u32,
    /// Number of mapping units in a line of a block: a line is programmed together.
    pub line_units: u32,
    /// Translation policy: places writes in streams and chooses the victim blocks of garbage collection.
    pub policy: TranslationPolicyName,
    /// Settings of the translation policy from the drive's configuration.
    pub settings: TranslationPolicySettings,
    /// Size of the mapping table and of its cache; `None` if the drive's memory holds the whole table.
    pub map: Option<MapTableShape>,
    /// Blocks beside the ordinary ones that form the SLC cache; `None` if there is no such cache.
    pub slc: Option<SlcCacheShape>,
    /// Number of erases by which a block may lag behind the most erased one before it is collected, however full it is;
    /// 0 for no limit.
    pub wear_gap: u32,
    /// Streams that hosts choose, which replace the streams of the policy; `None` if hosts cannot choose.
    pub placement: Option<HostStreams>,
}

/// Size of a mapping table that the drive's memory holds only in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapTableShape {
    /// Number of mapping units whose locations one page of the mapping table holds.
    pub page_units: u32,
    /// Number of mapping table pages in the drive's memory.
    pub cached_pages: u32,
}

/// Accesses to flash that the lookup of a mapping unit causes because its page of the mapping table is not in the
/// drive's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapPageAccess {
    /// Location from which the page of the mapping table is read; [`FlashUnitLocation::NONE`] if it has never been written.
    pub read: FlashUnitLocation,
    /// Number of the changed page that has left the cache and is to be written with
    /// [`TranslationLayer::write_map_page`]; `None` if the page that left had not changed.
    pub written: Option<u32>,
}

/// Run of valid mapping units that garbage collection has moved from one block to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedUnitRun {
    /// Location in the old block of the first mapping unit that was moved.
    pub from: FlashUnitLocation,
    /// Number of positions of the old block over which the mapping units were spread, invalid ones between them
    /// included.
    pub positions: u32,
    /// Number of mapping units that were moved.
    pub units: u32,
    /// New location of the first mapping unit that was moved; the other units follow it without gaps.
    pub to: FlashUnitLocation,
}

/// Counters of the translation layer since the start of the run, in mapping units, blocks and map pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranslationCounts {
    /// Number of mapping units that the user has written.
    pub written: u64,
    /// Number of mapping units that garbage collection has moved.
    pub moved: u64,
    /// Number of positions in blocks that were left empty because a flush did not wait for more mapping units.
    pub skipped: u64,
    /// Number of blocks that garbage collection has erased, SLC blocks not counted.
    pub erases: u64,
    /// Number of mapping table pages that lookups have loaded into the drive's memory.
    pub map_reads: u64,
    /// Number of mapping table pages that were written to flash.
    pub map_writes: u64,
    /// Number of user units that were written to the SLC cache. They also count as written.
    pub slc_written: u64,
}

/// Garbage collection in progress: the victim block, and how far its valid mapping units have been moved.
#[derive(Clone, Debug)]
struct CollectionProgress {
    victim: u32,
    /// Stream that receives the valid mapping units of the victim block.
    stream: FlashWriteStream,
    /// Number of the first unit of each cohort (range of mapping units from before the run) that is still in the victim
    /// block, in descending order of positions.
    cohorts: Vec<u64>,
    /// Number of entries that have been examined in the victim's log, which lists the mapping units written to it in
    /// this run.
    logged: usize,
}

/// Flash translation layer: locations of all mapping units, streams, garbage collection, and the state of all blocks.
#[derive(Clone, Debug)]
pub struct TranslationLayer {
    shape: TranslationShape,
    policy: Policy,
    /// Number of streams of user writes, the SLC cache not counted.
    user_streams: u8,
    /// Index, in the list of open blocks, of the first stream for units that garbage collection moves.
    first_moved: u8,
    /// Number of streams, of all kinds, for which garbage collection keeps a block in reserve. If hosts choose streams,
    /// only streams that have been written count.
    kept_streams: u32,
    /// Number of streams of user writes and of map pages for which garbage collection keeps a block in reserve.
    kept_user_streams: u32,
    /// Streams that hosts choose, with the stream of each mapping unit and counters; `None` if hosts cannot choose.
    placed: Option<Box<UnitStreamRecord>>,
    map: Option<MapCache>,
    slc: Option<SlcCache>,
    blocks: Blocks,
    /// Numbers of the ordinary (not SLC) flash blocks that are erased and empty.
    free: Vec<u32>,
    /// Open block of each stream: user streams first, then the stream of map pages if there is one, then streams of
    /// moved units.
    open: Vec<Option<u32>>,
    collection: Option<CollectionProgress>,
    cohorts: UnitCohorts,
    overlay: ChangedLocations,
    random: Random,
    /// Number of times that a block has been filled up, which gives full blocks their order.
    sealed: u64,
    counts: TranslationCounts,
}

impl TranslationLayer {
    /// Creates the translation layer of a drive on which nothing has ever been written.
    ///
    /// # Panics
    /// If there are not enough blocks for the user's units and the open blocks, or if the units need more than 32 bits.
    pub fn new(shape: TranslationShape, seed: u64) -> TranslationLayer {
        assert!(
            shape.all_mapped_units() < u64::from(u32::MAX),
            "{} units need more than 32 bits",
            shape.all_mapped_units()
        );
        assert!(
            shape.blocks_min() <= shape.blocks,
            "too few blocks for the units and for garbage collection: {shape:?}"
        );
        let (user_streams, _) = shape.user_and_moved_streams();
        let (user_first, moved_first) = Policy::streams(shape.policy);
        let map_streams = u8::from(shape.map.is_some());
        TranslationLayer {
            shape,
            policy: Policy::new(shape.policy, &shape.settings),
            user_streams,
            first_moved: user_streams + map_streams,
            kept_streams: u32::from(user_first) + u32::from(map_streams) + u32::from(moved_first),
            kept_user_streams: u32::from(user_first) + u32::from(map_streams),
            placed: shape.placement.map(|streams| {
                let (open_units, shares_reserve) = (shape.open_units_of_group(), shape.shares_reserve());
                Box::new(UnitStreamRecord::new(streams, open_units, shares_reserve))
            }),
            map: shape.map.map(|map| MapCache::new(shape.units, map.page_units, map.cached_pages, false)),
            slc: shape.slc.map(|slc| SlcCache::new(shape.blocks, slc)),
            blocks: match shape.slc {
                Some(slc) => Blocks::new(shape.blocks, shape.block_units, slc.blocks, slc.block_units),
                None => Blocks::new(shape.blocks, shape.block_units, 0, 0),
            },
            free: (0..shape.blocks).rev().collect(),
            open: vec![None; shape.streams()],
            collection: None,
            cohorts: UnitCohorts::none(),
            overlay: ChangedLocations::new(),
            random: Random::stream(seed, "blocks to clean"),
            sealed: 0,
            counts: TranslationCounts::default(),
        }
    }

    /// Returns the physical location of a mapping unit; [`FlashUnitLocation::NONE`] if it has not been written, or has been
    /// deallocated.
    #[inline]
    pub fn location(&self, unit: u32) -> FlashUnitLocation {
        match self.cohorts.number(unit) {
            Some(number) => self.cohorts.location(number),
            None => self.overlay.get(unit),
        }
    }

    /// Writes a mapping unit to the stream that the policy chooses, and returns its new location. The caller must have
    /// called [`TranslationLayer::make_room`] before.
    #[inline]
    pub fn write(&mut self, unit: u32) -> FlashUnitLocation {
        let stream = self.stream_of(unit);
        self.write_to(unit, stream)
    }

    /// Writes a mapping unit to the open block of user stream number `stream`, and returns its new location. The caller
    /// must have called [`TranslationLayer::make_room`] before.
    #[inline]
    pub fn write_to(&mut self, unit: u32, stream: u8) -> FlashUnitLocation {
        self.write_unit_of_handle(unit, stream, stream)
    }

    /// Writes a mapping unit of host-selected stream `handle` to the open block of user stream number `stream`, which
    /// [`TranslationLayer::stream_of_open_unit`] gives. Returns its new location.
    #[inline]
    pub fn write_unit_of_handle(&mut self, unit: u32, handle: u8, stream: u8) -> FlashUnitLocation {
        self.invalidate_unit(unit);
        self.counts.written += 1;
        self.blocks.now += 1;
        if let Some(placed) = &mut self.placed {
            placed.count_host_write(unit, handle);
        }
        let stream = self.user_write_stream(stream);
        self.counts.slc_written += u64::from(stream == FlashWriteStream::Slc);
        self.append(unit, stream, self.blocks.now)
    }

    /// Returns the number of the user stream for the next write of a mapping unit: the number after the policy's
    /// streams for the SLC cache while it has room, otherwise the stream that the policy chooses.
    #[inline]
    pub fn stream_of(&mut self, unit: u32) -> u8 {
        match self.user_streams {
            streams if self.slc.as_ref().is_some_and(SlcCache::has_room) => streams,
            1 => 0,
            // With data placement, writes without a placement identifier go to the first stream.
            _ if self.placed.is_some() => 0,
            _ => self.policy.user_stream(&self.blocks, self.location(unit)),
        }
    }

    /// Returns the stream of user writes with this number. The number after the streams of the policy or of the hosts
    /// stands for the SLC cache.
    #[inline]
    pub fn user_write_stream(&self, number: u8) -> FlashWriteStream {
        if number < self.user_streams { FlashWriteStream::User(number) } else { FlashWriteStream::Slc }
    }

    /// Looks up the location of a mapping unit in the mapping table; `changes` is true if the unit is about to get a
    /// new one. Returns the accesses to flash that this needs; `None` if the table page is in memory.
    #[inline]
    pub fn look_up(&mut self, unit: u32, changes: bool) -> Option<MapPageAccess> {
        let MapCacheMiss { loaded, written } = self.map.as_mut()?.access(unit, changes, &mut self.policy)?;
        self.counts.map_reads += 1;
        Some(MapPageAccess { read: self.location(self.map_page_unit(loaded)), written })
    }

    /// Writes a page of the mapping table to flash, and returns its new location. The caller must have called
    /// [`TranslationLayer::make_room`] before.
    pub fn write_map_page(&mut self, page: u32) -> FlashUnitLocation {
        let unit = self.map_page_unit(page);
        self.invalidate_unit(unit);
        self.counts.map_writes += 1;
        self.append(unit, FlashWriteStream::Map, self.blocks.now)
    }

    /// True if the drive's memory holds only a part of the mapping table.
    #[inline]
    pub fn has_map_cache(&self) -> bool {
        self.map.is_some()
    }

    /// Returns the number of the mapping unit that holds a page of the mapping table. Map pages are numbered after the
    /// user's units.
    fn map_page_unit(&self, page: u32) -> u32 {
        narrow::<u32, u64>(self.shape.units) + page
    }

    /// Records in memory that a user unit has a new location, without an access to the mapping table in flash.
    #[inline]
    fn note_unit_location(&mut self, unit: u32) {
        if let Some(map) = self.map.as_mut().filter(|_| u64::from(unit) < self.shape.units) {
            map.note(unit);
        }
    }

    /// Deallocates a mapping unit: its location becomes invalid, and later reads find no data.
    pub fn discard(&mut self, unit: u32) {
        self.invalidate_unit(unit);
        self.note_unit_location(unit);
        if self.overlay.get(unit) != FlashUnitLocation::NONE {
            self.overlay.set(unit, FlashUnitLocation::NONE);
        }
    }

    /// Deallocates every mapping unit: no block holds valid units afterwards.
    pub fn deallocate_all(&mut self) {
        self.cohorts = UnitCohorts::none();
        self.overlay = ChangedLocations::new();
        self.blocks.all.iter_mut().for_each(|block| block.valid = 0);
        self.collection.iter_mut().for_each(|collection| collection.cohorts.clear());
    }

    /// Leaves the next `positions` of the stream's open block empty, at most up to the end of the block. Does nothing
    /// if the stream has no open block.
    pub fn skip(&mut self, stream: FlashWriteStream, positions: u32) {
        let Some(block) = self.current_open_block(stream) else { return };
        let capacity = self.blocks.capacity(block);
        let this = &mut self.blocks.all[index(block)];
        let skipped = positions.min(capacity - this.written);
        this.written += skipped;
        this.written_at_sum += u64::from(skipped) * self.blocks.now;
        self.counts.skipped += u64::from(skipped);
        if let (Some(placed), FlashWriteStream::User(stream)) = (&mut self.placed, stream) {
            placed.count_skipped_positions(stream, skipped);
        }
        self.seal_if_full(block);
    }

    /// Returns the number of free positions in a stream's open block; 0 if the next write opens another block.
    pub fn room(&self, stream: FlashWriteStream) -> u32 {
        let written = |block| self.blocks.all[index(block)].written;
        self.current_open_block(stream).map_or(0, |block| self.blocks.capacity(block) - written(block))
    }

    /// Collects as much garbage as the next `units` of the user need, so that moves spread evenly over user writes.
    /// Adds the moves to `moved`, and the erased blocks to `erased`.
    ///
    /// Space for one block of each stream is kept in reserve: two blocks with one user stream and one stream of moved
    /// units. A victim block needs space for its valid units and yields the rest to the user, together one block. The
    /// other blocks of the reserve exceed what the open blocks of all but one stream can hold, so that each stream
    /// finds a block when it needs one.
    pub fn make_room(&mut self, units: u32, moved: &mut Vec<MovedUnitRun>, erased: &mut Vec<u32>) {
        while self.collection.is_some() || self.collect_if_reserve_reached() {
            let left = self.left_to_move();
            let share = match self.user_units_during_collection(left) {
                room if room <= u64::from(units) => left,
                room => narrow::<u32, u64>((u64::from(left) * u64::from(units)).div_ceil(room).min(left.into())),
            };
            self.move_valid_units(share, moved);
            if self.left_to_move() > 0 {
                return;
            }
            self.finish_collection(erased);
        }
    }

    /// True if `units` can be written before garbage collection must free another block.
    pub fn has_room_for(&self, units: u32) -> bool {
        match self.collection.is_some() {
            true => self.user_units_during_collection(self.left_to_move()) >= u64::from(units),
            false => self.room_in_all() >= self.reserve() + u64::from(units),
        }
    }

    /// Collects garbage while the drive is idle, until `blocks` erased blocks beyond the reserve are free: moves up to
    /// `units` mapping units. Adds the moves to `moved`, and the erased blocks to `erased`. Returns false if there is
    /// nothing to do.
    pub fn collect_ahead(
        &mut self,
        units: u32,
        blocks: u32,
        moved: &mut Vec<MovedUnitRun>,
        erased: &mut Vec<u32>,
    ) -> bool {
        let goal = self.reserve() + u64::from(blocks) * u64::from(self.shape.block_units);
        if self.collection.is_none() && (self.room_in_all() >= goal || !self.start_collecting_block()) {
            return false;
        }
        self.move_valid_units(units.min(self.left_to_move()), moved);
        if self.left_to_move() == 0 {
            self.finish_collection(erased);
        }
        true
    }

    /// Returns the counters of the translation layer since the start of the run.
    pub fn counts(&self) -> TranslationCounts {
        self.counts
    }

    /// Returns the size and the policies of this translation layer.
    pub fn shape(&self) -> &TranslationShape {
        &self.shape
    }

    /// Returns the number of erases in this run of the most erased block, and the number for all blocks together; SLC
    /// blocks do not count.
    pub fn erases(&self) -> (u32, u64) {
        self.blocks.erase_extremes()
    }

    /// Returns the number of valid mapping units in each full block, in the order of block numbers; SLC blocks do not
    /// count.
    pub fn valid_units(&self) -> Vec<u32> {
        self.blocks.full().map(|block| self.blocks.valid(block)).collect()
    }

    /// Checks the mapping: no two mapping units may be at one location, and each block must know how many valid units
    /// it holds. Returns a description of the first error; `None` if there is none. Examines every unit, so use it for
    /// small drives.
    pub fn inconsistency(&self) -> Option<String> {
        let mut held = vec![0; self.blocks.all.len()];
        let mut places = BTreeSet::new();
        for unit in 0..narrow::<u32, u64>(self.shape.all_mapped_units()) {
            let place = self.location(unit);
            if place == FlashUnitLocation::NONE {
                continue;
            }
            held[index(place.block)] += 1;
            // Positions of units in a cohort are computed, and two of them may coincide, so skip those in this check.
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
    fn invalidate_unit(&mut self, unit: u32) {
        let place = match self.cohorts.number(unit) {
            Some(number) => {
                self.cohorts.leave(number);
                self.cohorts.location(number)
            }
            None => self.overlay.get(unit),
        };
        if place != FlashUnitLocation::NONE {
            let block = &mut self.blocks.all[index(place.block)];
            assert!(block.valid > 0, "block {} has no valid unit, but unit {unit} is mapped to it", place.block);
            block.valid -= 1;
        }
    }

    /// Appends a mapping unit to the open block of a stream, and returns its new location. `written_at` is the time at
    /// which the user wrote the unit, as a count of user units; moves keep it.
    #[inline]
    fn append(&mut self, unit: u32, stream: FlashWriteStream, written_at: u64) -> FlashUnitLocation {
        let block = self.open_block_of_stream(stream);
        let capacity = self.blocks.capacity(block);
        let this = &mut self.blocks.all[index(block)];
        assert!(this.written < capacity, "a unit is written to block {block}, which is full");
        let place = FlashUnitLocation { block, position: this.written };
        this.log.push(BlockLogEntry { position: this.written, unit });
        this.written += 1;
        this.valid += 1;
        this.written_at_sum += written_at;
        self.overlay.set(unit, place);
        self.seal_if_full(block);
        place
    }

    /// Returns the number of the open block of a stream. If there is none, opens a free block that the policy chooses.
    fn open_block_of_stream(&mut self, stream: FlashWriteStream) -> u32 {
        if stream == FlashWriteStream::Slc {
            return self.slc.as_mut().expect("a drive with blocks of one bit a cell").open();
        }
        let place = self.open_block_index(stream);
        let own = self.open[place].or_else(|| match stream {
            FlashWriteStream::Moved(class) => self.fallback_open_block(class),
            FlashWriteStream::User(class) => self.reuse_moved_block_for_user(class),
            _ => None,
        });
        match own {
            Some(block) => block,
            None => {
                assert!(!self.free.is_empty(), "garbage collection keeps a block free");
                let next = self.policy.next_block(&self.blocks, &self.free, stream);
                let block = self.free.swap_remove(next);
                let opened = &mut self.blocks.all[index(block)];
                opened.stream = narrow::<u8, usize>(place);
                opened.log.reserve_exact(index(self.shape.block_units));
                self.open[place] = Some(block);
                if let (Some(placed), FlashWriteStream::User(stream)) = (&mut self.placed, stream) {
                    placed.regroup_streams(stream);
                }
                block
            }
        }
    }

    /// Returns the number of the open block of a stream; `None` if it has none.
    #[inline]
    fn current_open_block(&self, stream: FlashWriteStream) -> Option<u32> {
        match &self.slc {
            Some(slc) if stream == FlashWriteStream::Slc => slc.open,
            _ => self.open[self.open_block_index(stream)],
        }
    }

    /// Returns the index of a stream in the list of open blocks.
    #[inline]
    fn open_block_index(&self, stream: FlashWriteStream) -> usize {
        match stream {
            FlashWriteStream::User(stream) => stream.into(),
            FlashWriteStream::Slc | FlashWriteStream::Map => self.user_streams.into(),
            FlashWriteStream::Moved(stream) => (self.first_moved + stream).into(),
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

    /// Returns the number of mapping units that can be written before a block has to be erased: free positions of open
    /// blocks and of erased blocks.
    fn room_in_all(&self) -> u64 {
        let free = u64::from(self.shape.block_units) * length(self.free.len());
        let open = self.open.iter().flatten().map(|block| self.blocks.all[index(*block)].written);
        open.map(|written| u64::from(self.shape.block_units - written)).sum::<u64>() + free
    }

    /// Returns the number of free mapping units that garbage collection keeps in reserve for the streams.
    fn reserve(&self) -> u64 {
        // When other streams began their lines, space for these was reserved, so keep it.
        let begun = u64::from(self.kept_user_streams - 1) * u64::from(self.shape.line_units);
        u64::from(self.kept_streams) * u64::from(self.shape.block_units) + begun
    }

    /// Returns the number of mapping units that the user may write while `left` valid units of the victim are moved.
    /// The reserve is free again when the victim has then been erased.
    fn user_units_during_collection(&self, left: u32) -> u64 {
        (self.room_in_all() + u64::from(self.shape.block_units)).saturating_sub(u64::from(left) + self.reserve())
    }

    /// Starts to collect a block if free space has come down to the reserve. Returns false if it has not, or if there
    /// is no victim.
    fn collect_if_reserve_reached(&mut self) -> bool {
        self.room_in_all() <= self.reserve() && self.start_collecting_block()
    }

    /// Starts to collect a block: the victim that wear levelling or else the policy chooses. Returns false if neither
    /// names one.
    fn start_collecting_block(&mut self) -> bool {
        let chosen = self.lagging_least_worn_block().or_else(|| self.greedy_victim_by_class());
        let Some(victim) = chosen.or_else(|| self.policy.victim(&self.blocks, &mut self.random)) else {
            return false;
        };
        assert!(self.blocks.is_full(victim), "block {victim} is to be collected, but is not full");
        let stream = FlashWriteStream::Moved(match &self.placed {
            Some(placed) => placed.streams().moved_stream(self.blocks.stream(victim), self.first_moved),
            None => self.policy.moved_stream(&self.blocks, victim),
        });
        let mut cohorts = self.cohorts.cohort_starts_in_block(victim);
        cohorts.reverse();
        self.collection = Some(CollectionProgress { victim, stream, cohorts, logged: 0 });
        true
    }

    /// Returns the least erased full block if it lags behind the most erased block by more than the allowed gap; `None`
    /// otherwise. Its mapping units are written so seldom that only moving them gives its cells their share of wear.
    fn lagging_least_worn_block(&self) -> Option<u32> {
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

    /// Moves `units` valid mapping units out of the block that garbage collection is emptying, and adds the moves to
    /// `moved`.
    fn move_valid_units(&mut self, units: u32, moved: &mut Vec<MovedUnitRun>) {
        let Some(mut collection) = self.collection.take() else { return };
        self.move_units_of_victim(&mut collection, units, moved);
        self.collection = Some(collection);
    }

    /// Moves `units` valid mapping units of a victim block: first cohorts (ranges of units from before the run), then
    /// units written in this run. Adds the moves to `moved`.
    fn move_units_of_victim(
        &mut self,
        collection: &mut CollectionProgress,
        mut units: u32,
        moved: &mut Vec<MovedUnitRun>,
    ) {
        while units > 0 {
            units -= match collection.cohorts.pop() {
                Some(start) => self.move_units_of_cohort(start, units, collection, moved),
                None => self.move_logged_units(units, collection, moved),
            };
        }
    }

    fn move_units_of_cohort(
        &mut self,
        start: u64,
        units: u32,
        collection: &mut CollectionProgress,
        moved: &mut Vec<MovedUnitRun>,
    ) -> u32 {
        let block = self.open_block_of_stream(collection.stream);
        let to = FlashUnitLocation { block, position: self.blocks.all[index(block)].written };
        let most = units.min(self.shape.block_units - to.position);
        let (part, rest) = self.cohorts.move_cohort_part(start, most, to);
        if self.map.is_some() {
            for number in start..part.until {
                if let Some(unit) = self.cohorts.unit(number) {
                    self.note_unit_location(unit);
                }
            }
        }
        collection.cohorts.extend(rest);
        let written_at = whole(self.blocks.written_at(collection.victim));
        let victim = &mut self.blocks.all[index(collection.victim)];
        assert!(part.units <= victim.valid, "more units leave block {} than are valid in it", collection.victim);
        victim.valid -= part.units;
        let target = &mut self.blocks.all[index(block)];
        target.valid += part.units;
        target.written += part.units;
        target.written_at_sum += u64::from(part.units) * written_at;
        self.counts.moved += u64::from(part.units);
        if let Some(placed) = &mut self.placed {
            placed.count_initial_moves(part.units);
        }
        if part.units > 0 {
            moved.push(MovedUnitRun { from: part.from, positions: part.positions, units: part.units, to });
        }
        self.seal_if_full(block);
        part.units
    }

    /// Moves up to `units` valid mapping units that were written in this run, in the order of the victim's log. Adds
    /// the moves to `moved`, and returns the number of units moved.
    fn move_logged_units(
        &mut self,
        units: u32,
        collection: &mut CollectionProgress,
        moved: &mut Vec<MovedUnitRun>,
    ) -> u32 {
        let written_at = whole(self.blocks.written_at(collection.victim));
        let log = std::mem::take(&mut self.blocks.all[index(collection.victim)].log);
        let mut found = 0;
        while found < units {
            let BlockLogEntry { position, unit } = log[collection.logged];
            collection.logged += 1;
            let from = FlashUnitLocation { block: collection.victim, position };
            if self.location(unit) != from {
                continue;
            }
            found += 1;
            self.blocks.all[index(collection.victim)].valid -= 1;
            self.counts.moved += 1;
            if let Some(placed) = &mut self.placed {
                placed.count_collection_move(unit);
            }
            let class = self.placed.as_ref().and_then(|placed| placed.moved_stream_of_class(unit));
            let to = self.append(unit, class.map_or(collection.stream, FlashWriteStream::Moved), written_at);
            self.note_unit_location(unit);
            match moved.last_mut().filter(|last| last.is_followed_by(from, to)) {
                Some(last) => {
                    last.positions = position + 1 - last.from.position;
                    last.units += 1;
                }
                None => moved.push(MovedUnitRun { from, positions: 1, units: 1, to }),
            }
        }
        self.blocks.all[index(collection.victim)].log = log;
        found
    }

    /// Ends a garbage collection whose victim holds no valid mapping unit any more: erases the victim and adds it to
    /// the free blocks and to `erased`.
    fn finish_collection(&mut self, erased: &mut Vec<u32>) {
        let Some(CollectionProgress { victim, .. }) = self.collection.take() else { return };
        self.erase(victim);
        self.free.push(victim);
        self.counts.erases += 1;
        erased.push(victim);
    }

    /// Erases a block that holds no valid mapping unit, and counts the erase for its wear.
    fn erase(&mut self, victim: u32) {
        let block = &mut self.blocks.all[index(victim)];
        assert_eq!(block.valid, 0, "block {victim} is erased with valid units in it");
        let (erases, erased_before) = (block.erases + 1, block.erased_before);
        // Reuse the memory of the log for the units that will be written here next.
        let mut log = std::mem::take(&mut block.log);
        log.clear();
        *block = EraseBlockState { erases, erased_before, log, ..EraseBlockState::default() };
    }
}

impl MovedUnitRun {
    /// True if the move of one more mapping unit from `from` to `to` extends this run: the unit follows the run's last
    /// unit at both locations.
    fn is_followed_by(&self, from: FlashUnitLocation, to: FlashUnitLocation) -> bool {
        self.from.block == from.block
            && self.to.block == to.block
            && self.to.position + self.units == to.position
            && from.position >= self.from.position + self.positions
    }
}

impl TranslationShape {
    /// Returns the least number of blocks that a drive of this shape needs: enough for the user's mapping units, and
    /// two for each stream (an open block, and one to move units to). Host-selected streams of a group that share their
    /// units count as one.
    pub fn blocks_min(&self) -> u32 {
        let user = self.all_mapped_units().div_ceil(self.block_units.into());
        let streams = match self.placement {
            Some(streams) if streams.may_share_open_units() => {
                2 * u64::from(streams.groups) + u64::from(self.map.is_some())
            }
            _ => length(self.streams()),
        };
        narrow::<u32, u64>((user + 2 * streams).min(u32::MAX.into()))
    }

    /// Returns the number of units that the host-selected streams of a group have open at a time: one for each, or as
    /// many as take half of the spare blocks if that is less. Streams that are isolated persistently share none.
    fn open_units_of_group(&self) -> u8 {
        let Some(streams) = self.placement else { return 1 };
        let user = self.all_mapped_units().div_ceil(self.block_units.into());
        let spare = u64::from(self.blocks).saturating_sub(user) / (2 * u64::from(streams.groups.max(1)));
        match streams.may_share_open_units() {
            true => narrow::<u8, u64>(spare.clamp(1, streams.handles.max(1).into())),
            false => streams.handles,
        }
    }

    /// True if the open units of all host-selected streams share one reserve, because there are too few spare blocks for
    /// an open unit of each. With several groups or a stream of map pages, each unit has a reserve of its own, so that no
    /// stream can take the last block of another.
    fn shares_reserve(&self) -> bool {
        self.placement.is_some_and(|streams| {
            let is_alone = streams.groups == 1 && self.map.is_none();
            streams.may_share_open_units() && is_alone && self.open_units_of_group() < streams.handles
        })
    }

    /// Returns the number of mapping units that are on a preconditioned drive, pages of the mapping table included if
    /// the whole drive is in use.
    pub(super) fn units_on_preconditioned_drive(&self) -> u64 {
        if self.used_units < self.units { self.used_units } else { self.all_mapped_units() }
    }

    /// Returns the number of streams, each with an open block: user streams, the stream of map pages if there is one,
    /// and streams of moved units.
    pub fn streams(&self) -> usize {
        let (user, moved) = self.user_and_moved_streams();
        usize::from(user) + usize::from(self.map.is_some()) + usize::from(moved)
    }

    /// Returns the number of user streams and the number of streams of moved units.
    fn user_and_moved_streams(&self) -> (u8, u8) {
        let moved = |streams: &HostStreams| match self.shares_reserve() {
            true => self.open_units_of_group(),
            false => streams.moved_stream_count(),
        };
        self.placement.map_or(Policy::streams(self.policy), |streams| (streams.user(), moved(&streams)))
    }

    /// Returns the number of streams in use on a drive whose hosts have not chosen any stream yet.
    pub(super) fn streams_in_use_at_start(&self) -> u32 {
        let (user, moved) = Policy::streams(self.policy);
        u32::from(user) + u32::from(self.map.is_some()) + u32::from(moved)
    }

    /// Returns the number of mapping units that the layer maps: the user's units, and the pages of a mapping table that
    /// is not wholly in memory.
    pub fn all_mapped_units(&self) -> u64 {
        self.units + self.map.map_or(0, |map| self.units.div_ceil(map.page_units.into()))
    }
}
