//! Codec of a sector with error correction: nine chips of 64 bytes hold 512 user bytes and the check bits.

use super::bch::{self, Bch, ERRORS_MAX, WrongBitPositions};
use super::field::Field;
use super::remainder::{BITS, GeneratorDivider, GeneratorRemainder, WORDS, sum};
use crate::number::index;

/// Number of user bytes in a sector (PSS, section 2).
pub const SECTOR_BYTES: usize = 512;
/// Number of chips that hold the user bytes of a sector: 512 B / 64 B.
pub const DATA_CHIPS: usize = 8;
/// Number of chips that hold a sector, including the spare chip, which comes last.
pub const CHIPS: usize = DATA_CHIPS + 1;
/// Number of a sector's bytes that each chip holds: the size of its write buffer (PSS, section 2).
pub const CHIP_BYTES: usize = 64;
/// Number of bits of a sector in all nine chips, check bits included.
pub const STORED_BITS: usize = CHIPS * CHIP_BYTES * 8;
/// Number of wrong bits in a sector that are always corrected, wherever they are in the nine chips.
pub const CORRECTED_BITS: usize = ERRORS_MAX;

/// Number of bits in the sector address, which the code covers although no chip stores it.
const ADDRESS_BITS: usize = 64;

/// Primitive polynomial x^13 + x^4 + x^3 + x + 1 of the Galois field. A field of 2^13 elements is the smallest whose
/// codes are as long as a sector.
const FIELD: u16 = 0x201b;
/// Factor (x + 1)(x^4 + x + 1) = x^5 + x^4 + x^2 + 1 of the generator polynomial, which extends the 39 * 13 = 507 check
/// bits of the BCH code to 512. The factor x + 1 gives all codewords an even weight, so that their distance grows from
/// 79 to 80.
const CHECK: u16 = 0b11_0101;
/// Period of the powers of x modulo [`CHECK`]: x^4 + x + 1 is primitive, and 15 is also a period of x + 1.
const CHECK_PERIOD: usize = 15;

/// Content of the nine chips of a sector: eight with its user bytes in order, then the spare chip with the check bits.
pub type Chips = [[u8; CHIP_BYTES]; CHIPS];

/// Verdict of the decoder on a sector that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeVerdict {
    /// The chips hold a codeword: no error was found, and nothing was changed.
    Clean,
    /// Wrong bits were corrected, and the chips now hold a codeword.
    Corrected {
        /// Number of bits that the decoder has flipped in the sector.
        bits: usize,
    },
    /// A chip that is known to have failed was computed from the other chips. No redundancy is left to check those.
    Restored {
        /// Number of the chip, from 0, whose content the decoder has restored.
        chip: usize,
    },
    /// No codeword is near enough to what was read. The chips are left as they were read.
    Uncorrectable,
}

/// Values of a polynomial at the odd powers of `a` that are roots of the code; the last element is its remainder modulo
/// [`CHECK`].
type Values = [u16; CORRECTED_BITS + 1];

/// Encoder and decoder of sectors. Its tables take 1.3 MB and some milliseconds to set up: create one codec and keep
/// it.
#[derive(Clone, Debug)]
pub struct SectorCodec {
    bch: Bch,
    divider: GeneratorDivider,
    /// Values of x^0 to x^511 at the roots of the code, by exponent.
    values: Vec<Values>,
}

impl Default for SectorCodec {
    fn default() -> SectorCodec {
        SectorCodec::new()
    }
}

impl SectorCodec {
    /// Creates the codec of sectors and computes its tables.
    pub fn new() -> SectorCodec {
        let bch = Bch::new(Field::new(FIELD), CORRECTED_BITS, STORED_BITS);
        let check: Vec<bool> = (0..=CHECK.ilog2()).map(|degree| CHECK >> degree & 1 == 1).collect();
        let divider = GeneratorDivider::new(&bch::times(&bch.generator(), &check));
        let values = (0..BITS).map(|degree| values_of_power(&bch, degree)).collect();
        SectorCodec { bch, divider, values }
    }

    /// Encodes the 512 bytes of a sector into the content of nine chips. `address` is any number that the reader will
    /// know too, such as the sector's address on the card: a sector read back from another address fails the check.
    pub fn encode(&self, sector: &[u8; SECTOR_BYTES], address: u64) -> Chips {
        let mut chips = [[0; CHIP_BYTES]; CHIPS];
        chips.as_flattened_mut()[..SECTOR_BYTES].copy_from_slice(sector);
        let check_bits = self.syndrome(&chips, address);
        chips[DATA_CHIPS] = bytes(&check_bits);
        chips
    }

    /// Returns the user bytes of a sector as its chips hold them, without any check or correction.
    pub fn data(chips: &Chips) -> &[u8; SECTOR_BYTES] {
        chips.as_flattened().first_chunk().expect("the chips hold a sector")
    }

    /// True if the chips hold a codeword for this address: the check of the pass-through mode, which corrects nothing.
    /// Up to 79 wrong bits never pass, nor do wrong bits of one chip. Of other words, one in 2^512 passes.
    pub fn check(&self, chips: &Chips, address: u64) -> bool {
        self.syndrome(chips, address) == [0; WORDS]
    }

    /// Corrects the nine chips of a sector in place: up to [`CORRECTED_BITS`] wrong bits, or the whole of chip `failed`
    /// if all others are right. Another source must tell that a chip has failed (it does not answer, or was replaced).
    ///
    /// # Panics
    /// If there is no chip number `failed`.
    pub fn decode(&self, chips: &mut Chips, address: u64, failed: Option<usize>) -> DecodeVerdict {
        if let Some(chip) = failed {
            return self.restore_chip(chips, address, chip);
        }
        let syndrome = self.syndrome(chips, address);
        if syndrome == [0; WORDS] {
            return DecodeVerdict::Clean;
        }
        let Some(wrong) = self.locate(&syndrome) else { return DecodeVerdict::Uncorrectable };
        for &position in &wrong {
            flip(chips, usize::from(position));
        }
        DecodeVerdict::Corrected { bits: wrong.len() }
    }

    /// Computes the content of a failed chip from the other chips, which must be right. The chip's 512 coefficients U
    /// belong at x^s of the codeword. With zeros there, the remainder is that of -U x^s. Its quotient by x^s is U
    /// itself, which the division leaves whole because its degree is below 512.
    fn restore_chip(&self, chips: &mut Chips, address: u64, chip: usize) -> DecodeVerdict {
        chips[chip] = [0; CHIP_BYTES];
        let mut lost = self.syndrome(chips, address);
        for _ in 0..(CHIPS - 1 - chip) * WORDS {
            lost = self.divider.back(&lost);
        }
        chips[chip] = bytes(&lost);
        DecodeVerdict::Restored { chip }
    }

    /// Returns the remainder of the stored word, address included, by the generator polynomial: zero for a codeword.
    fn syndrome(&self, chips: &Chips, address: u64) -> GeneratorRemainder {
        let (data, spare) = chips.split_at(DATA_CHIPS);
        let start = self.divider.enter(&[0; WORDS], address);
        let check_bits = big_endian_words(data).fold(start, |remainder, word| self.divider.enter(&remainder, word));
        let mut stored = big_endian_words(spare);
        let stored: GeneratorRemainder = std::array::from_fn(|_| stored.next().unwrap_or(0));
        sum(&check_bits, &std::array::from_fn(|place| stored[WORDS - 1 - place]))
    }

    /// Returns the positions of the wrong bits that explain a syndrome; `None` if there are more than the code
    /// corrects.
    fn locate(&self, syndrome: &GeneratorRemainder) -> Option<WrongBitPositions> {
        let [odd @ .., check] = self.evaluate_at_odd_powers(syndrome);
        let positions = self.bch.locate(&odd)?;
        let checks = positions.iter().map(|&position| self.values[usize::from(position) % CHECK_PERIOD]);
        (checks.fold(0, |sum, values| sum ^ values[CORRECTED_BITS]) == check).then_some(positions)
    }

    fn evaluate_at_odd_powers(&self, polynomial: &GeneratorRemainder) -> Values {
        let mut total = [0; CORRECTED_BITS + 1];
        for (place, &word) in polynomial.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                let values = &self.values[64 * place + index(left.trailing_zeros())];
                total = std::array::from_fn(|k| total[k] ^ values[k]);
                left &= left - 1;
            }
        }
        total
    }
}

/// Flips the bit that is the coefficient of x^position. The first bit of the first chip has the highest position.
pub(super) fn flip(chips: &mut Chips, position: usize) {
    let place = STORED_BITS - 1 - position;
    chips.as_flattened_mut()[place / 8] ^= 0x80 >> (place % 8);
}

fn values_of_power(bch: &Bch, degree: usize) -> Values {
    let mut values = [0; CORRECTED_BITS + 1];
    for (value, power) in values.iter_mut().zip(bch.syndrome_contribution(degree)) {
        *value = power;
    }
    values[CORRECTED_BITS] = (0..degree % CHECK_PERIOD).fold(1, |power, _| {
        let next = power << 1;
        if next >> CHECK.ilog2() != 0 { next ^ CHECK } else { next }
    });
    values
}

/// Returns the bytes of chips as 64-bit words in big-endian order: the first byte holds the highest coefficients.
fn big_endian_words(chips: &[[u8; CHIP_BYTES]]) -> impl Iterator<Item = u64> {
    chips.as_flattened().as_chunks::<8>().0.iter().map(|bytes| u64::from_be_bytes(*bytes))
}

fn bytes(polynomial: &GeneratorRemainder) -> [u8; CHIP_BYTES] {
    let mut bytes = [0; CHIP_BYTES];
    for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(polynomial.iter().rev()) {
        *chunk = word.to_be_bytes();
    }
    bytes
}

const _: () = assert!(STORED_BITS + ADDRESS_BITS < 1 << 13, "a codeword is no longer than the field allows");
