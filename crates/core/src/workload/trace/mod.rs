//! Block traces: what some other system asked of its drive, and when.
//!
//! Three formats are read: the text that blkparse prints, fio's iologs of version 2 and 3, and the CSV
//! of the MSR Cambridge traces. [`parse`] tells which one it is by content. A trace is of one device;
//! its requests come out sorted by arrival (stably: recorders write slightly out of order), with
//! arrivals counted from the first. Flushes, discards and the like, which a drive here does not do,
//! are left out and counted; anything that is not understood is a problem with its line.

mod blkparse;
pub mod iolog;
mod msr;

pub use iolog::to_iolog;

use super::TraceIo;
use crate::problem::{Problem, Problems};
use crate::request::{Io, Op};
use crate::time::{Span, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Problems that are reported one by one; of the others only their number is.
const PROBLEMS_SHOWN: usize = 20;

/// A trace that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub format: Format,
    /// In order of arrival; the first arrives at zero. Never empty.
    pub ios: Arc<[TraceIo]>,
    /// Records that are no reads or writes of data, by kind, with their number.
    pub left_out: Vec<(&'static str, u64)>,
}

/// Format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Blkparse,
    FioIolog2,
    FioIolog3,
    MsrCambridge,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Blkparse => "blkparse text",
            Format::FioIolog2 => "fio iolog version 2",
            Format::FioIolog3 => "fio iolog version 3",
            Format::MsrCambridge => "MSR Cambridge CSV",
        })
    }
}

/// One line of a trace.
enum Record<'a> {
    Request(Request<'a>),
    LeftOut(&'static str),
    /// Nothing that concerns a drive: a comment, a heading, another step of a request already seen.
    Other,
    /// Nothing follows but statistics.
    End,
}

/// A read or write as the formats give it.
struct Request<'a> {
    /// In units of the format.
    at: u64,
    device: &'a str,
    op: Op,
    offset: u64,
    bytes: u64,
}

/// What is wrong with a line: what was found, and what is allowed.
type Wrong = (String, String);

fn wrong<T>(found: impl Into<String>, allowed: impl Into<String>) -> Result<T, Wrong> {
    Err((found.into(), allowed.into()))
}

/// The reader of one format.
enum AnyReader {
    Blkparse(blkparse::Reader),
    Iolog(iolog::Reader),
    Msr,
}

impl AnyReader {
    fn read<'a>(&mut self, line: &'a str) -> Result<Record<'a>, Wrong> {
        match self {
            AnyReader::Blkparse(reader) => reader.read(line),
            AnyReader::Iolog(reader) => reader.read(line),
            AnyReader::Msr => msr::read(line),
        }
    }
}

/// Reads a trace. All its mistakes are reported at once, up to a number that a person would read.
pub fn parse(file_name: &str, text: &str) -> Result<Trace, Problems> {
    let (format, mut reader, unit) = detect(text).ok_or_else(|| unknown_format(file_name, text))?;
    let mut collector = Collector::new(file_name);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match reader.read(line) {
            Ok(Record::Request(request)) => collector.request(index + 1, request),
            Ok(Record::LeftOut(what)) => *collector.left_out.entry(what).or_default() += 1,
            Ok(Record::Other) => {}
            Ok(Record::End) => break,
            Err(mut wrong) => {
                if is_cut(text, line) {
                    wrong.0 += " (the last line, which has no end: the file seems cut short)";
                }
                collector.problem(index + 1, wrong);
            }
        }
    }
    collector.finish(format, unit)
}

/// The format by the first line that is not empty, its reader, and its unit of time.
fn detect(text: &str) -> Option<(Format, AnyReader, Span)> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !blkparse::is_notice(line))?;
    if let Some((format, reader)) = iolog::detect(first) {
        return Some((format, AnyReader::Iolog(reader), Span::from_us(1)));
    }
    if blkparse::is_event(first) {
        return Some((Format::Blkparse, AnyReader::Blkparse(blkparse::Reader::new(text)), Span::from_ns(1)));
    }
    msr::matches(first).then_some((Format::MsrCambridge, AnyReader::Msr, Span::from_ns(100)))
}

fn unknown_format(file_name: &str, text: &str) -> Problems {
    let found = if text.trim().is_empty() { "the trace is empty" } else { "a trace of unknown format" };
    let allowed = "text of blkparse, a fio iolog of version 2 or 3, or MSR Cambridge CSV";
    Problem::new(file_name, None, found, allowed).into()
}

/// Whether `line` is the last of `text` and has no line end.
fn is_cut(text: &str, line: &str) -> bool {
    !text.ends_with('\n') && line.as_bytes().as_ptr_range().end == text.as_bytes().as_ptr_range().end
}

/// Gathers requests and problems, line by line.
struct Collector {
    file: String,
    device: Option<String>,
    /// Arrivals in units of the format, and their requests.
    entries: Vec<(u64, Io)>,
    left_out: BTreeMap<&'static str, u64>,
    problems: Vec<Problem>,
    problems_more: usize,
}

impl Collector {
    fn new(file_name: &str) -> Collector {
        Collector {
            file: file_name.into(),
            device: None,
            entries: Vec::new(),
            left_out: BTreeMap::new(),
            problems: Vec::new(),
            problems_more: 0,
        }
    }

    fn problem(&mut self, line: usize, (found, allowed): Wrong) {
        if self.problems.len() < PROBLEMS_SHOWN {
            self.problems.push(Problem::new(self.file.clone(), line, found, allowed));
        } else {
            self.problems_more += 1;
        }
    }

    fn request(&mut self, line: usize, request: Request) {
        let device = self.device.get_or_insert_with(|| request.device.into());
        if device != request.device {
            let found = format!("a request to `{}` after one to `{device}`", request.device);
            return self.problem(line, (found, String::from("a trace of one device")));
        }
        match u32::try_from(request.bytes) {
            Ok(bytes) if bytes > 0 && request.offset.checked_add(request.bytes).is_some() => {
                self.entries.push((request.at, Io { op: request.op, offset: request.offset, bytes }));
            }
            _ => {
                let found = format!("a request of {} bytes at byte {}", request.bytes, request.offset);
                let allowed = format!("1 to {} bytes, ending below 2^64", u32::MAX);
                self.problem(line, (found, allowed));
            }
        }
    }

    fn finish(mut self, format: Format, unit: Span) -> Result<Trace, Problems> {
        self.entries.sort_by_key(|entry| entry.0);
        let (first, last) = (self.entries.first().map_or(0, |e| e.0), self.entries.last().map_or(0, |e| e.0));
        if self.problems_more > 0 {
            let found = format!("and {} more problems", self.problems_more);
            self.problems.push(Problem::new(self.file.clone(), None, found, ""));
        } else if self.problems.is_empty() && self.entries.is_empty() {
            let found = format!("{format} without any read or write");
            self.problems.push(Problem::new(self.file.clone(), None, found, "at least one"));
        } else if (last - first).checked_mul(unit.as_ps()).is_none() {
            let found = "the first and the last request are too far apart";
            self.problems.push(Problem::new(self.file.clone(), None, found, "less than 213 days"));
        }
        let at = |at: u64| Time::ZERO + unit * (at - first);
        let ios = self.entries.iter().map(|&(arrival, io)| TraceIo { at: at(arrival), io }).collect();
        Problems(self.problems).or(Trace { format, ios, left_out: self.left_out.into_iter().collect() })
    }
}

/// A whole number in a field.
fn number(field: &str, what: &str) -> Result<u64, Wrong> {
    let plain = field.starts_with(|c: char| c.is_ascii_digit());
    match field.parse() {
        Ok(number) if plain => Ok(number),
        _ => wrong(format!("`{field}` as {what}"), "a whole number of 64 bits"),
    }
}

#[cfg(test)]
mod tests;
