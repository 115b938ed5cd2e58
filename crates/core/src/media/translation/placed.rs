//! Streams that hosts choose (flexible data placement): which stream a unit was written to, where garbage collection moves
//! it, and what each stream costs the cells.
//!
//! A stream of the user is a reclaim unit handle in a reclaim group, and its open block is the reclaim unit that the handle
//! refers to there. Moved units of a group share a stream, or each stream of the user has one of its own.
//!
//! ```text
//!     stream of the user = group * handles + handle
//!     moved to             initial: stream of the group        persistent: stream of the same number
//! ```

use super::{TranslationLayer, UnitMove, WriteStream};
use crate::config::Isolation;
use crate::number::index;

/// Streams among which hosts choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedStreams {
    /// Number of reclaim unit handles.
    pub handles: u8,
    /// Number of reclaim groups; handles times groups is 127 at most.
    pub groups: u8,
    /// Data that garbage collection keeps apart.
    pub isolation: Isolation,
}

impl PlacedStreams {
    /// Returns the number of streams of the user.
    pub fn user(&self) -> u8 {
        // A description that is being checked may ask for more streams than there can be.
        self.handles.saturating_mul(self.groups)
    }

    /// Returns the number of streams of moved units.
    pub fn moved(&self) -> u8 {
        match self.isolation {
            Isolation::Initial => self.groups,
            Isolation::Persistent => self.user(),
        }
    }

    /// Returns the stream of the user of a handle in a group.
    pub fn stream(&self, group: u8, handle: u8) -> u8 {
        group * self.handles + handle
    }

    /// Returns the stream of moved units for the units of a stream of the user.
    fn moved_of(&self, user: u8) -> u8 {
        match self.isolation {
            Isolation::Initial => user / self.handles,
            Isolation::Persistent => user,
        }
    }

    /// Returns the stream of moved units for the units of a block that a stream has filled, of all streams by their places:
    /// those of moved units begin with `first_moved`.
    pub(super) fn moved_stream(&self, stream: u8, first_moved: u8) -> u8 {
        if stream < first_moved { self.moved_of(stream) } else { stream - first_moved }
    }
}

/// Counters of a stream of the user, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacedCounts {
    /// Units that hosts have written to the stream.
    pub written: u64,
    /// Moves of units that had last been written to the stream.
    pub moved: u64,
    /// Positions that were left empty in its blocks because a flush did not wait for more units.
    pub skipped: u64,
}

/// Streams of all units, and counters of all streams.
#[derive(Clone, Debug)]
pub(super) struct PlacedUnits {
    streams: PlacedStreams,
    counts: Vec<PlacedCounts>,
    /// Stream of each unit that was written last to another one than the first, as far as units reach that were.
    of_units: Vec<u8>,
    /// True for each stream of the user, and for each of moved units, for which garbage collection keeps a block.
    is_kept: Vec<bool>,
}

impl PlacedUnits {
    /// Creates the state of a drive on which no host has chosen a stream.
    pub(super) fn new(streams: PlacedStreams) -> PlacedUnits {
        let (user, moved) = (streams.user(), streams.moved());
        let mut is_kept = vec![false; usize::from(user) + usize::from(moved)];
        (is_kept[0], is_kept[usize::from(user)]) = (true, true);
        PlacedUnits { streams, counts: vec![PlacedCounts::default(); user.into()], of_units: Vec::new(), is_kept }
    }

    /// Returns the streams.
    pub(super) fn streams(&self) -> &PlacedStreams {
        &self.streams
    }

    /// Counts a unit that a host writes to a stream.
    #[inline]
    pub(super) fn note_write(&mut self, unit: u32, stream: u8) {
        self.counts[usize::from(stream)].written += 1;
        match self.of_units.get_mut(index(unit)) {
            Some(known) => *known = stream,
            None if stream == 0 => {}
            None => {
                self.of_units.resize(index(unit) + 1, 0);
                self.of_units[index(unit)] = stream;
            }
        }
    }

    /// Counts a move of a unit for the stream that it was written to.
    pub(super) fn note_move(&mut self, unit: u32) {
        let stream = self.of_units.get(index(unit)).copied().unwrap_or(0);
        self.counts[usize::from(stream)].moved += 1;
    }

    /// Counts moves of units that were on the drive before the run, in the first stream.
    pub(super) fn note_moves_of_first(&mut self, units: u32) {
        self.counts[0].moved += u64::from(units);
    }

    /// Counts positions that were left empty in a block of a stream.
    pub(super) fn note_skip(&mut self, stream: u8, positions: u32) {
        self.counts[usize::from(stream)].skipped += u64::from(positions);
    }

    /// Has a block kept for a stream of the user and for its moved units. Returns the number of streams of the user, and of all,
    /// for which that is new.
    #[inline]
    fn keep(&mut self, stream: u8) -> (u32, u32) {
        if self.is_kept[usize::from(stream)] {
            return (0, 0);
        }
        self.is_kept[usize::from(stream)] = true;
        let moved = usize::from(self.streams.user()) + usize::from(self.streams.moved_of(stream));
        let is_known = std::mem::replace(&mut self.is_kept[moved], true);
        (1, if is_known { 1 } else { 2 })
    }
}

impl TranslationLayer {
    /// Collects as much garbage as the next `units` need that a host writes to a stream, as [`TranslationLayer::make_room`] does for
    /// drives whose hosts choose none.
    ///
    /// A stream that has never been written has no block, and none is kept in reserve for it. So the first write to a stream
    /// waits until there is one more.
    #[inline]
    pub fn make_room_for(&mut self, stream: u8, units: u32, moved: &mut Vec<UnitMove>, erased: &mut Vec<u32>) {
        if let Some(placed) = &mut self.placed {
            let (user, all) = placed.keep(stream);
            self.kept_user_streams += user;
            self.kept_streams += all;
        }
        self.make_room(units, moved, erased);
    }

    /// Closes the open block of a stream of the user early, so that its next write begins another one. Positions that stay
    /// empty are not programmed. Returns their number.
    pub fn close(&mut self, stream: u8) -> u32 {
        let Some(block) = self.open_of(WriteStream::User(stream)) else { return 0 };
        let capacity = self.blocks.capacity(block);
        let now = self.blocks.now;
        let this = &mut self.blocks.all[index(block)];
        let left = capacity - this.written;
        this.written = capacity;
        this.written_at_sum += u64::from(left) * now;
        self.seal_if_full(block);
        left
    }

    /// Returns the streams among which hosts choose, and the counters of each; none if they cannot.
    pub fn placed(&self) -> Option<(&PlacedStreams, &[PlacedCounts])> {
        self.placed.as_ref().map(|placed| (&placed.streams, &placed.counts[..]))
    }

    /// Returns the number of units that still fit into the reclaim unit that a stream of the user refers to: one that has not been
    /// begun has room for all.
    pub fn room_in_unit(&self, stream: u8) -> u32 {
        match self.room(WriteStream::User(stream)) {
            0 => self.shape.block_units,
            room => room,
        }
    }
}

impl PlacedCounts {
    /// Returns the number of units that were programmed for the stream.
    pub fn programmed(&self) -> u64 {
        self.written + self.moved + self.skipped
    }
}
