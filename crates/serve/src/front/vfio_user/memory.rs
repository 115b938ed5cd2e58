//! The client's memory by its addresses: regions that are mapped here, and regions that the client has to be asked for.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use phaselink_core::table::Table;

use super::mapping::Mapping;
use crate::device::guard::MAPPINGS_MAX;

/// `max_dma_maps`: regions of one client. QEMU has one for each piece of the guest's memory map; user-space drivers one for
/// each page of 2 MiB. This is the specification's default, and QEMU refuses a server that offers more.
pub const REGIONS_MAX: usize = MAPPINGS_MAX;

/// Range of addresses of a client.
#[derive(Debug, Default)]
struct Region {
    start: u64,
    bytes: u64,
    /// True if the device may read there.
    readable: bool,
    /// True if the device may write there.
    writable: bool,
    /// Mapping of the range; none if the client gave no descriptor.
    mapping: Option<Mapping>,
}

impl Region {
    fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// Regions of a client.
#[derive(Debug, Default)]
struct Regions {
    table: Table<Region>,
    /// Place of each region in the table, by its first address.
    places: BTreeMap<u64, u32>,
}

/// Memory of a client, as one thread sees it.
#[derive(Debug)]
pub struct Memory {
    regions: Arc<Regions>,
    /// Regions of the latest accesses, by pages of 2 MiB: the next ones are likely there too.
    recent: [Recent; RECENT],
}

/// Number of remembered regions: a driver's queues, and the buffers that it has in flight.
const RECENT: usize = 64;
/// Bits of an address within a page of 2 MiB.
const PAGE_SHIFT: u32 = 21;

/// Region that has been found: its first address, its bytes, and its place; a vacant entry has no bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    start: u64,
    bytes: u64,
    place: u32,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { regions: Arc::default(), recent: [Recent::default(); RECENT] }
    }
}

/// Range that a client adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionRequest {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Offset in the descriptor's file.
    pub offset: u64,
    /// True if the device may read there.
    pub readable: bool,
    /// True if the device may write there.
    pub writable: bool,
}

/// Reason why a range is not added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionRefusal {
    /// The range is empty, cannot be mapped, or cuts through others.
    Invalid,
    /// Part of the range is there already.
    Exists,
    /// There are too many ranges.
    TooMany,
    /// There is no such range.
    Missing,
}

/// Destination of a part of an access.
#[derive(Clone, Copy, Debug)]
pub enum AccessTarget<'a> {
    /// Offset in a mapping.
    Mapped(&'a Mapping, usize),
    /// The client has to be asked, if it allows reading and writing there.
    Remote {
        /// True if the device may read there.
        readable: bool,
        /// True if the device may write there.
        writable: bool,
    },
}

impl Regions {
    /// Returns the places of the regions that have a byte between `start` and `end`, the last one first.
    fn touched(&self, start: u64, end: u64) -> impl Iterator<Item = u32> {
        let before_end = self.places.range(..end).rev().map(|(_, place)| *place);
        before_end.take_while(move |place| self.table[*place as usize].end() > start)
    }

    fn release(&mut self, place: u32) {
        let gone = std::mem::take(&mut self.table[place as usize]);
        self.places.remove(&gone.start);
        self.table.vacate(place);
    }
}

impl Memory {
    /// Shares the memory with another thread: it does not change until that thread drops it.
    pub fn share(&self) -> Memory {
        Memory { regions: Arc::clone(&self.regions), ..Memory::default() }
    }

    /// Returns the regions, to change them.
    ///
    /// # Panics
    /// If another thread has the memory.
    fn change(&mut self) -> &mut Regions {
        self.recent = [Recent::default(); RECENT];
        Arc::get_mut(&mut self.regions).expect("no memory changes that others have")
    }

    /// Adds a range, mapped if there is a descriptor.
    ///
    /// # Errors
    /// If it is not added.
    ///
    /// # Panics
    /// If another thread has the memory, as in everything that changes it.
    pub fn map(&mut self, wanted: &RegionRequest, fd: Option<&OwnedFd>) -> Result<(), RegionRefusal> {
        let RegionRequest { start, bytes, offset, readable, writable } = *wanted;
        let end = start.checked_add(bytes).filter(|_| bytes > 0).ok_or(RegionRefusal::Invalid)?;
        if self.regions.touched(start, end).next().is_some() {
            return Err(RegionRefusal::Exists);
        }
        if self.regions.places.len() >= REGIONS_MAX {
            return Err(RegionRefusal::TooMany);
        }
        // What may not be read cannot be mapped: the client does it.
        let fd = fd.filter(|_| readable);
        let mapping = fd.map(|fd| Mapping::new(fd, offset, bytes, writable)).transpose().map_err(refusal)?;
        let regions = self.change();
        let place = regions.table.insert(Region { start, bytes, readable, writable, mapping });
        regions.places.insert(start, place);
        Ok(())
    }

    /// Removes every region within a range.
    ///
    /// # Errors
    /// If there is none, or the range divides one.
    pub fn unmap(&mut self, start: u64, bytes: u64) -> Result<(), RegionRefusal> {
        let end = start.checked_add(bytes).ok_or(RegionRefusal::Invalid)?;
        let touched: Vec<u32> = self.regions.touched(start, end).collect();
        let is_within = |region: &Region| start <= region.start && region.end() <= end;
        match touched
            .iter()
            .map(|place| is_within(&self.regions.table[*place as usize]))
            .reduce(|one, other| one && other)
        {
            None => Err(RegionRefusal::Missing),
            Some(false) => Err(RegionRefusal::Invalid),
            Some(true) => {
                let regions = self.change();
                touched.into_iter().for_each(|place| regions.release(place));
                Ok(())
            }
        }
    }

    /// Removes all regions.
    pub fn clear(&mut self) {
        *self.change() = Regions::default();
    }

    /// Returns the destination of an access of `bytes` at `address`, and how many of the bytes go there.
    #[inline]
    pub fn find(&mut self, address: u64, bytes: usize) -> Option<(AccessTarget<'_>, usize)> {
        let recent = &mut self.recent[(address >> PAGE_SHIFT) as usize % RECENT];
        if address.wrapping_sub(recent.start) >= recent.bytes {
            let (start, place) = self.regions.places.range(..=address).next_back()?;
            let bytes = self.regions.table[*place as usize].bytes;
            if address - start >= bytes {
                return None;
            }
            *recent = Recent { start: *start, bytes, place: *place };
        }
        let region = &self.regions.table[recent.place as usize];
        let offset = address - region.start;
        let here = (region.bytes - offset).min(bytes as u64) as usize;
        let place = match &region.mapping {
            Some(mapping) => AccessTarget::Mapped(mapping, offset as usize),
            None => AccessTarget::Remote { readable: region.readable, writable: region.writable },
        };
        Some((place, here))
    }

    /// Returns the mapping that holds a whole access, and the offset in it.
    #[inline]
    pub fn mapped(&mut self, address: u64, bytes: usize) -> Option<(&Mapping, usize)> {
        match self.find(address, bytes)? {
            (AccessTarget::Mapped(mapping, offset), here) if here == bytes => Some((mapping, offset)),
            _ => None,
        }
    }
}

/// Returns why memory cannot be mapped: the process may have no more mappings, or the memory is not what the client says.
fn refusal(error: io::Error) -> RegionRefusal {
    match error.kind() {
        io::ErrorKind::QuotaExceeded | io::ErrorKind::OutOfMemory => RegionRefusal::TooMany,
        _ => RegionRefusal::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, bytes: u64) -> RegionRequest {
        RegionRequest { start, bytes, offset: 0, readable: true, writable: true }
    }

    #[test]
    fn an_access_is_found_in_the_region_that_holds_its_beginning_and_cut_at_the_end_of_that() {
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
    fn regions_do_not_overlap_and_are_taken_away_whole() {
        let mut memory = Memory::default();
        memory.map(&range(0x1000, 0x1000), None).unwrap();
        memory.map(&range(0x2000, 0x1000), None).unwrap();
        assert_eq!(memory.map(&range(0x1fff, 1), None), Err(RegionRefusal::Exists));
        assert_eq!(memory.map(&range(u64::MAX, 2), None), Err(RegionRefusal::Invalid));
        assert_eq!(memory.map(&range(0, 0), None), Err(RegionRefusal::Invalid));
        assert_eq!(memory.unmap(0x1000, 0x800), Err(RegionRefusal::Invalid));
        assert_eq!(memory.unmap(0x3000, 0x1000), Err(RegionRefusal::Missing));
        assert_eq!(memory.unmap(0x1000, 0x2000), Ok(()));
        assert!(memory.find(0x1000, 1).is_none());
    }

    #[test]
    fn tens_of_thousands_of_mapped_pages_are_found_and_taken_away_in_any_order() {
        const PAGE: u64 = 1 << 21;
        let fd = rustix::fs::memfd_create("client", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        let mut memory = Memory::default();
        let started = std::time::Instant::now();
        // An odd number of them goes round through all places below the power of two.
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
    fn there_are_no_more_regions_than_that() {
        let mut memory = Memory::default();
        for place in 0..REGIONS_MAX as u64 {
            memory.map(&range(place * 16, 16), None).unwrap();
        }
        assert_eq!(memory.map(&range(1 << 40, 16), None), Err(RegionRefusal::TooMany));
    }
}
