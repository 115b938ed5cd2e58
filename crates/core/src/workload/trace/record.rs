//! Records of a trace as the readers of all formats return them, and functions that the readers share.

use crate::number::short_length;
use crate::request::Op;

/// Size of a sector in bytes, in the formats that count in sectors, whatever the device's own block size is.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Content of one line of a text trace, or of one record of a binary trace.
pub(super) enum TraceRecord<'a> {
    /// Request at the time when the application submitted it (queueing).
    Asked(RecordedRequest<'a>),
    /// Request at the time when the driver received it. This step stands for a request if the trace has no earlier
    /// step; only then do mistakes in the record matter.
    Issued(Result<RecordedRequest<'a>, RecordMistake>),
    /// Completion of a request by the device, at time `at` in units of the format.
    Completed { at: u64, device: RecordedDevice<'a> },
    /// Record that has no effect on a drive: a comment, a heading, another step of a request.
    Other,
    /// End of the events; only statistics follow.
    End,
}

/// Request as a record of a trace file gives it: time, device and operation.
pub(super) struct RecordedRequest<'a> {
    /// Time of the request, in units of the format.
    pub at: u64,
    pub device: RecordedDevice<'a>,
    pub what: RecordedOperation,
}

/// Operation of a recorded request.
#[derive(Clone, Copy)]
pub(super) enum RecordedOperation {
    Data {
        op: Op,
        offset: u64,
        bytes: u64,
        /// Response time on the recorded system, in units of the format.
        response: Option<u64>,
    },
    /// Write with a flush before or after it, as its flags request.
    FlushedWrite { offset: u64, bytes: u64, flushes: WriteFlagFlushes },
    /// Flush of the device's write buffer, without data.
    Flush,
    /// Operation of another kind, which is not replayed: name of the kind, in the plural.
    LeftOut(&'static str),
}

/// Flushes around a write that its flags request, executed as Linux does on a drive without forced unit access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteFlagFlushes {
    /// True if earlier writes must be durable before the write (`REQ_PREFLUSH`).
    pub before: bool,
    /// True if the write itself must be durable when it completes (`REQ_FUA`).
    pub after: bool,
}

/// Device of a recorded request: its name, or its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordedDevice<'a> {
    Named(&'a str),
    /// Major and minor number as the Linux kernel packs them: the minor number takes the lower twenty bits.
    Numbered(u32),
}

impl RecordedDevice<'_> {
    /// Returns the name of the device; a number becomes `major,minor`, as in `8,16`.
    pub(super) fn name(self) -> String {
        match self {
            RecordedDevice::Named(name) => name.into(),
            RecordedDevice::Numbered(number) => format!("{},{}", number >> 20, number & 0xf_ffff),
        }
    }
}

/// Mistake in a record of a trace: what was found, and what is allowed.
#[derive(Debug)]
pub(super) struct RecordMistake(Box<(String, String)>);

impl RecordMistake {
    pub(super) fn new(found: impl Into<String>, allowed: impl Into<String>) -> RecordMistake {
        RecordMistake(Box::new((found.into(), allowed.into())))
    }

    pub(super) fn into_parts(self) -> (String, String) {
        *self.0
    }
}

pub(super) fn wrong<T>(found: impl Into<String>, allowed: impl Into<String>) -> Result<T, RecordMistake> {
    Err(RecordMistake::new(found, allowed))
}

impl<'a> TraceRecord<'a> {
    /// Returns the flushes around a write that the flags of a trace record's request ask for.
    pub(super) fn flushes(&self) -> WriteFlagFlushes {
        match self {
            TraceRecord::Asked(RecordedRequest { what: RecordedOperation::FlushedWrite { flushes, .. }, .. })
            | TraceRecord::Issued(Ok(RecordedRequest {
                what: RecordedOperation::FlushedWrite { flushes, .. }, ..
            })) => *flushes,
            _ => WriteFlagFlushes::default(),
        }
    }

    /// Makes a trace record for a flush of a device, submitted at `at` in the format's unit of time.
    pub(super) fn flush(at: u64, device: RecordedDevice<'a>) -> TraceRecord<'a> {
        TraceRecord::Asked(RecordedRequest { at, device, what: RecordedOperation::Flush })
    }

    pub(super) fn left_out(at: u64, device: RecordedDevice<'a>, kind: &'static str) -> TraceRecord<'a> {
        TraceRecord::Asked(RecordedRequest { at, device, what: RecordedOperation::LeftOut(kind) })
    }
}

/// Parses a whole number of a field; `what` names the field for the error message.
pub(super) fn number(field: &str, what: &str) -> Result<u64, RecordMistake> {
    let plain = field.as_bytes().first().is_some_and(u8::is_ascii_digit);
    match field.parse() {
        Ok(number) if plain => Ok(number),
        _ => wrong(format!("`{field}` as {what}"), "a whole number of 64 bits"),
    }
}

/// Parses seconds with up to nine decimals; returns nanoseconds.
pub(super) fn nanoseconds(text: &str) -> Result<u64, RecordMistake> {
    let bad = || RecordMistake::new(format!("`{text}` as a time"), "seconds, with up to nine decimals");
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if decimals.is_empty() || decimals.len() > 9 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let digits = decimals.bytes().fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0'));
    let fraction = digits * 10u64.pow(9 - short_length(decimals.len()));
    let whole = number(seconds, "a time").ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
    whole.and_then(|whole| whole.checked_add(fraction)).ok_or_else(bad)
}

/// Converts first sector and number of sectors into offset and length in bytes.
pub(super) fn sectors(first: u64, count: u64) -> Result<(u64, u64), RecordMistake> {
    match (first.checked_mul(SECTOR_BYTES), count.checked_mul(SECTOR_BYTES)) {
        (Some(offset), Some(bytes)) => Ok((offset, bytes)),
        _ => wrong(format!("{count} sectors from sector {first}"), "bytes that 64 bits can count"),
    }
}

/// Returns the fields of a line of comma-separated values, without blanks around them. The line must have exactly
/// `COUNT` fields; `columns` names them for the error message.
pub(super) fn fields<'a, const COUNT: usize>(line: &'a str, columns: &str) -> Result<[&'a str; COUNT], RecordMistake> {
    let mut fields = [""; COUNT];
    let mut found = 0;
    for field in line.split(',') {
        if let Some(place) = fields.get_mut(found) {
            *place = field.trim();
        }
        found += 1;
    }
    if found == COUNT { Ok(fields) } else { wrong(format!("{found} fields"), format!("{COUNT}: {columns}")) }
}

/// True if all of the fields are whole numbers in decimal digits.
pub(super) fn are_all_numbers(fields: &[&str]) -> bool {
    fields.iter().all(|field| !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit()))
}
