//! Which pages of a store's file have their space on the disk.
//!
//! An access through a mapping cannot be refused: where the disk has no room for the page, the process gets a signal and
//! ends. On tmpfs even a read wants room. So a page is read and written by system calls, which allocate or fail, until it
//! is known to be there, and through the mapping from then on.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::SeekFrom;

use super::PAGE_BYTES;

/// File systems that overwrite allocated pages in place (statfs(2)): on others, which copy on write, an overwrite can
/// find the disk full too.
const IN_PLACE: [u64; 2] = [
    0xef53,      // ext2, ext3, ext4
    0x0102_1994, // tmpfs
];

/// A bit for each page.
#[derive(Debug)]
pub(super) struct Allocation {
    pages: Vec<AtomicU64>,
    in_place: bool,
}

impl Allocation {
    /// Reads which ranges of a store in `file` have space on the disk.
    pub(super) fn of(file: &File, data_start: u64, capacity_bytes: u64) -> io::Result<Allocation> {
        let words = capacity_bytes.div_ceil(PAGE_BYTES).div_ceil(64);
        let kind = rustix::fs::fstatfs(file)?.f_type as u64;
        let allocation =
            Allocation { pages: (0..words).map(|_| AtomicU64::new(0)).collect(), in_place: IN_PLACE.contains(&kind) };
        allocation.scan(file, data_start, data_start + capacity_bytes)?;
        Ok(allocation)
    }

    /// Finds the data of a sparse file up to `data_end`, behind which metadata may be.
    fn scan(&self, file: &File, data_start: u64, data_end: u64) -> io::Result<()> {
        let mut at = data_start;
        while at < data_end {
            let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
                Err(rustix::io::Errno::NXIO) => return Ok(()),
                other => other?,
            };
            if start >= data_end {
                return Ok(());
            }
            let end = rustix::fs::seek(file, SeekFrom::Hole(start))?.min(data_end);
            let first = (start.max(data_start) - data_start).next_multiple_of(PAGE_BYTES);
            let last = (end - data_start) / PAGE_BYTES * PAGE_BYTES;
            self.note(first, last.saturating_sub(first));
            at = end;
        }
        Ok(())
    }

    /// Returns true if a range has space on the disk, so that it can be read through the mapping.
    pub(super) fn holds(&self, offset: u64, bytes: u64) -> bool {
        pages(offset, bytes)
            .all(|page| self.pages[(page / 64) as usize].load(Ordering::Relaxed) >> (page % 64) & 1 == 1)
    }

    /// Returns true if a range has space on the disk, so that it can be written through the mapping.
    pub(super) fn can_overwrite(&self, offset: u64, bytes: u64) -> bool {
        self.in_place && self.holds(offset, bytes)
    }

    /// These bytes have been written by a system call.
    pub(super) fn note(&self, offset: u64, bytes: u64) {
        for page in pages(offset, bytes) {
            self.pages[(page / 64) as usize].fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
    }

    /// The space of these bytes is given back.
    pub(super) fn forget(&self, offset: u64, bytes: u64) {
        for page in pages(offset, bytes) {
            self.pages[(page / 64) as usize].fetch_and(!(1 << (page % 64)), Ordering::Relaxed);
        }
    }
}

/// Pages that the bytes touch.
fn pages(offset: u64, bytes: u64) -> std::ops::Range<u64> {
    offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use rustix::fs::MemfdFlags;

    use super::*;

    #[test]
    fn pages_of_a_file_that_hold_data_are_known_when_it_is_opened_and_its_holes_are_none() {
        const START: u64 = 3 * PAGE_BYTES;
        let file = File::from(rustix::fs::memfd_create("store", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(START + 200 * PAGE_BYTES).unwrap();
        file.write_all_at(&[1; 512], 0).unwrap();
        file.write_all_at(&[1; 2 * PAGE_BYTES as usize], START + 70 * PAGE_BYTES).unwrap();
        let allocation = Allocation::of(&file, START, 200 * PAGE_BYTES).unwrap();
        let held: Vec<u64> = (0..200).filter(|page| allocation.holds(page * PAGE_BYTES, PAGE_BYTES)).collect();
        assert_eq!(held, [70, 71]);
        assert!(allocation.holds(71 * PAGE_BYTES + 4000, 96) && !allocation.holds(71 * PAGE_BYTES + 4000, 97));
    }
}
