//! Greedy garbage collection: the victim is the block with the fewest valid units.

use super::{TranslationPolicySettings, TranslationPolicy};
use crate::media::translation::blocks::Blocks;
use crate::media::translation::stationary::VictimPolicy;
use crate::random::Random;

/// Policy `greedy`: collects the block with the fewest valid mapping units.
#[derive(Clone, Debug)]
pub struct Greedy;

impl TranslationPolicy for Greedy {
    fn new(_settings: &TranslationPolicySettings) -> Greedy {
        Greedy
    }

    fn closed_form(_settings: &TranslationPolicySettings) -> Option<VictimPolicy> {
        Some(VictimPolicy::Emptiest)
    }

    fn victim(&mut self, blocks: &Blocks, _random: &mut Random) -> Option<u32> {
        blocks.full().min_by_key(|block| blocks.valid(*block)).filter(|block| blocks.has_invalid_units(*block))
    }
}
