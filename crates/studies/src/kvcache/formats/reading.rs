//! Reader of inference trace files: splits them into lines or records, counts these for messages, and parses each.

use std::collections::BTreeMap;
use std::fmt;

use super::oracle_general::RECORD_BYTES;
use super::{LineMistake, TokenTraceFormat, TraceLine, bailian, mlperf, mooncake, oracle_general};
use crate::kvcache::request::PromptRequest;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::trace::{File, Pieces};

/// Longest line of a trace in bytes, enough for a prompt of ten million tokens in blocks of 16.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Number of problems in a trace file that are reported one by one; further ones are only hinted at.
const PROBLEMS_MAX: usize = 20;

/// Inference trace file that has been checked. Each pass over its requests reads the file again.
#[derive(Clone, Debug)]
pub struct TokenTrace {
    file: File,
    /// File format of the inference trace, such as Mooncake's JSON lines.
    pub format: TokenTraceFormat,
    /// Number of tokens in a full block of the trace.
    pub block_tokens: u64,
    /// Time that the trace file gives its first request, converted to nanoseconds. Arrivals are relative to it.
    first_ns: u64,
    /// Number of requests in the trace file.
    pub requests: u64,
    /// Time from the first request of the trace to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Number of input tokens, summed over all prompts of the trace file.
    pub input_tokens: u64,
    /// Bytes summed over all accesses to objects; 0 if the trace has prompts instead of objects.
    pub object_bytes: u64,
    /// Number of lines that are not replayed, by kind (a text in the plural).
    pub left_out: BTreeMap<&'static str, u64>,
}

impl TokenTrace {
    /// Opens an inference trace and reads it once, checking every line. Without `format`, the format is detected from
    /// the content. `block_tokens` overrides the block size of the format.
    ///
    /// # Errors
    /// Every invalid line with its number, up to a limit; also a pipe, which cannot be read twice, and a trace from
    /// which no rate follows.
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
        empty.into_checked_trace()
    }

    fn into_checked_trace(mut self) -> Result<TokenTrace, Problems> {
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

    /// Returns an iterator over the requests of the trace file, from its start. The first request arrives at time 0.
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

/// Iterator over the requests of a trace file, with the state of reading it.
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

/// Buffered trace file that returns one line or one fixed-size record at a time.
struct TraceLines {
    name: String,
    pieces: Pieces,
    buffer: Vec<u8>,
    /// Index in the buffer of the first byte that has not been returned yet.
    start: usize,
    /// Number, from 1, of the line or record of the trace file that was returned last.
    number: usize,
    is_over: bool,
}

impl TraceLines {
    fn open(file: &File) -> Result<TraceLines, Problem> {
        let pieces = file.pieces()?;
        Ok(TraceLines { name: file.name.clone(), pieces, buffer: Vec::new(), start: 0, number: 0, is_over: false })
    }

    /// Reads from the file until the buffer has at least `bytes` unread bytes, or the file ends.
    fn fill(&mut self, bytes: usize) -> Result<(), Problem> {
        while self.buffer.len() - self.start < bytes && !self.is_over {
            self.read_next_chunk()?;
        }
        Ok(())
    }

    fn read_next_chunk(&mut self) -> Result<(), Problem> {
        self.buffer.drain(..std::mem::take(&mut self.start));
        match self.pieces.next() {
            Some(piece) => self.buffer.extend(piece?),
            None => self.is_over = true,
        }
        Ok(())
    }

    /// Returns the next non-empty line of the trace without its newline, or `None` at the end. Fails if the line is too
    /// long.
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
            self.read_next_chunk()?;
        }
    }

    /// Returns the next fixed-size record of the trace, or `None` at the end. A truncated last record is returned as it
    /// is.
    fn record(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        self.fill(RECORD_BYTES)?;
        let end = self.buffer.len().min(self.start + RECORD_BYTES);
        let record = self.buffer[self.start..end].to_vec();
        self.start = end;
        self.number += 1;
        Ok((!record.is_empty()).then_some(record))
    }
}
