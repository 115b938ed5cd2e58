//! Text of blkparse in its default format (blkparse(1), "DEFAULT OUTPUT" and "ACTION IDENTIFIERS"):
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
//! device  cpu    sequence      seconds   pid  action, RWBS, sector + sectors [process]
//! ```
//!
//! A request shows up once for each step through the block layer. What counts here is its queueing, `Q`: when the
//! system asked, before merging and scheduling. Traces recorded without it count the issue to the
//! driver, `D`.

use super::record::{
    RecordMistake, RecordedDevice, RecordedOperation, RecordedRequest, TraceRecord, WriteFlagFlushes, nanoseconds,
    number, sectors, wrong,
};
use crate::request::Op;

/// Every action of a request that blkparse prints, such as `Q` for its queueing.
const ACTIONS: [&str; 16] = ["Q", "G", "I", "D", "C", "R", "M", "F", "S", "P", "U", "UT", "T", "X", "A", "B"];
/// Number of blank-separated fields of a line that are read: those up to the number of sectors.
const FIELDS_MAX: usize = 10;

/// True if a line is an event, which starts with `major,minor`.
pub(super) fn is_event_line(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let device = fields.next().and_then(|field| field.split_once(','));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    device.is_some_and(|(major, minor)| is_number(major) && is_number(minor)) && fields.next().is_some()
}

/// True if a line is blkparse's notice of the file that it reads, which it prints ahead of the events.
pub(super) fn is_notice_line(line: &str) -> bool {
    line.starts_with("Input file ")
}

/// True if a line starts the statistics after the events: `CPU0 (sda):`, `Total (sda):`.
fn is_summary_line(line: &str) -> bool {
    (line.starts_with("CPU") || line.starts_with("Total")) && line.contains('(')
}

pub(super) fn read(line: &str) -> Result<TraceRecord<'_>, RecordMistake> {
    if is_summary_line(line) {
        return Ok(TraceRecord::End);
    }
    if is_notice_line(line) {
        return Ok(TraceRecord::Other);
    }
    let mut array = [""; FIELDS_MAX];
    let mut count = 0;
    for (place, field) in array.iter_mut().zip(line.split_ascii_whitespace()) {
        *place = field;
        count += 1;
    }
    let fields = &array[..count];
    if !is_event_line(line) || fields.len() < 6 {
        return wrong(format!("`{}`", line.trim()), "a line of blkparse: device cpu sequence seconds pid action …");
    }
    match fields[5] {
        "Q" => request(fields).map(TraceRecord::Asked),
        "D" => Ok(TraceRecord::Issued(request(fields))),
        "C" => Ok(nanoseconds(fields[3])
            .map_or(TraceRecord::Other, |at| TraceRecord::Completed { at, device: RecordedDevice::Named(fields[0]) })),
        // `m` is a message from a driver or an I/O scheduler.
        action if ACTIONS.contains(&action) || action == "m" => Ok(TraceRecord::Other),
        action => wrong(format!("the unknown action `{action}`"), "an action of blkparse, such as Q, D or C"),
    }
}

fn request<'a>(fields: &[&'a str]) -> Result<RecordedRequest<'a>, RecordMistake> {
    let at = nanoseconds(fields[3])?;
    let &[rwbs, ref rest @ ..] = &fields[6..] else {
        return wrong("an event without its RWBS field", "R, W and the like");
    };
    Ok(RecordedRequest { at, device: RecordedDevice::Named(fields[0]), what: what(rwbs, rest)? })
}

fn what(rwbs: &str, rest: &[&str]) -> Result<RecordedOperation, RecordMistake> {
    if rwbs.contains('D') {
        return Ok(RecordedOperation::LeftOut("discards"));
    }
    let (sector, count) = match *rest {
        [sector, "+", count, ..] => (number(sector, "a sector")?, number(count, "a number of sectors")?),
        // A flush has no sectors, so the process name follows directly.
        _ if rwbs.contains('F') => return Ok(RecordedOperation::Flush),
        _ if !rwbs.contains(['R', 'W']) => return Ok(RecordedOperation::LeftOut("requests without data")),
        _ => return wrong("an event without its sectors", "SECTOR + SECTORS"),
    };
    let op = match rwbs {
        _ if rwbs.contains('F') && count == 0 => return Ok(RecordedOperation::Flush),
        _ if rwbs.contains('W') => Op::Write,
        _ if rwbs.contains('R') => Op::Read,
        _ => return Ok(RecordedOperation::LeftOut("requests without data")),
    };
    let (offset, bytes) = sectors(sector, count)?;
    if op == Op::Write && rwbs.contains('F') {
        return Ok(RecordedOperation::FlushedWrite { offset, bytes, flushes: flushes_of_rwbs_flags(rwbs) });
    }
    Ok(RecordedOperation::Data { op, offset, bytes, response: None })
}

/// Returns the flushes that the RWBS flags of a write request. An `F` before the `W` stands for a flush before the
/// write, one after the `W` for forced unit access (`blk_fill_rwbs` of Linux).
fn flushes_of_rwbs_flags(rwbs: &str) -> WriteFlagFlushes {
    let (before, after) = rwbs.split_once('W').unwrap_or((rwbs, ""));
    WriteFlagFlushes { before: before.contains('F'), after: after.contains('F') }
}
