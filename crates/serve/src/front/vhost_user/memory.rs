//! The memory that a client shares: regions of files, known by two addresses, that of the guest and that in the client.

use std::fs::File;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap};

use super::ring::GuestPart;

use crate::device::guard::Guard;

/// Most regions of one client: what virtual machines have for memory that is plugged in piece by piece, and some.
pub(super) const REGIONS_MAX: u64 = 512;

/// Returns the words of a part of a guest's memory; nothing if they are not aligned, or lie in more than one region.
pub(super) fn words(memory: &GuestMemoryMmap, part: GuestPart) -> Option<&[AtomicU64]> {
    let bytes = part.bytes as usize;
    let found = memory.get_slice(part.address, bytes).ok()?;
    let first = found.ptr_guard_mut().as_ptr().cast::<AtomicU64>();
    let are_words = first.is_aligned() && bytes.is_multiple_of(size_of::<AtomicU64>());
    // SAFETY: the words are aligned and lie within a mapping that lives as long as `memory`, and that a guard keeps there if
    // its file becomes shorter. In this process nothing but copies of words and bytes reaches them; what the guest writes
    // meanwhile can only change their values.
    are_words.then(|| unsafe { slice::from_raw_parts(first, bytes / size_of::<AtomicU64>()) })
}

/// Memory that a client shares.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    regions: Vec<GuestRegion>,
    /// Regions by the guest's addresses.
    guest: GuestMemoryMmap,
}

#[derive(Debug)]
struct GuestRegion {
    /// Guard of the mapping, which is dropped before the addresses become somebody else's.
    _guard: Guard,
    /// Address of the region in the client.
    user_address: u64,
    mapped: Arc<GuestRegionMmap>,
}

impl SharedMemory {
    /// Maps all regions of a table; returns nothing if one is impossible: no file, too short, over another, or too many.
    pub(super) fn of(table: impl Iterator<Item = (VhostUserMemoryRegion, File)>) -> Option<SharedMemory> {
        let mut memory = SharedMemory::default();
        table.into_iter().try_for_each(|(region, file)| memory.add(&region, file))?;
        Some(memory)
    }

    /// Maps one more region.
    pub(super) fn add(&mut self, region: &VhostUserMemoryRegion, file: File) -> Option<()> {
        let VhostUserMemoryRegion { guest_phys_addr: start, memory_size, user_addr, mmap_offset, .. } = *region;
        if self.regions.len() as u64 == REGIONS_MAX || !file.metadata().ok()?.is_file() {
            return None;
        }
        user_addr.checked_add(memory_size)?;
        let bytes = usize::try_from(memory_size).ok().filter(|bytes| *bytes > 0)?;
        let place = FileOffset::new(file, mmap_offset);
        let mapped = Arc::new(GuestRegionMmap::from_range(GuestAddress(start), bytes, Some(place)).ok()?);
        let guest = self.guest.insert_region(Arc::clone(&mapped)).ok()?;
        let guard = Guard::new(mapped.get_mmap().as_ptr() as usize, bytes).ok()?;
        self.guest = guest;
        self.regions.push(GuestRegion { _guard: guard, user_address: user_addr, mapped });
        Some(())
    }

    /// Unmaps a region; returns nothing if there is none such.
    pub(super) fn remove(&mut self, start: u64, bytes: u64) -> Option<()> {
        let is_meant = |region: &GuestRegion| region.mapped.start_addr().0 == start && region.mapped.len() == bytes;
        let place = self.regions.iter().position(is_meant)?;
        self.regions.remove(place);
        (self.guest, _) = self.guest.remove_region(GuestAddress(start), bytes).ok()?;
        Some(())
    }

    /// Returns the memory by the guest's addresses.
    pub(super) fn guest(&self) -> &GuestMemoryMmap {
        &self.guest
    }

    /// Returns the guest's address of what the client knows by its own.
    pub(super) fn guest_address(&self, user_address: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|region| {
            let offset = user_address.checked_sub(region.user_address)?;
            (offset < region.mapped.len()).then(|| GuestAddress(region.mapped.start_addr().0 + offset))
        })
    }
}
