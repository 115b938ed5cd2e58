//! Keys in the representations that `nvme gen-dhchap-key` and `nvme gen-tls-key` write, and what is derived from them.
//!
//! - `DHHC-1:HH:BASE64:` is a secret for DH-HMAC-CHAP (Base Specification 2.1, section 8.3.4.5.8).
//! - `NVMeTLSkey-1:HH:BASE64:` is a pre-shared key for TLS (NVMe/TCP Transport Specification 1.1, section 3.6.1.2).
//!
//! HH is the hash function by which the secret becomes the key of one NQN, or 00 if it is the key itself. The encoded bytes
//! end with the CRC-32 of those before.

use std::fmt;

use base64ct::{Base64, Encoding};

use super::hash::Hash;
use super::secret::{RandomSource, Secret};

/// Seventeen letters that bind a derived value to NVMe over Fabrics.
const SEED: &[u8] = b"NVMe-over-Fabrics";
/// Number of bytes of the CRC behind a secret.
const CRC_BYTES: usize = 4;
/// Largest context of HKDF-Expand-Label in bytes, since its length is one byte (RFC 8446, section 7.1).
const CONTEXT_BYTES_MAX: usize = 255;

/// Reason why a text is not a key. Its words never hold a part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidKey {
    /// The text does not begin with the prefix of such keys.
    Prefix,
    /// The text names a hash function that such keys cannot have.
    Hash,
    /// The text is not valid Base64.
    Base64,
    /// The secret has another length than such keys may have.
    Length,
    /// The CRC-32 behind the secret is another one.
    Crc,
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            InvalidKey::Prefix => "it does not begin with the letters and the version of such a key",
            InvalidKey::Hash => "it names a hash function that such a key cannot have",
            InvalidKey::Base64 => "its secret is not valid Base64",
            InvalidKey::Length => "its secret has a length that such a key cannot have",
            InvalidKey::Crc => "its checksum does not fit its secret, so a letter is wrong or missing",
        })
    }
}

/// Kind of key: the letters that it begins with, and the lengths of its secret in bytes.
struct KeyTextFormat {
    prefix: &'static str,
    lengths: &'static [usize],
}

const DHCHAP: KeyTextFormat = KeyTextFormat { prefix: "DHHC-1", lengths: &[32, 48, 64] };
const TLS: KeyTextFormat = KeyTextFormat { prefix: "NVMeTLSkey-1", lengths: &[32, 48] };

impl KeyTextFormat {
    /// Reads a key. The last colon may be missing, as Linux allows.
    fn parse(&self, text: &str) -> Result<(Option<Hash>, Secret), InvalidKey> {
        let rest = text.strip_prefix(self.prefix).and_then(|rest| rest.strip_prefix(':')).ok_or(InvalidKey::Prefix)?;
        let (id, encoded) = rest.split_once(':').ok_or(InvalidKey::Prefix)?;
        let hash = match id {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            _ => return Err(InvalidKey::Hash),
        };
        let encoded = encoded.strip_suffix(':').unwrap_or(encoded);
        let decoded = Secret::from(Base64::decode_vec(encoded).map_err(|_| InvalidKey::Base64)?);
        let bytes = decoded.len().checked_sub(CRC_BYTES).ok_or(InvalidKey::Length)?;
        if !self.lengths.contains(&bytes) {
            return Err(InvalidKey::Length);
        }
        let is_fitting = decoded[bytes..] == crc32fast::hash(&decoded[..bytes]).to_le_bytes();
        if is_fitting { Ok((hash, decoded.truncated(bytes))) } else { Err(InvalidKey::Crc) }
    }

    fn write(&self, hash: Option<Hash>, secret: &[u8]) -> String {
        let id = hash.map_or(0, Hash::id);
        let bytes = Secret::from([secret, &crc32fast::hash(secret).to_le_bytes()].concat());
        format!("{}:{id:02}:{}:", self.prefix, Base64::encode_string(&bytes))
    }
}

/// Secret of a host or of a subsystem for DH-HMAC-CHAP.
#[derive(Clone, Debug)]
pub struct DhchapSecret {
    transform: Option<Hash>,
    secret: Secret,
}

impl DhchapSecret {
    /// Reads a secret in its representation `DHHC-1:HH:BASE64:`.
    ///
    /// # Errors
    /// If the text is not one.
    pub fn parse(text: &str) -> Result<DhchapSecret, InvalidKey> {
        let (transform, secret) = DHCHAP.parse(text)?;
        Ok(DhchapSecret { transform, secret })
    }

    /// Draws a secret as long as a hash.
    pub fn generate(hash: Hash, random: RandomSource<'_>) -> DhchapSecret {
        DhchapSecret { transform: Some(hash), secret: Secret::random(hash.bytes(), random) }
    }

    /// Returns the representation of the secret, for a file of keys.
    pub fn reveal(&self) -> String {
        DHCHAP.write(self.transform, &self.secret)
    }

    /// Returns the key of the host or subsystem with this NQN (section 8.3.4.5.7).
    pub fn key(&self, nqn: &str) -> Secret {
        self.transform.map_or_else(|| self.secret.clone(), |hash| hash.hmac(&self.secret, &[nqn.as_bytes(), SEED]))
    }

    /// Returns true if two secrets are the same bytes.
    pub fn is_same(&self, other: &DhchapSecret) -> bool {
        self.secret.is_same(&other.secret)
    }
}

/// Pre-shared key of TLS, as it was configured for a host and a subsystem.
#[derive(Clone, Debug)]
pub struct TlsKey {
    transform: Option<Hash>,
    secret: Secret,
}

/// Pre-shared key as TLS uses it, under the identity by which client and server name it.
#[derive(Clone, Debug)]
pub struct Psk {
    /// Identity that the client sends.
    pub identity: String,
    /// Hash function of the cipher suite that the key is for.
    pub hash: Hash,
    /// Key, as long as a hash.
    pub key: Secret,
}

/// Way in which keys are derived. Versions of libnvme before 1.14 left out the lengths that HKDF-Expand-Label puts before
/// its label and its context, and Linux distributions ship them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyDerivationVariant {
    Specified,
    WithoutLengths,
}

impl KeyDerivationVariant {
    fn expand(self, hash: Hash, material: &[u8], label: &str, context: &str) -> Secret {
        let (bytes, key) = (hash.bytes(), hash.hkdf_extract(&vec![0; hash.bytes()], material));
        match self {
            KeyDerivationVariant::Specified => hash.hkdf_expand_label(&key, label, context.as_bytes(), bytes),
            KeyDerivationVariant::WithoutLengths => {
                let length = u16::try_from(bytes).expect("at most a hash").to_le_bytes();
                hash.expand(&key, &[&length, b"tls13 ", label.as_bytes(), context.as_bytes()], bytes)
            }
        }
    }
}

impl TlsKey {
    /// Reads a key in the interchange format `NVMeTLSkey-1:HH:BASE64:`.
    ///
    /// # Errors
    /// If the text is not one.
    pub fn parse(text: &str) -> Result<TlsKey, InvalidKey> {
        let (transform, secret) = TLS.parse(text)?;
        match transform {
            Some(Hash::Sha512) => Err(InvalidKey::Hash),
            Some(hash) if hash.bytes() != secret.len() => Err(InvalidKey::Length),
            _ => Ok(TlsKey { transform, secret }),
        }
    }

    /// Draws a key for the cipher suite with this hash function: SHA-256 or SHA-384.
    pub fn generate(hash: Hash, random: RandomSource<'_>) -> TlsKey {
        TlsKey { transform: Some(hash), secret: Secret::random(hash.bytes(), random) }
    }

    /// Returns the representation of the key, for a file of keys.
    pub fn reveal(&self) -> String {
        TLS.write(self.transform, &self.secret)
    }

    /// Returns the hash function of the cipher suite that the key is for, by its length.
    fn hash(&self) -> Hash {
        if self.secret.len() == Hash::Sha256.bytes() { Hash::Sha256 } else { Hash::Sha384 }
    }

    /// Returns the pre-shared keys of TLS between a host and a subsystem, the preferred one first: under both versions of the
    /// identity, and as older programs derive them. Several may have the same identity; the binder tells which one is meant.
    pub fn psks(&self, host: &str, subsystem: &str) -> Vec<Psk> {
        let derivations = [KeyDerivationVariant::Specified, KeyDerivationVariant::WithoutLengths];
        derivations.into_iter().flat_map(|derivation| self.derive(derivation, host, subsystem)).collect()
    }

    fn derive(&self, derivation: KeyDerivationVariant, host: &str, subsystem: &str) -> Vec<Psk> {
        let hash = self.hash();
        let retained = match self.transform {
            Some(_) => derivation.expand(hash, &self.secret, "HostNQN", host),
            None => self.secret.clone(),
        };
        let digest = psk_identity_digest(hash, &retained, host, subsystem);
        let id = hash.id();
        let plain = format!("NVMe0R{id:02} {host} {subsystem}");
        let versions = [
            (format!("NVMe1R{id:02} {host} {subsystem} {digest}"), format!("{id:02} {digest}")),
            (plain.clone(), plain),
        ];
        let is_short = |(_, context): &(String, String)| context.len() <= CONTEXT_BYTES_MAX;
        let psk = |(identity, context): (String, String)| Psk {
            identity,
            hash,
            key: derivation.expand(hash, &retained, "nvme-tls-psk", &context),
        };
        versions.into_iter().filter(is_short).map(psk).collect()
    }
}

/// Returns the digest of a key in its identity (NVMe/TCP Transport Specification 1.1, section 3.6.1.3).
fn psk_identity_digest(hash: Hash, key: &[u8], host: &str, subsystem: &str) -> String {
    let digest = hash.hmac(key, &[host.as_bytes(), b" ", subsystem.as_bytes(), b" ", SEED]);
    Base64::encode_string(&digest)
}

/// Returns the pre-shared key that a host and a controller derive from what they have agreed on while they authenticated
/// (secure channel concatenation; Base Specification 2.1, section 8.3.4.5.9). None if the hash function is SHA-512, with
/// which TLS has no cipher suite.
pub fn derive_generated_psk(
    hash: Hash,
    session_key: &[u8],
    challenges: [&[u8]; 2],
    [host, subsystem]: [&str; 2],
) -> Option<Psk> {
    if hash == Hash::Sha512 {
        return None;
    }
    let generated = hash.hmac(session_key, &challenges);
    let (id, digest) = (hash.id(), psk_identity_digest(hash, &generated, host, subsystem));
    let key = KeyDerivationVariant::Specified.expand(hash, &generated, "nvme-tls-psk", &format!("{id:02} {digest}"));
    Some(Psk { identity: format!("NVMe1G{id:02} {host} {subsystem} {digest}"), hash, key })
}

#[cfg(test)]
mod tests {
    use super::super::hash::tests::hex;
    use super::*;

    /// Key of the tests of libnvme.
    const CONFIGURED: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    const CONFIGURED_384: &str =
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";
    const BYTES: &str = "5512dbb6737d0106f65975b773dfb011ffc344bcf442e2dd6d8bc4870b5d5b03";
    const NAMES: [&str; 2] = ["nqn.psk-test-host", "nqn.psk-test-subsys"];

    #[test]
    fn libnvme_key_text_parses_and_prints_unchanged() {
        for (text, hash, secret) in [
            (CONFIGURED, Hash::Sha256, hex(BYTES)),
            (CONFIGURED_384, Hash::Sha384, [hex(BYTES), hex(&BYTES[32..])].concat()),
        ] {
            let key = TlsKey::parse(text).unwrap();
            assert_eq!((key.transform, &key.secret[..], &key.reveal()[..]), (Some(hash), &secret[..], text));
        }
        assert!(TlsKey::parse(&CONFIGURED.replace(":01:", ":00:")).unwrap().transform.is_none());
    }

    #[test]
    fn psk_identities_match_old_and_new_libnvme() {
        for (text, expected) in [
            (
                CONFIGURED,
                [
                    "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
                    "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
                    "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
                    "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
                ],
            ),
            (
                CONFIGURED_384,
                [
                    "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys \
                     QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
                    "NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys",
                    "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys \
                     RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
                    "NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys",
                ],
            ),
        ] {
            let psks = TlsKey::parse(text).unwrap().psks(NAMES[0], NAMES[1]);
            assert_eq!(psks.iter().map(|psk| &psk.identity[..]).collect::<Vec<_>>(), expected);
            assert!(psks[1].key[..] != psks[3].key[..], "old and new keys differ under one identity");
        }
    }

    #[test]
    fn psk_identity_too_long_for_hkdf_context_exists_only_with_a_digest() {
        let long = format!("nqn.{}", "a".repeat(200));
        let psks = TlsKey::parse(CONFIGURED).unwrap().psks(&long, &long);
        assert!(psks.len() == 2 && psks.iter().all(|psk| psk.identity.starts_with("NVMe1R01")));
    }

    /// Values of the unit tests of Linux (`drivers/nvme/common/tests/auth_kunit.c`).
    #[test]
    fn generated_psks_match_the_linux_unit_tests() {
        let bytes = |count: usize, byte: &dyn Fn(u8) -> u8| (0u8..).take(count).map(byte).collect::<Vec<u8>>();
        for (hash, digest, expected) in [
            (
                Hash::Sha256,
                "OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=",
                "3c17da628474a04d2247c4cab47968c915388193f7c071bd9489cc3666cd7cc8",
            ),
            (
                Hash::Sha384,
                "cffMWk8TSS7HOQebjgYEIkrPrjWPV4JE5cdPB8WhEvY4JBW5YynKyv66XscN4A9n",
                "2774753233537b3fa50eb7d16a8e43457d85f4906c005b2236616c5d80939d0898fff15bb8b77119d2be0aac423e7590",
            ),
        ] {
            let key = bytes(hash.bytes(), &|at| b'A' + at);
            let challenges = [bytes(hash.bytes(), &|at| at), bytes(hash.bytes(), &|at| 0xff - at)];
            let psk =
                derive_generated_psk(hash, &key, [&challenges[0], &challenges[1]], ["hostnqn", "subsysnqn"]).unwrap();
            assert_eq!(psk.identity, format!("NVMe1G{:02} hostnqn subsysnqn {digest}", hash.id()));
            assert_eq!(psk.key[..], hex(expected));
        }
        assert!(derive_generated_psk(Hash::Sha512, &[0; 64], [&[0; 64], &[1; 64]], NAMES).is_none());
    }

    #[test]
    fn malformed_key_is_refused_with_its_reason_and_without_the_secret() {
        let flipped = CONFIGURED.replace("VRLb", "VRLc");
        for (text, fault) in [
            ("", InvalidKey::Prefix),
            ("DHHC-1:01:VRLbtnN9", InvalidKey::Prefix),
            ("NVMeTLSkey-2:01:VRLbtnN9AQb2:", InvalidKey::Prefix),
            ("NVMeTLSkey-1:04:VRLbtnN9AQb2:", InvalidKey::Hash),
            (&CONFIGURED.replace(":01:", ":03:"), InvalidKey::Hash),
            (&CONFIGURED.replace(":01:", ":02:"), InvalidKey::Length),
            (&CONFIGURED.replace(":01:", ":1:"), InvalidKey::Hash),
            ("NVMeTLSkey-1:01:VRLb!nN9:", InvalidKey::Base64),
            ("NVMeTLSkey-1:01:VRI=:", InvalidKey::Length),
            (&CONFIGURED[..CONFIGURED.len() - 5], InvalidKey::Length),
            (&format!("{CONFIGURED}:"), InvalidKey::Base64),
            (&flipped, InvalidKey::Crc),
        ] {
            let refused = TlsKey::parse(text).unwrap_err();
            assert_eq!(refused, fault, "{text}");
            assert!(!refused.to_string().contains("VRL"));
        }
    }

    #[test]
    fn secret_is_transformed_for_one_host_name_unless_stored_as_plain_key() {
        let text = "DHHC-1:01:rPTE0Q73nd3hEqqEuQNaPL11G/aFXpOHtldWXz9vNCeef4WV:";
        let secret = DhchapSecret::parse(text).unwrap();
        assert_eq!(secret.reveal(), text);
        assert_eq!(
            secret.key(NAMES[0])[..],
            Hash::Sha256.hmac(&secret.secret, &[b"nqn.psk-test-hostNVMe-over-Fabrics"])[..]
        );
        assert!(secret.key(NAMES[0])[..] != secret.key(NAMES[1])[..]);
        let itself = DhchapSecret::parse(&text.replace(":01:", ":00:")).unwrap();
        assert!(itself.key(NAMES[0])[..] == itself.secret[..] && itself.is_same(&secret));
        assert!(!format!("{secret:?}").contains("rPTE"));
        let drawn = DhchapSecret::generate(Hash::Sha512, &mut |bytes| bytes.fill(7));
        assert_eq!(DhchapSecret::parse(&drawn.reveal()).unwrap().secret[..], [7; 64]);
        let drawn = TlsKey::generate(Hash::Sha384, &mut |bytes| bytes.fill(7));
        assert_eq!(TlsKey::parse(&drawn.reveal()).unwrap().hash(), Hash::Sha384);
    }
}
