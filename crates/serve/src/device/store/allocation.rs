//! Record of the pages of a store's file that have space allocated on the disk.
//!
//! An access through a mapping cannot fail with an error: if the disk has no room for the page, the process gets SIGBUS
//! and ends. On tmpfs even a read needs room. So a page is read and written by system calls, which allocate or fail,
//! until it is known to be allocated, and through the mapping from then on.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::SeekFrom;

use super::PAGE_BYTES;

/// Magic numbers of file systems that overwrite allocated pages in place (statfs(2)). On others, which copy on write,
/// an overwrite can find the disk full too.
const IN_PLACE: [u64; 2] = [
    0xef53,      // ext2, ext3, ext4
    0x0102_1994, // tmpfs
];

/// Bitmap of the allocated pages of a store's file, a bit for each page.
#[derive(Debug)]
pub(super) struct Allocation {
    pages: Vec<AtomicU64>,
    in_place: bool,
}

impl Allocation {
    /// Reads which ranges of the store in `file` have space on the disk. The device begins at offset `data_start`.
    pub(super) fn of(file: &File, data_start: u64, capacity_bytes: u64) -> io::Result<Allocation> {
        let words = capacity_bytes.div_ceil(PAGE_BYTES).div_ceil(64);
        let kind = rustix::fs::fstatfs(file)?.f_type as u64;
        let allocation =
            Allocation { pages: (0..words).map(|_| AtomicU64::new(0)).collect(), in_place: IN_PLACE.contains(&kind) };
        allocation.mark_pages_with_data(file, data_start, data_start + capacity_bytes)?;
        Ok(allocation)
    }

    /// Marks as allocated the whole pages that contain data, of a sparse file up to offset `data_end`. Metadata may
    /// follow.
    fn mark_pages_with_data(&self, file: &File, data_start: u64, data_end: u64) -> io::Result<()> {
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

    /// Returns true if all pages of a range have space on the disk, so that the range can be read through the mapping.
    pub(super) fn holds(&self, offset: u64, bytes: u64) -> bool {
        pages(offset, bytes)
            .all(|page| self.pages[(page / 64) as usize].load(Ordering::Relaxed) >> (page % 64) & 1 == 1)
    }

    /// Returns true if the range is allocated and its file system overwrites in place. Only then can a store through
    /// the mapping need no new space, and so not end in SIGBUS.
    pub(super) fn can_overwrite_in_place(&self, offset: u64, bytes: u64) -> bool {
        self.in_place && self.holds(offset, bytes)
    }

    /// Marks the pages of a range as allocated, after a system call has written it.
    pub(super) fn note(&self, offset: u64, bytes: u64) {
        for page in pages(offset, bytes) {
            self.pages[(page / 64) as usize].fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
    }

    /// Marks the pages of a range as not allocated, before their space is given back to the file system.
    pub(super) fn forget(&self, offset: u64, bytes: u64) {
        for page in pages(offset, bytes) {
            self.pages[(page / 64) as usize].fetch_and(!(1 << (page % 64)), Ordering::Relaxed);
        }
    }
}

/// Returns the numbers of the pages that a range of bytes touches.
fn pages(offset: u64, bytes: u64) -> std::ops::Range<u64> {
    offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use rustix::fs::MemfdFlags;

    use super::*;

    #[test]
    fn opened_file_counts_pages_with_data_and_no_holes() {
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
