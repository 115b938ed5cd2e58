//! The memory that a client shares: regions of files, known by two addresses, that of the guest and that in the client.

use std::fs::File;
use std::sync::Arc;

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap};

use crate::front::guard::Guard;

/// Regions of one client: what virtual machines have for memory that is plugged in piece by piece, and some.
pub(super) const REGIONS_MAX: u64 = 512;

/// What a client shares.
#[derive(Debug, Default)]
pub(super) struct Memory {
    regions: Vec<Region>,
    /// The same, by the guest's addresses.
    guest: GuestMemoryMmap,
}

#[derive(Debug)]
struct Region {
    /// Goes first, before the addresses become somebody else's.
    _guard: Guard,
    /// Address in the client.
    user_address: u64,
    mapped: Arc<GuestRegionMmap>,
}

impl Memory {
    /// Map all regions of a table; none, if any is impossible: no file, shorter than said, over another, or too many.
    pub(super) fn of(table: impl Iterator<Item = (VhostUserMemoryRegion, File)>) -> Option<Memory> {
        let mut memory = Memory::default();
        table.into_iter().try_for_each(|(region, file)| memory.add(&region, file))?;
        Some(memory)
    }

    /// Map one more.
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
        self.regions.push(Region { _guard: guard, user_address: user_addr, mapped });
        Some(())
    }

    /// Let go of a region; none, if there is none such.
    pub(super) fn remove(&mut self, start: u64, bytes: u64) -> Option<()> {
        let is_meant = |region: &Region| region.mapped.start_addr().0 == start && region.mapped.len() == bytes;
        let place = self.regions.iter().position(is_meant)?;
        self.regions.remove(place);
        (self.guest, _) = self.guest.remove_region(GuestAddress(start), bytes).ok()?;
        Some(())
    }

    /// By the guest's addresses.
    pub(super) fn guest(&self) -> &GuestMemoryMmap {
        &self.guest
    }

    /// The guest's address of what the client knows by its own.
    pub(super) fn guest_address(&self, user_address: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|region| {
            let offset = user_address.checked_sub(region.user_address)?;
            (offset < region.mapped.len()).then(|| GuestAddress(region.mapped.start_addr().0 + offset))
        })
    }
}
