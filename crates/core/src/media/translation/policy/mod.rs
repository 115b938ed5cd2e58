//! Policies of a translation layer: which stream a write goes to, and which block is collected next.
//!
//! A policy is a type that implements [`TranslationPolicy`], in a file of its own in this folder, and one line in the
//! list `translation_policies!` of `config/policies.rs`. The line gives the policy a name in drive files
//! (`translation.policy`), an entry in the schema and in messages, and the dispatch below. [`greedy`] is the shortest
//! example.
//!
//! A policy sees the blocks ([`Blocks`]) and no time: its clock is the number of units that the user has written. The
//! layer calls [`TranslationPolicy::user_stream`] for each unit that the user writes,
//! [`TranslationPolicy::replaced_map_page`] for each miss of the map cache, and the other methods once a block.

use super::blocks::{Blocks, CachedMapPage, FlashUnitLocation, FlashWriteStream};
use super::stationary::VictimPolicy;
use crate::config::TranslationPolicyName;
use crate::config::policies::translation_policies;
use crate::random::Random;

/// Settings from a drive file that translation policies read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationPolicySettings {
    /// Number of randomly drawn blocks among which a victim is chosen (`translation.choices`).
    pub choices: u32,
}

/// Policy of a translation layer: streams of user writes and moved units, victims of garbage collection, and blocks to
/// open.
pub trait TranslationPolicy: Sized {
    /// Number of streams into which user writes are separated, each with an open block of its own.
    const USER_STREAMS: u8 = 1;
    /// Number of streams into which units that garbage collection moves are separated, each with an open block of its
    /// own.
    const MOVED_STREAMS: u8 = 1;

    /// Creates the policy for a drive on which nothing has been written.
    fn new(settings: &TranslationPolicySettings) -> Self;

    /// Returns the victim choice whose equation gives the steady state of uniform random writes. `None` if there is no
    /// equation; a small drive is then run in.
    fn closed_form(_settings: &TranslationPolicySettings) -> Option<VictimPolicy> {
        None
    }

    /// Returns the number of the full block to collect next; `None` if no block should be collected now.
    fn victim(&mut self, blocks: &Blocks, random: &mut Random) -> Option<u32>;

    /// Returns the stream of a mapping unit that the user writes, below [`TranslationPolicy::USER_STREAMS`]. `before`
    /// is the unit's location until now, [`FlashUnitLocation::NONE`] if it has none.
    fn user_stream(&mut self, _blocks: &Blocks, _before: FlashUnitLocation) -> u8 {
        0
    }

    /// Returns the stream of moved units that receives the valid mapping units of a victim, below
    /// [`TranslationPolicy::MOVED_STREAMS`]. A policy can learn from the victim here.
    fn moved_stream(&mut self, _blocks: &Blocks, _victim: u32) -> u8 {
        0
    }

    /// Returns the index in `pages` of the mapping table page that leaves the cache, if the drive's memory does not
    /// hold the whole table. `pages` are up to eight pages that have not been used for the longest time, the least
    /// recently used one first.
    fn replaced_map_page(&mut self, _pages: &[CachedMapPage]) -> usize {
        0
    }

    /// Multiplies the times that the policy has learnt by `factor`, when a drive of another size takes over its state.
    /// Times are counts of mapping units that the user writes.
    fn scale_time(&mut self, _factor: f64) {}

    /// Returns the index in `free`, which is not empty, of the block that a stream opens next. By default it is the
    /// least erased block.
    fn next_block(&mut self, blocks: &Blocks, free: &[u32], _stream: FlashWriteStream) -> usize {
        // Take the block with the fewest erases, for even wear.
        blocks.least_erased_free_block(free).unwrap_or(0)
    }
}

macro_rules! policy_dispatch {
    ($($policy:ident = $name:literal in $file:ident,)+) => {
        $(pub mod $file;)+

        /// Translation policy with its state, one variant for each policy of the list.
        #[derive(Clone, Debug)]
        pub enum Policy {
            $(
                #[doc = concat!("The policy `", $name, "`.")]
                $policy($file::$policy),
            )+
        }

        impl Policy {
            /// Creates the translation policy with this name.
            pub fn new(name: TranslationPolicyName, settings: &TranslationPolicySettings) -> Policy {
                match name {
                    $(TranslationPolicyName::$policy => Policy::$policy($file::$policy::new(settings)),)+
                }
            }

            /// Returns the victim choice whose equation gives the steady state of a policy; `None` if there is no
            /// equation.
            pub fn closed_form(name: TranslationPolicyName, settings: &TranslationPolicySettings) -> Option<VictimPolicy> {
                match name {
                    $(TranslationPolicyName::$policy => $file::$policy::closed_form(settings),)+
                }
            }

            /// Returns the number of user streams and the number of streams of moved units of a policy.
            pub const fn streams(name: TranslationPolicyName) -> (u8, u8) {
                match name {
                    $(TranslationPolicyName::$policy => ($file::$policy::USER_STREAMS, $file::$policy::MOVED_STREAMS),)+
                }
            }

            pub(super) fn victim(&mut self, blocks: &Blocks, random: &mut Random) -> Option<u32> {
                match self {
                    $(Policy::$policy(policy) => policy.victim(blocks, random),)+
                }
            }

            #[inline]
            pub(super) fn user_stream(&mut self, blocks: &Blocks, before: FlashUnitLocation) -> u8 {
                match self {
                    $(Policy::$policy(policy) => policy.user_stream(blocks, before),)+
                }
            }

            pub(super) fn moved_stream(&mut self, blocks: &Blocks, victim: u32) -> u8 {
                match self {
                    $(Policy::$policy(policy) => policy.moved_stream(blocks, victim),)+
                }
            }

            pub(super) fn replaced_map_page(&mut self, pages: &[CachedMapPage]) -> usize {
                match self {
                    $(Policy::$policy(policy) => policy.replaced_map_page(pages),)+
                }
            }

            pub(super) fn scale_time(&mut self, factor: f64) {
                match self {
                    $(Policy::$policy(policy) => policy.scale_time(factor),)+
                }
            }

            pub(super) fn next_block(&mut self, blocks: &Blocks, free: &[u32], stream: FlashWriteStream) -> usize {
                match self {
                    $(Policy::$policy(policy) => policy.next_block(blocks, free, stream),)+
                }
            }
        }
    };
}
translation_policies!(policy_dispatch);
