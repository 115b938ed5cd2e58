//! Experiments with the sector code: damages sectors on purpose, decodes them, and compares the result with the
//! original. The original is kept aside, so that the comparison does not rely on the decoder's verdict.

use super::sector::{
    self, CHIP_BYTES, CHIPS, CORRECTED_BITS, Chips, DecodeVerdict, SECTOR_BYTES, STORED_BITS, SectorCodec,
};
use crate::random::Random;

/// Number of bits of a sector in each chip.
const CHIP_BITS: usize = CHIP_BYTES * 8;
/// Largest number of wrong bits that [`SectorDamage::TooManyBits`] injects: three times what the code corrects.
const WRONG_BITS_MAX: usize = 3 * CORRECTED_BITS;

/// Kind of damage that an experiment does to a sector before it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SectorDamage {
    /// Wrong bits anywhere in the sector: from 1 to as many as the code corrects.
    Bits,
    /// Wrong bits in one chip: from 1 to as many as the code corrects.
    BitsOfOneChip,
    /// One chip with arbitrary content, which the decoder is told has failed.
    FailedChip,
    /// Wrong bits anywhere in the sector: from one more than the code corrects to three times as many as it corrects.
    TooManyBits,
    /// One chip with arbitrary content, which the decoder is not told about.
    UnnoticedFailedChip,
    /// Sector that was encoded for another address, with up to nine wrong bits.
    OtherAddress,
    /// One chip that the decoder is told has failed, and wrong bits in another chip.
    FailedChipAndBits,
    /// Two chips with arbitrary content: the decoder is told that one has failed, but not about the other.
    SecondFailedChip,
}

/// Result of decoding a damaged sector, from a comparison with the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SectorDecodeOutcome {
    /// Sector correct: all chips are as they were written, and the decoder's verdict is good.
    Corrected,
    /// Sector reported as lost: the verdict is [`DecodeVerdict::Uncorrectable`].
    Reported,
    /// Silent corruption: the verdict is good, but the sector is wrong or belongs to another address.
    Miscorrected,
}

/// Number of damaged sectors with each outcome of decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOutcomeCounts {
    /// Number of damaged sectors that were decoded correctly.
    pub corrected: u64,
    /// Number of damaged sectors that were reported as uncorrectable.
    pub reported: u64,
    /// Number of damaged sectors that were wrong although the verdict was good (silent corruption).
    pub miscorrected: u64,
}

impl SectorDamage {
    /// All kinds of sector damage; the kinds that the code corrects come first.
    pub const ALL: [SectorDamage; 8] = [
        SectorDamage::Bits,
        SectorDamage::BitsOfOneChip,
        SectorDamage::FailedChip,
        SectorDamage::TooManyBits,
        SectorDamage::UnnoticedFailedChip,
        SectorDamage::OtherAddress,
        SectorDamage::FailedChipAndBits,
        SectorDamage::SecondFailedChip,
    ];

    /// True if the sector code corrects every sector with damage of this kind.
    pub fn is_within_power(self) -> bool {
        matches!(self, SectorDamage::Bits | SectorDamage::BitsOfOneChip | SectorDamage::FailedChip)
    }

    /// Returns the damage in words, for tables, such as "1 to 39 wrong bits anywhere".
    pub fn description(self) -> &'static str {
        match self {
            SectorDamage::Bits => "1 to 39 wrong bits anywhere",
            SectorDamage::BitsOfOneChip => "1 to 39 wrong bits in one chip",
            SectorDamage::FailedChip => "a failed chip that is known",
            SectorDamage::TooManyBits => "40 to 117 wrong bits anywhere",
            SectorDamage::UnnoticedFailedChip => "a failed chip that is not known",
            SectorDamage::OtherAddress => "a sector of another address",
            SectorDamage::FailedChipAndBits => "a known failed chip, and wrong bits in others",
            SectorDamage::SecondFailedChip => "a known failed chip, and another one",
        }
    }
}

impl DecodeOutcomeCounts {
    /// Returns the number of sectors, summed over all outcomes.
    pub fn total(&self) -> u64 {
        self.corrected + self.reported + self.miscorrected
    }

    /// Adds one sector with this outcome to the counts.
    pub fn add(&mut self, outcome: SectorDecodeOutcome) {
        match outcome {
            SectorDecodeOutcome::Corrected => self.corrected += 1,
            SectorDecodeOutcome::Reported => self.reported += 1,
            SectorDecodeOutcome::Miscorrected => self.miscorrected += 1,
        }
    }
}

impl std::iter::Sum for DecodeOutcomeCounts {
    fn sum<I: Iterator<Item = DecodeOutcomeCounts>>(counts: I) -> DecodeOutcomeCounts {
        counts.fold(DecodeOutcomeCounts::default(), |sum, next| DecodeOutcomeCounts {
            corrected: sum.corrected + next.corrected,
            reported: sum.reported + next.reported,
            miscorrected: sum.miscorrected + next.miscorrected,
        })
    }
}

/// Damages `trials` encoded sectors of random bytes, decodes them and compares them with the originals. Returns the
/// number of sectors with each outcome; `seed` determines bytes and damage.
pub fn inject(codec: &SectorCodec, fault: SectorDamage, trials: u64, seed: u64) -> DecodeOutcomeCounts {
    let mut random = Random::stream(seed, fault.description());
    let mut counts = DecodeOutcomeCounts::default();
    for _ in 0..trials {
        counts.add(run_damage_trial(codec, fault, &mut random));
    }
    counts
}

/// Flips `bits` random bits of an encoded sector of random bytes, decodes the sector, and returns the outcome.
pub(super) fn run_bit_flip_trial(codec: &SectorCodec, bits: usize, random: &mut Random) -> SectorDecodeOutcome {
    let address = random.bits();
    let written = codec.encode(&bytes(random), address);
    let mut chips = written;
    flip_bits(&mut chips, 0..STORED_BITS, bits, random);
    let verdict = codec.decode(&mut chips, address, None);
    outcome(verdict, chips == written)
}

fn run_damage_trial(codec: &SectorCodec, fault: SectorDamage, random: &mut Random) -> SectorDecodeOutcome {
    let few = from(random, 1, CORRECTED_BITS);
    let chip = below(random, CHIPS);
    match fault {
        SectorDamage::Bits => return run_bit_flip_trial(codec, few, random),
        SectorDamage::TooManyBits => {
            let many = from(random, CORRECTED_BITS + 1, WRONG_BITS_MAX);
            return run_bit_flip_trial(codec, many, random);
        }
        _ => {}
    }
    let address = random.bits();
    let written = codec.encode(&bytes(random), address);
    let (mut chips, mut reader_address, mut failed) = (written, address, None);
    match fault {
        SectorDamage::Bits | SectorDamage::TooManyBits => unreachable!("these trials have ended above"),
        SectorDamage::BitsOfOneChip => flip_bits(&mut chips, chip_bit_positions(chip), few, random),
        SectorDamage::UnnoticedFailedChip => overwrite_chip(&mut chips, chip, random),
        SectorDamage::OtherAddress => {
            reader_address ^= 1 << below(random, 64) | if few.is_multiple_of(2) { random.bits() } else { 0 };
            flip_bits(&mut chips, 0..STORED_BITS, few / 4, random);
        }
        SectorDamage::FailedChip => failed = Some(chip),
        SectorDamage::FailedChipAndBits => {
            failed = Some(chip);
            flip_bits(&mut chips, chip_bit_positions(other_chip(chip, random)), few, random);
        }
        SectorDamage::SecondFailedChip => {
            failed = Some(chip);
            overwrite_chip(&mut chips, other_chip(chip, random), random);
        }
    }
    if let Some(chip) = failed {
        overwrite_chip(&mut chips, chip, random);
    }
    let verdict = codec.decode(&mut chips, reader_address, failed);
    outcome(verdict, chips == written && reader_address == address)
}

fn outcome(verdict: DecodeVerdict, is_true: bool) -> SectorDecodeOutcome {
    match verdict {
        DecodeVerdict::Uncorrectable => SectorDecodeOutcome::Reported,
        _ if is_true => SectorDecodeOutcome::Corrected,
        _ => SectorDecodeOutcome::Miscorrected,
    }
}

/// Overwrites chip number `chip` with zeros, with ones (a bus that nothing drives) or, half of the time, with noise.
fn overwrite_chip(chips: &mut Chips, chip: usize, random: &mut Random) {
    match below(random, 4) {
        0 => chips[chip] = [0; CHIP_BYTES],
        1 => chips[chip] = [0xff; CHIP_BYTES],
        _ => chips[chip] = bytes(random),
    }
}

fn other_chip(chip: usize, random: &mut Random) -> usize {
    (chip + from(random, 1, CHIPS - 1)) % CHIPS
}

/// Returns the positions of a chip's bits in the codeword, as exponents of x: the first chip has the highest.
fn chip_bit_positions(chip: usize) -> std::ops::Range<usize> {
    let first = (CHIPS - 1 - chip) * CHIP_BITS;
    first..first + CHIP_BITS
}

/// Flips `count` different random bits of a sector, all at positions within `range`.
fn flip_bits(chips: &mut Chips, range: std::ops::Range<usize>, count: usize, random: &mut Random) {
    let mut taken = [0u64; STORED_BITS / 64];
    let mut left = count;
    while left > 0 {
        let position = range.start + below(random, range.len());
        let (word, bit) = (position / 64, 1 << (position % 64));
        if taken[word] & bit == 0 {
            taken[word] |= bit;
            sector::flip(chips, position);
            left -= 1;
        }
    }
}

fn bytes<const N: usize>(random: &mut Random) -> [u8; N] {
    let mut bytes = [0; N];
    for chunk in bytes.as_chunks_mut::<8>().0 {
        *chunk = random.bits().to_le_bytes();
    }
    bytes
}

/// Returns a uniform random number from 0 to `limit` - 1. Its bias is below 2^-50 for all limits used here.
fn below(random: &mut Random, limit: usize) -> usize {
    ((u128::from(random.bits()) * limit as u128) >> 64) as usize
}

/// Returns a uniform random number from `low` to `high`, both included.
fn from(random: &mut Random, low: usize, high: usize) -> usize {
    low + below(random, high - low + 1)
}

const _: () = assert!(SECTOR_BYTES.is_multiple_of(8) && CHIP_BYTES.is_multiple_of(8), "bytes come in words");
