//! Bytes that a connection sends: headers in one buffer, and data in the buffers of its commands, which is not copied.

use std::collections::VecDeque;
use std::io::IoSlice;

use smallvec::SmallVec;

use crate::front::buffer::Buffer;

/// Maximum number of slices of one write.
pub(super) const SLICES_MAX: usize = 64;

/// Bytes to be sent, in pieces.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Headers, responses and digests that have not been sent.
    heads: Buffer,
    pieces: VecDeque<Piece>,
}

/// Piece of the output.
#[derive(Debug)]
enum Piece {
    /// The next bytes of the headers.
    Head(usize),
    /// Data of a command, from `sent` to `end` in its buffer. `reserved` bytes of it count as buffered.
    Data { buffer: Vec<u8>, sent: usize, end: usize, reserved: u32 },
}

impl Output {
    /// Returns the number of unsent bytes of headers.
    pub(super) fn head_bytes(&self) -> usize {
        self.heads.data().len()
    }

    /// True if nothing is to be sent.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a copy of a few bytes.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.heads.push(bytes);
        match self.pieces.back_mut() {
            Some(Piece::Head(length)) => *length += bytes.len(),
            _ => self.pieces.push_back(Piece::Head(bytes.len())),
        }
    }

    /// Adds the first `end` bytes of a buffer, of which `reserved` count as buffered, without a copy.
    pub(super) fn push_data_without_copy(&mut self, buffer: Vec<u8>, end: usize, reserved: u32) {
        self.pieces.push_back(Piece::Data { buffer, sent: 0, end, reserved });
    }

    /// Returns slices of the bytes to be sent next.
    pub(super) fn slices(&self) -> SmallVec<[IoSlice<'_>; SLICES_MAX]> {
        let mut heads = self.heads.data();
        let slice = |piece| match piece {
            &Piece::Head(bytes) => {
                let (head, rest) = heads.split_at(bytes);
                heads = rest;
                IoSlice::new(head)
            }
            Piece::Data { buffer, sent, end, .. } => IoSlice::new(&buffer[*sent..*end]),
        };
        self.pieces.iter().take(SLICES_MAX).map(slice).collect()
    }

    /// Removes up to `bytes` sent bytes of the first piece, and subtracts them from `bytes`. Returns the buffer of data
    /// that has been sent, and its reserved bytes.
    pub(super) fn consume(&mut self, bytes: &mut usize) -> Option<(Vec<u8>, u32)> {
        match self.pieces.front_mut() {
            None => {
                *bytes = 0;
                None
            }
            Some(Piece::Head(left)) => {
                let here = (*left).min(*bytes);
                (*left, *bytes) = (*left - here, *bytes - here);
                self.heads.consume(here);
                if *left == 0 {
                    self.pieces.pop_front();
                }
                None
            }
            Some(Piece::Data { sent, end, .. }) => {
                let here = (*end - *sent).min(*bytes);
                (*sent, *bytes) = (*sent + here, *bytes - here);
                if sent < end {
                    return None;
                }
                match self.pieces.pop_front() {
                    Some(Piece::Data { buffer, reserved, .. }) => Some((buffer, reserved)),
                    _ => None,
                }
            }
        }
    }
}
