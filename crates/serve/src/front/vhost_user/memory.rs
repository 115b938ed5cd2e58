//! Memory that a vhost-user client shares: mapped regions of files, each with an address in the guest and one in the
//! client's process.

use phaselink_core::number::{index, length};
use std::fs::File;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap};

use super::ring::GuestPart;

use crate::device::guard::Guard;

/// Maximum number of memory regions of one client: enough for virtual machines to which memory is hot-plugged in
/// pieces.
pub(super) const REGIONS_MAX: u64 = 512;

/// Returns a part of a guest's memory as words of 8 bytes; none if it is not aligned, or lies in more than one region.
pub(super) fn words(memory: &GuestMemoryMmap, part: GuestPart) -> Option<&[AtomicU64]> {
    let bytes = index(part.bytes);
    let found = memory.get_slice(part.address, bytes).ok()?;
    let first = found.ptr_guard_mut().as_ptr().cast::<AtomicU64>();
    let are_words = first.is_aligned() && bytes.is_multiple_of(size_of::<AtomicU64>());
    // SAFETY: the words are aligned and lie within a mapping that lives as long as `memory`; a guard keeps it
    // accessible if its file becomes shorter. In this process only copies of words and bytes access the words, and
    // writes of the guest can only change their values.
    are_words.then(|| unsafe { slice::from_raw_parts(first, bytes / size_of::<AtomicU64>()) })
}

/// Memory regions that a client shares, as they are mapped here.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    regions: Vec<MappedGuestRegion>,
    /// All mapped regions, to be found by the guest's addresses.
    guest: GuestMemoryMmap,
}

/// Mapped region of a vhost-user client's memory.
#[derive(Debug)]
struct MappedGuestRegion {
    /// Guard of the mapping against truncation of its file, which is dropped before the mapping.
    _guard: Guard,
    /// Address of the memory region in the client's own process.
    user_address: u64,
    mapped: Arc<GuestRegionMmap>,
}

impl SharedMemory {
    /// Maps all regions of a table. Returns none if one is no file, exceeds its file or overlaps another, or if there
    /// are too many.
    pub(super) fn of(table: impl Iterator<Item = (VhostUserMemoryRegion, File)>) -> Option<SharedMemory> {
        let mut memory = SharedMemory::default();
        table.into_iter().try_for_each(|(region, file)| memory.add(&region, file))?;
        Some(memory)
    }

    /// Maps one more region of the client's memory; returns none if that is not possible.
    pub(super) fn add(&mut self, region: &VhostUserMemoryRegion, file: File) -> Option<()> {
        let VhostUserMemoryRegion { guest_phys_addr: start, memory_size, user_addr, mmap_offset, .. } = *region;
        if length(self.regions.len()) == REGIONS_MAX || !file.metadata().ok()?.is_file() {
            return None;
        }
        user_addr.checked_add(memory_size)?;
        let bytes = usize::try_from(memory_size).ok().filter(|bytes| *bytes > 0)?;
        let place = FileOffset::new(file, mmap_offset);
        let mapped = Arc::new(GuestRegionMmap::from_range(GuestAddress(start), bytes, Some(place)).ok()?);
        let guest = self.guest.insert_region(Arc::clone(&mapped)).ok()?;
        let guard = Guard::new(mapped.get_mmap().as_ptr() as usize, bytes).ok()?;
        self.guest = guest;
        self.regions.push(MappedGuestRegion { _guard: guard, user_address: user_addr, mapped });
        Some(())
    }

    /// Unmaps the region of `bytes` bytes at the guest's address `start`; returns none if there is no such region.
    pub(super) fn remove(&mut self, start: u64, bytes: u64) -> Option<()> {
        let is_meant =
            |region: &MappedGuestRegion| region.mapped.start_addr().0 == start && region.mapped.len() == bytes;
        let place = self.regions.iter().position(is_meant)?;
        self.regions.remove(place);
        (self.guest, _) = self.guest.remove_region(GuestAddress(start), bytes).ok()?;
        Some(())
    }

    /// Returns all mapped memory, to be accessed by the guest's addresses.
    pub(super) fn guest(&self) -> &GuestMemoryMmap {
        &self.guest
    }

    /// Returns the guest's address for an address in the client's process; none if no region contains it.
    pub(super) fn guest_address(&self, user_address: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|region| {
            let offset = user_address.checked_sub(region.user_address)?;
            (offset < region.mapped.len()).then(|| GuestAddress(region.mapped.start_addr().0 + offset))
        })
    }
}
