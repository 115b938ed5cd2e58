//! Diffie-Hellman groups of RFC 7919, by which host and controller agree on a key that nobody on the network learns.

use std::sync::OnceLock;

use phaselink_core::number::{length, narrow};
use zeroize::Zeroize;

use super::modular::{Modulus, bytes_of, is_number_below, words_from_big_endian_bytes};
use super::secret::{RandomSource, Secret};

/// Number of words of a secret exponent: 512 bits. The largest group needs 400 (RFC 7919, appendix A.5), and NVMe asks for 256.
const EXPONENT_WORDS: usize = 8;

/// Diffie-Hellman group (DH group identifiers of DH-HMAC-CHAP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DhGroup {
    /// No exchange: only the challenge and the key count.
    Null,
    /// Group of 2048 bits.
    Ffdhe2048,
    /// Group of 3072 bits.
    Ffdhe3072,
    /// Group of 4096 bits.
    Ffdhe4096,
    /// Group of 6144 bits.
    Ffdhe6144,
    /// Group of 8192 bits.
    Ffdhe8192,
}

impl DhGroup {
    /// All groups, in the order of their identifiers.
    pub const ALL: [DhGroup; 6] = [
        DhGroup::Null,
        DhGroup::Ffdhe2048,
        DhGroup::Ffdhe3072,
        DhGroup::Ffdhe4096,
        DhGroup::Ffdhe6144,
        DhGroup::Ffdhe8192,
    ];

    /// Returns the group with this identifier.
    pub fn from_id(id: u8) -> Option<DhGroup> {
        DhGroup::ALL.get(usize::from(id)).copied()
    }

    /// Returns the group with this name.
    pub fn from_name(name: &str) -> Option<DhGroup> {
        DhGroup::ALL.into_iter().find(|group| group.name() == name)
    }

    /// Returns the identifier of the group in messages.
    pub fn id(self) -> u8 {
        narrow(DhGroup::ALL.iter().position(|group| *group == self).unwrap_or_default())
    }

    /// Returns the name of the group, as RFC 7919 and Linux spell it.
    pub fn name(self) -> &'static str {
        ["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"][usize::from(self.id())]
    }

    /// Returns the number of bytes of a public value and of a shared key: 0 for the NULL group.
    pub fn bytes(self) -> usize {
        [0, 2048, 3072, 4096, 6144, 8192][usize::from(self.id())] / 8
    }

    /// Number that RFC 7919 adds in the middle of a prime, the first one that makes it a safe prime.
    fn addend(self) -> u64 {
        [0, 560_316, 2_625_351, 5_736_041, 15_705_020, 10_965_728][usize::from(self.id())]
    }

    /// Returns the prime of the group; none for the NULL group.
    fn prime(self) -> Option<&'static Modulus> {
        static PRIMES: [OnceLock<Modulus>; 6] = [const { OnceLock::new() }; 6];
        let prime = || Modulus::new(compute_rfc7919_prime(self.bytes() / 8, self.addend()));
        (self != DhGroup::Null).then(|| PRIMES[usize::from(self.id())].get_or_init(prime))
    }
}

/// Returns a prime of RFC 7919: `2^b - 2^(b-64) + (floor(2^(b-130) e) + addend) 2^64 - 1`, in words, lowest first.
///
/// The middle is `e / 4`, a fraction of two words less than the prime. A sum of `1 / (4 n!)` yields it, with two words
/// more, so that what its divisions round off does not reach the fraction.
fn compute_rfc7919_prime(words: usize, addend: u64) -> Vec<u64> {
    let mut term = vec![0; words];
    term[words - 1] = 1 << 62;
    let (mut sum, mut divisor) = (vec![0; words], 0u64);
    while term.iter().any(|word| *word != 0) {
        add_words_in_place(&mut sum, &term);
        divisor += 1;
        divide_words_in_place(&mut term, divisor);
    }
    let mut prime = sum.split_off(2);
    let mut addend = vec![addend - 1];
    addend.resize(prime.len(), 0);
    add_words_in_place(&mut prime, &addend);
    [&[u64::MAX], &prime[..], &[u64::MAX]].concat()
}

fn add_words_in_place(sum: &mut [u64], words: &[u64]) {
    let mut carry = false;
    for (sum, word) in sum.iter_mut().zip(words) {
        let (more, first) = sum.overflowing_add(*word);
        let (more, second) = more.overflowing_add(u64::from(carry));
        (*sum, carry) = (more, first | second);
    }
}

fn divide_words_in_place(number: &mut [u64], divisor: u64) {
    let mut remainder = 0u64;
    for word in number.iter_mut().rev() {
        let dividend = u128::from(remainder) << 64 | u128::from(*word);
        *word = narrow(dividend / u128::from(divisor));
        remainder = narrow(dividend % u128::from(divisor));
    }
}

/// Key pair of one side of one exchange.
pub struct DhKeyPair {
    group: DhGroup,
    exponent: [u64; EXPONENT_WORDS],
    public: Vec<u8>,
}

impl DhKeyPair {
    /// Draws an exponent. The public value of the NULL group is empty.
    pub fn generate(group: DhGroup, random: RandomSource<'_>) -> DhKeyPair {
        let drawn = Secret::random(EXPONENT_WORDS * 8, random);
        let mut exponent = [0; EXPONENT_WORDS];
        for (word, bytes) in exponent.iter_mut().zip(drawn.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let mut pair = DhKeyPair { group, exponent, public: Vec::new() };
        pair.public = group.prime().map_or_else(Vec::new, |prime| {
            let mut generator = vec![0; prime.words().len()];
            generator[0] = 2;
            pair.power(prime, &generator).to_vec()
        });
        pair
    }

    /// Returns the public value, highest byte first, with all bytes of the group.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Returns the shared key, with all bytes of the group; none if the value of the other side is 0, 1 or at least the prime
    /// less 1, with which anybody knows the key.
    pub fn shared(&self, public: &[u8]) -> Option<Secret> {
        let prime = self.group.prime()?;
        let mut one = vec![0; prime.words().len()];
        one[0] = 1;
        let public = words_from_big_endian_bytes(public, one.len())?;
        let mut largest = prime.words().to_vec();
        largest[0] -= 1;
        (is_number_below(&one, &public) && is_number_below(&public, &largest)).then(|| self.power(prime, &public))
    }

    fn power(&self, prime: &Modulus, base: &[u64]) -> Secret {
        let bytes = bytes_of(&prime.leave(&prime.power(&prime.enter(base), &self.exponent)));
        debug_assert_eq!(length(bytes.len()), length(self.group.bytes()));
        Secret::from(bytes)
    }
}

impl Drop for DhKeyPair {
    fn drop(&mut self) {
        self.exponent.zeroize();
    }
}

impl std::fmt::Debug for DhKeyPair {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "DhKeyPair({})", self.group.name())
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash::Hash;
    use super::super::hash::tests::hex;
    use super::*;

    /// SHA-256 of each prime as OpenSSL 3.0 has it, of `2^x mod p` and of `2^(xy) mod p`, computed by another program, where
    /// the words of x and y, lowest first, are the bytes 1 to 64 and 65 to 128.
    const KNOWN: [[&str; 3]; 5] = [
        [
            "9cd3b7f336872f46c09428d1bbc19877a4d440512cda8d1c1cf0cd6e33698966",
            "4e60aa5ebaae1151d422005b548d578e51b65e3d9233d219dab86e5da24e6ab6",
            "dd53d4f6eda9263f9cec577015cbc411d56cff07469e33323f8c8e5b684493dd",
        ],
        [
            "0eaf67db3a839156d5013494a5318a772b5697d270d721f37f092efc69ea5a17",
            "a3aafdd6673e4ea5f134ffa6d287a35f05186a17b00d435b8e874ae71f07e92f",
            "36ea10d6c02abecd2f2dbbc6dc88961072f5009fd66dfa6fc27a0815aca7512c",
        ],
        [
            "4648414224ac881b3d0dc59b466f96d06a558278776807797ecf1f66ff397b3e",
            "8ca36b782f9b2dc589df93d3d934c81b8d825ef14d53df5005a931bbb5cf6621",
            "13b8793de1cc3848b8b10a96e953f6f49ed2275bd8761cd553bf69a06d6a48da",
        ],
        [
            "227ac9066b3ddd9e193670cda2388fa884f65ba0cf98b742d1fe77a6687c79c7",
            "28db5b2b19c7fff619036b061a194a1e19db186cfe84fc311f629a2ce805516e",
            "81afcac585cbc2e970823c70f436b90929dc62bdd0d9c07f099255904eb1aa0b",
        ],
        [
            "770b14efaf6f049929c523113b3fa99a8d11dab1b18af3609590122075d19833",
            "9fcc5ee92fa0649902172a013bf2d3321be24b5424a21f52e2026f949f6acc89",
            "2995826f9943ff0e0dc3c4d1dd321d3eab62077e3afb6d77459088d79da92634",
        ],
    ];

    fn ascending_bytes_from(first: u8) -> impl FnMut(&mut [u8]) {
        move |bytes| (first..).zip(bytes).for_each(|(count, byte)| *byte = count)
    }

    #[test]
    fn dh_primes_public_values_and_shared_keys_match_other_programs() {
        for (group, [prime, public, shared]) in DhGroup::ALL.into_iter().skip(1).zip(KNOWN) {
            let hash = |bytes: &[u8]| Hash::Sha256.digest(bytes).to_vec();
            assert_eq!(hash(&bytes_of(group.prime().unwrap().words())), hex(prime), "{group:?}");
            let [one, other] = [1, 65].map(|first| DhKeyPair::generate(group, &mut ascending_bytes_from(first)));
            assert_eq!(hash(one.public()), hex(public), "{group:?}");
            assert_eq!(hash(&one.shared(other.public()).unwrap()), hex(shared), "{group:?}");
            assert_eq!(one.shared(other.public()).as_deref(), other.shared(one.public()).as_deref());
        }
    }

    #[test]
    fn public_value_that_makes_the_shared_key_predictable_is_refused() {
        let group = DhGroup::Ffdhe2048;
        let pair = DhKeyPair::generate(group, &mut ascending_bytes_from(1));
        let prime = group.prime().unwrap().words().to_vec();
        let changed = |difference: u64| {
            let mut number = prime.clone();
            number[0] = number[0].wrapping_add(difference);
            bytes_of(&number)
        };
        for refused in [&[0][..], &[1], &changed(0), &changed(u64::MAX), &[0xff; 256], &[2; 257], &[]] {
            assert!(pair.shared(refused).is_none(), "{refused:x?}");
        }
        assert!(pair.shared(&[2]).is_some() && pair.shared(&changed(u64::MAX - 1)).is_some());
        assert!(DhKeyPair::generate(DhGroup::Null, &mut ascending_bytes_from(1)).shared(&[2]).is_none());
        assert_eq!(format!("{pair:?}"), "DhKeyPair(ffdhe2048)");
    }
}
