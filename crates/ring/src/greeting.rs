//! The two messages that open a connection: what the client would like, and what it gets, with the memory's descriptor.

use std::io;

use crate::layout::Layout;
use crate::trailer::TagWidth;

/// Of this protocol: layout of memory, commands and both messages. Sides of different versions refuse each other.
pub const VERSION: u32 = 3;
/// "phaselnk" in the first eight bytes of either message.
const MAGIC: u64 = u64::from_le_bytes(*b"phaselnk");

/// Bytes of the client's message.
pub const HELLO_BYTES: usize = 32;
/// Bytes of the server's answer.
pub const WELCOME_BYTES: usize = 64;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub version: u32,
    pub layout: Layout,
    /// Without it, the server does not let this client write.
    pub writes: bool,
}

/// What it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The client's part of the drive, which looks like all of it.
    pub capacity_bytes: u64,
    /// Offsets and lengths are multiples of it.
    pub block_bytes: u32,
    pub tag_width: TagWidth,
    pub layout: Layout,
    pub writes: bool,
    /// The device may sleep: the mode word says when to ring.
    pub doorbells: bool,
    /// Commands say when they were asked, and statuses when their commands are over.
    pub modelled: bool,
}

/// Why a client gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Version = 1,
    Layout = 2,
    ReadOnly = 3,
    Full = 4,
}

impl Hello {
    /// The message.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let Layout { queues, entries, transfer_bytes } = self.layout;
        let mut message = [0; HELLO_BYTES];
        message[..8].copy_from_slice(&MAGIC.to_le_bytes());
        put(&mut message[8..], &[self.version, queues, entries, transfer_bytes, self.writes.into()]);
        message
    }

    /// What the message says, unless it is none.
    pub fn decode(message: &[u8]) -> Option<Hello> {
        let words = numbers::<HELLO_BYTES>(message)?;
        let [version, queues, entries, transfer_bytes, writes, 0] = words[..] else { return None };
        Some(Hello { version, layout: Layout { queues, entries, transfer_bytes }, writes: writes & 1 != 0 })
    }
}

impl Welcome {
    /// The message; `refusal` if there is nothing else to say.
    pub fn encode(granted: Result<Welcome, Refusal>) -> [u8; WELCOME_BYTES] {
        let mut message = [0; WELCOME_BYTES];
        message[..8].copy_from_slice(&MAGIC.to_le_bytes());
        let refusal = granted.err().map_or(0, |refusal| refusal as u32);
        put(&mut message[8..], &[VERSION, refusal]);
        if let Ok(welcome) = granted {
            let Layout { queues, entries, transfer_bytes } = welcome.layout;
            let flags = [welcome.writes, welcome.doorbells, welcome.modelled];
            let flags = (0..).zip(flags).map(|(bit, flag)| u32::from(flag) << bit).sum();
            message[16..24].copy_from_slice(&welcome.capacity_bytes.to_le_bytes());
            let numbers = [welcome.block_bytes, welcome.tag_width.bits(), queues, entries, transfer_bytes, flags];
            put(&mut message[24..], &numbers);
        }
        message
    }

    /// What the message says.
    ///
    /// # Errors
    /// If it is none, or a refusal.
    pub fn decode(message: &[u8]) -> io::Result<Welcome> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the server's answer is not understood");
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
        Ok(Welcome {
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
        (Refusal::Layout, io::ErrorKind::InvalidInput, "the server gives no queues of this number and size"),
        (Refusal::ReadOnly, io::ErrorKind::PermissionDenied, "the server lets nobody write here"),
        (Refusal::Full, io::ErrorKind::ResourceBusy, "the server has no room for another client"),
    ];
    let named = kinds.into_iter().find(|(known, ..)| *known as u32 == refusal);
    match (refusal, named) {
        (0, _) if version == VERSION => Ok(()),
        (_, Some((_, kind, text))) => Err(io::Error::new(kind, text)),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "the server has another version of the protocol")),
    }
}

fn put(message: &mut [u8], numbers: &[u32]) {
    for (bytes, number) in message.as_chunks_mut().0.iter_mut().zip(numbers) {
        *bytes = number.to_le_bytes();
    }
}

/// The numbers behind the magic of a message of exactly this length.
fn numbers<const BYTES: usize>(message: &[u8]) -> Option<Vec<u32>> {
    let body = message.strip_prefix(&MAGIC.to_le_bytes()).filter(|_| message.len() == BYTES)?;
    Some(body.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { queues: 2, entries: 64, transfer_bytes: 4096 };

    #[test]
    fn messages_read_back_and_refusals_say_why() {
        let hello = Hello { version: VERSION, layout: LAYOUT, writes: true };
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        let welcome = Welcome {
            capacity_bytes: 5 << 33,
            block_bytes: 512,
            tag_width: TagWidth::Bits32,
            layout: LAYOUT,
            writes: false,
            doorbells: true,
            modelled: true,
        };
        assert_eq!(Welcome::decode(&Welcome::encode(Ok(welcome))).unwrap(), welcome);
        let refused = Welcome::decode(&Welcome::encode(Err(Refusal::ReadOnly))).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn no_bytes_are_more_than_not_understood() {
        let message = Hello { version: VERSION, layout: LAYOUT, writes: true }.encode();
        assert_eq!(Hello::decode(&message[..31]), None);
        assert_eq!(Hello::decode(&[0; HELLO_BYTES]), None);
        for place in 0..WELCOME_BYTES {
            let mut message = Welcome::encode(Err(Refusal::Full));
            message[place] ^= 0xff;
            assert!(Welcome::decode(&message).is_err());
        }
    }
}
