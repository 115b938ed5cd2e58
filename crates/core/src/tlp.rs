//! PCI Express transaction-layer packets (TLPs): kinds, sizes on the wire, and bursts of them. Sections refer to the
//! PCI Express Base Specification 6.0.

use crate::time::Time;

/// Index of a burst in flight.
pub type PacketId = u32;

/// Bytes of payload that a packet stores by itself; a longer payload is allocated.
pub const INLINE_BYTES: usize = 64;

/// Payload of a burst whose bytes matter: commands, completion queue entries, doorbells.
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

/// Number of buffers of one length that are made together, so that a link that is a little fuller than ever before needs no memory.
const BUFFERS_AT_ONCE: usize = 8;

impl Payload {
    /// Returns the first `bytes` bytes of the payload for writing. Buffers of long payloads come from `spare`, and go there.
    #[inline(always)]
    pub fn room(&mut self, bytes: usize, spare: &mut Vec<Box<[u8]>>) -> &mut [u8] {
        if bytes <= INLINE_BYTES && self.more.is_none() {
            return &mut self.inline[..bytes];
        }
        self.more_room(bytes, spare)
    }

    #[cold]
    #[inline(never)]
    fn more_room(&mut self, bytes: usize, spare: &mut Vec<Box<[u8]>>) -> &mut [u8] {
        spare.extend(self.more.take());
        if bytes <= INLINE_BYTES {
            return &mut self.inline[..bytes];
        }
        // Few different lengths, so that a payload as long as none before finds a buffer.
        let length = bytes.next_power_of_two();
        let place = spare.iter().rposition(|buffer| buffer.len() == length);
        let buffer = self.more.insert(match place {
            Some(place) => spare.swap_remove(place),
            None => {
                spare.extend((1..BUFFERS_AT_ONCE).map(|_| vec![0; length].into_boxed_slice()));
                vec![0; length].into_boxed_slice()
            }
        });
        &mut buffer[..bytes]
    }

    /// Payload that nobody has filled: zeros.
    #[inline]
    pub fn zeros() -> &'static Payload {
        static ZEROS: Payload = Payload { inline: [0; INLINE_BYTES], more: None };
        &ZEROS
    }

    /// True if the payload has a buffer, as it is or was a long one.
    #[inline(always)]
    pub fn is_long(&self) -> bool {
        self.more.is_some()
    }

    /// Takes the buffer of a long payload, if it is one.
    pub fn take_buffer(&mut self) -> Option<Box<[u8]>> {
        self.more.take()
    }

    /// Bytes of the payload, and behind them what the buffer holds beyond its end.
    pub fn bytes(&self) -> &[u8] {
        self.more.as_deref().unwrap_or(&self.inline)
    }

    /// First eight bytes of the payload as a little-endian number.
    pub fn u64(&self) -> u64 {
        u64::from(self.u32()) | u64::from(u32::from_le_bytes([4, 5, 6, 7].map(|at| self.inline[at]))) << 32
    }

    /// First four bytes of the payload as a little-endian number.
    #[inline]
    pub fn u32(&self) -> u32 {
        u32::from_le_bytes([self.inline[0], self.inline[1], self.inline[2], self.inline[3]])
    }
}

/// Direction in which a packet travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Device to host.
    #[default]
    Up,
    /// Host to device.
    Down,
}

impl Direction {
    /// Opposite direction.
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

/// Kind of packet; each kind has its flow-control class (section 2.6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Posted memory write: data, doorbells, completion queue entries, interrupt messages.
    #[default]
    MemoryWrite,
    /// Non-posted memory read request, which completions answer.
    MemoryRead,
    /// Completion with data, which answers a read request.
    Completion,
}

/// A burst of equal packets that belong together: the data of one read, one command, one doorbell.
///
/// All packets of the burst carry `chunk_bytes` of payload but the last, which carries the rest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// Kind of the packets.
    pub kind: Kind,
    /// Direction in which the burst travels.
    pub direction: Direction,
    /// Bus address of the first byte; completions carry the address that was read.
    pub address: u64,
    /// Payload of the whole burst. For a read request: the bytes asked for, of which the request carries none.
    pub bytes: u32,
    /// Payload (or bytes asked for) of each packet but the last.
    pub chunk_bytes: u32,
    /// Relaxed ordering attribute: true if the burst may become visible out of order (section 2.4).
    pub relaxed: bool,
    /// True for a read, or an answer to the host, that must not pass the writes that were handed to the link before it.
    /// Other reads may pass them: a device's engines for data and for commands form their packets independently.
    pub behind_writes: bool,
    /// True for an interrupt message (MSI-X); the context of its token is the interrupt vector.
    pub interrupt: bool,
    /// True if the payload is user data, as opposed to commands and completions.
    pub user_data: bool,
    /// For user data: offset of its first byte on the device.
    pub device_offset: u64,
    /// Tag by which the sending protocol recognises the packet when it arrives or is answered.
    pub token: Token,
    /// Request to which the travel time of this packet is charged, if it belongs to a single request.
    pub request: Option<u32>,
    /// Instant at which host memory was read for this packet.
    pub sampled_at: Time,
}

/// Number of packets of up to `chunk_bytes` that carry `bytes`. Sizes of packets are powers of two (section 7.5.3.4),
/// and a shift takes a fraction of the time of a division.
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

/// Tag that a protocol gives a packet, by which it recognises it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// Role of the packet in its protocol, such as doorbell or command fetch.
    pub role: u8,
    /// Number that identifies the packet among those of its role, such as a queue or command slot.
    pub context: u32,
}

impl Packet {
    /// Makes a posted write of `bytes`, cut into packets of `chunk_bytes`.
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

    /// Makes the device's requests to read `bytes` of host memory, `chunk_bytes` each.
    pub fn read(address: u64, bytes: u32, chunk_bytes: u32, token: Token) -> Packet {
        let kind = Kind::MemoryRead;
        Packet { kind, ..Packet::write(Direction::Up, address, bytes, chunk_bytes, token) }
    }

    /// Marks the burst as user data at `device_offset`, which belongs to `request`.
    pub fn user_data(self, device_offset: u64, request: Option<u32>) -> Packet {
        Packet { user_data: true, device_offset, request, ..self }
    }

    /// Number of packets in the burst.
    pub fn count(&self) -> u32 {
        if self.bytes <= self.chunk_bytes {
            return 1;
        }
        packets(self.bytes, self.chunk_bytes)
    }

    /// Payload bytes that the burst puts on the wire.
    pub fn payload_bytes(&self) -> u32 {
        if self.kind == Kind::MemoryRead { 0 } else { self.bytes }
    }

    /// Payload bytes of each packet other than the last; of the only packet, if there is one.
    pub fn chunk_payload_bytes(&self) -> u32 {
        if self.kind == Kind::MemoryRead { 0 } else { self.chunk_bytes.min(self.bytes) }
    }
}
