//! Messages of an authentication transaction (Base Specification 2.1, sections 8.3.4.4 and 8.3.4.5).
//!
//! ```text
//! host                                       controller
//!  │ AUTH_Negotiate       hashes, groups         │  Authentication Send
//!  ├────────────────────────────────────────────►│
//!  │ DH-HMAC-CHAP_Challenge   S1, C1, g^x        │  Authentication Receive
//!  │◄────────────────────────────────────────────┤
//!  │ DH-HMAC-CHAP_Reply   R1, g^y, [S2, C2]      │  Authentication Send
//!  ├────────────────────────────────────────────►│
//!  │ DH-HMAC-CHAP_Success1     [R2]              │  Authentication Receive
//!  │◄────────────────────────────────────────────┤
//!  │ [DH-HMAC-CHAP_Success2]                     │  Authentication Send
//!  ├────────────────────────────────────────────►│
//! ```
//!
//! In brackets: what is only there if the host authenticates the controller, too. AUTH_Failure1 takes the place of a message
//! of the controller, AUTH_Failure2 that of a message of the host.

use phaselink_core::number::narrow;

use super::group::DhGroup;
use super::hash::Hash;

/// Security protocol of NVMe authentication (SECP of Authentication Send and Receive).
pub const SECURITY_PROTOCOL: u8 = 0xe9;
/// Fields SPSP0 and SPSP1 of Authentication Send and Receive: both 01h.
pub const PROTOCOL_SPECIFIC: u16 = 0x0101;
/// Length in bytes of the longest message: a reply with two hashes of SHA-512 and a value of the group of 8192 bits.
pub const MESSAGE_BYTES_MAX: usize = 16 + 2 * 64 + 1024;

/// Value of AUTH_TYPE of messages that all authentication protocols have.
const COMMON: u8 = 0;
/// Value of AUTH_TYPE of messages of DH-HMAC-CHAP, and identifier of that protocol.
const DHCHAP: u8 = 1;
/// Lengths in bytes of the fixed part of AUTH_Negotiate, of one protocol descriptor, and of the part of other messages
/// before their values.
const NEGOTIATE_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 64;
const FIXED_BYTES: usize = 16;
const FAILURE_BYTES: usize = 8;
/// Place and maximum number of the identifiers of hash functions and groups in a protocol descriptor.
const HASHES_AT: usize = 4;
const GROUPS_AT: usize = 34;
const IDS_MAX: usize = 30;

/// Reason for a failed authentication: the explanations of reason code 01h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticationFailureReason {
    /// The response of the other side is wrong, or one side has no key.
    AuthenticationFailed,
    /// No authentication protocol that was proposed can be used.
    ProtocolNotUsable,
    /// A secure channel was asked for where there can be none.
    SecureChannelMismatch,
    /// No hash function that was proposed can be used.
    HashNotUsable,
    /// No Diffie-Hellman group that was proposed can be used.
    GroupNotUsable,
    /// A message has an invalid field or length.
    IncorrectPayload,
    /// A message is another one than the transaction expects.
    IncorrectMessage,
}

impl AuthenticationFailureReason {
    const ALL: [AuthenticationFailureReason; 7] = [
        AuthenticationFailureReason::AuthenticationFailed,
        AuthenticationFailureReason::ProtocolNotUsable,
        AuthenticationFailureReason::SecureChannelMismatch,
        AuthenticationFailureReason::HashNotUsable,
        AuthenticationFailureReason::GroupNotUsable,
        AuthenticationFailureReason::IncorrectPayload,
        AuthenticationFailureReason::IncorrectMessage,
    ];

    fn code(self) -> u8 {
        narrow(1 + AuthenticationFailureReason::ALL.iter().position(|reason| *reason == self).unwrap_or_default())
    }

    fn from_code(code: u8) -> AuthenticationFailureReason {
        let known = AuthenticationFailureReason::ALL.into_iter().find(|reason| reason.code() == code);
        known.unwrap_or(AuthenticationFailureReason::AuthenticationFailed)
    }
}

impl std::fmt::Display for AuthenticationFailureReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            AuthenticationFailureReason::AuthenticationFailed => {
                "authentication failed: the keys of host and controller differ"
            }
            AuthenticationFailureReason::ProtocolNotUsable => "authentication protocol not usable",
            AuthenticationFailureReason::SecureChannelMismatch => "secure channel concatenation mismatch",
            AuthenticationFailureReason::HashNotUsable => "hash function not usable",
            AuthenticationFailureReason::GroupNotUsable => "DH group not usable",
            AuthenticationFailureReason::IncorrectPayload => "incorrect payload",
            AuthenticationFailureReason::IncorrectMessage => "incorrect protocol message",
        })
    }
}

/// Secure channel that a host asks for in AUTH_Negotiate (SC_C).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecureChannel {
    /// Authentication only.
    None,
    /// Generation of a pre-shared key for TLS.
    NewTlsPsk,
    /// Replacement of the pre-shared key of the TLS channel that carries the messages.
    ReplaceTlsPsk,
    /// Other values.
    Reserved(u8),
}

impl SecureChannel {
    fn from_code(code: u8) -> SecureChannel {
        match code {
            0 => SecureChannel::None,
            2 => SecureChannel::NewTlsPsk,
            3 => SecureChannel::ReplaceTlsPsk,
            other => SecureChannel::Reserved(other),
        }
    }

    /// Returns the value of SC_C, which counts in responses.
    pub fn code(self) -> u8 {
        match self {
            SecureChannel::None => 0,
            SecureChannel::NewTlsPsk => 2,
            SecureChannel::ReplaceTlsPsk => 3,
            SecureChannel::Reserved(other) => other,
        }
    }
}

/// AuthenticationMessage of an authentication transaction, without its transaction identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthenticationMessage {
    /// AUTH_Negotiate: proposals of the host.
    Negotiate {
        /// Secure channel that is to follow.
        channel: SecureChannel,
        /// Identifiers of the hash functions and of the groups; none if DH-HMAC-CHAP is not among the protocols.
        proposals: Option<(Vec<u8>, Vec<u8>)>,
    },
    /// DH-HMAC-CHAP_Challenge.
    Challenge {
        /// Identifier of the chosen hash function.
        hash: u8,
        /// Identifier of the chosen group.
        group: u8,
        /// Sequence number S1.
        sequence: u32,
        /// Challenge C1.
        challenge: Vec<u8>,
        /// Public value of the controller; empty for the NULL group.
        public: Vec<u8>,
    },
    /// DH-HMAC-CHAP_Reply.
    Reply {
        /// Response R1.
        response: Vec<u8>,
        /// Sequence number S2; 0 if the controller need not authenticate itself.
        sequence: u32,
        /// Challenge C2, if there is one.
        challenge: Option<Vec<u8>>,
        /// Public value of the host; empty for the NULL group.
        public: Vec<u8>,
    },
    /// DH-HMAC-CHAP_Success1: the host is who it says.
    Success1 {
        /// Number of bytes of a hash.
        hash_bytes: u8,
        /// Response R2, if the host has asked for one.
        response: Option<Vec<u8>>,
    },
    /// DH-HMAC-CHAP_Success2: the controller is who it says.
    Success2,
    /// AUTH_Failure1, from the controller.
    Failure1(AuthenticationFailureReason),
    /// AUTH_Failure2, from the host.
    Failure2(AuthenticationFailureReason),
}

impl AuthenticationMessage {
    fn kind(&self) -> [u8; 2] {
        match self {
            AuthenticationMessage::Negotiate { .. } => [COMMON, 0x00],
            AuthenticationMessage::Failure2(_) => [COMMON, 0xf0],
            AuthenticationMessage::Failure1(_) => [COMMON, 0xf1],
            AuthenticationMessage::Challenge { .. } => [DHCHAP, 0x01],
            AuthenticationMessage::Reply { .. } => [DHCHAP, 0x02],
            AuthenticationMessage::Success1 { .. } => [DHCHAP, 0x03],
            AuthenticationMessage::Success2 => [DHCHAP, 0x04],
        }
    }

    /// Returns the bytes of the message in a transaction.
    pub fn encode(&self, transaction: u16) -> Vec<u8> {
        let [kind, id] = self.kind();
        let [low, high] = transaction.to_le_bytes();
        let mut bytes = vec![kind, id, 0, 0, low, high];
        match self {
            AuthenticationMessage::Negotiate { channel, proposals } => {
                bytes.extend([channel.code(), u8::from(proposals.is_some())]);
                bytes.extend(proposals.iter().flat_map(|(hashes, groups)| descriptor(hashes, groups)));
            }
            AuthenticationMessage::Challenge { hash, group, sequence, challenge, public } => {
                bytes.extend([narrow(challenge.len()), 0, *hash, *group]);
                bytes.extend(narrow::<u16, _>(public.len()).to_le_bytes());
                bytes.extend(sequence.to_le_bytes());
                bytes.extend([&challenge[..], public].concat());
            }
            AuthenticationMessage::Reply { response, sequence, challenge, public } => {
                let none = vec![0; response.len()];
                bytes.extend([narrow(response.len()), 0, u8::from(challenge.is_some()), 0]);
                bytes.extend(narrow::<u16, _>(public.len()).to_le_bytes());
                bytes.extend(sequence.to_le_bytes());
                bytes.extend([response, challenge.as_ref().unwrap_or(&none), &public[..]].concat());
            }
            AuthenticationMessage::Success1 { hash_bytes, response } => {
                bytes.extend([*hash_bytes, 0, u8::from(response.is_some())]);
                bytes.extend([0; 7]);
                bytes.extend(response.iter().flatten());
            }
            AuthenticationMessage::Success2 => bytes.extend([0; 10]),
            AuthenticationMessage::Failure1(reason) | AuthenticationMessage::Failure2(reason) => {
                bytes.extend([1, reason.code()])
            }
        }
        bytes
    }

    /// Reads a message and its transaction identifier. Bytes behind a message are ignored, since a buffer may be longer.
    ///
    /// # Errors
    /// If the message does not exist, has an invalid field, or is cut off.
    pub fn decode(bytes: &[u8]) -> Result<(u16, AuthenticationMessage), AuthenticationFailureReason> {
        let Some([kind, id, _, _, low, high]) = bytes.first_chunk() else {
            return Err(AuthenticationFailureReason::IncorrectPayload);
        };
        let message = match (*kind, *id) {
            (COMMON, 0x00) => decode_negotiate_message(bytes),
            (COMMON, 0xf0) => decode_failure_message(bytes).map(AuthenticationMessage::Failure2),
            (COMMON, 0xf1) => decode_failure_message(bytes).map(AuthenticationMessage::Failure1),
            (DHCHAP, 0x01) => challenge(bytes),
            (DHCHAP, 0x02) => decode_reply_message(bytes),
            (DHCHAP, 0x03) => decode_success1_message(bytes),
            (DHCHAP, 0x04) => bytes.get(..FIXED_BYTES).map(|_| AuthenticationMessage::Success2),
            _ => return Err(AuthenticationFailureReason::IncorrectMessage),
        };
        let message = message.ok_or(AuthenticationFailureReason::IncorrectPayload)?;
        Ok((u16::from_le_bytes([*low, *high]), message))
    }
}

fn descriptor(hashes: &[u8], groups: &[u8]) -> [u8; DESCRIPTOR_BYTES] {
    let mut bytes = [0; DESCRIPTOR_BYTES];
    bytes[..HASHES_AT].copy_from_slice(&[DHCHAP, 0, narrow(hashes.len()), narrow(groups.len())]);
    bytes[HASHES_AT..][..hashes.len()].copy_from_slice(hashes);
    bytes[GROUPS_AT..][..groups.len()].copy_from_slice(groups);
    bytes
}

fn decode_negotiate_message(bytes: &[u8]) -> Option<AuthenticationMessage> {
    let channel = SecureChannel::from_code(*bytes.get(6)?);
    let descriptors = bytes.get(NEGOTIATE_BYTES..)?.get(..usize::from(bytes[7]) * DESCRIPTOR_BYTES)?;
    let found = descriptors.chunks(DESCRIPTOR_BYTES).find(|descriptor| descriptor[0] == DHCHAP);
    let ids = |descriptor: &[u8], count: u8, at: usize| {
        let count = usize::from(count);
        (1..=IDS_MAX).contains(&count).then(|| descriptor[at..at + count].to_vec())
    };
    let proposals = match found {
        Some(descriptor) => {
            Some((ids(descriptor, descriptor[2], HASHES_AT)?, ids(descriptor, descriptor[3], GROUPS_AT)?))
        }
        None => None,
    };
    Some(AuthenticationMessage::Negotiate { channel, proposals })
}

/// Reads the length of a hash, the length of a public value, and the sequence number, which two messages have in one place.
fn decode_common_message_lengths(bytes: &[u8]) -> Option<(usize, usize, u32)> {
    let fixed: &[u8; FIXED_BYTES] = bytes.first_chunk()?;
    let public = usize::from(u16::from_le_bytes([fixed[10], fixed[11]]));
    let sequence = u32::from_le_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]);
    public.is_multiple_of(4).then_some((usize::from(fixed[6]), public, sequence))
}

fn challenge(bytes: &[u8]) -> Option<AuthenticationMessage> {
    let (hash, public, sequence) = decode_common_message_lengths(bytes)?;
    let values = bytes[FIXED_BYTES..].get(..hash + public)?;
    let (challenge, public) = values.split_at(hash);
    let (hash, group) = (bytes[8], bytes[9]);
    Some(AuthenticationMessage::Challenge {
        hash,
        group,
        sequence,
        challenge: challenge.to_vec(),
        public: public.to_vec(),
    })
}

fn decode_reply_message(bytes: &[u8]) -> Option<AuthenticationMessage> {
    let (hash, public, sequence) = decode_common_message_lengths(bytes)?;
    let values = bytes[FIXED_BYTES..].get(..2 * hash + public)?;
    let challenge = decode_boolean_byte(bytes[8])?.then(|| values[hash..2 * hash].to_vec());
    let (response, public) = (values[..hash].to_vec(), values[2 * hash..].to_vec());
    Some(AuthenticationMessage::Reply { response, sequence, challenge, public })
}

fn decode_success1_message(bytes: &[u8]) -> Option<AuthenticationMessage> {
    let fixed: &[u8; FIXED_BYTES] = bytes.first_chunk()?;
    let response = match decode_boolean_byte(fixed[8])? {
        true => Some(bytes[FIXED_BYTES..].get(..usize::from(fixed[6]))?.to_vec()),
        false => None,
    };
    Some(AuthenticationMessage::Success1 { hash_bytes: fixed[6], response })
}

fn decode_failure_message(bytes: &[u8]) -> Option<AuthenticationFailureReason> {
    bytes.get(..FAILURE_BYTES).map(|bytes| AuthenticationFailureReason::from_code(bytes[7]))
}

fn decode_boolean_byte(byte: u8) -> Option<bool> {
    (byte < 2).then_some(byte == 1)
}

/// Side of a transaction that computes a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticationSide {
    /// The host responds to the challenge of the controller (R1).
    Host,
    /// The controller responds to the challenge of the host (R2).
    Controller,
}

/// Values over which a response is computed.
#[derive(Clone, Copy, Debug)]
pub struct ChallengeResponseInput<'a> {
    /// Chosen hash function.
    pub hash: Hash,
    /// Chosen group.
    pub group: DhGroup,
    /// Shared key of the exchange; empty for the NULL group.
    pub shared: &'a [u8],
    /// Challenge that is responded to.
    pub challenge: &'a [u8],
    /// Sequence number of that challenge.
    pub sequence: u32,
    /// Transaction identifier.
    pub transaction: u16,
    /// Secure channel in AUTH_Negotiate.
    pub channel: SecureChannel,
    /// Names of the host and of the subsystem.
    pub names: [&'a str; 2],
}

impl ChallengeResponseInput<'_> {
    /// Passes the parts of the message whose HMAC is the response of a side (sections 8.3.4.5.4 and 8.3.4.5.5).
    pub fn with_parts<T>(&self, side: AuthenticationSide, use_parts: impl FnOnce(&[&[u8]]) -> T) -> T {
        let session = self.hash.digest(self.shared);
        let augmented = match self.group {
            DhGroup::Null => self.challenge.to_vec(),
            _ => self.hash.hmac(&session, &[self.challenge]).to_vec(),
        };
        let [host, subsystem] = self.names.map(str::as_bytes);
        let (role, first, second) = match side {
            AuthenticationSide::Host => (&b"HostHost"[..], host, subsystem),
            AuthenticationSide::Controller => (&b"Controller"[..], subsystem, host),
        };
        let (sequence, transaction) = (self.sequence.to_le_bytes(), self.transaction.to_le_bytes());
        use_parts(&[&augmented, &sequence, &transaction, &[self.channel.code()], role, first, &[0], second])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<AuthenticationMessage> {
        let (challenge, public) = (vec![1; 32], vec![2; 256]);
        let proposals = Some((vec![1, 2, 3], vec![0, 1, 5]));
        vec![
            AuthenticationMessage::Negotiate { channel: SecureChannel::NewTlsPsk, proposals },
            AuthenticationMessage::Challenge {
                hash: 1,
                group: 1,
                sequence: 9,
                challenge: challenge.clone(),
                public: public.clone(),
            },
            AuthenticationMessage::Reply { response: vec![3; 32], sequence: 7, challenge: Some(challenge), public },
            AuthenticationMessage::Success1 { hash_bytes: 32, response: Some(vec![4; 32]) },
            AuthenticationMessage::Success2,
            AuthenticationMessage::Failure1(AuthenticationFailureReason::HashNotUsable),
            AuthenticationMessage::Failure2(AuthenticationFailureReason::IncorrectMessage),
        ]
    }

    #[test]
    fn authentication_messages_decode_as_encoded_and_truncated_ones_fail() {
        for message in all() {
            let bytes = message.encode(0x1234);
            assert_eq!(AuthenticationMessage::decode(&bytes), Ok((0x1234, message.clone())));
            assert_eq!(AuthenticationMessage::decode(&[&bytes[..], &[9; 8]].concat()), Ok((0x1234, message.clone())));
            for end in 0..bytes.len() {
                assert_eq!(
                    AuthenticationMessage::decode(&bytes[..end]),
                    Err(AuthenticationFailureReason::IncorrectPayload),
                    "{message:?} {end}"
                );
            }
        }
    }

    #[test]
    fn authentication_message_fields_are_at_the_specified_offsets() {
        let bytes = all()[0].encode(0x0201);
        assert_eq!(bytes[..12], [0, 0, 0, 0, 1, 2, 2, 1, 1, 0, 3, 3]);
        assert_eq!((&bytes[12..15], &bytes[42..45], bytes.len()), (&[1, 2, 3][..], &[0, 1, 5][..], 72));
        assert_eq!(all()[1].encode(1)[..16], [1, 1, 0, 0, 1, 0, 32, 0, 1, 1, 0, 1, 9, 0, 0, 0]);
        assert_eq!(all()[2].encode(1)[..16], [1, 2, 0, 0, 1, 0, 32, 0, 1, 0, 0, 1, 7, 0, 0, 0]);
        assert_eq!(all()[3].encode(1)[..9], [1, 3, 0, 0, 1, 0, 32, 0, 1]);
        assert_eq!(all()[5].encode(1), [0, 0xf1, 0, 0, 1, 0, 1, 4]);
        assert_eq!(all()[6].encode(1), [0, 0xf0, 0, 0, 1, 0, 1, 7]);
    }

    #[test]
    fn authentication_messages_with_invalid_fields_are_refused() {
        let changed = |message: usize, at: usize, byte: u8| {
            let mut bytes = all()[message].encode(1);
            bytes[at] = byte;
            AuthenticationMessage::decode(&bytes)
        };
        for (message, at, byte) in [(0, 10, 0), (0, 10, 31), (0, 11, 31), (0, 7, 2), (2, 8, 2), (2, 10, 2), (3, 8, 3)] {
            assert_eq!(
                changed(message, at, byte),
                Err(AuthenticationFailureReason::IncorrectPayload),
                "{message} {at}"
            );
        }
        for (message, at, byte) in [(0, 0, 2), (0, 1, 1), (1, 1, 5), (1, 0, 9)] {
            assert_eq!(
                changed(message, at, byte),
                Err(AuthenticationFailureReason::IncorrectMessage),
                "{message} {at}"
            );
        }
        let other = changed(0, 8, 2).unwrap().1;
        assert_eq!(other, AuthenticationMessage::Negotiate { channel: SecureChannel::NewTlsPsk, proposals: None });
    }
}
