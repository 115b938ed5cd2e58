//! Layout of the PSS area in host memory that driver and card share (descriptors and completion records), and address
//! of the card's register; definitions only.
//!
//! PSS, section 2: "a shared area in the host memory to exchange commands and information with the card's processors
//! [...] organized as a variable-length set of descriptors". Sizes and offsets of fields are assumed.

use crate::number::{length, low_u16, low_u32};

/// Size in bytes of a sector, the unit of device addresses and lengths (PSS, section 2).
pub const SECTOR_BYTES: u32 = 512;
/// Size in bytes of a page, the unit of the card's cache. The card is made for small requests, for instance of 4 kB
/// (PSS, section 1).
pub const PAGE_BYTES: u32 = 4096;
/// Number of metadata bytes of each sector, which its spare chip holds (PSS, section 2).
pub const METADATA_BYTES: usize = 64;
/// Size in bytes of a descriptor in the shared area of host memory.
pub const DESCRIPTOR_BYTES: usize = 32;
/// Size in bytes of a completion record in the shared area of host memory.
pub const RECORD_BYTES: usize = 8;
/// Address of the card's doorbell register. It holds the number of descriptors that the host has added since the start,
/// modulo 2^32.
pub const TAIL_REGISTER: u64 = 0xe000_0000;

/// Addresses in host memory of the area that driver and card share: a ring of descriptors and a ring of completion
/// records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRingArea {
    /// Bus address of the first descriptor of the ring.
    pub descriptors: u64,
    /// Bus address of the ring of completion records, which has as many entries as the ring of descriptors.
    pub records: u64,
    /// Number of entries of the descriptor ring and of the completion record ring, a power of two.
    pub entries: u32,
}

impl SharedRingArea {
    /// Returns the bus address of a descriptor by its number, counted from 0 for the first that the host ever added.
    /// Numbers wrap around the ring.
    pub fn descriptor(&self, number: u32) -> u64 {
        self.descriptors + u64::from(number % self.entries) * length(DESCRIPTOR_BYTES)
    }

    /// Returns the bus address of a completion record by its number, counted from 0 for the first that the card ever
    /// wrote. Numbers wrap around the ring.
    pub fn record(&self, number: u32) -> u64 {
        self.records + u64::from(number % self.entries) * length(RECORD_BYTES)
    }
}

/// Descriptor of a read or write command, which the driver places in the shared area for the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// True if the command writes, false if it reads.
    pub write: bool,
    /// Identifier of the command, chosen by the driver, which the completion record repeats.
    pub id: u16,
    /// Length of the command in sectors of 512 bytes.
    pub sectors: u32,
    /// First sector of the command on the device.
    pub sector: u64,
    /// Bus address of the command's data buffer.
    pub buffer: u64,
    /// Bus address of the buffer to which a passthrough read writes the metadata of its sectors.
    pub metadata: u64,
}

impl Descriptor {
    /// Returns the encoded bytes of the descriptor, as they stand in the shared area.
    pub fn encode(&self) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[0] = self.write.into();
        bytes[2..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.sectors.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sector.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.buffer.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.metadata.to_le_bytes());
        bytes
    }

    /// Decodes a descriptor from its bytes in the shared area. Every bit pattern is a valid encoding.
    pub fn decode(bytes: &[u8; DESCRIPTOR_BYTES]) -> Descriptor {
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut words = words.chain(std::iter::repeat(0));
        let mut next = || words.next().unwrap_or_default();
        let (head, sector, buffer, metadata) = (next(), next(), next(), next());
        Descriptor {
            write: head & 1 == 1,
            id: low_u16(head >> 16),
            sectors: low_u32(head >> 32),
            sector,
            buffer,
            metadata,
        }
    }
}

/// Status code of a completed command in its completion record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// Status code of a command that was executed.
    pub const SUCCESS: Status = Status(0);
    /// Status code of a command that was refused: its length is 0 or too large, or an address range does not exist.
    pub const REFUSED: Status = Status(1);
}

/// Completion record, which the card writes to the shared area when it has completed a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionRecord {
    /// Sequence number of the completion record, counted from 1, by which the host recognises a new one.
    pub sequence: u32,
    /// Identifier of the completed command, from its descriptor.
    pub id: u16,
    /// Status code of the completed command: executed or refused.
    pub status: Status,
}

impl CompletionRecord {
    /// Returns the encoded bytes of the completion record, as they stand in the shared area.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let word = u64::from(self.sequence) | u64::from(self.id) << 32 | u64::from(self.status.0) << 48;
        word.to_le_bytes()
    }

    /// Decodes a completion record from its bytes in the shared area.
    pub fn decode(bytes: [u8; RECORD_BYTES]) -> CompletionRecord {
        let word = u64::from_le_bytes(bytes);
        CompletionRecord { sequence: low_u32(word), id: low_u16(word >> 32), status: Status(low_u16(word >> 48)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pss_descriptors_and_records_read_back() {
        let descriptor =
            Descriptor { write: true, id: 0x1234, sectors: 8, sector: 1 << 40, buffer: 0x5000, metadata: 0x6000 };
        assert_eq!(Descriptor::decode(&descriptor.encode()), descriptor);
        let record = CompletionRecord { sequence: u32::MAX, id: 7, status: Status::REFUSED };
        assert_eq!(CompletionRecord::decode(record.encode()), record);
    }

    #[test]
    fn pss_rings_wrap_at_their_end() {
        let area = SharedRingArea { descriptors: 0x1000, records: 0x8000, entries: 16 };
        assert_eq!(area.descriptor(16), area.descriptor(0));
        assert_eq!(area.record(u32::MAX), area.record(15));
    }
}
