//! Damage done to sectors on purpose, and what becomes of it. The truth is kept aside: nothing is believed of a verdict.

use super::sector::{self, CHIP_BYTES, CHIPS, CORRECTED_BITS, Chips, SECTOR_BYTES, STORED_BITS, SectorCodec, Verdict};
use crate::random::Random;

/// Bits of a sector in one chip.
const CHIP_BITS: usize = CHIP_BYTES * 8;
/// Wrong bits of [`Fault::TooManyBits`], at most: three times what is corrected.
const WRONG_BITS_MAX: usize = 3 * CORRECTED_BITS;

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// As many wrong bits as are corrected, or fewer, anywhere.
    Bits,
    /// The same in one chip.
    BitsOfOneChip,
    /// A chip holds anything, and is known to have failed.
    FailedChip,
    /// One wrong bit more than is corrected, or up to three times as many.
    TooManyBits,
    /// A chip holds anything, and nobody knows.
    UnnoticedFailedChip,
    /// A sector of another address is read, with a few wrong bits or none.
    OtherAddress,
    /// A chip is known to have failed, and others hold wrong bits.
    FailedChipAndBits,
    /// A chip is known to have failed, and another one has too.
    SecondFailedChip,
}

/// What became of a damaged sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All chips are as they were written, and the verdict says so.
    Corrected,
    /// The verdict is [`Verdict::Uncorrectable`].
    Reported,
    /// The verdict is good and the sector is not: silent corruption.
    Miscorrected,
}

/// How many sectors had each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub corrected: u64,
    pub reported: u64,
    pub miscorrected: u64,
}

impl Fault {
    /// All of them, those that the code has the power to correct first.
    pub const ALL: [Fault; 8] = [
        Fault::Bits,
        Fault::BitsOfOneChip,
        Fault::FailedChip,
        Fault::TooManyBits,
        Fault::UnnoticedFailedChip,
        Fault::OtherAddress,
        Fault::FailedChipAndBits,
        Fault::SecondFailedChip,
    ];

    /// Whether the code corrects all damage of this kind.
    pub fn is_within_power(self) -> bool {
        matches!(self, Fault::Bits | Fault::BitsOfOneChip | Fault::FailedChip)
    }

    /// The damage in words.
    pub fn words(self) -> &'static str {
        match self {
            Fault::Bits => "1 to 39 wrong bits anywhere",
            Fault::BitsOfOneChip => "1 to 39 wrong bits in one chip",
            Fault::FailedChip => "a failed chip that is known",
            Fault::TooManyBits => "40 to 117 wrong bits anywhere",
            Fault::UnnoticedFailedChip => "a failed chip that is not known",
            Fault::OtherAddress => "a sector of another address",
            Fault::FailedChipAndBits => "a known failed chip, and wrong bits in others",
            Fault::SecondFailedChip => "a known failed chip, and another one",
        }
    }
}

impl Counts {
    /// Sectors of any outcome.
    pub fn total(&self) -> u64 {
        self.corrected + self.reported + self.miscorrected
    }

    /// Count one sector.
    pub fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Corrected => self.corrected += 1,
            Outcome::Reported => self.reported += 1,
            Outcome::Miscorrected => self.miscorrected += 1,
        }
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(counts: I) -> Counts {
        counts.fold(Counts::default(), |sum, next| Counts {
            corrected: sum.corrected + next.corrected,
            reported: sum.reported + next.reported,
            miscorrected: sum.miscorrected + next.miscorrected,
        })
    }
}

/// Damages `trials` sectors of random bytes, decodes them and compares them with the truth.
pub fn inject(codec: &SectorCodec, fault: Fault, trials: u64, seed: u64) -> Counts {
    let mut random = Random::stream(seed, fault.words());
    let mut counts = Counts::default();
    for _ in 0..trials {
        counts.add(trial(codec, fault, &mut random));
    }
    counts
}

/// Flips `bits` bits of a sector of random bytes, anywhere, and decodes it.
pub(super) fn trial_of_bits(codec: &SectorCodec, bits: usize, random: &mut Random) -> Outcome {
    let address = random.bits();
    let written = codec.encode(&bytes(random), address);
    let mut chips = written;
    flip_bits(&mut chips, 0..STORED_BITS, bits, random);
    let verdict = codec.decode(&mut chips, address, None);
    outcome(verdict, chips == written)
}

fn trial(codec: &SectorCodec, fault: Fault, random: &mut Random) -> Outcome {
    let few = from(random, 1, CORRECTED_BITS);
    let chip = below(random, CHIPS);
    match fault {
        Fault::Bits => return trial_of_bits(codec, few, random),
        Fault::TooManyBits => {
            let many = from(random, CORRECTED_BITS + 1, WRONG_BITS_MAX);
            return trial_of_bits(codec, many, random);
        }
        _ => {}
    }
    let address = random.bits();
    let written = codec.encode(&bytes(random), address);
    let (mut chips, mut reader_address, mut failed) = (written, address, None);
    match fault {
        Fault::Bits | Fault::TooManyBits => unreachable!("these trials have ended above"),
        Fault::BitsOfOneChip => flip_bits(&mut chips, positions_of(chip), few, random),
        Fault::UnnoticedFailedChip => break_chip(&mut chips, chip, random),
        Fault::OtherAddress => {
            reader_address ^= 1 << below(random, 64) | if few.is_multiple_of(2) { random.bits() } else { 0 };
            flip_bits(&mut chips, 0..STORED_BITS, few / 4, random);
        }
        Fault::FailedChip => failed = Some(chip),
        Fault::FailedChipAndBits => {
            failed = Some(chip);
            flip_bits(&mut chips, positions_of(another(chip, random)), few, random);
        }
        Fault::SecondFailedChip => {
            failed = Some(chip);
            break_chip(&mut chips, another(chip, random), random);
        }
    }
    if let Some(chip) = failed {
        break_chip(&mut chips, chip, random);
    }
    let verdict = codec.decode(&mut chips, reader_address, failed);
    outcome(verdict, chips == written && reader_address == address)
}

fn outcome(verdict: Verdict, is_true: bool) -> Outcome {
    match verdict {
        Verdict::Uncorrectable => Outcome::Reported,
        _ if is_true => Outcome::Corrected,
        _ => Outcome::Miscorrected,
    }
}

/// A chip that reads as noise, as all ones (a bus that nobody drives) or as all zeros.
fn break_chip(chips: &mut Chips, chip: usize, random: &mut Random) {
    match below(random, 4) {
        0 => chips[chip] = [0; CHIP_BYTES],
        1 => chips[chip] = [0xff; CHIP_BYTES],
        _ => chips[chip] = bytes(random),
    }
}

fn another(chip: usize, random: &mut Random) -> usize {
    (chip + from(random, 1, CHIPS - 1)) % CHIPS
}

/// Positions of a chip's bits: the first chip has the highest.
fn positions_of(chip: usize) -> std::ops::Range<usize> {
    let first = (CHIPS - 1 - chip) * CHIP_BITS;
    first..first + CHIP_BITS
}

/// Turns round `count` different bits at positions of a range.
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

/// Uniform from 0 to `limit` - 1; the bias of the product is below 2^-50 for all limits used here.
fn below(random: &mut Random, limit: usize) -> usize {
    ((u128::from(random.bits()) * limit as u128) >> 64) as usize
}

/// Uniform from `low` to `high`, both included.
fn from(random: &mut Random, low: usize, high: usize) -> usize {
    low + below(random, high - low + 1)
}

const _: () = assert!(SECTOR_BYTES.is_multiple_of(8) && CHIP_BYTES.is_multiple_of(8), "bytes come in words");
