//! Cipher suites and groups that NVMe/TCP uses (NVMe/TCP Transport Specification 1.1, section 3.6.1.5).

use crate::front::nvme_tcp::authentication::group::{DhGroup, DhKeyPair};
use crate::front::nvme_tcp::authentication::hash::Hash;
use crate::front::nvme_tcp::authentication::secret::{RandomSource, Secret};

use super::x25519;

/// Cipher suite of TLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsCipherSuite {
    /// TLS_AES_128_GCM_SHA256, which every NVMe/TCP host with TLS supports.
    Aes128GcmSha256,
    /// TLS_AES_256_GCM_SHA384.
    Aes256GcmSha384,
}

impl TlsCipherSuite {
    /// Returns the cipher suite for keys with this hash function.
    pub(super) fn of(hash: Hash) -> TlsCipherSuite {
        if hash == Hash::Sha256 { TlsCipherSuite::Aes128GcmSha256 } else { TlsCipherSuite::Aes256GcmSha384 }
    }

    /// Returns the number of the suite in messages.
    pub(super) fn code(self) -> u16 {
        match self {
            TlsCipherSuite::Aes128GcmSha256 => 0x1301,
            TlsCipherSuite::Aes256GcmSha384 => 0x1302,
        }
    }

    pub(super) fn hash(self) -> Hash {
        match self {
            TlsCipherSuite::Aes128GcmSha256 => Hash::Sha256,
            TlsCipherSuite::Aes256GcmSha384 => Hash::Sha384,
        }
    }

    pub(super) fn key_bytes(self) -> usize {
        match self {
            TlsCipherSuite::Aes128GcmSha256 => 16,
            TlsCipherSuite::Aes256GcmSha384 => 32,
        }
    }
}

/// Group of the key exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeGroup {
    /// Curve 25519.
    X25519,
    /// Finite field of RFC 7919, for hosts whose policy knows no such curve.
    Field(DhGroup),
}

impl ExchangeGroup {
    /// Groups that both sides offer, the preferred one first.
    pub(super) const ALL: [ExchangeGroup; 3] =
        [ExchangeGroup::X25519, ExchangeGroup::Field(DhGroup::Ffdhe3072), ExchangeGroup::Field(DhGroup::Ffdhe2048)];

    /// Returns the number of the group in messages.
    pub(super) fn code(self) -> u16 {
        match self {
            ExchangeGroup::X25519 => 0x001d,
            // The groups of RFC 7919 are numbered in the order of their sizes.
            ExchangeGroup::Field(group) => 0x00ff + u16::from(group.id()),
        }
    }

    pub(super) fn from_code(code: u16) -> Option<ExchangeGroup> {
        ExchangeGroup::ALL.into_iter().find(|group| group.code() == code)
    }
}

/// Key pair of one side of an exchange.
#[derive(Debug)]
pub(super) enum KeyExchangePair {
    X25519(Secret),
    Field(DhKeyPair),
}

impl KeyExchangePair {
    pub(super) fn generate(group: ExchangeGroup, random: RandomSource<'_>) -> KeyExchangePair {
        match group {
            ExchangeGroup::X25519 => KeyExchangePair::X25519(Secret::random(x25519::BYTES, random)),
            ExchangeGroup::Field(group) => KeyExchangePair::Field(DhKeyPair::generate(group, random)),
        }
    }

    /// Returns the public value.
    pub(super) fn public(&self) -> Vec<u8> {
        match self {
            KeyExchangePair::X25519(secret) => x25519::public(array(secret)).to_vec(),
            KeyExchangePair::Field(pair) => pair.public().to_vec(),
        }
    }

    /// Returns the shared key; none if the public value of the other side is invalid.
    pub(super) fn shared(&self, public: &[u8]) -> Option<Secret> {
        match self {
            KeyExchangePair::X25519(secret) => x25519::shared(array(secret), public.try_into().ok()?),
            KeyExchangePair::Field(pair) => {
                Some(public).filter(|public| public.len() == pair.public().len()).and_then(|public| pair.shared(public))
            }
        }
    }
}

fn array(secret: &Secret) -> &[u8; x25519::BYTES] {
    secret.first_chunk().expect("a secret of the curve has 32 bytes")
}
