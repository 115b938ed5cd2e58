//! Host memory as far as its bytes matter: rings, doorbell pages and, in runs with data, buffers.
//!
//! Each device's driver allocates in an area of its own. An area begins with a flat part; allocations that find no room there
//! are backed by pages that the first write makes. The first area's flat part is one piece of memory, which is quickest to
//! reach, since most machines have but one device.

mod paged;
pub mod sparse;

use paged::PagedBytes;
use sparse::SparseBytes;

/// First address of the flat part of the first area.
const BASE: u64 = 0x1000_0000;

/// Bytes of an area's flat part.
const FLAT_BYTES_MAX: u64 = 8 << 20;

/// First address of everything that is backed by pages.
const PAGED: u64 = 1 << 62;

/// Addresses that an area has there.
const AREA_BITS: u32 = 40;

/// Beginning of the part behind the flat one in an area: no page of a translation, of at most 1 GiB, has bytes of both.
const BEHIND_FLAT: u64 = 1 << 30;

/// Base of the address ranges that are reserved for data buffers.
const BUFFERS: u64 = 1 << 40;

/// Alignment of the buffers of each area, in bytes.
const BUFFERS_ALIGNMENT: u64 = 1 << 30;

/// Alignment of allocations, in bytes.
const PAGE_BYTES: u64 = 4096;

/// Bus addresses of interrupt messages (Intel SDM volume 3, section 11.11.1).
pub const MSI_BASE: u64 = 0xfee0_0000;

/// Memory of a host, with addresses beyond its bytes that are valid but hold nothing.
///
/// Runs without data reserve their buffers there, so that addresses are real and no bytes are moved.
#[derive(Clone, Debug)]
pub struct HostMemory {
    /// Flat part of the first area.
    bytes: Vec<u8>,
    /// Areas of the devices, of which the last one is being allocated in.
    areas: Vec<MemoryArea>,
    next_unbacked: u64,
    /// Data buffers of a run with data.
    buffers: Option<SparseBytes>,
}

/// Addresses that one device's driver allocates, and the bytes behind those that are backed by pages.
#[derive(Clone, Debug)]
struct MemoryArea {
    /// Ends of the flat part and of the part behind it, so far, counted from the first address of the area.
    flat_end: u64,
    end: u64,
    /// First address that is reserved for data buffers.
    buffers: u64,
    pages: PagedBytes,
}

impl MemoryArea {
    fn new(buffers: u64) -> MemoryArea {
        MemoryArea { flat_end: 0, end: BEHIND_FLAT, buffers, pages: PagedBytes::default() }
    }

    /// True if `bytes` bytes from `offset` on have been allocated.
    fn has(&self, offset: u64, bytes: u64) -> bool {
        let end = if offset < BEHIND_FLAT { self.flat_end } else { self.end };
        offset.checked_add(bytes).is_some_and(|until| until <= end)
    }
}

impl Default for HostMemory {
    fn default() -> HostMemory {
        HostMemory { bytes: Vec::new(), areas: vec![MemoryArea::new(BUFFERS)], next_unbacked: BUFFERS, buffers: None }
    }
}

impl HostMemory {
    /// Begins an area for one more device.
    pub(crate) fn begin_area(&mut self) {
        self.next_unbacked = self.next_unbacked.next_multiple_of(BUFFERS_ALIGNMENT);
        self.areas.push(MemoryArea::new(self.next_unbacked));
    }

    /// Allocates zeroed memory of `bytes`, page-aligned, and returns its bus address.
    pub fn allocate(&mut self, bytes: u64) -> u64 {
        let number = self.areas.len() as u64 - 1;
        let area = &mut self.areas[number as usize];
        let first_address = PAGED + (number << AREA_BITS);
        let start = area.flat_end.next_multiple_of(PAGE_BYTES);
        if start + bytes > FLAT_BYTES_MAX {
            let start = area.end;
            area.end += bytes.next_multiple_of(PAGE_BYTES);
            return first_address + start;
        }
        area.flat_end = start + bytes;
        if number > 0 {
            return first_address + start;
        }
        self.bytes.resize(area.flat_end as usize, 0);
        BASE + start
    }

    /// Lets reserved ranges hold bytes from now on.
    pub fn keep_buffers(&mut self) {
        self.buffers = Some(SparseBytes::default());
    }

    /// Frees the ranges that the last device has reserved, and forgets what they hold, as nobody uses them any more.
    pub fn release_reserved(&mut self) {
        self.next_unbacked = self.areas.last().map_or(BUFFERS, |area| area.buffers);
        if let Some(buffers) = &mut self.buffers {
            *buffers = SparseBytes::default();
        }
    }

    /// Reserves an address range that holds nothing unless [buffers are kept](Self::keep_buffers), page-aligned.
    pub fn reserve(&mut self, bytes: u64) -> u64 {
        let start = self.next_unbacked;
        self.next_unbacked += bytes.next_multiple_of(PAGE_BYTES);
        start
    }

    /// Fills `into` from `address`; memory that holds nothing reads as zeros.
    #[inline]
    pub fn read(&self, address: u64, into: &mut [u8]) {
        match self.slice(address, into.len()) {
            Some(bytes) => copy(into, bytes),
            None => self.read_elsewhere(address, into),
        }
    }

    #[inline(never)]
    fn read_elsewhere(&self, address: u64, into: &mut [u8]) {
        if let Some((area, offset)) = area_of(address) {
            match self.areas.get(area).filter(|area| area.has(offset, into.len() as u64)) {
                Some(area) => area.pages.read(offset, into),
                None => into.fill(0),
            }
        } else if let Some(buffers) = self.buffers.as_ref().filter(|_| address >= BUFFERS) {
            buffers.read(address, into);
        } else {
            into.fill(0);
        }
    }

    /// Writes `from` to `address`; memory that holds nothing forgets it.
    #[inline]
    pub fn write(&mut self, address: u64, from: &[u8]) {
        match self.slice_mut(address, from.len()) {
            Some(bytes) => copy(bytes, from),
            None => self.write_elsewhere(address, from),
        }
    }

    /// Writes what `entry` puts together to `address`, word by word: copied from elsewhere just after it was put together
    /// there, it would make the processor wait for all of its parts.
    #[inline(always)]
    pub fn put<const BYTES: usize>(&mut self, address: u64, entry: impl Fn() -> [u8; BYTES]) {
        match self.slice_mut(address, BYTES).and_then(|bytes| bytes.first_chunk_mut()) {
            Some(bytes) => *bytes = entry(),
            None => self.write_elsewhere(address, &entry()),
        }
    }

    #[inline(never)]
    fn write_elsewhere(&mut self, address: u64, from: &[u8]) {
        if let Some((area, offset)) = area_of(address) {
            if let Some(area) = self.areas.get_mut(area).filter(|area| area.has(offset, from.len() as u64)) {
                area.pages.write(offset, from);
            }
        } else if let Some(buffers) = self.buffers.as_mut().filter(|_| address >= BUFFERS) {
            buffers.write(address, from);
        }
    }

    /// Bytes at `address`, if they lie in the flat part of the first area.
    #[inline]
    pub fn slice(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        self.bytes.get(start..start.checked_add(bytes)?)
    }

    /// Bytes at `address` to be written to, if they lie in the flat part of the first area.
    #[inline]
    pub fn slice_mut(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        self.bytes.get_mut(start..start.checked_add(bytes)?)
    }
}

/// Number of the area that an address lies in, and its place there; none for one that no pages are behind.
fn area_of(address: u64) -> Option<(usize, u64)> {
    let offset = address.checked_sub(PAGED)?;
    Some(((offset >> AREA_BITS) as usize, offset & ((1 << AREA_BITS) - 1)))
}

/// Copies bytes, as many as there is room for; commands, completion entries and doorbells, which are nearly all that is
/// ever copied, without a call.
#[inline]
pub fn copy(into: &mut [u8], from: &[u8]) {
    fn copied<const BYTES: usize>(into: &mut [u8], from: &[u8]) -> bool {
        match (<&mut [u8; BYTES]>::try_from(into), <&[u8; BYTES]>::try_from(from)) {
            (Ok(into), Ok(from)) => {
                *into = *from;
                true
            }
            _ => false,
        }
    }
    if !(copied::<64>(into, from) || copied::<16>(into, from) || copied::<4>(into, from)) {
        into.copy_from_slice(from);
    }
}
