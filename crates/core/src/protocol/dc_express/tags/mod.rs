//! Incomplete tags: how the host sees that a read is complete without being told (section 3 of the
//! DC Express paper, figures 1d and 2).
//!
//! The host writes a tag into the trailing bytes of every packet-sized chunk of its receive buffer.
//! A packet settles in memory as a whole, so a chunk whose tail no longer equals the tag has
//! arrived. The scheme is never wrong about completeness whatever the order of arrival; but if the
//! data itself ends in the tag (a *collision*), the read looks incomplete for ever, and a time-out
//! and another tag must help. [`TagSource`] chooses tags; [`StoredTails`] and [`UnusedTails`] are
//! the device's record of what its data ends in.
//!
//! Chunks of the buffer and chunks of the device must be the same ones: reads start at a multiple
//! of the chunk size (footnote 1 of the paper). A reader of smaller pieces needs a record by the
//! smaller size.

mod source;
mod tails;

pub use source::TagSource;
pub use tails::{StoredTails, UnusedTails};

/// Length of a tag: whole bytes, so that a tail is one aligned load.
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

/// Chunks of a device: one tail each, a last partial chunk included.
fn chunks(capacity_bytes: u64, chunk_bytes: u32) -> u64 {
    assert!(chunk_bytes > 0, "a chunk needs a byte");
    capacity_bytes.div_ceil(u64::from(chunk_bytes))
}

/// Greatest probability that a random tag equals the tail of some chunk on the device: every chunk
/// ends differently. 128 GiB in chunks of 128 B and 32 bits give 2^30 / 2^32 = 25 % (section 3.1).
pub fn collision_bound(capacity_bytes: u64, chunk_bytes: u32, tag_bits: u32) -> f64 {
    let values = libm::exp2(f64::from(tag_bits));
    (chunks(capacity_bytes, chunk_bytes) as f64 / values).min(1.0)
}

/// Least number of bits with which a tag that no chunk ends in always exists: the length must be
/// greater than log2(C / P), C being the capacity and P the size of a chunk (section 3.1).
pub fn tag_bits_min(capacity_bytes: u64, chunk_bytes: u32) -> u32 {
    u64::BITS - chunks(capacity_bytes, chunk_bytes).leading_zeros()
}

/// The trailing bytes of a chunk as a little-endian number. A chunk shorter than the tag is its own
/// tail.
#[inline]
pub fn tail(chunk: &[u8], width: TagWidth) -> u64 {
    match width {
        TagWidth::Bits8 => chunk.last().map(|&byte| u64::from(byte)),
        TagWidth::Bits16 => chunk.last_chunk().map(|&b| u64::from(u16::from_le_bytes(b))),
        TagWidth::Bits32 => chunk.last_chunk().map(|&b| u64::from(u32::from_le_bytes(b))),
        TagWidth::Bits64 => chunk.last_chunk().map(|&b| u64::from_le_bytes(b)),
    }
    .unwrap_or_else(|| short_tail(chunk))
}

/// The tail of a chunk of less than eight bytes.
fn short_tail(chunk: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..chunk.len()].copy_from_slice(chunk);
    u64::from_le_bytes(bytes)
}

/// Writes the tag into the trailing bytes of each chunk of a receive buffer, before its read is
/// issued. The last chunk may be shorter than the others; one shorter than the tag takes as many of
/// the tag's low-order bytes as it has room for. No record of tails protects such a stub from
/// collisions: the time-out does.
pub fn mark(buffer: &mut [u8], chunk_bytes: usize, tag: u64, width: TagWidth) {
    for chunk in buffer.chunks_mut(chunk_bytes) {
        let length = width.bytes().min(chunk.len());
        let start = chunk.len() - length;
        chunk[start..].copy_from_slice(&tag.to_le_bytes()[..length]);
    }
}

/// The first chunk found whose tail still is the tag: the read is not complete. The host looks at
/// the tail of the whole buffer first, as that usually arrives last, then at the others in order
/// (figure 2).
pub fn first_incomplete(buffer: &[u8], chunk_bytes: usize, tag: u64, width: TagWidth) -> Option<usize> {
    let mut chunks = buffer.chunks(chunk_bytes);
    let last = chunks.next_back()?;
    if is_marked(last, tag, width) {
        return Some(chunks.len());
    }
    chunks.position(|chunk| is_marked(chunk, tag, width))
}

fn is_marked(chunk: &[u8], tag: u64, width: TagWidth) -> bool {
    let stub_bytes = chunk.len().min(width.bytes());
    tail(chunk, width) == tag & (u64::MAX >> (64 - 8 * stub_bytes))
}

#[cfg(test)]
mod tests;
