//! Transaction-layer packets: kinds, sizes on the wire, and bursts of them.

use crate::time::Time;

/// Index of a burst on its way.
pub type PacketId = u32;

/// Bytes of payload that a packet carries by itself; more are allocated.
pub const INLINE_BYTES: usize = 64;

/// The payload of a burst, where its bytes matter: commands, completion entries, doorbells.
#[derive(Clone, Debug)]
pub struct Payload {
    inline: [u8; INLINE_BYTES],
    more: Option<Box<[u8]>>,
}

impl Default for Payload {
    fn default() -> Payload {
        Payload { inline: [0; INLINE_BYTES], more: None }
    }
}

impl Payload {
    /// The first `bytes` bytes, to be written.
    #[inline(always)]
    pub fn room(&mut self, bytes: usize) -> &mut [u8] {
        if bytes <= INLINE_BYTES {
            self.more = None;
            return &mut self.inline[..bytes];
        }
        self.more_room(bytes)
    }

    #[cold]
    #[inline(never)]
    fn more_room(&mut self, bytes: usize) -> &mut [u8] {
        self.more.insert(vec![0; bytes].into_boxed_slice())
    }

    /// The payload, or zeros where none was written.
    pub fn bytes(&self) -> &[u8] {
        self.more.as_deref().unwrap_or(&self.inline)
    }

    /// Its first eight bytes as a number.
    pub fn u64(&self) -> u64 {
        u64::from(self.u32()) | u64::from(u32::from_le_bytes([4, 5, 6, 7].map(|at| self.inline[at]))) << 32
    }

    /// Its first four bytes as a number.
    #[inline]
    pub fn u32(&self) -> u32 {
        u32::from_le_bytes([self.inline[0], self.inline[1], self.inline[2], self.inline[3]])
    }
}

/// Direction of travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Device to host.
    #[default]
    Up,
    /// Host to device.
    Down,
}

impl Direction {
    /// The other way.
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

/// Kind of packet; each has its flow-control class (section 2.6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Posted: data, doorbells, completion entries, interrupt messages.
    #[default]
    MemoryWrite,
    /// Non-posted, answered by completions.
    MemoryRead,
    /// Completion with data.
    Completion,
}

/// A burst of equal packets that belong together: the data of one read, one command, one doorbell.
///
/// All its packets carry `chunk_bytes` of payload but the last, which carries the rest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    pub kind: Kind,
    pub direction: Direction,
    /// Bus address of the first byte; completions carry the address that was read.
    pub address: u64,
    /// Payload of the whole burst. For a read request: the bytes asked for, of which the request carries none.
    pub bytes: u32,
    /// Payload (or bytes asked for) of each packet but the last.
    pub chunk_bytes: u32,
    /// Relaxed ordering attribute: may settle out of order (section 2.4).
    pub relaxed: bool,
    /// A read, or an answer to the host, that must not pass the writes that were handed to the link before it. Other
    /// reads may: a device's engines for data and for commands form their packets independently.
    pub behind_writes: bool,
    /// Whether this is an interrupt message (MSI-X), whose token's context is its vector.
    pub interrupt: bool,
    /// Whether the payload is user data, as opposed to commands and completions.
    pub user_data: bool,
    /// For user data: where on the device its first byte belongs.
    pub device_offset: u64,
    /// What the protocol that sent it wants to know when it arrives or is answered.
    pub token: Token,
    /// Request whose time this packet's journey is, if it is one request's alone.
    pub request: Option<u32>,
    /// When the host's memory was read for it.
    pub sampled_at: Time,
}

/// How many packets of up to `chunk_bytes` carry so many bytes. Sizes of packets are powers of two (section 7.5.3.4), and a
/// shift takes a fraction of a division.
#[inline]
pub fn packets(bytes: u32, chunk_bytes: u32) -> u32 {
    match chunk_bytes.is_power_of_two() {
        true => (bytes >> chunk_bytes.trailing_zeros()) + u32::from(bytes & (chunk_bytes - 1) > 0),
        false => divided(bytes, chunk_bytes),
    }
}

#[cold]
fn divided(bytes: u32, chunk_bytes: u32) -> u32 {
    bytes.div_ceil(chunk_bytes)
}

/// A protocol's own name for a packet: what it is, and which of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Token {
    pub role: u8,
    pub context: u32,
}

impl Packet {
    /// A posted write of `bytes`, cut into packets of `chunk_bytes`.
    pub fn write(direction: Direction, address: u64, bytes: u32, chunk_bytes: u32, token: Token) -> Packet {
        Packet {
            kind: Kind::MemoryWrite,
            direction,
            address,
            bytes,
            chunk_bytes,
            relaxed: false,
            behind_writes: false,
            interrupt: false,
            user_data: false,
            device_offset: 0,
            token,
            request: None,
            sampled_at: Time::ZERO,
        }
    }

    /// Requests of the device to read `bytes` of host memory, `chunk_bytes` each.
    pub fn read(address: u64, bytes: u32, chunk_bytes: u32, token: Token) -> Packet {
        let kind = Kind::MemoryRead;
        Packet { kind, ..Packet::write(Direction::Up, address, bytes, chunk_bytes, token) }
    }

    /// The same burst carrying the user data at `device_offset`, as part of `request`.
    pub fn user_data(self, device_offset: u64, request: Option<u32>) -> Packet {
        Packet { user_data: true, device_offset, request, ..self }
    }

    /// Packets in the burst.
    pub fn count(&self) -> u32 {
        if self.bytes <= self.chunk_bytes {
            return 1;
        }
        packets(self.bytes, self.chunk_bytes)
    }

    /// Payload that the burst puts on the wire.
    pub fn payload_bytes(&self) -> u32 {
        if self.kind == Kind::MemoryRead { 0 } else { self.bytes }
    }

    /// Payload of a packet other than the last; of the only packet, if there is one.
    pub fn chunk_payload_bytes(&self) -> u32 {
        if self.kind == Kind::MemoryRead { 0 } else { self.chunk_bytes.min(self.bytes) }
    }
}
