//! Alerts of TLS (RFC 8446, section 6), which end a connection.

use std::fmt;

/// Reason for which a connection ends. This side sends it, unless it is [`Alert::Peer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alert {
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

impl Alert {
    /// Returns the number of the alert; none if the other side has sent it.
    pub(super) fn code(self) -> Option<u8> {
        Some(match self {
            Alert::UnexpectedMessage => 10,
            Alert::BadRecordMac => 20,
            Alert::RecordOverflow => 22,
            Alert::HandshakeFailure => 40,
            Alert::IllegalParameter => 47,
            Alert::DecodeError => 50,
            Alert::DecryptError => 51,
            Alert::ProtocolVersion => 70,
            Alert::MissingExtension => 109,
            Alert::UnsupportedExtension => 110,
            Alert::UnknownPskIdentity => 115,
            Alert::Peer(_) => return None,
        })
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Alert::UnexpectedMessage => "TLS: an unexpected message or record",
            Alert::BadRecordMac => "TLS: a record that has been changed",
            Alert::RecordOverflow => "TLS: a record that is too long",
            Alert::HandshakeFailure => "TLS: no cipher suite, group or mode in common",
            Alert::IllegalParameter => "TLS: an invalid field of a message",
            Alert::DecodeError => "TLS: a message that cannot be read",
            Alert::DecryptError => "TLS: the keys of host and subsystem differ",
            Alert::ProtocolVersion => "TLS: the other side does not speak version 1.3",
            Alert::MissingExtension => "TLS: an extension is missing",
            Alert::UnsupportedExtension => "TLS: an extension that was not asked for",
            Alert::UnknownPskIdentity => "TLS: a pre-shared key that is not known",
            Alert::Peer(115) => "TLS: the other side does not know the pre-shared key",
            Alert::Peer(51 | 20) => "TLS: the other side has another pre-shared key",
            Alert::Peer(code) => {
                return write!(formatter, "TLS: the other side has ended the connection (alert {code})");
            }
        })
    }
}

impl std::error::Error for Alert {}
