//! Log of the pages of a store that change while its bytes are copied to another server.
//!
//! A page is noted after its bytes have changed, and [taken](ChangeLog::take) before they are copied. So a page that
//! changes during its copy is noted again, and copied again.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use phaselink_core::number::{length, wide_index};

use super::{PAGE_BYTES, Store, StoreBacking};
use crate::planted::{PlantableBug, is_planted};

/// Number of extents that are read at once when a log starts.
const EXTENTS: usize = 1024;
/// Maximum number of pages that are taken at once.
const PAGES_MAX: u64 = 16;

/// Bitmap of the pages that have changed, a bit for each, while the log is on.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    is_on: AtomicBool,
    pages: OnceLock<Box<[AtomicU64]>>,
    /// Number of the page at which the search for noted pages continues.
    next: AtomicU64,
}

impl ChangeLog {
    /// Notes the pages of `bytes` bytes from `offset` on, which have just changed, if the log is on.
    #[inline]
    pub(super) fn note(&self, offset: u64, bytes: u64) {
        if self.is_on.load(Ordering::Relaxed) && !is_planted(PlantableBug::ChangeUncopied) {
            self.mark(offset, bytes);
        }
    }

    #[cold]
    fn mark(&self, offset: u64, bytes: u64) {
        let Some(words) = self.pages.get() else { return };
        for page in offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES) {
            // A read-modify-write also waits for non-temporal stores to the page.
            words[wide_index(page / 64)].fetch_or(1 << (page % 64), Ordering::SeqCst);
        }
    }

    /// Takes a run of noted pages off the log. Returns its offset and length in bytes; none if no page is noted.
    fn take(&self) -> Option<(u64, u64)> {
        let taken = self.take_from(self.next.load(Ordering::Relaxed)).or_else(|| self.take_from(0));
        let next = taken.map_or(0, |(offset, bytes)| (offset + bytes) / PAGE_BYTES);
        self.next.store(next, Ordering::Relaxed);
        taken
    }

    /// Takes the first run of noted pages from number `page` on off the log.
    fn take_from(&self, mut page: u64) -> Option<(u64, u64)> {
        let words = self.pages.get()?;
        let take_page = |page: u64| {
            let (word, bit) = (words.get(wide_index(page / 64))?, 1 << (page % 64));
            (word.load(Ordering::Relaxed) & bit != 0 && word.fetch_and(!bit, Ordering::SeqCst) & bit != 0)
                .then_some(page)
        };
        let first = loop {
            let word = words.get(wide_index(page / 64))?.load(Ordering::Relaxed) >> (page % 64);
            if word == 0 {
                page = (page / 64 + 1) * 64;
                continue;
            }
            page += u64::from(word.trailing_zeros());
            if let Some(first) = take_page(page) {
                break first;
            }
        };
        let count =
            length((0..PAGES_MAX).take_while(|ahead| *ahead == 0 || take_page(first + ahead).is_some()).count());
        Some((first * PAGE_BYTES, count * PAGE_BYTES))
    }

    fn count(&self) -> u64 {
        self.pages
            .get()
            .map_or(0, |words| words.iter().map(|it| u64::from(it.load(Ordering::Relaxed).count_ones())).sum())
    }
}

/// Region of a store that is copied to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRegion {
    /// Bytes of the device.
    Data,
    /// Metadata of the device's blocks.
    Metadata,
}

/// Changed bytes of a store, which are to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedRange {
    /// Region that has changed.
    pub region: StoreRegion,
    /// Offset in the region of the first changed byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Store {
    /// Starts the log of changes, with everything that has been written so far as changed. A log that is on stays as it
    /// is.
    ///
    /// # Errors
    ///
    /// If the file system does not report which bytes have been written.
    pub fn log_changes(&self) -> io::Result<()> {
        if let Some(metadata) = self.metadata_bytes() {
            metadata.log_changes()?;
        }
        let pages = self.geometry().capacity_bytes.div_ceil(PAGE_BYTES);
        let words = || (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        self.changes.pages.get_or_init(words);
        if self.changes.is_on.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let (mut at, end) = (0, self.geometry().capacity_bytes);
        while at < end {
            for extent in self.extents(at, end - at, EXTENTS)? {
                if extent.is_data {
                    self.changes.mark(at, extent.bytes);
                }
                at += extent.bytes;
            }
        }
        Ok(())
    }

    /// Starts the log of changes of metadata, which a host may have added since the log of the data started. Has no effect
    /// while no changes are logged.
    ///
    /// # Errors
    ///
    /// If the file system does not report which metadata has been written.
    pub fn log_metadata_changes(&self) -> io::Result<()> {
        match self.metadata_bytes().filter(|_| self.is_logging_changes()) {
            Some(metadata) => metadata.log_changes(),
            None => Ok(()),
        }
    }

    /// Stops the log of changes and empties it.
    pub fn forget_changes(&self) {
        if let Some(metadata) = self.metadata_bytes() {
            metadata.forget_changes();
        }
        self.changes.is_on.store(false, Ordering::SeqCst);
        self.changes.pages.get().iter().for_each(|words| words.iter().for_each(|it| it.store(0, Ordering::Relaxed)));
    }

    /// Returns true if the store logs changes.
    pub fn is_logging_changes(&self) -> bool {
        self.changes.is_on.load(Ordering::Relaxed)
    }

    /// Returns the number of changed bytes that are still to be copied, in whole pages.
    pub fn changed_bytes(&self) -> u64 {
        (self.changes.count() + self.metadata_bytes().map_or(0, |metadata| metadata.changes.count())) * PAGE_BYTES
    }

    /// Takes changed bytes off the log, and returns their range; none if nothing has changed. The caller copies them
    /// afterwards.
    pub fn take_changed(&self) -> Option<ChangedRange> {
        let range = |region, (offset, bytes): (u64, u64), end: u64| ChangedRange {
            region,
            offset,
            bytes: bytes.min(end - offset),
        };
        let taken = self.changes.take().map(|taken| range(StoreRegion::Data, taken, self.geometry().capacity_bytes));
        taken.or_else(|| {
            let metadata = self.metadata_bytes()?;
            let taken = metadata.changes.take()?;
            Some(range(StoreRegion::Metadata, taken, metadata.geometry().capacity_bytes))
        })
    }

    /// Copies bytes of a region out of the store, even if a host has marked them as unreadable.
    ///
    /// # Errors
    ///
    /// If the disk does not return them.
    pub fn copy_range(&self, range: ChangedRange) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; wide_index(range.bytes)];
        match range.region {
            StoreRegion::Data => self.read_marked(range.offset, &mut bytes)?,
            StoreRegion::Metadata => self.metadata_region()?.read_marked(range.offset, &mut bytes)?,
        }
        Ok(bytes)
    }

    /// Writes bytes of a region that come from another server. The range must lie within the region.
    ///
    /// # Errors
    ///
    /// If the range does not lie within the region, or the disk refuses the bytes.
    pub fn place_range(&self, region: StoreRegion, offset: u64, from: &[u8]) -> io::Result<()> {
        let store = match region {
            StoreRegion::Data => self,
            StoreRegion::Metadata => {
                self.add_metadata()?;
                self.metadata_region()?
            }
        };
        let capacity_bytes = store.geometry().capacity_bytes;
        let is_within = offset.checked_add(length(from.len())).is_some_and(|end| end <= capacity_bytes);
        if !is_within {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if from.iter().all(|byte| *byte == 0) {
            return store.zero_stored_bytes(offset, length(from.len()), false);
        }
        store.write(offset, from)
    }

    /// Returns true if nothing has been written to the store.
    ///
    /// # Errors
    ///
    /// If the file system does not report it.
    pub fn is_unwritten(&self) -> io::Result<bool> {
        let (mut at, end) = (0, self.geometry().capacity_bytes);
        while at < end {
            let extents = self.extents(at, end - at, 1)?;
            if extents.iter().any(|extent| extent.is_data) {
                return Ok(false);
            }
            at += extents.iter().map(|extent| extent.bytes).sum::<u64>();
        }
        Ok(true)
    }

    /// Reads bytes, even if a host has marked them as unreadable.
    #[inline]
    pub(super) fn read_marked(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        match &self.backing {
            StoreBacking::Memory(_) => self.copy_bytes_out(offset, into),
            StoreBacking::File(backing) => {
                let _guard = backing.holes.copying();
                if !backing.allocation.holds(offset, length(into.len())) {
                    return backing.read_by_system_call(offset, into);
                }
                self.copy_bytes_out(offset, into);
                backing.check()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::store::Geometry;

    fn store() -> Store {
        Store::in_memory(Geometry { capacity_bytes: 1 << 20, block_bytes: 512 }).unwrap()
    }

    fn taken(store: &Store) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| store.take_changed()).map(|it| (it.offset / PAGE_BYTES, it.bytes / PAGE_BYTES)).collect()
    }

    #[test]
    fn log_begins_with_written_pages_and_then_has_each_changed_page_once() {
        let store = store();
        store.write(3 * PAGE_BYTES, &[1; 512]).unwrap();
        assert_eq!(store.take_changed(), None);
        store.log_changes().unwrap();
        assert_eq!(taken(&store), [(3, 1)]);
        store.write(5 * PAGE_BYTES - 8, &[2; 16]).unwrap();
        store.zero(3 * PAGE_BYTES, PAGE_BYTES, false).unwrap();
        store.lend(7 * PAGE_BYTES, 64, super::super::StoreCopyDirection::Write, |_| ()).unwrap();
        store.lend(9 * PAGE_BYTES, 64, super::super::StoreCopyDirection::Read, |_| ()).unwrap();
        assert_eq!((store.changed_bytes(), taken(&store)), (4 * PAGE_BYTES, vec![(3, 3), (7, 1)]));
        store.write(20 * PAGE_BYTES, &vec![3; 40 * 4096]).unwrap();
        assert_eq!(taken(&store), [(20, 16), (36, 16), (52, 8)]);
        store.write(0, &[1; 8]).unwrap();
        store.forget_changes();
        assert_eq!((store.changed_bytes(), taken(&store)), (0, vec![]));
    }

    #[test]
    fn copied_ranges_make_an_equal_store_with_its_metadata() {
        let (source, target) = (store(), store());
        source.add_metadata().unwrap();
        source.write_blocks_with_metadata(512, 512, &[7; 1024], &[9; 16]).unwrap();
        source.log_changes().unwrap();
        while let Some(range) = source.take_changed() {
            target.place_range(range.region, range.offset, &source.copy_range(range).unwrap()).unwrap();
        }
        let mut found = [0; 1024];
        assert_eq!(target.read_blocks_with_metadata(512, 512, &mut found).unwrap(), [9; 16]);
        assert_eq!((found, target.is_unwritten().unwrap()), ([7; 1024], false));
        assert!(target.place_range(StoreRegion::Data, (1 << 20) - 4, &[1; 8]).is_err());
    }
}
