//! Greedy garbage collection: the victim is the block with the fewest valid units.

use super::{TranslationPolicySettings, TranslationPolicy};
use crate::media::translation::blocks::EraseBlocks;
use crate::media::translation::stationary::VictimPolicy;
use crate::random::RandomStream;

/// Policy `greedy`: collects the block with the fewest valid mapping units.
#[derive(Clone, Debug)]
pub struct GreedyPolicy;

impl TranslationPolicy for GreedyPolicy {
    fn new(_settings: &TranslationPolicySettings) -> GreedyPolicy {
        GreedyPolicy
    }

    fn closed_form(_settings: &TranslationPolicySettings) -> Option<VictimPolicy> {
        Some(VictimPolicy::Emptiest)
    }

    fn victim(&mut self, blocks: &EraseBlocks, _random: &mut RandomStream) -> Option<u32> {
        blocks.full().min_by_key(|block| blocks.valid(*block)).filter(|block| blocks.has_invalid_units(*block))
    }
}
