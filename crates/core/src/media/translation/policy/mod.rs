//! Policies of a translation layer: where writes go, and which block is collected next.
//!
//! A policy is a type that implements [`TranslationPolicy`], in a file of its own in this folder, and one line in the list
//! `translation_policies!` of `config/policies.rs`. The line gives it a name in drive files (`translation.policy`), a place
//! in the schema and in messages, and the dispatch below. [`greedy`] is the shortest example.
//!
//! A policy sees the blocks ([`Blocks`]) and no time: its clock is the number of units that the user has written. The layer
//! calls [`TranslationPolicy::user_stream`] for each unit that the user writes, and the other methods once a block.

use super::blocks::{Blocks, MapPage, UnitLocation, WriteStream};
use super::stationary::VictimPolicy;
use crate::config::PolicyName;
use crate::config::policies::translation_policies;
use crate::random::Random;

/// Keys of a drive file that policies read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// Number of random blocks among which a victim is chosen (`translation.choices`).
    pub choices: u32,
}

/// Decisions of a translation layer.
pub trait TranslationPolicy: Sized {
    /// Number of streams into which the user's writes are separated, each with an open block of its own.
    const USER_STREAMS: u8 = 1;
    /// Number of streams into which moved units are separated, each with an open block of its own.
    const MOVED_STREAMS: u8 = 1;

    /// Creates the policy of a drive on which nothing has been written.
    fn new(settings: &PolicySettings) -> Self;

    /// Returns the equation that gives the steady state of uniform random writes. Without one, a small drive is run in.
    fn closed_form(_settings: &PolicySettings) -> Option<VictimPolicy> {
        None
    }

    /// Returns the full block to collect next; `None` if no block should be collected now.
    fn victim(&mut self, blocks: &Blocks, random: &mut Random) -> Option<u32>;

    /// Returns the stream of a unit that the user writes, below [`TranslationPolicy::USER_STREAMS`]. `before` is its location
    /// until now, [`UnitLocation::NONE`] if it has none.
    fn user_stream(&mut self, _blocks: &Blocks, _before: UnitLocation) -> u8 {
        0
    }

    /// Returns the stream of the valid units of a victim, below [`TranslationPolicy::MOVED_STREAMS`]. A policy can learn from
    /// the victim here.
    fn moved_stream(&mut self, _blocks: &Blocks, _victim: u32) -> u8 {
        0
    }

    /// Returns the place in `pages` of the page of the mapping table that is replaced, on drives whose memory does not hold all of
    /// them. `pages` are those that have not been used for the longest time, up to eight, the least recently used one first.
    fn replaced_map_page(&mut self, _pages: &[MapPage]) -> usize {
        0
    }

    /// Multiplies the times that the policy has learnt, in units that the user writes, when its state is given to a drive of
    /// another size.
    fn scale_time(&mut self, _factor: f64) {}

    /// Returns the place in `free`, which is not empty, of the block that a stream opens next.
    fn next_block(&mut self, blocks: &Blocks, free: &[u32], _stream: WriteStream) -> usize {
        // Blocks that are erased least, so that all blocks are used equally.
        blocks.least_erased(free).unwrap_or(0)
    }
}

macro_rules! policy_dispatch {
    ($($policy:ident = $name:literal in $file:ident,)+) => {
        $(pub mod $file;)+

        /// A policy with its state.
        #[derive(Clone, Debug)]
        pub enum Policy {
            $(
                #[doc = concat!("The policy `", $name, "`.")]
                $policy($file::$policy),
            )+
        }

        impl Policy {
            /// Creates the policy of this name.
            pub fn new(name: PolicyName, settings: &PolicySettings) -> Policy {
                match name {
                    $(PolicyName::$policy => Policy::$policy($file::$policy::new(settings)),)+
                }
            }

            /// Returns the equation of a policy's steady state, if there is one.
            pub fn closed_form(name: PolicyName, settings: &PolicySettings) -> Option<VictimPolicy> {
                match name {
                    $(PolicyName::$policy => $file::$policy::closed_form(settings),)+
                }
            }

            /// Returns the number of streams of the user, and of moved units.
            pub const fn streams(name: PolicyName) -> (u8, u8) {
                match name {
                    $(PolicyName::$policy => ($file::$policy::USER_STREAMS, $file::$policy::MOVED_STREAMS),)+
                }
            }

            pub(super) fn victim(&mut self, blocks: &Blocks, random: &mut Random) -> Option<u32> {
                match self {
                    $(Policy::$policy(policy) => policy.victim(blocks, random),)+
                }
            }

            #[inline]
            pub(super) fn user_stream(&mut self, blocks: &Blocks, before: UnitLocation) -> u8 {
                match self {
                    $(Policy::$policy(policy) => policy.user_stream(blocks, before),)+
                }
            }

            pub(super) fn moved_stream(&mut self, blocks: &Blocks, victim: u32) -> u8 {
                match self {
                    $(Policy::$policy(policy) => policy.moved_stream(blocks, victim),)+
                }
            }

            pub(super) fn replaced_map_page(&mut self, pages: &[MapPage]) -> usize {
                match self {
                    $(Policy::$policy(policy) => policy.replaced_map_page(pages),)+
                }
            }

            pub(super) fn scale_time(&mut self, factor: f64) {
                match self {
                    $(Policy::$policy(policy) => policy.scale_time(factor),)+
                }
            }

            pub(super) fn next_block(&mut self, blocks: &Blocks, free: &[u32], stream: WriteStream) -> usize {
                match self {
                    $(Policy::$policy(policy) => policy.next_block(blocks, free, stream),)+
                }
            }
        }
    };
}
translation_policies!(policy_dispatch);
