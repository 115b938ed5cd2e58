//! Replacement policies of a device's DRAM cache, which choose the page to evict. They know neither times nor data.
//!
//! A policy knows the frames of the cache by number. The cache tells it which page each frame has been given and which
//! frame is accessed; the policy chooses the frame to replace. Every decision takes constant time, amortised over the
//! accesses. A frame that has never been used takes at most four bits of state, so that a cache of gigabytes that
//! starts full costs next to nothing at the start.

use crate::protocol::cxl::config::{CachePolicy, policies};

/// Replacement policy of a cache: chooses the frame whose page is evicted.
pub trait ReplacementPolicy {
    /// Returns the policy of a cache with `frames` frames, at least one. If `is_full` is true, the frames hold pages
    /// that were admitted in the order of their numbers and have not been accessed since.
    fn new(frames: u32, is_full: bool) -> Self
    where
        Self: Sized;

    /// Notes that a frame has been given a page that was not in the cache.
    fn admit(&mut self, frame: u32, page: u64);

    /// Notes that the page in a cache frame has been accessed, which may delay its eviction.
    fn touch(&mut self, frame: u32);

    /// Chooses the frame whose page is evicted, forgets that page, and returns the frame. `page_of` gives the page of a
    /// frame. Called only if all frames are in use.
    fn evict(&mut self, page_of: &dyn Fn(u32) -> u64) -> u32;
}

macro_rules! replacement {
    ($($module:ident: $Policy:ident = $name:literal, $about:literal;)+) => {
        $(mod $module;)+

        /// Replacement policy of a CXL device's DRAM cache, selected by the key `cxl.cache_policy`.
        #[derive(Clone, Debug)]
        pub enum CacheReplacement {
            $(#[doc = $about] $Policy($module::$Policy),)+
        }

        impl CacheReplacement {
            /// Returns the policy of this kind for a cache with `frames` frames. If `is_full` is true, they hold the
            /// device's first pages in order.
            pub fn of(policy: CachePolicy, frames: u32, is_full: bool) -> CacheReplacement {
                match policy {
                    $(CachePolicy::$Policy => CacheReplacement::$Policy($module::$Policy::new(frames, is_full)),)+
                }
            }

            /// Notes that a frame has been given a page that was not in the cache.
            pub fn admit(&mut self, frame: u32, page: u64) {
                match self {
                    $(CacheReplacement::$Policy(policy) => policy.admit(frame, page),)+
                }
            }

            /// Notes that the page in a cache frame has been accessed, which may delay its eviction.
            pub fn touch(&mut self, frame: u32) {
                match self {
                    $(CacheReplacement::$Policy(policy) => policy.touch(frame),)+
                }
            }

            /// Chooses the frame whose page is evicted, forgets that page, and returns the frame.
            pub fn evict(&mut self, page_of: &dyn Fn(u32) -> u64) -> u32 {
                match self {
                    $(CacheReplacement::$Policy(policy) => policy.evict(page_of),)+
                }
            }
        }
    };
}
policies!(replacement);
