//! Preconditioned drives, which begin in the state that others reach after days: written sequentially, or overwritten
//! at random until the steady state.

use super::cohorts::Cohorts;
use super::stationary::{valid_units, write_amplification};
use super::{TranslationLayer, TranslationShape, WriteStream};
use crate::media::randomiser::Randomiser;
use crate::number::{index, narrow};
use crate::random::{Random, mix};

/// Number of blocks that are not full in the steady state: one of each stream, and an erased one.
const OPEN_BLOCKS: u32 = 3;

impl TranslationShape {
    /// Returns the write amplification in the steady state of random writes of `request_units` at a time, to a region of
    /// `region_units`. Units outside of the region fill whole blocks by then, so that all spare blocks serve the region.
    /// This is the least: policies that do not choose the emptiest block collect some of these blocks, too.
    pub fn steady_amplification(&self, region_units: u64, request_units: u32) -> f64 {
        let (block, region) = (f64::from(self.block_units), region_units.min(self.units) as f64);
        let outside = (self.units as f64 - region) / block;
        // The open blocks together hold the units of one block.
        let sealed = f64::from(self.blocks - OPEN_BLOCKS) - outside;
        let spare = sealed * block / (region - block) - 1.0;
        let requests = (self.block_units / request_units.max(1)).max(1);
        if region > block { write_amplification(self.victim_policy, requests, spare) } else { 1.0 }
    }
}

impl TranslationLayer {
    /// Creates a drive on which every unit has been written once, in the order of addresses.
    pub fn written_in_order(shape: TranslationShape, seed: u64) -> TranslationLayer {
        let full = narrow::<u32, u64>(shape.units / u64::from(shape.block_units));
        let rest = narrow::<u32, u64>(shape.units % u64::from(shape.block_units));
        let valid = (0..full).map(|_| shape.block_units).chain((rest > 0).then_some(rest)).collect();
        TranslationLayer::filled(shape, seed, valid, None)
    }

    /// Creates a drive on which every unit has been overwritten at random many times: the steady state, in which
    /// garbage collection continues from the first write on.
    pub fn overwritten_at_random(shape: TranslationShape, seed: u64) -> TranslationLayer {
        let mut random = Random::stream(seed, "steady state of flash");
        let block_units = shape.block_units;
        // Together with the erased block these leave room for two blocks: the reserve when the collection of a block
        // begins.
        let half = block_units / 2 / shape.line_units * shape.line_units;
        let open = [half, block_units - half];
        let sealed_units = shape.units.saturating_sub(open.iter().map(|units| u64::from(*units)).sum());
        let sealed = shape.blocks - OPEN_BLOCKS;
        let mut valid = valid_units(shape.victim_policy, sealed, block_units, sealed_units, &mut random);
        valid.extend(open);
        let shuffle = Randomiser::new(shape.units, mix(random.bits()));
        let mut drive = TranslationLayer::filled(shape, seed, valid, Some(shuffle));
        for (stream, written) in [WriteStream::User, WriteStream::Moved].into_iter().zip(open) {
            drive.reopen(stream, sealed + stream as u32, written);
        }
        drive
    }

    /// Makes a block of which `written` units have been written the open block of a stream.
    fn reopen(&mut self, stream: WriteStream, block: u32, written: u32) {
        (self.blocks[index(block)].written, self.blocks[index(block)].sealed) = (written, 0);
        self.open[stream as usize] = Some(block);
    }

    /// Creates a drive whose first blocks have these numbers of valid units, the oldest block first; its other blocks
    /// are erased.
    fn filled(shape: TranslationShape, seed: u64, valid: Vec<u32>, shuffle: Option<Randomiser>) -> TranslationLayer {
        let mut drive = TranslationLayer::new(shape, seed);
        for (block, valid) in (0..).zip(&valid) {
            drive.sealed += 1;
            let this = &mut drive.blocks[index(block)];
            (this.valid, this.written, this.sealed) = (*valid, shape.block_units, drive.sealed);
        }
        drive.free.retain(|block| index(*block) >= valid.len());
        let blocks = (0..).zip(valid).map(|(block, valid)| {
            // Invalid units lie between valid ones: the units of a shuffled block are spread over all of it.
            let is_spread = shuffle.is_some() && block + OPEN_BLOCKS < shape.blocks;
            (block, valid, if is_spread { shape.block_units } else { valid })
        });
        drive.cohorts = Cohorts::new(blocks, shuffle);
        drive
    }
}
