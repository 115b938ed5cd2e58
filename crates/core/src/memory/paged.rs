//! Bytes in pages that the first write to them allocates, found through two levels of tables.

use crate::number::{length, wide_index};

/// Size of a page in bytes: a few commands, since a run uses few entries of most rings.
const PAGE_BYTES: usize = 1024;
/// Number of pages in a directory (upper table), which is allocated with the first of its pages.
const DIRECTORY_PAGES: usize = 2048;

type Page = Box<[u8; PAGE_BYTES]>;

/// Bytes that are zero until they are written, in pages behind two levels of tables.
#[derive(Clone, Debug, Default)]
pub(super) struct PagedBytes {
    directories: Vec<Option<Box<[Option<Page>]>>>,
}

impl PagedBytes {
    /// Fills `into` with the bytes from `offset` on; bytes that were never written are zeros.
    pub(super) fn read(&self, mut offset: u64, mut into: &mut [u8]) {
        while !into.is_empty() {
            let (page, start) = page_and_offset(offset);
            let (part, rest) = into.split_at_mut(into.len().min(PAGE_BYTES - start));
            match self.page(page) {
                Some(bytes) => part.copy_from_slice(&bytes[start..start + part.len()]),
                None => part.fill(0),
            }
            offset += length(part.len());
            into = rest;
        }
    }

    /// Writes `from` to the bytes from `offset` on, and allocates the pages that it needs.
    pub(super) fn write(&mut self, mut offset: u64, mut from: &[u8]) {
        while !from.is_empty() {
            let (page, start) = page_and_offset(offset);
            let (part, rest) = from.split_at(from.len().min(PAGE_BYTES - start));
            self.page_mut(page)[start..start + part.len()].copy_from_slice(part);
            offset += length(part.len());
            from = rest;
        }
    }

    fn page(&self, number: usize) -> Option<&Page> {
        self.directories.get(number / DIRECTORY_PAGES)?.as_ref()?[number % DIRECTORY_PAGES].as_ref()
    }

    fn page_mut(&mut self, number: usize) -> &mut Page {
        let directory = number / DIRECTORY_PAGES;
        if self.directories.len() <= directory {
            self.directories.resize(directory + 1, None);
        }
        let pages = self.directories[directory].get_or_insert_with(|| vec![None; DIRECTORY_PAGES].into_boxed_slice());
        pages[number % DIRECTORY_PAGES].get_or_insert_with(|| Box::new([0; PAGE_BYTES]))
    }
}

/// Returns the number of the page that holds the byte at `offset`, and the byte's offset in that page.
fn page_and_offset(offset: u64) -> (usize, usize) {
    (wide_index(offset / length(PAGE_BYTES)), wide_index(offset % length(PAGE_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn paged_bytes_read_like_a_flat_array(
            writes in prop::collection::vec((0usize..20_000, 0usize..5_000, any::<u8>()), 0..20),
            (start, length) in (0usize..20_000, 0usize..9_000),
        ) {
            let (mut paged, mut flat) = (PagedBytes::default(), vec![0; 30_000]);
            // Start just below the border between two directories.
            let base = (DIRECTORY_PAGES * PAGE_BYTES) as u64 - 10_000;
            for (offset, bytes, value) in writes {
                paged.write(base + offset as u64, &vec![value; bytes]);
                flat[offset..offset + bytes].fill(value);
            }
            let mut found = vec![0xff; length];
            paged.read(base + start as u64, &mut found);
            prop_assert_eq!(&found, &flat[start..start + length]);
        }
    }
}
