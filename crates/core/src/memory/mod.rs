//! Host memory as far as its bytes matter: rings, doorbell pages and, in runs with data, buffers.

pub mod sparse;

use sparse::SparseBytes;

/// Base of the region that is backed by bytes.
const BASE: u64 = 0x1000_0000;

/// Bytes of that region. What finds no room in it is backed as far as it is written.
const FLAT_BYTES_MAX: u64 = 8 << 20;

/// Base of the region that is backed as far as it is written.
const SPARSE: u64 = 1 << 62;

/// Base of the address ranges that are reserved for data buffers.
const BUFFERS: u64 = 1 << 40;

/// What allocations are aligned to.
const PAGE_BYTES: u64 = 4096;

/// Bus addresses of interrupt messages (Intel SDM volume 3, section 11.11.1).
pub const MSI_BASE: u64 = 0xfee0_0000;

/// A flat region of host memory, with addresses beyond it that are valid but hold nothing.
///
/// Runs without data reserve their buffers there, so that addresses are real and no bytes are moved.
#[derive(Clone, Debug)]
pub struct HostMemory {
    bytes: Vec<u8>,
    /// Rings of many or long queues, of which a run uses few entries: in pieces of the size of four commands.
    sparse: SparseBytes<256>,
    next_sparse: u64,
    next_unbacked: u64,
    /// The data buffers of a run with data.
    buffers: Option<SparseBytes>,
}

impl Default for HostMemory {
    fn default() -> HostMemory {
        HostMemory {
            bytes: Vec::new(),
            sparse: SparseBytes::default(),
            next_sparse: SPARSE,
            next_unbacked: BUFFERS,
            buffers: None,
        }
    }
}

impl HostMemory {
    /// Zeroed memory of `bytes`, page-aligned; its bus address.
    pub fn allocate(&mut self, bytes: u64) -> u64 {
        let start = (self.bytes.len() as u64).next_multiple_of(PAGE_BYTES);
        if start + bytes > FLAT_BYTES_MAX {
            let start = self.next_sparse;
            self.next_sparse += bytes.next_multiple_of(PAGE_BYTES);
            return start;
        }
        self.bytes.resize((start + bytes) as usize, 0);
        BASE + start
    }

    /// Let reserved ranges hold bytes from now on.
    pub fn keep_buffers(&mut self) {
        self.buffers = Some(SparseBytes::default());
    }

    /// Nobody uses the ranges any more that were reserved: they are free again, and hold nothing.
    pub fn release_reserved(&mut self) {
        self.next_unbacked = BUFFERS;
        if let Some(buffers) = &mut self.buffers {
            *buffers = SparseBytes::default();
        }
    }

    /// An address range that holds nothing unless [buffers are kept](Self::keep_buffers), page-aligned.
    pub fn reserve(&mut self, bytes: u64) -> u64 {
        let start = self.next_unbacked;
        self.next_unbacked += bytes.next_multiple_of(PAGE_BYTES);
        start
    }

    /// Fill `into` from `address`; memory that holds nothing reads as zeros.
    #[inline]
    pub fn read(&self, address: u64, into: &mut [u8]) {
        match self.slice(address, into.len()) {
            Some(bytes) => copy(into, bytes),
            None => self.read_elsewhere(address, into),
        }
    }

    #[inline(never)]
    fn read_elsewhere(&self, address: u64, into: &mut [u8]) {
        if self.is_sparse(address, into.len()) {
            self.sparse.read(address, into);
        } else if let Some(buffers) = self.buffers.as_ref().filter(|_| address >= BUFFERS) {
            buffers.read(address, into);
        } else {
            into.fill(0);
        }
    }

    /// Write `from` to `address`; memory that holds nothing forgets it.
    #[inline]
    pub fn write(&mut self, address: u64, from: &[u8]) {
        match self.slice_mut(address, from.len()) {
            Some(bytes) => copy(bytes, from),
            None => self.write_elsewhere(address, from),
        }
    }

    /// The same with what `entry` puts together. It goes to its place word by word: copied from elsewhere just after it was
    /// put together there, it would make the processor wait for all of its parts.
    #[inline(always)]
    pub fn put<const BYTES: usize>(&mut self, address: u64, entry: impl Fn() -> [u8; BYTES]) {
        match self.slice_mut(address, BYTES).and_then(|bytes| bytes.first_chunk_mut()) {
            Some(bytes) => *bytes = entry(),
            None => self.write_elsewhere(address, &entry()),
        }
    }

    #[inline(never)]
    fn write_elsewhere(&mut self, address: u64, from: &[u8]) {
        if self.is_sparse(address, from.len()) {
            self.sparse.write(address, from);
        } else if let Some(buffers) = self.buffers.as_mut().filter(|_| address >= BUFFERS) {
            buffers.write(address, from);
        }
    }

    /// The bytes at `address`, if they lie in one piece.
    #[inline]
    pub fn slice(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        self.bytes.get(start..start.checked_add(bytes)?)
    }

    /// The same to write to.
    #[inline]
    pub fn slice_mut(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        self.bytes.get_mut(start..start.checked_add(bytes)?)
    }

    fn is_sparse(&self, address: u64, bytes: usize) -> bool {
        address >= SPARSE && address.checked_add(bytes as u64).is_some_and(|end| end <= self.next_sparse)
    }
}

/// Copy bytes, as many as there is room for; commands, completion entries and doorbells, which are nearly all that is
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
