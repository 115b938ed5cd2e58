//! Readers of all trace formats behind one type, and detection of a file's format by its content.

use super::format::Format;
use super::record::{RecordMistake, TraceRecord, wrong};
use super::{alibaba, blkparse, blktrace, iolog, msr, systor, tencent, vscsi};

/// Reader of the records of one trace format.
#[derive(Debug)]
pub(super) enum FormatRecordReader {
    Blkparse,
    Blktrace(blktrace::BlktraceByteOrder),
    Iolog(iolog::IologLineReader),
    Msr,
    Alibaba,
    Tencent,
    Systor,
    Vscsi(vscsi::VscsiRecordLayout),
}

/// Function that returns true if the first line of a file belongs to a certain format.
type FormatMatcher = fn(&str) -> bool;

/// Detects the format of a trace by the first bytes of a file. In a text, the first line counts that is neither empty
/// nor a notice of blkparse.
pub(super) fn detect(start: &[u8]) -> Option<Format> {
    if blktrace::detect(start).is_some() {
        return Some(Format::Blktrace);
    }
    if vscsi::detect(start).is_some() {
        return Some(Format::Vscsi);
    }
    let first = first_line(start)?;
    if let Some(format) = iolog::detect(first) {
        return Some(format);
    }
    let texts: [(FormatMatcher, Format); 5] = [
        (blkparse::is_event_line, Format::Blkparse),
        (msr::matches, Format::MsrCambridge),
        (alibaba::matches, Format::Alibaba),
        (tencent::matches, Format::Tencent),
        (systor::matches, Format::Systor),
    ];
    texts.into_iter().find(|(matches, _)| matches(first)).map(|(_, format)| format)
}

fn first_line(start: &[u8]) -> Option<&str> {
    let lines = start.split(|byte| *byte == b'\n').map(|line| std::str::from_utf8(line).unwrap_or_default().trim());
    lines.into_iter().find(|line| !line.is_empty() && !blkparse::is_notice_line(line))
}

impl FormatRecordReader {
    /// Makes the reader of a trace format for a file that starts with these bytes.
    ///
    /// # Errors
    /// If no file of a binary format starts like this; text formats are checked line by line.
    pub(super) fn new(format: Format, start: &[u8]) -> Result<FormatRecordReader, RecordMistake> {
        Ok(match format {
            Format::Blkparse => FormatRecordReader::Blkparse,
            Format::Blktrace => match blktrace::detect(start) {
                Some(order) => FormatRecordReader::Blktrace(order),
                None => return wrong("no record of blktrace at the start", "files of blktrace"),
            },
            Format::FioIolog2 => FormatRecordReader::Iolog(iolog::IologLineReader::new(false)),
            Format::FioIolog3 => FormatRecordReader::Iolog(iolog::IologLineReader::new(true)),
            Format::MsrCambridge => FormatRecordReader::Msr,
            Format::Alibaba => FormatRecordReader::Alibaba,
            Format::Tencent => FormatRecordReader::Tencent,
            Format::Systor => FormatRecordReader::Systor,
            Format::Vscsi => match vscsi::detect(start) {
                Some(layout) => FormatRecordReader::Vscsi(layout),
                None => return wrong("no vscsi records at the start", "records of version 1 or 2"),
            },
        })
    }

    /// Returns the length in bytes of the trace file's binary record at the start of `bytes`; `None` if too few bytes
    /// are given to know it, or for a text format.
    pub(super) fn record_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, RecordMistake> {
        match self {
            FormatRecordReader::Blktrace(order) => order.length(bytes),
            FormatRecordReader::Vscsi(layout) => Ok(Some(layout.record_bytes)),
            _ => Ok(None),
        }
    }

    /// True if trace files of this format consist of binary records and not of lines of text.
    pub(super) fn has_binary_records(&self) -> bool {
        matches!(self, FormatRecordReader::Blktrace(_) | FormatRecordReader::Vscsi(_))
    }

    /// Parses one complete binary record of a trace file. A text format has none, so that nothing is parsed.
    pub(super) fn record(&self, record: &[u8]) -> Result<TraceRecord<'static>, RecordMistake> {
        match self {
            FormatRecordReader::Blktrace(order) => order.read(record),
            FormatRecordReader::Vscsi(layout) => layout.read(record),
            _ => Ok(TraceRecord::Other),
        }
    }

    /// Reads one line of a text; a binary format has none, so that nothing is read.
    pub(super) fn line<'a>(&mut self, line: &'a str) -> Result<TraceRecord<'a>, RecordMistake> {
        match self {
            FormatRecordReader::Blkparse => blkparse::read(line),
            FormatRecordReader::Iolog(reader) => reader.read(line),
            FormatRecordReader::Msr => msr::read(line),
            FormatRecordReader::Alibaba => alibaba::read(line),
            FormatRecordReader::Tencent => tencent::read(line),
            FormatRecordReader::Systor => systor::read(line),
            FormatRecordReader::Blktrace(_) | FormatRecordReader::Vscsi(_) => Ok(TraceRecord::Other),
        }
    }
}
