//! Host memory, as far as its content matters to the simulation: queues, doorbell pages and, in runs with real bytes,
//! data buffers.
//!
//! Each device's driver allocates in an area of its own. An area begins with a flat part; allocations that find no room
//! there are backed by pages that the first write makes. The first area's flat part is one piece of memory, which is
//! quickest to reach, since most machines have but one device.

mod paged;
pub mod sparse;

use crate::number::{length, wide_index};
use paged::PagedBytes;
use sparse::SparseBytes;

/// First bus address of the flat part of the first device's area of host memory.
const BASE: u64 = 0x1000_0000;

/// Largest size in bytes of the flat part of a device's area of host memory.
const FLAT_BYTES_MAX: u64 = 8 << 20;

/// First bus address of the memory that is backed by pages.
const PAGED: u64 = 1 << 62;

/// Number of address bits of one area in the memory that is backed by pages.
const AREA_BITS: u32 = 40;

/// Offset in a device's area of host memory at which the part behind the flat one begins. No IOMMU page, of at most 1
/// GiB, has bytes of both parts.
const BEHIND_FLAT: u64 = 1 << 30;

/// First bus address of the ranges that are reserved for data buffers.
const BUFFERS: u64 = 1 << 40;

/// Alignment in bytes of the data buffers of each device's area.
const BUFFERS_ALIGNMENT: u64 = 1 << 30;

/// Alignment of allocations in host memory, in bytes.
const PAGE_BYTES: u64 = 4096;

/// First bus address of interrupt messages (Intel SDM volume 3, section 11.11.1).
pub const MSI_BASE: u64 = 0xfee0_0000;

/// Memory of a host: bytes that drivers have allocated, and reserved address ranges that may hold no bytes.
///
/// Runs without data reserve their buffers there, so that addresses are real and no bytes are moved.
#[derive(Clone, Debug)]
pub struct HostMemory {
    /// Bytes of the flat part of the first device's area of host memory.
    bytes: Vec<u8>,
    /// Areas of the devices; allocations go to the last one.
    areas: Vec<MemoryArea>,
    next_unbacked: u64,
    /// Contents of the data buffers; `None` in a run without real bytes.
    buffers: Option<SparseBytes>,
}

/// Addresses that one device's driver allocates in host memory, and the bytes of those that are backed by pages.
#[derive(Clone, Debug)]
struct MemoryArea {
    /// End of what is allocated so far in the flat part of the area; `end` is that of the part behind it. Both are
    /// offsets within the area.
    flat_end: u64,
    end: u64,
    /// First bus address that this area's device reserves for data buffers.
    buffers: u64,
    pages: PagedBytes,
}

impl MemoryArea {
    fn new(buffers: u64) -> MemoryArea {
        MemoryArea { flat_end: 0, end: BEHIND_FLAT, buffers, pages: PagedBytes::default() }
    }

    /// True if `bytes` bytes from `offset` on have been allocated in this area.
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
    /// Begins an area of host memory for one more device; allocations go to it from now on.
    pub(crate) fn begin_device_area(&mut self) {
        self.next_unbacked = self.next_unbacked.next_multiple_of(BUFFERS_ALIGNMENT);
        self.areas.push(MemoryArea::new(self.next_unbacked));
    }

    /// Allocates `bytes` bytes of zeroed host memory, page-aligned, and returns their bus address.
    pub fn allocate_zeroed(&mut self, bytes: u64) -> u64 {
        let number = length(self.areas.len()) - 1;
        let area = &mut self.areas[wide_index(number)];
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
        self.bytes.resize(wide_index(area.flat_end), 0);
        BASE + start
    }

    /// Makes reserved address ranges hold real bytes from now on.
    pub fn back_buffers_with_bytes(&mut self) {
        self.buffers = Some(SparseBytes::default());
    }

    /// Frees the address ranges that the last device has reserved, and drops the contents of all data buffers. Nobody
    /// may use them any more.
    pub fn release_device_buffers(&mut self) {
        self.next_unbacked = self.areas.last().map_or(BUFFERS, |area| area.buffers);
        if let Some(buffers) = &mut self.buffers {
            *buffers = SparseBytes::default();
        }
    }

    /// Reserves a page-aligned range of bus addresses, and returns its start. The range holds no bytes unless [buffers
    /// are kept](Self::back_buffers_with_bytes).
    pub fn reserve(&mut self, bytes: u64) -> u64 {
        let start = self.next_unbacked;
        self.next_unbacked += bytes.next_multiple_of(PAGE_BYTES);
        start
    }

    /// Fills `into` with the bytes from `address` on; addresses that hold no bytes read as zeros.
    #[inline]
    pub fn read(&self, address: u64, into: &mut [u8]) {
        match self.slice(address, into.len()) {
            Some(bytes) => copy(into, bytes),
            None => self.read_elsewhere(address, into),
        }
    }

    #[inline(never)]
    fn read_elsewhere(&self, address: u64, into: &mut [u8]) {
        if let Some((area, offset)) = area_and_offset(address) {
            match self.areas.get(area).filter(|area| area.has(offset, length(into.len()))) {
                Some(area) => area.pages.read(offset, into),
                None => into.fill(0),
            }
        } else if let Some(buffers) = self.buffers.as_ref().filter(|_| address >= BUFFERS) {
            buffers.read(address, into);
        } else {
            into.fill(0);
        }
    }

    /// Writes `from` to the memory at `address`; addresses that hold no bytes drop it.
    #[inline]
    pub fn write(&mut self, address: u64, from: &[u8]) {
        match self.slice_mut(address, from.len()) {
            Some(bytes) => copy(bytes, from),
            None => self.write_elsewhere(address, from),
        }
    }

    /// Writes the bytes that `entry` builds to `address`, and builds them there. Building them elsewhere and copying
    /// them would stall the processor until all parts are in its cache.
    #[inline(always)]
    pub fn put<const BYTES: usize>(&mut self, address: u64, entry: impl Fn() -> [u8; BYTES]) {
        match self.slice_mut(address, BYTES).and_then(|bytes| bytes.first_chunk_mut()) {
            Some(bytes) => *bytes = entry(),
            None => self.write_elsewhere(address, &entry()),
        }
    }

    #[inline(never)]
    fn write_elsewhere(&mut self, address: u64, from: &[u8]) {
        if let Some((area, offset)) = area_and_offset(address) {
            if let Some(area) = self.areas.get_mut(area).filter(|area| area.has(offset, length(from.len()))) {
                area.pages.write(offset, from);
            }
        } else if let Some(buffers) = self.buffers.as_mut().filter(|_| address >= BUFFERS) {
            buffers.write(address, from);
        }
    }

    /// Returns the bytes at `address`; `None` unless they lie in the flat part of the first area.
    #[inline]
    pub fn slice(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        self.bytes.get(start..start.checked_add(bytes)?)
    }

    /// Returns the bytes at `address` for writing; `None` unless they lie in the flat part of the first area.
    #[inline]
    pub fn slice_mut(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        self.bytes.get_mut(start..start.checked_add(bytes)?)
    }
}

/// Returns the number of the area that an address lies in, and the offset there; `None` for an address not backed by
/// pages.
fn area_and_offset(address: u64) -> Option<(usize, u64)> {
    let offset = address.checked_sub(PAGED)?;
    Some(((offset >> AREA_BITS) as usize, offset & ((1 << AREA_BITS) - 1)))
}

/// Copies `from` into `into`, which has the same length. Commands, completion entries and doorbells, which are nearly
/// all that is ever copied, are copied without a call.
#[inline]
pub fn copy(into: &mut [u8], from: &[u8]) {
    /// Copies exactly `BYTES` bytes as one array. Returns false, without a copy, if the slices have another length.
    fn copy_exact_array<const BYTES: usize>(into: &mut [u8], from: &[u8]) -> bool {
        match (<&mut [u8; BYTES]>::try_from(into), <&[u8; BYTES]>::try_from(from)) {
            (Ok(into), Ok(from)) => {
                *into = *from;
                true
            }
            _ => false,
        }
    }
    if !(copy_exact_array::<64>(into, from) || copy_exact_array::<16>(into, from) || copy_exact_array::<4>(into, from))
    {
        into.copy_from_slice(from);
    }
}
