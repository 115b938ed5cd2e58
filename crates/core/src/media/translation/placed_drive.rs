//! Translation layer of a drive whose hosts choose streams, by itself: without dies, without a write buffer beyond the line that a
//! stream fills, and without time. A served drive counts by it what its hosts' writes cost the cells.

use super::{TranslationLayer, TranslationShape, UnitLocation, UnitMove, WriteStream};
use crate::number::{index, narrow};

/// Seed of random choices of garbage collection, as all served drives have it.
const SEED: u64 = 1;

/// Drive on which hosts choose streams, as far as its translation layer goes.
#[derive(Clone, Debug)]
pub struct PlacedDrive {
    layer: TranslationLayer,
    unit_bytes: u32,
    host_bytes: u128,
    moved: Vec<UnitMove>,
    erased: Vec<u32>,
}

/// Bytes that hosts have written, that were programmed, and that were erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacedStatistics {
    /// Bytes that hosts have written (HBMW).
    pub host_bytes: u128,
    /// Bytes that were programmed, those of garbage collection included (MBMW).
    pub media_bytes: u128,
    /// Bytes of the blocks that were erased (MBE).
    pub erased_bytes: u128,
}

/// Units that garbage collection has moved while a write was made room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedMove {
    /// Stream of moved units that has taken them.
    pub stream: u8,
    /// Number of bytes.
    pub bytes: u64,
}

impl PlacedDrive {
    /// Creates a drive on which nothing has been written, with units of so many bytes.
    pub fn new(shape: TranslationShape, unit_bytes: u32) -> PlacedDrive {
        let layer = TranslationLayer::new(shape, SEED);
        PlacedDrive { layer, unit_bytes, host_bytes: 0, moved: Vec::new(), erased: Vec::new() }
    }

    /// Writes `bytes` from `offset` to a stream. Units of the line that the stream fills take no more cells if they are written again.
    /// Returns what garbage collection has moved.
    pub fn write(&mut self, offset: u64, bytes: u64, stream: u8) -> Vec<PlacedMove> {
        self.host_bytes += u128::from(bytes);
        let unit_bytes = u64::from(self.unit_bytes);
        let first_moved = self.layer.first_moved;
        let mut moves: Vec<PlacedMove> = Vec::new();
        for unit in offset / unit_bytes..(offset + bytes).div_ceil(unit_bytes) {
            let unit = narrow::<u32, u64>(unit);
            if self.layer.is_in_line(unit, stream) {
                continue;
            }
            if self.layer.begins_line(stream) {
                let line_units = self.layer.shape.line_units;
                self.layer.make_room_for(stream, line_units, &mut self.moved, &mut self.erased);
            }
            self.layer.write_to(unit, stream);
            self.erased.clear();
            for UnitMove { units, to, .. } in self.moved.drain(..) {
                let stream = self.layer.blocks.stream(to.block).saturating_sub(first_moved);
                let bytes = u64::from(units) * unit_bytes;
                match moves.iter_mut().find(|known| known.stream == stream) {
                    Some(known) => known.bytes += bytes,
                    None => moves.push(PlacedMove { stream, bytes }),
                }
            }
        }
        moves
    }

    /// Deallocates bytes. Units that lie only partly within them stay.
    pub fn discard(&mut self, offset: u64, bytes: u64) {
        let unit_bytes = u64::from(self.unit_bytes);
        for unit in offset.div_ceil(unit_bytes)..(offset + bytes) / unit_bytes {
            self.layer.discard(narrow::<u32, u64>(unit));
        }
    }

    /// Has a stream begin another reclaim unit, if the one that it refers to has been written. Returns the bytes that this still had
    /// room for.
    pub fn renew(&mut self, stream: u8) -> u64 {
        u64::from(self.layer.close(stream)) * u64::from(self.unit_bytes)
    }

    /// Returns the bytes that the reclaim unit of a stream still has room for.
    pub fn room_bytes(&self, stream: u8) -> u64 {
        u64::from(self.layer.room_in_unit(stream)) * u64::from(self.unit_bytes)
    }

    /// Returns the bytes of a reclaim unit.
    pub fn reclaim_unit_bytes(&self) -> u64 {
        u64::from(self.layer.shape.block_units) * u64::from(self.unit_bytes)
    }

    /// Returns what has been written, programmed and erased.
    pub fn statistics(&self) -> PlacedStatistics {
        let counts = self.layer.counts();
        let unit_bytes = u128::from(self.unit_bytes);
        PlacedStatistics {
            host_bytes: self.host_bytes,
            media_bytes: u128::from(counts.written + counts.moved + counts.skipped) * unit_bytes,
            erased_bytes: u128::from(counts.erases) * u128::from(self.reclaim_unit_bytes()),
        }
    }

    /// Returns the translation layer.
    pub fn layer(&self) -> &TranslationLayer {
        &self.layer
    }
}

impl TranslationLayer {
    /// Returns true if a unit is in the line that a stream fills.
    fn is_in_line(&self, unit: u32, stream: u8) -> bool {
        let place = self.location(unit);
        let (open, line) = (self.open_of(WriteStream::User(stream)), self.shape.line_units);
        place != UnitLocation::NONE && open == Some(place.block) && {
            let written = self.blocks.all[index(place.block)].written;
            !written.is_multiple_of(line) && place.position >= written / line * line
        }
    }

    /// Returns true if the next write to a stream begins a line.
    fn begins_line(&self, stream: u8) -> bool {
        let open = self.open_of(WriteStream::User(stream));
        open.is_none_or(|block| self.blocks.all[index(block)].written.is_multiple_of(self.shape.line_units))
    }
}
