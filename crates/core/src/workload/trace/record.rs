//! Records of a trace as the readers of all formats return them, and helpers that readers share.

use crate::request::Op;

/// Unit of sectors in the formats that count in them, whatever the device's own.
pub(super) const SECTOR_BYTES: u64 = 512;

/// One line of a text, or one record of a binary file.
pub(super) enum TraceRecord<'a> {
    /// Request as the application asked for it.
    Asked(RecordedRequest<'a>),
    /// Request as the driver got it. This step stands for a request if the trace has no earlier step; only then do
    /// mistakes in it matter.
    Issued(Result<RecordedRequest<'a>, RecordMistake>),
    /// A request came back from the device.
    Completed { at: u64, device: DeviceName<'a> },
    /// Nothing that concerns a drive: a comment, a heading, another step of a request.
    Other,
    /// Nothing follows but statistics.
    End,
}

/// A request as a format gives it.
pub(super) struct RecordedRequest<'a> {
    /// In units of the format.
    pub at: u64,
    pub device: DeviceName<'a>,
    pub what: RecordedOperation,
}

/// Operation of a request.
#[derive(Clone, Copy)]
pub(super) enum RecordedOperation {
    Data {
        op: Op,
        offset: u64,
        bytes: u64,
        /// Response time on the recorded system, in units of the format.
        response: Option<u64>,
    },
    /// Write with flushes around it, as its flags ask for.
    FlushedWrite { offset: u64, bytes: u64, flushes: FlagFlushes },
    /// Flush of the device's write buffer, without data.
    Flush,
    /// Another operation: its kind, in the plural.
    LeftOut(&'static str),
}

/// Flushes that a request's flags ask for, done as Linux does them on a drive without forced unit access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlagFlushes {
    /// True if earlier writes become durable first (`REQ_PREFLUSH`).
    pub before: bool,
    /// True if the write itself is durable when it completes (`REQ_FUA`).
    pub after: bool,
}

/// Device of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceName<'a> {
    Named(&'a str),
    /// Major and minor number as the Linux kernel packs them: twenty bits of minor.
    Numbered(u32),
}

impl DeviceName<'_> {
    /// Linux names devices by their numbers, as in `8,16`.
    pub(super) fn name(self) -> String {
        match self {
            DeviceName::Named(name) => name.into(),
            DeviceName::Numbered(number) => format!("{},{}", number >> 20, number & 0xf_ffff),
        }
    }
}

/// Mistake in a record: what was found, and what is allowed.
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
    /// Flushes that the flags of the record's request ask for.
    pub(super) fn flushes(&self) -> FlagFlushes {
        match self {
            TraceRecord::Asked(RecordedRequest { what: RecordedOperation::FlushedWrite { flushes, .. }, .. })
            | TraceRecord::Issued(Ok(RecordedRequest {
                what: RecordedOperation::FlushedWrite { flushes, .. }, ..
            })) => *flushes,
            _ => FlagFlushes::default(),
        }
    }

    /// Flush of a device, without data.
    pub(super) fn flush(at: u64, device: DeviceName<'a>) -> TraceRecord<'a> {
        TraceRecord::Asked(RecordedRequest { at, device, what: RecordedOperation::Flush })
    }

    pub(super) fn left_out(at: u64, device: DeviceName<'a>, kind: &'static str) -> TraceRecord<'a> {
        TraceRecord::Asked(RecordedRequest { at, device, what: RecordedOperation::LeftOut(kind) })
    }
}

/// A whole number in a field.
pub(super) fn number(field: &str, what: &str) -> Result<u64, RecordMistake> {
    let plain = field.as_bytes().first().is_some_and(u8::is_ascii_digit);
    match field.parse() {
        Ok(number) if plain => Ok(number),
        _ => wrong(format!("`{field}` as {what}"), "a whole number of 64 bits"),
    }
}

/// Seconds with up to nine decimals, in nanoseconds.
pub(super) fn nanoseconds(text: &str) -> Result<u64, RecordMistake> {
    let bad = || RecordMistake::new(format!("`{text}` as a time"), "seconds, with up to nine decimals");
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if decimals.is_empty() || decimals.len() > 9 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let digits = decimals.bytes().fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0'));
    let fraction = digits * 10u64.pow(9 - decimals.len() as u32);
    let whole = number(seconds, "a time").ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
    whole.and_then(|whole| whole.checked_add(fraction)).ok_or_else(bad)
}

/// Sectors as bytes.
pub(super) fn sectors(first: u64, count: u64) -> Result<(u64, u64), RecordMistake> {
    match (first.checked_mul(SECTOR_BYTES), count.checked_mul(SECTOR_BYTES)) {
        (Some(offset), Some(bytes)) => Ok((offset, bytes)),
        _ => wrong(format!("{count} sectors from sector {first}"), "bytes that 64 bits can count"),
    }
}

/// The fields of a line of comma-separated values, if there are so many.
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

/// True if all fields of a line are whole numbers.
pub(super) fn are_numbers(fields: &[&str]) -> bool {
    fields.iter().all(|field| !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit()))
}
