//! Metadata of logical blocks: 8 bytes for every 512 bytes of the device, in memory or after the device's bytes in its
//! file.
//!
//! A store has no metadata until a namespace is formatted with it. Its file then grows by a sparse region of a 64th of
//! the device's size for good, and its length tells that it has metadata. Metadata is zero if it was never written or
//! its block was discarded. A block of 4,096 bytes has room for eight metadata entries, of which it uses the first.
//!
//! Blocks and their metadata are read and written together under locks of parts of the device. So no reader finds the
//! data of one write with the metadata of another. A write of data alone leaves the metadata of its blocks unchanged.

use phaselink_core::number::{index, length, low_u32, wide_index};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use memmap2::MmapOptions;

use super::file::StoreFile;
use super::header::{self, Geometry};
use super::{Store, StoreBacking};

/// Length in bytes of a metadata entry of a store. `UNIT_BYTES` is the number of bytes of the device for each entry.
const METADATA_BYTES: u64 = 8;
const UNIT_BYTES: u64 = 512;
/// Number of locks; `LOCK_BYTES` is the length in bytes of the part of the device between two locks.
const LOCKS: u64 = 64;
const LOCK_BYTES: u64 = 128 << 10;

/// Metadata of a store's blocks, in a region of its own, with locks.
#[derive(Debug)]
pub(super) struct StoreMetadata {
    bytes: Store,
    locks: [RwLock<()>; wide_index(LOCKS)],
}

/// Returns the length in bytes of the metadata region of a device.
pub(super) fn region_bytes(capacity_bytes: u64) -> u64 {
    (capacity_bytes.div_ceil(UNIT_BYTES) * METADATA_BYTES).next_multiple_of(super::PAGE_BYTES)
}

/// Returns the offset in the metadata region of the entry for the byte at `offset` of the device.
fn place(offset: u64) -> u64 {
    offset / UNIT_BYTES * METADATA_BYTES
}

/// Returns the number of bytes of the metadata region for a block of this size.
fn stride(block_bytes: u32) -> usize {
    wide_index(u64::from(block_bytes) / UNIT_BYTES * METADATA_BYTES)
}

impl StoreMetadata {
    /// Returns metadata in memory, which ends with the process.
    fn in_memory(capacity_bytes: u64) -> io::Result<StoreMetadata> {
        let store = Store::in_memory(geometry(capacity_bytes));
        Ok(StoreMetadata::new(store.map_err(|problem| io::Error::other(problem.to_string()))?))
    }

    /// Maps the metadata region of a file that has one.
    fn map_metadata_of_file(
        path: &Path,
        file: File,
        data_start: u64,
        capacity_bytes: u64,
    ) -> io::Result<StoreMetadata> {
        let (start, geometry) =
            (header::block_metadata_file_offset(data_start, capacity_bytes), geometry(capacity_bytes));
        // Another process may change the file while it is mapped. Guests then read other metadata, which are plain bytes.
        let map = MmapOptions::new().offset(start).len(geometry.len()).map_raw(&file)?;
        let length = start + geometry.capacity_bytes;
        let backing = StoreFile::new(path, file, start, geometry.capacity_bytes, [length; 2], &map)?;
        Ok(StoreMetadata::new(Store::of(geometry, StoreBacking::File(Box::new(backing)), map)))
    }

    fn new(bytes: Store) -> StoreMetadata {
        StoreMetadata { bytes, locks: [const { RwLock::new(()) }; wide_index(LOCKS)] }
    }

    /// Returns the locks of the parts of the device that a range touches, in ascending order.
    fn range_locks(&self, offset: u64, bytes: u64) -> impl Iterator<Item = &RwLock<()>> {
        let (first, last) = (offset / LOCK_BYTES, (offset + bytes.max(1) - 1) / LOCK_BYTES);
        let touched = (first..=last.min(first + LOCKS - 1)).fold(0, |bits: u64, part| bits | 1 << (part % LOCKS));
        self.locks.iter().enumerate().filter(move |(place, _)| touched >> place & 1 == 1).map(|(_, lock)| lock)
    }

    fn lock_range_for_reading(&self, offset: u64, bytes: u64) -> Vec<RwLockReadGuard<'_, ()>> {
        self.range_locks(offset, bytes).map(|lock| lock.read().expect("no thread panics with the lock")).collect()
    }

    fn lock_range_for_writing(&self, offset: u64, bytes: u64) -> Vec<RwLockWriteGuard<'_, ()>> {
        self.range_locks(offset, bytes).map(|lock| lock.write().expect("no thread panics with the lock")).collect()
    }

    /// Reads the metadata of `blocks` blocks from `offset` of the device on, 8 bytes for each.
    fn read(&self, offset: u64, blocks: usize, block_bytes: u32) -> io::Result<Vec<u8>> {
        let stride = stride(block_bytes);
        let mut region = vec![0; blocks * stride];
        self.bytes.read(place(offset), &mut region)?;
        Ok(region.chunks_exact(stride).flat_map(|block| &block[..wide_index(METADATA_BYTES)]).copied().collect())
    }

    fn write(&self, offset: u64, metadata: &[u8], block_bytes: u32) -> io::Result<()> {
        let mut region = vec![0; metadata.len() / wide_index(METADATA_BYTES) * stride(block_bytes)];
        let blocks =
            region.chunks_exact_mut(stride(block_bytes)).zip(metadata.chunks_exact(wide_index(METADATA_BYTES)));
        blocks.for_each(|(block, metadata)| block[..wide_index(METADATA_BYTES)].copy_from_slice(metadata));
        self.bytes.write(place(offset), &region)
    }

    /// Clears the metadata of a range of the device, in units of 512 bytes that begin within it.
    fn forget(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let (first, end) = (place(offset.next_multiple_of(UNIT_BYTES)), place(offset + bytes));
        self.bytes.zero(first, end.saturating_sub(first), false)
    }

    /// Checks that the file still has its metadata region.
    pub(super) fn check_length(&self) -> io::Result<()> {
        match &self.bytes.backing {
            StoreBacking::File(backing) => backing.check_length(),
            StoreBacking::Memory(_) => Ok(()),
        }
    }
}

fn geometry(capacity_bytes: u64) -> Geometry {
    Geometry { capacity_bytes: region_bytes(capacity_bytes), block_bytes: low_u32(METADATA_BYTES) }
}

impl Store {
    /// Returns true if the store has room for metadata of its blocks.
    pub fn has_metadata(&self) -> bool {
        self.metadata.get().is_some()
    }

    /// Adds metadata, of zeros, to the store's blocks unless they have it already. A file is extended durably.
    ///
    /// # Errors
    ///
    /// If the file cannot grow, or the system refuses its mapping.
    pub fn add_metadata(&self) -> io::Result<()> {
        let _one_at_a_time = crate::device::tally::locked(&self.state);
        if self.has_metadata() {
            return Ok(());
        }
        let capacity_bytes = self.geometry.capacity_bytes;
        let metadata = match &self.backing {
            StoreBacking::Memory(_) => StoreMetadata::in_memory(capacity_bytes)?,
            StoreBacking::File(backing) => {
                backing.check_length()?;
                backing.file.set_len(header::file_bytes(backing.data_start, capacity_bytes)[1])?;
                backing.file.sync_all()?;
                let file = backing.file.try_clone()?;
                StoreMetadata::map_metadata_of_file(backing.path(), file, backing.data_start, capacity_bytes)?
            }
        };
        // The caller holds the lock, so no other thread has set it.
        let _ = self.metadata.set(Box::new(metadata));
        Ok(())
    }

    /// Opens the metadata of a file whose length tells that it has metadata.
    pub(super) fn open_metadata(&self) -> io::Result<()> {
        let StoreBacking::File(backing) = &self.backing else { return Ok(()) };
        let lengths = header::file_bytes(backing.data_start, self.geometry.capacity_bytes);
        if backing.file.metadata()?.len() == lengths[1] { self.add_metadata() } else { Ok(()) }
    }

    fn metadata(&self) -> io::Result<&StoreMetadata> {
        self.metadata.get().map(|metadata| &**metadata).ok_or_else(|| io::Error::other("the store has no metadata"))
    }

    /// Copies blocks of `block_bytes` each from `offset` on into `into`, and returns the metadata that was written with
    /// them.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::read`], or if the store has no metadata.
    pub fn read_blocks_with_metadata(&self, offset: u64, block_bytes: u32, into: &mut [u8]) -> io::Result<Vec<u8>> {
        let metadata = self.metadata()?;
        let _guards = metadata.lock_range_for_reading(offset, length(into.len()));
        self.read(offset, into)?;
        metadata.read(offset, into.len() / index(block_bytes), block_bytes)
    }

    /// Writes blocks of `block_bytes` each from `offset` on, with their metadata. A last block that is written only in
    /// part, by a fault, keeps its old metadata.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::write`], or if the store has no metadata. The metadata is then unchanged.
    pub fn write_blocks_with_metadata(
        &self,
        offset: u64,
        block_bytes: u32,
        from: &[u8],
        metadata: &[u8],
    ) -> io::Result<()> {
        self.replace(offset, length(from.len()), block_bytes, metadata, || self.write(offset, from))
    }

    /// Fills blocks of `block_bytes` each with zeros like [`Store::zero`], and writes their metadata.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::write_blocks_with_metadata`].
    pub fn zero_blocks_with_metadata(
        &self,
        (offset, bytes): (u64, u64),
        block_bytes: u32,
        keep_space: bool,
        metadata: &[u8],
    ) -> io::Result<()> {
        self.replace(offset, bytes, block_bytes, metadata, || self.zero_stored_bytes(offset, bytes, keep_space))
    }

    /// Writes metadata, then the data of its blocks by `write`. So a full disk is found before the data changes. If
    /// `write` fails, the metadata is restored.
    fn replace(
        &self,
        offset: u64,
        bytes: u64,
        block_bytes: u32,
        metadata: &[u8],
        write: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let found = self.metadata()?;
        let _guards = found.lock_range_for_writing(offset, bytes);
        let before = found.read(offset, metadata.len() / wide_index(METADATA_BYTES), block_bytes)?;
        found.write(offset, metadata, block_bytes)?;
        write().inspect_err(|_| {
            // The space for the old metadata exists. If the disk fails again, some blocks keep a wrong guard, which
            // reads report.
            let _ = found.write(offset, &before, block_bytes);
        })
    }

    /// Fills a range with zeros, and clears its metadata.
    #[cold]
    pub(super) fn zero_range_and_metadata(
        &self,
        metadata: &StoreMetadata,
        (offset, bytes): (u64, u64),
        keep_space: bool,
    ) -> io::Result<()> {
        let _guards = metadata.lock_range_for_writing(offset, bytes);
        self.zero_stored_bytes(offset, bytes, keep_space)?;
        metadata.forget(offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { capacity_bytes: 4 << 20, block_bytes: 512 };

    fn in_memory() -> Store {
        let store = Store::in_memory(GEOMETRY).unwrap();
        store.add_metadata().unwrap();
        store
    }

    fn metadata(blocks: usize, seed: u8) -> Vec<u8> {
        (0..blocks * 8).map(|place| place as u8 ^ seed).collect()
    }

    #[test]
    fn blocks_of_both_sizes_read_back_with_their_metadata() {
        let store = in_memory();
        for (block_bytes, offset) in [(512_u32, 512), (4096, 1 << 20)] {
            let (data, metadata) = (vec![7; 5 * block_bytes as usize], metadata(5, 0x30));
            store.write_blocks_with_metadata(offset, block_bytes, &data, &metadata).unwrap();
            let mut found = vec![0; data.len()];
            assert_eq!(
                store.read_blocks_with_metadata(offset, block_bytes, &mut found).unwrap(),
                metadata,
                "{block_bytes}"
            );
            assert_eq!(found, data);
            let mut last = vec![0; block_bytes as usize];
            let place = offset + 4 * u64::from(block_bytes);
            assert_eq!(store.read_blocks_with_metadata(place, block_bytes, &mut last).unwrap(), metadata[32..]);
        }
    }

    #[test]
    fn zeroed_blocks_have_cleared_or_given_metadata() {
        let store = in_memory();
        store.write_blocks_with_metadata(0, 512, &[1; 2048], &metadata(4, 1)).unwrap();
        store.zero(512, 512, false).unwrap();
        store.zero_blocks_with_metadata((1024, 512), 512, true, &[9; 8]).unwrap();
        let mut found = [0; 2048];
        let kept = store.read_blocks_with_metadata(0, 512, &mut found).unwrap();
        assert_eq!(kept, [&metadata(4, 1)[..8], &[0; 8], &[9; 8], &metadata(4, 1)[24..]].concat());
        assert_eq!((found[511], found[512], found[1024], found[1536]), (1, 0, 0, 1));
    }

    #[test]
    fn partially_written_block_retains_its_metadata() {
        let store = in_memory();
        store.write_blocks_with_metadata(0, 4096, &[1; 8192], &metadata(2, 1)).unwrap();
        store.write_blocks_with_metadata(0, 4096, &[2; 4096 + 512], &metadata(1, 2)).unwrap();
        let mut found = [0; 8192];
        let kept = store.read_blocks_with_metadata(0, 4096, &mut found).unwrap();
        assert_eq!(kept, [&metadata(1, 2)[..], &metadata(2, 1)[8..]].concat());
        assert_eq!((found[4607], found[4608]), (2, 1));
    }

    #[test]
    fn store_without_metadata_refuses_block_transfers_with_metadata() {
        let store = Store::in_memory(GEOMETRY).unwrap();
        assert!(!store.has_metadata() && store.read_blocks_with_metadata(0, 512, &mut [0; 512]).is_err());
    }

    #[test]
    fn range_lock_takes_each_part_of_the_device_once() {
        let metadata = StoreMetadata::in_memory(1 << 30).unwrap();
        for (offset, bytes, count) in [
            (0, 512, 1),
            (LOCK_BYTES - 512, 1024, 2),
            (0, 1 << 30, 64),
            (63 * LOCK_BYTES, 2 * LOCK_BYTES, 2),
            (0, 0, 1),
        ] {
            assert_eq!(metadata.range_locks(offset, bytes).count(), count, "{offset} {bytes}");
        }
    }
}
