//! Memory of a client by its addresses: regions that are mapped here, and regions that the client must be asked for.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use phaselink_core::number::{index, length, wide_index};
use phaselink_core::table::Table;

use super::mapping::Mapping;
use crate::device::guard::MAPPINGS_MAX;

/// Maximum number of regions of one client (`max_dma_maps`): the specification's default, as QEMU refuses a server that
/// offers more. QEMU has a region for each piece of the guest's memory map; user-space drivers one for each page of 2
/// MiB.
pub const REGIONS_MAX: usize = MAPPINGS_MAX;

/// Range of a client's addresses that the device may access.
#[derive(Debug, Default)]
struct ClientRegion {
    start: u64,
    bytes: u64,
    /// True if the device may read this memory region of the client.
    readable: bool,
    /// True if the device may write this memory region of the client.
    writable: bool,
    /// Mapping of the region; none if the client must be asked for it.
    mapping: Option<Mapping>,
}

impl ClientRegion {
    fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// All regions of a client's memory.
#[derive(Debug, Default)]
struct ClientRegions {
    table: Table<ClientRegion>,
    /// Index of each region in the table, by the region's first address.
    places: BTreeMap<u64, u32>,
}

/// Memory of a client, with the regions that one thread has accessed recently.
#[derive(Debug)]
pub struct Memory {
    regions: Arc<ClientRegions>,
    /// Regions of this thread's recent accesses, by pages of 2 MiB, as the next accesses are likely there too.
    recent: [RecentRegion; RECENT],
}

/// Number of regions that are remembered: enough for a driver's queues and its buffers in flight.
const RECENT: usize = 64;
/// Number of address bits within a page of 2 MiB.
const PAGE_SHIFT: u32 = 21;

/// Returns the index among remembered regions for an address. Drivers place queues and buffers at distances that are
/// multiples of large powers of two, and a multiplicative hash gives pages at such distances different indices. Its
/// factor is 2^64 divided by the golden ratio, as in Knuth's The Art of Computer Programming, volume 3, section 6.4.
#[inline]
fn recent_region_slot(address: u64) -> usize {
    (address >> PAGE_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - RECENT.ilog2())
}

/// Remembered region of a recent access: first address, length in bytes, and place in the table. A vacant entry has no
/// bytes.
#[derive(Clone, Copy, Debug, Default)]
struct RecentRegion {
    start: u64,
    bytes: u64,
    place: u32,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { regions: Arc::default(), recent: [RecentRegion::default(); RECENT] }
    }
}

/// Memory region that a client asks the server to add (VFIO_USER_DMA_MAP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionRequest {
    /// First address of the memory region, by which the device accesses it.
    pub start: u64,
    /// Length of the memory region, in bytes.
    pub bytes: u64,
    /// Offset of the region in the descriptor's file, in bytes.
    pub offset: u64,
    /// True if the device may read this memory region of the client.
    pub readable: bool,
    /// True if the device may write this memory region of the client.
    pub writable: bool,
}

/// Reason for which a memory region is not added or not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionRefusalReason {
    /// The range is empty, cannot be mapped, or divides a region.
    Invalid,
    /// The range that is to be added overlaps a memory region of the client.
    Exists,
    /// The client, or this process, has too many regions already.
    TooMany,
    /// The range that is to be removed contains no region.
    Missing,
}

/// Location of the memory that an access reaches.
#[derive(Clone, Copy, Debug)]
pub enum AccessTarget<'a> {
    /// The memory is mapped here: the mapping, and the offset in it.
    Mapped(&'a Mapping, usize),
    /// The memory is not mapped: the client must be asked, if the device may access it.
    Remote {
        /// True if the device may read this memory region of the client.
        readable: bool,
        /// True if the device may write this memory region of the client.
        writable: bool,
    },
}

impl ClientRegions {
    /// Returns the places in the table of all regions that have a byte between `start` and `end`, the last region
    /// first.
    fn touched(&self, start: u64, end: u64) -> impl Iterator<Item = u32> {
        let before_end = self.places.range(..end).rev().map(|(_, place)| *place);
        before_end.take_while(move |place| self.table[index(*place)].end() > start)
    }

    fn release(&mut self, place: u32) {
        let gone = std::mem::take(&mut self.table[index(place)]);
        self.places.remove(&gone.start);
        self.table.vacate(place);
    }
}

impl Memory {
    /// Returns the memory for use by another thread. It must not be changed until that thread has dropped its copy.
    pub fn share(&self) -> Memory {
        Memory { regions: Arc::clone(&self.regions), ..Memory::default() }
    }

    /// Returns the regions for a change, and forgets all remembered ones.
    ///
    /// # Panics
    /// If another thread shares the memory.
    fn regions_for_change(&mut self) -> &mut ClientRegions {
        self.recent = [RecentRegion::default(); RECENT];
        Arc::get_mut(&mut self.regions).expect("no memory changes that others have")
    }

    /// Adds a memory region, which is mapped if there is a descriptor and the device may read it.
    ///
    /// # Errors
    /// Returns the reason if the region is not added.
    ///
    /// # Panics
    /// If another thread shares the memory, as in every method that changes it.
    pub fn map(&mut self, wanted: &RegionRequest, fd: Option<&OwnedFd>) -> Result<(), RegionRefusalReason> {
        let RegionRequest { start, bytes, offset, readable, writable } = *wanted;
        let end = start.checked_add(bytes).filter(|_| bytes > 0).ok_or(RegionRefusalReason::Invalid)?;
        if self.regions.touched(start, end).next().is_some() {
            return Err(RegionRefusalReason::Exists);
        }
        if self.regions.places.len() >= REGIONS_MAX {
            return Err(RegionRefusalReason::TooMany);
        }
        // A region without read permission cannot be mapped, so the client has to move its data.
        let fd = fd.filter(|_| readable);
        let mapping = fd.map(|fd| Mapping::new(fd, offset, bytes, writable)).transpose().map_err(refusal)?;
        let regions = self.regions_for_change();
        let place = regions.table.insert(ClientRegion { start, bytes, readable, writable, mapping });
        regions.places.insert(start, place);
        Ok(())
    }

    /// Removes every memory region within a range of addresses.
    ///
    /// # Errors
    /// If no region lies in the range, or the range divides one.
    pub fn unmap(&mut self, start: u64, bytes: u64) -> Result<(), RegionRefusalReason> {
        let end = start.checked_add(bytes).ok_or(RegionRefusalReason::Invalid)?;
        let touched: Vec<u32> = self.regions.touched(start, end).collect();
        let is_within = |region: &ClientRegion| start <= region.start && region.end() <= end;
        match touched
            .iter()
            .map(|place| is_within(&self.regions.table[index(*place)]))
            .reduce(|one, other| one && other)
        {
            None => Err(RegionRefusalReason::Missing),
            Some(false) => Err(RegionRefusalReason::Invalid),
            Some(true) => {
                let regions = self.regions_for_change();
                touched.into_iter().for_each(|place| regions.release(place));
                Ok(())
            }
        }
    }

    /// Removes all regions of the client's memory.
    pub fn clear(&mut self) {
        *self.regions_for_change() = ClientRegions::default();
    }

    /// Returns the location of the memory at `address`, and how many of an access's `bytes` bytes lie in that region;
    /// none if the address is in no region.
    #[inline]
    pub fn find(&mut self, address: u64, bytes: usize) -> Option<(AccessTarget<'_>, usize)> {
        let recent = &mut self.recent[recent_region_slot(address)];
        if address.wrapping_sub(recent.start) >= recent.bytes {
            let (start, place) = self.regions.places.range(..=address).next_back()?;
            let bytes = self.regions.table[index(*place)].bytes;
            if address - start >= bytes {
                return None;
            }
            *recent = RecentRegion { start: *start, bytes, place: *place };
        }
        let region = &self.regions.table[index(recent.place)];
        let offset = address - region.start;
        let here = wide_index((region.bytes - offset).min(length(bytes)));
        let place = match &region.mapping {
            Some(mapping) => AccessTarget::Mapped(mapping, wide_index(offset)),
            None => AccessTarget::Remote { readable: region.readable, writable: region.writable },
        };
        Some((place, here))
    }

    /// Returns the mapping that contains all bytes of an access, and the offset in it; none if there is no such
    /// mapping. Every command asks several times, so that what is remembered is found without a call.
    #[inline]
    pub fn mapped(&mut self, address: u64, bytes: usize) -> Option<(&Mapping, usize)> {
        let recent = &self.recent[recent_region_slot(address)];
        let offset = address.wrapping_sub(recent.start);
        if offset < recent.bytes && length(bytes) <= recent.bytes - offset {
            let mapping = self.regions.table[index(recent.place)].mapping.as_ref()?;
            return Some((mapping, wide_index(offset)));
        }
        self.look_up_mapped(address, bytes)
    }

    /// Returns what [`Memory::mapped`] does, for a region that is not remembered.
    #[cold]
    fn look_up_mapped(&mut self, address: u64, bytes: usize) -> Option<(&Mapping, usize)> {
        match self.find(address, bytes)? {
            (AccessTarget::Mapped(mapping, offset), here) if here == bytes => Some((mapping, offset)),
            _ => None,
        }
    }
}

/// Returns the reason for which memory cannot be mapped: too many mappings, or memory that is not what the client says.
fn refusal(error: io::Error) -> RegionRefusalReason {
    match error.kind() {
        io::ErrorKind::QuotaExceeded | io::ErrorKind::OutOfMemory => RegionRefusalReason::TooMany,
        _ => RegionRefusalReason::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, bytes: u64) -> RegionRequest {
        RegionRequest { start, bytes, offset: 0, readable: true, writable: true }
    }

    #[test]
    fn access_is_cut_at_the_end_of_its_region() {
        let mut memory = Memory::default();
        memory.map(&range(0x3000, 0x1000), None).unwrap();
        memory.map(&range(0x1000, 0x1000), None).unwrap();
        let mut here = |address, bytes| memory.find(address, bytes).map(|(_, here)| here);
        assert_eq!(here(0x1000, 0x1000), Some(0x1000));
        assert_eq!(here(0x1fff, 16), Some(1));
        assert_eq!(here(0x3010, 16), Some(16));
        assert_eq!((here(0xfff, 1), here(0x2000, 1), here(0x4000, 1), here(u64::MAX, 1)), (None, None, None, None));
    }

    #[test]
    fn regions_do_not_overlap_and_are_removed_whole() {
        let mut memory = Memory::default();
        memory.map(&range(0x1000, 0x1000), None).unwrap();
        memory.map(&range(0x2000, 0x1000), None).unwrap();
        assert_eq!(memory.map(&range(0x1fff, 1), None), Err(RegionRefusalReason::Exists));
        assert_eq!(memory.map(&range(u64::MAX, 2), None), Err(RegionRefusalReason::Invalid));
        assert_eq!(memory.map(&range(0, 0), None), Err(RegionRefusalReason::Invalid));
        assert_eq!(memory.unmap(0x1000, 0x800), Err(RegionRefusalReason::Invalid));
        assert_eq!(memory.unmap(0x3000, 0x1000), Err(RegionRefusalReason::Missing));
        assert_eq!(memory.unmap(0x1000, 0x2000), Ok(()));
        assert!(memory.find(0x1000, 1).is_none());
    }

    #[test]
    fn tens_of_thousands_of_regions_are_found_and_removed() {
        const PAGE: u64 = 1 << 21;
        let fd = rustix::fs::memfd_create("client", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        let mut memory = Memory::default();
        let started = std::time::Instant::now();
        // An odd factor reaches each address below the power of two once.
        let address = |number: u64| number * 77_777 % (1 << 16) * PAGE;
        for number in 0..50_000 {
            memory.map(&RegionRequest { start: address(number), ..range(0, 4096) }, Some(&fd)).unwrap();
        }
        for number in 0..50_000 {
            assert_eq!(memory.mapped(address(number) + 16, 16).map(|(_, offset)| offset), Some(16));
            assert!(memory.find(address(number) + 4096, 1).is_none());
        }
        (0..50_000).for_each(|number| memory.unmap(address(number), PAGE).unwrap());
        assert!(memory.find(address(0), 1).is_none());
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    #[test]
    fn number_of_regions_is_limited() {
        let mut memory = Memory::default();
        for place in 0..REGIONS_MAX as u64 {
            memory.map(&range(place * 16, 16), None).unwrap();
        }
        assert_eq!(memory.map(&range(1 << 40, 16), None), Err(RegionRefusalReason::TooMany));
    }
}
