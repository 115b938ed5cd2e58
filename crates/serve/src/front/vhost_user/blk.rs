//! Requests, status bytes and configuration space of a virtio block device.

use crate::device::store::Geometry;
use phaselink_core::number::{length, low_u32};

/// Size of a virtio sector in bytes, the unit of all offsets and lengths whatever the drive's block size (section
/// 5.2.4).
pub const SECTOR_BYTES: u64 = 512;
/// Length of a request's header in bytes: type, reserved field and sector (section 5.2.6).
pub const HEADER_BYTES: usize = 16;
/// Length in bytes of one range in the data of a discard or of a write of zeros.
pub const RANGE_BYTES: usize = 16;
/// Maximum number of ranges in one discard; a write of zeros has one.
pub const RANGES_MAX: u32 = 16;
/// Maximum length of one range, in sectors: 2 GiB, so that the bytes of a request fit 32 bits.
pub const RANGE_SECTORS_MAX: u32 = 1 << 22;
/// Maximum number of bytes that one read or write may move.
pub const TRANSFER_BYTES_MAX: u32 = 4 << 20;
/// Maximum number of data descriptors in a request, which drivers are told (`seg_max`).
pub const SEGMENTS_MAX: u32 = 254;
/// Size of the virtio configuration space in bytes. Bytes behind the last defined field are zero.
pub const CONFIG_BYTES_MAX: usize = 256;
/// Length of the device identification string, in bytes.
pub const NAME_BYTES: usize = 20;

/// Feature bits of a virtio block device (sections 5.2.3 and 6).
pub mod feature {
    /// VIRTIO_BLK_F_SEG_MAX: `seg_max` is the most data segments of a request.
    pub const SEG_MAX: u64 = 1 << 2;
    /// VIRTIO_BLK_F_BLK_SIZE: `blk_size` is the block size of the disk in bytes.
    pub const BLK_SIZE: u64 = 1 << 6;
    /// VIRTIO_BLK_F_FLUSH: the device accepts flushes, as it has a write cache.
    pub const FLUSH: u64 = 1 << 9;
    /// VIRTIO_BLK_F_TOPOLOGY: the device says which sizes and alignments suit it.
    pub const TOPOLOGY: u64 = 1 << 10;
    /// VIRTIO_BLK_F_MQ: the device has several queues, `num_queues` of them.
    pub const MQ: u64 = 1 << 12;
    /// VIRTIO_BLK_F_DISCARD: the device accepts discards.
    pub const DISCARD: u64 = 1 << 13;
    /// VIRTIO_BLK_F_WRITE_ZEROES: the device accepts writes of zeros.
    pub const WRITE_ZEROES: u64 = 1 << 14;
    /// VIRTIO_F_INDIRECT_DESC: a descriptor may point to a table of descriptors.
    pub const INDIRECT_DESC: u64 = 1 << 28;
    /// VIRTIO_F_EVENT_IDX: each side says at which index it wants the next notification.
    pub const EVENT_IDX: u64 = 1 << 29;
    /// VIRTIO_F_VERSION_1: the device complies with virtio 1.0 or later.
    pub const VERSION_1: u64 = 1 << 32;
}

/// Features that the device offers to drivers.
pub const FEATURES: u64 = feature::SEG_MAX
    | feature::BLK_SIZE
    | feature::FLUSH
    | feature::TOPOLOGY
    | feature::MQ
    | feature::DISCARD
    | feature::WRITE_ZEROES
    | feature::INDIRECT_DESC
    | feature::EVENT_IDX
    | feature::VERSION_1;

/// Type of a virtio block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read of a range.
    Read,
    /// Write of a range.
    Write,
    /// Flush, which makes all completed writes durable.
    Flush,
    /// Read of the device identification string.
    Name,
    /// Discard of the ranges in the request's data.
    Discard,
    /// Write of zeros to the range in the request's data.
    Zero,
}

/// Status byte that a virtio block request ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The request has succeeded.
    Ok = 0,
    /// The request has failed, or is invalid.
    IoError = 1,
    /// The device does not support the request's type or its flags.
    Unsupported = 2,
}

/// Valid virtio block request: its type and, for reads and writes, its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// Type of the virtio block request.
    pub command: Command,
    /// Offset of the range's first byte on the drive, in bytes.
    pub offset: u64,
    /// Length in bytes of the range of a read or write, or of the data of another request.
    pub bytes: u32,
}

/// Range of a discard or of a write of zeros, on whole blocks of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset of the range's first byte on the drive, in bytes.
    pub offset: u64,
    /// Length of the range to discard or zero, in bytes.
    pub bytes: u32,
    /// True if a write of zeros may release the range's space on the disk.
    pub unmap: bool,
}

impl BlockRequest {
    /// Checks the header of a request, which has `from_driver` data bytes behind it and `to_driver` bytes in front of
    /// its status. Returns the request.
    ///
    /// # Errors
    /// Returns the status for the completion.
    pub fn parse(
        header: &[u8; HEADER_BYTES],
        from_driver: u64,
        to_driver: u64,
        geometry: Geometry,
    ) -> Result<BlockRequest, Status> {
        let command = match field32(header, 0) {
            0 => Command::Read,
            1 => Command::Write,
            4 => Command::Flush,
            8 => Command::Name,
            11 => Command::Discard,
            13 => Command::Zero,
            _ => return Err(Status::Unsupported),
        };
        let bytes = if matches!(command, Command::Read | Command::Name) { to_driver } else { from_driver };
        let offset = field64(header, 8).checked_mul(SECTOR_BYTES).ok_or(Status::IoError)?;
        let range = length(RANGE_BYTES);
        let is_fine = match command {
            Command::Read | Command::Write => {
                bytes <= TRANSFER_BYTES_MAX.into() && is_valid_block_range(offset, bytes, geometry)
            }
            Command::Flush => true,
            Command::Name => bytes >= length(NAME_BYTES),
            Command::Discard | Command::Zero => {
                let ranges = if command == Command::Zero { 1 } else { RANGES_MAX };
                bytes > 0 && bytes.is_multiple_of(range) && bytes / range <= ranges.into()
            }
        };
        let bytes = u32::try_from(bytes).map_err(|_| Status::IoError);
        if is_fine { bytes.map(|bytes| BlockRequest { command, offset, bytes }) } else { Err(Status::IoError) }
    }
}

impl Range {
    /// Parses and checks one range in the data of a discard or of a write of zeros.
    ///
    /// # Errors
    /// Returns the status for the completion: flags that the command does not have are unsupported (section 5.2.6.2).
    pub fn parse(bytes: &[u8; RANGE_BYTES], command: Command, geometry: Geometry) -> Result<Range, Status> {
        let (sectors, flags) = (field32(bytes, 8), field32(bytes, 12));
        let allowed = if command == Command::Zero { 1 } else { 0 };
        if flags & !allowed != 0 {
            return Err(Status::Unsupported);
        }
        let offset = field64(bytes, 0).checked_mul(SECTOR_BYTES).ok_or(Status::IoError)?;
        let length = u64::from(sectors) * SECTOR_BYTES;
        if sectors > RANGE_SECTORS_MAX || !is_valid_block_range(offset, length, geometry) {
            return Err(Status::IoError);
        }
        Ok(Range { offset, bytes: low_u32(length), unmap: flags & 1 != 0 })
    }
}

/// Returns true if a range is not empty, consists of whole blocks, and lies within the drive.
fn is_valid_block_range(offset: u64, bytes: u64, geometry: Geometry) -> bool {
    let block = u64::from(geometry.block_bytes);
    let end = offset.checked_add(bytes);
    let is_whole = offset.is_multiple_of(block) && bytes.is_multiple_of(block);
    bytes > 0 && is_whole && end.is_some_and(|end| end <= geometry.capacity_bytes)
}

/// Returns the configuration space of a virtio block device with this geometry and number of queues (section 5.2.4).
pub fn config(geometry: Geometry, queues: u16) -> [u8; CONFIG_BYTES_MAX] {
    let mut config = [0; CONFIG_BYTES_MAX];
    let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(geometry.capacity_bytes / SECTOR_BYTES).to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    put(20, &geometry.block_bytes.to_le_bytes());
    // Minimum and optimal I/O size: one logical block.
    put(26, &1u16.to_le_bytes());
    put(28, &1u32.to_le_bytes());
    put(34, &queues.to_le_bytes());
    let alignment = geometry.block_bytes / low_u32(SECTOR_BYTES);
    put(36, &RANGE_SECTORS_MAX.to_le_bytes());
    put(40, &RANGES_MAX.to_le_bytes());
    put(44, &alignment.to_le_bytes());
    put(48, &RANGE_SECTORS_MAX.to_le_bytes());
    put(52, &1u32.to_le_bytes());
    put(56, &[1]);
    config
}

/// Returns the device identification string for the name `of`, which is cut to 20 bytes or filled up with zeros.
pub fn name(of: &str) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    name.iter_mut().zip(of.bytes()).for_each(|(byte, from)| *byte = from);
    name
}

fn field32(bytes: &[u8; 16], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|place| bytes[at + place]))
}

fn field64(bytes: &[u8; 16], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|place| bytes[at + place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 4096 };

    fn bytes(first: u64, second: u32, third: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..12].copy_from_slice(&second.to_le_bytes());
        bytes[12..].copy_from_slice(&third.to_le_bytes());
        bytes
    }

    fn header(kind: u32, sector: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&sector.to_le_bytes());
        bytes
    }

    #[test]
    fn requests_of_whole_blocks_within_the_drive_are_valid() {
        let read = BlockRequest::parse(&header(0, 8), 0, 8192, GEOMETRY);
        assert_eq!(read, Ok(BlockRequest { command: Command::Read, offset: 4096, bytes: 8192 }));
        let write = BlockRequest::parse(&header(1, 2040), 4096, 0, GEOMETRY);
        assert_eq!(write, Ok(BlockRequest { command: Command::Write, offset: (1 << 20) - 4096, bytes: 4096 }));
        assert_eq!(BlockRequest::parse(&header(4, 7), 0, 0, GEOMETRY).map(|wanted| wanted.command), Ok(Command::Flush));
        assert_eq!(BlockRequest::parse(&header(8, 0), 0, 20, GEOMETRY).map(|wanted| wanted.command), Ok(Command::Name));
    }

    #[test]
    fn invalid_block_requests_get_a_status() {
        for (kind, sector, from_driver, to_driver) in [
            (0, 1, 0, 4096),
            (0, 0, 0, 512),
            (0, 0, 4096, 0),
            (1, 0, 0, 4096),
            (1, 2048, 4096, 0),
            (1, u64::MAX, 4096, 0),
            (1, 0, u64::MAX, 0),
            (8, 0, 0, 19),
            (11, 0, 0, 0),
            (13, 0, 17, 0),
            (11, 0, 16 * 17, 0),
        ] {
            let parsed = BlockRequest::parse(&header(kind, sector), from_driver, to_driver, GEOMETRY);
            assert_eq!(parsed, Err(Status::IoError), "{kind} {sector} {from_driver} {to_driver}");
        }
        assert_eq!(BlockRequest::parse(&header(2, 0), 0, 4096, GEOMETRY), Err(Status::Unsupported));
    }

    #[test]
    fn discard_ranges_are_whole_blocks_and_only_zeroing_may_unmap() {
        let range = |sector, sectors, flags, command| Range::parse(&bytes(sector, sectors, flags), command, GEOMETRY);
        let zeros = Range { offset: 4096, bytes: 8192, unmap: true };
        assert_eq!(range(8, 16, 1, Command::Zero), Ok(zeros));
        assert_eq!(range(8, 16, 0, Command::Discard), Ok(Range { unmap: false, ..zeros }));
        assert_eq!(range(8, 16, 1, Command::Discard), Err(Status::Unsupported));
        assert_eq!(range(8, 16, 2, Command::Zero), Err(Status::Unsupported));
        for (sector, sectors) in [(1, 8), (0, 0), (0, 7), (2048, 8), (u64::MAX, 8), (0, u32::MAX)] {
            assert_eq!(range(sector, sectors, 0, Command::Zero), Err(Status::IoError), "{sector} {sectors}");
        }
    }

    #[test]
    fn virtio_configuration_space_describes_the_drive() {
        let config = config(GEOMETRY, 4);
        assert_eq!(config[..8], 2048u64.to_le_bytes());
        assert_eq!(config[20..24], 4096u32.to_le_bytes());
        assert_eq!(config[34..36], [4, 0]);
        assert_eq!(config[44..48], 8u32.to_le_bytes());
        assert_eq!(&name("a drive with a name that is too long"), b"a drive with a name ");
    }
}
