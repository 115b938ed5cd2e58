//! Translation layer of a drive with host-selected streams, by itself: without dies, without time, and without a write
//! buffer beyond the line that a stream fills. A served drive computes with it what its hosts' writes cost the cells.

use super::{FlashUnitLocation, FlashWriteStream, MovedUnitRun, TranslationLayer, TranslationShape};
use crate::number::{index, narrow};

/// Seed for the random choices of garbage collection, the same for all served drives.
const SEED: u64 = 1;

/// Translation layer of a drive with host-selected streams, without timing, and the number of bytes that hosts have
/// written.
#[derive(Clone, Debug)]
pub struct UntimedPlacedDrive {
    layer: TranslationLayer,
    unit_bytes: u32,
    host_bytes: u128,
    moved: Vec<MovedUnitRun>,
    erased: Vec<u32>,
}

/// Statistics of a drive with host-selected streams: bytes that hosts have written, that were programmed, and that were
/// erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacedStatistics {
    /// Number of bytes that hosts have written (HBMW).
    pub host_bytes: u128,
    /// Number of bytes that were programmed, garbage collection included (MBMW).
    pub media_bytes: u128,
    /// Number of bytes in the blocks that were erased (MBE).
    pub erased_bytes: u128,
}

/// Data that garbage collection has moved to one stream to make room for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectedMove {
    /// Number of the stream of moved units that has received the data.
    pub stream: u8,
    /// Number of bytes that were moved.
    pub bytes: u64,
}

impl UntimedPlacedDrive {
    /// Creates a drive on which nothing has been written, with mapping units of `unit_bytes` bytes.
    pub fn new(shape: TranslationShape, unit_bytes: u32) -> UntimedPlacedDrive {
        let layer = TranslationLayer::new(shape, SEED);
        UntimedPlacedDrive { layer, unit_bytes, host_bytes: 0, moved: Vec::new(), erased: Vec::new() }
    }

    /// Writes `bytes` from `offset` to a stream. A mapping unit in the line that the stream is filling takes no more
    /// cells if it is written again. Returns the bytes that garbage collection has moved to each stream to make room.
    pub fn write(&mut self, offset: u64, bytes: u64, stream: u8) -> Vec<CollectedMove> {
        self.host_bytes += u128::from(bytes);
        let unit_bytes = u64::from(self.unit_bytes);
        let first_moved = self.layer.first_moved;
        let moved_max = self.layer.placed().map_or(0, |(streams, _)| streams.moved_stream_count() - 1);
        let mut moves: Vec<CollectedMove> = Vec::new();
        for unit in offset / unit_bytes..(offset + bytes).div_ceil(unit_bytes) {
            let unit = narrow::<u32, u64>(unit);
            let open = self.layer.stream_of_open_unit(stream);
            if self.layer.is_in_line(unit, open) {
                continue;
            }
            if self.layer.is_at_line_start(open) {
                let line_units = self.layer.shape.line_units;
                self.layer.collect_for_stream(open, line_units, &mut self.moved, &mut self.erased);
            }
            let open = self.layer.stream_of_open_unit(stream);
            self.layer.write_unit_of_handle(unit, stream, open);
            self.erased.clear();
            for MovedUnitRun { units, to, .. } in self.moved.drain(..) {
                // Classes of handles that share a reserve appear to hosts as one stream of moved units.
                let stream = self.layer.blocks.stream(to.block).saturating_sub(first_moved).min(moved_max);
                let bytes = u64::from(units) * unit_bytes;
                match moves.iter_mut().find(|known| known.stream == stream) {
                    Some(known) => known.bytes += bytes,
                    None => moves.push(CollectedMove { stream, bytes }),
                }
            }
        }
        moves
    }

    /// Deallocates the `bytes` from `offset`. Mapping units that lie only partly within them stay.
    pub fn discard(&mut self, offset: u64, bytes: u64) {
        let unit_bytes = u64::from(self.unit_bytes);
        for unit in offset.div_ceil(unit_bytes)..(offset + bytes) / unit_bytes {
            self.layer.discard(narrow::<u32, u64>(unit));
        }
    }

    /// Makes a stream continue in a new reclaim unit, if its current one has been written to. Returns the number of
    /// bytes that the current one still had room for.
    pub fn renew(&mut self, stream: u8) -> u64 {
        u64::from(self.layer.close(self.layer.stream_of_open_unit(stream))) * u64::from(self.unit_bytes)
    }

    /// Returns the number of bytes that the reclaim unit of a stream still has room for.
    pub fn room_bytes(&self, stream: u8) -> u64 {
        u64::from(self.layer.room_in_reclaim_unit(self.layer.stream_of_open_unit(stream))) * u64::from(self.unit_bytes)
    }

    /// Returns the size of a reclaim unit in bytes.
    pub fn reclaim_unit_bytes(&self) -> u64 {
        u64::from(self.layer.shape.block_units) * u64::from(self.unit_bytes)
    }

    /// Returns the number of bytes that hosts have written, that were programmed, and that were erased.
    pub fn statistics(&self) -> PlacedStatistics {
        let counts = self.layer.counts();
        let unit_bytes = u128::from(self.unit_bytes);
        PlacedStatistics {
            host_bytes: self.host_bytes,
            media_bytes: u128::from(counts.written + counts.moved + counts.skipped) * unit_bytes,
            erased_bytes: u128::from(counts.erases) * u128::from(self.reclaim_unit_bytes()),
        }
    }

    /// Returns the translation layer of this drive.
    pub fn layer(&self) -> &TranslationLayer {
        &self.layer
    }
}

impl TranslationLayer {
    /// True if a mapping unit is in the incomplete line that a user stream is filling.
    fn is_in_line(&self, unit: u32, stream: u8) -> bool {
        let place = self.location(unit);
        let (open, line) = (self.current_open_block(FlashWriteStream::User(stream)), self.shape.line_units);
        place != FlashUnitLocation::NONE && open == Some(place.block) && {
            let written = self.blocks.all[index(place.block)].written;
            !written.is_multiple_of(line) && place.position >= written / line * line
        }
    }

    /// True if the next write to a user stream begins a new line.
    fn is_at_line_start(&self, stream: u8) -> bool {
        let open = self.current_open_block(FlashWriteStream::User(stream));
        open.is_none_or(|block| self.blocks.all[index(block)].written.is_multiple_of(self.shape.line_units))
    }
}
