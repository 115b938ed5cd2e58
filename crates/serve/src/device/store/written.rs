//! Record of the pages of a store in memory that have been written since they were last discarded.
//!
//! The kernel has no such record: it fills whole large pages, and counts a page that was only read. A page's bit is set
//! after a write to it, and cleared before a discard of it. So a page without its bit holds zeros, unless a write to it
//! has not returned.

use phaselink_core::number::length;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::PAGE_BYTES;

/// Number of 64-bit words in a chunk of the bitmap. A chunk covers 128 MiB and is allocated at the first write there.
const CHUNK_WORDS: usize = 512;
const CHUNK_PAGES: u64 = length(CHUNK_WORDS) * 64;

type BitmapChunk = Box<[AtomicU64]>;

/// Bitmap of the written pages of a store in memory, in chunks.
#[derive(Debug)]
pub(super) struct WrittenPages(Vec<OnceLock<BitmapChunk>>);

impl WrittenPages {
    /// Returns the bitmap of a store in which nothing has been written.
    pub(super) fn new(capacity_bytes: u64) -> WrittenPages {
        let chunks = capacity_bytes.div_ceil(CHUNK_PAGES * PAGE_BYTES);
        WrittenPages((0..chunks).map(|_| OnceLock::new()).collect())
    }

    /// Marks the pages of `bytes` bytes from `offset` on as written.
    #[inline]
    pub(super) fn note(&self, offset: u64, bytes: u64) {
        for page in offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES) {
            let chunk = self.0[(page / CHUNK_PAGES) as usize].get_or_init(new_bitmap_chunk);
            let (word, bit) = (&chunk[word_index_in_chunk(page)], 1 << (page % 64));
            // Most writes go to pages that have been written before. Test the bit first, so that these do not
            // invalidate the cache line for other threads.
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Marks the whole pages between the byte offsets `first` and `last` as not written, before they are discarded.
    pub(super) fn forget(&self, first: u64, last: u64) {
        for page in first / PAGE_BYTES..last / PAGE_BYTES {
            if let Some(chunk) = self.0[(page / CHUNK_PAGES) as usize].get() {
                chunk[word_index_in_chunk(page)].fetch_and(!(1 << (page % 64)), Ordering::Relaxed);
            }
        }
    }

    /// Returns true if the byte at `at` may have been written, and the end of a run of pages of which that holds alike.
    /// The run may end early.
    pub(super) fn run(&self, at: u64) -> (bool, u64) {
        let page = at / PAGE_BYTES;
        let place = (page / CHUNK_PAGES) as usize;
        let Some(chunk) = self.0[place].get() else { return (false, (length(place) + 1) * CHUNK_PAGES * PAGE_BYTES) };
        let word = chunk[word_index_in_chunk(page)].load(Ordering::Relaxed) >> (page % 64);
        let is_written = word & 1 == 1;
        let alike = if is_written { word.trailing_ones() } else { word.trailing_zeros().min(64 - (page % 64) as u32) };
        (is_written, (page + u64::from(alike)) * PAGE_BYTES)
    }
}

fn new_bitmap_chunk() -> BitmapChunk {
    (0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect()
}

fn word_index_in_chunk(page: u64) -> usize {
    (page % CHUNK_PAGES / 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of the pages whose bits are set, found by runs.
    fn written_page_numbers(pages: &WrittenPages, count: u64) -> Vec<u64> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < count * PAGE_BYTES {
            let (is_written, until) = pages.run(at);
            assert!(until > at && until.is_multiple_of(PAGE_BYTES));
            found.extend((at / PAGE_BYTES..(until / PAGE_BYTES).min(count)).filter(|_| is_written));
            at = until;
        }
        found
    }

    #[test]
    fn page_is_marked_from_its_first_write_until_it_is_fully_deallocated() {
        const PAGES: u64 = 2 * CHUNK_PAGES + 7;
        let pages = WrittenPages::new(PAGES * PAGE_BYTES);
        assert_eq!(written_page_numbers(&pages, PAGES), [0; 0]);
        pages.note(63 * PAGE_BYTES + 4095, 2);
        pages.note((CHUNK_PAGES - 1) * PAGE_BYTES, 2 * PAGE_BYTES);
        pages.note((PAGES - 1) * PAGE_BYTES, 512);
        assert_eq!(written_page_numbers(&pages, PAGES), [63, 64, CHUNK_PAGES - 1, CHUNK_PAGES, PAGES - 1]);
        pages.forget(64 * PAGE_BYTES, CHUNK_PAGES * PAGE_BYTES);
        assert_eq!(written_page_numbers(&pages, PAGES), [63, CHUNK_PAGES, PAGES - 1]);
        pages.note(0, 64 * PAGE_BYTES);
        assert_eq!(pages.run(PAGE_BYTES), (true, 64 * PAGE_BYTES));
    }
}
