//! Binary BCH codes: computes the positions of the wrong bits in a word from its syndromes.
//!
//! After Lin and Costello, "Error Control Coding", 2nd edition, chapter 6. A codeword is a polynomial over GF(2) that
//! has a, a^2, ..., a^2t as roots. The values of a received word at these points, the *syndromes*, depend on its errors
//! only. A word with up to t errors is decoded to the only codeword that near. For any other word the decoder reports
//! that there is none, or finds a wrong codeword within t bits of it.

use super::field::Field;
use crate::number::low_u16;

/// Largest number of wrong bits that a code of this module can correct in a word.
pub(super) const ERRORS_MAX: usize = 39;

/// Positions of wrong bits in a word: the exponent of x that belongs to each bit.
pub(super) type WrongBitPositions = Vec<u16>;

/// Polynomial over the Galois field: coefficients in the order of exponents, lowest first.
type FieldPolynomial = [u16; ERRORS_MAX + 1];

/// Number of bit positions that one step of the decoder's root search covers.
const BLOCK: usize = 512;
/// Number of 16-bit values that the root search packs into one 64-bit word.
const LANES: usize = 4;

/// Binary BCH code that corrects up to `errors` wrong bits in words of `length` bits, with its tables.
#[derive(Clone, Debug)]
pub(super) struct Bch {
    field: Field,
    errors: usize,
    length: usize,
    /// Values of x^j at a^0, a^-1, a^-2, ..., in a row for each exponent j from 1. Each value takes two bytes, the
    /// lower byte first.
    rows: Vec<Vec<u8>>,
    /// Inverse of j modulo the order of the field, for each exponent j from 1. The root search divides logarithms by j
    /// with it.
    inverses: Vec<usize>,
}

impl Bch {
    /// Creates a BCH code and computes its tables.
    ///
    /// # Panics
    /// If the order of the field is not prime (it is for 2^5, 2^7 and 2^13 elements), or the word is longer than the
    /// order.
    pub(super) fn new(field: Field, errors: usize, length: usize) -> Bch {
        assert!(errors <= ERRORS_MAX && length <= field.order(), "{errors} errors in {length} bits");
        let order = field.order();
        let values = order + length.next_multiple_of(BLOCK);
        let row = |j: usize| (0..values).flat_map(|i| field.power(order - j * i % order).to_le_bytes()).collect();
        let rows = (1..=errors).map(row).collect();
        let inverse = |j: usize| (1..order).find(|k| j * k % order == 1).expect("the order of the field is prime");
        let inverses = (1..=errors).map(inverse).collect();
        Bch { field, errors, length, rows, inverses }
    }

    /// Returns the generator polynomial of the code, of which all codewords are multiples; coefficients are in the
    /// order of exponents, lowest first.
    pub(super) fn generator(&self) -> Vec<bool> {
        let factors = (0..self.errors).map(|k| self.field.minimal_polynomial(2 * k + 1));
        factors.reduce(|product, factor| times(&product, &factor)).unwrap_or_else(|| vec![true])
    }

    /// Returns the values of x^degree at a, a^3, ..., a^(2t - 1): the contribution of this bit to the odd syndromes.
    pub(super) fn syndrome_contribution(&self, degree: usize) -> impl Iterator<Item = u16> {
        (0..self.errors).map(move |k| self.field.power((2 * k + 1) * degree))
    }

    /// Returns the positions of the wrong bits in a word whose values at a, a^3, ..., a^(2t - 1) are `odd`; `None` if
    /// no codeword lies within t bits of the word.
    pub(super) fn locate(&self, odd: &[u16]) -> Option<WrongBitPositions> {
        let (locator, errors) = self.locator(&self.syndromes(odd))?;
        self.locator_roots(&locator, errors)
    }

    /// Returns all syndromes of a word, the value at a^j at index j, from the syndromes of odd exponents. Even ones are
    /// squares, because squaring commutes with a sum.
    fn syndromes(&self, odd: &[u16]) -> [u16; 2 * ERRORS_MAX + 1] {
        let mut syndromes = [0; 2 * ERRORS_MAX + 1];
        for j in 1..=2 * self.errors {
            let root = syndromes[j / 2];
            syndromes[j] = if j % 2 == 1 { odd[j / 2] } else { self.field.multiply(root, root) };
        }
        syndromes
    }

    /// Returns the error locator and its degree: a polynomial whose roots are a^-i for each position i in error. `None`
    /// if the syndromes belong to more errors than the code corrects.
    ///
    /// Berlekamp's algorithm in the form of Massey (IEEE Trans. Information Theory IT-15, 1969). For a binary code
    /// every second discrepancy is zero, and its step is left out.
    fn locator(&self, syndromes: &[u16; 2 * ERRORS_MAX + 1]) -> Option<(FieldPolynomial, usize)> {
        let (mut locator, mut previous): (FieldPolynomial, FieldPolynomial) = ([0; _], [0; _]);
        (locator[0], previous[0]) = (1, 1);
        let (mut degree, mut gap, mut previous_discrepancy) = (0, 1, 1);
        for step in (1..2 * self.errors).step_by(2) {
            let discrepancy = self.discrepancy(&locator[..=degree], &syndromes[..=step]);
            if discrepancy != 0 {
                let before = locator;
                let factor = self.field.divide(discrepancy, previous_discrepancy);
                self.add_multiple(&mut locator[gap.min(ERRORS_MAX + 1)..], factor, &previous);
                if 2 * degree < step {
                    degree = step - degree;
                    (previous, previous_discrepancy, gap) = (before, discrepancy, 0);
                }
            }
            if degree > self.errors {
                return None;
            }
            gap += 2;
        }
        (locator[degree] != 0).then_some((locator, degree))
    }

    /// Returns the difference between the last of `syndromes` and the value that the error locator predicts from the
    /// syndromes before it.
    fn discrepancy(&self, locator: &[u16], syndromes: &[u16]) -> u16 {
        let products = locator.iter().zip(syndromes.iter().rev()).map(|(&l, &s)| self.field.multiply(l, s));
        products.fold(0, |sum, product| sum ^ product)
    }

    fn add_multiple(&self, sum: &mut [u16], factor: u16, polynomial: &[u16]) {
        for (coefficient, &other) in sum.iter_mut().zip(polynomial) {
            *coefficient ^= self.field.multiply(factor, other);
        }
    }

    /// Returns the positions i of the word for which a^-i is a root of the error locator; `None` if there are fewer
    /// than its degree.
    fn locator_roots(&self, locator: &FieldPolynomial, degree: usize) -> Option<WrongBitPositions> {
        let mut positions = WrongBitPositions::with_capacity(degree);
        let terms = self.terms(&locator[..=degree]);
        for first in (0..self.length).step_by(BLOCK) {
            if positions.len() == degree {
                break;
            }
            add_zero_positions(&mut positions, &locator_block_sum(&terms, first), first, self.length);
        }
        (positions.len() == degree).then_some(positions)
    }

    /// Returns the values of each term of an error locator at a^0, a^-1, ..., a^-length, as slices of precomputed rows.
    ///
    /// A term a^s x^j at a^-i is a^-(ji - s). With k = s/j modulo the order, which a prime order always allows, it is
    /// a^-j(i - k): the row of x^j from another index on.
    fn terms(&self, locator: &[u16]) -> Vec<&[u8]> {
        let order = self.field.order();
        let of_degree = |(j, &coefficient): (usize, &u16)| {
            let shift = self.field.logarithm(coefficient) * self.inverses[j] % order;
            &self.rows[j][2 * (order - shift)..]
        };
        locator[1..].iter().enumerate().filter(|(_, coefficient)| **coefficient != 0).map(of_degree).collect()
    }
}

/// Returns the sum of 1 and all terms of an error locator at [`BLOCK`] positions from `first` on, [`LANES`] values in a
/// word.
fn locator_block_sum(terms: &[&[u8]], first: usize) -> [u64; BLOCK / LANES] {
    let mut sums = [0x0001_0001_0001_0001; BLOCK / LANES];
    for values in terms {
        let values = &values[2 * first..2 * (first + BLOCK)];
        for (sum, bytes) in sums.iter_mut().zip(values.as_chunks::<8>().0) {
            *sum ^= u64::from_le_bytes(*bytes);
        }
    }
    sums
}

/// Adds to `positions` those at which a sum is zero, if they are below `length`. The first sum belongs to position
/// `first`.
fn add_zero_positions(positions: &mut WrongBitPositions, sums: &[u64; BLOCK / LANES], first: usize, length: usize) {
    for (place, &word) in sums.iter().enumerate() {
        if has_zero_lane(word) {
            let lanes = (0..LANES).filter(|lane| low_u16(word >> (16 * lane)) == 0);
            let places = lanes.map(|lane| first + LANES * place + lane);
            positions.extend(places.filter(|&place| place < length).map(|place| place as u16));
        }
    }
}

/// True if one of the four 16-bit values in `word` is zero. Values are below 2^15, so that the sum of each with 2^15 -
/// 1 stays in its 16 bits and has its highest bit set unless the value is zero.
fn has_zero_lane(word: u64) -> bool {
    word.wrapping_add(0x7fff_7fff_7fff_7fff) & 0x8000_8000_8000_8000 != 0x8000_8000_8000_8000
}

/// Returns the product of two polynomials over GF(2); coefficients are in the order of exponents, lowest first.
pub(super) fn times(left: &[bool], right: &[bool]) -> Vec<bool> {
    let mut product = vec![false; left.len() + right.len() - 1];
    for (i, _) in left.iter().enumerate().filter(|(_, one)| **one) {
        for (coefficient, &one) in product[i..].iter_mut().zip(right) {
            *coefficient ^= one;
        }
    }
    product
}
