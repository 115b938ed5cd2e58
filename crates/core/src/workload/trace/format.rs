//! Which formats there are, and which of them a file has.

use super::record::{Record, Wrong, wrong};
use super::{alibaba, blkparse, blktrace, iolog, msr, systor, tencent, vscsi};
use crate::time::Span;
use std::fmt;

/// Format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    Blkparse,
    Blktrace,
    FioIolog2,
    FioIolog3,
    MsrCambridge,
    Alibaba,
    Tencent,
    Systor,
    Vscsi,
}

/// What is told of a file whose format nobody knows.
pub(super) const ALLOWED: &str = "blktrace or its text from blkparse, a fio iolog of version 2 or 3, CSV of MSR Cambridge, Alibaba, Tencent or Systor '17, or vscsi records";

impl Format {
    /// All of them.
    pub const ALL: [Format; 9] = [
        Format::Blkparse,
        Format::Blktrace,
        Format::FioIolog2,
        Format::FioIolog3,
        Format::MsrCambridge,
        Format::Alibaba,
        Format::Tencent,
        Format::Systor,
        Format::Vscsi,
    ];

    /// The word that stands for it where a user names it.
    pub fn word(self) -> &'static str {
        match self {
            Format::Blkparse => "blkparse",
            Format::Blktrace => "blktrace",
            Format::FioIolog2 => "iolog2",
            Format::FioIolog3 => "iolog3",
            Format::MsrCambridge => "msr",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Systor => "systor",
            Format::Vscsi => "vscsi",
        }
    }

    /// The format of this word.
    pub fn named(word: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.word() == word)
    }

    /// What a recorded time counts.
    pub(super) fn unit(self) -> Span {
        match self {
            Format::Blkparse | Format::Blktrace | Format::Systor => Span::from_ns(1),
            Format::FioIolog2 | Format::FioIolog3 | Format::Alibaba | Format::Vscsi => Span::from_us(1),
            Format::MsrCambridge => Span::from_ns(100),
            Format::Tencent => Span::from_s(1),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Blkparse => "blkparse text",
            Format::Blktrace => "blktrace",
            Format::FioIolog2 => "fio iolog version 2",
            Format::FioIolog3 => "fio iolog version 3",
            Format::MsrCambridge => "MSR Cambridge CSV",
            Format::Alibaba => "Alibaba CSV",
            Format::Tencent => "Tencent CSV",
            Format::Systor => "Systor '17 CSV",
            Format::Vscsi => "vscsi",
        })
    }
}

/// The reader of one format.
#[derive(Debug)]
pub(super) enum Reader {
    Blkparse,
    Blktrace(blktrace::Order),
    Iolog(iolog::Reader),
    Msr,
    Alibaba,
    Tencent,
    Systor,
    Vscsi(vscsi::Layout),
}

/// Whether a line is one of a format.
type Matches = fn(&str) -> bool;

/// The format by the first bytes of a file; of a text it is the first line that says something which tells.
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
    let texts: [(Matches, Format); 5] = [
        (blkparse::is_event, Format::Blkparse),
        (msr::matches, Format::MsrCambridge),
        (alibaba::matches, Format::Alibaba),
        (tencent::matches, Format::Tencent),
        (systor::matches, Format::Systor),
    ];
    texts.into_iter().find(|(matches, _)| matches(first)).map(|(_, format)| format)
}

fn first_line(start: &[u8]) -> Option<&str> {
    let lines = start.split(|byte| *byte == b'\n').map(|line| std::str::from_utf8(line).unwrap_or_default().trim());
    lines.into_iter().find(|line| !line.is_empty() && !blkparse::is_notice(line))
}

impl Reader {
    /// The reader of a format for a file that starts with these bytes.
    ///
    /// # Errors
    /// If no such file starts so; of a text, its lines will tell.
    pub(super) fn new(format: Format, start: &[u8]) -> Result<Reader, Wrong> {
        Ok(match format {
            Format::Blkparse => Reader::Blkparse,
            Format::Blktrace => match blktrace::detect(start) {
                Some(order) => Reader::Blktrace(order),
                None => return wrong("no record of blktrace at the start", "files of blktrace"),
            },
            Format::FioIolog2 => Reader::Iolog(iolog::Reader::new(false)),
            Format::FioIolog3 => Reader::Iolog(iolog::Reader::new(true)),
            Format::MsrCambridge => Reader::Msr,
            Format::Alibaba => Reader::Alibaba,
            Format::Tencent => Reader::Tencent,
            Format::Systor => Reader::Systor,
            Format::Vscsi => match vscsi::detect(start) {
                Some(layout) => Reader::Vscsi(layout),
                None => return wrong("no vscsi records at the start", "records of version 1 or 2"),
            },
        })
    }

    /// Length of the binary record that starts here; none as long as that cannot be told, or of a text.
    pub(super) fn record_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, Wrong> {
        match self {
            Reader::Blktrace(order) => order.length(bytes),
            Reader::Vscsi(layout) => Ok(Some(layout.record_bytes)),
            _ => Ok(None),
        }
    }

    /// Whether files are records of bytes and not lines of text.
    pub(super) fn is_binary(&self) -> bool {
        matches!(self, Reader::Blktrace(_) | Reader::Vscsi(_))
    }

    /// Reads one binary record.
    pub(super) fn record(&self, record: &[u8]) -> Result<Record<'static>, Wrong> {
        match self {
            Reader::Blktrace(order) => order.read(record),
            Reader::Vscsi(layout) => layout.read(record),
            _ => Ok(Record::Other),
        }
    }

    /// Reads one line.
    pub(super) fn line<'a>(&mut self, line: &'a str) -> Result<Record<'a>, Wrong> {
        match self {
            Reader::Blkparse => blkparse::read(line),
            Reader::Iolog(reader) => reader.read(line),
            Reader::Msr => msr::read(line),
            Reader::Alibaba => alibaba::read(line),
            Reader::Tencent => tencent::read(line),
            Reader::Systor => systor::read(line),
            Reader::Blktrace(_) | Reader::Vscsi(_) => Ok(Record::Other),
        }
    }
}
