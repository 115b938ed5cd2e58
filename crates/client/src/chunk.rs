//! Words of shared memory, and the order in which they may be seen. Everything else relies on these few functions.
//!
//! # Why a tag that is gone means that the data is there
//!
//! ```text
//!    host                                            device
//!    store every tail: the tag          (relaxed)
//!    store words 1..8 of a command      (relaxed)
//!    store word 0, with the pass        (release) ──> load word 0                      (acquire)
//!                                                     load words 1..8                  (relaxed)
//!                                                     for each chunk: store words 0..63 (relaxed)
//!    load every tail until it is no tag (acquire) <──                 store the tail   (release)
//!    load the data                      (relaxed)
//! ```
//!
//! On a link, a packet settles in memory as a whole. Between two processors nothing does beyond a word, so the order
//! has to be made: a chunk's last word is stored with release, behind the others of the chunk. Who loads it with acquire
//! and finds something else than the tag finds the rest of that chunk too. Chunks may come in any order, as in the paper.
//! The tag cannot be seen again afterwards: the release of the command puts it before the device's store of that word.
//! Data of a write is stored before the command is released, and a status after the data it speaks of, in the same way.
//!
//! All access is by atomic words, so that a peer who writes where or when it should not makes values wrong, and nothing
//! else. On x86-64 these are plain loads and stores; on AArch64 release and acquire are `stlr` and `ldar` (or `ldapr`).

use std::sync::atomic::{AtomicU64, Ordering};

use phaselink_core::protocol::dc_express::command::COMMAND_BYTES;
use phaselink_core::protocol::dc_express::tags::{self, TagWidth};

/// The unit in which data becomes visible: each chunk has a tail. On the link it is a packet's 128 bytes (section 3.1);
/// here nothing cuts data into packets, and fewer tails are fewer lines that both sides write.
pub const CHUNK_BYTES: usize = 512;
/// The same in words.
pub const CHUNK_WORDS: usize = CHUNK_BYTES / WORD_BYTES;
/// Bytes of a word.
pub const WORD_BYTES: usize = 8;
/// Words of a cache line.
const LINE_WORDS: usize = 64 / WORD_BYTES;
/// Bytes that are fetched ahead: a processor waits for some sixteen lines at a time, and follows by itself from there.
pub const AHEAD_BYTES: usize = 1024;
const AHEAD_WORDS: usize = AHEAD_BYTES / WORD_BYTES;
/// Words of a command.
pub const COMMAND_WORDS: usize = COMMAND_BYTES / WORD_BYTES;

/// A word that two processes share. The second kind is the one with which the order above is checked exhaustively.
pub trait Word {
    /// The value.
    fn load(&self, order: Ordering) -> u64;
    /// Let `value` be the value.
    fn store(&self, value: u64, order: Ordering);
    /// Fetch the line of this word, ahead of need: a hint.
    fn prefetch(&self) {}
    /// The same, to write there.
    fn prefetch_to_write(&self) {}
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn prefetch(&self) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which reads nothing that a program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(self).cast()) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn prefetch_to_write(&self) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(self).cast()) }
    }
}

/// A tag as it stands in the last word of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Tag {
    pub value: u64,
    pub width: TagWidth,
}

impl Tag {
    fn word(self) -> u64 {
        let mut bytes = [0; WORD_BYTES];
        tags::mark(&mut bytes, WORD_BYTES, self.value, self.width);
        u64::from_le_bytes(bytes)
    }

    #[inline]
    fn stands_in(self, word: u64) -> bool {
        tags::tail(&word.to_le_bytes(), self.width) == self.value
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

/// Whether no chunk ends in the tag any more: all data is there. The last one is looked at first, as it usually arrives
/// last (figure 2 of the paper).
#[inline]
pub fn is_complete<W: Word>(buffer: &[W], tag: Tag) -> bool {
    let is_here = |chunk: &[W]| chunk.last().is_none_or(|word| !tag.stands_in(word.load(Ordering::Acquire)));
    let mut chunks = buffer.chunks(CHUNK_WORDS);
    chunks.next_back().is_none_or(is_here) && chunks.all(is_here)
}

/// Fetch the beginning of a buffer, ahead of reading it.
#[inline]
pub fn prefetch<W: Word>(buffer: &[W]) {
    buffer[..buffer.len().min(AHEAD_WORDS)].iter().step_by(LINE_WORDS).for_each(Word::prefetch);
}

/// The same ahead of writing it.
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
    let (chunks, rest) = buffer[..data.len() / WORD_BYTES].as_chunks::<CHUNK_WORDS>();
    let (pieces, piece) = data.as_chunks::<CHUNK_BYTES>();
    chunks.iter().zip(pieces).for_each(|(chunk, piece)| deliver_chunk(chunk, piece));
    if !rest.is_empty() {
        deliver_chunk(rest, piece);
    }
}

#[inline(always)]
fn deliver_chunk<W: Word>(chunk: &[W], piece: &[u8]) {
    let (values, tail) = (piece.as_chunks().0, chunk.len() - 1);
    for (word, value) in chunk[..tail].iter().zip(values) {
        word.store(u64::from_le_bytes(*value), Ordering::Relaxed);
    }
    chunk[tail].store(u64::from_le_bytes(values[tail]), Ordering::Release);
}

/// Copy data whose presence has been seen by an acquire: of a tail, or of a command.
#[inline]
pub fn copy_out<W: Word>(buffer: &[W], into: &mut [u8]) {
    let count = buffer.len().min(into.len() / WORD_BYTES);
    // Whole chunks apart, whose length is known here: loops over these are unrolled.
    let (chunks, rest) = buffer[..count].as_chunks::<CHUNK_WORDS>();
    let (pieces, piece) = into[..count * WORD_BYTES].as_chunks_mut::<CHUNK_BYTES>();
    chunks.iter().zip(pieces).for_each(|(chunk, piece)| load_words(chunk, piece));
    load_words(rest, piece);
}

#[inline(always)]
fn load_words<W: Word>(buffer: &[W], into: &mut [u8]) {
    for (word, bytes) in buffer.iter().zip(into.as_chunks_mut().0) {
        *bytes = word.load(Ordering::Relaxed).to_le_bytes();
    }
}

/// Copy data that a release will make visible: that of the command it belongs to.
#[inline]
pub fn copy_in<W: Word>(buffer: &[W], from: &[u8]) {
    for (word, bytes) in buffer.iter().zip(from.as_chunks().0) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
}

/// The host puts a command into an entry of the ring.
#[inline]
pub fn publish<W: Word>(entry: &[W], command: &[u8; COMMAND_BYTES]) {
    copy_in(&entry[1..], &command[WORD_BYTES..]);
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
        copy_out(&entry[1..], &mut command[WORD_BYTES..]);
        command
    })
}
