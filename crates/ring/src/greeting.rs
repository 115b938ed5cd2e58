//! Two messages that open a connection: the client requests queues, and the server grants them and sends the memory's
//! descriptor.

use std::io;

use crate::layout::Layout;
use crate::trailer::TagWidth;

/// Version of the memory layout, the commands and both messages. A server refuses a client of another version.
pub const VERSION: u32 = 3;
/// First eight bytes of either message.
const MAGIC: u64 = u64::from_le_bytes(*b"phaselnk");

/// Length in bytes of the message from the client.
pub const HELLO_BYTES: usize = 32;
/// Length in bytes of the message from the server.
pub const WELCOME_BYTES: usize = 64;

/// Message from the client: the queues that it requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the protocol that the client speaks.
    pub version: u32,
    /// Number and size of the queues that the client requests.
    pub layout: Layout,
    /// True if the client intends to write; otherwise the server refuses its writes.
    pub writes: bool,
}

/// Message from the server that grants a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerWelcomeMessage {
    /// Size in bytes of the part of the drive that the client sees, from offset 0 on.
    pub capacity_bytes: u64,
    /// Block size in bytes, of which offsets and lengths are multiples.
    pub block_bytes: u32,
    /// Width of incomplete tags.
    pub tag_width: TagWidth,
    /// Number and size of the granted queues.
    pub layout: Layout,
    /// True if the client may write.
    pub writes: bool,
    /// True if the device may sleep. The client must then wake it when the mode word says so.
    pub doorbells: bool,
    /// True if timing is on: commands carry their submission time, and statuses the time at which to report completion.
    pub modelled: bool,
}

/// Reason for which the server refuses a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The client speaks another version of the protocol.
    Version = 1,
    /// The server grants no queues of this number and size.
    Layout = 2,
    /// The client intends to write, and the device is read-only.
    ReadOnly = 3,
    /// The server has as many clients as it allows.
    Full = 4,
}

impl Hello {
    /// Encodes the client's message.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let Layout { queues, entries, transfer_bytes } = self.layout;
        let mut message = [0; HELLO_BYTES];
        message[..8].copy_from_slice(&MAGIC.to_le_bytes());
        encode_u32_fields(&mut message[8..], &[self.version, queues, entries, transfer_bytes, self.writes.into()]);
        message
    }

    /// Decodes the client's message, or returns none if the bytes are malformed.
    pub fn decode(message: &[u8]) -> Option<Hello> {
        let words = numbers::<HELLO_BYTES>(message)?;
        let [version, queues, entries, transfer_bytes, writes, 0] = words[..] else { return None };
        Some(Hello { version, layout: Layout { queues, entries, transfer_bytes }, writes: writes & 1 != 0 })
    }
}

impl ServerWelcomeMessage {
    /// Encodes the server's message, which grants a request or refuses it.
    pub fn encode(granted: Result<ServerWelcomeMessage, Refusal>) -> [u8; WELCOME_BYTES] {
        let mut message = [0; WELCOME_BYTES];
        message[..8].copy_from_slice(&MAGIC.to_le_bytes());
        let refusal = granted.err().map_or(0, |refusal| refusal as u32);
        encode_u32_fields(&mut message[8..], &[VERSION, refusal]);
        if let Ok(welcome) = granted {
            let Layout { queues, entries, transfer_bytes } = welcome.layout;
            let flags = [welcome.writes, welcome.doorbells, welcome.modelled];
            let flags = (0..).zip(flags).map(|(bit, flag)| u32::from(flag) << bit).sum();
            message[16..24].copy_from_slice(&welcome.capacity_bytes.to_le_bytes());
            let numbers = [welcome.block_bytes, welcome.tag_width.bits(), queues, entries, transfer_bytes, flags];
            encode_u32_fields(&mut message[24..], &numbers);
        }
        message
    }

    /// Decodes the server's message.
    ///
    /// # Errors
    ///
    /// If the bytes are malformed, or the server refuses the request.
    pub fn decode(message: &[u8]) -> io::Result<ServerWelcomeMessage> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the server's greeting is malformed");
        let words = numbers::<WELCOME_BYTES>(message).ok_or_else(invalid)?;
        let [version, refusal, low, high, block_bytes, tag_bits, queues, entries, transfer_bytes, flags, ..] =
            words[..]
        else {
            return Err(invalid());
        };
        refused(version, refusal)?;
        let layout = Layout { queues, entries, transfer_bytes };
        let tag_width = u8::try_from(tag_bits).ok().and_then(TagWidth::from_bits);
        let (Some(tag_width), true, 1..) = (tag_width, layout.is_allowed(), block_bytes) else { return Err(invalid()) };
        Ok(ServerWelcomeMessage {
            capacity_bytes: u64::from(high) << 32 | u64::from(low),
            block_bytes,
            tag_width,
            layout,
            writes: flags & 1 != 0,
            doorbells: flags & 2 != 0,
            modelled: flags & 4 != 0,
        })
    }
}

fn refused(version: u32, refusal: u32) -> io::Result<()> {
    let kinds = [
        (Refusal::Version, io::ErrorKind::Unsupported, "the server has another version of the protocol"),
        (Refusal::Layout, io::ErrorKind::InvalidInput, "the server grants no queues of this number and size"),
        (Refusal::ReadOnly, io::ErrorKind::PermissionDenied, "the device is read-only"),
        (Refusal::Full, io::ErrorKind::ResourceBusy, "the server has as many clients as it allows"),
    ];
    let named = kinds.into_iter().find(|(known, ..)| *known as u32 == refusal);
    match (refusal, named) {
        (0, _) if version == VERSION => Ok(()),
        (_, Some((_, kind, text))) => Err(io::Error::new(kind, text)),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "the server has another version of the protocol")),
    }
}

fn encode_u32_fields(message: &mut [u8], numbers: &[u32]) {
    for (bytes, number) in message.as_chunks_mut().0.iter_mut().zip(numbers) {
        *bytes = number.to_le_bytes();
    }
}

/// Returns the 32-bit numbers after the magic of a message, or none unless the message has exactly `BYTES` bytes.
fn numbers<const BYTES: usize>(message: &[u8]) -> Option<Vec<u32>> {
    let body = message.strip_prefix(&MAGIC.to_le_bytes()).filter(|_| message.len() == BYTES)?;
    Some(body.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { queues: 2, entries: 64, transfer_bytes: 4096 };

    #[test]
    fn encoded_handshake_messages_and_refusals_decode_to_themselves() {
        let hello = Hello { version: VERSION, layout: LAYOUT, writes: true };
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        let welcome = ServerWelcomeMessage {
            capacity_bytes: 5 << 33,
            block_bytes: 512,
            tag_width: TagWidth::Bits32,
            layout: LAYOUT,
            writes: false,
            doorbells: true,
            modelled: true,
        };
        assert_eq!(ServerWelcomeMessage::decode(&ServerWelcomeMessage::encode(Ok(welcome))).unwrap(), welcome);
        let refused = ServerWelcomeMessage::decode(&ServerWelcomeMessage::encode(Err(Refusal::ReadOnly))).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn truncated_or_altered_handshake_messages_are_refused() {
        let message = Hello { version: VERSION, layout: LAYOUT, writes: true }.encode();
        assert_eq!(Hello::decode(&message[..31]), None);
        assert_eq!(Hello::decode(&[0; HELLO_BYTES]), None);
        for place in 0..WELCOME_BYTES {
            let mut message = ServerWelcomeMessage::encode(Err(Refusal::Full));
            message[place] ^= 0xff;
            assert!(ServerWelcomeMessage::decode(&message).is_err());
        }
    }
}
