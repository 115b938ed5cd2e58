//! Layout of vfio-user messages, all little-endian (vfio-user Protocol Specification, QEMU docs/interop/vfio-user.rst;
//! structures of Linux's vfio.h where the specification refers to them).

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
/// Longest message that is taken: a transfer with its header.
pub const MESSAGE_BYTES_MAX: usize = TRANSFER_BYTES_MAX + 64;
/// `max_data_xfer_size`: the specification's default, which is offered too.
pub const TRANSFER_BYTES_MAX: usize = 1 << 20;
/// `max_msg_fds`: the descriptors that are taken with one message.
pub const DESCRIPTORS_MAX: usize = 16;

/// Numbers of commands.
pub mod command {
    /// VFIO_USER_VERSION: agrees on version and capabilities; the first message of a connection.
    pub const VERSION: u16 = 1;
    /// VFIO_USER_DMA_MAP: gives the server access to a region of the client's memory.
    pub const DMA_MAP: u16 = 2;
    /// VFIO_USER_DMA_UNMAP: takes a region of the client's memory away from the server.
    pub const DMA_UNMAP: u16 = 3;
    /// VFIO_USER_DEVICE_GET_INFO: asks for the numbers of regions and of kinds of interrupt.
    pub const DEVICE_GET_INFO: u16 = 4;
    /// VFIO_USER_DEVICE_GET_REGION_INFO: asks for size, access and mappable areas of a region.
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    /// VFIO_USER_DEVICE_GET_IRQ_INFO: asks for the number of interrupts of one kind.
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    /// VFIO_USER_DEVICE_SET_IRQS: sets, masks or triggers interrupts, with an eventfd for each.
    pub const DEVICE_SET_IRQS: u16 = 8;
    /// VFIO_USER_REGION_READ: reads registers or configuration space of the device.
    pub const REGION_READ: u16 = 9;
    /// VFIO_USER_REGION_WRITE: writes registers or configuration space of the device.
    pub const REGION_WRITE: u16 = 10;
    /// VFIO_USER_DMA_READ: the server reads memory of the client that it cannot map.
    pub const DMA_READ: u16 = 11;
    /// VFIO_USER_DMA_WRITE: the server writes memory of the client that it cannot map.
    pub const DMA_WRITE: u16 = 12;
    /// VFIO_USER_DEVICE_RESET: resets the device.
    pub const DEVICE_RESET: u16 = 13;
    /// VFIO_USER_REGION_WRITE_MULTI: several writes of up to eight bytes in one message.
    pub const REGION_WRITE_MULTI: u16 = 15;
}

/// Flags of a header: the type in the low four bits.
const TYPE: u32 = 0xf;
const REPLY: u32 = 1;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

/// Header of every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the message, which its reply repeats.
    pub id: u16,
    /// Command.
    pub command: u16,
    /// Length of the whole message.
    pub bytes: u32,
    flags: u32,
    error: u32,
}

impl Header {
    /// A request of the server's.
    pub fn request(id: u16, command: u16, payload_bytes: usize) -> Header {
        Header { id, command, bytes: (HEADER_BYTES + payload_bytes) as u32, flags: 0, error: 0 }
    }

    /// The reply to a request.
    pub fn reply(&self, payload_bytes: usize) -> Header {
        Header { bytes: (HEADER_BYTES + payload_bytes) as u32, flags: REPLY, error: 0, ..*self }
    }

    /// The reply to a request that is refused with an error number.
    pub fn refusal(&self, error: i32) -> Header {
        Header { bytes: HEADER_BYTES as u32, flags: REPLY | ERROR, error: error.unsigned_abs(), ..*self }
    }

    /// The header as it is sent.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.id.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.command.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.flags.to_le_bytes());
        bytes[12..].copy_from_slice(&self.error.to_le_bytes());
        bytes
    }

    /// The header that these bytes hold; every bit pattern is some header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Header {
        let [first, length, flags, error] = [0, 1, 2, 3].map(|word| u32::from_le_bytes(bytes.as_chunks().0[word]));
        Header { id: first as u16, command: (first >> 16) as u16, bytes: length, flags, error }
    }

    /// Returns true if the message is a reply.
    pub fn is_reply(&self) -> bool {
        self.flags & TYPE == REPLY
    }

    /// Returns true if the message wants no reply.
    pub fn is_posted(&self) -> bool {
        self.flags & NO_REPLY != 0
    }

    /// Returns true if a reply is a refusal.
    pub fn is_refusal(&self) -> bool {
        self.flags & ERROR != 0
    }
}

/// Fields of a payload, read one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next so many bytes, if there are as many.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The next number of 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        self.bytes(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    /// The next number of 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// The next number of 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.bytes(8)?.try_into().ok().map(u64::from_le_bytes)
    }
}
