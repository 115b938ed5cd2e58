//! Layout of vfio-user messages, all little-endian (vfio-user Protocol Specification, QEMU docs/interop/vfio-user.rst;
//! structures of Linux's vfio.h where the specification refers to them).

use phaselink_core::number::low_u16;

/// Length of a message header, in bytes.
pub const HEADER_BYTES: usize = 16;
/// Maximum length of a message that is accepted, in bytes: a transfer with its headers.
pub const MESSAGE_BYTES_MAX: usize = TRANSFER_BYTES_MAX + 64;
/// Maximum number of data bytes in one message that is offered and accepted (`max_data_xfer_size`): the specification's
/// default.
pub const TRANSFER_BYTES_MAX: usize = 1 << 20;
/// Maximum length in bytes of a bitmap of written pages, whose message has 64 bytes for its fields.
pub const BITMAP_BYTES_MAX: usize = TRANSFER_BYTES_MAX - 64;
/// Maximum number of file descriptors that are accepted with one message (`max_msg_fds`).
pub const DESCRIPTORS_MAX: usize = 16;

/// Command numbers of vfio-user messages.
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
    /// VFIO_USER_DEVICE_FEATURE: reads or sets a feature of the device, such as the state of its migration.
    pub const DEVICE_FEATURE: u16 = 16;
    /// VFIO_USER_MIG_DATA_READ: reads the stream of a device that moves away.
    pub const MIG_DATA_READ: u16 = 17;
    /// VFIO_USER_MIG_DATA_WRITE: writes the stream of a device that moves here.
    pub const MIG_DATA_WRITE: u16 = 18;
}

/// Mask of the message's type in the flags of a header.
const TYPE: u32 = 0xf;
const REPLY: u32 = 1;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

/// Header of a vfio-user message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// ID of the message, which its reply repeats.
    pub id: u16,
    /// Command number of the message.
    pub command: u16,
    /// Length of the whole message in bytes, with this header.
    pub bytes: u32,
    flags: u32,
    error: u32,
}

impl Header {
    /// Returns the header of a request from the server to the client.
    pub fn request(id: u16, command: u16, payload_bytes: usize) -> Header {
        Header { id, command, bytes: (HEADER_BYTES + payload_bytes) as u32, flags: 0, error: 0 }
    }

    /// Returns the header of the reply to this request, without an error.
    pub fn reply(&self, payload_bytes: usize) -> Header {
        Header { bytes: (HEADER_BYTES + payload_bytes) as u32, flags: REPLY, error: 0, ..*self }
    }

    /// Returns the header of a reply that refuses this request with an error number.
    pub fn refusal(&self, error: i32) -> Header {
        Header { bytes: HEADER_BYTES as u32, flags: REPLY | ERROR, error: error.unsigned_abs(), ..*self }
    }

    /// Returns the header as it is sent.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.id.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.command.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.flags.to_le_bytes());
        bytes[12..].copy_from_slice(&self.error.to_le_bytes());
        bytes
    }

    /// Returns the header in these bytes. Every bit pattern is a header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Header {
        let [first, length, flags, error] = [0, 1, 2, 3].map(|word| u32::from_le_bytes(bytes.as_chunks().0[word]));
        Header { id: low_u16(first), command: low_u16(first >> 16), bytes: length, flags, error }
    }

    /// Returns true if the message is a reply.
    pub fn is_reply(&self) -> bool {
        self.flags & TYPE == REPLY
    }

    /// Returns true if the sender of the message wants no reply.
    pub fn needs_no_reply(&self) -> bool {
        self.flags & NO_REPLY != 0
    }

    /// Returns true if the message is a reply that refuses a request.
    pub fn is_error_reply(&self) -> bool {
        self.flags & ERROR != 0
    }
}

/// Rest of a message's payload, from which fields are read one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Takes the next `count` bytes off the payload; none if there are fewer.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Takes the next 16-bit number off the payload (little-endian); none if there is not enough left.
    pub fn u16(&mut self) -> Option<u16> {
        self.bytes(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    /// Takes the next 32-bit number off the payload (little-endian); none if there is not enough left.
    pub fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// Takes the next 64-bit number off the payload (little-endian); none if there is not enough left.
    pub fn u64(&mut self) -> Option<u64> {
        self.bytes(8)?.try_into().ok().map(u64::from_le_bytes)
    }
}
