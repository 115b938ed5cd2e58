//! A drive that begins as others are after days: written from one end to the other, or overwritten at random until its
//! state no longer changes.

use super::cohorts::Cohorts;
use super::stationary::valid_units;
use super::{Shape, Stream, Translation};
use crate::media::randomiser::Randomiser;
use crate::random::{Random, mix};

/// Blocks that are not full in the steady state: one of each stream, and one that is erased.
const OPEN_BLOCKS: u32 = 3;

impl Translation {
    /// Every unit has been written once, in the order of addresses.
    pub fn written_in_order(shape: Shape, seed: u64) -> Translation {
        let full = (shape.units / u64::from(shape.block_units)) as u32;
        let rest = (shape.units % u64::from(shape.block_units)) as u32;
        let valid = (0..full).map(|_| shape.block_units).chain((rest > 0).then_some(rest)).collect();
        Translation::filled(shape, seed, valid, None)
    }

    /// Every unit has been overwritten at random many times: the steady state, in which cleaning begins where it goes on.
    pub fn overwritten_at_random(shape: Shape, seed: u64) -> Translation {
        let mut random = Random::stream(seed, "steady state of flash");
        let block_units = shape.block_units;
        // With one that is erased, room for two blocks: what is kept when the cleaning of a block begins.
        let half = block_units / 2 / shape.line_units * shape.line_units;
        let open = [half, block_units - half];
        let sealed_units = shape.units.saturating_sub(open.iter().map(|units| u64::from(*units)).sum());
        let sealed = shape.blocks - OPEN_BLOCKS;
        let mut valid = valid_units(shape.choice, sealed, block_units, sealed_units, &mut random);
        valid.extend(open);
        let shuffle = Randomiser::new(shape.units, mix(random.bits()));
        let mut drive = Translation::filled(shape, seed, valid, Some(shuffle));
        for (stream, written) in [Stream::User, Stream::Moved].into_iter().zip(open) {
            drive.reopen(stream, sealed + stream as u32, written);
        }
        drive
    }

    /// A stream goes on with a block of which so many units have been written.
    fn reopen(&mut self, stream: Stream, block: u32, written: u32) {
        (self.blocks[block as usize].written, self.blocks[block as usize].sealed) = (written, 0);
        self.open[stream as usize] = Some(block);
    }

    /// Blocks with so many valid units each, the oldest first; the others are erased.
    fn filled(shape: Shape, seed: u64, valid: Vec<u32>, shuffle: Option<Randomiser>) -> Translation {
        let mut drive = Translation::new(shape, seed);
        for (block, valid) in (0..).zip(&valid) {
            drive.sealed += 1;
            let this = &mut drive.blocks[block as usize];
            (this.valid, this.written, this.sealed) = (*valid, shape.block_units, drive.sealed);
        }
        drive.free.retain(|block| *block as usize >= valid.len());
        let blocks = (0..).zip(valid).map(|(block, valid)| {
            // What is no longer valid lies between: the units of a shuffled block are spread over all of it.
            let is_spread = shuffle.is_some() && block + OPEN_BLOCKS < shape.blocks;
            (block, valid, if is_spread { shape.block_units } else { valid })
        });
        drive.cohorts = Cohorts::new(blocks, shuffle);
        drive
    }
}
