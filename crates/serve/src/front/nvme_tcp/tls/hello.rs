//! Messages of the handshake of TLS 1.3 that both sides agree by (RFC 8446, section 4): as much of them as a handshake with a
//! pre-shared key needs. Extensions that are not known are skipped.

use phaselink_core::number::narrow;

use super::alert::Alert;
use super::suite::{ExchangeGroup, TlsCipherSuite};

/// Types of handshake messages.
pub(super) mod kind {
    pub(crate) const CLIENT_HELLO: u8 = 1;
    pub(crate) const SERVER_HELLO: u8 = 2;
    pub(crate) const NEW_SESSION_TICKET: u8 = 4;
    pub(crate) const ENCRYPTED_EXTENSIONS: u8 = 8;
    pub(crate) const FINISHED: u8 = 20;
    pub(crate) const KEY_UPDATE: u8 = 24;
    pub(crate) const MESSAGE_HASH: u8 = 254;
}

/// Types of extensions.
mod encode_extension {
    pub(super) const SUPPORTED_GROUPS: u16 = 10;
    pub(super) const PRE_SHARED_KEY: u16 = 41;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;
    pub(super) const PSK_MODES: u16 = 45;
    pub(super) const KEY_SHARE: u16 = 51;
}

/// Number of TLS 1.2, which stands in old fields of messages, and of TLS 1.3.
const LEGACY_VERSION: [u8; 2] = [3, 3];
const VERSION: [u8; 2] = [3, 4];
/// Mode of pre-shared keys with a key exchange (psk_dhe_ke).
const PSK_WITH_EXCHANGE: u8 = 1;
/// Random value of a ServerHello that asks for another share (HelloRetryRequest).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11,
    0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Reader of fields; each read fails where the bytes end.
#[derive(Clone, Copy)]
struct TlsFieldReader<'a>(&'a [u8]);

impl<'a> TlsFieldReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Alert> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Alert::DecodeError)?;
        self.0 = rest;
        Ok(taken)
    }

    fn read_u8_field(&mut self) -> Result<u8, Alert> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn read_u16_field(&mut self) -> Result<u16, Alert> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Reads a vector whose length is one byte.
    fn short(&mut self) -> Result<&'a [u8], Alert> {
        let count = self.read_u8_field()?;
        self.take(count.into())
    }

    /// Reads a vector whose length is two bytes.
    fn long(&mut self) -> Result<&'a [u8], Alert> {
        let count = self.read_u16_field()?;
        self.take(count.into())
    }

    fn end(self) -> Result<(), Alert> {
        if self.0.is_empty() { Ok(()) } else { Err(Alert::DecodeError) }
    }

    /// Reads fields until the bytes end.
    fn all<T>(mut self, mut read: impl FnMut(&mut TlsFieldReader<'a>) -> Result<T, Alert>) -> Result<Vec<T>, Alert> {
        let mut found = Vec::new();
        while !self.0.is_empty() {
            found.push(read(&mut self)?);
        }
        Ok(found)
    }
}

fn short(bytes: &[u8]) -> Vec<u8> {
    [&[narrow(bytes.len())], bytes].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&narrow::<u16, _>(bytes.len()).to_be_bytes(), bytes].concat()
}

/// Returns a handshake message of this type.
pub(super) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = narrow::<u32, _>(body.len()).to_be_bytes();
    [&[kind], &length[..], body].concat()
}

fn encode_extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), &long(data)[..]].concat()
}

/// Reads extensions, each of which must come at most once.
fn extensions<'a>(fields: &mut TlsFieldReader<'a>) -> Result<Vec<(u16, &'a [u8])>, Alert> {
    let found = TlsFieldReader(fields.long()?).all(|fields| Ok((fields.read_u16_field()?, fields.long()?)))?;
    fields.end()?;
    let is_repeated = |at: usize| found[..at].iter().any(|(kind, _)| *kind == found[at].0);
    if (0..found.len()).any(is_repeated) { Err(Alert::IllegalParameter) } else { Ok(found) }
}

fn find_extension<'a>(extensions: &[(u16, &'a [u8])], kind: u16) -> Option<TlsFieldReader<'a>> {
    extensions.iter().find(|(found, _)| *found == kind).map(|(_, data)| TlsFieldReader(data))
}

/// Pre-shared key that a client offers: its identity, and the proof that the client knows it.
#[derive(Debug)]
pub(super) struct OfferedPsk<'a> {
    pub(super) identity: &'a [u8],
    pub(super) binder: &'a [u8],
}

/// ClientHello as the server reads it.
#[derive(Debug)]
pub(super) struct ClientHello<'a> {
    pub(super) session: &'a [u8],
    pub(super) suites: Vec<u16>,
    pub(super) groups: Vec<u16>,
    pub(super) shares: Vec<(u16, &'a [u8])>,
    pub(super) offers: Vec<OfferedPsk<'a>>,
    /// Length of the message without its binders, which prove the knowledge of that much.
    pub(super) bound_bytes: usize,
}

impl<'a> ClientHello<'a> {
    /// Reads a message, with its header.
    ///
    /// # Errors
    /// If the message is malformed, or a client without TLS 1.3 and a pre-shared key has sent it.
    pub(super) fn read(message: &'a [u8]) -> Result<ClientHello<'a>, Alert> {
        let mut fields = TlsFieldReader(&message[4..]);
        fields.take(2 + 32)?;
        let (session, suites, methods) = (fields.short()?, fields.long()?, fields.short()?);
        // A client without extensions, or without the version extension, predates TLS 1.3.
        let found = if fields.0.is_empty() { Vec::new() } else { extensions(&mut fields)? };
        let mut versions =
            find_extension(&found, encode_extension::SUPPORTED_VERSIONS).ok_or(Alert::ProtocolVersion)?;
        if !versions.short()?.chunks(2).any(|version| version == VERSION) {
            return Err(Alert::ProtocolVersion);
        }
        if methods != [0] || session.len() > 32 {
            return Err(Alert::IllegalParameter);
        }
        // Without a pre-shared key, the server would need a certificate, which it does not have.
        let mut psks = find_extension(&found, encode_extension::PRE_SHARED_KEY).ok_or(Alert::HandshakeFailure)?;
        if found.last().map(|(kind, _)| *kind) != Some(encode_extension::PRE_SHARED_KEY) {
            return Err(Alert::IllegalParameter);
        }
        let required = |kind| find_extension(&found, kind).ok_or(Alert::MissingExtension);
        if !required(encode_extension::PSK_MODES)?.short()?.contains(&PSK_WITH_EXCHANGE) {
            return Err(Alert::HandshakeFailure);
        }
        let identities = TlsFieldReader(psks.long()?).all(|fields| {
            let identity = fields.long()?;
            fields.take(4).map(|_| identity)
        })?;
        let bound_bytes = message.len() - psks.0.len();
        let binders = TlsFieldReader(psks.long()?).all(TlsFieldReader::short)?;
        psks.end()?;
        if identities.len() != binders.len() {
            return Err(Alert::IllegalParameter);
        }
        let offers =
            identities.into_iter().zip(binders).map(|(identity, binder)| OfferedPsk { identity, binder }).collect();
        Ok(ClientHello {
            session,
            suites: TlsFieldReader(suites).all(TlsFieldReader::read_u16_field)?,
            groups: TlsFieldReader(required(encode_extension::SUPPORTED_GROUPS)?.long()?)
                .all(TlsFieldReader::read_u16_field)?,
            shares: TlsFieldReader(required(encode_extension::KEY_SHARE)?.long()?)
                .all(|fields| Ok((fields.read_u16_field()?, fields.long()?)))?,
            offers,
            bound_bytes,
        })
    }
}

/// Writes a ClientHello whose binders are still zeros, and returns how much of it they prove.
pub(super) fn write_client_hello(
    random: &[u8; 32],
    suites: &[TlsCipherSuite],
    share: (ExchangeGroup, &[u8]),
    psks: &[(&str, usize)],
) -> (Vec<u8>, usize) {
    let suites: Vec<u8> = suites.iter().flat_map(|suite| suite.code().to_be_bytes()).collect();
    let groups: Vec<u8> = ExchangeGroup::ALL.into_iter().flat_map(|group| group.code().to_be_bytes()).collect();
    let share = [&share.0.code().to_be_bytes(), &long(share.1)[..]].concat();
    let identities: Vec<u8> =
        psks.iter().flat_map(|(identity, _)| [long(identity.as_bytes()), vec![0; 4]].concat()).collect();
    let binders = long(&psks.iter().flat_map(|(_, bytes)| short(&vec![0; *bytes])).collect::<Vec<u8>>());
    let extensions = [
        encode_extension(encode_extension::SUPPORTED_VERSIONS, &short(&VERSION)),
        encode_extension(encode_extension::SUPPORTED_GROUPS, &long(&groups)),
        encode_extension(encode_extension::PSK_MODES, &short(&[PSK_WITH_EXCHANGE])),
        encode_extension(encode_extension::KEY_SHARE, &long(&share)),
        encode_extension(encode_extension::PRE_SHARED_KEY, &[long(&identities), binders.clone()].concat()),
    ]
    .concat();
    // The message has no session identifier and no compression.
    let body = [&LEGACY_VERSION[..], random, &[0], &long(&suites), &[1, 0], &long(&extensions)].concat();
    let message = message(kind::CLIENT_HELLO, &body);
    let bound_bytes = message.len() - binders.len();
    (message, bound_bytes)
}

/// ServerHello as the client reads it.
#[derive(Debug)]
pub(super) enum ServerHello<'a> {
    /// Chosen suite, share of the server, and place of the chosen key in the client's offers.
    Chosen { suite: u16, share: (u16, &'a [u8]), psk: u16 },
    /// Suite, and group of which the server asks for a share (HelloRetryRequest).
    Retry { suite: u16, group: u16 },
}

impl<'a> ServerHello<'a> {
    /// Reads a message, with its header.
    ///
    /// # Errors
    /// If the message is malformed, or the server has chosen what the client has not offered.
    pub(super) fn read(message: &'a [u8]) -> Result<ServerHello<'a>, Alert> {
        let mut fields = TlsFieldReader(&message[4..]);
        fields.take(2)?;
        let random = fields.take(32)?;
        let (session, suite, method) = (fields.short()?, fields.read_u16_field()?, fields.read_u8_field()?);
        let found = extensions(&mut fields)?;
        if find_extension(&found, encode_extension::SUPPORTED_VERSIONS).map(|fields| fields.0) != Some(&VERSION) {
            return Err(Alert::ProtocolVersion);
        }
        if !session.is_empty() || method != 0 {
            return Err(Alert::IllegalParameter);
        }
        let mut share = find_extension(&found, encode_extension::KEY_SHARE).ok_or(Alert::MissingExtension)?;
        let group = share.read_u16_field()?;
        if random == RETRY {
            share.end()?;
            let is_known = |kind| [encode_extension::SUPPORTED_VERSIONS, encode_extension::KEY_SHARE].contains(&kind);
            let is_fine = found.iter().all(|(kind, _)| is_known(*kind));
            return if is_fine { Ok(ServerHello::Retry { suite, group }) } else { Err(Alert::UnsupportedExtension) };
        }
        let public = share.long()?;
        share.end()?;
        // Without a chosen key, the server would have to send a certificate, so fail.
        let psk = find_extension(&found, encode_extension::PRE_SHARED_KEY)
            .ok_or(Alert::HandshakeFailure)?
            .read_u16_field()?;
        Ok(ServerHello::Chosen { suite, share: (group, public), psk })
    }
}

/// Returns a ServerHello.
pub(super) fn encode_server_hello(
    random: &[u8; 32],
    session: &[u8],
    suite: TlsCipherSuite,
    share: (ExchangeGroup, &[u8]),
    psk: u16,
) -> Vec<u8> {
    let share = [&share.0.code().to_be_bytes(), &long(share.1)[..]].concat();
    let psk = encode_extension(encode_extension::PRE_SHARED_KEY, &psk.to_be_bytes());
    encode_server_hello_message(
        random,
        session,
        suite,
        &[encode_extension(encode_extension::KEY_SHARE, &share), psk].concat(),
    )
}

/// Returns a HelloRetryRequest for a share of this group.
pub(super) fn encode_hello_retry_request(session: &[u8], suite: TlsCipherSuite, group: ExchangeGroup) -> Vec<u8> {
    encode_server_hello_message(
        &RETRY,
        session,
        suite,
        &encode_extension(encode_extension::KEY_SHARE, &group.code().to_be_bytes()),
    )
}

fn encode_server_hello_message(random: &[u8; 32], session: &[u8], suite: TlsCipherSuite, more: &[u8]) -> Vec<u8> {
    let extensions = [&encode_extension(encode_extension::SUPPORTED_VERSIONS, &VERSION)[..], more].concat();
    let parts = [&LEGACY_VERSION[..], random, &short(session), &suite.code().to_be_bytes(), &[0], &long(&extensions)];
    message(kind::SERVER_HELLO, &parts.concat())
}
