//! Incomplete tags, by which a host detects that a read is complete without a completion entry (section 3 of the DC Express
//! paper, figures 1d and 2).
//!
//! The host writes a tag into the *trailer*, the last bytes, of every chunk of its receive buffer. A chunk becomes visible as a
//! whole, so a chunk whose trailer differs from the tag has arrived. A read is never reported complete too early, whatever the
//! order of arrival. If the data itself ends in the tag (a *collision*), the read looks incomplete until a time-out repeats it
//! with another tag. [`ArrivalTagSource`] chooses tags; [`StoredTrailerCounts`] and [`UnusedTrailerIntervals`] are the device's record of the
//! trailers of its data.
//!
//! Chunks of the buffer and chunks of the device must be the same ones: reads start at a multiple
//! of the chunk size (footnote 1 of the paper). A reader of smaller pieces needs a record by the
//! smaller size.
//!
//! The module computes the places of trailers and the order in which to check them. The caller has the buffer itself, in modelled
//! memory or in words that two processes share.

mod source;
mod stored;

use std::ops::Range;

pub use source::ArrivalTagSource;
pub use stored::{StoredTrailerCounts, UnusedTrailerIntervals};

/// Length of a tag: whole bytes, so that a trailer is one aligned load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagWidth {
    /// One byte.
    Bits8,
    /// Two bytes.
    Bits16,
    /// Four bytes.
    Bits32,
    /// Eight bytes.
    Bits64,
}

impl TagWidth {
    /// Returns the width of `bits` bits, or none unless that is 8, 16, 32 or 64.
    pub fn from_bits(bits: u8) -> Option<TagWidth> {
        match bits {
            8 => Some(TagWidth::Bits8),
            16 => Some(TagWidth::Bits16),
            32 => Some(TagWidth::Bits32),
            64 => Some(TagWidth::Bits64),
            _ => None,
        }
    }

    /// Returns the width in bits.
    pub fn bits(self) -> u32 {
        match self {
            TagWidth::Bits8 => 8,
            TagWidth::Bits16 => 16,
            TagWidth::Bits32 => 32,
            TagWidth::Bits64 => 64,
        }
    }

    /// Returns the width in bytes.
    pub fn bytes(self) -> usize {
        self.bits() as usize / 8
    }

    /// Returns the largest value of a tag of this width.
    pub fn max_tag_value(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }
}

/// Value that marks a chunk of a receive buffer as not yet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Value of the tag, which fits its width.
    pub value: u64,
    /// Width of the tag.
    pub width: TagWidth,
}

impl Tag {
    /// Writes the tag into the bytes of a trailer. A trailer that is shorter than the tag takes its low-order bytes; only the
    /// time-out protects such a stub from collisions.
    pub fn mark(self, trailer: &mut [u8]) {
        trailer.copy_from_slice(&self.value.to_le_bytes()[..trailer.len()]);
    }

    /// Returns true if the bytes of a trailer are the tag.
    pub fn ends(self, trailer: &[u8]) -> bool {
        value(trailer) == self.value & (u64::MAX >> (64 - 8 * trailer.len()))
    }

    /// Returns the last word of a marked chunk: the tag in its high-order bytes.
    #[inline]
    pub fn word(self) -> u64 {
        self.value << (u64::BITS - self.width.bits())
    }

    /// Returns true if the last word of a chunk ends in the tag.
    #[inline]
    pub fn matches_chunk_trailer(self, word: u64) -> bool {
        word >> (u64::BITS - self.width.bits()) == self.value
    }
}

/// Returns the bytes of a trailer as a little-endian number.
pub fn value(trailer: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..trailer.len()].copy_from_slice(trailer);
    u64::from_le_bytes(bytes)
}

/// Returns the byte range of a chunk's trailer in a buffer of `bytes` bytes. The last chunk may be shorter than the
/// others. A chunk that is shorter than the tag is all trailer.
pub fn place(chunk: usize, bytes: usize, chunk_bytes: usize, width: TagWidth) -> Range<usize> {
    let start = chunk * chunk_bytes;
    let end = bytes.min(start + chunk_bytes);
    end.saturating_sub(width.bytes()).max(start)..end
}

/// Returns the byte ranges of the trailers of all chunks of a buffer, in order.
pub fn places(bytes: usize, chunk_bytes: usize, width: TagWidth) -> impl Iterator<Item = Range<usize>> {
    (0..bytes.div_ceil(chunk_bytes)).map(move |chunk| place(chunk, bytes, chunk_bytes, width))
}

/// Returns the index of a chunk that is still marked, or none if the read is complete. The last chunk is checked first,
/// as it usually arrives last, then the others in order (figure 2).
#[inline(always)]
pub fn first_incomplete(chunks: usize, mut is_marked: impl FnMut(usize) -> bool) -> Option<usize> {
    let last = chunks.checked_sub(1)?;
    if is_marked(last) {
        return Some(last);
    }
    (0..last).find(|&chunk| is_marked(chunk))
}

#[cfg(test)]
mod tests;
