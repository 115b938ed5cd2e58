//! Damage that a read finds in the memory, decoded by the error-correcting code of [`crate::media::ecc`] over real
//! bytes.

use std::sync::OnceLock;

use crate::config::{Fault, FaultAction};
use crate::media::ecc::{CHIP_BYTES, DecodeVerdict, SECTOR_BYTES, STORED_BITS, SectorCodec};
use crate::memory::HostMemory;
use crate::memory::sparse::SparseBytes;
use crate::number::{length, wide_index};
use crate::protocol::ports::Settled;
use crate::random::{Random, mix};

const SECTOR: u64 = length(SECTOR_BYTES);
/// Bytes of each sector that a failed chip returns.
const OF_A_FAILED_CHIP: [u8; CHIP_BYTES] = [0x5a; CHIP_BYTES];

/// Damage that a fault does to every sector that a request reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum SectorFaultDamage {
    /// Number of wrong bits, at positions that follow from the seed and the sector.
    Bits { bits: u16, seed: u64 },
    /// Number of a chip that is known to have failed.
    Chip(usize),
}

impl SectorFaultDamage {
    /// Returns the damage that a fault does to the request of this number.
    pub(super) fn of(fault: &Fault, request: u64) -> SectorFaultDamage {
        match fault.action {
            FaultAction::FailChip => SectorFaultDamage::Chip(fault.chip.into()),
            _ => SectorFaultDamage::Bits { bits: fault.bits, seed: request },
        }
    }

    /// True if the damage is more than the error-correcting code corrects. That does not depend on the bytes, as the
    /// code is linear, so that a run without data knows it too.
    pub(super) fn is_fatal(self) -> bool {
        self.read(0, &mut [0; SECTOR_BYTES]) == DecodeVerdict::Uncorrectable
    }

    /// Reads a damaged sector: replaces its bytes by those that the error-correcting code returns. Returns the verdict
    /// of the decoder.
    fn read(self, sector: u64, bytes: &mut [u8; SECTOR_BYTES]) -> DecodeVerdict {
        static CODEC: OnceLock<SectorCodec> = OnceLock::new();
        let codec = CODEC.get_or_init(SectorCodec::new);
        let mut chips = codec.encode(bytes, sector);
        let failed = match self {
            SectorFaultDamage::Chip(chip) => {
                chips[chip] = OF_A_FAILED_CHIP;
                Some(chip)
            }
            SectorFaultDamage::Bits { bits, seed } => {
                let flat = chips.as_flattened_mut();
                distinct_bit_positions(bits, mix(seed) ^ sector).for_each(|place| flat[place / 8] ^= 1 << (place % 8));
                None
            }
        };
        let verdict = codec.decode(&mut chips, sector, failed);
        *bytes = *SectorCodec::data(&chips);
        verdict
    }

    /// Replaces the bytes that packets have brought to host memory by those that a damaged read returns.
    pub(super) fn write_damaged_bytes(self, settled: &Settled, contents: &SparseBytes, memory: &mut HostMemory) {
        let Settled { packet, first, count, .. } = settled;
        let (start, end) = (first * packet.chunk_bytes, packet.bytes.min((first + count) * packet.chunk_bytes));
        let (from, to) = (packet.device_offset + u64::from(start), packet.device_offset + u64::from(end));
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            let mut bytes = [0; SECTOR_BYTES];
            contents.read(sector * SECTOR, &mut bytes);
            self.read(sector, &mut bytes);
            let (low, high) = (from.max(sector * SECTOR), to.min((sector + 1) * SECTOR));
            let part = &bytes[(low % SECTOR) as usize..][..(high - low) as usize];
            memory.write(packet.address + (low - packet.device_offset), part);
        }
    }
}

/// Returns the positions of `bits` different bits of a stored sector, which follow from `seed`.
fn distinct_bit_positions(bits: u16, seed: u64) -> impl Iterator<Item = usize> {
    let mut random = Random::stream(seed, "flipped bits");
    let mut all: Vec<u16> = (0..STORED_BITS as u16).collect();
    (0..usize::from(bits)).map(move |place| {
        let other = place + wide_index(random.bits() % length(STORED_BITS - place));
        all.swap(place, other);
        all[place].into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::ecc::CORRECTED_BITS;

    #[test]
    fn up_to_39_bits_or_one_chip_are_corrected_and_more_detected() {
        let sector: [u8; SECTOR_BYTES] = std::array::from_fn(|place| (place * 7) as u8);
        let read = |damage: SectorFaultDamage| {
            let mut bytes = sector;
            let verdict = damage.read(77, &mut bytes);
            (verdict, bytes == sector)
        };
        for bits in [1, 2, CORRECTED_BITS as u16] {
            let damage = SectorFaultDamage::Bits { bits, seed: 3 };
            assert_eq!(read(damage), (DecodeVerdict::Corrected { bits: bits.into() }, true));
            assert!(!damage.is_fatal());
        }
        for bits in [CORRECTED_BITS as u16 + 1, 41, 200, STORED_BITS as u16] {
            assert!(SectorFaultDamage::Bits { bits, seed: 3 }.is_fatal(), "{bits}");
        }
        assert!((0..9).all(|chip| read(SectorFaultDamage::Chip(chip)) == (DecodeVerdict::Restored { chip }, true)));
    }

    #[test]
    fn number_of_flipped_bits_is_as_requested() {
        let different: std::collections::BTreeSet<usize> = distinct_bit_positions(4608, 1).collect();
        assert_eq!((different.len(), different.last()), (4608, Some(&4607)));
    }
}
