//! CSV of the Systor '17 traces (C. Lee and others, "Understanding storage traffic characteristics on enterprise
//! virtual desktop infrastructure", SYSTOR 2017; SNIA IOTTA 4928, README, "I/O trace file format"):
//!
//! ```text
//! Timestamp,Response,IOType,LUN,Offset,Size
//! 1456135200.013118000,0.000806000,R,4,899056122368,131072
//! ```
//!
//! Times are in seconds with nine decimals, of which six are accurate. Offset and size are in bytes. A blank type is a
//! request of which no response was seen; those are left out.

use super::record::{
    RecordMistake, RecordedDevice, RecordedOperation, RecordedRequest, TraceRecord, fields, nanoseconds, number, wrong,
};
use crate::request::Op;

const COLUMNS: &str = "Timestamp,Response,IOType,LUN,Offset,Size";

/// True if the first line of a file is the heading or a record of the Systor '17 traces.
pub(super) fn matches(first_line: &str) -> bool {
    let is_request = |[time, _, kind, _, _, _]: [&str; 6]| matches!(kind, "R" | "W" | "") && nanoseconds(time).is_ok();
    first_line == COLUMNS || fields(first_line, COLUMNS).is_ok_and(is_request)
}

pub(super) fn read(line: &str) -> Result<TraceRecord<'_>, RecordMistake> {
    let [time, response, kind, lun, offset, size] = fields(line, COLUMNS)?;
    let op = match kind {
        "R" => Op::Read,
        "W" => Op::Write,
        "" => {
            return Ok(TraceRecord::left_out(
                nanoseconds(time)?,
                RecordedDevice::Named(lun),
                "requests without a type",
            ));
        }
        "IOType" => return Ok(TraceRecord::Other),
        _ => return wrong(format!("the unknown type `{kind}`"), "R, W or nothing"),
    };
    // According to the README of the traces, some response times are missing or wrong, so use them for statistics only.
    let response = nanoseconds(response).ok();
    let (offset, bytes) = (number(offset, "an offset")?, number(size, "a size")?);
    let what = RecordedOperation::Data { op, offset, bytes, response };
    Ok(TraceRecord::Asked(RecordedRequest { at: nanoseconds(time)?, device: RecordedDevice::Named(lun), what }))
}
