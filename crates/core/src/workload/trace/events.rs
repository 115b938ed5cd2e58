//! Reader of the events of one trace file, in the order of the file.

use super::file::{File, Pieces};
use super::format::{ALLOWED, Format};
use super::reader::{FormatRecordReader, detect};
use super::record::{
    RecordMistake, RecordedDevice, RecordedOperation, RecordedRequest, TraceRecord, WriteFlagFlushes, wrong,
};
use crate::number::{index, short_length};
use crate::problem::Problem;
use crate::request::{Io, Op};
use std::collections::{BTreeMap, VecDeque};

/// Largest length of a line in bytes; a file with a longer line is no trace.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Number of bytes at the start of a file by which its format is detected; no heading is longer.
const START_BYTES: usize = 4096;
/// Largest length of a device name in bytes; `DEVICES_MAX` is the largest number of devices in a trace.
const NAME_BYTES_MAX: usize = 4096;
const DEVICES_MAX: usize = 1 << 16;

/// Event of a trace: a step of a request, with its time and device.
#[derive(Debug)]
pub(super) struct TraceEvent {
    /// Time of the event in units of the format.
    pub at: u64,
    /// Index of the device in the list of device names ([`TraceDeviceNames`]).
    pub device: u32,
    pub step: RecordedRequestStep,
}

impl TraceEvent {
    /// Returns an event for a flush of the same device at the same time and step.
    fn flush(&self) -> TraceEvent {
        let flush = RecordedTraceRequest::Data { io: Io::flush(), response: None };
        let step = match self.step {
            RecordedRequestStep::Issued(_) => RecordedRequestStep::Issued(Ok(flush)),
            RecordedRequestStep::Queued(_) | RecordedRequestStep::Completed => RecordedRequestStep::Queued(flush),
        };
        TraceEvent { step, ..*self }
    }
}

/// Step of a request: queued by the application, issued to the driver, or completed.
#[derive(Debug)]
pub(super) enum RecordedRequestStep {
    Queued(RecordedTraceRequest),
    /// The driver received the request. A mistake in the record matters only if the trace has no queueing steps.
    Issued(Result<RecordedTraceRequest, Box<Problem>>),
    Completed,
}

/// Request of a trace: a read, write or flush, or an operation of another kind that is not replayed.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordedTraceRequest {
    Data { io: Io, response: Option<u64> },
    LeftOut(&'static str),
}

/// Names of the devices of a trace, in the order in which they first occur.
#[derive(Debug, Default)]
pub(super) struct TraceDeviceNames {
    pub names: Vec<String>,
    places: BTreeMap<String, u32>,
    numbers: BTreeMap<u32, u32>,
    /// Packed major and minor number, and index, of the device that was seen last; mostly the next event is of the same
    /// device.
    last: Option<(u32, u32)>,
    last_place: u32,
}

impl TraceDeviceNames {
    /// Returns the index of a device, which is added if it is new.
    ///
    /// # Errors
    /// If there are too many devices, or the name is too long.
    pub(super) fn place(&mut self, device: RecordedDevice<'_>) -> Result<u32, RecordMistake> {
        match device {
            RecordedDevice::Numbered(number) => {
                if let Some((_, place)) = self.last.filter(|(last, _)| *last == number) {
                    return Ok(place);
                }
                let place = match self.numbers.get(&number) {
                    Some(place) => *place,
                    None => self.named(&device.name())?,
                };
                self.numbers.insert(number, place);
                self.last = Some((number, place));
                Ok(place)
            }
            RecordedDevice::Named(name) => {
                if self.names.get(index(self.last_place)).is_none_or(|last| last != name) {
                    self.last_place = self.named(name)?;
                }
                Ok(self.last_place)
            }
        }
    }

    fn named(&mut self, name: &str) -> Result<u32, RecordMistake> {
        if let Some(place) = self.places.get(name) {
            return Ok(*place);
        }
        if name.len() > NAME_BYTES_MAX {
            let allowed = format!("names of at most {NAME_BYTES_MAX} bytes");
            return wrong(format!("a device whose name has {} bytes", name.len()), allowed);
        }
        if self.names.len() == DEVICES_MAX {
            return wrong(format!("`{name}` is one device too many"), format!("at most {DEVICES_MAX} devices"));
        }
        let place = short_length(self.names.len());
        self.names.push(name.into());
        self.places.insert(name.into(), place);
        Ok(place)
    }
}

/// Reader of one trace file: detects its format and returns its events one by one.
pub(super) struct Events {
    file: String,
    pub format: Format,
    reader: FormatRecordReader,
    pieces: Pieces,
    /// Bytes of the file that have been read; those from index `at` on have not been parsed yet.
    buffer: Vec<u8>,
    at: usize,
    /// Number of lines or binary records read of the trace file so far. `offset` is the position of the next binary
    /// record, in bytes.
    line: usize,
    offset: u64,
    is_ended: bool,
    /// Events that follow from the last trace record besides the one that was returned: a write and the flushes around
    /// it.
    waiting: VecDeque<TraceEvent>,
    pub devices: TraceDeviceNames,
}

impl Events {
    /// Opens a trace file of this format, or detects the format by the file's content.
    ///
    /// # Errors
    /// If the file cannot be opened, or has no known format.
    pub(super) fn open(file: &File, format: Option<Format>) -> Result<Events, Problem> {
        let mut pieces = file.pieces()?;
        let mut buffer = Vec::new();
        while buffer.len() < START_BYTES {
            let Some(piece) = pieces.next() else { break };
            buffer.append(&mut piece?);
        }
        let Some(format) = format.or_else(|| detect(&buffer)) else {
            let is_empty = buffer.iter().all(u8::is_ascii_whitespace);
            let found = if is_empty { "the trace is empty" } else { "a trace of unknown format" };
            return Err(Problem::new(&file.name, None, found, ALLOWED));
        };
        let reader = FormatRecordReader::new(format, &buffer).map_err(|wrong| {
            let (found, allowed) = wrong.into_parts();
            Problem::new(&file.name, None, found, allowed)
        })?;
        let (file, devices) = (file.name.clone(), TraceDeviceNames::default());
        let waiting = VecDeque::new();
        Ok(Events {
            file,
            format,
            reader,
            pieces,
            buffer,
            at: 0,
            line: 0,
            offset: 0,
            is_ended: false,
            waiting,
            devices,
        })
    }

    /// Returns the next event of the file, or the problem of a line; none at the end of the file.
    pub(super) fn next(&mut self) -> Option<Result<TraceEvent, Problem>> {
        if let Some(event) = self.waiting.pop_front() {
            return Some(Ok(event));
        }
        let next = match self.reader.has_binary_records() {
            true => self.next_record(),
            false => self.next_line(),
        };
        self.is_ended |= next.is_none();
        next.map(|event| event.map(|event| self.first_with_flushes(event)))
    }

    /// Returns the first of the events that a trace record stands for, and queues the others: a flush before the
    /// request, the request, a flush after it.
    fn first_with_flushes(&mut self, (event, flushes): (TraceEvent, WriteFlagFlushes)) -> TraceEvent {
        if flushes == WriteFlagFlushes::default() {
            return event;
        }
        let flush = event.flush();
        self.waiting.extend(flushes.after.then(|| event.flush()));
        match flushes.before {
            true => {
                self.waiting.push_front(event);
                flush
            }
            false => event,
        }
    }

    fn next_line(&mut self) -> Option<Result<FlushFlaggedEvent, Problem>> {
        while !self.is_ended {
            let (end, next) = match self.line_end_and_next() {
                Err(problem) => return self.fail_reading(problem),
                Ok(None) => return None,
                Ok(Some(ends)) => ends,
            };
            let bytes = &self.buffer[self.at..end];
            let is_cut = next == end;
            self.at = next;
            self.line += 1;
            let Ok(line) = std::str::from_utf8(bytes)
                .map_err(drop)
                .and_then(|it| if it.contains('\0') { Err(()) } else { Ok(it) })
            else {
                let problem = Problem::new(&self.file, self.line, "bytes that are not text", "UTF-8");
                return self.fail_reading(problem);
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let place = RecordPlace { file: &self.file, line: Some(self.line), record: None, is_cut };
            match self.reader.line(line).and_then(|record| event(record, &mut self.devices, &place)) {
                Ok(ParsedRecord::Event(event)) => return Some(Ok(event)),
                Ok(ParsedRecord::Nothing) => {}
                Ok(ParsedRecord::End) => return None,
                Err(wrong) => return Some(Err(place.problem(wrong))),
            }
        }
        None
    }

    /// Returns the end of the trace file's line that starts at `at`, and the start of the next line. `None` at the end
    /// of the file. Reads more of the file as needed.
    fn line_end_and_next(&mut self) -> Result<Option<(usize, usize)>, Problem> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.at..];
            if let Some(found) = rest[searched..].iter().position(|byte| *byte == b'\n') {
                let end = self.at + searched + found;
                return Ok(Some((end, end + 1)));
            }
            searched = rest.len();
            if searched > LINE_BYTES_MAX {
                let found = format!("a line of more than {LINE_BYTES_MAX} bytes");
                return Err(Problem::new(&self.file, self.line + 1, found, ALLOWED));
            }
            if !self.read_more_bytes()? {
                let end = self.buffer.len();
                return Ok((end > self.at).then_some((end, end)));
            }
        }
    }

    fn next_record(&mut self) -> Option<Result<FlushFlaggedEvent, Problem>> {
        while !self.is_ended {
            let length = match self.whole_record_length() {
                Err(problem) => return self.fail_reading(problem),
                Ok(None) => return None,
                Ok(Some(length)) => length,
            };
            let record = &self.buffer[self.at..self.at + length];
            self.line += 1;
            let place =
                RecordPlace { file: &self.file, line: None, record: Some((self.line, self.offset)), is_cut: false };
            let read = self.reader.record(record).and_then(|record| event(record, &mut self.devices, &place));
            self.at += length;
            self.offset += length as u64;
            match read {
                Ok(ParsedRecord::Event(event)) => return Some(Ok(event)),
                Ok(ParsedRecord::Nothing) => {}
                Ok(ParsedRecord::End) => return None,
                Err(wrong) => return Some(Err(place.problem(wrong))),
            }
        }
        None
    }

    /// Returns the length in bytes of the trace file's binary record at `at`, once all of it has been read; none at the
    /// end of the file. A record that is cut short is a problem.
    fn whole_record_length(&mut self) -> Result<Option<usize>, Problem> {
        loop {
            let rest = &self.buffer[self.at..];
            let place =
                RecordPlace { file: &self.file, line: None, record: Some((self.line + 1, self.offset)), is_cut: false };
            let length = self.reader.record_bytes(rest).map_err(|wrong| place.problem(wrong))?;
            if let Some(length) = length.filter(|length| *length <= rest.len()) {
                return Ok(Some(length));
            }
            let rest_bytes = rest.len();
            if !self.read_more_bytes()? {
                let wrong = RecordMistake::new(
                    format!("{rest_bytes} bytes of a record at the end"),
                    "whole records: the file seems cut short",
                );
                let place = RecordPlace {
                    file: &self.file,
                    line: None,
                    record: Some((self.line + 1, self.offset)),
                    is_cut: false,
                };
                return if rest_bytes == 0 { Ok(None) } else { Err(place.problem(wrong)) };
            }
        }
    }

    /// Reads the next piece of the file into the buffer; returns false at the end of the file.
    fn read_more_bytes(&mut self) -> Result<bool, Problem> {
        let Some(piece) = self.pieces.next() else { return Ok(false) };
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(&piece?);
        Ok(true)
    }

    /// Ends reading of the file with a problem after which nothing can be parsed.
    fn fail_reading(&mut self, problem: Problem) -> Option<Result<FlushFlaggedEvent, Problem>> {
        self.is_ended = true;
        Some(Err(problem))
    }
}

/// Position of a record in a trace file, for messages.
struct RecordPlace<'a> {
    file: &'a str,
    line: Option<usize>,
    /// Number of a binary record of a trace file, from 1, and position of its first byte; none in a text file.
    record: Option<(usize, u64)>,
    /// True for a last line without a newline: the file may be cut short.
    is_cut: bool,
}

impl RecordPlace<'_> {
    fn problem(&self, wrong: RecordMistake) -> Problem {
        let (mut found, allowed) = wrong.into_parts();
        if self.is_cut {
            found += " (the last line, which has no end: the file seems cut short)";
        }
        if let Some((record, offset)) = self.record {
            found = format!("record {record} at byte {offset}: {found}");
        }
        Problem::new(self.file, self.line, found, allowed)
    }
}

/// Event of a trace file's record, with the flushes that the flags of its request ask for.
type FlushFlaggedEvent = (TraceEvent, WriteFlagFlushes);

/// Result of parsing a record of a trace file: an event, nothing that matters, or the end of the trace.
enum ParsedRecord {
    Event(FlushFlaggedEvent),
    Nothing,
    End,
}

fn event(
    record: TraceRecord<'_>,
    devices: &mut TraceDeviceNames,
    place: &RecordPlace<'_>,
) -> Result<ParsedRecord, RecordMistake> {
    let flushes = record.flushes();
    let event = match record {
        TraceRecord::Other => return Ok(ParsedRecord::Nothing),
        TraceRecord::End => return Ok(ParsedRecord::End),
        TraceRecord::Completed { at, device } => {
            TraceEvent { at, device: devices.place(device)?, step: RecordedRequestStep::Completed }
        }
        TraceRecord::Asked(asked) => {
            let (at, device) = (asked.at, devices.place(asked.device)?);
            TraceEvent { at, device, step: RecordedRequestStep::Queued(thing(asked)?) }
        }
        TraceRecord::Issued(Ok(asked)) => {
            let (at, device) = (asked.at, devices.place(asked.device)?);
            TraceEvent {
                at,
                device,
                step: RecordedRequestStep::Issued(thing(asked).map_err(|wrong| Box::new(place.problem(wrong)))),
            }
        }
        TraceRecord::Issued(Err(wrong)) => {
            TraceEvent { at: 0, device: 0, step: RecordedRequestStep::Issued(Err(Box::new(place.problem(wrong)))) }
        }
    };
    Ok(ParsedRecord::Event((event, flushes)))
}

fn thing(asked: RecordedRequest<'_>) -> Result<RecordedTraceRequest, RecordMistake> {
    match asked.what {
        RecordedOperation::LeftOut(kind) => Ok(RecordedTraceRequest::LeftOut(kind)),
        RecordedOperation::Data { op, offset, bytes, response } => {
            Ok(RecordedTraceRequest::Data { io: io(op, offset, bytes)?, response })
        }
        RecordedOperation::FlushedWrite { offset, bytes, .. } => {
            Ok(RecordedTraceRequest::Data { io: io(Op::Write, offset, bytes)?, response: None })
        }
        RecordedOperation::Flush => Ok(RecordedTraceRequest::Data { io: Io::flush(), response: None }),
    }
}

fn io(op: Op, offset: u64, length: u64) -> Result<Io, RecordMistake> {
    match u32::try_from(length) {
        Ok(bytes) if bytes > 0 && offset.checked_add(length).is_some() => Ok(Io { op, offset, bytes }),
        _ => {
            let found = format!("a request of {length} bytes at byte {offset}");
            wrong(found, format!("1 to {} bytes, ending below 2^64", u32::MAX))
        }
    }
}
