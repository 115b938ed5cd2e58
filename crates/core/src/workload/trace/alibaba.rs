//! CSV of the Alibaba block traces of 2020 (`io_traces.csv`, <https://github.com/alibaba/block-traces>, "Schema"; J.
//! Li, Q. Wang, P. Lee and C. Shi, "An in-depth analysis of cloud block storage workloads in large-scale production",
//! IISWC 2020):
//!
//! ```text
//! device_id,opcode,offset,length,timestamp
//! 0,R,126703644672,4096,1577808000000626
//! ```
//!
//! There is no heading. Offset and length are in bytes, timestamps in microseconds. One file holds a thousand devices.

use super::record::{
    RecordMistake, RecordedDevice, RecordedOperation, RecordedRequest, TraceRecord, are_all_numbers, fields, number,
    wrong,
};
use crate::request::Op;

const COLUMNS: &str = "device_id,opcode,offset,length,timestamp";

/// True if the first line of a file is the heading or a record of the Alibaba traces.
pub(super) fn matches(first_line: &str) -> bool {
    first_line == COLUMNS
        || fields(first_line, COLUMNS).is_ok_and(|[device, opcode, offset, length, timestamp]| {
            matches!(opcode, "R" | "W") && are_all_numbers(&[device, offset, length, timestamp])
        })
}

pub(super) fn read(line: &str) -> Result<TraceRecord<'_>, RecordMistake> {
    let [device, opcode, offset, length, timestamp] = fields(line, COLUMNS)?;
    let op = match opcode {
        "R" => Op::Read,
        "W" => Op::Write,
        "opcode" => return Ok(TraceRecord::Other),
        _ => return wrong(format!("the unknown opcode `{opcode}`"), "R or W"),
    };
    let (offset, bytes) = (number(offset, "an offset")?, number(length, "a length")?);
    let what = RecordedOperation::Data { op, offset, bytes, response: None };
    Ok(TraceRecord::Asked(RecordedRequest {
        at: number(timestamp, "a timestamp")?,
        device: RecordedDevice::Named(device),
        what,
    }))
}
