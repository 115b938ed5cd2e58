//! First-in, first-out garbage collection: the victim is the block that was filled up first, however many of its units
//! are valid.

use super::{TranslationPolicySettings, TranslationPolicy};
use crate::media::translation::blocks::Blocks;
use crate::media::translation::stationary::VictimPolicy;
use crate::random::Random;

/// Policy `fifo`: collects the block that was filled up first.
#[derive(Clone, Debug)]
pub struct Fifo;

impl TranslationPolicy for Fifo {
    fn new(_settings: &TranslationPolicySettings) -> Fifo {
        Fifo
    }

    fn closed_form(_settings: &TranslationPolicySettings) -> Option<VictimPolicy> {
        Some(VictimPolicy::Oldest)
    }

    fn victim(&mut self, blocks: &Blocks, _random: &mut Random) -> Option<u32> {
        blocks.full().min_by_key(|block| blocks.order(*block))
    }
}
