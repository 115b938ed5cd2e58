//! Keys of section `moneta` of drive files: driver, tags, request queues and ring.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns, us};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// Moneta driver of the simulated host, and controller of the drive (Swanson, talk of 2011).
    pub struct Moneta ("moneta") {
        /// Number of tags of Moneta: requests that the device holds at a time, each with one bit of a status register
        tags => tags: u8 = 64, 1..=64;
        /// Number of 64-bit register writes that issue a Moneta request: 1 (DMA addresses are preloaded by tag), 2 (a
        /// DMA address is included) or 3 (fields are not packed). More than one write needs a lock
        request_words => request_words: u8 = 1, [1, 2, 3];
        /// Protection of the Moneta driver's pool of free tags: `locked` (records of a request are allocated
        /// separately) or `lock-free` (records are found by tag)
        tag_pool => tag_pool: TagPoolLocking = TagPoolLocking::LockFree, any();
        /// True if a thread of the Moneta driver first tries the tag of its processor, whose records are still in that
        /// processor's cache
        tag_hint => tag_hint: bool = true, any();
        /// Time for which the Moneta driver locks the pool of tags to take or return a tag
        lock_ns => lock: Span = ns(40), ZERO..=LONGEST;
        /// Processor time of the Moneta driver to allocate and release a request's records, if `moneta.tag_pool` is
        /// `locked`
        records_ns => records: Span = ns(1030), ZERO..=LONGEST;
        /// Processor time of the Moneta driver to put a waiting thread to sleep and to resume it, beyond `host.wake_ns`
        /// and context switches
        sleep_ns => sleep: Span = us(5), ZERO..=LONGEST;
        /// Largest request, in bytes, for whose completion a Moneta thread spins; threads sleep for larger requests. 0:
        /// threads always sleep
        spin_up_to_bytes => spin_up_to_bytes: u32 = 4096, 0..=1 << 30;
        /// True if the Moneta device transfers data directly from and to the application's buffer; needs a DMA address
        /// in each request (`moneta.request_words`)
        zero_copy => zero_copy: bool = false, any();
        /// Processor time of the Moneta driver to pin and release an application's buffer, if `moneta.zero_copy` is
        /// true
        pin_ns => pin: Span = us(1), ZERO..=LONGEST;
        /// Largest request of Moneta, in KiB; the driver splits larger requests
        max_transfer_kib => max_transfer_kib: u32 = 1024, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
        /// Number of Moneta's interrupt vectors, each with a status register; tag i belongs to vector i modulo this
        /// number
        interrupt_vectors => interrupt_vectors: u8 = 8, 1..=64;
        /// Time of a request in the pipeline of the Moneta device, from its last register write to the request queue
        pipeline_ns => pipeline: Span = us(1), ZERO..=LONGEST;
        /// True if the Moneta device has separate request queues for reads and writes, served in turn; false if reads
        /// and writes share one queue
        split_queues => split_queues: bool = true, any();
        /// True if a large request goes to the back of the Moneta device's request queue after each chunk; false if the
        /// request stays at the head
        fair => fair: bool = true, any();
        /// Largest chunk of a request that the Moneta device transfers at once, in bytes: the size of a transfer buffer
        chunk_bytes => chunk_bytes: u32 = 4096, [512, 1024, 2048, 4096, 8192];
        /// Number of the Moneta device's transfer buffers for reads, and also for writes; a queue that reads and writes
        /// share has all of them
        transfer_buffers => transfer_buffers: u8 = 4, 1..=64;
        /// Bandwidth of the Moneta device's internal ring between transfer buffers and memory controllers, in bytes a
        /// nanosecond
        ring_bytes_per_ns => ring_bytes_per_ns: f64 = 4.0, 1e-3..=1e4;
    }
}

/// Protection of the pool of free tags in Moneta's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPoolLocking {
    /// The Moneta driver takes and releases tags under a lock.
    Locked,
    /// The Moneta driver takes and releases tags by atomic operations on one word.
    LockFree,
}

names! { TagPoolLocking { "locked" => Locked, "lock-free" => LockFree } }

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
