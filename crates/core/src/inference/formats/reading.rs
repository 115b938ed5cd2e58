//! Files of a trace, split into lines or records, each with its number.

use std::collections::BTreeMap;
use std::fmt;

use super::oracle_general::RECORD_BYTES;
use super::{LineMistake, TokenTraceFormat, TraceLine, bailian, mlperf, mooncake, oracle_general};
use crate::inference::request::PromptRequest;
use crate::problem::{Problem, Problems};
use crate::workload::trace::{File, Pieces};

/// Longest line in bytes: a prompt of ten million tokens in blocks of 16.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Problems that are told one by one.
const PROBLEMS_MAX: usize = 20;

/// A trace of inference, whose file is read anew each time.
#[derive(Clone, Debug)]
pub struct TokenTrace {
    file: File,
    /// Format of the trace.
    pub format: TokenTraceFormat,
    /// Tokens of a block.
    pub block_tokens: u64,
    /// Time of the first request in the units of the trace, in nanoseconds.
    first_ns: u64,
    /// Number of requests.
    pub requests: u64,
    /// Time from the first request to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Tokens of all prompts.
    pub input_tokens: u64,
    /// Bytes of all accesses to objects, in traces that have them.
    pub object_bytes: u64,
    /// Lines that are not replayed, by kind, with their number.
    pub left_out: BTreeMap<&'static str, u64>,
}

impl TokenTrace {
    /// Reads a trace once, in which every line is checked. Without `format`, the content decides; `block_tokens` is for traces whose
    /// blocks are not those of the format.
    ///
    /// # Errors
    /// Every line that is no request, with its number, up to a number that a person reads.
    pub fn open(
        file: File,
        format: Option<TokenTraceFormat>,
        block_tokens: Option<u64>,
    ) -> Result<TokenTrace, Problems> {
        if !file.is_lasting {
            let found = "it can be read only once, and is read twice";
            return Err(Problem::new(&file.name, None, found, "a file").into());
        }
        let mut lines = TraceLines::open(&file)?;
        lines.fill(RECORD_BYTES)?;
        let format = format.or_else(|| TokenTraceFormat::detect(&lines.buffer)).ok_or_else(|| {
            let names = TokenTraceFormat::ALL.map(TokenTraceFormat::name).join(", ");
            Problem::new(&file.name, 1, "no format of inference traces that is known", format!("one of {names}"))
        })?;
        let block_tokens = block_tokens.unwrap_or(format.block_tokens());
        let empty = TokenTrace {
            file,
            format,
            block_tokens,
            first_ns: 0,
            requests: 0,
            duration_ns: 0,
            input_tokens: 0,
            object_bytes: 0,
            left_out: BTreeMap::new(),
        };
        empty.checked()
    }

    fn checked(mut self) -> Result<TokenTrace, Problems> {
        let mut problems = Problems::default();
        let mut reading = self.requests();
        let mut last_ns = 0;
        for request in reading.by_ref() {
            match request {
                Ok(request) => {
                    self.first_ns = if self.requests == 0 { request.at_ns } else { self.first_ns };
                    self.requests += 1;
                    self.input_tokens += request.input_tokens;
                    self.object_bytes += request.object_bytes.unwrap_or(0);
                    last_ns = request.at_ns;
                }
                Err(problem) if problems.0.len() < PROBLEMS_MAX => problems.0.push(problem),
                Err(_) => {
                    problems.0.push(Problem::new(&self.file.name, None, "and more problems", ""));
                    break;
                }
            }
        }
        if self.requests == 0 && problems.0.is_empty() {
            problems.0.push(Problem::new(&self.file.name, None, "a trace without a request", self.format.expected()));
        }
        self.left_out = reading.left_out;
        self.duration_ns = last_ns - self.first_ns.min(last_ns);
        if self.duration_ns == 0 && problems.0.is_empty() {
            let found = "requests of one instant, from which no rate follows";
            problems.0.push(Problem::new(&self.file.name, None, found, "requests at two instants or more"));
        }
        problems.or(self)
    }

    /// Reads the trace from its start; the first request arrives at zero.
    pub fn requests(&self) -> TraceReading {
        let lines = TraceLines::open(&self.file);
        let (lines, failure) = match lines {
            Ok(lines) => (Some(lines), None),
            Err(problem) => (None, Some(problem)),
        };
        TraceReading {
            lines,
            failure,
            name: self.file.name.clone(),
            format: self.format,
            block_tokens: self.block_tokens,
            first_ns: self.first_ns,
            last_ns: 0,
            left_out: BTreeMap::new(),
        }
    }
}

/// A trace that is being read.
pub struct TraceReading {
    lines: Option<TraceLines>,
    failure: Option<Problem>,
    name: String,
    format: TokenTraceFormat,
    block_tokens: u64,
    first_ns: u64,
    last_ns: u64,
    left_out: BTreeMap<&'static str, u64>,
}

impl fmt::Debug for TraceReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceReading").field("name", &self.name).field("format", &self.format).finish_non_exhaustive()
    }
}

impl Iterator for TraceReading {
    type Item = Result<PromptRequest, Problem>;

    fn next(&mut self) -> Option<Result<PromptRequest, Problem>> {
        if let Some(problem) = self.failure.take() {
            return Some(Err(problem));
        }
        loop {
            let lines = self.lines.as_mut()?;
            let line = match self.format {
                TokenTraceFormat::OracleGeneral => lines.record(),
                _ => lines.line(),
            };
            let number = lines.number;
            let line = match line {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(problem) => {
                    self.lines = None;
                    return Some(Err(problem));
                }
            };
            match self.read(&line) {
                Ok(TraceLine::Request(request)) => return Some(Ok(request)),
                Ok(TraceLine::Heading) => {}
                Ok(TraceLine::LeftOut(kind)) => *self.left_out.entry(kind).or_default() += 1,
                Err(LineMistake { found, allowed }) => {
                    let allowed = if allowed.is_empty() { String::from(self.format.expected()) } else { allowed };
                    return Some(Err(Problem::new(&self.name, number, found, allowed)));
                }
            }
        }
    }
}

impl TraceReading {
    fn read(&mut self, line: &[u8]) -> Result<TraceLine, LineMistake> {
        let text = |line| std::str::from_utf8(line).map_err(|_| LineMistake::new("bytes that are not text", ""));
        let mut line = match self.format {
            TokenTraceFormat::Mooncake => mooncake::read(text(line)?, self.block_tokens)?,
            TokenTraceFormat::Bailian => bailian::read(text(line)?, self.block_tokens)?,
            TokenTraceFormat::Mlperf => mlperf::read(text(line)?)?,
            TokenTraceFormat::OracleGeneral => match line.try_into() {
                Ok(record) => oracle_general::read(record)?,
                Err(_) => return Err(LineMistake::new(format!("a record of {} bytes", line.len()), "")),
            },
        };
        if let TraceLine::Request(request) = &mut line {
            if request.at_ns < self.last_ns {
                return Err(LineMistake::new("a time before that of the line above", "requests in the order of time"));
            }
            self.last_ns = request.at_ns;
            request.at_ns = request.at_ns.saturating_sub(self.first_ns);
        }
        Ok(line)
    }
}

/// Bytes of a file, handed out line by line or record by record.
struct TraceLines {
    name: String,
    pieces: Pieces,
    buffer: Vec<u8>,
    /// First byte of the buffer that has not been handed out.
    start: usize,
    /// Number of the line or record that was handed out last, from 1.
    number: usize,
    is_over: bool,
}

impl TraceLines {
    fn open(file: &File) -> Result<TraceLines, Problem> {
        let pieces = file.pieces()?;
        Ok(TraceLines { name: file.name.clone(), pieces, buffer: Vec::new(), start: 0, number: 0, is_over: false })
    }

    /// Reads on until so many bytes are at hand, or the file ends.
    fn fill(&mut self, bytes: usize) -> Result<(), Problem> {
        while self.buffer.len() - self.start < bytes && !self.is_over {
            self.more()?;
        }
        Ok(())
    }

    fn more(&mut self) -> Result<(), Problem> {
        self.buffer.drain(..std::mem::take(&mut self.start));
        match self.pieces.next() {
            Some(piece) => self.buffer.extend(piece?),
            None => self.is_over = true,
        }
        Ok(())
    }

    /// Next line that is not empty, without its end.
    fn line(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        let mut looked = 0;
        loop {
            let rest = &self.buffer[self.start..];
            let end = rest[looked..].iter().position(|byte| *byte == b'\n').map(|place| looked + place);
            let end = end.or((self.is_over && !rest.is_empty()).then_some(rest.len()));
            if let Some(end) = end {
                let line = rest[..end].to_vec();
                self.start = (self.start + end + 1).min(self.buffer.len());
                self.number += 1;
                looked = 0;
                if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
                    return Ok(Some(line));
                }
                continue;
            }
            if self.is_over {
                return Ok(None);
            }
            looked = rest.len();
            if looked > LINE_BYTES_MAX {
                let allowed = format!("at most {LINE_BYTES_MAX} bytes");
                return Err(Problem::new(&self.name, self.number + 1, "a line that is too long", allowed));
            }
            self.more()?;
        }
    }

    /// Next record; a part of one at the end of the file is handed out as it is.
    fn record(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        self.fill(RECORD_BYTES)?;
        let end = self.buffer.len().min(self.start + RECORD_BYTES);
        let record = self.buffer[self.start..end].to_vec();
        self.start = end;
        self.number += 1;
        Ok((!record.is_empty()).then_some(record))
    }
}
