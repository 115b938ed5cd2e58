//! Log of the client's pages that the device has written, for a client that copies its memory while the device runs.

use std::collections::BTreeMap;
use std::sync::Mutex;

use phaselink_core::number::{length, wide_index};

use crate::device::tally::locked;

/// Sizes of pages, as powers of two, in which a client can log writes.
const PAGE_SHIFTS: std::ops::RangeInclusive<u32> = 12..=30;
/// Number of 64-bit words in a chunk of the bitmap.
const CHUNK_WORDS: usize = 64;
const CHUNK_PAGES: u64 = length(CHUNK_WORDS) * 64;
/// Maximum number of chunks, which bounds the memory of a log: 32 MiB, for 1 TiB of written pages of 4 KiB.
const CHUNKS_MAX: usize = 1 << 16;

/// Bitmap of the client's pages that the device has written since the last report, which all threads share.
#[derive(Debug)]
pub struct PageLog {
    page_shift: u32,
    written: Mutex<LoggedPages>,
}

#[derive(Debug, Default)]
struct LoggedPages {
    /// Chunks of the bitmap that have a bit, by their numbers.
    chunks: BTreeMap<u64, [u64; CHUNK_WORDS]>,
    /// True once a write has found no place for its chunk. All pages count as written from then on.
    is_full: bool,
}

impl PageLog {
    /// Makes an empty log with pages of about `page_bytes` bytes; none if that is not a power of two.
    pub fn new(page_bytes: u64) -> Option<PageLog> {
        let shift = page_bytes.is_power_of_two().then(|| page_bytes.trailing_zeros())?;
        let page_shift = shift.clamp(*PAGE_SHIFTS.start(), *PAGE_SHIFTS.end());
        Some(PageLog { page_shift, written: Mutex::default() })
    }

    /// Returns the size in bytes of the log's pages.
    pub fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    /// Notes the pages of `bytes` bytes from `address` on, which the device has just written.
    #[cold]
    pub fn note(&self, address: u64, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let last = address.saturating_add(length(bytes) - 1) >> self.page_shift;
        let mut written = locked(&self.written);
        for page in address >> self.page_shift..=last {
            if written.chunks.len() >= CHUNKS_MAX && !written.chunks.contains_key(&(page / CHUNK_PAGES)) {
                written.is_full = true;
                return;
            }
            let chunk = written.chunks.entry(page / CHUNK_PAGES).or_insert([0; CHUNK_WORDS]);
            chunk[wide_index(page % CHUNK_PAGES / 64)] |= 1 << (page % 64);
        }
    }

    /// Returns the bitmap of `pages` pages from `address` on, in whole words of 64 bits, and forgets their writes.
    pub fn take(&self, address: u64, pages: u64) -> Vec<u8> {
        let mut bitmap = vec![0; wide_index(pages.div_ceil(64) * 8)];
        let first = address >> self.page_shift;
        let mut written = locked(&self.written);
        if written.is_full {
            (0..pages).for_each(|page| bitmap[wide_index(page / 8)] |= 1 << (page % 8));
            return bitmap;
        }
        let chunks = &mut written.chunks;
        for number in first / CHUNK_PAGES..=first.saturating_add(pages) / CHUNK_PAGES {
            let Some(chunk) = chunks.get_mut(&number) else { continue };
            let start = number * CHUNK_PAGES;
            for page in start.max(first)..(start + CHUNK_PAGES).min(first.saturating_add(pages)) {
                let (word, bit) = (&mut chunk[wide_index((page - start) / 64)], 1 << (page % 64));
                if *word & bit != 0 {
                    *word &= !bit;
                    bitmap[wide_index((page - first) / 8)] |= 1 << ((page - first) % 8);
                }
            }
            if chunk.iter().all(|word| *word == 0) {
                chunks.remove(&number);
            }
        }
        bitmap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_pages_are_reported_once_with_the_first_page_in_the_lowest_bit() {
        let log = PageLog::new(4096).unwrap();
        log.note(0x5000 + 4095, 2);
        log.note((CHUNK_PAGES + 1) << 12, 1);
        log.note(u64::MAX - 1, 16);
        assert_eq!(log.take(0x4000, 8), [0b110, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(log.take(0x4000, 8), [0; 8]);
        let bitmap = log.take(0x4000, CHUNK_PAGES);
        assert_eq!(bitmap.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        assert_eq!(bitmap[wide_index((CHUNK_PAGES - 3) / 8)], 1 << ((CHUNK_PAGES - 3) % 8));
        assert_eq!(log.take(!4095, 1), [1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn log_that_is_full_reports_all_pages_as_written_in_bounded_memory() {
        let log = PageLog::new(4096).unwrap();
        let note_in_chunk = |chunk: u64| log.note((chunk * CHUNK_PAGES) << 12, 1);
        (0..length(CHUNKS_MAX)).for_each(note_in_chunk);
        assert_eq!(log.take(4096, 8), [0; 8]);
        note_in_chunk(length(CHUNKS_MAX));
        assert_eq!(log.take(4096, 9), [0xff, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(locked(&log.written).chunks.len(), CHUNKS_MAX);
    }

    #[test]
    fn page_size_is_a_power_of_two_of_at_least_a_memory_page() {
        let chosen = [0, 4095, 512, 4096, 1 << 21].map(|bytes| PageLog::new(bytes).map(|log| log.page_bytes()));
        assert_eq!(chosen, [None, None, Some(4096), Some(4096), Some(1 << 21)]);
    }
}
