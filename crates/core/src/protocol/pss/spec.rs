//! The shared area in host memory, and the card's register. No behaviour.
//!
//! PSS, section 2: "a shared area in the host memory to exchange commands and information with the card's processors
//! [...] organized as a variable-length set of descriptors". Sizes and places of fields are assumed.

/// Unit of addresses and lengths (PSS, section 2).
pub const SECTOR_BYTES: u32 = 512;
/// Unit of the caches: the card is made for small, for instance 4 kB, requests (PSS, section 1).
pub const PAGE_BYTES: u32 = 4096;
/// Bytes of metadata that come with each sector: those of its spare chip (PSS, section 2).
pub const METADATA_BYTES: usize = 64;
/// Bytes of a descriptor in the shared area.
pub const DESCRIPTOR_BYTES: usize = 32;
/// Bytes of a completion record in the shared area.
pub const RECORD_BYTES: usize = 8;
/// Address of the register that holds the number of descriptors which the host has added so far, modulo 2^32.
pub const TAIL_REGISTER: u64 = 0xe000_0000;

/// Addresses of descriptors and records in host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Address of the ring of descriptors.
    pub descriptors: u64,
    /// Address of the ring of completion records, behind the descriptors and with as many entries.
    pub records: u64,
    /// Entries of each ring, a power of two.
    pub entries: u32,
}

impl Area {
    /// Returns the address of descriptor number `number`, counted from the first ever.
    pub fn descriptor(&self, number: u32) -> u64 {
        self.descriptors + u64::from(number % self.entries) * DESCRIPTOR_BYTES as u64
    }

    /// Returns the address of completion record number `number`.
    pub fn record(&self, number: u32) -> u64 {
        self.records + u64::from(number % self.entries) * RECORD_BYTES as u64
    }
}

/// Command of the driver to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// True if the command writes, false if it reads.
    pub write: bool,
    /// Identifier that the driver gives the command.
    pub id: u16,
    /// Number of sectors of 512 bytes.
    pub sectors: u32,
    /// First sector on the device.
    pub sector: u64,
    /// Bus address of the data.
    pub buffer: u64,
    /// Bus address of the metadata that passthrough reads bring along.
    pub metadata: u64,
}

impl Descriptor {
    /// Returns the bytes of the descriptor in the shared area.
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

    /// Returns the descriptor that these bytes hold; every bit pattern decodes to a descriptor.
    pub fn decode(bytes: &[u8; DESCRIPTOR_BYTES]) -> Descriptor {
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut words = words.chain(std::iter::repeat(0));
        let mut next = || words.next().unwrap_or_default();
        let (head, sector, buffer, metadata) = (next(), next(), next(), next());
        Descriptor {
            write: head & 1 == 1,
            id: (head >> 16) as u16,
            sectors: (head >> 32) as u32,
            sector,
            buffer,
            metadata,
        }
    }
}

/// Status of a completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// The command is complete.
    pub const SUCCESS: Status = Status(0);
    /// The command asks for nothing, for too much, or for sectors that do not exist.
    pub const REFUSED: Status = Status(1);
}

/// Completion record of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionRecord {
    /// Number of the record, counted from 1, so that the host recognises a new one.
    pub sequence: u32,
    /// Identifier that the driver has given the command.
    pub id: u16,
    /// Status of the command.
    pub status: Status,
}

impl CompletionRecord {
    /// Returns the bytes of the record in the shared area.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let word = u64::from(self.sequence) | u64::from(self.id) << 32 | u64::from(self.status.0) << 48;
        word.to_le_bytes()
    }

    /// Returns the record that these bytes hold.
    pub fn decode(bytes: [u8; RECORD_BYTES]) -> CompletionRecord {
        let word = u64::from_le_bytes(bytes);
        CompletionRecord { sequence: word as u32, id: (word >> 32) as u16, status: Status((word >> 48) as u16) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_and_records_come_out_of_memory_as_they_went_in() {
        let descriptor =
            Descriptor { write: true, id: 0x1234, sectors: 8, sector: 1 << 40, buffer: 0x5000, metadata: 0x6000 };
        assert_eq!(Descriptor::decode(&descriptor.encode()), descriptor);
        let record = CompletionRecord { sequence: u32::MAX, id: 7, status: Status::REFUSED };
        assert_eq!(CompletionRecord::decode(record.encode()), record);
    }

    #[test]
    fn rings_wrap_after_their_last_entry() {
        let area = Area { descriptors: 0x1000, records: 0x8000, entries: 16 };
        assert_eq!(area.descriptor(16), area.descriptor(0));
        assert_eq!(area.record(u32::MAX), area.record(15));
    }
}
