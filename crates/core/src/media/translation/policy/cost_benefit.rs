//! Cost and benefit: a victim yields room, lasts as it is the longer the older its units are, and costs the moves of its
//! valid units.
//!
//! The victim has the largest `age (1 - u) / 2u`, where `u` is its share of valid units (Kawaguchi, Nishioka and Motoda, "A
//! flash-memory based file system", USENIX 1995): a block of units that are seldom written is collected while more of
//! them are valid than in one whose units will soon be overwritten anyway.

use super::{PolicySettings, TranslationPolicy};
use crate::media::translation::blocks::Blocks;
use crate::random::Random;

/// Policy `cost-benefit`.
#[derive(Clone, Debug)]
pub struct CostBenefit;

impl TranslationPolicy for CostBenefit {
    fn new(_settings: &PolicySettings) -> CostBenefit {
        CostBenefit
    }

    fn victim(&mut self, blocks: &Blocks, _random: &mut Random) -> Option<u32> {
        most_beneficial(blocks)
    }
}

/// Returns the full block that has the largest benefit for its cost.
pub(super) fn most_beneficial(blocks: &Blocks) -> Option<u32> {
    let mut best = None;
    for block in blocks.full().filter(|block| blocks.makes_room(*block)) {
        let (valid, units) = (f64::from(blocks.valid(block)), f64::from(blocks.units()));
        // Without valid units there is no cost.
        let benefit = if valid > 0.0 { blocks.age(block) * (units - valid) / (2.0 * valid) } else { f64::INFINITY };
        if best.is_none_or(|(most, _)| benefit > most) {
            best = Some((benefit, block));
        }
    }
    best.map(|(_, block)| block)
}
