//! Large space of bytes of which few are ever written: pages are allocated by the first write to them.

use crate::number::{length, wide_index};
use std::collections::BTreeMap;

/// Space of 2^64 bytes, all zero until written. A page is allocated by the first write to it.
#[derive(Clone, Debug, Default)]
pub struct SparseBytes<const PAGE_BYTES: usize = 4096> {
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl<const PAGE_BYTES: usize> SparseBytes<PAGE_BYTES> {
    /// Reads the bytes from `offset` on into `into`.
    ///
    /// # Panics
    /// If the range reaches beyond 2^64, as in [`SparseBytes::write`].
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (page, start, range) in page_spans::<PAGE_BYTES>(offset, into.len()) {
            let into = &mut into[range];
            match self.pages.get(&page) {
                Some(bytes) => into.copy_from_slice(&bytes[start..start + into.len()]),
                None => into.fill(0),
            }
        }
    }

    /// Returns the pages that have been written to, in order of their addresses.
    pub fn pages(&self) -> impl Iterator<Item = &[u8; PAGE_BYTES]> {
        self.pages.values().map(|bytes| &**bytes)
    }

    /// Writes `from` to the bytes from `offset` on, and allocates the pages that it needs.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        for (page, start, range) in page_spans::<PAGE_BYTES>(offset, from.len()) {
            let from = &from[range];
            let bytes = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES]));
            bytes[start..start + from.len()].copy_from_slice(from);
        }
    }
}

/// Splits `bytes` bytes from `offset` on by page. Returns for each page its number, the first byte in it, and the part
/// of the range that lies in it.
fn page_spans<const PAGE_BYTES: usize>(
    offset: u64,
    bytes: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == bytes {
            return None;
        }
        let at = offset + length(done);
        let start = wide_index(at % length(PAGE_BYTES));
        let range = done..bytes.min(done + PAGE_BYTES - start);
        done = range.end;
        Some((at / length(PAGE_BYTES), start, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unwritten_sparse_bytes_are_zero_up_to_the_last_page() {
        let mut bytes: SparseBytes = SparseBytes::default();
        let mut found = [7; 3];
        bytes.read(u64::MAX - 5, &mut found);
        assert_eq!(found, [0; 3]);
        bytes.write(u64::MAX - 5, &[1, 2, 3]);
        bytes.read(u64::MAX - 4, &mut found);
        assert_eq!(found, [2, 3, 0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn sparse_bytes_read_like_a_flat_array(
            writes in prop::collection::vec((0usize..20_000, 0usize..9_000, any::<u8>()), 0..20),
            (start, length) in (0usize..20_000, 0usize..9_000),
        ) {
            let (mut sparse, mut flat) = (SparseBytes::<256>::default(), vec![0; 30_000]);
            for (offset, bytes, value) in writes {
                sparse.write(offset as u64, &vec![value; bytes]);
                flat[offset..offset + bytes].fill(value);
            }
            let mut found = vec![0xff; length];
            sparse.read(start as u64, &mut found);
            prop_assert_eq!(&found, &flat[start..start + length]);
        }
    }
}
