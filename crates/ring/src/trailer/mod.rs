//! Incomplete tags: how the host sees that a read is complete without being told (section 3 of the
//! DC Express paper, figures 1d and 2).
//!
//! The host writes a tag into the *trailer*, the last bytes, of every chunk of its receive buffer.
//! A chunk becomes visible as a whole, so one whose trailer no longer equals the tag has
//! arrived. The scheme is never wrong about completeness whatever the order of arrival; but if the
//! data itself ends in the tag (a *collision*), the read looks incomplete for ever, and a time-out
//! and another tag must help. [`TagSource`] chooses tags; [`StoredTrailers`] and [`UnusedTrailers`]
//! are the device's record of what its data ends in.
//!
//! Chunks of the buffer and chunks of the device must be the same ones: reads start at a multiple
//! of the chunk size (footnote 1 of the paper). A reader of smaller pieces needs a record by the
//! smaller size.
//!
//! Where the bytes of a buffer are is the caller's to know: modelled memory, or words that two
//! processes share. Here are the places, and the order in which they are looked at.

mod source;
mod stored;

use std::ops::Range;

pub use source::TagSource;
pub use stored::{StoredTrailers, UnusedTrailers};

/// Length of a tag: whole bytes, so that a trailer is one aligned load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagWidth {
    Bits8,
    Bits16,
    Bits32,
    Bits64,
}

impl TagWidth {
    /// The width of `bits`, which must be 8, 16, 32 or 64.
    pub fn from_bits(bits: u8) -> Option<TagWidth> {
        match bits {
            8 => Some(TagWidth::Bits8),
            16 => Some(TagWidth::Bits16),
            32 => Some(TagWidth::Bits32),
            64 => Some(TagWidth::Bits64),
            _ => None,
        }
    }

    /// Length in bits.
    pub fn bits(self) -> u32 {
        match self {
            TagWidth::Bits8 => 8,
            TagWidth::Bits16 => 16,
            TagWidth::Bits32 => 32,
            TagWidth::Bits64 => 64,
        }
    }

    /// Length in bytes.
    pub fn bytes(self) -> usize {
        self.bits() as usize / 8
    }

    /// The largest value of a tag.
    pub fn value_max(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }
}

/// An incomplete tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// No larger than its width allows.
    pub value: u64,
    pub width: TagWidth,
}

impl Tag {
    /// Let the bytes of a trailer be the tag. One that is too short takes its low-order bytes. No
    /// record of trailers protects such a stub from collisions: the time-out does.
    pub fn mark(self, trailer: &mut [u8]) {
        trailer.copy_from_slice(&self.value.to_le_bytes()[..trailer.len()]);
    }

    /// Whether the bytes of a trailer still are the tag.
    pub fn ends(self, trailer: &[u8]) -> bool {
        value(trailer) == self.value & (u64::MAX >> (64 - 8 * trailer.len()))
    }

    /// A word that ends in the tag, as a chunk of whole words does.
    #[inline]
    pub fn word(self) -> u64 {
        self.value << (u64::BITS - self.width.bits())
    }

    /// Whether a word ends in the tag.
    #[inline]
    pub fn stands_in(self, word: u64) -> bool {
        word >> (u64::BITS - self.width.bits()) == self.value
    }
}

/// The bytes of a trailer as a little-endian number.
pub fn value(trailer: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..trailer.len()].copy_from_slice(trailer);
    u64::from_le_bytes(bytes)
}

/// Where the trailer of a chunk of a buffer of `bytes` is. The last chunk may be shorter than the
/// others; one shorter than the tag is its own trailer.
pub fn place(chunk: usize, bytes: usize, chunk_bytes: usize, width: TagWidth) -> Range<usize> {
    let start = chunk * chunk_bytes;
    let end = bytes.min(start + chunk_bytes);
    end.saturating_sub(width.bytes()).max(start)..end
}

/// Where the trailers of all chunks are, in order.
pub fn places(bytes: usize, chunk_bytes: usize, width: TagWidth) -> impl Iterator<Item = Range<usize>> {
    (0..bytes.div_ceil(chunk_bytes)).map(move |chunk| place(chunk, bytes, chunk_bytes, width))
}

/// The first of so many chunks found that is still marked: the read is not complete. The host looks
/// at the last one first, as that usually arrives last, then at the others in order (figure 2).
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
