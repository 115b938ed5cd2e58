//! Key exchange X25519 (RFC 7748), on the arithmetic of the Diffie-Hellman groups.

use std::sync::OnceLock;

use zeroize::Zeroizing;

use crate::front::nvme_tcp::authentication::modular::{Modulus, Number, bytes_of, words_from_big_endian_bytes};
use crate::front::nvme_tcp::authentication::secret::Secret;

/// Number of bytes of a secret and of a public value.
pub(super) const BYTES: usize = 32;
/// `(486662 - 2) / 4`, the constant of the curve in the doubling of a point.
const A24: u64 = 121_665;

/// Returns the prime `2^255 - 19`.
fn field() -> &'static Modulus {
    static FIELD: OnceLock<Modulus> = OnceLock::new();
    FIELD.get_or_init(|| Modulus::new(vec![u64::MAX - 18, u64::MAX, u64::MAX, u64::MAX >> 1]))
}

/// Returns the public value of a secret.
pub(super) fn public(secret: &[u8; BYTES]) -> [u8; BYTES] {
    let mut base = [0; BYTES];
    base[0] = 9;
    *multiply(secret, &base)
}

/// Returns the shared key; none if the value of the other side makes it 0, whatever the secret is.
pub(super) fn shared(secret: &[u8; BYTES], public: &[u8; BYTES]) -> Option<Secret> {
    let shared = multiply(secret, public);
    let any = shared.iter().fold(0, |any, byte| any | byte);
    (any != 0).then(|| Secret::from(shared.to_vec()))
}

/// Returns the coordinate of a point multiplied by a number: Montgomery's ladder, with a swap for each bit in place of a branch.
fn multiply(scalar: &[u8; BYTES], coordinate: &[u8; BYTES]) -> Zeroizing<[u8; BYTES]> {
    let field = field();
    let mut scalar = Zeroizing::new(*scalar);
    scalar[0] &= 0xf8;
    scalar[BYTES - 1] = scalar[BYTES - 1] & 0x7f | 0x40;
    let u = field.enter(&number(coordinate));
    let [zero, one] = [0, 1].map(|word| field.enter(&[word, 0, 0, 0]));
    let constant = field.enter(&[A24, 0, 0, 0]);
    let mut points = [[one.clone(), zero], [u.clone(), one]];
    let mut swapped = 0;
    for at in (0..255).rev() {
        let bit = u64::from(scalar[at / 8] >> (at % 8) & 1);
        swap(&mut points, swapped ^ bit);
        swapped = bit;
        points = step(field, &points, &u, &constant);
    }
    swap(&mut points, swapped);
    let [[x, z], _] = &points;
    // By Fermat's little theorem, the inverse is the number to the power of the prime minus 2.
    let mut exponent = field.words().to_vec();
    exponent[0] -= 2;
    let result = field.leave(&field.multiply(x, &field.power(z, &exponent)));
    let mut bytes = Zeroizing::new(bytes_of(&result));
    bytes.reverse();
    Zeroizing::new(*bytes.first_chunk().expect("four words have 32 bytes"))
}

/// Point of the curve: its coordinate as a fraction.
type Point = [Number; 2];

/// Returns the double of the first point, and the sum of both, whose difference has the coordinate `u` (RFC 7748, section 5).
fn step(field: &Modulus, [[x2, z2], [x3, z3]]: &[Point; 2], u: &[u64], constant: &[u64]) -> [Point; 2] {
    let square = |number: &[u64]| field.multiply(number, number);
    let (a, b) = (field.add(x2, z2), field.subtract_modulo(x2, z2));
    let (aa, bb) = (square(&a), square(&b));
    let e = field.subtract_modulo(&aa, &bb);
    let (c, d) = (field.add(x3, z3), field.subtract_modulo(x3, z3));
    let (da, cb) = (field.multiply(&d, &a), field.multiply(&c, &b));
    let sum = [square(&field.add(&da, &cb)), field.multiply(u, &square(&field.subtract_modulo(&da, &cb)))];
    let scaled = field.add(&aa, &field.multiply(constant, &e));
    [[field.multiply(&aa, &bb), field.multiply(&e, &scaled)], sum]
}

fn words(point: &mut Point) -> impl Iterator<Item = &mut u64> {
    point.iter_mut().flat_map(|number| number.iter_mut())
}

/// Swaps two points if the bit is set.
fn swap([one, other]: &mut [Point; 2], bit: u64) {
    let mask = bit.wrapping_neg();
    for (one, other) in words(one).zip(words(other)) {
        let difference = (*one ^ *other) & mask;
        (*one, *other) = (*one ^ difference, *other ^ difference);
    }
}

/// Returns the words of a coordinate, lowest first: the highest bit does not count, and the number may be above the prime.
fn number(coordinate: &[u8; BYTES]) -> Vec<u64> {
    let mut bytes = *coordinate;
    bytes[BYTES - 1] &= 0x7f;
    bytes.reverse();
    words_from_big_endian_bytes(&bytes, BYTES / 8).expect("32 bytes are four words")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::nvme_tcp::authentication::hash::tests::hex;

    fn array(text: &str) -> [u8; BYTES] {
        *hex(text).first_chunk().unwrap()
    }

    /// RFC 7748, section 5.2, where the second coordinate has its highest bit set.
    #[test]
    fn scalar_multiplication_matches_rfc_7748_section_5_2() {
        for [scalar, coordinate, product] in [
            [
                "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
                "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
                "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
            ],
            [
                "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
                "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
                "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
            ],
        ] {
            assert_eq!(*multiply(&array(scalar), &array(coordinate)), array(product));
        }
    }

    /// RFC 7748, section 6.1.
    #[test]
    fn shared_key_of_both_sides_matches_rfc_7748_section_6_1() {
        let [alice, bob] = [
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        ]
        .map(array);
        let key = hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
        let [from_alice, from_bob] = [&alice, &bob].map(public);
        assert_eq!(from_alice, array("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
        assert_eq!(shared(&alice, &from_bob).unwrap()[..], key);
        assert_eq!(shared(&bob, &from_alice).unwrap()[..], key);
    }

    #[test]
    fn public_value_that_gives_a_zero_shared_key_is_refused() {
        let secret = [7; BYTES];
        let [zero, mut one] = [[0; BYTES]; 2];
        one[0] = 1;
        assert!(shared(&secret, &zero).is_none() && shared(&secret, &one).is_none());
        // The encoding of the prime itself, which equals 0.
        let mut prime = [0xff; BYTES];
        (prime[0], prime[BYTES - 1]) = (0xed, 0x7f);
        assert!(shared(&secret, &prime).is_none());
    }
}
