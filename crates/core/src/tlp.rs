//! PCI Express transaction-layer packets (TLPs): kinds, sizes on the wire, and bursts of them. Sections refer to the
//! PCI Express Base Specification 6.0.

use crate::time::Time;

/// Index of a burst in the table of bursts in flight.
pub type BurstId = u32;

/// Number of payload bytes that a packet stores inline; a longer payload is allocated.
pub const INLINE_BYTES: usize = 64;

/// Payload of a burst whose content matters: a command, completion queue entry or doorbell.
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

/// Number of buffers of one length that are allocated together, so that a few more long payloads in flight need no
/// allocation.
const BUFFERS_AT_ONCE: usize = 8;

impl Payload {
    /// Returns the first `bytes` bytes of the payload for writing. Buffers of long payloads are taken from `spare`, and
    /// returned to it.
    #[inline(always)]
    pub fn room(&mut self, bytes: usize, spare: &mut Vec<Box<[u8]>>) -> &mut [u8] {
        if bytes <= INLINE_BYTES && self.more.is_none() {
            return &mut self.inline[..bytes];
        }
        self.grow_payload(bytes, spare)
    }

    #[cold]
    #[inline(never)]
    fn grow_payload(&mut self, bytes: usize, spare: &mut Vec<Box<[u8]>>) -> &mut [u8] {
        spare.extend(self.more.take());
        if bytes <= INLINE_BYTES {
            return &mut self.inline[..bytes];
        }
        // Round lengths up to a power of two, so that a buffer can be reused for payloads of other lengths.
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

    /// Returns a payload of zeros, for a burst whose sender has filled none.
    #[inline]
    pub fn zeros() -> &'static Payload {
        static ZEROS: Payload = Payload { inline: [0; INLINE_BYTES], more: None };
        &ZEROS
    }

    /// True if the payload has an allocated buffer, because it is long, or was before its reuse.
    #[inline(always)]
    pub fn is_long(&self) -> bool {
        self.more.is_some()
    }

    /// Removes and returns the allocated buffer of a payload; `None` if the payload is stored inline.
    pub fn take_heap_buffer(&mut self) -> Option<Box<[u8]>> {
        self.more.take()
    }

    /// Returns the bytes of the payload, followed by stale bytes up to the end of its buffer.
    pub fn bytes(&self) -> &[u8] {
        self.more.as_deref().unwrap_or(&self.inline)
    }

    /// Returns the first eight bytes of the payload as a little-endian number.
    pub fn u64(&self) -> u64 {
        u64::from(self.u32()) | u64::from(u32::from_le_bytes([4, 5, 6, 7].map(|at| self.inline[at]))) << 32
    }

    /// Returns the first four bytes of the payload as a little-endian number.
    #[inline]
    pub fn u32(&self) -> u32 {
        u32::from_le_bytes([self.inline[0], self.inline[1], self.inline[2], self.inline[3]])
    }
}

/// Direction in which a packet travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the device to the host.
    #[default]
    Up,
    /// From the host to the device.
    Down,
}

impl Direction {
    /// Returns the opposite direction.
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

/// Kind of a packet; each kind has its flow-control class (section 2.6.1).
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

/// Burst of equal packets that belong together: the data of one read, one command, one doorbell.
///
/// All packets of the burst carry `chunk_bytes` of payload but the last, which carries the rest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// Kind of the packets in the burst.
    pub kind: Kind,
    /// Direction in which the burst travels: to the host or to the device.
    pub direction: Direction,
    /// Bus address of the first byte of the burst; completions carry the address that was read.
    pub address: u64,
    /// Payload bytes of the whole burst. For a read request: the bytes to read, of which the request carries none.
    pub bytes: u32,
    /// Payload bytes (for a read request: bytes to read) of each packet but the last.
    pub chunk_bytes: u32,
    /// Relaxed ordering attribute: true if the burst may become visible out of order (section 2.4).
    pub relaxed: bool,
    /// True for a read, or a completion to the host, that must not pass writes handed to the link before it. Other
    /// reads may pass them: a device's engines for data and for commands form their packets independently.
    pub behind_writes: bool,
    /// True for an interrupt message (MSI-X); the context of its token is the interrupt vector.
    pub interrupt: bool,
    /// True if the payload is user data, as opposed to commands and completions.
    pub user_data: bool,
    /// Offset on the device of the first byte of user data; unused for other packets.
    pub device_offset: u64,
    /// Tag by which the sending protocol recognises the packet when it arrives or completes.
    pub token: Token,
    /// Request to which the travel time of this burst is charged, if it belongs to a single request.
    pub request: Option<u32>,
    /// Instant at which host memory was read for this burst.
    pub sampled_at: Time,
}

/// Returns the number of packets of up to `chunk_bytes` that carry `bytes`. Packet sizes are powers of two (section
/// 7.5.3.4), and a shift is much faster than a division.
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

/// Tag by which a protocol recognises one of its packets when it arrives: the packet's role and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// Role of the packet in its protocol, such as doorbell or command fetch.
    pub role: u8,
    /// Number that identifies the packet among those of its role, such as that of a queue or command slot.
    pub context: u32,
}

impl Packet {
    /// Returns a posted write of `bytes` bytes, cut into packets of `chunk_bytes`.
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

    /// Makes the read requests of a device for `bytes` of host memory, `chunk_bytes` each.
    pub fn read(address: u64, bytes: u32, chunk_bytes: u32, token: Token) -> Packet {
        let kind = Kind::MemoryRead;
        Packet { kind, ..Packet::write(Direction::Up, address, bytes, chunk_bytes, token) }
    }

    /// Returns the burst marked as user data at `device_offset`, which belongs to `request`.
    pub fn user_data(self, device_offset: u64, request: Option<u32>) -> Packet {
        Packet { user_data: true, device_offset, request, ..self }
    }

    /// Returns the number of packets in the burst.
    pub fn count(&self) -> u32 {
        if self.bytes <= self.chunk_bytes {
            return 1;
        }
        packets(self.bytes, self.chunk_bytes)
    }

    /// Returns the payload bytes that the burst puts on the wire; zero for read requests.
    pub fn payload_bytes(&self) -> u32 {
        if self.kind == Kind::MemoryRead { 0 } else { self.bytes }
    }

    /// Returns the payload bytes of each packet but the last, or of the only packet; zero for read requests.
    pub fn full_packet_payload_bytes(&self) -> u32 {
        if self.kind == Kind::MemoryRead { 0 } else { self.chunk_bytes.min(self.bytes) }
    }
}
