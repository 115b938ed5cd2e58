//! Separation of hot and cold data: units that will be invalid at about the same time share a block.
//!
//! A unit that was overwritten soon is expected to be overwritten soon again (Wang et al., "Separating data via block
//! invalidation time inference for write amplification reduction in log-structured storage", FAST 2022). The user's
//! writes have two streams, divided at the mean lifetime of the last blocks of the hot one. Moved units have two as well:
//! those of hot or young blocks, and old ones. As the layer keeps no time for each unit, the mean of its block stands for
//! it. Victims are chosen by [`super::cost_benefit`].

use super::cost_benefit::most_beneficial;
use super::{PolicySettings, TranslationPolicy};
use crate::media::translation::blocks::{Blocks, UnitLocation};
use crate::random::Random;

/// Number of hot blocks whose lifetimes make a mean, as in the paper.
const SAMPLES: u32 = 16;
/// Multiple of that mean from which on moved units are old, as in the paper.
const OLD: f64 = 4.0;
/// Number of the user's stream that takes hot units.
const HOT: u8 = 0;
/// Number of the user's stream that takes all others.
const COLD: u8 = 1;

/// Policy `hot-cold`.
#[derive(Clone, Debug)]
pub struct HotCold {
    /// Mean lifetime of hot blocks, in units that the user writes.
    lifetime: f64,
    /// Number and sum of the lifetimes since the mean was last taken.
    collected: u32,
    lifetimes: f64,
}

impl TranslationPolicy for HotCold {
    const USER_STREAMS: u8 = 2;
    const MOVED_STREAMS: u8 = 2;

    fn new(_settings: &PolicySettings) -> HotCold {
        // All units are hot until the first blocks have been collected.
        HotCold { lifetime: f64::INFINITY, collected: 0, lifetimes: 0.0 }
    }

    fn victim(&mut self, blocks: &Blocks, _random: &mut Random) -> Option<u32> {
        most_beneficial(blocks)
    }

    fn user_stream(&mut self, blocks: &Blocks, before: UnitLocation) -> u8 {
        match before {
            UnitLocation::NONE => COLD,
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
