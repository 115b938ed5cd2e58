//! Memory that two processes share, as atomic words.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};

use phaselink_ring::layout::WORD_BYTES;

/// Mapping of a memory file whose size is sealed, so that no access can fail.
#[derive(Debug)]
pub struct Memory {
    map: MmapRaw,
}

impl Memory {
    /// Creates zeroed memory. Returns the descriptor with which another process can map it.
    ///
    /// # Errors
    /// If the system has no memory or no descriptor left.
    pub fn create(bytes: u64) -> io::Result<(Memory, OwnedFd)> {
        let fd = rustix::fs::memfd_create("phaselink", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, bytes)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Memory::open(&fd, bytes)?;
        Ok((memory, fd))
    }

    /// Maps the memory file of a descriptor, which another process has created.
    ///
    /// # Errors
    /// If the memory has another size than `bytes`, or its size is not sealed.
    pub fn open(fd: &OwnedFd, bytes: u64) -> io::Result<Memory> {
        let size = rustix::fs::fstat(fd)?.st_size as u64;
        let is_fixed = rustix::fs::fcntl_get_seals(fd)?.contains(SealFlags::SHRINK);
        if size != bytes || !is_fixed {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory does not have the agreed size, or is not sealed",
            ));
        }
        let length = usize::try_from(bytes).map_err(io::Error::other)?;
        let map = MmapOptions::new().len(length).map_raw(&fd.as_fd())?;
        Ok(Memory { map })
    }

    /// Returns `count` words that begin at byte `offset`.
    ///
    /// # Panics
    /// If the words do not lie within the memory, or `offset` is no multiple of a word.
    #[inline]
    pub fn words(&self, offset: u64, count: usize) -> &[AtomicU64] {
        let end = offset + (count * WORD_BYTES) as u64;
        assert!(end <= self.map.len() as u64 && offset.is_multiple_of(WORD_BYTES as u64), "{count} words at {offset}");
        let first = self.map.as_ptr().wrapping_add(offset as usize).cast::<AtomicU64>();
        // SAFETY: the words lie within the mapping and are aligned. The mapping begins at a page and lives as long as
        // `self`, and the file is sealed against shrinking. In this process, only this method gives access to the
        // words, as atomics. Another process can only change their values.
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    /// Returns the word at byte `offset`.
    ///
    /// # Panics
    /// If the word does not lie within the memory, or `offset` is no multiple of a word.
    #[inline]
    pub fn word(&self, offset: u64) -> &AtomicU64 {
        &self.words(offset, 1)[0]
    }
}
