//! CSV of the block traces of MSR Cambridge (D. Narayanan, A. Donnelly and A. Rowstron, "Write
//! off-loading: practical power management for enterprise storage", FAST 2008; SNIA IOTTA):
//!
//! ```text
//! Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//! 128166372003061629,usr,0,Read,7014609920,24576,41286
//! ```
//!
//! Timestamps are Windows file times: ticks of 100 ns. Offset and size are in bytes. The response time
//! is that of the recorded system, in the same ticks: nothing is replayed of it.

use super::record::{
    RecordMistake, RecordedDevice, RecordedOperation, RecordedRequest, TraceRecord, fields, number, wrong,
};
use crate::request::Op;

const COLUMNS: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

/// True if the first line of a file has seven fields, as lines of the MSR Cambridge traces have.
pub(super) fn matches(first_line: &str) -> bool {
    first_line.split(',').count() == 7
}

pub(super) fn read(line: &str) -> Result<TraceRecord<'_>, RecordMistake> {
    let [time, _, _, kind, offset, size, response] = fields(line, COLUMNS)?;
    if time == "Timestamp" {
        return Ok(TraceRecord::Other);
    }
    let op = match kind {
        _ if kind.eq_ignore_ascii_case("read") => Op::Read,
        _ if kind.eq_ignore_ascii_case("write") => Op::Write,
        _ => return wrong(format!("the unknown type `{kind}`"), "Read or Write"),
    };
    let response = Some(number(response, "a response time")?);
    let (offset, bytes) = (number(offset, "an offset")?, number(size, "a size")?);
    let what = RecordedOperation::Data { op, offset, bytes, response };
    Ok(TraceRecord::Asked(RecordedRequest {
        at: number(time, "a timestamp")?,
        device: RecordedDevice::Named(device(line)),
        what,
    }))
}

/// Returns the device of a line: host name and disk number, the second and third field, with the comma between them.
fn device(line: &str) -> &str {
    let rest = line.split_once(',').map_or("", |(_, rest)| rest);
    rest.match_indices(',').nth(1).map_or(rest, |(end, _)| &rest[..end])
}
