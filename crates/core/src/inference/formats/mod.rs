//! Formats of traces of inference, one file each: [`mooncake`], [`bailian`], [`mlperf`], [`oracle_general`]. `reading` splits files
//! into lines and records.

mod bailian;
mod mlperf;
mod mooncake;
mod oracle_general;
mod reading;

use std::fmt::Write;

use serde::de::DeserializeOwned;

use super::model::LanguageModel;
use super::request::PromptRequest;

pub use reading::{TokenTrace, TraceReading};

/// Latest instant of a trace, in nanoseconds since 1970.
const LATEST_NS: f64 = 1.67e19;

/// Format of a trace of inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenTraceFormat {
    /// JSON lines of Mooncake: prompts in blocks of 512 tokens.
    Mooncake,
    /// JSON lines of Qwen-Bailian: prompts in blocks of 16 tokens.
    Bailian,
    /// CSV of MLPerf Storage: objects that are read and written.
    Mlperf,
    /// Records of libCacheSim: objects that are accessed.
    OracleGeneral,
}

impl TokenTraceFormat {
    /// All formats.
    pub const ALL: [TokenTraceFormat; 4] = [
        TokenTraceFormat::Mooncake,
        TokenTraceFormat::Bailian,
        TokenTraceFormat::Mlperf,
        TokenTraceFormat::OracleGeneral,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TokenTraceFormat::Mooncake => "mooncake",
            TokenTraceFormat::Bailian => "bailian",
            TokenTraceFormat::Mlperf => "mlperf",
            TokenTraceFormat::OracleGeneral => "oracle-general",
        }
    }

    /// Returns the format of this name.
    pub fn named(name: &str) -> Option<TokenTraceFormat> {
        TokenTraceFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Tokens of a block in this format; traces of objects have no blocks of tokens, and generated ones have those of Mooncake.
    pub fn block_tokens(self) -> u64 {
        match self {
            TokenTraceFormat::Bailian => bailian::BLOCK_TOKENS,
            _ => mooncake::BLOCK_TOKENS,
        }
    }

    /// True if the trace has objects with sizes, and not prompts with tokens.
    pub fn has_objects(self) -> bool {
        matches!(self, TokenTraceFormat::Mlperf | TokenTraceFormat::OracleGeneral)
    }

    fn expected(self) -> &'static str {
        match self {
            TokenTraceFormat::Mooncake => mooncake::EXPECTED,
            TokenTraceFormat::Bailian => bailian::EXPECTED,
            TokenTraceFormat::Mlperf => mlperf::EXPECTED,
            TokenTraceFormat::OracleGeneral => oracle_general::EXPECTED,
        }
    }

    /// Detects the format by the first bytes of a file.
    fn detect(start: &[u8]) -> Option<TokenTraceFormat> {
        let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let text = std::str::from_utf8(first).unwrap_or_default().trim();
        match text {
            _ if text.starts_with('{') && text.contains("\"chat_id\"") => Some(TokenTraceFormat::Bailian),
            _ if text.starts_with('{') && text.contains("\"hash_ids\"") => Some(TokenTraceFormat::Mooncake),
            _ if text == mlperf::HEADER => Some(TokenTraceFormat::Mlperf),
            // Times are small numbers, so that a record begins with bytes of which the highest is no letter.
            _ if start.len() >= oracle_general::RECORD_BYTES && start.contains(&0) => {
                Some(TokenTraceFormat::OracleGeneral)
            }
            _ => None,
        }
    }

    /// Bytes that begin a file of this format.
    pub fn heading(self) -> Vec<u8> {
        match self {
            TokenTraceFormat::Mlperf => format!("{}\n", mlperf::HEADER).into_bytes(),
            _ => Vec::new(),
        }
    }

    /// Bytes of a request in this format; formats of objects have one for each block, as large as the block of the model.
    pub fn written(self, request: &PromptRequest, model: &LanguageModel, block_tokens: u64) -> Vec<u8> {
        let bytes = |place: usize| request.tokens_of(place, block_tokens) * model.token_bytes();
        match self {
            TokenTraceFormat::Mooncake => mooncake::written(request).into_bytes(),
            TokenTraceFormat::Bailian => bailian::written(request).into_bytes(),
            TokenTraceFormat::Mlperf => mlperf::written(request, bytes).into_bytes(),
            TokenTraceFormat::OracleGeneral => oracle_general::written(request, bytes),
        }
    }
}

/// Content of a line of a trace.
enum TraceLine {
    Request(PromptRequest),
    /// Names of columns.
    Heading,
    /// A line that is not replayed: its kind, in the plural.
    LeftOut(&'static str),
}

/// Mistake in a line: what was found, and what is allowed.
struct LineMistake {
    found: String,
    allowed: String,
}

impl LineMistake {
    fn new(found: impl Into<String>, allowed: impl Into<String>) -> LineMistake {
        LineMistake { found: found.into(), allowed: allowed.into() }
    }
}

/// Reads a line of JSON; what is allowed instead is the format's to say.
fn json<T: DeserializeOwned>(text: &str) -> Result<T, LineMistake> {
    serde_json::from_str(text).map_err(|error| {
        // The reader counts lines in one line of the file.
        LineMistake::new(error.to_string().replace("at line 1 column", "at column"), "")
    })
}

/// Returns a time in nanoseconds, to the microsecond. Wall clocks count seconds since 1970; only differences matter.
fn nanoseconds(time: f64, unit_ns: f64) -> Result<u64, LineMistake> {
    match (0.0..LATEST_NS).contains(&(time * unit_ns)) {
        true => Ok((time * (unit_ns / 1e3)).round() as u64 * 1000),
        false => Err(LineMistake::new(format!("the time {time}"), "0 or later, and before the year 2500")),
    }
}

/// Largest number of tokens of a prompt or an answer: no model takes as many.
const TOKENS_MAX: u64 = 1 << 32;

/// Checks that prompt and answer are not too long, and that the prompt has no more blocks than its tokens fill.
fn checked_blocks(tokens: u64, answer: u64, ids: usize, block_tokens: u64) -> Result<(), LineMistake> {
    if let Some(beyond) = [tokens, answer].into_iter().find(|tokens| *tokens > TOKENS_MAX) {
        return Err(LineMistake::new(format!("{beyond} tokens"), format!("at most {TOKENS_MAX}")));
    }
    let most = tokens.div_ceil(block_tokens);
    match ids as u64 > most {
        true => Err(LineMistake::new(
            format!("{ids} hash_ids for {tokens} tokens"),
            format!("at most {most}, as a block has {block_tokens} tokens (--block-tokens says so if it has not)"),
        )),
        false => Ok(()),
    }
}

/// Returns a list as JSON has it.
fn listed(ids: &[u64]) -> String {
    let mut text = String::with_capacity(8 * ids.len() + 2);
    text.push('[');
    for (place, id) in ids.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{id}", if place > 0 { ", " } else { "" });
    }
    text + "]"
}
