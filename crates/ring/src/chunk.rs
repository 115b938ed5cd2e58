//! Words of shared memory, and the order in which they may be seen. Everything else relies on these few functions.
//!
//! # Why a tag that is gone means that the data is there
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
//! On a link, a packet becomes visible as a whole. Between two processors nothing does beyond a word, so the order
//! has to be made: a chunk's last word is stored with release, behind the others of the chunk. Who loads it with acquire
//! and finds something else than the tag finds the rest of that chunk too. Chunks may come in any order, as in the paper.
//! The tag cannot be seen again afterwards: the release of the command puts it before the device's store of that word.
//! Data of a write is stored before the command is released, and a status after the data it speaks of, in the same way.
//!
//! All access is by atomic words, so that a peer who writes where or when it should not makes values wrong, and nothing
//! else. On x86-64 these are plain loads and stores; on AArch64 release and acquire are `stlr` and `ldar` (or `ldapr`).

use std::sync::atomic::Ordering;

use crate::command::COMMAND_BYTES;
use crate::trailer::{self, Tag};

/// The unit in which data becomes visible: each chunk has a trailer. On the link it is a packet's 128 bytes (section 3.1);
/// here nothing cuts data into packets, and a trailer is in a line that both sides write: with one a page instead of one a
/// sector, pages at depth 32 have come from 0.79 of the rate of two bare threads to 0.91 of it.
pub const CHUNK_BYTES: usize = 4096;
/// The same in words.
pub const CHUNK_WORDS: usize = CHUNK_BYTES / WORD_BYTES;
/// Bytes of a word.
pub const WORD_BYTES: usize = 8;
/// Bytes of a cache line, and its words.
pub(crate) const LINE_BYTES: usize = 64;
pub(crate) const LINE_WORDS: usize = LINE_BYTES / WORD_BYTES;
/// Bytes that are fetched ahead: a processor waits for some sixteen lines at a time, and follows by itself from there.
pub const AHEAD_BYTES: usize = 1024;
const AHEAD_WORDS: usize = AHEAD_BYTES / WORD_BYTES;
/// Words of a command.
pub const COMMAND_WORDS: usize = COMMAND_BYTES / WORD_BYTES;

/// A word that two processes share. The second kind is the one with which the order above is checked exhaustively.
pub trait Word: Sized {
    /// The value.
    fn load(&self, order: Ordering) -> u64;
    /// Let `value` be the value.
    fn store(&self, value: u64, order: Ordering);
    /// Fetch the line of this word, ahead of need: a hint.
    fn prefetch(&self) {}
    /// The same, to write there.
    fn prefetch_to_write(&self) {}
    /// Copy words out, in any order: their presence has been seen by an acquire.
    fn load_all(words: &[Self], into: &mut [u8]) {
        load_words(words, into);
    }
    /// Copy into words, in any order: a release makes them visible.
    fn store_all(words: &[Self], from: &[u8]) {
        store_words(words, from);
    }
    /// Copy words that others may be changing into words, in any order: a release makes them visible.
    fn copy_all(from: &[Self], into: &[Self]) {
        copy_words(from, into);
    }
}

/// The host marks a receive buffer.
#[inline]
pub fn mark<W: Word>(buffer: &[W], tag: Tag) {
    let word = tag.word();
    for chunk in buffer.chunks(CHUNK_WORDS) {
        chunk[chunk.len() - 1].store(word, Ordering::Relaxed);
    }
}

/// Whether no chunk ends in the tag any more: all data is there.
#[inline]
pub fn is_complete<W: Word>(buffer: &[W], tag: Tag) -> bool {
    let is_marked = |chunk: usize| {
        let trailer = &buffer[((chunk + 1) * CHUNK_WORDS).min(buffer.len()) - 1];
        tag.stands_in(trailer.load(Ordering::Acquire))
    };
    trailer::first_incomplete(buffer.len().div_ceil(CHUNK_WORDS), is_marked).is_none()
}

/// Fetch a buffer, ahead of copying it out.
pub fn prefetch<W: Word>(buffer: &[W]) {
    buffer.iter().step_by(LINE_WORDS).for_each(Word::prefetch);
}

/// Fetch the beginning of a buffer, ahead of writing it.
#[inline]
pub fn prefetch_to_write<W: Word>(buffer: &[W]) {
    buffer[..buffer.len().min(AHEAD_WORDS)].iter().step_by(LINE_WORDS).for_each(Word::prefetch_to_write);
}

/// The device puts data into a marked buffer: each chunk's last word behind the others.
///
/// # Panics
/// If the data is no whole number of words or longer than the buffer.
#[inline]
pub fn deliver<W: Word>(buffer: &[W], data: &[u8]) {
    assert!(data.len().is_multiple_of(WORD_BYTES), "data comes in whole words");
    let chunks = buffer[..data.len() / WORD_BYTES].chunks(CHUNK_WORDS);
    for (chunk, piece) in chunks.zip(data.chunks(CHUNK_BYTES)) {
        let (trailer, body) = chunk.split_last().expect("no chunk is empty");
        let (rest, last) = piece.split_last_chunk::<WORD_BYTES>().expect("a word for each");
        W::store_all(body, rest);
        trailer.store(u64::from_le_bytes(*last), Ordering::Release);
    }
}

/// The same with data that is in shared words itself, which others may be changing.
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

/// Copy data whose presence has been seen by an acquire: of a trailer, or of a command.
#[inline]
pub fn copy_out<W: Word>(buffer: &[W], into: &mut [u8]) {
    W::load_all(buffer, into);
}

/// Copy data that a release will make visible: that of the command it belongs to.
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

/// The host puts a command into an entry of the ring.
#[inline]
pub fn publish<W: Word>(entry: &[W], command: &[u8; COMMAND_BYTES]) {
    store_words(&entry[1..], &command[WORD_BYTES..]);
    let first = u64::from_le_bytes(command.as_chunks().0[0]);
    entry[0].store(first, Ordering::Release);
}

/// The device takes a private copy of an entry, if it carries the mark of this pass over the ring.
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
    use crate::trailer::TagWidth;

    /// A word of one thread.
    struct Lone(Cell<u64>);

    impl Word for Lone {
        fn load(&self, _order: Ordering) -> u64 {
            self.0.get()
        }

        fn store(&self, value: u64, _order: Ordering) {
            self.0.set(value);
        }
    }

    /// Buffers of words hold their tags at the bytes that the rule for any buffer names, and nowhere else.
    #[test]
    fn tags_of_words_stand_where_those_of_bytes_do() {
        for width in [TagWidth::Bits8, TagWidth::Bits16, TagWidth::Bits32, TagWidth::Bits64] {
            let tag = Tag { value: 0x8877_6655_4433_22f1 & width.value_max(), width };
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
