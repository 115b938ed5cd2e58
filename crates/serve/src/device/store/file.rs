//! File behind a store: its space on the disk, and the failure of all requests once some of its bytes are gone.
//!
//! Another program may truncate the file while it is served. Three checks find that, none of which costs a request
//! through the mapping a system call: the signal of an access beyond the file's end ([`Guard`]), the end that a system
//! call finds while it reads a hole, and the file's length. The length is compared before a system call writes the
//! file, before space is given back, and at each flush. From then on every request fails, since other bytes may have
//! changed too.

use phaselink_core::number::length;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapRaw;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::allocation::Allocation;
use super::holes::HolePunchLocks;
use crate::device::guard::Guard;

/// Open file of a store, with its layout, its allocated pages, and flags of its failures.
#[derive(Debug)]
pub(super) struct StoreFile {
    /// Guard of the mapping against truncation of the file.
    guard: Guard,
    pub(super) file: File,
    path: PathBuf,
    /// Offset in the file of the device's first byte.
    pub(super) data_start: u64,
    /// Lengths in bytes that the file may have: without and with metadata of the blocks.
    lengths: [u64; 2],
    pub(super) allocation: Allocation,
    /// Lock that is held for writing while space is given back, so that no thread accesses a page of the mapping that
    /// is gone.
    pub(super) holes: HolePunchLocks,
    /// True once the disk has refused written bytes. The kernel reports that only once and drops the bytes, so no later
    /// flush may succeed.
    is_unsaved: AtomicBool,
    told: Once,
}

impl StoreFile {
    /// Returns the state of a file with one of `lengths`, whose device begins at offset `data_start` and is mapped
    /// whole by `map`.
    pub(super) fn new(
        path: &Path,
        file: File,
        data_start: u64,
        capacity_bytes: u64,
        lengths: [u64; 2],
        map: &MmapRaw,
    ) -> io::Result<StoreFile> {
        Ok(StoreFile {
            guard: Guard::new(map.as_ptr() as usize, map.len())?,
            allocation: Allocation::of(&file, data_start, capacity_bytes)?,
            holes: HolePunchLocks::default(),
            path: path.into(),
            data_start,
            lengths,
            is_unsaved: AtomicBool::new(false),
            told: Once::new(),
            file,
        })
    }

    /// Returns the path at which the file was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a range of the device by a system call, for bytes that may have no space on the disk.
    ///
    /// # Errors
    ///
    /// If the disk does not return them, or the file has become shorter.
    pub(super) fn read_by_system_call(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        match self.file.read_exact_at(into, self.data_start + offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.lose()),
            other => other.and_then(|()| self.check()),
        }
    }

    /// Returns true if the byte at `at` has space on the disk, and the end of the run of blocks that are alike in that,
    /// at most `end`.
    ///
    /// # Errors
    ///
    /// If the file system does not report that, or the file has become shorter.
    pub(super) fn run(&self, at: u64, end: u64, block_bytes: u64) -> io::Result<(bool, u64)> {
        self.check_length()?;
        let (from, none) = (self.data_start + at, self.data_start + end);
        let next = |wanted| match rustix::fs::seek(&self.file, wanted) {
            Err(Errno::NXIO) => Ok(none),
            found => found.map(|found| found.min(none)),
        };
        // Round down to a block: a block with some data counts as data.
        let data = (next(SeekFrom::Data(from))? - self.data_start) / block_bytes * block_bytes;
        if data > at {
            return Ok((false, data));
        }
        let hole = next(SeekFrom::Hole(from.max(self.data_start + data)))? - self.data_start;
        Ok((true, hole.next_multiple_of(block_bytes).max(at + block_bytes)))
    }

    /// Writes bytes by a system call, for a range that may have no space on the disk yet, and marks it as allocated.
    ///
    /// # Errors
    ///
    /// If the disk is full, or the file has become shorter: the write would extend it again, with holes for the lost
    /// bytes.
    pub(super) fn write_and_allocate(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.check_length()?;
        self.file.write_all_at(from, self.data_start + offset)?;
        self.allocation.note(offset, length(from.len()));
        Ok(())
    }

    /// Flushes the file by calling `flush`. After a failure, every later flush fails.
    ///
    /// # Errors
    ///
    /// If this flush fails, or an earlier one has, or the file has become shorter.
    pub(super) fn commit(&self, flush: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let flushed = self.check_length().and_then(|()| flush());
        if flushed.is_err() {
            self.is_unsaved.store(true, Ordering::Relaxed);
        }
        match self.is_unsaved.load(Ordering::Relaxed) {
            true => flushed.and(Err(io::Error::other("an earlier write did not reach the disk"))),
            false => flushed,
        }
    }

    /// Checks that no copy so far has found a page of the mapping gone.
    ///
    /// # Errors
    ///
    /// If one has, so that the copied bytes are invalid.
    #[inline]
    pub(super) fn check(&self) -> io::Result<()> {
        if self.guard.is_lost() { Err(self.lose()) } else { Ok(()) }
    }

    /// Checks that no page of the mapping was found gone, and that the file has one of its lengths.
    ///
    /// # Errors
    ///
    /// If a page is gone, or the length differs.
    pub(super) fn check_length(&self) -> io::Result<()> {
        self.check()?;
        if self.lengths.contains(&self.file.metadata()?.len()) { Ok(()) } else { Err(self.lose()) }
    }

    /// Makes all requests fail from now on, and reports that once on standard error. Returns the error for a request.
    #[cold]
    fn lose(&self) -> io::Error {
        self.guard.lose();
        self.told.call_once(|| {
            let reason = match self.file.metadata() {
                Ok(metadata) if !self.lengths.contains(&metadata.len()) => {
                    let [before, _] = self.lengths;
                    format!("another program has changed its length from {before} to {} bytes", metadata.len())
                }
                _ => String::from("the disk does not give its bytes"),
            };
            let advice = "all requests fail from now on; stop the server, and serve a whole copy of the file";
            // If standard error is closed, the clients still get errors.
            let _ = writeln!(io::stderr(), "error: {}: {reason}: {advice}", self.path.display());
        });
        io::Error::from_raw_os_error(libc::EIO)
    }
}
