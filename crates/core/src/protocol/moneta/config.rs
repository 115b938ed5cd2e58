//! Keys of section `moneta` of drive files: driver, tags, request queues and ring.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns, us};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// The Moneta driver and controller (Swanson, talk of 2011, "MON" below).
    pub struct Moneta ("moneta") {
        /// Tags: requests that the device may have at once, one bit of a status register each
        tags => tags: u8 = 64, 1..=64;
        /// 64-bit register writes that issue a request. 1: it fits one word, with DMA addresses preloaded by tag. 2: a DMA address comes with it. 3: nothing is packed. More than one takes a lock
        request_words => request_words: u8 = 1, [1, 2, 3];
        /// Protection of the pool of free tags: `locked`, with a request's records allocated apart, or `lock-free`, with records found by tag
        tag_pool => tag_pool: TagPool = TagPool::LockFree, any();
        /// True if a thread tries the tag of its processor first, whose records are still in that processor's cache
        tag_hint => tag_hint: bool = true, any();
        /// Time for which the pool of tags is locked to take or give back a tag
        lock_ns => lock: Span = ns(40), ZERO..=LONGEST;
        /// Processor time to allocate and release a request's records where they do not come with a tag (pool `locked`)
        records_ns => records: Span = ns(1030), ZERO..=LONGEST;
        /// Processor time to put a thread to sleep over its request and to bring it back, beyond `host.wake_ns` and context switches
        sleep_ns => sleep: Span = us(5), ZERO..=LONGEST;
        /// Requests up to this size are waited for spinning, larger ones sleeping; 0 always sleeps
        spin_up_to_bytes => spin_up_to_bytes: u32 = 4096, 0..=1 << 30;
        /// True if the device moves data straight from and to the application's buffer; needs a DMA address in each request
        zero_copy => zero_copy: bool = false, any();
        /// Processor time to pin and release an application's buffer (zero copy)
        pin_ns => pin: Span = us(1), ZERO..=LONGEST;
        /// Largest request; larger ones are split by the driver
        max_transfer_kib => max_transfer_kib: u32 = 1024, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
        /// Interrupt vectors and status registers; tag i belongs to number i modulo this
        interrupt_vectors => interrupt_vectors: u8 = 8, 1..=64;
        /// Time of a request in the device's pipeline, from its last word to the request queue
        pipeline_ns => pipeline: Span = us(1), ZERO..=LONGEST;
        /// True if reads and writes have a request queue each, served in turn; false if they share one
        split_queues => split_queues: bool = true, any();
        /// True if a large request goes to the back of its queue after each piece; false if it keeps the head
        fair => fair: bool = true, any();
        /// Largest piece of a request that the scoreboard takes at once: a transfer buffer
        chunk_bytes => chunk_bytes: u32 = 4096, [512, 1024, 2048, 4096, 8192];
        /// Transfer buffers of reads, and as many of writes; a queue that both share has all of them
        transfer_buffers => transfer_buffers: u8 = 4, 1..=64;
        /// Rate of the ring between transfer buffers and memory controllers
        ring_bytes_per_ns => ring_bytes_per_ns: f64 = 4.0, 1e-3..=1e4;
    }
}

/// Protection of the pool of free tags in Moneta's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPool {
    /// The Moneta driver takes and releases tags under a lock.
    Locked,
    /// The Moneta driver takes and releases tags by atomic operations on one word.
    LockFree,
}

names! { TagPool { "locked" => Locked, "lock-free" => LockFree } }

impl Moneta {
    /// Returns the violated condition if zero copy is on although requests carry no DMA address, or although the
    /// software stack copies data; none otherwise.
    pub(super) fn broken_zero_copy(&self, copy_bytes_per_ns: f64) -> Option<BrokenCondition> {
        let words = self.request_words;
        BrokenCondition::when(
            self.zero_copy && (words == 1 || copy_bytes_per_ns > 0.0),
            &["moneta.zero_copy", "moneta.request_words", "stack.copy_bytes_per_ns"],
            format!(
                "moneta.zero_copy is true with moneta.request_words {words} and stack.copy_bytes_per_ns \
                     {copy_bytes_per_ns}"
            ),
            String::from("moneta.request_words = 2 or 3, and stack.copy_bytes_per_ns = 0"),
        )
    }
}
