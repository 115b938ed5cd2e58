//! A client's memory mapped into this process: the only `unsafe` code of this front-end.
//!
//! The client may write anything there at any time, also during a copy. So references to it exist only as single atomic
//! words, and a copy may be torn. Readers check their own copy.
//!
//! A client may also truncate the file behind the memory: a [`Guard`] keeps the server running then.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use memmap2::{MmapOptions, MmapRaw};
use phaselink_client::chunk;

use crate::device::guard::Guard;
use crate::device::store::copy;

/// Range of a client's memory, mapped into this process.
#[derive(Debug)]
pub struct Mapping {
    /// Guard against truncation of the mapped file, which must be dropped before the mapping.
    _guard: Guard,
    map: MmapRaw,
    writable: bool,
}

impl Mapping {
    /// Maps `bytes` bytes of the file `fd`, from `offset` on, into this process.
    ///
    /// # Errors
    /// If the descriptor is no regular file, the file is too short, the system refuses, or there are too many mappings.
    pub fn new(fd: &OwnedFd, offset: u64, bytes: u64, writable: bool) -> io::Result<Mapping> {
        let found = rustix::fs::fstat(fd)?;
        let is_file = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
        let end = offset.checked_add(bytes).filter(|_| bytes > 0);
        let is_long_enough = end.is_some_and(|end| end <= found.st_size as u64);
        if !(is_file && is_long_enough) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut options = MmapOptions::new();
        options.offset(offset).len(usize::try_from(bytes).map_err(io::Error::other)?);
        let map = match writable {
            true => options.map_raw(fd.as_raw_fd())?,
            false => options.map_raw_read_only(fd.as_raw_fd())?,
        };
        let guard = Guard::new(map.as_ptr() as usize, map.len())?;
        Ok(Mapping { _guard: guard, map, writable })
    }

    /// Copies bytes of the mapping, from `offset` on, to `into`. The copy may be torn if the client writes meanwhile.
    ///
    /// # Panics
    /// If the range reaches beyond the end of the mapping, as in every other method.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        self.check(offset, into.len());
        // SAFETY: the range lies within the mapping, which lives as long as `self`. The only references to it are to
        // atomic words. `into` is a reference, so it does not overlap the mapping. If another process writes meanwhile,
        // the copy has wrong bytes, but every byte value is valid.
        unsafe { ptr::copy_nonoverlapping(self.map.as_ptr().add(offset), into.as_mut_ptr(), into.len()) }
    }

    /// Copies `from` to the mapping, from `offset` on; returns false if the mapping is read-only.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        self.check(offset, from.len());
        if self.writable {
            // SAFETY: as in `read`, and the mapping is writable.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.map.as_mut_ptr().add(offset), from.len()) }
        }
        self.writable
    }

    /// Copies words of the mapping directly to `stored`, words of a store; returns false if the mapping's words are not
    /// aligned.
    #[inline]
    pub fn read_words(&self, offset: usize, stored: &[AtomicU64]) -> bool {
        let words = self.words(offset, stored.len());
        words.inspect(|words| copy::copy_words_into_store(words, stored)).is_some()
    }

    /// Copies `stored`, words of a store, directly to the mapping; returns false if the mapping's words are not
    /// aligned, or the mapping is read-only.
    #[inline]
    pub fn write_words(&self, offset: usize, stored: &[AtomicU64]) -> bool {
        let words = self.words(offset, stored.len()).filter(|_| self.writable);
        words.inspect(|words| copy::copy_words_out_of_store(stored, words)).is_some()
    }

    /// Prefetches the cache lines of a range that is going to be read, if the range is aligned to words.
    #[inline]
    pub fn prefetch(&self, offset: usize, bytes: usize) {
        self.words(offset, bytes / 8).into_iter().for_each(chunk::prefetch);
    }

    /// Prefetches the cache lines of a range that is going to be written, if the range is aligned to words.
    #[inline]
    pub fn prefetch_to_write(&self, offset: usize, bytes: usize) {
        self.words(offset, bytes / 8).into_iter().for_each(chunk::prefetch_to_write);
    }

    #[inline]
    fn words(&self, offset: usize, count: usize) -> Option<&[AtomicU64]> {
        self.check(offset, count * 8);
        // SAFETY: the offset lies within the mapping.
        let first = unsafe { self.map.as_ptr().add(offset) }.cast::<AtomicU64>();
        // SAFETY: the words are aligned and lie within the mapping, which lives as long as the reference. Only copies
        // of words and bytes access them, and every value is valid, even if a copy is torn.
        first.is_aligned().then(|| unsafe { slice::from_raw_parts(first, count) })
    }

    /// Writes a completion queue entry at `offset`, whose last word becomes visible after the others. Returns false if
    /// the mapping is read-only.
    #[inline]
    pub fn post(&self, offset: usize, entry: &[u8; 16]) -> bool {
        let (&first, last) = entry.split_first_chunk::<12>().expect("an entry is longer");
        let last = u32::from_le_bytes(last.try_into().expect("four bytes are left"));
        match self.word(offset + 12).filter(|_| self.writable) {
            Some(word) => {
                self.write(offset, &first);
                word.store(last.to_le(), Ordering::Release);
                true
            }
            None => self.write(offset, entry),
        }
    }

    /// Returns the 32-bit word at `offset`, with acquire ordering; none if it is not aligned.
    #[inline]
    pub fn load_word(&self, offset: usize) -> Option<u32> {
        self.word(offset).map(|word| u32::from_le(word.load(Ordering::Acquire)))
    }

    /// Sets the 32-bit word at `offset`, if it is aligned and writable. Later loads of this thread are not moved before
    /// it.
    pub fn store_word(&self, offset: usize, value: u32) {
        if let Some(word) = self.word(offset).filter(|_| self.writable) {
            word.store(value.to_le(), Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
    }

    #[inline]
    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        self.check(offset, 4);
        // SAFETY: the offset lies within the mapping.
        let word = unsafe { self.map.as_ptr().add(offset) }.cast::<AtomicU32>();
        // SAFETY: the word is aligned and lies within the mapping, which lives as long as the reference. Device threads
        // of this process and other processes access it only as bytes or atomic words.
        word.is_aligned().then(|| unsafe { &*word })
    }

    #[inline]
    fn check(&self, offset: usize, bytes: usize) {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.map.len()), "{bytes} bytes at {offset}");
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::MemfdFlags;

    use super::*;

    fn memory(bytes: u64) -> OwnedFd {
        let fd = rustix::fs::memfd_create("client", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, bytes).unwrap();
        fd
    }

    #[test]
    fn truncated_client_memory_reads_zeros_and_the_server_survives() {
        let fd = memory(3 << 12);
        let mapping = Mapping::new(&fd, 1 << 12, 2 << 12, true).unwrap();
        assert!(mapping.write(100, &[7; 8000]));
        rustix::fs::ftruncate(&fd, 1 << 12).unwrap();
        let mut bytes = [1; 8000];
        mapping.read(100, &mut bytes);
        assert_eq!(bytes, [0; 8000]);
        assert!(mapping.write(0, &[3; 8192]) && mapping.load_word(0) == Some(0x0303_0303));
    }

    #[test]
    fn short_or_fileless_memory_is_refused() {
        assert!(Mapping::new(&memory(4096), 1, 4096, true).is_err());
        assert!(Mapping::new(&memory(4096), u64::MAX, 4096, true).is_err());
        assert!(Mapping::new(&memory(4096), 0, 0, true).is_err());
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert!(Mapping::new(&pipe, 0, 1, false).is_err());
    }

    #[test]
    fn aligned_writable_words_are_copied_directly() {
        let word = |value| AtomicU64::new(value);
        let (from, into) = ([word(1), word(2), word(3)], [word(0), word(0), word(0)]);
        let mapping = Mapping::new(&memory(4096), 0, 4096, true).unwrap();
        assert!(mapping.write_words(4072, &from) && mapping.read_words(4072, &into));
        assert_eq!(into.map(AtomicU64::into_inner), [1, 2, 3]);
        assert!(!mapping.write_words(4, &from) && !mapping.read_words(4, &from));
        let mapping = Mapping::new(&memory(4096), 0, 4096, false).unwrap();
        assert!(!mapping.write_words(0, &from) && mapping.read_words(0, &from));
        assert_eq!(from.map(AtomicU64::into_inner), [0, 0, 0]);
    }

    #[test]
    fn read_only_memory_stays_unchanged() {
        let mapping = Mapping::new(&memory(4096), 0, 4096, false).unwrap();
        assert!(!mapping.write(0, &[1]) && !mapping.post(0, &[1; 16]));
        mapping.store_word(0, 1);
        assert_eq!(mapping.load_word(0), Some(0));
        assert_eq!(mapping.load_word(1), None);
    }
}
