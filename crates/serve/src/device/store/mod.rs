//! Bytes of a served device, in memory or in a file that survives the server.
//!
//! A [`Store`] guarantees its callers that
//!
//! - a write that has returned is visible to every later read, and survives the end of this process, however it ends;
//! - a write that has been [flushed](Store::flush) survives the end of the machine too;
//! - a full disk is an error of the write that found it, and harms nothing that was written before;
//! - a file that is not what was asked for is refused, with the reason, and left as it is;
//! - a file that another program makes shorter fails all requests from the first one that notices, and never reads as zeros;
//! - no two stores share a file.
//!
//! A store of [zones](Store::with_zones) keeps their states at each flush, and a store of [keys](Store::with_keys) its
//! keys with their values. Blocks have [metadata](Store::add_metadata) beside them once a namespace is formatted so.
//! A server that dies loses the writes since the last flush, as a drive loses them with its power.
//!
//! Threads may read and write at the same time. Like a disk, the store orders nothing between requests that overlap and
//! are in flight together: such a read may find some bytes from before a write and some from after it.

mod allocation;
mod changes;
pub(crate) mod copy;
mod extent;
mod file;
mod header;
mod holes;
mod index_log;
mod keys;
mod metadata;
mod state;
mod unreadable;
mod written;
mod zones;

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use memmap2::{Advice, MmapOptions, MmapRaw};
use phaselink_client::chunk;
use phaselink_core::media::keys::KeyLayout;
use phaselink_core::media::zones::ZoneLayout;
use phaselink_core::number::{index, length, wide_index};
use phaselink_core::problem::Problem;
use rustix::fs::FallocateFlags;

use changes::ChangeLog;
use file::StoreFile;
use header::StoreHeader;
use index_log::{KeyIndexLog, index_bytes};
use metadata::StoreMetadata;
use state::StoreState;
use unreadable::Unreadable;
use written::WrittenPages;

pub use changes::{ChangedRange, StoreRegion};
pub use extent::Extent;
pub use header::{Geometry, MAGIC, StoredNamespaceKind};
pub use keys::{ReservedRoom, StoreKeys};
pub use state::StateRecordTag;
pub use zones::StoreZones;

use crate::device::tally::locked;

/// Bytes of a served device, with the state that is saved beside them.
#[derive(Debug)]
pub struct Store {
    geometry: Geometry,
    /// Memory or file behind the mapping. Declared before the mapping so that its guard is dropped first.
    backing: StoreBacking,
    /// Mapping of the device's bytes.
    map: MmapRaw,
    /// State that the store saves beside the device's bytes, in records by tag, and the header of its file if there is
    /// one.
    state: Mutex<(StoreState, Option<StoreHeader>)>,
    unreadable: Unreadable,
    /// Log of changed pages, while the bytes are copied to another server.
    changes: ChangeLog,
    command_set_state: StoredCommandSetState,
    /// Metadata of the blocks, from the time when a namespace is formatted with metadata.
    metadata: OnceLock<Box<StoreMetadata>>,
}

/// Memory or file behind the mapping.
#[derive(Debug)]
enum StoreBacking {
    Memory(WrittenPages),
    File(Box<StoreFile>),
}

/// State of a namespace's I/O command set that the store keeps beside the bytes of the device.
#[derive(Debug)]
pub enum StoredCommandSetState {
    /// Blocks without further state: any block can be written at any time.
    Blocks,
    /// Zones, whose blocks must be written in order.
    Zones(Box<StoreZones>),
    /// Keys and values; the bytes of the device are those of the values.
    Keys(Arc<StoreKeys>),
}

impl StoredCommandSetState {
    /// Returns true if the state can move to another store.
    pub fn can_move(&self) -> bool {
        !matches!(self, StoredCommandSetState::Keys(_))
    }

    /// Returns the record by which the state moves to another store; none if it has none beside the bytes.
    pub fn record(&self) -> Option<Vec<u8>> {
        if let StoredCommandSetState::Zones(zones) = self { Some(zones.record()) } else { None }
    }

    /// Returns true if [`StoredCommandSetState::replace`] takes a record.
    pub fn accepts(&self, record: Option<&[u8]>) -> bool {
        match (self, record) {
            (StoredCommandSetState::Zones(zones), Some(record)) => zones.accepts(record),
            (StoredCommandSetState::Blocks, record) => record.is_none(),
            _ => false,
        }
    }

    /// Replaces the state by that of a record from another store. Changes nothing if the state does not accept it.
    pub fn replace(&self, record: Option<&[u8]>) {
        if let (StoredCommandSetState::Zones(zones), Some(record)) = (self, record) {
            zones.replace(record);
        }
    }
}

/// Direction of a copy for which words of a store are lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreCopyDirection {
    /// Data is copied out of the store.
    Read,
    /// Data is copied into the store.
    Write,
}

impl Store {
    /// Makes a store of zeros in memory, which ends with the process.
    ///
    /// # Errors
    ///
    /// If the process has not enough address space.
    pub fn in_memory(geometry: Geometry) -> Result<Store, Problem> {
        let map = MmapOptions::new().len(geometry.len()).no_reserve_swap().map_anon();
        let map = map.map_err(|error| {
            Problem::new("store", None, format!("no memory for {} bytes: {error}", geometry.capacity_bytes), "")
        })?;
        if geometry.capacity_bytes <= max_large_page_store_bytes() {
            // Without large pages, address translation of a page takes about as long as its copy. The store works
            // without them, so ignore errors.
            let _ = map.advise(Advice::HugePage);
        }
        let written = WrittenPages::new(geometry.capacity_bytes);
        Ok(Store::of(geometry, StoreBacking::Memory(written), map.into()))
    }

    /// Returns a store with these mapped bytes and no saved state records.
    fn of(geometry: Geometry, backing: StoreBacking, map: MmapRaw) -> Store {
        Store {
            geometry,
            backing,
            map,
            state: Mutex::default(),
            unreadable: Unreadable::default(),
            changes: ChangeLog::default(),
            command_set_state: StoredCommandSetState::Blocks,
            metadata: OnceLock::new(),
        }
    }

    /// Gives the store zones, empty or as saved at the last flush. Blocks beyond a zone's write pointer read as zeros.
    ///
    /// # Errors
    ///
    /// If the store was made for other zones, or the file cannot be cleared beyond the write pointers.
    pub fn with_zones(mut self, layout: ZoneLayout) -> Result<Store, Problem> {
        let refused = |error: io::Error| {
            let allowed = format!(
                "a store of {} zones of {} blocks, of which {} can be written, or a path where there is no file yet",
                layout.zones, layout.zone_blocks, layout.capacity_blocks
            );
            Problem::new("store", None, error.to_string(), allowed)
        };
        let zones =
            StoreZones::new(layout, self.geometry.block_bytes, self.record(StateRecordTag::Zones)).map_err(refused)?;
        if !self.is_in_memory() {
            let clear = |(offset, bytes): (u64, u64)| self.zero(offset, bytes, false);
            zones.unwritten().into_iter().try_for_each(clear).map_err(refused)?;
        }
        self.command_set_state = StoredCommandSetState::Zones(Box::new(zones));
        Ok(self)
    }

    /// Returns the state of the namespace's I/O command set, which the store keeps beside the bytes of the device.
    #[inline]
    pub fn command_set_state(&self) -> &StoredCommandSetState {
        &self.command_set_state
    }

    /// Makes zones empty, or deletes all keys, after the caller has cleared the bytes of the store.
    pub fn clear_command_set_state(&self) {
        match &self.command_set_state {
            StoredCommandSetState::Blocks => {}
            StoredCommandSetState::Zones(zones) => zones.mark_all_zones_empty(),
            StoredCommandSetState::Keys(keys) => keys.clear(),
        }
    }

    /// Returns the zones, if the device has blocks that must be written in order.
    #[inline]
    pub fn zones(&self) -> Option<&StoreZones> {
        if let StoredCommandSetState::Zones(zones) = &self.command_set_state { Some(zones) } else { None }
    }

    /// Gives the store keys: none, or those saved at the last flush. A file has their index after the values; see
    /// [`Geometry::with_key_index`].
    ///
    /// # Errors
    ///
    /// If the index belongs to another namespace, or is damaged.
    pub fn with_keys(mut self, layout: KeyLayout) -> Result<Store, Problem> {
        let refused = |error: io::Error| {
            let allowed = format!(
                "a store of up to {} keys, and {} bytes of values in granules of {}, or a path where there is no file yet",
                layout.keys_max, layout.capacity_bytes, layout.granule_bytes
            );
            Problem::new("store", None, error.to_string(), allowed)
        };
        let keys = match self.is_in_memory() {
            true => StoreKeys::in_memory(layout),
            false => {
                let start = self.geometry.capacity_bytes - index_bytes(&layout);
                let opened = KeyIndexLog::open(layout, start, |offset, into| self.read(offset, into));
                opened.and_then(|(log, keys)| StoreKeys::of_log(layout, log, keys)).map_err(refused)?
            }
        };
        self.command_set_state = StoredCommandSetState::Keys(Arc::new(keys));
        Ok(self)
    }

    /// Returns the keys and values, if the device stores values by their keys.
    #[inline]
    pub fn keys(&self) -> Option<&Arc<StoreKeys>> {
        if let StoredCommandSetState::Keys(keys) = &self.command_set_state { Some(keys) } else { None }
    }

    /// Opens the store of a namespace with logical blocks in the file at `path`, and makes it if the file is missing or
    /// empty.
    ///
    /// # Errors
    ///
    /// If the file cannot be this store: another server has it, it is something else or damaged, or the system refuses
    /// it. The file is then unchanged.
    pub fn open(path: &Path, geometry: Geometry) -> Result<Store, Problem> {
        Store::open_with_kind(StoredNamespaceKind::Conventional, path, geometry)
    }

    /// Opens the store of a kind of namespace in the file at `path`, and makes it if the file is missing or empty.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::open`], or if the store holds another kind of namespace.
    pub fn open_with_kind(kind: StoredNamespaceKind, path: &Path, geometry: Geometry) -> Result<Store, Problem> {
        open(path, geometry, kind).map_err(|refusal| refusal.into_problem(path))
    }

    /// Returns the state record saved under this tag, such as the namespaces; none if there is none.
    pub fn record(&self, tag: StateRecordTag) -> Option<Vec<u8>> {
        locked(&self.state).0.record(tag).cloned()
    }

    /// Saves a record in the store, durably if the store is a file. A file of an older version is converted to the
    /// newest.
    ///
    /// # Errors
    ///
    /// If the store's file has no room for the saved record, or the disk refuses it.
    pub fn save_state_record(&self, tag: StateRecordTag, record: Vec<u8>) -> io::Result<()> {
        let mut locked = locked(&self.state);
        let (state, header) = &mut *locked;
        let StoreBacking::File(backing) = &self.backing else { return state.save(tag, record, None) };
        backing.check_length()?;
        if let Some(header) = header {
            header.migrate(&backing.file)?;
        }
        state.save(tag, record, Some(&backing.file))
    }

    /// Marks bytes as unreadable until they are written again, durably.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::save_state_record`].
    pub fn make_unreadable(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.check(offset, bytes);
        self.unreadable.set((offset, bytes), true, |record| self.save_state_record(StateRecordTag::Unreadable, record))
    }

    /// Replaces the unreadable ranges by those of a record from another store, durably. Returns false, with nothing
    /// changed, if the record does not fit the store.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::save_state_record`].
    pub fn replace_unreadable(&self, record: Vec<u8>) -> io::Result<bool> {
        if !Unreadable::accepts(&record, self.geometry.capacity_bytes) {
            return Ok(false);
        }
        self.save_state_record(StateRecordTag::Unreadable, record.clone())?;
        self.unreadable.reload(&record);
        Ok(true)
    }

    /// Returns the unreadable ranges within `bytes` bytes from `offset` on, each as its first byte and its end.
    pub fn unreadable_ranges(&self, offset: u64, bytes: u64) -> Vec<(u64, u64)> {
        self.unreadable.within(offset, bytes)
    }

    /// Returns the number of changes to the unreadable ranges since the store was opened, modulo 2^16.
    pub fn unreadable_change_count(&self) -> u16 {
        self.unreadable.changes()
    }

    /// Marks bytes as readable again, after they have been written.
    #[inline]
    fn make_readable(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if !self.unreadable.touches(offset, bytes) {
            return Ok(());
        }
        self.unreadable.set((offset, bytes), false, |record| self.save_state_record(StateRecordTag::Unreadable, record))
    }

    /// Returns the error EIO if one of the bytes is marked as unreadable.
    #[inline]
    fn check_readable(&self, offset: u64, bytes: u64) -> io::Result<()> {
        match self.unreadable.touches(offset, bytes) {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => Ok(()),
        }
    }

    /// Returns capacity and block size of the device in bytes.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns true if the store is in memory and ends with the process, so that a flush does nothing.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.backing, StoreBacking::Memory(_))
    }

    /// Copies the bytes from `offset` on into `into`.
    ///
    /// # Errors
    ///
    /// If the disk does not return them, or they have been [made unreadable](Store::make_unreadable).
    ///
    /// # Panics
    ///
    /// If the range ends beyond the store, as in every other method. Front-ends check the requests of guests.
    #[inline]
    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.check(offset, length(into.len()));
        self.check_readable(offset, length(into.len()))?;
        self.read_marked(offset, into)
    }

    /// Returns a reference to the words from `offset` on, for reading. Other threads may change them meanwhile. None if
    /// the store is a file, or a byte is unreadable.
    ///
    /// # Panics
    ///
    /// If the range ends beyond the store, or does not begin and end at a word.
    #[inline]
    pub fn words(&self, offset: u64, bytes: u32) -> Option<&[AtomicU64]> {
        self.check(offset, bytes.into());
        match &self.backing {
            StoreBacking::Memory(_) if !self.unreadable.touches(offset, bytes.into()) => {
                Some(self.slice(offset, index(bytes)))
            }
            _ => None,
        }
    }

    /// Lends the words from `offset` on to `copy`, for reading or writing, if the range consists of words and its pages
    /// are allocated. Otherwise returns none, and the caller uses [`Store::read`] or [`Store::write`].
    #[inline]
    pub fn lend<T>(
        &self,
        offset: u64,
        bytes: u32,
        access: StoreCopyDirection,
        copy: impl FnOnce(&[AtomicU64]) -> T,
    ) -> Option<T> {
        self.check(offset, bytes.into());
        let is_hidden = access == StoreCopyDirection::Read && self.unreadable.touches(offset, bytes.into());
        if is_hidden || !(offset | u64::from(bytes)).is_multiple_of(8) {
            return None;
        }
        let copied = self.with_lent_words(offset, bytes, access, copy);
        if access == StoreCopyDirection::Write {
            self.changes.note(offset, bytes.into());
        }
        copied.filter(|_| access == StoreCopyDirection::Read || self.make_readable(offset, bytes.into()).is_ok())
    }

    #[inline]
    fn with_lent_words<T>(
        &self,
        offset: u64,
        bytes: u32,
        access: StoreCopyDirection,
        copy: impl FnOnce(&[AtomicU64]) -> T,
    ) -> Option<T> {
        let backing = match &self.backing {
            StoreBacking::File(backing) => backing,
            StoreBacking::Memory(written) => {
                let copied = copy(self.slice(offset, index(bytes)));
                if access == StoreCopyDirection::Write {
                    written.note(offset, bytes.into());
                }
                return Some(copied);
            }
        };
        let _guard = backing.holes.copying();
        let is_there = match access {
            StoreCopyDirection::Read => backing.allocation.holds(offset, bytes.into()),
            StoreCopyDirection::Write => backing.allocation.can_overwrite_in_place(offset, bytes.into()),
        };
        let copied = is_there.then(|| copy(self.slice(offset, index(bytes))));
        // If the check fails, the caller falls back to the slow path, which reports the error.
        copied.filter(|_| backing.check().is_ok())
    }

    /// Returns a reference to words of the mapping.
    #[inline]
    fn slice(&self, offset: u64, bytes: usize) -> &[AtomicU64] {
        assert!((offset | length(bytes)).is_multiple_of(8), "{bytes} bytes at {offset} are no words");
        let first = self.map.as_ptr().wrapping_add(wide_index(offset)).cast::<AtomicU64>();
        // SAFETY: every caller has checked that the words lie within the mapping. The mapping begins at a page and
        // lives as long as `self`, and the words are aligned. For concurrent accesses, see `copy_bytes_out`.
        unsafe { std::slice::from_raw_parts(first, bytes / 8) }
    }

    /// Prefetches bytes of the store into the cache ahead of a read.
    #[inline]
    pub fn prefetch(&self, offset: u64, bytes: u32) {
        self.check(offset, bytes.into());
        let first = self.map.as_ptr().wrapping_add(wide_index(offset));
        for line in (0..index(bytes)).step_by(64) {
            prefetch(first.wrapping_add(line));
        }
    }

    /// Prefetches the cache lines that a short write overwrites. A longer write does not load them.
    #[inline]
    pub fn prefetch_to_write(&self, offset: u64, bytes: u32) {
        self.check(offset, bytes.into());
        if copy::copy_loads_overwritten_lines(bytes) && (offset | u64::from(bytes)).is_multiple_of(8) {
            chunk::prefetch_to_write(self.slice(offset, index(bytes)));
        }
    }

    /// Writes `from` to the store from `offset` on, and marks the bytes as readable.
    ///
    /// # Errors
    ///
    /// If the disk refuses them, for example because it is full.
    #[inline]
    pub fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.check(offset, length(from.len()));
        match &self.backing {
            StoreBacking::Memory(written) => {
                self.copy_bytes_in(offset, from);
                written.note(offset, length(from.len()));
            }
            StoreBacking::File(backing) => {
                let _guard = backing.holes.copying();
                match backing.allocation.can_overwrite_in_place(offset, length(from.len())) {
                    false => backing.write_and_allocate(offset, from)?,
                    true => {
                        self.copy_bytes_in(offset, from);
                        backing.check()?;
                    }
                }
            }
        }
        self.changes.note(offset, length(from.len()));
        self.make_readable(offset, length(from.len()))
    }

    /// Writes `bytes` zeros from `offset` on. With `keep_space`, the range keeps its space on the disk, so that later
    /// writes cannot find it full. Otherwise the space of whole pages is given back.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::write`].
    pub fn zero(&self, offset: u64, bytes: u64, keep_space: bool) -> io::Result<()> {
        self.check(offset, bytes);
        match self.metadata.get() {
            None => self.zero_stored_bytes(offset, bytes, keep_space),
            Some(metadata) => self.zero_range_and_metadata(metadata, (offset, bytes), keep_space),
        }
    }

    fn zero_stored_bytes(&self, offset: u64, bytes: u64, keep_space: bool) -> io::Result<()> {
        match &self.backing {
            StoreBacking::File(backing) if !keep_space => self.punch_file_hole(backing, offset, bytes)?,
            StoreBacking::Memory(written) if !keep_space => self.forget(written, offset, bytes)?,
            _ => self.write_zeros(offset, bytes)?,
        }
        self.changes.note(offset, bytes);
        self.make_readable(offset, bytes)
    }

    /// Flushes all writes so far to the disk, with the states of zones or keys.
    ///
    /// # Errors
    ///
    /// If the disk refuses them. From then on every flush fails, since it is unknown which bytes are missing.
    pub fn flush(&self) -> io::Result<()> {
        let StoreBacking::File(backing) = &self.backing else { return Ok(()) };
        let check_metadata = || self.metadata.get().map_or(Ok(()), |metadata| metadata.check_length());
        let flush = || backing.commit(|| check_metadata().and_then(|()| backing.file.sync_data()));
        match &self.command_set_state {
            StoredCommandSetState::Blocks => flush(),
            StoredCommandSetState::Zones(zones) => {
                zones.flush(flush, |record| self.save_state_record(StateRecordTag::Zones, record))
            }
            StoredCommandSetState::Keys(keys) => keys.flush(flush, |offset, from| self.write(offset, from)),
        }
    }

    /// Flushes the bytes of one range to the disk.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::flush`].
    pub fn flush_range(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.check(offset, bytes);
        let StoreBacking::File(backing) = &self.backing else { return Ok(()) };
        backing.commit(|| self.map.flush_range(wide_index(offset), wide_index(bytes)))
    }

    fn check(&self, offset: u64, bytes: u64) {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.geometry.capacity_bytes), "{bytes} bytes at {offset}");
    }

    fn copy_bytes_out(&self, offset: u64, into: &mut [u8]) {
        let from = self.map.as_ptr().wrapping_add(wide_index(offset));
        // SAFETY: every caller has checked that the range lies within the mapping, to which no other Rust reference
        // exists. `into` is a reference, so it does not overlap the mapping. Bytes change during the copy only if a
        // guest reads and writes them at once.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    fn copy_bytes_in(&self, offset: u64, from: &[u8]) {
        if (offset | length(from.len())).is_multiple_of(8) {
            return copy::copy_bytes_into_store(from, self.slice(offset, from.len()));
        }
        let into = self.map.as_mut_ptr().wrapping_add(wide_index(offset));
        // SAFETY: as in `copy_bytes_out`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) }
    }

    fn write_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            let length = (end - at).min(length(ZEROS.len()));
            self.write(at, &ZEROS[..wide_index(length)])?;
            at += length;
        }
        Ok(())
    }

    fn punch_file_hole(&self, backing: &StoreFile, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        backing.check_length()?;
        let punched = {
            let _guard = backing.holes.lock_all_for_punching();
            backing.allocation.forget(offset, bytes);
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&backing.file, flags, backing.data_start + offset, bytes)
        };
        match punched {
            Err(rustix::io::Errno::OPNOTSUPP) => self.write_zeros(offset, bytes),
            other => other.map_err(io::Error::from),
        }
    }

    /// Gives whole pages of memory in a range back to the system, and clears the rest of the range.
    fn forget(&self, written: &WrittenPages, offset: u64, bytes: u64) -> io::Result<()> {
        let end = offset + bytes;
        let (first, last) = (offset.next_multiple_of(PAGE_BYTES).min(end), end / PAGE_BYTES * PAGE_BYTES);
        if first >= last {
            return self.write_zeros(offset, bytes);
        }
        self.write_zeros(offset, first - offset)?;
        self.write_zeros(last, end - last)?;
        written.forget(first, last);
        // SAFETY: the pages lie within the mapping, are private and anonymous, and no reference to them exists.
        let given = unsafe {
            libc::madvise(
                self.map.as_mut_ptr().wrapping_add(wide_index(first)).cast(),
                wide_index(last - first),
                libc::MADV_DONTNEED,
            )
        };
        if given == 0 { Ok(()) } else { self.write_zeros(first, last - first) }
    }
}

/// Number of attempts to lock a store's file; `LOCK_PAUSE` is the pause between two attempts.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Size in bytes up to which a store in memory may use large pages on any machine. Beyond a good share of the machine's
/// memory, a drive with few written blocks would occupy much more memory than its data needs.
const LARGE_PAGES_BYTES_MIN: u64 = 1 << 30;

/// Returns the size in bytes of the largest store in memory that may use large pages: a quarter of the machine's
/// memory, or 1 GiB if that is more. Random copies of 4 KiB take a quarter less time with large pages.
fn max_large_page_store_bytes() -> u64 {
    // SAFETY: `sysconf` only returns numbers.
    let (pages, page_bytes) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let memory_bytes = u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(page_bytes).unwrap_or(0));
    LARGE_PAGES_BYTES_MIN.max(memory_bytes / 4)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch(byte: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint. It has no visible effect and never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(byte.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_byte: *const u8) {}

/// Size in bytes of a memory page, which is also the unit in which allocated space of a file is recorded.
const PAGE_BYTES: u64 = 4096;

/// Reason why a file cannot be opened as the store: what was found, and what is allowed.
#[derive(Debug)]
struct StoreRefusal {
    found: String,
    allowed: String,
}

impl StoreRefusal {
    fn new(found: impl Into<String>, allowed: impl Into<String>) -> StoreRefusal {
        StoreRefusal { found: found.into(), allowed: allowed.into() }
    }

    fn into_problem(self, path: &Path) -> Problem {
        Problem::new(path.display().to_string(), None, self.found, self.allowed)
    }
}

impl From<io::Error> for StoreRefusal {
    fn from(error: io::Error) -> StoreRefusal {
        StoreRefusal::new(format!("the store cannot be opened: {error}"), "")
    }
}

fn open(path: &Path, geometry: Geometry, kind: StoredNamespaceKind) -> Result<Store, StoreRefusal> {
    // If a file exceeds the process's limit (RLIMIT_FSIZE), report an error instead of being killed by SIGXFSZ.
    // SAFETY: no handler is installed, so none can run.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let is_new = !path.exists();
    // Other users must not read the contents of a drive, whatever the umask allows.
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    lock_store_file(&file)?;
    let was_empty = file.metadata()?.len() == 0;
    let opened =
        file.try_clone().map_err(StoreRefusal::from).and_then(|file| lock_and_open_store(path, file, geometry, kind));
    if opened.is_err() && was_empty {
        // Remove an incomplete file, which would make the next attempt fail. If that fails too, ignore it: the next
        // attempt can complete the file.
        let _ = if is_new { std::fs::remove_file(path) } else { file.set_len(0) };
    }
    opened
}

fn lock_and_open_store(
    path: &Path,
    file: File,
    geometry: Geometry,
    kind: StoredNamespaceKind,
) -> Result<Store, StoreRefusal> {
    let header = header::check_or_initialize_store(&file, geometry, kind)?;
    let data_start = header.data_start;
    let state = if header.has_state() { StoreState::read(&file)? } else { StoreState::default() };
    let unreadable =
        state.record(StateRecordTag::Unreadable).map_or_else(Unreadable::default, |it| Unreadable::decode(it));
    // SAFETY of the mapping's contents: a process that changes the file at the same time only changes the data that
    // guests read.
    let map = MmapOptions::new().offset(data_start).len(geometry.len()).map_raw(&file)?;
    let lengths = header::file_bytes(data_start, geometry.capacity_bytes);
    let backing = StoreFile::new(path, file, data_start, geometry.capacity_bytes, lengths, &map)?;
    let state = Mutex::new((state, Some(header)));
    let store = Store { state, unreadable, ..Store::of(geometry, StoreBacking::File(Box::new(backing)), map) };
    store.open_metadata()?;
    Ok(store)
}

/// Locks a store's file. The lock belongs to the open file, so that it ends with the process. A process being started
/// holds its parent's descriptors for a moment, so a lock may end late; hence several attempts.
fn lock_store_file(file: &File) -> Result<(), StoreRefusal> {
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    Err(StoreRefusal::new("another server has this store", "one server a store"))
}
