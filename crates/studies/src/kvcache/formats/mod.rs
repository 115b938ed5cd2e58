//! Formats of inference traces, one file each: [`mooncake`], [`bailian`], [`mlperf`], [`oracle_general`]. `reading`
//! splits files into lines and records.

mod bailian;
mod mlperf;
mod mooncake;
mod oracle_general;
mod reading;

use phaselink_core::number::{length, whole};
use std::fmt::Write;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::model::LanguageModel;
use super::request::PromptRequest;

pub use reading::{TokenTrace, TraceReading};

/// Latest time that a line of a trace may have, in nanoseconds since 1970: near the year 2500.
const LATEST_NS: f64 = 1.67e19;

/// File format of an inference trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenTraceFormat {
    /// Mooncake's JSON lines, a trace of prompts in blocks of 512 tokens.
    Mooncake,
    /// Qwen-Bailian's JSON lines, a trace of prompts in blocks of 16 tokens.
    Bailian,
    /// MLPerf Storage's CSV, a trace of reads and writes of cached objects.
    Mlperf,
    /// libCacheSim's binary records, a trace of accesses to objects.
    OracleGeneral,
}

impl TokenTraceFormat {
    /// All file formats of inference traces.
    pub const ALL: [TokenTraceFormat; 4] = [
        TokenTraceFormat::Mooncake,
        TokenTraceFormat::Bailian,
        TokenTraceFormat::Mlperf,
        TokenTraceFormat::OracleGeneral,
    ];

    /// Returns the name of this trace format on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TokenTraceFormat::Mooncake => "mooncake",
            TokenTraceFormat::Bailian => "bailian",
            TokenTraceFormat::Mlperf => "mlperf",
            TokenTraceFormat::OracleGeneral => "oracle-general",
        }
    }

    /// Returns the trace format with this command-line name, or `None` if there is none.
    pub fn named(name: &str) -> Option<TokenTraceFormat> {
        TokenTraceFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the tokens of a full block in this trace format. For formats of objects, it is the block size of the
    /// traces that are generated in them: Mooncake's.
    pub fn block_tokens(self) -> u64 {
        match self {
            TokenTraceFormat::Bailian => bailian::BLOCK_TOKENS,
            _ => mooncake::BLOCK_TOKENS,
        }
    }

    /// True if traces in this format have objects with sizes; false if they have prompts with tokens.
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

    /// Returns the trace format that the first bytes of a file show, or `None` if they fit no format.
    fn detect(start: &[u8]) -> Option<TokenTraceFormat> {
        let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let text = std::str::from_utf8(first).unwrap_or_default().trim();
        match text {
            _ if text.starts_with('{') && text.contains("\"chat_id\"") => Some(TokenTraceFormat::Bailian),
            _ if text.starts_with('{') && text.contains("\"hash_ids\"") => Some(TokenTraceFormat::Mooncake),
            _ if text == mlperf::HEADER => Some(TokenTraceFormat::Mlperf),
            // The time at the start of a record is a small number, so its highest byte is zero, which no text contains.
            _ if start.len() >= oracle_general::RECORD_BYTES && start.contains(&0) => {
                Some(TokenTraceFormat::OracleGeneral)
            }
            _ => None,
        }
    }

    /// Returns the header at the start of a file of this trace format: a line of column names for CSV, otherwise
    /// nothing.
    pub fn heading(self) -> Vec<u8> {
        match self {
            TokenTraceFormat::Mlperf => format!("{}\n", mlperf::HEADER).into_bytes(),
            _ => Vec::new(),
        }
    }

    /// Returns one request encoded in this trace format. Formats of objects get one record per block, with the block's
    /// bytes in the cache of `model`.
    pub fn encode_request(self, request: &PromptRequest, model: &LanguageModel, block_tokens: u64) -> Vec<u8> {
        let bytes = |place: usize| request.tokens_in_block(place, block_tokens) * model.token_bytes();
        match self {
            TokenTraceFormat::Mooncake => mooncake::encode_request(request).into_bytes(),
            TokenTraceFormat::Bailian => bailian::encode_request(request).into_bytes(),
            TokenTraceFormat::Mlperf => mlperf::encode_request(request, bytes).into_bytes(),
            TokenTraceFormat::OracleGeneral => oracle_general::encode_request(request, bytes),
        }
    }
}

/// Meaning of one line or record of an inference trace: a request, the column names, or a line to skip.
enum TraceLine {
    Request(PromptRequest),
    /// Line of column names at the start of a CSV file; has no request.
    Heading,
    /// Line that is counted but not replayed. The text names its kind, in the plural.
    LeftOut(&'static str),
}

/// Error in a line of a trace: the invalid text that was found, and a description of what is allowed.
struct LineMistake {
    found: String,
    allowed: String,
}

impl LineMistake {
    fn new(found: impl Into<String>, allowed: impl Into<String>) -> LineMistake {
        LineMistake { found: found.into(), allowed: allowed.into() }
    }
}

/// Parses one line of JSON. The error leaves the allowed text empty; the caller fills in the description of the format.
fn json<T: DeserializeOwned>(text: &str) -> Result<T, LineMistake> {
    serde_json::from_str(text).map_err(|error| {
        // The JSON parser sees a single line, so its line number is always 1; report only the column.
        LineMistake::new(error.to_string().replace("at line 1 column", "at column"), "")
    })
}

/// Converts a time of a trace to nanoseconds, rounded to microseconds. `unit_ns` is the trace's unit in nanoseconds.
/// Wall-clock times (seconds since 1970) are accepted, because only differences matter.
fn nanoseconds(time: f64, unit_ns: f64) -> Result<u64, LineMistake> {
    match (0.0..LATEST_NS).contains(&(time * unit_ns)) {
        true => Ok(whole((time * (unit_ns / 1e3)).round()) * 1000),
        false => Err(LineMistake::new(format!("the time {time}"), "0 or later, and before the year 2500")),
    }
}

/// Largest number of tokens that a trace may give for a prompt or a reply; no model takes as many.
const TOKENS_MAX: u64 = 1 << 32;

/// Checks that the prompt and the reply (`answer`) are not too long, and that the prompt has no more block identities
/// than its tokens fill.
fn check_block_count(tokens: u64, answer: u64, ids: usize, block_tokens: u64) -> Result<(), LineMistake> {
    if let Some(beyond) = [tokens, answer].into_iter().find(|tokens| *tokens > TOKENS_MAX) {
        return Err(LineMistake::new(format!("{beyond} tokens"), format!("at most {TOKENS_MAX}")));
    }
    let most = tokens.div_ceil(block_tokens);
    match length(ids) > most {
        true => Err(LineMistake::new(
            format!("{ids} hash_ids for {tokens} tokens"),
            format!("at most {most}, as a block has {block_tokens} tokens (--block-tokens says so if it has not)"),
        )),
        false => Ok(()),
    }
}

/// Returns a list of block identities as a JSON array.
fn listed(ids: &[u64]) -> String {
    let mut text = String::with_capacity(8 * ids.len() + 2);
    text.push('[');
    for (place, id) in ids.iter().enumerate() {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{}{id}", if place > 0 { ", " } else { "" });
    }
    text + "]"
}
