//! The client's memory by its addresses: regions that are mapped here, and regions that the client has to be asked for.

use std::os::fd::OwnedFd;

use super::mapping::Mapping;

/// `max_dma_maps`: regions of one client. QEMU has one for each piece of the guest's memory map, SPDK no more than 16.
pub const REGIONS_MAX: usize = 256;

/// A range of addresses.
#[derive(Debug)]
struct Region {
    start: u64,
    bytes: u64,
    readable: bool,
    writable: bool,
    /// None if the client gave no descriptor.
    mapping: Option<Mapping>,
}

/// All of it, in the order of addresses.
#[derive(Debug, Default)]
pub struct Memory {
    regions: Vec<Region>,
    /// The region of the last access: the next one is likely there too.
    last: usize,
}

/// A range to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub start: u64,
    pub bytes: u64,
    /// Offset in the descriptor's file.
    pub offset: u64,
    pub readable: bool,
    pub writable: bool,
}

/// Why a range is not added or taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is none, or it cannot be mapped, or it cuts through others.
    Invalid,
    /// Part of it is there already.
    Exists,
    /// There are too many.
    TooMany,
    /// There is no such range.
    Missing,
}

/// Where part of an access goes.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    Mapped(&'a Mapping, usize),
    /// To the client, if it allows reading and writing there.
    Remote {
        readable: bool,
        writable: bool,
    },
}

impl Memory {
    /// Add a range, mapped if there is a descriptor.
    ///
    /// # Errors
    /// If it is not added.
    pub fn map(&mut self, wanted: &Wanted, fd: Option<&OwnedFd>) -> Result<(), Refusal> {
        let Wanted { start, bytes, offset, readable, writable } = *wanted;
        let end = start.checked_add(bytes).filter(|_| bytes > 0).ok_or(Refusal::Invalid)?;
        if self.regions.iter().any(|region| region.start < end && start < region.start + region.bytes) {
            return Err(Refusal::Exists);
        }
        if self.regions.len() >= REGIONS_MAX {
            return Err(Refusal::TooMany);
        }
        // What may not be read cannot be mapped: the client does it.
        let fd = fd.filter(|_| readable);
        let mapping =
            fd.map(|fd| Mapping::new(fd, offset, bytes, writable)).transpose().map_err(|_| Refusal::Invalid)?;
        let place = self.regions.partition_point(|region| region.start < start);
        self.regions.insert(place, Region { start, bytes, readable, writable, mapping });
        Ok(())
    }

    /// Take away every region within a range.
    ///
    /// # Errors
    /// If there is none, or the range divides one.
    pub fn unmap(&mut self, start: u64, bytes: u64) -> Result<(), Refusal> {
        let end = start.checked_add(bytes).ok_or(Refusal::Invalid)?;
        let touches = |region: &Region| region.start < end && start < region.start + region.bytes;
        let is_within = |region: &Region| start <= region.start && region.start + region.bytes <= end;
        match self.regions.iter().filter(|region| touches(region)).map(is_within).reduce(|one, other| one && other) {
            None => Err(Refusal::Missing),
            Some(false) => Err(Refusal::Invalid),
            Some(true) => {
                self.regions.retain(|region| !touches(region));
                Ok(())
            }
        }
    }

    /// Take everything away.
    pub fn clear(&mut self) {
        self.regions.clear();
    }

    /// Where an access of `bytes` at `address` goes, and how much of it goes there.
    #[inline]
    pub fn find(&mut self, address: u64, bytes: usize) -> Option<(Target<'_>, usize)> {
        let holds = |region: &Region| address.wrapping_sub(region.start) < region.bytes;
        if !self.regions.get(self.last).is_some_and(holds) {
            self.last = self.regions.partition_point(|region| region.start <= address).checked_sub(1)?;
        }
        let region = self.regions.get(self.last).filter(|region| holds(region))?;
        let offset = address - region.start;
        let here = (region.bytes - offset).min(bytes as u64) as usize;
        let place = match &region.mapping {
            Some(mapping) => Target::Mapped(mapping, offset as usize),
            None => Target::Remote { readable: region.readable, writable: region.writable },
        };
        Some((place, here))
    }

    /// The mapping that holds a whole access, and where.
    #[inline]
    pub fn mapped(&mut self, address: u64, bytes: usize) -> Option<(&Mapping, usize)> {
        match self.find(address, bytes)? {
            (Target::Mapped(mapping, offset), here) if here == bytes => Some((mapping, offset)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, bytes: u64) -> Wanted {
        Wanted { start, bytes, offset: 0, readable: true, writable: true }
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
        assert_eq!(memory.map(&range(0x1fff, 1), None), Err(Refusal::Exists));
        assert_eq!(memory.map(&range(u64::MAX, 2), None), Err(Refusal::Invalid));
        assert_eq!(memory.map(&range(0, 0), None), Err(Refusal::Invalid));
        assert_eq!(memory.unmap(0x1000, 0x800), Err(Refusal::Invalid));
        assert_eq!(memory.unmap(0x3000, 0x1000), Err(Refusal::Missing));
        assert_eq!(memory.unmap(0x1000, 0x2000), Ok(()));
        assert!(memory.find(0x1000, 1).is_none());
    }

    #[test]
    fn there_are_no_more_regions_than_that() {
        let mut memory = Memory::default();
        for place in 0..REGIONS_MAX as u64 {
            memory.map(&range(place * 16, 16), None).unwrap();
        }
        assert_eq!(memory.map(&range(1 << 40, 16), None), Err(Refusal::TooMany));
    }
}
