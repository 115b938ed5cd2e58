//! Arithmetic modulo large odd numbers, by Montgomery's multiplication. No branch and no address depends on a number, only on
//! how many words it has: who measures times learns nothing of a secret exponent.

use phaselink_core::number::length;
use zeroize::{Zeroize, Zeroizing};

/// Number of words that a modulus of any group has at most: 8192 bits.
const WORDS_MAX: usize = 128;
/// Words of a number, lowest first, which are overwritten when they are dropped: numbers here are secrets, or lead to them.
pub type Number = Zeroizing<Vec<u64>>;

/// Number of bits of the exponent that are handled at a time.
const WINDOW_BITS: usize = 4;

/// Odd modulus, with what its multiplication needs. Numbers are words, lowest first; each is below the modulus.
#[derive(Debug)]
pub struct Modulus {
    words: Vec<u64>,
    /// Number that the lowest word of a sum is multiplied by, to get the multiple of the modulus that clears it.
    clearing: u64,
    /// R, the power of two behind the highest word: it represents 1.
    one: Vec<u64>,
    /// R squared, by which a number is brought into Montgomery's form.
    square: Vec<u64>,
}

impl Modulus {
    /// Returns the modulus of these words, lowest first.
    ///
    /// # Panics
    /// If it is even or has too many words.
    pub fn new(words: Vec<u64>) -> Modulus {
        assert!(words[0] & 1 == 1 && words.len() <= WORDS_MAX, "a modulus is odd and has at most 8192 bits");
        // Each step of Newton's iteration doubles the number of correct low bits of the inverse, beginning with 3.
        let inverse =
            (0..5).fold(words[0], |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(words[0].wrapping_mul(inverse))));
        let mut modulus = Modulus { clearing: inverse.wrapping_neg(), one: Vec::new(), square: Vec::new(), words };
        let mut power = Zeroizing::new(vec![0; modulus.words.len()]);
        power[0] = 1;
        let bits = modulus.words.len() * 64;
        (0..bits).for_each(|_| power = modulus.add(&power, &power));
        modulus.one = power.to_vec();
        (0..bits).for_each(|_| power = modulus.add(&power, &power));
        modulus.square = power.to_vec();
        modulus
    }

    /// Returns the words of the modulus, lowest first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the sum of two numbers.
    pub fn add(&self, left: &[u64], right: &[u64]) -> Number {
        let mut sum = Zeroizing::new(vec![0; self.words.len()]);
        let mut carry = 0;
        for ((sum, left), right) in sum.iter_mut().zip(left).zip(right) {
            (*sum, carry) = halves(u128::from(*left) + u128::from(*right) + u128::from(carry));
        }
        self.reduce(&mut sum, carry);
        sum
    }

    /// Returns the difference of two numbers.
    pub fn subtract_modulo(&self, left: &[u64], right: &[u64]) -> Number {
        let mut difference = Zeroizing::new(left.to_vec());
        let borrow = subtract_words_with_borrow(&mut difference, right);
        let mut carry = 0;
        for (word, modulus) in difference.iter_mut().zip(&self.words) {
            let added = modulus & borrow.wrapping_neg();
            (*word, carry) = halves(u128::from(*word) + u128::from(added) + u128::from(carry));
        }
        difference
    }

    /// Returns the product of two numbers in Montgomery's form: divided by R.
    pub fn multiply(&self, left: &[u64], right: &[u64]) -> Number {
        let words = self.words.len();
        let mut sum = [0; WORDS_MAX + 1];
        let sum = &mut sum[..=words];
        for &factor in right {
            let (mut carry, mut top) = (0, 0);
            for (sum, left) in sum.iter_mut().zip(left) {
                (*sum, carry) = halves(u128::from(*left) * u128::from(factor) + u128::from(*sum) + u128::from(carry));
            }
            (sum[words], top) = add_words_with_carry(sum[words], carry, top);
            let multiple = sum[0].wrapping_mul(self.clearing);
            (_, carry) = halves(u128::from(multiple) * u128::from(self.words[0]) + u128::from(sum[0]));
            for at in 1..words {
                let product = u128::from(multiple) * u128::from(self.words[at]);
                (sum[at - 1], carry) = halves(product + u128::from(sum[at]) + u128::from(carry));
            }
            (sum[words - 1], carry) = add_words_with_carry(sum[words], carry, 0);
            sum[words] = top + carry;
        }
        let (mut product, top) = (Zeroizing::new(sum[..words].to_vec()), sum[words]);
        sum.zeroize();
        self.reduce(&mut product, top);
        product
    }

    /// Brings a number into Montgomery's form.
    pub fn enter(&self, number: &[u64]) -> Number {
        self.multiply(number, &self.square)
    }

    /// Returns the number that a product in Montgomery's form stands for.
    pub fn leave(&self, number: &[u64]) -> Number {
        let mut one = vec![0; self.words.len()];
        one[0] = 1;
        self.multiply(number, &one)
    }

    /// Returns a number in Montgomery's form to the power of an exponent, in that form.
    pub fn power(&self, base: &[u64], exponent: &[u64]) -> Number {
        let mut powers = vec![Zeroizing::new(self.one.clone())];
        for at in 1..1 << WINDOW_BITS {
            powers.push(self.multiply(&powers[at - 1], base));
        }
        let mut result = Zeroizing::new(self.one.clone());
        let windows = exponent.iter().rev().flat_map(|word| (0..64 / WINDOW_BITS).rev().map(move |at| (word, at)));
        for (word, at) in windows {
            (0..WINDOW_BITS).for_each(|_| result = self.multiply(&result, &result));
            let chosen = word >> (at * WINDOW_BITS) & ((1 << WINDOW_BITS) - 1);
            result = self.multiply(&result, &select_in_constant_time(&powers, chosen));
        }
        result
    }

    /// Subtracts the modulus from a number with a carry above its words, if the number is not below the modulus.
    fn reduce(&self, number: &mut [u64], carry: u64) {
        let mut less = Zeroizing::new(number.to_vec());
        let borrow = subtract_words_with_borrow(&mut less, &self.words);
        // Keep the number only if the subtraction borrows and there was no carry to borrow from.
        let keeps = (borrow & !carry).wrapping_neg();
        for (number, less) in number.iter_mut().zip(less.iter()) {
            *number = *number & keeps | *less & !keeps;
        }
    }
}

/// Returns the entry of a table with this index; every entry is read, so that caches do not tell which one it is.
fn select_in_constant_time(table: &[Number], chosen: u64) -> Number {
    let mut found = Zeroizing::new(vec![0; table[0].len()]);
    for (at, entry) in table.iter().enumerate() {
        let difference = length(at) ^ chosen;
        let mask = ((difference | difference.wrapping_neg()) >> 63).wrapping_sub(1);
        found.iter_mut().zip(entry.iter()).for_each(|(found, word)| *found |= word & mask);
    }
    found
}

/// Subtracts words from words of the same number, and returns the borrow.
fn subtract_words_with_borrow(from: &mut [u64], words: &[u64]) -> u64 {
    let mut borrow = 0;
    for (from, word) in from.iter_mut().zip(words) {
        let (less, first) = from.overflowing_sub(*word);
        let (less, second) = less.overflowing_sub(borrow);
        (*from, borrow) = (less, u64::from(first | second));
    }
    borrow
}

fn add_words_with_carry(left: u64, right: u64, carry: u64) -> (u64, u64) {
    halves(u128::from(left) + u128::from(right) + u128::from(carry))
}

/// Returns the low and the high half of a product or sum.
fn halves(wide: u128) -> (u64, u64) {
    let bytes = wide.to_le_bytes();
    let half = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("a half has 8 bytes"));
    (half(0), half(8))
}

/// Returns the words of a number that is stored highest byte first, as many as asked for; none if it does not fit.
pub fn words_from_big_endian_bytes(bytes: &[u8], words: usize) -> Option<Vec<u64>> {
    let mut number = vec![0; words];
    for (at, byte) in bytes.iter().rev().enumerate() {
        match number.get_mut(at / 8) {
            Some(word) => *word |= u64::from(*byte) << (at % 8 * 8),
            None if *byte == 0 => {}
            None => return None,
        }
    }
    Some(number)
}

/// Returns the bytes of a number, highest byte first.
pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().rev().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns true if one number is below another of as many words.
pub fn is_number_below(number: &[u64], limit: &[u64]) -> bool {
    subtract_words_with_borrow(&mut number.to_vec(), limit) == 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn remainder_of_u128(number: u128, modulus: u64) -> u64 {
        u64::try_from(number % u128::from(modulus)).unwrap()
    }

    proptest! {
        #[test]
        fn one_word_modular_arithmetic_matches_wide_integer_arithmetic(
            modulus in (3u64..).prop_map(|modulus| modulus | 1),
            numbers in any::<[u64; 2]>(),
            exponent in any::<u64>(),
        ) {
            let [left, right] = numbers.map(|number| number % modulus);
            let field = Modulus::new(vec![modulus]);
            prop_assert_eq!(field.add(&[left], &[right])[0], remainder_of_u128(u128::from(left) + u128::from(right), modulus));
            let difference = u128::from(left) + u128::from(modulus) - u128::from(right);
            prop_assert_eq!(field.subtract_modulo(&[left], &[right])[0], remainder_of_u128(difference, modulus));
            let product = field.leave(&field.multiply(&field.enter(&[left]), &field.enter(&[right])));
            prop_assert_eq!(product[0], remainder_of_u128(u128::from(left) * u128::from(right), modulus));
            let power = (0..64).rev().fold(1, |power, bit| {
                let square = remainder_of_u128(u128::from(power) * u128::from(power), modulus);
                if exponent >> bit & 1 == 0 { square } else { remainder_of_u128(u128::from(square) * u128::from(left), modulus) }
            });
            prop_assert_eq!(field.leave(&field.power(&field.enter(&[left]), &[exponent]))[0], power % modulus);
        }
    }

    #[test]
    fn numbers_round_trip_through_bytes_and_too_large_ones_are_refused() {
        let number: Vec<u8> = (1..=11).collect();
        let words = words_from_big_endian_bytes(&number, 2).unwrap();
        assert_eq!(words, [0x0405_0607_0809_0a0b, 0x0001_0203]);
        assert_eq!(bytes_of(&words), [&[0; 5][..], &number].concat());
        assert_eq!(words_from_big_endian_bytes(&[&[0; 9][..], &[7]].concat(), 1), Some(vec![7]));
        assert_eq!(words_from_big_endian_bytes(&number, 1), None);
        assert!(
            is_number_below(&[9, 1], &[0, 2])
                && !is_number_below(&[0, 2], &[0, 2])
                && !is_number_below(&[0, 3], &[0, 2])
        );
    }
}
