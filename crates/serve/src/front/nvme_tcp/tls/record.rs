//! Records of TLS 1.3 (RFC 8446, section 5): their frames and their encryption.

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce, Tag};
use phaselink_core::number::narrow;

use super::alert::Alert;
use super::schedule::{derive_record_key_and_iv, derive_updated_traffic_secret};
use super::suite::TlsCipherSuite;
use crate::front::nvme_tcp::authentication::secret::Secret;

/// Length of the header of a record in bytes.
pub(super) const HEADER_BYTES: usize = 5;
/// Length in bytes of the data of a record at most.
pub(super) const PLAIN_BYTES_MAX: usize = 1 << 14;
/// Length in bytes of an encrypted record at most, without its header.
const CIPHER_BYTES_MAX: usize = PLAIN_BYTES_MAX + 256;
/// Length of the tag that authenticates a record in bytes.
const TAG_BYTES: usize = 16;
/// Number of records after which a key is replaced: 2^24.5 full ones are safe with AES-GCM (RFC 8446, section 5.5).
const RECORDS_MAX: u64 = 23_000_000;

/// Type of the data of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentType {
    ChangeCipherSpec,
    Alert,
    Handshake,
    ApplicationData,
}

impl ContentType {
    pub(super) fn code(self) -> u8 {
        match self {
            ContentType::ChangeCipherSpec => 20,
            ContentType::Alert => 21,
            ContentType::Handshake => 22,
            ContentType::ApplicationData => 23,
        }
    }

    fn content_type_from_code(code: u8) -> Option<ContentType> {
        use ContentType::{ApplicationData, ChangeCipherSpec, Handshake};
        [ChangeCipherSpec, ContentType::Alert, Handshake, ApplicationData].into_iter().find(|kind| kind.code() == code)
    }
}

/// Returns the header of a record.
fn header(kind: ContentType, bytes: usize) -> [u8; HEADER_BYTES] {
    let [high, low] = narrow::<u16, _>(bytes).to_be_bytes();
    [kind.code(), 3, 3, high, low]
}

/// Appends records without encryption.
pub(super) fn append_unencrypted_records(kind: ContentType, data: &[u8], wire: &mut Vec<u8>) {
    for part in data.chunks(PLAIN_BYTES_MAX) {
        wire.extend(header(kind, part.len()));
        wire.extend(part);
    }
}

/// Returns type and length of the first record in some bytes; none if its header is not complete.
///
/// # Errors
/// If these bytes are not the header of a record.
pub(super) fn first(bytes: &[u8], is_encrypted: bool) -> Result<Option<(ContentType, usize)>, Alert> {
    let Some([kind, major, _, high, low]) = bytes.first_chunk() else { return Ok(None) };
    let kind = ContentType::content_type_from_code(*kind).filter(|_| *major == 3).ok_or(Alert::UnexpectedMessage)?;
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let allowed = if is_encrypted { CIPHER_BYTES_MAX } else { PLAIN_BYTES_MAX };
    if length > allowed { Err(Alert::RecordOverflow) } else { Ok(Some((kind, length))) }
}

enum RecordCipher {
    Aes128(Box<Aes128Gcm>),
    Aes256(Box<Aes256Gcm>),
}

/// Encryption of the records of one direction.
pub(super) struct RecordProtectionKey {
    suite: TlsCipherSuite,
    secret: Secret,
    cipher: RecordCipher,
    vector: Secret,
    records: u64,
}

impl RecordProtectionKey {
    /// Returns the key of the direction with this traffic secret.
    pub(super) fn new(suite: TlsCipherSuite, secret: Secret) -> RecordProtectionKey {
        let (key, vector) = derive_record_key_and_iv(suite, &secret);
        let cipher = match suite {
            TlsCipherSuite::Aes128GcmSha256 => {
                RecordCipher::Aes128(Box::new(Aes128Gcm::new_from_slice(&key).expect("the key has 16 bytes")))
            }
            TlsCipherSuite::Aes256GcmSha384 => {
                RecordCipher::Aes256(Box::new(Aes256Gcm::new_from_slice(&key).expect("the key has 32 bytes")))
            }
        };
        RecordProtectionKey { suite, secret, cipher, vector, records: 0 }
    }

    /// Replaces the key by the next one.
    pub(super) fn update(&mut self) {
        *self = RecordProtectionKey::new(self.suite, derive_updated_traffic_secret(self.suite.hash(), &self.secret));
    }

    /// Returns the traffic secret.
    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns true if the key has protected as many records as it safely can.
    pub(super) fn has_reached_record_limit(&self) -> bool {
        self.records >= RECORDS_MAX
    }

    /// Returns the nonce of the next record: its number, mixed into the vector.
    fn nonce(&mut self) -> [u8; 12] {
        let mut nonce = *self.vector.first_chunk::<12>().expect("the vector has 12 bytes");
        for (nonce, number) in nonce[4..].iter_mut().zip(self.records.to_be_bytes()) {
            *nonce ^= number;
        }
        self.records += 1;
        nonce
    }

    /// Appends one encrypted record with data of a type.
    pub(super) fn seal(&mut self, kind: ContentType, data: &[u8], wire: &mut Vec<u8>) {
        let header = header(ContentType::ApplicationData, data.len() + 1 + TAG_BYTES);
        wire.extend(header);
        let start = wire.len();
        wire.extend(data);
        wire.push(kind.code());
        let nonce = Nonce::from(self.nonce());
        let text = (&mut wire[start..]).into();
        let tag = match &self.cipher {
            RecordCipher::Aes128(cipher) => cipher.encrypt_inout_detached(&nonce, &header, text),
            RecordCipher::Aes256(cipher) => cipher.encrypt_inout_detached(&nonce, &header, text),
        };
        wire.extend(tag.expect("a record is far shorter than the cipher allows"));
    }

    /// Decrypts a record in place, and returns its type and the length of its data.
    ///
    /// # Errors
    /// If the record has been changed, or has nothing in it.
    pub(super) fn open(&mut self, record: &mut [u8]) -> Result<(ContentType, usize), Alert> {
        let (header, rest) = record.split_at_mut(HEADER_BYTES);
        let end = rest.len().checked_sub(TAG_BYTES).ok_or(Alert::BadRecordMac)?;
        let (text, tag) = rest.split_at_mut(end);
        let tag = Tag::try_from(&*tag).map_err(|_| Alert::BadRecordMac)?;
        let nonce = Nonce::from(self.nonce());
        let opened = match &self.cipher {
            RecordCipher::Aes128(cipher) => cipher.decrypt_inout_detached(&nonce, header, (&mut *text).into(), &tag),
            RecordCipher::Aes256(cipher) => cipher.decrypt_inout_detached(&nonce, header, (&mut *text).into(), &tag),
        };
        opened.map_err(|_| Alert::BadRecordMac)?;
        // Zeros after the content type are padding.
        let end = text.iter().rposition(|byte| *byte != 0).ok_or(Alert::UnexpectedMessage)?;
        let kind = ContentType::content_type_from_code(text[end]).ok_or(Alert::UnexpectedMessage)?;
        if end > PLAIN_BYTES_MAX { Err(Alert::RecordOverflow) } else { Ok((kind, end)) }
    }
}

impl std::fmt::Debug for RecordProtectionKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RecordKey({:?}, {} records)", self.suite, self.records)
    }
}
