//! Data of an embedded drive, in pages that copies share until one of them is written.

use phaselink_core::number::{length, wide_index};
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

/// Maximum number of pages of discarded data that are kept for reuse.
const SPARE_PAGES_MAX: usize = 1024;

/// Content of a page of 4 KiB.
type Page = [u8; PAGE_BYTES];

/// Data of an embedded drive, all zero until written. Cloning costs a pointer for each page.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Pages that were ever written, by their numbers. A page that has been zeroed since has no content.
    pages: BTreeMap<u64, Option<Arc<Page>>>,
    /// Freed pages for reuse, so that discards and later writes allocate nothing.
    spare: Vec<Arc<Page>>,
}

impl Clone for Store {
    fn clone(&self) -> Store {
        Store { pages: self.pages.clone(), spare: Vec::new() }
    }
}

impl PartialEq for Store {
    fn eq(&self, other: &Store) -> bool {
        self.written().eq(other.written())
    }
}

impl Eq for Store {}

impl Store {
    /// Reads the data from `offset` on into `into`.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        for_each_page(offset, into.len(), |page, start, range| {
            let into = &mut into[range];
            match self.pages.get(&page).and_then(Option::as_ref) {
                Some(bytes) => into.copy_from_slice(&bytes[start..start + into.len()]),
                None => into.fill(0),
            }
        });
    }

    /// Returns the number and content of each page that has content, in ascending order.
    fn written(&self) -> impl DoubleEndedIterator<Item = (u64, &Arc<Page>)> {
        self.pages.iter().filter_map(|(page, bytes)| Some((*page, bytes.as_ref()?)))
    }

    /// Returns the end in bytes of the last page that has a byte other than zero; 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        let has_bytes = |(_, bytes): &(u64, &Arc<Page>)| bytes.iter().any(|byte| *byte != 0);
        self.written().rev().find(has_bytes).map_or(0, |(page, _)| (page + 1) * length(PAGE_BYTES))
    }

    /// Writes `from` at `offset`.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) {
        let Store { pages, spare } = self;
        for_each_page(offset, from.len(), |page, start, range| {
            let from = &from[range];
            let held = pages.entry(page).or_default();
            let bytes = Arc::make_mut(held.get_or_insert_with(|| zeroed_page(spare)));
            bytes[start..start + from.len()].copy_from_slice(from);
        });
    }

    /// Fills a range with zeros. Its whole pages are freed, some of them for reuse.
    pub(crate) fn zero(&mut self, offset: u64, bytes: u64) {
        let (first, end) = (offset.div_ceil(length(PAGE_BYTES)), (offset + bytes) / length(PAGE_BYTES));
        if first >= end {
            return self.zero_parts(offset, bytes);
        }
        self.zero_parts(offset, first * length(PAGE_BYTES) - offset);
        self.zero_parts(end * length(PAGE_BYTES), offset + bytes - end * length(PAGE_BYTES));
        for bytes in self.pages.range_mut(first..end).filter_map(|(_, bytes)| bytes.take()) {
            if Arc::strong_count(&bytes) == 1 && self.spare.len() < SPARE_PAGES_MAX {
                // Reserve the maximum at once, so that the vector never grows again.
                self.spare.reserve(SPARE_PAGES_MAX - self.spare.len());
                self.spare.push(bytes);
            }
        }
    }

    /// Fills a range of less than two pages with zeros, if its pages have content.
    fn zero_parts(&mut self, offset: u64, bytes: u64) {
        for_each_page(offset, wide_index(bytes), |page, start, range| {
            if let Some(held) = self.pages.get_mut(&page).and_then(Option::as_mut) {
                Arc::make_mut(held)[start..start + range.len()].fill(0);
            }
        });
    }
}

/// Returns a page of zeros, reused or new.
fn zeroed_page(spare: &mut Vec<Arc<Page>>) -> Arc<Page> {
    let Some(mut page) = spare.pop() else { return Arc::new([0; PAGE_BYTES]) };
    Arc::make_mut(&mut page).fill(0);
    page
}

/// Calls `act` for each page of a range, with the page's number, the offset in the page, and the part of the range in
/// it.
fn for_each_page(offset: u64, bytes: usize, mut act: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < bytes {
        let at = offset + length(done);
        let start = wide_index(at % length(PAGE_BYTES));
        let end = bytes.min(done + PAGE_BYTES - start);
        act(at / length(PAGE_BYTES), start, done..end);
        done = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_store_keeps_its_bytes_when_the_original_is_written() {
        let mut store = Store::default();
        store.write(4000, &[1; 200]);
        let copy = store.clone();
        store.write(4090, &[2; 20]);
        let mut found = [9; 12];
        copy.read(4090, &mut found);
        assert_eq!(found, [1; 12]);
        store.read(4084, &mut found);
        assert_eq!(found, [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn zeroed_range_reads_as_zeros_and_adjacent_bytes_are_unchanged() {
        for (offset, bytes) in [(512, 512), (512, 8192), (4096, 8192), (0, 16384), (4095, 2), (8191, 4098)] {
            let mut store = Store::default();
            store.write(0, &[5; 16384]);
            store.zero(offset, bytes);
            let mut found = vec![0; 16384];
            store.read(0, &mut found);
            let expected: Vec<u8> =
                (0..16384).map(|at| if (offset..offset + bytes).contains(&at) { 0 } else { 5 }).collect();
            assert!(found == expected, "{offset} {bytes}");
        }
    }
}
