//! Write buffer of a flash drive: the space that a write occupies until its program has ended, and the bandwidth of the
//! buffer's memory that all writes share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config;
use crate::media::housekeeping::HousekeepingPauses;
use crate::time::{Span, Time};

/// Number of bytes in the page that the configured transfer time of the write buffer is for.
const PAGE_BYTES: u64 = 4096;

/// Write buffer of a flash drive: its free space, the pending releases of space, and the transfers of its memory.
#[derive(Clone, Debug)]
pub struct FlashWriteBuffer {
    capacity_bytes: u64,
    free_bytes: u64,
    /// True once a write has had to wait for space in the buffer.
    has_been_full: bool,
    /// Space that becomes free in the buffer: the time at which its program ends, and the number of bytes.
    releases: BinaryHeap<Reverse<(Time, u64)>>,
    /// Time at which the buffer's memory has finished all transfers so far.
    memory_free_at: Time,
    /// Time to move one page of [`PAGE_BYTES`] into or out of the buffer.
    page: Span,
    /// Writes of the mapping's journal, during which no write enters the buffer.
    journal: Option<HousekeepingPauses>,
}

impl FlashWriteBuffer {
    /// Creates an empty write buffer from its configuration.
    pub fn new(buffer: &config::Buffer) -> FlashWriteBuffer {
        FlashWriteBuffer {
            capacity_bytes: buffer.capacity_kib << 10,
            free_bytes: buffer.capacity_kib << 10,
            has_been_full: false,
            releases: BinaryHeap::new(),
            memory_free_at: Time::ZERO,
            page: buffer.page,
            journal: HousekeepingPauses::every(buffer.journal_interval, buffer.journal),
        }
    }

    /// Returns the earliest time, not before `at`, at which a write may enter the buffer.
    #[inline]
    pub fn accepts_writes_from(&self, at: Time) -> Time {
        self.journal.map_or(at, |journal| journal.start_after(at))
    }

    /// Reserves `bytes` of space in the buffer. Returns the time at which it is available: `at`, or the end of the
    /// programs that free enough. If less than `bytes` will ever be free, reserves all of it.
    pub fn reserve(&mut self, at: Time, bytes: u64) -> Time {
        let mut from = at;
        self.has_been_full |= self.free_bytes < bytes && self.releases.peek().is_some_and(|it| it.0.0 > at);
        while let Some(Reverse((until, released))) = self.releases.peek().copied()
            && (until <= from || self.free_bytes < bytes)
        {
            self.releases.pop();
            self.free_bytes += released;
            assert!(self.free_bytes <= self.capacity_bytes, "the write buffer frees more bytes than were reserved");
            from = from.max(until);
        }
        self.free_bytes = self.free_bytes.saturating_sub(bytes);
        from
    }

    /// True if the buffer has no space for `bytes`, and no program that has begun will free any.
    pub fn lacks_space_forever(&self, bytes: u64) -> bool {
        self.free_bytes < bytes && self.releases.is_empty()
    }

    /// True once a write has had to wait for space in the buffer.
    pub fn has_been_full(&self) -> bool {
        self.has_been_full
    }

    /// Returns the number of bytes in use, as of the last reservation: space that has become free since then still
    /// counts.
    pub fn used_bytes(&self) -> u64 {
        self.capacity_bytes - self.free_bytes
    }

    /// Returns the capacity of the write buffer in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Empties the write buffer, and ends the transfers of its memory, as a loss of power does.
    pub fn empty(&mut self) {
        self.free_bytes = self.capacity_bytes;
        self.releases.clear();
        self.memory_free_at = Time::ZERO;
    }

    /// Frees `bytes` of buffer space at `until`, when their program has ended.
    pub fn release(&mut self, until: Time, bytes: u64) {
        self.releases.push(Reverse((until, bytes)));
    }

    /// Moves `bytes` into the buffer, from `from` on or after earlier transfers. Returns the time at which they are in
    /// the buffer.
    pub fn store(&mut self, from: Time, bytes: u64) -> Time {
        self.memory_free_at = self.memory_free_at.max(from) + self.transfer_time(bytes);
        self.memory_free_at
    }

    /// Returns the time to move `bytes` into or out of the buffer's memory.
    pub fn transfer_time(&self, bytes: u64) -> Span {
        self.page * bytes / PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn write_waits_for_programs_that_free_enough_space() {
        let mut buffer = FlashWriteBuffer::new(&config::Buffer { capacity_kib: 12, ..config::Buffer::default() });
        for _ in 0..3 {
            assert_eq!(buffer.reserve(at(0), 4096), at(0));
        }
        for until in [30, 10, 20] {
            buffer.release(at(until), 4096);
        }
        assert_eq!(buffer.reserve(at(1), 8192), at(20));
        assert_eq!(buffer.reserve(at(21), 4096), at(30));
        assert_eq!(buffer.reserve(at(40), 4096), at(40));
    }

    #[test]
    #[should_panic(expected = "frees more bytes than were reserved")]
    fn freeing_unreserved_bytes_panics() {
        let mut buffer = FlashWriteBuffer::new(&config::Buffer { capacity_kib: 12, ..config::Buffer::default() });
        buffer.release(at(1), 4096);
        buffer.reserve(at(2), 4096);
    }

    #[test]
    fn writes_wait_while_the_journal_is_written() {
        let (journal, journal_interval) = (Span::from_us(10), Span::from_us(100));
        let buffer = FlashWriteBuffer::new(&config::Buffer { journal, journal_interval, ..config::Buffer::default() });
        let opens = [5, 99, 100, 104, 110, 205].map(|us| buffer.accepts_writes_from(at(us)));
        assert_eq!(opens, [at(5), at(99), at(110), at(110), at(110), at(210)]);
        assert_eq!(FlashWriteBuffer::new(&config::Buffer::default()).accepts_writes_from(at(104)), at(104));
    }

    #[test]
    fn writes_share_the_buffers_bandwidth() {
        let mut buffer = FlashWriteBuffer::new(&config::Buffer { page: Span::from_us(2), ..config::Buffer::default() });
        assert_eq!(buffer.store(at(0), 4096), at(2));
        assert_eq!(buffer.store(at(1), 8192), at(6));
        assert_eq!(buffer.store(at(9), 2048), at(10));
    }
}
