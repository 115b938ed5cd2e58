//! fio's iologs (fio documentation, "Trace file format v2" and "v3").
//!
//! ```text
//! fio version 2 iolog            fio version 3 iolog
//! /dev/sda add                   0 /dev/sda add
//! /dev/sda read 4096 512         17 /dev/sda read 4096 512
//! ```
//!
//! Timestamps are whole microseconds from the start of the run. Version 2 has none; there an action
//! `wait` holds everything after it back by so many microseconds, and waits below 100 are discarded,
//! as the documentation says. Without any wait all requests arrive at once.

use super::format::Format;
use super::record::{RecordMistake, RecordedDevice, RecordedOperation, RecordedRequest, TraceRecord, number, wrong};
use super::trace_io::TimedTraceRequest;
use crate::request::Op;

const HEAD_2: &str = "fio version 2 iolog";
const HEAD_3: &str = "fio version 3 iolog";
/// Shortest wait that fio keeps, in microseconds.
const WAIT_MIN_US: u64 = 100;
/// Name of the device in the iologs that this program writes.
const DEVICE: &str = "phaselink";

/// Reader of the lines of a fio iolog, which keeps the sum of the waits.
#[derive(Debug)]
pub(super) struct IologLineReader {
    has_times: bool,
    /// Sum of the waits of a version 2 iolog so far, in microseconds.
    waited: u64,
}

pub(super) fn detect(first_line: &str) -> Option<Format> {
    match first_line {
        HEAD_2 => Some(Format::FioIolog2),
        HEAD_3 => Some(Format::FioIolog3),
        _ => None,
    }
}

impl IologLineReader {
    pub(super) fn new(has_times: bool) -> IologLineReader {
        IologLineReader { has_times, waited: 0 }
    }

    pub(super) fn read<'a>(&mut self, line: &'a str) -> Result<TraceRecord<'a>, RecordMistake> {
        let mut array = [""; 6];
        let mut count = 0;
        for (place, field) in array.iter_mut().zip(line.split_ascii_whitespace()) {
            *place = field;
            count += 1;
        }
        if [HEAD_2, HEAD_3].contains(&line.trim()) {
            return Ok(TraceRecord::Other);
        }
        let (at, fields) = match array[..count] {
            [time, ref rest @ ..] if self.has_times => (number(time, "a timestamp")?, rest),
            ref all => (self.waited, all),
        };
        match *fields {
            [device, action, offset, length] => self.action(at, device, action, [offset, length]),
            [_, "add" | "open" | "close"] => Ok(TraceRecord::Other),
            [device, action @ ("wait" | "sync" | "datasync"), ref rest @ ..] if rest.len() < 2 => {
                self.action(at, device, action, [rest.first().unwrap_or(&"0"), "0"])
            }
            _ => wrong(format!("`{}`", line.trim()), "FILE ACTION OFFSET LENGTH, after a timestamp in version 3"),
        }
    }

    fn action<'a>(
        &mut self,
        at: u64,
        device: &'a str,
        action: &str,
        numbers: [&str; 2],
    ) -> Result<TraceRecord<'a>, RecordMistake> {
        let [offset, bytes] = [number(numbers[0], "an offset")?, number(numbers[1], "a length")?];
        let device = RecordedDevice::Named(device);
        let request = |op| {
            Ok(TraceRecord::Asked(RecordedRequest {
                at,
                device,
                what: RecordedOperation::Data { op, offset, bytes, response: None },
            }))
        };
        match action {
            "read" => request(Op::Read),
            "write" => request(Op::Write),
            "sync" | "datasync" => Ok(TraceRecord::flush(at, device)),
            "trim" => Ok(TraceRecord::left_out(at, device, "discards")),
            "wait" if self.has_times => wrong("a wait in an iolog of version 3", "timestamps"),
            "wait" => self.wait(offset),
            _ => wrong(
                format!("the unknown action `{action}`"),
                "read, write, wait, sync, datasync, trim, add, open or close",
            ),
        }
    }

    fn wait<'a>(&mut self, us: u64) -> Result<TraceRecord<'a>, RecordMistake> {
        let kept = if us < WAIT_MIN_US { 0 } else { us };
        self.waited = self.waited.saturating_add(kept);
        Ok(TraceRecord::Other)
    }
}

/// Writes requests as a fio iolog of version 3, which [`parse`](super::parse) and fio itself replay. Arrival times are
/// cut to whole microseconds, because the format has no smaller unit.
pub fn to_iolog(ios: impl IntoIterator<Item = TimedTraceRequest>) -> String {
    let mut text = begin();
    let mut end_us = 0;
    for TimedTraceRequest { at, io } in ios {
        end_us = at.as_ps() / 1_000_000;
        text.push_str(&line(end_us, action(io.op), io.offset, io.bytes.into()));
    }
    text + &end(end_us)
}

/// Returns fio's iolog word for an operation, such as `read` or `trim`.
pub fn action(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        // A fio iolog has no operation for Write Zeroes, so it becomes a write.
        Op::Write | Op::WriteZeroes => "write",
        Op::Flush => "sync",
        Op::Discard => "trim",
    }
}

/// Returns the first lines of a version 3 iolog, for writers that produce it piece by piece.
pub fn begin() -> String {
    format!("{HEAD_3}\n0 {DEVICE} add\n0 {DEVICE} open\n")
}

/// Returns one line of a version 3 iolog; `action` is fio's word for the operation.
pub fn line(at_us: u64, action: &str, offset: u64, bytes: u64) -> String {
    format!("{at_us} {DEVICE} {action} {offset} {bytes}\n")
}

/// Returns the last line of a version 3 iolog, which closes the device.
pub fn end(at_us: u64) -> String {
    format!("{at_us} {DEVICE} close\n")
}
