//! Write buffer of the CAPI accelerator (AFU). Writes complete once their data is in this buffer; from there, it goes
//! to the row buffers of the memory.

use crate::table::SmallSortedMap;
use crate::time::Time;

/// Write buffer of the AFU: its free bytes, and the number of bytes that leave it at each time.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    bytes_free: u64,
    leaving: SmallSortedMap<Time, u64>,
}

impl WriteBuffer {
    /// Returns an empty write buffer with room for `bytes` bytes.
    pub(super) fn new(bytes: u64) -> WriteBuffer {
        WriteBuffer { bytes_free: bytes, leaving: SmallSortedMap::default() }
    }

    /// Reserves room for `bytes` bytes, at `now` or as soon as enough bytes have left, and returns that time. Later
    /// writes do not change this time, as the memory fixes the times of earlier writes when it accepts them.
    ///
    /// # Panics
    /// If `bytes` is larger than the whole buffer.
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

    /// Notes that `bytes` bytes, for which room was reserved, leave the write buffer at the time `at`.
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
    fn write_waits_for_enough_buffer_space() {
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
