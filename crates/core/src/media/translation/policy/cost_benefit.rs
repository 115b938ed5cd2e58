//! Cost-benefit garbage collection: the benefit of a victim is the room that it yields, times the age of its units,
//! since old units stay valid longer. Its cost is the moves of its valid units.
//!
//! The victim has the largest `age (1 - u) / 2u`, where `u` is its share of valid units (Kawaguchi, Nishioka and
//! Motoda, "A flash-memory based file system", USENIX 1995). A block of units that are seldom written is collected
//! while more of them are valid than in a block whose units will soon be overwritten anyway.

use super::{TranslationPolicySettings, TranslationPolicy};
use crate::media::translation::blocks::Blocks;
use crate::random::Random;

/// Policy `cost-benefit`: collects the block with the best ratio of benefit to cost.
#[derive(Clone, Debug)]
pub struct CostBenefit;

impl TranslationPolicy for CostBenefit {
    fn new(_settings: &TranslationPolicySettings) -> CostBenefit {
        CostBenefit
    }

    fn victim(&mut self, blocks: &Blocks, _random: &mut Random) -> Option<u32> {
        best_benefit_block(blocks)
    }
}

/// Returns the full block that has the largest ratio of benefit to cost, as defined for this module; `None` if all
/// mapping units of every full block are valid.
pub(super) fn best_benefit_block(blocks: &Blocks) -> Option<u32> {
    let mut best = None;
    for block in blocks.full().filter(|block| blocks.has_invalid_units(*block)) {
        let (valid, units) = (f64::from(blocks.valid(block)), f64::from(blocks.units()));
        // A block without valid units costs nothing to collect.
        let benefit = if valid > 0.0 { blocks.age(block) * (units - valid) / (2.0 * valid) } else { f64::INFINITY };
        if best.is_none_or(|(most, _)| benefit > most) {
            best = Some((benefit, block));
        }
    }
    best.map(|(_, block)| block)
}
