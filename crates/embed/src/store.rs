//! Bytes of a drive, by pages that copies share until one of them is written.

use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

/// Bytes of a drive, all zero until written. A copy costs a pointer for each page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Store {
    pages: BTreeMap<u64, Arc<[u8; PAGE_BYTES]>>,
}

impl Store {
    /// Reads the bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        for_each_page(offset, into.len(), |page, start, range| {
            let into = &mut into[range];
            match self.pages.get(&page) {
                Some(bytes) => into.copy_from_slice(&bytes[start..start + into.len()]),
                None => into.fill(0),
            }
        });
    }

    /// Writes bytes at `offset`.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) {
        for_each_page(offset, from.len(), |page, start, range| {
            let from = &from[range];
            let bytes = Arc::make_mut(self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES])));
            bytes[start..start + from.len()].copy_from_slice(from);
        });
    }

    /// Fills a range with zeros. Whole pages take no memory afterwards.
    pub(crate) fn zero(&mut self, offset: u64, bytes: u64) {
        let (first, end) = (offset.div_ceil(PAGE_BYTES as u64), (offset + bytes) / PAGE_BYTES as u64);
        if first >= end {
            return self.zero_parts(offset, bytes);
        }
        self.zero_parts(offset, first * PAGE_BYTES as u64 - offset);
        self.zero_parts(end * PAGE_BYTES as u64, offset + bytes - end * PAGE_BYTES as u64);
        while let Some((&page, _)) = self.pages.range(first..end).next() {
            self.pages.remove(&page);
        }
    }

    /// Fills a range of less than two pages with zeros, as far as it was ever written.
    fn zero_parts(&mut self, offset: u64, bytes: u64) {
        for_each_page(offset, bytes as usize, |page, start, range| {
            if let Some(held) = self.pages.get_mut(&page) {
                Arc::make_mut(held)[start..start + range.len()].fill(0);
            }
        });
    }
}

/// Calls `act` for each page of a range: with its number, the first byte in it, and the part of the range in it.
fn for_each_page(offset: u64, bytes: usize, mut act: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < bytes {
        let at = offset + done as u64;
        let start = (at % PAGE_BYTES as u64) as usize;
        let end = bytes.min(done + PAGE_BYTES - start);
        act(at / PAGE_BYTES as u64, start, done..end);
        done = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_of_a_store_keeps_its_bytes_when_the_original_is_written() {
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
    fn zeroed_range_reads_as_zeros_and_its_neighbours_keep_their_bytes() {
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
