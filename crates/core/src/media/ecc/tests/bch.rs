//! Tests of the decoder against brute force, on a code that is small enough for that.

use crate::media::ecc::bch::{Bch, times};
use crate::media::ecc::field::Field;

/// Field polynomial x^5 + x^2 + 1: words of 31 bits, of which 15 correct three errors.
fn small_bch_code() -> Bch {
    Bch::new(Field::new(0b10_0101), 3, 31)
}

fn values(code: &Bch, word: u32) -> Vec<u16> {
    let mut values = vec![0; 3];
    for degree in (0..31).filter(|degree| word >> degree & 1 == 1) {
        values.iter_mut().zip(code.syndrome_contribution(degree)).for_each(|(value, power)| *value ^= power);
    }
    values
}

/// All words of 31 bits with at most three ones, by their values at a, a^3 and a^5.
fn patterns(code: &Bch) -> std::collections::BTreeMap<Vec<u16>, u32> {
    let mut patterns = std::collections::BTreeMap::new();
    for i in 0..31 {
        for j in i..31 {
            for k in j..31 {
                let word = 1u32 << i | 1 << j | 1 << k;
                patterns.insert(values(code, word), word);
            }
        }
    }
    patterns.insert(vec![0; 3], 0);
    patterns
}

#[test]
fn small_code_decodes_exactly_up_to_three_errors() {
    let code = small_bch_code();
    let patterns = patterns(&code);
    // All patterns of up to three wrong bits have different syndromes: 1 + 31 + 31*30/2 + 31*30*29/6 patterns.
    assert_eq!(patterns.len(), 1 + 31 + 465 + 4495);
    for syndrome in 0u16..1 << 15 {
        let odd = vec![syndrome & 31, syndrome >> 5 & 31, syndrome >> 10];
        let found = code.locate(&odd).map(|found| found.iter().fold(0, |word, position| word | 1u32 << position));
        assert_eq!(found, patterns.get(&odd).copied(), "syndrome {odd:?}");
    }
}

#[test]
fn errors_outside_a_shortened_word_stay_unlocated() {
    let code = Bch::new(Field::new(0b10_0101), 3, 20);
    assert_eq!(code.locate(&values(&code, 1 << 19)).as_deref(), Some(&[19][..]));
    assert_eq!(code.locate(&values(&code, 1 << 20)), None);
    assert_eq!(code.locate(&values(&code, 1 << 25 | 1 << 3)), None);
}

#[test]
fn small_code_has_the_textbook_generator() {
    // Lin and Costello, appendix C: the (31, 16) code has the generator 107657 in octal.
    let bits = small_bch_code().generator().iter().rev().fold(0u32, |bits, &one| bits << 1 | u32::from(one));
    assert_eq!(bits, 0o107657);
}

#[test]
fn field_multiplication_and_division_are_inverse() {
    let field = Field::new(0b10_0101);
    for left in 0..32 {
        assert_eq!((field.multiply(left, 0), field.multiply(0, left)), (0, 0));
        for right in 1..32 {
            assert_eq!(field.divide(field.multiply(left, right), right), left);
        }
    }
}

#[test]
#[should_panic(expected = "not primitive")]
fn non_primitive_polynomial_is_refused() {
    Field::new(0b1_1111);
}

#[test]
fn binary_polynomials_multiply_modulo_two() {
    assert_eq!(times(&[true, true], &[true, true]), [true, false, true]);
}
