//! Write buffer of a flash drive: the space that a write occupies until its program has ended, and the bandwidth of the
//! buffer's memory that all writes share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config;
use crate::time::{Span, Time};

/// Page size in bytes that the transfer time is given for.
const PAGE_BYTES: u64 = 4096;

/// Free space and memory of the write buffer.
#[derive(Clone, Debug)]
pub struct FlashBuffer {
    capacity_bytes: u64,
    free_bytes: u64,
    /// True once a write has had to wait for space.
    has_been_full: bool,
    /// Space that becomes free, with the time of that.
    releases: BinaryHeap<Reverse<(Time, u64)>>,
    /// Time at which the buffer's memory has finished its transfers.
    memory_free_at: Time,
    /// Fixed time of every write.
    command: Span,
    /// Time to move one page of [`PAGE_BYTES`] in or out.
    page: Span,
}

impl FlashBuffer {
    /// Creates the empty buffer of a description.
    pub fn new(buffer: &config::Buffer) -> FlashBuffer {
        FlashBuffer {
            capacity_bytes: buffer.capacity_kib << 10,
            free_bytes: buffer.capacity_kib << 10,
            has_been_full: false,
            releases: BinaryHeap::new(),
            memory_free_at: Time::ZERO,
            command: buffer.command,
            page: buffer.page,
        }
    }

    /// Reserves space for `bytes`. Returns when it is available, at `at` or after enough programs have ended. If more
    /// is asked for than will ever be free, all of it is taken.
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

    /// True if there is no room for `bytes`, and will be none by the programs that have begun.
    pub fn is_stuck(&self, bytes: u64) -> bool {
        self.free_bytes < bytes && self.releases.is_empty()
    }

    /// True once a write has had to wait for space.
    pub fn has_been_full(&self) -> bool {
        self.has_been_full
    }

    /// Number of bytes that were in use when the last write came.
    pub fn used_bytes(&self) -> u64 {
        self.capacity_bytes - self.free_bytes
    }

    /// Number of bytes that fit.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Empties the buffer, as a loss of power does.
    pub fn empty(&mut self) {
        self.free_bytes = self.capacity_bytes;
        self.releases.clear();
        self.memory_free_at = Time::ZERO;
    }

    /// Frees `bytes` at `until`, when they are in the cells.
    pub fn release(&mut self, until: Time, bytes: u64) {
        self.releases.push(Reverse((until, bytes)));
    }

    /// Stores bytes from `from` on. Returns when they are in the buffer.
    pub fn store(&mut self, from: Time, bytes: u64) -> Time {
        self.memory_free_at = self.memory_free_at.max(from) + self.transfer_time(bytes);
        self.memory_free_at
    }

    /// Returns the time that moving bytes in or out takes.
    pub fn transfer_time(&self, bytes: u64) -> Span {
        self.page * bytes / PAGE_BYTES
    }

    /// Returns the time that every write takes, however long it is.
    pub fn command_time(&self) -> Span {
        self.command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn write_without_space_waits_for_the_first_programs_that_free_enough() {
        let mut buffer = FlashBuffer::new(&config::Buffer { capacity_kib: 12, ..config::Buffer::default() });
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
    fn freeing_more_bytes_than_were_reserved_panics() {
        let mut buffer = FlashBuffer::new(&config::Buffer { capacity_kib: 12, ..config::Buffer::default() });
        buffer.release(at(1), 4096);
        buffer.reserve(at(2), 4096);
    }

    #[test]
    fn writes_share_the_bandwidth_of_the_buffer() {
        let mut buffer = FlashBuffer::new(&config::Buffer { page: Span::from_us(2), ..config::Buffer::default() });
        assert_eq!(buffer.store(at(0), 4096), at(2));
        assert_eq!(buffer.store(at(1), 8192), at(6));
        assert_eq!(buffer.store(at(9), 2048), at(10));
    }
}
