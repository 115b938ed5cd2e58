//! Layout of the memory that a client shares with the device.
//!
//! ```text
//!   queue 0                                            queue 1 ...
//!   mode word | ring of commands | status words | buffers
//! ```
//!
//! Every part starts at a cache line, so that no two writers share one.

use crate::command::COMMAND_BYTES;

/// Length of a word of the shared memory in bytes.
pub const WORD_BYTES: usize = 8;

/// Length of a cache line in bytes.
const LINE_BYTES: u64 = 64;
/// Alignment of queues in bytes: a page.
const PAGE_BYTES: u64 = 4096;
/// Gap between two buffers in bytes. At a distance of a power of two, the first lines of all buffers would fall into the same
/// cache sets. With 640 bytes, buffers of 512 bytes fall into neighbouring sets.
const STAGGER_BYTES: u64 = 640;
/// Alignment of buffers in bytes: two cache lines, which some processors fetch together.
const BUFFER_ALIGN_BYTES: u64 = 2 * LINE_BYTES;

/// Value of the mode word while the device polls the ring.
pub const MODE_POLL: u8 = 0;
/// Value of the mode word while the device sleeps and has to be woken by the doorbell.
pub const MODE_DOORBELL: u8 = 1;

/// Maximum number of queues of a client.
pub const QUEUES_MAX: u32 = 16;
/// Maximum number of entries of a ring; one less can be in flight.
pub const ENTRIES_MAX: u32 = 1024;
/// Maximum length of a transfer in bytes.
pub const TRANSFER_BYTES_MAX: u32 = 128 << 10;
/// Minimum length of a transfer in bytes, a sector; all lengths are multiples of it.
pub const TRANSFER_BYTES_MIN: u32 = 512;
/// Maximum size of the memory of a client in bytes.
pub const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Number and size of a client's queues, from which both sides compute all offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of queues.
    pub queues: u32,
    /// Number of entries of the command ring of each queue.
    pub entries: u32,
    /// Length of each buffer, and so of the longest transfer, in bytes.
    pub transfer_bytes: u32,
}

/// Byte offsets of one queue's parts in the shared memory.
#[derive(Clone, Copy, Debug)]
pub struct QueueOffsets {
    /// Offset of the mode word, in which the device says if it polls or must be woken.
    pub mode_word: u64,
    ring: u64,
    statuses: u64,
    buffers: u64,
    stride_bytes: u64,
}

impl Layout {
    /// Returns true if number and size of the queues are within the limits of a server.
    pub fn is_allowed(&self) -> bool {
        (1..=QUEUES_MAX).contains(&self.queues)
            && (2..=ENTRIES_MAX).contains(&self.entries)
            && (TRANSFER_BYTES_MIN..=TRANSFER_BYTES_MAX).contains(&self.transfer_bytes)
            && self.transfer_bytes.is_multiple_of(TRANSFER_BYTES_MIN)
            && self.memory_bytes() <= MEMORY_BYTES_MAX
    }

    /// Returns the number of slots of a queue, which is the maximum number of commands in flight: one less than the ring has
    /// entries, so that a full ring differs from an empty one.
    pub fn slots(&self) -> u32 {
        self.entries - 1
    }

    /// Returns the size in bytes of the memory that client and device share.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.queues) * self.queue_bytes()
    }

    /// Returns the offsets of the parts of the queue with this number.
    pub fn places(&self, queue: u32) -> QueueOffsets {
        let mode_word = u64::from(queue) * self.queue_bytes();
        let ring = mode_word + LINE_BYTES;
        let statuses = ring + u64::from(self.entries) * COMMAND_BYTES as u64;
        let buffers = (statuses + u64::from(self.slots()) * LINE_BYTES).next_multiple_of(BUFFER_ALIGN_BYTES);
        QueueOffsets { mode_word, ring, statuses, buffers, stride_bytes: self.stride_bytes() }
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

impl QueueOffsets {
    /// Returns the byte offset in the shared memory of an entry of the command ring.
    #[inline]
    pub fn entry(&self, index: u32) -> u64 {
        self.ring + u64::from(index) * COMMAND_BYTES as u64
    }

    /// Returns the byte offset in the shared memory of the status word of a slot.
    #[inline]
    pub fn status(&self, slot: u32) -> u64 {
        self.statuses + u64::from(slot) * LINE_BYTES
    }

    /// Returns the byte offset in the shared memory of the latency word of a slot. The word has the nanoseconds from
    /// the submission of its command to the time at which the client reports completion.
    #[inline]
    pub fn latency(&self, slot: u32) -> u64 {
        self.status(slot) + WORD_BYTES as u64
    }

    /// Returns the byte offset in the shared memory of the buffer of a slot.
    #[inline]
    pub fn buffer(&self, slot: u32) -> u64 {
        self.buffers + u64::from(slot) * self.stride_bytes
    }
}

/// Index of the word of a command that holds its submission time. The simulator does not use the word.
const STAMP_WORD: usize = 5;

/// Writes the submission time into a command, in nanoseconds of the steady clock; 0 if timing is off.
#[inline]
pub fn stamp(command: &mut [u8; COMMAND_BYTES], submitted_ns: u64) {
    command.as_chunks_mut().0[STAMP_WORD] = submitted_ns.to_le_bytes();
}

/// Returns the submission time of a command in nanoseconds of the steady clock; 0 if timing is off.
#[inline]
pub fn load_submission_time_ns(command: &[u8; COMMAND_BYTES]) -> u64 {
    u64::from_le_bytes(command.as_chunks().0[STAMP_WORD])
}

/// Returns the number of whole 64-bit words in `bytes` bytes.
pub fn words(bytes: u32) -> usize {
    bytes as usize / WORD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_regions_do_not_overlap_and_end_within_the_shared_memory() {
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
    fn layout_too_large_or_not_a_multiple_of_a_sector_is_refused() {
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
