//! The write buffer: room that a write takes until the program that it waits for has ended, and the memory that all writes
//! share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config;
use crate::time::{Span, Time};

/// Bytes of the page that costs are given for.
const PAGE_BYTES: u64 = 4096;

/// Room and memory of the buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    capacity_bytes: u64,
    free_bytes: u64,
    /// Room that comes back, and when.
    releases: BinaryHeap<Reverse<(Time, u64)>>,
    memory_free_at: Time,
    command: Span,
    page: Span,
}

impl Buffer {
    /// The empty buffer of a description.
    pub fn new(buffer: &config::Buffer) -> Buffer {
        Buffer {
            capacity_bytes: buffer.capacity_kib << 10,
            free_bytes: buffer.capacity_kib << 10,
            releases: BinaryHeap::new(),
            memory_free_at: Time::ZERO,
            command: buffer.command,
            page: buffer.page,
        }
    }

    /// Take room for `bytes`: from when on it is there. What is larger than all that will ever come back takes that.
    pub fn take(&mut self, at: Time, bytes: u64) -> Time {
        let mut from = at;
        while let Some(Reverse((until, released))) = self.releases.peek().copied()
            && (until <= from || self.free_bytes < bytes)
        {
            self.releases.pop();
            self.free_bytes += released;
            from = from.max(until);
        }
        self.free_bytes = self.free_bytes.saturating_sub(bytes);
        from
    }

    /// Nothing is in it any more.
    pub fn empty(&mut self) {
        self.free_bytes = self.capacity_bytes;
        self.releases.clear();
        self.memory_free_at = Time::ZERO;
    }

    /// `bytes` are in the cells at `until`.
    pub fn release(&mut self, until: Time, bytes: u64) {
        self.releases.push(Reverse((until, bytes)));
    }

    /// Bytes that may be stored from `from` on are in the buffer then.
    pub fn store(&mut self, from: Time, bytes: u64) -> Time {
        self.memory_free_at = self.memory_free_at.max(from) + self.transfer(bytes);
        self.memory_free_at
    }

    /// What moving bytes in or out takes.
    pub fn transfer(&self, bytes: u64) -> Span {
        self.page * bytes / PAGE_BYTES
    }

    /// What a write takes however long it is.
    pub fn command(&self) -> Span {
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
    fn a_write_that_finds_no_room_waits_for_the_first_programs_that_make_enough() {
        let mut buffer = Buffer::new(&config::Buffer { capacity_kib: 12, ..config::Buffer::default() });
        for _ in 0..3 {
            assert_eq!(buffer.take(at(0), 4096), at(0));
        }
        for until in [30, 10, 20] {
            buffer.release(at(until), 4096);
        }
        assert_eq!(buffer.take(at(1), 8192), at(20));
        assert_eq!(buffer.take(at(21), 4096), at(30));
        assert_eq!(buffer.take(at(40), 4096), at(40));
    }

    #[test]
    fn writes_share_the_memory_of_the_buffer() {
        let mut buffer = Buffer::new(&config::Buffer { page: Span::from_us(2), ..config::Buffer::default() });
        assert_eq!(buffer.store(at(0), 4096), at(2));
        assert_eq!(buffer.store(at(1), 8192), at(6));
        assert_eq!(buffer.store(at(9), 2048), at(10));
    }
}
