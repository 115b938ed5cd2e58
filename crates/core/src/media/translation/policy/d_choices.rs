//! Garbage collection by d choices: the victim is the block with the fewest valid units among a few random ones, so
//! that a controller need not keep all blocks in order.

use super::{TranslationPolicySettings, TranslationPolicy};
use crate::media::translation::blocks::Blocks;
use crate::media::translation::stationary::VictimPolicy;
use crate::random::Random;

/// Policy `d-choices`: collects the emptiest of `choices` full blocks that are drawn at random.
#[derive(Clone, Debug)]
pub struct DChoices {
    choices: u32,
}

impl TranslationPolicy for DChoices {
    fn new(settings: &TranslationPolicySettings) -> DChoices {
        DChoices { choices: settings.choices }
    }

    fn closed_form(settings: &TranslationPolicySettings) -> Option<VictimPolicy> {
        Some(VictimPolicy::EmptiestOf(settings.choices))
    }

    fn victim(&mut self, blocks: &Blocks, random: &mut Random) -> Option<u32> {
        // Nearly all blocks of a full drive are full, so few draws fail.
        let drawn = (0..self.choices).filter_map(|_| blocks.draw_full_block(random));
        drawn.min_by_key(|block| blocks.valid(*block)).filter(|block| blocks.has_invalid_units(*block))
    }
}
