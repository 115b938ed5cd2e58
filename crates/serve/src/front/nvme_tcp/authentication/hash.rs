//! Hash functions with which hosts and controllers authenticate, and the derivations that are built on them: HMAC
//! (RFC 2104) and HKDF (RFC 5869, with the labels of RFC 8446, section 7.1).

use hmac::digest::Digest;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384, Sha512};

use super::secret::Secret;

/// Hash function (hash function identifiers of DH-HMAC-CHAP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// All hash functions, weakest first.
    pub const ALL: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

    /// Returns the hash function with this identifier.
    pub fn from_id(id: u8) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// Returns the hash function with this name, as Linux spells it.
    pub fn from_name(name: &str) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| [hash.name(), &format!("hmac({})", hash.name())].contains(&name))
    }

    /// Returns the identifier of the hash function in messages and keys.
    pub fn id(self) -> u8 {
        match self {
            Hash::Sha256 => 1,
            Hash::Sha384 => 2,
            Hash::Sha512 => 3,
        }
    }

    /// Returns the name of the hash function.
    pub fn name(self) -> &'static str {
        match self {
            Hash::Sha256 => "sha256",
            Hash::Sha384 => "sha384",
            Hash::Sha512 => "sha512",
        }
    }

    /// Returns the number of bytes of a hash.
    pub fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    /// Returns the hash of a message.
    pub fn digest(self, message: &[u8]) -> Secret {
        let bytes = match self {
            Hash::Sha256 => Sha256::digest(message).to_vec(),
            Hash::Sha384 => Sha384::digest(message).to_vec(),
            Hash::Sha512 => Sha512::digest(message).to_vec(),
        };
        Secret::from(bytes)
    }

    /// Returns the HMAC of the parts of a message under a key.
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Secret {
        let bytes = match self {
            Hash::Sha256 => hmac_over_parts::<Hmac<Sha256>>(key, parts).finalize().into_bytes().to_vec(),
            Hash::Sha384 => hmac_over_parts::<Hmac<Sha384>>(key, parts).finalize().into_bytes().to_vec(),
            Hash::Sha512 => hmac_over_parts::<Hmac<Sha512>>(key, parts).finalize().into_bytes().to_vec(),
        };
        Secret::from(bytes)
    }

    /// Returns true if a tag is the HMAC of the parts of a message, after a time that does not depend on where they differ.
    pub fn verify_hmac_in_constant_time(self, key: &[u8], parts: &[&[u8]], tag: &[u8]) -> bool {
        match self {
            Hash::Sha256 => hmac_over_parts::<Hmac<Sha256>>(key, parts).verify_slice(tag).is_ok(),
            Hash::Sha384 => hmac_over_parts::<Hmac<Sha384>>(key, parts).verify_slice(tag).is_ok(),
            Hash::Sha512 => hmac_over_parts::<Hmac<Sha512>>(key, parts).verify_slice(tag).is_ok(),
        }
    }

    /// Extracts a key of even randomness from key material (HKDF-Extract).
    pub fn hkdf_extract(self, salt: &[u8], material: &[u8]) -> Secret {
        self.hmac(salt, &[material])
    }

    /// Derives a key for one purpose (HKDF-Expand-Label). The label is without its prefix `tls13 `.
    ///
    /// # Panics
    /// If the key is to be longer than a hash, or label or context have more than 255 bytes.
    pub fn hkdf_expand_label(self, key: &[u8], label: &str, context: &[u8], bytes: usize) -> Secret {
        let prefixed = |part: &[u8]| [&[u8::try_from(part.len()).expect("at most 255 bytes")], part].concat();
        let label = prefixed(format!("tls13 {label}").as_bytes());
        let length = u16::try_from(bytes).expect("at most a hash").to_be_bytes();
        self.expand(key, &[&length, &label[..], &prefixed(context)], bytes)
    }

    /// Derives a key from parts that say what it is for (HKDF-Expand). One block is all that is asked for here.
    ///
    /// # Panics
    /// If the key is to be longer than a hash.
    pub fn expand(self, key: &[u8], parts: &[&[u8]], bytes: usize) -> Secret {
        assert!(bytes <= self.bytes(), "a derived key is no longer than a hash");
        self.hmac(key, &[parts, &[&[1]]].concat()).truncated(bytes)
    }
}

/// Returns a HMAC that has read a key and the parts of a message.
fn hmac_over_parts<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
pub(in super::super) mod tests {
    use super::*;

    /// Returns the bytes that a text of hexadecimal digits, with spaces or without, stands for.
    pub(in super::super::super) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|sign| sign.to_digit(16)).collect();
        digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
    }

    /// RFC 4231, test case 2.
    #[test]
    fn hmac_matches_rfc_4231_test_case_2() {
        for (hash, tag) in [
            (Hash::Sha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
            (
                Hash::Sha384,
                "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
            ),
            (
                Hash::Sha512,
                "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b\
                 636e070a38bce737",
            ),
        ] {
            let parts: [&[u8]; 2] = [b"what do ya want ", b"for nothing?"];
            assert_eq!(hash.hmac(b"Jefe", &parts)[..], hex(tag), "{hash:?}");
            assert!(hash.verify_hmac_in_constant_time(b"Jefe", &parts, &hex(tag)));
            assert!(
                !hash.verify_hmac_in_constant_time(b"jefe", &parts, &hex(tag))
                    && !hash.verify_hmac_in_constant_time(b"Jefe", &parts, &hex(tag)[1..])
            );
            assert_eq!((Hash::from_id(hash.id()), Hash::from_name(hash.name())), (Some(hash), Some(hash)));
        }
    }
}
