//! Files of blktrace as the kernel writes them, one for each processor (Linux `include/uapi/linux/blktrace_api.h`):
//!
//! ```text
//! blk_io_trace, 48 bytes:  magic u32, sequence u32, time u64, sector u64, bytes u32, action u32, pid u32, device u32,
//!                          cpu u32, error u16, pdu_len u16
//! blk_io_trace2, 64 bytes: magic u32, sequence u32, time u64, sector u64, bytes u32, pid u32, action u64, device u32,
//!                          cpu u32, error u16, pdu_len u16, pad
//! ```
//!
//! `pdu_len` bytes follow each record. The magic is 0x65617400 with the version, 7 or 8, in its lowest byte, so that it
//! tells the order of bytes as well. Times are in nanoseconds, sectors have 512 bytes. The lower 16 bits of an action
//! say what happened, the others are a mask of categories. What counts is what counts in blkparse's text: queueing, or
//! issues where nothing is queued.

use super::record::{
    RecordMistake, RecordedDevice, RecordedOperation, RecordedRequest, TraceRecord, WriteFlagFlushes, sectors, wrong,
};
use crate::request::Op;

const MAGIC: u32 = 0x6561_7400;

/// Numbers of the actions "queue", "issue to the driver" and "complete" in the lower 16 bits of an action
/// (`__BLK_TA_*`).
const QUEUE: u64 = 1;
const ISSUE: u64 = 7;
const COMPLETE: u64 = 8;
/// Bit of a blktrace action that says that the number of a control group follows the record (`__BLK_TA_CGROUP`).
const CGROUP: u64 = 1 << 8;

/// Bits of the categories of a request (`BLK_TC_*`), in the upper bits of an action.
const WRITE: u64 = 1 << 17;
const READ: u64 = 1 << 16;
const FLUSH: u64 = 1 << 18;
const FUA: u64 = 1 << 31;
const PASSTHROUGH: u64 = 1 << 25;
const NOTIFY: u64 = 1 << 26;
const DISCARD: u64 = 1 << 29;

/// Byte order of the numbers in a file of blktrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlktraceByteOrder {
    Little,
    Big,
}

/// Returns the byte order of a blktrace file that starts with these bytes; none if they do not start with its magic
/// number.
pub(super) fn detect(start: &[u8]) -> Option<BlktraceByteOrder> {
    [BlktraceByteOrder::Little, BlktraceByteOrder::Big]
        .into_iter()
        .find(|order| order.u32(start, 0).is_some_and(|it| it & !0xff == MAGIC))
}

impl BlktraceByteOrder {
    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(if self == BlktraceByteOrder::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self == BlktraceByteOrder::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
        Some(if self == BlktraceByteOrder::Little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    }

    /// Returns the length in bytes of the blktrace record at the start of `bytes`, with the data that follows it. None
    /// if too few bytes are given to know it.
    ///
    /// # Errors
    /// If the bytes do not start with a blktrace record of a known version.
    pub(super) fn length(self, bytes: &[u8]) -> Result<Option<usize>, RecordMistake> {
        let Some(magic) = self.u32(bytes, 0) else { return Ok(None) };
        let (length, pdu_at) = match magic.wrapping_sub(MAGIC) {
            7 => (48, 46),
            8 => (64, 50),
            version if version < 0x100 => {
                return wrong(format!("a blktrace of version {version}"), "version 7 or 8");
            }
            _ => {
                return wrong(
                    format!("{magic:#010x} where a record of blktrace starts"),
                    format!("{MAGIC:#x} and the version"),
                );
            }
        };
        Ok(self.u16(bytes, pdu_at).map(|following| length + usize::from(following)))
    }

    /// Parses a blktrace record, which is complete in `record`, header first.
    pub(super) fn read(self, record: &[u8]) -> Result<TraceRecord<'static>, RecordMistake> {
        let Some(event) = self.event(record) else { return wrong("a record that is cut short", "48 bytes or more") };
        if event.action & NOTIFY != 0 {
            return Ok(TraceRecord::Other);
        }
        match event.action & 0xffff & !CGROUP {
            QUEUE => event.recorded_request().map(TraceRecord::Asked),
            ISSUE => Ok(TraceRecord::Issued(event.recorded_request())),
            COMPLETE => Ok(TraceRecord::Completed { at: event.at, device: event.device }),
            _ => Ok(TraceRecord::Other),
        }
    }

    fn event(self, record: &[u8]) -> Option<BlktraceEventFields> {
        let is_second = self.u32(record, 0)? & 0xff == 8;
        let (action, device) = match is_second {
            true => (self.u64(record, 32)?, self.u32(record, 40)?),
            false => (u64::from(self.u32(record, 28)?), self.u32(record, 36)?),
        };
        Some(BlktraceEventFields {
            at: self.u64(record, 8)?,
            sector: self.u64(record, 16)?,
            bytes: self.u32(record, 24)?,
            action,
            device: RecordedDevice::Numbered(device),
        })
    }
}

/// Fields of a blktrace record that matter for a replay.
struct BlktraceEventFields {
    at: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    device: RecordedDevice<'static>,
}

impl BlktraceEventFields {
    fn recorded_request(&self) -> Result<RecordedRequest<'static>, RecordMistake> {
        let is = |category| self.action & category != 0;
        let what = match () {
            () if is(PASSTHROUGH) => RecordedOperation::LeftOut("passthrough commands"),
            () if is(DISCARD) => RecordedOperation::LeftOut("discards"),
            () if is(FLUSH) && self.bytes == 0 => RecordedOperation::Flush,
            () if !is(READ) && !is(WRITE) || self.bytes == 0 => RecordedOperation::LeftOut("requests without data"),
            () if is(WRITE) && (is(FLUSH) || is(FUA)) => {
                let (offset, _) = sectors(self.sector, 0)?;
                let flushes = WriteFlagFlushes { before: is(FLUSH), after: is(FUA) };
                RecordedOperation::FlushedWrite { offset, bytes: self.bytes.into(), flushes }
            }
            () => {
                let op = if is(WRITE) { Op::Write } else { Op::Read };
                let (offset, _) = sectors(self.sector, 0)?;
                RecordedOperation::Data { op, offset, bytes: self.bytes.into(), response: None }
            }
        };
        Ok(RecordedRequest { at: self.at, device: self.device, what })
    }
}
