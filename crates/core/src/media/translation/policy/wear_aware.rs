//! Wear levelling as a policy: blocks that were erased often are collected late and hold data that is seldom written.
//!
//! The victim has the least `erases u / ((1 - u) age)`, where `u` is its share of valid units: the cost of cleaning,
//! the age, and the number of times that the block was cleaned (Chiang and Chang, "Cleaning policies in mobile
//! computers using flash memory", Journal of Systems and Software 48, 1999). User writes go to the least erased free
//! block, moved units to the most erased one. A cached page of the mapping table that has not changed is replaced
//! before one that has.

use super::{TranslationPolicySettings, TranslationPolicy};
use crate::media::translation::blocks::{Blocks, CachedMapPage, FlashWriteStream};
use crate::random::Random;

/// Number of earlier erases that every block is assumed to have, so that the first few erases in a run do not count as
/// many times the wear of other blocks.
const ERASES_BEFORE: f64 = 16.0;

/// Policy `wear-aware`: collects often erased blocks late, and fills them with mapping units that are seldom written.
#[derive(Clone, Debug)]
pub struct WearAware;

impl TranslationPolicy for WearAware {
    fn new(_settings: &TranslationPolicySettings) -> WearAware {
        WearAware
    }

    fn victim(&mut self, blocks: &Blocks, _random: &mut Random) -> Option<u32> {
        let mut best = None;
        for block in blocks.full().filter(|block| blocks.has_invalid_units(*block)) {
            let (valid, invalid) = (blocks.valid(block), blocks.units() - blocks.valid(block));
            let erases = f64::from(blocks.erases(block)) + ERASES_BEFORE;
            let cost = erases * f64::from(valid) / (f64::from(invalid) * blocks.age(block).max(1.0));
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, block));
            }
        }
        best.map(|(_, block)| block)
    }

    /// Returns the first of `pages` that has not changed, which needs no write when it leaves the cache; the least
    /// recently used one if all have changed (Park et al., "CFLRU: a replacement algorithm for flash memory", CASES
    /// 2006).
    fn replaced_map_page(&mut self, pages: &[CachedMapPage]) -> usize {
        pages.iter().position(|page| !page.is_changed).unwrap_or(0)
    }

    fn next_block(&mut self, blocks: &Blocks, free: &[u32], stream: FlashWriteStream) -> usize {
        let place = match stream {
            FlashWriteStream::Moved(_) => blocks.most_erased_free_block(free),
            _ => blocks.least_erased_free_block(free),
        };
        place.unwrap_or(0)
    }
}
