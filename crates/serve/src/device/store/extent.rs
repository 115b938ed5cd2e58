//! Extents of a store: which ranges hold data, and which have not been written or have been given back.

use std::io;

use super::{Backing, Store};

/// Run of bytes that are all data, or all zeros without space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub bytes: u64,
    /// True if the bytes may have been written; otherwise all of them are zeros.
    pub is_data: bool,
}

impl Store {
    /// Returns the extents of a range from its beginning on, at most `most` of them: neighbours differ, and the last one may end
    /// before the range does. All end with a block.
    ///
    /// # Errors
    /// If the disk does not say.
    ///
    /// # Panics
    /// If the range reaches beyond the end.
    pub fn extents(&self, offset: u64, bytes: u64, most: usize) -> io::Result<Vec<Extent>> {
        self.check(offset, bytes);
        let (mut at, end) = (offset, offset + bytes);
        let mut extents: Vec<Extent> = Vec::new();
        while at < end {
            let (is_data, until) = match &self.backing {
                Backing::Memory(written) => written.run(at),
                Backing::File(backing) => backing.run(at, end, self.geometry.block_bytes.into())?,
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
