//! First-in, first-out garbage collection: the victim is the block that was filled up first, however many of its units
//! are valid.

use super::{TranslationPolicySettings, TranslationPolicy};
use crate::media::translation::blocks::EraseBlocks;
use crate::media::translation::stationary::VictimPolicy;
use crate::random::RandomStream;

/// Policy `fifo`: collects the block that was filled up first.
#[derive(Clone, Debug)]
pub struct FifoPolicy;

impl TranslationPolicy for FifoPolicy {
    fn new(_settings: &TranslationPolicySettings) -> FifoPolicy {
        FifoPolicy
    }

    fn closed_form(_settings: &TranslationPolicySettings) -> Option<VictimPolicy> {
        Some(VictimPolicy::Oldest)
    }

    fn victim(&mut self, blocks: &EraseBlocks, _random: &mut RandomStream) -> Option<u32> {
        blocks.full().min_by_key(|block| blocks.order(*block))
    }
}
