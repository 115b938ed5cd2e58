//! Binary BCH codes: computes the positions of a word's errors from its syndromes.
//!
//! After Lin and Costello, "Error Control Coding", 2nd edition, chapter 6. A codeword is a polynomial over GF(2) that
//! has a, a^2, ..., a^2t as roots; the values of a received word at these points, the *syndromes*, depend on its errors
//! only. A word with up to t errors is decoded to the only codeword that near. For any other word the decoder reports
//! that there is none, or finds a wrong codeword within t bits of it.

use super::field::Field;

/// Largest number of errors that a code of this module can correct.
pub(super) const ERRORS_MAX: usize = 39;

/// Positions of errors: exponents of x.
pub(super) type Positions = Vec<u16>;

/// Polynomial over the field, lowest coefficient first.
type Polynomial = [u16; ERRORS_MAX + 1];

/// Number of positions whose values one step of the root search computes.
const BLOCK: usize = 512;
/// Number of 16-bit values in one word of the root search.
const LANES: usize = 4;

/// BCH code that corrects `errors` bits in words of `length` bits.
#[derive(Clone, Debug)]
pub(super) struct Bch {
    field: Field,
    errors: usize,
    length: usize,
    /// Values of x^j at a^0, a^-1, a^-2, ..., for each exponent j from 1, as pairs of bytes, the lower byte first.
    rows: Vec<Vec<u8>>,
    /// Inverse of each of these j modulo the order of the field.
    inverses: Vec<usize>,
}

impl Bch {
    /// Creates the code with its tables.
    ///
    /// # Panics
    /// If the order of the field is not prime (it is for 2^5, 2^7 and 2^13 elements), or the word is longer than the order.
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

    /// Returns the generator polynomial, of which all codewords are multiples, lowest coefficient first.
    pub(super) fn generator(&self) -> Vec<bool> {
        let factors = (0..self.errors).map(|k| self.field.minimal_polynomial(2 * k + 1));
        factors.reduce(|product, factor| times(&product, &factor)).unwrap_or_else(|| vec![true])
    }

    /// Returns the values of x^degree at a, a^3, ..., a^(2t - 1).
    pub(super) fn odd_powers(&self, degree: usize) -> impl Iterator<Item = u16> {
        (0..self.errors).map(move |k| self.field.power((2 * k + 1) * degree))
    }

    /// Returns the error positions of a word whose values at a, a^3, ..., a^(2t - 1) are `odd`; `None` if no codeword
    /// lies within t bits of it.
    pub(super) fn locate(&self, odd: &[u16]) -> Option<Positions> {
        let (locator, errors) = self.locator(&self.syndromes(odd))?;
        self.roots(&locator, errors)
    }

    /// Returns all syndromes, that of exponent j at index j, from those of odd exponents: squaring commutes with a sum.
    fn syndromes(&self, odd: &[u16]) -> [u16; 2 * ERRORS_MAX + 1] {
        let mut syndromes = [0; 2 * ERRORS_MAX + 1];
        for j in 1..=2 * self.errors {
            let root = syndromes[j / 2];
            syndromes[j] = if j % 2 == 1 { odd[j / 2] } else { self.field.multiply(root, root) };
        }
        syndromes
    }

    /// Returns the error locator and its degree: a polynomial whose roots are a^-i for each position i in error.
    ///
    /// Berlekamp's algorithm in the form of Massey (IEEE Trans. Information Theory IT-15, 1969). For a binary code
    /// every second discrepancy is zero, and its step is left out.
    fn locator(&self, syndromes: &[u16; 2 * ERRORS_MAX + 1]) -> Option<(Polynomial, usize)> {
        let (mut locator, mut previous): (Polynomial, Polynomial) = ([0; _], [0; _]);
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

    /// Returns the difference between the last syndrome and the value that the locator predicts from those before it.
    fn discrepancy(&self, locator: &[u16], syndromes: &[u16]) -> u16 {
        let products = locator.iter().zip(syndromes.iter().rev()).map(|(&l, &s)| self.field.multiply(l, s));
        products.fold(0, |sum, product| sum ^ product)
    }

    fn add_multiple(&self, sum: &mut [u16], factor: u16, polynomial: &[u16]) {
        for (coefficient, &other) in sum.iter_mut().zip(polynomial) {
            *coefficient ^= self.field.multiply(factor, other);
        }
    }

    /// Returns the positions i of the word for which a^-i is a root; `None` if there are fewer than the degree.
    fn roots(&self, locator: &Polynomial, degree: usize) -> Option<Positions> {
        let mut positions = Positions::with_capacity(degree);
        let terms = self.terms(&locator[..=degree]);
        for first in (0..self.length).step_by(BLOCK) {
            if positions.len() == degree {
                break;
            }
            add_zeros(&mut positions, &block(&terms, first), first, self.length);
        }
        (positions.len() == degree).then_some(positions)
    }

    /// Returns the values of each term of a locator at a^0, a^-1, ..., a^-length, which need no arithmetic.
    ///
    /// A term a^s x^j at a^-i is a^-(ji - s), and with k = s/j modulo the order, which a prime order always allows, it
    /// is a^-j(i - k): the row of x^j from another index on.
    fn terms(&self, locator: &[u16]) -> Vec<&[u8]> {
        let order = self.field.order();
        let of_degree = |(j, &coefficient): (usize, &u16)| {
            let shift = self.field.logarithm(coefficient) * self.inverses[j] % order;
            &self.rows[j][2 * (order - shift)..]
        };
        locator[1..].iter().enumerate().filter(|(_, coefficient)| **coefficient != 0).map(of_degree).collect()
    }
}

/// Returns the sum of 1 and all terms at [`BLOCK`] positions from `first` on, [`LANES`] values in a word.
fn block(terms: &[&[u8]], first: usize) -> [u64; BLOCK / LANES] {
    let mut sums = [0x0001_0001_0001_0001; BLOCK / LANES];
    for values in terms {
        let values = &values[2 * first..2 * (first + BLOCK)];
        for (sum, bytes) in sums.iter_mut().zip(values.as_chunks::<8>().0) {
            *sum ^= u64::from_le_bytes(*bytes);
        }
    }
    sums
}

/// Adds the positions of zeros, counted from `first`, that are below `length`.
fn add_zeros(positions: &mut Positions, sums: &[u64; BLOCK / LANES], first: usize, length: usize) {
    for (place, &word) in sums.iter().enumerate() {
        if has_zero_lane(word) {
            let lanes = (0..LANES).filter(|lane| (word >> (16 * lane)) as u16 == 0);
            let places = lanes.map(|lane| first + LANES * place + lane);
            positions.extend(places.filter(|&place| place < length).map(|place| place as u16));
        }
    }
}

/// Returns true if one of the four values is zero. Values are below 2^15, so that the sum of each with 2^15 - 1 stays
/// in its 16 bits and has its highest bit set unless the value is zero.
fn has_zero_lane(word: u64) -> bool {
    word.wrapping_add(0x7fff_7fff_7fff_7fff) & 0x8000_8000_8000_8000 != 0x8000_8000_8000_8000
}

/// Returns the product of two polynomials over GF(2), lowest coefficient first.
pub(super) fn times(left: &[bool], right: &[bool]) -> Vec<bool> {
    let mut product = vec![false; left.len() + right.len() - 1];
    for (i, _) in left.iter().enumerate().filter(|(_, one)| **one) {
        for (coefficient, &one) in product[i..].iter_mut().zip(right) {
            *coefficient ^= one;
        }
    }
    product
}
