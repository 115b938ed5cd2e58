//! Write buffer of the AFU: data in it counts as written, and leaves it for the row buffers of the memory.

use crate::table::SortedMap;
use crate::time::Time;

/// Bytes in the buffer, by the time at which they leave it.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    bytes_free: u64,
    leaving: SortedMap<Time, u64>,
}

impl WriteBuffer {
    /// Returns an empty buffer.
    pub(super) fn new(bytes: u64) -> WriteBuffer {
        WriteBuffer { bytes_free: bytes, leaving: SortedMap::default() }
    }

    /// Admits `bytes`, now or as soon as there is room, and returns that time. The memory knows when it takes each
    /// write, so later writes do not change the time.
    ///
    /// # Panics
    /// If they are more than the whole buffer.
    pub(super) fn admit(&mut self, now: Time, bytes: u32) -> Time {
        let mut at = now;
        while let Some(&(leaves_at, leaving)) = self.leaving.first() {
            if leaves_at > at && self.bytes_free >= u64::from(bytes) {
                break;
            }
            at = at.max(leaves_at);
            self.bytes_free += leaving;
            self.leaving.pop_first();
        }
        self.bytes_free = self.bytes_free.checked_sub(bytes.into()).expect("no write is larger than the buffer");
        at
    }

    /// Notes the time at which admitted bytes leave.
    pub(super) fn leave(&mut self, at: Time, bytes: u32) {
        let together = self.leaving.get(&at).copied().unwrap_or(0);
        self.leaving.insert(at, together + u64::from(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + crate::time::Span::from_us(us)
    }

    #[test]
    fn a_write_waits_until_enough_of_those_before_it_have_left() {
        let mut buffer = WriteBuffer::new(256);
        for leaves in [20, 10] {
            assert_eq!(buffer.admit(us(1), 128), us(1));
            buffer.leave(us(leaves), 128);
        }
        assert_eq!(buffer.admit(us(2), 128), us(10));
        buffer.leave(us(30), 128);
        assert_eq!(buffer.admit(us(20), 128), us(20));
        buffer.leave(us(40), 128);
        assert_eq!(buffer.admit(us(21), 256), us(40));
    }
}
