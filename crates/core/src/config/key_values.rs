//! Part of a drive file about drives that store values by keys instead of logical blocks.

use crate::config::section::section;
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::time::Span;

section! {
    /// Values that hosts store and retrieve by their keys instead of logical blocks (NVMe Key Value Command Set). By default there are none.
    pub struct KeyValues ("key_value") {
        /// Largest value that one command stores (KV Value Max Length), in KiB; 0: the drive has logical blocks instead
        /// of keys and values
        value_max_kib => value_max_kib: u32 = 0, 0..=2048;
        /// Longest key of a key-value drive, in bytes (KV Key Max Length); a command has room for 16 bytes
        key_max_bytes => key_max_bytes: u8 = 16, 1..=16, with value_max_kib;
        /// Largest number of keys of a key-value drive (Max Num Keys), for which its index has room
        keys_max => keys_max: u32 = 1_000_000, 1..=1 << 22, with value_max_kib;
        /// Part of a key-value drive's index that the controller's memory caches, in KiB, by pages of
        /// `translation.unit_bytes`; other pages are read from the end of the media. 0: the controller's memory holds
        /// the whole index
        index_cache_kib => index_cache_kib: u64 = 0, 0..=1 << 30, with value_max_kib;
        /// Time to find a key in the part of a key-value drive's index that is in memory (assumed: a hash, and two
        /// accesses to DRAM one after the other)
        lookup_ns => lookup: Span = ns(200), ZERO..=LONGEST, with value_max_kib;
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
