//! Streams that hosts choose (flexible data placement): which stream each unit was written to, where garbage collection
//! moves the unit, and what each stream costs the cells.
//!
//! A user stream is a reclaim unit handle in a reclaim group, and its open block is the reclaim unit that the handle
//! refers to there. Moved units of a group share a stream, or each user stream has a stream of moved units of its own.
//!
//! ```text
//!     stream of the user = group * handles + handle
//!     moved to             initial: stream of the group        persistent: stream of the same number
//! ```
//!
//! A drive may have too few spare blocks for an open block of each handle. Its handles then share a few open blocks and
//! one reserve, which is not larger than that of a drive without handles:
//!
//! - Handles are divided into classes by their rate of writes. A class opens a block of its own only if another free
//!   block remains for moved units; otherwise its writes go to the open block of the class nearest in rate.
//! - Moved units go to a stream of moved units of the class that their handle is in. They are most of what is programmed,
//!   so that they may open the last free block. User writes then continue in one of theirs.
//! - The greedy victim weighs a block's invalid share by the class: data that is written often gets more of the spare
//!   space, as [`TranslationLayer::greedy_victim_by_class`] explains.

use super::{FlashWriteStream, MovedUnitRun, TranslationLayer};
use crate::config::{PlacementIsolation, TranslationPolicyName};
use crate::number::{index, narrow, real};

/// Writes of a stream divided by those that are forgotten whenever its group opens a block (assumed: drives do not say).
const RECENT_PART: u64 = 8;
/// Upper limit of the number of streams that hosts choose, and so of classes of handles.
const CLASSES_MAX: usize = 128;

/// Streams that hosts choose: numbers of handles and groups, and the isolation of moved units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostStreams {
    /// Number of reclaim unit handles in each reclaim group.
    pub handles: u8,
    /// Number of reclaim groups. The product of handles and groups is at most 127.
    pub groups: u8,
    /// Isolation of moved units: by reclaim group (initial), or by handle as well (persistent).
    pub isolation: PlacementIsolation,
}

impl HostStreams {
    /// Returns the number of user streams: reclaim unit handles times reclaim groups.
    pub fn user(&self) -> u8 {
        // An unchecked drive file may ask for too many streams, so saturate.
        self.handles.saturating_mul(self.groups)
    }

    /// True if streams of a group may share an open reclaim unit if there are few spare ones: garbage collection mixes
    /// their data in any case.
    pub fn may_share_open_units(&self) -> bool {
        self.isolation == PlacementIsolation::Initial
    }

    /// Returns the number of streams of moved units: one for each reclaim group, or one for each user stream.
    pub fn moved_stream_count(&self) -> u8 {
        match self.isolation {
            PlacementIsolation::Initial => self.groups,
            PlacementIsolation::Persistent => self.user(),
        }
    }

    /// Returns the number of the user stream of a reclaim unit handle in a reclaim group.
    pub fn stream(&self, group: u8, handle: u8) -> u8 {
        group * self.handles + handle
    }

    /// Returns the number of the stream of moved units that receives the mapping units of user stream `user`.
    fn moved_stream_of_user(&self, user: u8) -> u8 {
        match self.isolation {
            PlacementIsolation::Initial => user / self.handles,
            PlacementIsolation::Persistent => user,
        }
    }

    /// Returns the number of the stream of moved units that receives the mapping units of a block. `stream` is the
    /// index, among all streams, of the stream that filled the block; streams of moved units have indices from
    /// `first_moved` on.
    pub(super) fn moved_stream(&self, stream: u8, first_moved: u8) -> u8 {
        if stream < first_moved { self.moved_stream_of_user(stream) } else { stream - first_moved }
    }
}

/// Counters of one user stream, in mapping units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamUnitCounts {
    /// Number of mapping units that hosts have written to the stream.
    pub written: u64,
    /// Number of moves by garbage collection of mapping units that had last been written to the stream.
    pub moved: u64,
    /// Number of positions in the stream's blocks that were left empty because a flush did not wait for more mapping
    /// units.
    pub skipped: u64,
}

/// Host-selected stream that each mapping unit was last written to, and the counters of each stream.
#[derive(Clone, Debug)]
pub(super) struct UnitStreamRecord {
    streams: HostStreams,
    counts: Vec<StreamUnitCounts>,
    /// Number of the stream that each mapping unit was last written to, by number of the unit. Units beyond the end of
    /// the list belong to stream 0.
    of_units: Vec<u8>,
    /// True for each stream for which garbage collection keeps a block in reserve: user streams first, then streams of
    /// moved units.
    is_kept: Vec<bool>,
    /// Number of units that the streams of a group have open at a time.
    open_units: u8,
    /// True if the open units of all streams share one reserve, so that streams write to another's unit if there is no
    /// block to open.
    shares_reserve: bool,
    /// Number of the stream whose open unit takes the writes of each stream.
    unit_of: Vec<u8>,
    /// Number of units written to each stream of late.
    recent: Vec<u64>,
}

impl UnitStreamRecord {
    /// Creates the state of a drive on which no host has chosen a stream: every mapping unit belongs to stream 0. The
    /// streams of a group have `open_units` units open at a time.
    pub(super) fn new(streams: HostStreams, open_units: u8, shares_reserve: bool) -> UnitStreamRecord {
        let (user, moved) = (streams.user(), streams.moved_stream_count());
        let mut is_kept = vec![false; usize::from(user) + usize::from(moved)];
        (is_kept[0], is_kept[usize::from(user)]) = (true, true);
        let unit = |stream: u8| {
            let handle = stream % streams.handles;
            stream - handle + handle.min(open_units - 1)
        };
        UnitStreamRecord {
            streams,
            counts: vec![StreamUnitCounts::default(); user.into()],
            of_units: Vec::new(),
            is_kept,
            open_units,
            shares_reserve,
            unit_of: (0..user).map(unit).collect(),
            recent: vec![0; user.into()],
        }
    }

    /// Returns the streams among which hosts choose: numbers of handles and groups, and the isolation of moved units.
    pub(super) fn streams(&self) -> &HostStreams {
        &self.streams
    }

    /// Counts a mapping unit that a host writes to a stream, and records the stream for the unit.
    #[inline]
    pub(super) fn count_host_write(&mut self, unit: u32, stream: u8) {
        self.counts[usize::from(stream)].written += 1;
        self.recent[usize::from(stream)] += 1;
        match self.of_units.get_mut(index(unit)) {
            Some(known) => *known = stream,
            None if stream == 0 => {}
            None => {
                self.of_units.resize(index(unit) + 1, 0);
                self.of_units[index(unit)] = stream;
            }
        }
    }

    /// Counts a move of a mapping unit by garbage collection, for the stream that the unit was last written to.
    pub(super) fn count_collection_move(&mut self, unit: u32) {
        let stream = self.of_units.get(index(unit)).copied().unwrap_or(0);
        self.counts[usize::from(stream)].moved += 1;
    }

    /// Counts moves of mapping units that were on the drive before the run, for stream 0.
    pub(super) fn count_initial_moves(&mut self, units: u32) {
        self.counts[0].moved += u64::from(units);
    }

    /// Counts positions that were left empty in a block of a user stream.
    pub(super) fn count_skipped_positions(&mut self, stream: u8, positions: u32) {
        self.counts[usize::from(stream)].skipped += u64::from(positions);
    }

    /// Marks a user stream and the stream of its moved units as streams for which a block is kept in reserve. Returns
    /// the number of user streams and the number of all streams that have become marked; with a shared reserve, only
    /// user streams, which begin lines of their own.
    #[inline]
    fn keep_reserve_for_streams(&mut self, stream: u8) -> (u32, u32) {
        if self.is_kept[usize::from(stream)] {
            return (0, 0);
        }
        self.is_kept[usize::from(stream)] = true;
        if self.shares_reserve {
            return (1, 0);
        }
        let moved = usize::from(self.streams.user()) + usize::from(self.streams.moved_stream_of_user(stream));
        let is_known = std::mem::replace(&mut self.is_kept[moved], true);
        (1, if is_known { 1 } else { 2 })
    }

    /// Returns the number of the stream of moved units that receives a mapping unit, if classes of handles share the
    /// reserve; `None` if the victim decides.
    pub(super) fn moved_stream_of_class(&self, unit: u32) -> Option<u8> {
        let stream = self.of_units.get(index(unit)).copied().unwrap_or(0);
        self.shares_reserve.then(|| self.unit_of[usize::from(stream)])
    }

    /// Divides the streams of a group anew among its open units, if these are fewer: streams with similar rates of
    /// writes share a unit, because their data is likely to live for a similar time. Does nothing if each stream has a
    /// unit of its own.
    pub(super) fn regroup_streams(&mut self, stream: u8) {
        let handles = self.streams.handles;
        if self.open_units == handles {
            return;
        }
        let first = stream / handles * handles;
        let mut members: Vec<u8> = (first..first + handles).collect();
        members.sort_by_key(|member| std::cmp::Reverse(self.recent[usize::from(*member)]));
        let written = members.iter().filter(|member| self.recent[usize::from(**member)] > 0).count().max(1);
        for (rank, member) in members.into_iter().map(usize::from).enumerate() {
            let unit = rank.min(written - 1) * usize::from(self.open_units) / written;
            self.unit_of[member] = first + narrow::<u8, usize>(unit);
            // Halve old counts gradually, so that streams move between units as their write rates change.
            self.recent[member] -= self.recent[member] / RECENT_PART;
        }
    }
}

impl TranslationLayer {
    /// Collects as much garbage as the next `units` that a host writes to `stream` need, as
    /// [`TranslationLayer::make_room`] does without host-selected streams.
    ///
    /// A stream that has never been written has no block, and none is kept in reserve for it. The first write to a
    /// stream adds a block to the reserve, and makes room for it.
    #[inline]
    pub fn collect_for_stream(&mut self, stream: u8, units: u32, moved: &mut Vec<MovedUnitRun>, erased: &mut Vec<u32>) {
        self.reserve_block_for_stream(stream);
        self.make_room(units, moved, erased);
    }

    /// Keeps a block in reserve for `stream`, which is about to be written.
    #[inline]
    pub fn reserve_block_for_stream(&mut self, stream: u8) {
        if let Some(placed) = &mut self.placed {
            let (user, all) = placed.keep_reserve_for_streams(stream);
            self.kept_user_streams += user;
            self.kept_streams += all;
        }
    }

    /// Returns the number of the user stream in whose open block a host's writes to `stream` go: `stream` itself, or
    /// one of its group if there are too few spare blocks for an open block of each.
    ///
    /// Garbage collection may open and free blocks, so the number holds until the next call of
    /// [`TranslationLayer::make_room`].
    #[inline]
    pub fn stream_of_open_unit(&self, stream: u8) -> u8 {
        let Some(placed) = &self.placed else { return stream };
        let own = placed.unit_of[usize::from(stream)];
        if !placed.shares_reserve || self.open[usize::from(own)].is_some() || self.free.len() > 1 {
            return own;
        }
        self.nearest_class_with_open_block(own, 0, placed.open_units).unwrap_or(own)
    }

    /// Returns the open block to which moved units of class `class` go if the class has none and no block is free.
    pub(super) fn fallback_open_block(&self, class: u8) -> Option<u32> {
        let placed = self.placed.as_ref().filter(|placed| placed.shares_reserve && self.free.is_empty())?;
        let nearest = self.nearest_class_with_open_block(class, self.first_moved, placed.open_units)?;
        self.open[usize::from(self.first_moved + nearest)]
    }

    /// Turns the open block of a class's moved units into the open block of user writes of class `class`, if no class has
    /// one for user writes and no block is free. Leaves positions up to the next line empty. Returns the block.
    ///
    /// Moved units find space all the same. User writes open a second block only if two are free, so that when collection
    /// begins, all their open blocks have space for at most one block. The reserve is two; a victim takes less than the
    /// other.
    pub(super) fn reuse_moved_block_for_user(&mut self, class: u8) -> Option<u32> {
        let placed = self.placed.as_ref().filter(|placed| placed.shares_reserve && self.free.is_empty())?;
        let classes = placed.open_units;
        while let Some(nearest) = self.nearest_class_with_open_block(class, self.first_moved, classes) {
            let begun = self.blocks.all[index(self.open[usize::from(self.first_moved + nearest)]?)].written;
            self.skip(FlashWriteStream::Moved(nearest), begun.next_multiple_of(self.shape.line_units) - begun);
            if let Some(block) = self.open[usize::from(self.first_moved + nearest)].take() {
                self.open[usize::from(class)] = Some(block);
                return Some(block);
            }
        }
        None
    }

    /// Returns the class with an open block that is nearest to `class`. Open blocks of the classes begin at index `first`
    /// of the list of open blocks.
    fn nearest_class_with_open_block(&self, class: u8, first: u8, classes: u8) -> Option<u8> {
        let is_open = |other: &u8| self.open[usize::from(first + other)].is_some();
        (0..classes).filter(is_open).min_by_key(|other| other.abs_diff(class))
    }

    /// Returns the block to collect if classes of handles share the spare blocks and the policy is greedy: the one with
    /// the largest invalid share, divided by the square root of its class's writes per valid unit.
    ///
    /// Collecting always the emptiest block would give all classes the same spare space for each unit, so that
    /// separation would save nothing. With w writes to d units and s spare ones, random writes move about w d / 2 s units.
    /// The sum over classes is least if s is proportional to the square root of w d, so that blocks of a class are
    /// collected once an invalid share proportional to the square root of w / d is reached.
    pub(super) fn greedy_victim_by_class(&self) -> Option<u32> {
        let is_greedy = self.shape.policy == TranslationPolicyName::Greedy;
        let placed = self.placed.as_ref().filter(|placed| placed.shares_reserve && is_greedy)?;
        let class_of = |block: u32| {
            let stream = self.blocks.stream(block);
            usize::from(if stream < self.first_moved { stream } else { stream - self.first_moved })
        };
        let (mut writes, mut valid) = ([0_u64; CLASSES_MAX], [0_u64; CLASSES_MAX]);
        for (stream, unit) in placed.unit_of.iter().enumerate() {
            writes[usize::from(*unit)] += placed.recent[stream];
        }
        self.blocks.full().for_each(|block| valid[class_of(block)] += u64::from(self.blocks.valid(block)));
        let weight = |class: usize| libm::sqrt(real(valid[class] + 1) / real(writes[class] + 1));
        let score = |block: u32| {
            let invalid = self.blocks.capacity(block) - self.blocks.valid(block);
            f64::from(invalid) * weight(class_of(block))
        };
        let victims = self.blocks.full().filter(|block| self.blocks.has_invalid_units(*block));
        // Of equal blocks, take the first, as the greedy policy does.
        victims
            .map(|block| (score(block), block))
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map(|it| it.1)
    }

    /// Closes the open block of a user stream early, so that its next write opens another block. Returns the number of
    /// positions that stay empty, which are not programmed; 0 if the stream has no open block. Streams that share a
    /// reserve stay in their block if the rest of it is part of the reserve.
    pub fn close(&mut self, stream: u8) -> u32 {
        let Some(block) = self.current_open_block(FlashWriteStream::User(stream)) else { return 0 };
        let capacity = self.blocks.capacity(block);
        let left = capacity - self.blocks.all[index(block)].written;
        let shares_reserve = self.placed.as_ref().is_some_and(|placed| placed.shares_reserve);
        if shares_reserve && self.room_in_all() < self.reserve() + u64::from(left) {
            return 0;
        }
        let now = self.blocks.now;
        let this = &mut self.blocks.all[index(block)];
        this.written = capacity;
        this.written_at_sum += u64::from(left) * now;
        self.seal_if_full(block);
        left
    }

    /// Returns the streams that hosts choose, and the counters of each user stream; `None` if hosts cannot choose.
    pub fn placed(&self) -> Option<(&HostStreams, &[StreamUnitCounts])> {
        self.placed.as_ref().map(|placed| (&placed.streams, &placed.counts[..]))
    }

    /// Returns the number of units that still fit into the reclaim unit of a user stream: all of them if the next write
    /// opens a new reclaim unit.
    pub fn room_in_reclaim_unit(&self, stream: u8) -> u32 {
        match self.room(FlashWriteStream::User(stream)) {
            0 => self.shape.block_units,
            room => room,
        }
    }
}

impl StreamUnitCounts {
    /// Returns the number of mapping units that were programmed for the stream: written, moved and skipped ones.
    pub fn programmed(&self) -> u64 {
        self.written + self.moved + self.skipped
    }
}
