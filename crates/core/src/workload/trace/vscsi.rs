//! Records of virtual SCSI disks, in which the CloudPhysics traces are kept (C. Waldspurger and others, "Efficient MRC
//! construction with SHARDS", FAST 2015). The layouts are those of the reader that CloudPhysics gave to mimircache,
//! which libCacheSim has kept (`traceReader/customizedReader/vscsi.h`):
//!
//! ```text
//! version 1, 32 bytes: sequence u32, bytes u32, segments u32, command u16, version u16, sector u64, microseconds u64
//! version 2, 40 bytes: command u16, version u16, sequence u32, bytes u32, segments u32, sector u64, microseconds u64, …
//! ```
//!
//! All little-endian; the version is in the upper byte of its field. Sectors have 512 bytes. Commands are operation
//! codes of SCSI (T10, "SCSI operation codes"). The eight bytes at the end of version 2 say how long a request took, in
//! a unit that no source gives: they are passed over. A file is of one disk.

use super::record::{
    RecordMistake, RecordedDevice, RecordedOperation, RecordedRequest, SECTOR_BYTES, TraceRecord, wrong,
};
use crate::request::Op;

/// Layout of the records of a vscsi file: size of a record, and offsets of its fields in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VscsiRecordLayout {
    version: u8,
    pub record_bytes: usize,
    command_at: usize,
    length_at: usize,
}

const LAYOUTS: [VscsiRecordLayout; 2] = [
    VscsiRecordLayout { version: 1, record_bytes: 32, command_at: 12, length_at: 4 },
    VscsiRecordLayout { version: 2, record_bytes: 40, command_at: 0, length_at: 8 },
];

/// Offset in bytes of the sector number in a vscsi record of either version.
const SECTOR_AT: usize = 16;
/// Offset in bytes of the time in a vscsi record of either version.
const TIME_AT: usize = 24;

/// Name of a file's disk, because files do not name it.
const DEVICE: RecordedDevice<'static> = RecordedDevice::Named("disk");

/// Returns the layout of the vscsi file that starts with these bytes: the one whose version number is in the first two
/// records, or in the only one. Returns none if no layout fits.
pub(super) fn detect(start: &[u8]) -> Option<VscsiRecordLayout> {
    LAYOUTS.into_iter().find(|layout| {
        let mut records = start.chunks_exact(layout.record_bytes).take(2);
        start.len() >= layout.record_bytes && records.all(|record| layout.has_version_of(record))
    })
}

impl VscsiRecordLayout {
    /// True if a vscsi record bears the version number of this layout, in the upper byte of the field after the
    /// command.
    fn has_version_of(self, record: &[u8]) -> bool {
        record.get(self.command_at + 3) == Some(&self.version)
    }

    pub(super) fn read(self, record: &[u8]) -> Result<TraceRecord<'static>, RecordMistake> {
        if !self.has_version_of(record) {
            let allowed = format!("version {} in every record", self.version);
            return wrong("a record of another version", allowed);
        }
        let (command, at) = (little_endian_at(record, self.command_at, 2), little_endian_at(record, TIME_AT, 8));
        let op = match command {
            0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
            // WRITE and WRITE AND VERIFY commands of all lengths.
            0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Op::Write,
            0x35 | 0x91 => return Ok(TraceRecord::flush(at, DEVICE)),
            0x42 => return Ok(TraceRecord::left_out(at, DEVICE, "discards")),
            _ => return Ok(TraceRecord::left_out(at, DEVICE, "other SCSI commands")),
        };
        let (sector, bytes) = (little_endian_at(record, SECTOR_AT, 8), little_endian_at(record, self.length_at, 4));
        let Some(offset) = sector.checked_mul(SECTOR_BYTES) else {
            return wrong(format!("a request at sector {sector}"), "bytes that 64 bits can count");
        };
        Ok(TraceRecord::Asked(RecordedRequest {
            at,
            device: DEVICE,
            what: RecordedOperation::Data { op, offset, bytes, response: None },
        }))
    }
}

/// Reads a little-endian number of `bytes` bytes at offset `at` of a vscsi record.
fn little_endian_at(record: &[u8], at: usize, bytes: usize) -> u64 {
    record[at..at + bytes].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}
