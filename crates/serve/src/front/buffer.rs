//! Queue of the bytes that a connection receives or sends: bytes are added at the end and consumed at the front.

use std::io;

/// Capacity in bytes that an empty buffer keeps. Memory beyond it is released.
const KEPT_BYTES: usize = 1 << 20;

/// Queue of bytes in contiguous memory, which is zeroed once when it is allocated, and not for every use.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// Makes an empty buffer with room for `bytes` bytes.
    pub fn with_room(bytes: usize) -> Buffer {
        Buffer { bytes: vec![0; bytes], start: 0, end: 0 }
    }

    /// Returns all bytes that have been added and not consumed.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Returns true if the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Removes the first `bytes` bytes of the buffer.
    ///
    /// # Panics
    /// If the buffer holds fewer bytes.
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "{bytes} bytes of {}", self.end - self.start);
        self.start += bytes;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEPT_BYTES {
                self.bytes = vec![0; KEPT_BYTES];
            }
        }
    }

    /// Returns all free room behind the data, at least `bytes` bytes, for the caller to write to. [`Buffer::filled`]
    /// then adds the bytes that were written.
    ///
    /// # Errors
    /// If there is no memory for the room. A message may be long, and the client that sent it must not end the whole
    /// server.
    pub fn room(&mut self, bytes: usize) -> io::Result<&mut [u8]> {
        if self.bytes.len() - self.end < bytes {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.bytes.len() - self.end < bytes {
                self.bytes.try_reserve(self.end + bytes - self.bytes.len())?;
                self.bytes.resize(self.end + bytes, 0);
            }
        }
        Ok(&mut self.bytes[self.end..])
    }

    /// Adds the first `bytes` bytes of the free room, which the caller has written, to the data.
    #[inline]
    pub fn filled(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes.len() - self.end, "more bytes than there was room for");
        self.end += bytes;
    }

    /// Appends a copy of `bytes`, which must be few.
    ///
    /// # Panics
    /// If there is no memory for them.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).expect("there is memory for a few bytes")[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffered_bytes_leave_in_arrival_order_across_wraps() {
        let mut buffer = Buffer::with_room(8);
        buffer.push(b"abcdef");
        buffer.consume(4);
        buffer.push(b"ghijkl");
        assert_eq!(buffer.data(), b"efghijkl");
        assert_eq!(buffer.bytes.len(), 8);
        buffer.push(b"m");
        assert_eq!(buffer.data(), b"efghijklm");
    }

    #[test]
    fn failed_buffer_allocation_returns_an_error_and_loses_no_bytes() {
        let mut buffer = Buffer::with_room(8);
        buffer.push(b"abc");
        assert_eq!(buffer.room(isize::MAX as usize).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        buffer.push(b"defghijk");
        assert_eq!(buffer.data(), b"abcdefghijk");
    }

    #[test]
    fn buffer_memory_of_a_large_message_is_released() {
        let mut buffer = Buffer::default();
        buffer.push(&vec![1; 3 << 20]);
        buffer.consume(3 << 20);
        assert_eq!(buffer.bytes.len(), KEPT_BYTES);
    }
}
