//! Where things are in the memory that a client shares with the device.
//!
//! ```text
//!   queue 0                                            queue 1 ...
//!   mode word | ring of commands | status words | buffers
//! ```
//!
//! Every part starts at a cache line of its own, so that no two writers share one.

use crate::chunk::WORD_BYTES;
use crate::command::COMMAND_BYTES;

/// Bytes that go between two processors together.
const LINE_BYTES: u64 = 64;
/// Beginnings of queues are multiples of a page.
const PAGE_BYTES: u64 = 4096;
/// Buffers lie so much further apart than they are long: at a distance of a power of two, their first lines would all
/// compete for the same few places of a cache. 640 bytes put 512-byte reads side by side in it.
const STAGGER_BYTES: u64 = 640;
/// Beginnings of buffers are multiples of two lines, which some processors fetch together.
const BUFFER_ALIGN_BYTES: u64 = 2 * LINE_BYTES;

/// What the mode word says: the device looks at the ring by itself, or sleeps and wants to be rung.
pub const MODE_POLL: u8 = 0;
pub const MODE_DOORBELL: u8 = 1;

/// What a client may ask for.
pub const QUEUES_MAX: u32 = 16;
/// Entries of a ring; one less can be under way.
pub const ENTRIES_MAX: u32 = 1024;
/// The longest transfer, and the shortest.
pub const TRANSFER_BYTES_MAX: u32 = 128 << 10;
/// A disk sector: offsets and lengths are multiples of it.
pub const TRANSFER_BYTES_MIN: u32 = 512;
/// Memory of one client.
pub const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// The shape of a client's memory; both sides compute all places from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub queues: u32,
    /// Commands of a ring.
    pub entries: u32,
    /// The longest transfer.
    pub transfer_bytes: u32,
}

/// Where the parts of one queue are, computed once.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Where the queue's host reads whether to ring.
    pub mode_word: u64,
    ring: u64,
    statuses: u64,
    buffers: u64,
    stride_bytes: u64,
}

impl Layout {
    /// Whether a server gives this.
    pub fn is_allowed(&self) -> bool {
        (1..=QUEUES_MAX).contains(&self.queues)
            && (2..=ENTRIES_MAX).contains(&self.entries)
            && (TRANSFER_BYTES_MIN..=TRANSFER_BYTES_MAX).contains(&self.transfer_bytes)
            && self.transfer_bytes.is_multiple_of(TRANSFER_BYTES_MIN)
            && self.memory_bytes() <= MEMORY_BYTES_MAX
    }

    /// Commands under way in a queue: fewer than entries, so that the device never finds its own tail.
    pub fn slots(&self) -> u32 {
        self.entries - 1
    }

    /// All of it.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.queues) * self.queue_bytes()
    }

    /// Where the parts of a queue are.
    pub fn places(&self, queue: u32) -> Places {
        let mode_word = u64::from(queue) * self.queue_bytes();
        let ring = mode_word + LINE_BYTES;
        let statuses = ring + u64::from(self.entries) * COMMAND_BYTES as u64;
        let buffers = (statuses + u64::from(self.slots()) * LINE_BYTES).next_multiple_of(BUFFER_ALIGN_BYTES);
        Places { mode_word, ring, statuses, buffers, stride_bytes: self.stride_bytes() }
    }

    fn stride_bytes(&self) -> u64 {
        u64::from(self.transfer_bytes) + STAGGER_BYTES
    }

    fn queue_bytes(&self) -> u64 {
        let (entries, slots) = (u64::from(self.entries), u64::from(self.slots()));
        let fixed = LINE_BYTES + entries * COMMAND_BYTES as u64 + slots * LINE_BYTES;
        (fixed.next_multiple_of(BUFFER_ALIGN_BYTES) + slots * self.stride_bytes()).next_multiple_of(PAGE_BYTES)
    }
}

impl Places {
    /// Where an entry of the ring is.
    #[inline]
    pub fn entry(&self, index: u32) -> u64 {
        self.ring + u64::from(index) * COMMAND_BYTES as u64
    }

    /// Where the status of what was last asked with a slot is.
    #[inline]
    pub fn status(&self, slot: u32) -> u64 {
        self.statuses + u64::from(slot) * LINE_BYTES
    }

    /// Where, beside it, is how many nanoseconds after it was asked this is over.
    #[inline]
    pub fn latency(&self, slot: u32) -> u64 {
        self.status(slot) + WORD_BYTES as u64
    }

    /// Where a slot's buffer is.
    #[inline]
    pub fn buffer(&self, slot: u32) -> u64 {
        self.buffers + u64::from(slot) * self.stride_bytes
    }
}

/// Where a command has its stamp, in a word that the simulator leaves free: when the client asked, by its
/// steady clock, or 0.
const STAMP_WORD: usize = 5;

/// Put the stamp into a command.
#[inline]
pub fn stamp(command: &mut [u8; COMMAND_BYTES], asked_ns: u64) {
    command.as_chunks_mut().0[STAMP_WORD] = asked_ns.to_le_bytes();
}

/// The stamp of a command.
#[inline]
pub fn stamped_ns(command: &[u8; COMMAND_BYTES]) -> u64 {
    u64::from_le_bytes(command.as_chunks().0[STAMP_WORD])
}

/// Words of so many bytes.
pub fn words(bytes: u32) -> usize {
    bytes as usize / WORD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_the_last_buffer_ends_within_the_memory() {
        for (queues, entries, transfer_bytes) in [(1, 2, 512), (3, 33, 4096), (2, 64, 128 << 10)] {
            let layout = Layout { queues, entries, transfer_bytes };
            assert!(layout.is_allowed());
            for queue in 0..queues {
                let places = layout.places(queue);
                assert!(places.entry(entries - 1) + 64 <= places.status(0));
                assert!(places.status(layout.slots() - 1) + 64 <= places.buffer(0));
                assert_eq!(places.buffer(0) % 128, 0);
                let end = places.buffer(layout.slots() - 1) + u64::from(transfer_bytes);
                assert!(end <= layout.places(queue + 1).mode_word);
            }
            assert_eq!(layout.places(queues).mode_word, layout.memory_bytes());
        }
    }

    #[test]
    fn what_is_too_large_or_no_multiple_of_a_sector_is_not_allowed() {
        let fine = Layout { queues: 1, entries: 64, transfer_bytes: 4096 };
        assert!(fine.is_allowed());
        for wrong in [
            Layout { queues: 0, ..fine },
            Layout { queues: 17, ..fine },
            Layout { entries: 1, ..fine },
            Layout { entries: u32::MAX, ..fine },
            Layout { transfer_bytes: 4095, ..fine },
            Layout { transfer_bytes: 256 << 10, ..fine },
            Layout { queues: 16, entries: 1024, transfer_bytes: 128 << 10 },
        ] {
            assert!(!wrong.is_allowed(), "{wrong:?}");
        }
    }
}
