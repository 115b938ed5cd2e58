//! Part of a drive file about drives that store values by keys instead of logical blocks.

use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// Values that hosts store and retrieve by their keys instead of logical blocks (NVMe Key Value Command Set). By default there are none.
    pub struct KeyValues ("key_value") {
        /// Largest value (KV Value Max Length), which one command moves; 0: the drive has logical blocks
        value_max_kib => value_max_kib: u32 = 0, 0..=2048;
        /// Longest key (KV Key Max Length); a command has room for 16 bytes
        key_max_bytes => key_max_bytes: u8 = 16, 1..=16;
        /// Largest number of keys (Max Num Keys), for which the index has room
        keys_max => keys_max: u32 = 1_000_000, 1..=1 << 22;
        /// Part of the index that is in the memory of the controller, in pages of `translation.unit_bytes`; the whole index lies at the end of the media then, and a key of another page is read from there; 0: all of it is in the memory of the controller alone
        index_cache_kib => index_cache_kib: u64 = 0, 0..=1 << 30;
        /// Time to find a key in the part of the index that is in memory (assumed: a hash, and two accesses to DRAM one after the other)
        lookup_ns => lookup: Span = ns(200), ZERO..=LONGEST;
    }
}

impl KeyValues {
    /// True if the drive stores values by their keys.
    pub fn is_there(&self) -> bool {
        self.value_max_kib > 0
    }

    /// Returns the largest size of a stored value in bytes.
    pub fn value_max_bytes(&self) -> u32 {
        self.value_max_kib * 1024
    }
}
