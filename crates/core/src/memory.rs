//! Host memory as far as its bytes matter: rings, doorbell pages and, in runs with data, buffers.

use crate::data::sparse::SparseBytes;

/// Base of the region that is backed by bytes.
const BASE: u64 = 0x1000_0000;

/// Base of the address ranges that are reserved for data buffers.
const BUFFERS: u64 = 1 << 40;

/// Bus addresses of interrupt messages (Intel SDM volume 3, section 11.11.1).
pub const MSI_BASE: u64 = 0xfee0_0000;
pub const MSI_END: u64 = 0xfef0_0000;

/// A flat region of host memory, with addresses beyond it that are valid but hold nothing.
///
/// Runs without data reserve their buffers there, so that addresses are real and no bytes are moved.
#[derive(Clone, Debug)]
pub struct HostMemory {
    bytes: Vec<u8>,
    next_unbacked: u64,
    /// The data buffers of a run with data.
    buffers: Option<SparseBytes>,
}

impl Default for HostMemory {
    fn default() -> HostMemory {
        HostMemory { bytes: Vec::new(), next_unbacked: BUFFERS, buffers: None }
    }
}

impl HostMemory {
    /// Zeroed memory of `bytes`, page-aligned; its bus address.
    pub fn allocate(&mut self, bytes: usize) -> u64 {
        let start = self.bytes.len().next_multiple_of(4096);
        self.bytes.resize(start + bytes, 0);
        BASE + start as u64
    }

    /// Let reserved ranges hold bytes from now on.
    pub fn keep_buffers(&mut self) {
        self.buffers = Some(SparseBytes::default());
    }

    /// An address range that holds nothing unless [buffers are kept](Self::keep_buffers), page-aligned.
    pub fn reserve(&mut self, bytes: u64) -> u64 {
        let start = self.next_unbacked;
        self.next_unbacked += bytes.next_multiple_of(4096);
        start
    }

    /// Fill `into` from `address`; memory that holds nothing reads as zeros.
    pub fn read(&self, address: u64, into: &mut [u8]) {
        match self.range(address, into.len()) {
            Some(range) => into.copy_from_slice(&self.bytes[range]),
            None => match &self.buffers {
                Some(buffers) if address >= BUFFERS => buffers.read(address, into),
                _ => into.fill(0),
            },
        }
    }

    /// Write `from` to `address`; memory that holds nothing forgets it.
    pub fn write(&mut self, address: u64, from: &[u8]) {
        if let Some(range) = self.range(address, from.len()) {
            self.bytes[range].copy_from_slice(from);
        } else if let Some(buffers) = self.buffers.as_mut().filter(|_| address >= BUFFERS) {
            buffers.write(address, from);
        }
    }

    /// The bytes at `address`, if they are backed.
    pub fn slice(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        self.range(address, bytes).map(|range| &self.bytes[range])
    }

    /// The same to write to.
    pub fn slice_mut(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        self.range(address, bytes).map(|range| &mut self.bytes[range])
    }

    fn range(&self, address: u64, bytes: usize) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        let end = start.checked_add(bytes)?;
        (end <= self.bytes.len()).then_some(start..end)
    }
}
