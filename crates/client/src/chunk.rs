//! Accesses to words of shared memory, in the memory order on which the protocol relies.
//!
//! # Why the data of a chunk is visible once its tag is overwritten
//!
//! ```text
//!    host                                            device
//!    store every trailer: the tag       (relaxed)
//!    store words 1..8 of a command      (relaxed)
//!    store word 0, with the pass        (release) ──> load word 0                      (acquire)
//!                                                     load words 1..8                  (relaxed)
//!                                                     for each chunk: store words 0..63 (relaxed)
//!    load every trailer until it        (acquire) <──                 store the trailer (release)
//!      is no tag
//!    load the data                      (relaxed)
//! ```
//!
//! On a PCI Express link, a packet becomes visible as a whole. Between two processors only a word does, so the device orders
//! its stores: it stores the last word of a chunk, the trailer, with release after the other words. A host that loads the
//! trailer with acquire and finds another value than the tag also sees the rest of the chunk. Chunks may arrive in any order,
//! as in the paper. The host cannot see the tag again later, since the release of the command orders the tag before the
//! device's store. In the same way, the data of a write is stored before the command is released, and a status is stored
//! after the data that it completes.
//!
//! All accesses are to atomic words. A peer that writes at a wrong place or time therefore makes values wrong, and nothing
//! else. On x86-64 these are plain loads and stores; on AArch64 release and acquire are `stlr` and `ldar` (or `ldapr`).

use std::sync::atomic::Ordering;

use phaselink_ring::command::COMMAND_BYTES;
use phaselink_ring::layout::WORD_BYTES;
use phaselink_ring::trailer::{self, Tag};

/// Length in bytes of a chunk, the unit in which data becomes visible. The last word of a chunk is its trailer.
///
/// On the link a chunk is the payload of a packet, 128 bytes (section 3.1). Shared memory has no packets, and each trailer is
/// in a cache line that both sides write, so a longer chunk is faster: with 4096 bytes instead of 512, transfers of 4 KiB at
/// queue depth 32 rose from 0.79 to 0.91 of the rate of two bare threads.
pub const CHUNK_BYTES: usize = 4096;
/// Length of a chunk in words.
pub const CHUNK_WORDS: usize = CHUNK_BYTES / WORD_BYTES;
/// Length of a cache line in bytes.
pub(crate) const LINE_BYTES: usize = 64;
/// Length of a cache line in words.
pub(crate) const LINE_WORDS: usize = LINE_BYTES / WORD_BYTES;
/// Maximum number of bytes to prefetch. A core has about sixteen cache misses in flight, and its hardware prefetcher continues
/// from there.
pub const AHEAD_BYTES: usize = 1024;
const AHEAD_WORDS: usize = AHEAD_BYTES / WORD_BYTES;
/// Length of a command in words.
pub const COMMAND_WORDS: usize = COMMAND_BYTES / WORD_BYTES;

/// Word of 64 bits that two processes share: `AtomicU64`, or the one of the model checker that explores every interleaving.
pub trait Word: Sized {
    /// Loads the value.
    fn load(&self, order: Ordering) -> u64;
    /// Stores a value.
    fn store(&self, value: u64, order: Ordering);
    /// Hints that the cache line of this word is about to be read.
    fn prefetch(&self) {}
    /// Hints that the cache line of this word is about to be written.
    fn prefetch_to_write(&self) {}
    /// Copies words to bytes, in any order. An earlier load with acquire has made the words visible.
    fn load_all(words: &[Self], into: &mut [u8]) {
        load_words(words, into);
    }
    /// Copies bytes to words, in any order. A later store with release makes them visible.
    fn store_all(words: &[Self], from: &[u8]) {
        store_words(words, from);
    }
    /// Copies words that other threads may be changing to other words, in any order. A later store with release makes
    /// them visible.
    fn copy_all(from: &[Self], into: &[Self]) {
        copy_words(from, into);
    }
}

/// Writes the tag into the trailer of every chunk of a receive buffer. The host does so before it sends a read.
#[inline]
pub fn mark<W: Word>(buffer: &[W], tag: Tag) {
    let word = tag.word();
    for chunk in buffer.chunks(CHUNK_WORDS) {
        chunk[chunk.len() - 1].store(word, Ordering::Relaxed);
    }
}

/// Returns true if no chunk of a receive buffer ends in the tag, so that all data has arrived.
#[inline]
pub fn is_complete<W: Word>(buffer: &[W], tag: Tag) -> bool {
    let is_marked = |chunk: usize| {
        let trailer = &buffer[((chunk + 1) * CHUNK_WORDS).min(buffer.len()) - 1];
        tag.matches_chunk_trailer(trailer.load(Ordering::Acquire))
    };
    trailer::first_incomplete(buffer.len().div_ceil(CHUNK_WORDS), is_marked).is_none()
}

/// Prefetches a buffer that is about to be copied out.
pub fn prefetch<W: Word>(buffer: &[W]) {
    buffer.iter().step_by(LINE_WORDS).for_each(Word::prefetch);
}

/// Prefetches the first [`AHEAD_BYTES`] of a buffer that is about to be written.
#[inline]
pub fn prefetch_to_write<W: Word>(buffer: &[W]) {
    buffer[..buffer.len().min(AHEAD_WORDS)].iter().step_by(LINE_WORDS).for_each(Word::prefetch_to_write);
}

/// Copies data into a receive buffer, and stores the trailer of each chunk last. The device completes a read by this.
///
/// # Panics
/// If the data is no whole number of words or longer than the buffer.
#[inline]
pub fn deliver<W: Word>(buffer: &[W], data: &[u8]) {
    assert!(data.len().is_multiple_of(WORD_BYTES), "the data of a read is a whole number of words");
    let chunks = buffer[..data.len() / WORD_BYTES].chunks(CHUNK_WORDS);
    for (chunk, piece) in chunks.zip(data.chunks(CHUNK_BYTES)) {
        let (trailer, body) = chunk.split_last().expect("no chunk is empty");
        let (rest, last) = piece.split_last_chunk::<WORD_BYTES>().expect("a word for each");
        W::store_all(body, rest);
        trailer.store(u64::from_le_bytes(*last), Ordering::Release);
    }
}

/// Copies data from shared words, which other threads may be changing, into a receive buffer. Stores the trailer of
/// each chunk last.
///
/// # Panics
/// If the data is longer than the buffer.
#[inline]
pub fn forward<W: Word>(buffer: &[W], data: &[W]) {
    for (chunk, piece) in buffer[..data.len()].chunks(CHUNK_WORDS).zip(data.chunks(CHUNK_WORDS)) {
        let (trailer, body) = chunk.split_last().expect("no chunk is empty");
        let (last, rest) = piece.split_last().expect("a word for each");
        W::copy_all(rest, body);
        trailer.store(last.load(Ordering::Relaxed), Ordering::Release);
    }
}

/// Copies the content of shared words to bytes. An earlier load with acquire, of a trailer or a command, has made the
/// words visible.
#[inline]
pub fn copy_out<W: Word>(buffer: &[W], into: &mut [u8]) {
    W::load_all(buffer, into);
}

/// Copies the data of a write into shared words. The release of its command makes them visible.
#[inline]
pub fn copy_in<W: Word>(buffer: &[W], from: &[u8]) {
    W::store_all(buffer, from);
}

#[inline(always)]
pub(crate) fn load_words<W: Word>(words: &[W], into: &mut [u8]) {
    for (word, bytes) in words.iter().zip(into.as_chunks_mut().0) {
        *bytes = word.load(Ordering::Relaxed).to_le_bytes();
    }
}

#[inline(always)]
pub(crate) fn store_words<W: Word>(words: &[W], from: &[u8]) {
    for (word, bytes) in words.iter().zip(from.as_chunks().0) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
}

#[inline(always)]
pub(crate) fn copy_words<W: Word>(from: &[W], into: &[W]) {
    for (from, into) in from.iter().zip(into) {
        into.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Writes a command into an entry of the command ring, its first word last with release. The host submits a command by
/// this.
#[inline]
pub fn publish<W: Word>(entry: &[W], command: &[u8; COMMAND_BYTES]) {
    store_words(&entry[1..], &command[WORD_BYTES..]);
    let first = u64::from_le_bytes(command.as_chunks().0[0]);
    entry[0].store(first, Ordering::Release);
}

/// Returns a private copy of the command in an entry of the ring, or none if the entry was not written in this pass.
#[inline]
pub fn take<W: Word>(entry: &[W], pass: u8) -> Option<[u8; COMMAND_BYTES]> {
    let first = entry[0].load(Ordering::Acquire).to_le_bytes();
    (first[1] == pass).then(|| {
        let mut command = [0; COMMAND_BYTES];
        command[..WORD_BYTES].copy_from_slice(&first);
        load_words(&entry[1..], &mut command[WORD_BYTES..]);
        command
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use phaselink_ring::trailer::TagWidth;

    /// Word that only one thread uses.
    struct Lone(Cell<u64>);

    impl Word for Lone {
        fn load(&self, _order: Ordering) -> u64 {
            self.0.get()
        }

        fn store(&self, value: u64, _order: Ordering) {
            self.0.set(value);
        }
    }

    #[test]
    fn marking_words_writes_tags_only_at_trailer_bytes() {
        for width in [TagWidth::Bits8, TagWidth::Bits16, TagWidth::Bits32, TagWidth::Bits64] {
            let tag = Tag { value: 0x8877_6655_4433_22f1 & width.max_tag_value(), width };
            for words in [1, 2, CHUNK_WORDS - 1, CHUNK_WORDS, CHUNK_WORDS + 1, 3 * CHUNK_WORDS] {
                let buffer: Vec<Lone> = (0..words).map(|_| Lone(Cell::new(0))).collect();
                mark(&buffer, tag);
                let mut bytes = vec![0; words * WORD_BYTES];
                copy_out(&buffer, &mut bytes);
                for place in trailer::places(bytes.len(), CHUNK_BYTES, width) {
                    assert!(tag.ends(&bytes[place.clone()]));
                    bytes[place].fill(0);
                }
                assert!(bytes.iter().all(|byte| *byte == 0));
                assert!(!is_complete(&buffer, tag));
            }
        }
    }
}
