//! Extents of a store: ranges with data, and ranges that read as zeros since they were never written or were discarded.

use std::io;

use super::{Store, StoreBacking};

/// Run of bytes that are all data, or all zeros without space on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub bytes: u64,
    /// True if the bytes may have been written. False if all of them are zeros.
    pub is_data: bool,
}

impl Store {
    /// Returns at most `most` extents of a range, from its beginning on. Adjacent extents differ in kind. All end at a
    /// block boundary, and the last may end before the range.
    ///
    /// # Errors
    ///
    /// If the file system does not report them.
    ///
    /// # Panics
    ///
    /// If the range ends beyond the store.
    pub fn extents(&self, offset: u64, bytes: u64, most: usize) -> io::Result<Vec<Extent>> {
        self.check(offset, bytes);
        let (mut at, end) = (offset, offset + bytes);
        let mut extents: Vec<Extent> = Vec::new();
        while at < end {
            let (is_data, until) = match &self.backing {
                StoreBacking::Memory(written) => written.run(at),
                StoreBacking::File(backing) => backing.run(at, end, self.geometry.block_bytes.into())?,
            };
            let (bytes, is_last) = (until.min(end) - at, extents.len() == most);
            match extents.last_mut() {
                Some(last) if last.is_data == is_data => last.bytes += bytes,
                _ if is_last => break,
                _ => extents.push(Extent { bytes, is_data }),
            }
            at += bytes;
        }
        Ok(extents)
    }
}
