//! Separation of hot and cold data: units that become invalid at about the same time share a block.
//!
//! A unit that was overwritten soon is expected to be overwritten soon again (Wang et al., "Separating data via block
//! invalidation time inference for write amplification reduction in log-structured storage", FAST 2022). User writes go
//! to two streams: a unit is hot if it has lived for less than the mean lifetime of recently collected hot blocks.
//! Moved units also go to two streams: units of hot or young blocks, and old units. The layer keeps no time for each
//! unit, so the mean of its block stands for it. Victims are chosen by [`super::cost_benefit`].

use super::cost_benefit::best_benefit_block;
use super::{TranslationPolicySettings, TranslationPolicy};
use crate::media::translation::blocks::{Blocks, FlashUnitLocation};
use crate::random::Random;

/// Number of collected hot blocks over which the mean lifetime is taken, as in the paper.
const SAMPLES: u32 = 16;
/// Multiple of the mean lifetime of hot blocks from which on moved units count as old, as in the paper.
const OLD: f64 = 4.0;
/// Number of the user stream for hot mapping units.
const HOT: u8 = 0;
/// Number of the user stream for all mapping units that are not hot.
const COLD: u8 = 1;

/// Policy `hot-cold`: separates hot from cold mapping units, and collects the block with the best ratio of benefit to
/// cost.
#[derive(Clone, Debug)]
pub struct HotCold {
    /// Mean lifetime of hot blocks, as the number of mapping units that the user writes meanwhile. Infinite until
    /// enough blocks have been collected.
    lifetime: f64,
    /// Number of hot blocks that have been collected since their mean lifetime was last computed.
    collected: u32,
    /// Sum of the lifetimes of hot blocks that have been collected since their mean lifetime was last computed, in
    /// mapping units that the user has written.
    lifetimes: f64,
}

impl TranslationPolicy for HotCold {
    const USER_STREAMS: u8 = 2;
    const MOVED_STREAMS: u8 = 2;

    fn new(_settings: &TranslationPolicySettings) -> HotCold {
        // Until 16 hot blocks have been collected, count every overwritten unit as hot. A unit written for the first
        // time is cold.
        HotCold { lifetime: f64::INFINITY, collected: 0, lifetimes: 0.0 }
    }

    fn victim(&mut self, blocks: &Blocks, _random: &mut Random) -> Option<u32> {
        best_benefit_block(blocks)
    }

    fn user_stream(&mut self, blocks: &Blocks, before: FlashUnitLocation) -> u8 {
        match before {
            FlashUnitLocation::NONE => COLD,
            _ if blocks.age(before.block) < self.lifetime => HOT,
            _ => COLD,
        }
    }

    fn moved_stream(&mut self, blocks: &Blocks, victim: u32) -> u8 {
        let age = blocks.age(victim);
        let is_hot = blocks.stream(victim) == HOT;
        if is_hot {
            (self.collected, self.lifetimes) = (self.collected + 1, self.lifetimes + age);
            if self.collected == SAMPLES {
                *self = HotCold { lifetime: self.lifetimes / f64::from(SAMPLES), collected: 0, lifetimes: 0.0 };
            }
        }
        u8::from(!is_hot && age >= OLD * self.lifetime)
    }

    fn scale_time(&mut self, factor: f64) {
        self.lifetime *= factor;
        self.lifetimes *= factor;
    }
}
