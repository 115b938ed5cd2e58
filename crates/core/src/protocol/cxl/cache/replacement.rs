//! Replacement policies of a device's cache: decisions without time and without data.
//!
//! A policy knows the frames of the cache by number. It is told which page a frame has been given, and which frame has
//! been accessed, and says which frame is to be replaced. Every decision takes constant time, amortised over the
//! accesses; state is kept for frames that have been used alone, so that a cache of gigabytes that starts full costs
//! nothing at the start.

use crate::protocol::cxl::config::{CachePolicy, policies};

/// Decisions about the frames of a full cache.
pub trait ReplacementPolicy {
    /// Makes the policy of a cache with `frames` frames, at least one. If `is_full` is true, they hold pages that were
    /// admitted in the order of their numbers and have not been accessed since.
    fn new(frames: u32, is_full: bool) -> Self
    where
        Self: Sized;

    /// Notes that a page, which was not in the cache, has been given a frame.
    fn admit(&mut self, frame: u32, page: u64);

    /// Notes an access to the page in a frame.
    fn touch(&mut self, frame: u32);

    /// Chooses the frame to be replaced, and forgets its page, which `page_of` returns. All frames are in use.
    fn evict(&mut self, page_of: &dyn Fn(u32) -> u64) -> u32;
}

macro_rules! replacement {
    ($($module:ident: $Policy:ident = $name:literal, $about:literal;)+) => {
        $(mod $module;)+

        /// Replacement policy of a cache, one of the list in the keys of CXL.mem.
        #[derive(Clone, Debug)]
        pub enum Replacement {
            $(#[doc = $about] $Policy($module::$Policy),)+
        }

        impl Replacement {
            /// Makes a policy for a cache with `frames` frames, which hold the first pages in order if `is_full` is true.
            pub fn of(policy: CachePolicy, frames: u32, is_full: bool) -> Replacement {
                match policy {
                    $(CachePolicy::$Policy => Replacement::$Policy($module::$Policy::new(frames, is_full)),)+
                }
            }

            /// Notes that a page has been given a frame.
            pub fn admit(&mut self, frame: u32, page: u64) {
                match self {
                    $(Replacement::$Policy(policy) => policy.admit(frame, page),)+
                }
            }

            /// Notes an access to the page in a frame.
            pub fn touch(&mut self, frame: u32) {
                match self {
                    $(Replacement::$Policy(policy) => policy.touch(frame),)+
                }
            }

            /// Chooses the frame to be replaced, and forgets its page.
            pub fn evict(&mut self, page_of: &dyn Fn(u32) -> u64) -> u32 {
                match self {
                    $(Replacement::$Policy(policy) => policy.evict(page_of),)+
                }
            }
        }
    };
}
policies!(replacement);
