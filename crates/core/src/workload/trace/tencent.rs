//! CSV of the block traces of Tencent's cloud block storage (Y. Zhang and others, "OSCA: an online-model based cache
//! allocation scheme in cloud block storage systems", ATC 2020; SNIA IOTTA 27917, README, "I/O trace file format"):
//!
//! ```text
//! Timestamp,Offset,Size,IOType,VolumeID
//! 1538323200,12910952,128,0,1063
//! ```
//!
//! Timestamps are whole seconds, so that all requests of a second arrive at once. Offset and size are in sectors of 512
//! bytes; the type is 0 for reads, 1 for writes. One file holds all volumes of an hour.

use super::record::{
    RecordMistake, RecordedDevice, RecordedOperation, RecordedRequest, TraceRecord, are_all_numbers, fields, number,
    sectors, wrong,
};
use crate::request::Op;

const COLUMNS: &str = "Timestamp,Offset,Size,IOType,VolumeID";

/// True if the first line of a file is the heading or a record of the Tencent traces.
pub(super) fn matches(first_line: &str) -> bool {
    first_line == COLUMNS
        || fields(first_line, COLUMNS)
            .is_ok_and(|fields: [&str; 5]| matches!(fields[3], "0" | "1") && are_all_numbers(&fields))
}

pub(super) fn read(line: &str) -> Result<TraceRecord<'_>, RecordMistake> {
    let [timestamp, offset, size, kind, volume] = fields(line, COLUMNS)?;
    let op = match kind {
        "0" => Op::Read,
        "1" => Op::Write,
        "IOType" => return Ok(TraceRecord::Other),
        _ => return wrong(format!("the unknown type `{kind}`"), "0 for a read, 1 for a write"),
    };
    let (offset, bytes) = sectors(number(offset, "an offset")?, number(size, "a size")?)?;
    let what = RecordedOperation::Data { op, offset, bytes, response: None };
    Ok(TraceRecord::Asked(RecordedRequest {
        at: number(timestamp, "a timestamp")?,
        device: RecordedDevice::Named(volume),
        what,
    }))
}
