//! Alerts of TLS (RFC 8446, section 6), which end a connection.

use std::fmt;

/// Reason for which a connection ends. This side sends it, unless it is [`TlsAlert::Peer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsAlert {
    /// A message that must not come now.
    UnexpectedMessage,
    /// A record that is not as the other side has sealed it.
    BadRecordMac,
    /// A record that is too long.
    RecordOverflow,
    /// Host and subsystem have no cipher suite, group or mode in common.
    HandshakeFailure,
    /// A field of a message is invalid.
    IllegalParameter,
    /// A message cannot be read.
    DecodeError,
    /// A proof that the other side knows the pre-shared key is wrong.
    DecryptError,
    /// The other side does not speak TLS 1.3.
    ProtocolVersion,
    /// An extension is missing.
    MissingExtension,
    /// An extension that was not asked for.
    UnsupportedExtension,
    /// The pre-shared key that the other side names is not known.
    UnknownPskIdentity,
    /// The other side has ended the connection with this alert.
    Peer(u8),
}

impl TlsAlert {
    /// Returns the number of the alert; none if the other side has sent it.
    pub(super) fn code(self) -> Option<u8> {
        Some(match self {
            TlsAlert::UnexpectedMessage => 10,
            TlsAlert::BadRecordMac => 20,
            TlsAlert::RecordOverflow => 22,
            TlsAlert::HandshakeFailure => 40,
            TlsAlert::IllegalParameter => 47,
            TlsAlert::DecodeError => 50,
            TlsAlert::DecryptError => 51,
            TlsAlert::ProtocolVersion => 70,
            TlsAlert::MissingExtension => 109,
            TlsAlert::UnsupportedExtension => 110,
            TlsAlert::UnknownPskIdentity => 115,
            TlsAlert::Peer(_) => return None,
        })
    }
}

impl fmt::Display for TlsAlert {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            TlsAlert::UnexpectedMessage => "TLS: an unexpected message or record",
            TlsAlert::BadRecordMac => "TLS: a record that has been changed",
            TlsAlert::RecordOverflow => "TLS: a record that is too long",
            TlsAlert::HandshakeFailure => "TLS: no cipher suite, group or mode in common",
            TlsAlert::IllegalParameter => "TLS: an invalid field of a message",
            TlsAlert::DecodeError => "TLS: a message that cannot be read",
            TlsAlert::DecryptError => "TLS: the keys of host and subsystem differ",
            TlsAlert::ProtocolVersion => "TLS: the other side does not speak version 1.3",
            TlsAlert::MissingExtension => "TLS: an extension is missing",
            TlsAlert::UnsupportedExtension => "TLS: an extension that was not asked for",
            TlsAlert::UnknownPskIdentity => "TLS: a pre-shared key that is not known",
            TlsAlert::Peer(115) => "TLS: the other side does not know the pre-shared key",
            TlsAlert::Peer(51 | 20) => "TLS: the other side has another pre-shared key",
            TlsAlert::Peer(code) => {
                return write!(formatter, "TLS: the other side has ended the connection (alert {code})");
            }
        })
    }
}

impl std::error::Error for TlsAlert {}
