//! Bytes that nobody may see: keys, and everything that keys are derived from.

use std::fmt;
use std::ops::Deref;

use zeroize::Zeroize;

/// Bytes that are never printed, and that are overwritten when they are dropped.
#[derive(Clone, Default)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Returns this many random bytes.
    pub fn random(bytes: usize, random: RandomSource<'_>) -> Secret {
        let mut secret = Secret(vec![0; bytes]);
        random(&mut secret.0);
        secret
    }

    /// Returns true if two secrets are equal, after a time that does not depend on where they differ.
    pub fn is_same(&self, other: &[u8]) -> bool {
        let difference = self.0.iter().zip(other).fold(0, |found, (one, other)| found | (one ^ other));
        self.0.len() == other.len() && std::hint::black_box(difference) == 0
    }

    /// Shortens the secret to its first bytes.
    #[must_use]
    pub fn truncated(mut self, bytes: usize) -> Secret {
        self.0[bytes..].zeroize();
        self.0.truncate(bytes);
        self
    }
}

impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Secret {
        Secret(bytes)
    }
}

impl Deref for Secret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.zeroize();
    }
}

impl Zeroize for Secret {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secret({} bytes)", self.0.len())
    }
}

/// Source of random bytes, which fills what it is given. Servers and clients use [`system_random`]; tests and fuzz targets
/// use bytes that they know.
pub type RandomSource<'a> = &'a mut dyn FnMut(&mut [u8]);

/// Fills bytes from the random number generator of the operating system.
///
/// # Panics
/// If the operating system has no random numbers, without which no key is safe.
pub fn system_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has random numbers");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_equal_only_with_equal_length_and_bytes() {
        let secret = Secret::from(vec![1, 2, 3]);
        assert!(secret.is_same(&[1, 2, 3]) && Secret::default().is_same(&[]));
        for other in [&[1, 2][..], &[1, 2, 3, 0], &[9, 2, 3], &[1, 2, 9], &[]] {
            assert!(!secret.is_same(other), "{other:?}");
        }
    }

    #[test]
    fn secret_prints_only_its_length() {
        let secret = Secret::from(vec![0x5a; 32]);
        assert_eq!(format!("{secret:?} {:?}", secret.clone().truncated(16)), "Secret(32 bytes) Secret(16 bytes)");
    }
}
