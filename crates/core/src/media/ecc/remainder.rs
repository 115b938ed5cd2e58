//! Division of polynomials over GF(2) by the generator of the sector code, eight bytes per step, forwards and
//! backwards.

use crate::number::index;

/// Polynomial over GF(2) of degree below 512, as a remainder of a division by the generator. Word 0 holds the lowest
/// coefficients, in its lowest bit that of x^0.
pub(super) type GeneratorRemainder = [u64; WORDS];

/// Number of bits in a remainder: the degree of the generator polynomial.
pub(super) const BITS: usize = 512;
pub(super) const WORDS: usize = BITS / 64;

/// Divider by the generator polynomial: a shift register that moves a word at a time.
#[derive(Clone, Debug)]
pub(super) struct GeneratorDivider {
    /// Map from a word that is shifted out at the top, the coefficients of x^512 to x^575, to its remainder by the
    /// generator.
    up: RemainderTable,
    /// Map from a word that is shifted out at the bottom, the coefficients of x^-64 to x^-1, to its remainder by the
    /// generator.
    down: RemainderTable,
}

impl GeneratorDivider {
    /// Creates the divider by a generator polynomial, whose coefficients come lowest first.
    ///
    /// # Panics
    /// If the degree is not 512, or x divides the polynomial.
    pub(super) fn new(generator: &[bool]) -> GeneratorDivider {
        assert_eq!(generator.len(), BITS + 1, "the generator has degree {BITS}");
        assert!(generator[0], "x is invertible modulo the generator");
        // Modulo the generator, x^512 equals the generator without its leading term. 1 equals the generator without its
        // constant term, so dividing that by x gives x^-1.
        let (top, bottom) = (pack_coefficients(&generator[..BITS]), pack_coefficients(&generator[1..]));
        let mut up = vec![top];
        let mut down = vec![bottom];
        for _ in 1..64 {
            up.push(multiply_remainder_by_x(up[up.len() - 1], &top));
            down.push(divide_remainder_by_x(down[down.len() - 1], &bottom));
        }
        down.reverse();
        GeneratorDivider { up: RemainderTable::new(&up), down: RemainderTable::new(&down) }
    }

    /// Returns the remainder of `(remainder + word x^448) x^64` by the generator: the next 64 coefficients of a message
    /// enter, highest first. After all words of a message M the remainder is that of M x^512.
    #[inline]
    pub(super) fn enter(&self, remainder: &GeneratorRemainder, word: u64) -> GeneratorRemainder {
        let mut next = self.up.sum(remainder[WORDS - 1] ^ word);
        for place in 1..WORDS {
            next[place] ^= remainder[place - 1];
        }
        next
    }

    /// Returns the remainder of `remainder` / x^64 by the generator: the inverse of entering a word of zeros.
    pub(super) fn back(&self, remainder: &GeneratorRemainder) -> GeneratorRemainder {
        let mut next = self.down.sum(remainder[0]);
        for place in 1..WORDS {
            next[place - 1] ^= remainder[place];
        }
        next
    }
}

/// Linear map from 64 bits to a remainder, stored as a table of 256 sums for each byte of the 64 bits.
#[derive(Clone, Debug)]
struct RemainderTable(Vec<[GeneratorRemainder; 256]>);

impl RemainderTable {
    /// Creates the linear map that sends bit i of a word to the remainder `rows[i]`.
    fn new(rows: &[GeneratorRemainder]) -> RemainderTable {
        let of_byte = |rows: &[GeneratorRemainder]| {
            let mut sums = [[0; WORDS]; 256];
            for byte in 1..256usize {
                let lowest = index(byte.trailing_zeros());
                sums[byte] = sum(&sums[byte & (byte - 1)], &rows[lowest]);
            }
            sums
        };
        RemainderTable(rows.chunks(8).map(of_byte).collect())
    }

    #[inline]
    fn sum(&self, word: u64) -> GeneratorRemainder {
        let mut total = [0; WORDS];
        for (sums, byte) in self.0.iter().zip(word.to_le_bytes()) {
            total = sum(&total, &sums[usize::from(byte)]);
        }
        total
    }
}

#[inline]
pub(super) fn sum(left: &GeneratorRemainder, right: &GeneratorRemainder) -> GeneratorRemainder {
    std::array::from_fn(|place| left[place] ^ right[place])
}

fn pack_coefficients(coefficients: &[bool]) -> GeneratorRemainder {
    let mut packed = [0; WORDS];
    for (degree, _) in coefficients.iter().enumerate().filter(|(_, one)| **one) {
        packed[degree / 64] |= 1 << (degree % 64);
    }
    packed
}

fn multiply_remainder_by_x(polynomial: GeneratorRemainder, top: &GeneratorRemainder) -> GeneratorRemainder {
    let shifted = std::array::from_fn(|place| {
        let carried = if place > 0 { polynomial[place - 1] >> 63 } else { 0 };
        polynomial[place] << 1 | carried
    });
    if polynomial[WORDS - 1] >> 63 == 1 { sum(&shifted, top) } else { shifted }
}

fn divide_remainder_by_x(polynomial: GeneratorRemainder, bottom: &GeneratorRemainder) -> GeneratorRemainder {
    let shifted = std::array::from_fn(|place| {
        let carried = if place + 1 < WORDS { polynomial[place + 1] << 63 } else { 0 };
        polynomial[place] >> 1 | carried
    });
    if polynomial[0] & 1 == 1 { sum(&shifted, bottom) } else { shifted }
}
