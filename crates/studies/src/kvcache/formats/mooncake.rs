//! Mooncake's trace format, in JSON lines: `timestamp` in milliseconds, `input_length`, `output_length`, and `hash_ids`
//! of blocks of 512 tokens.
//!
//! Newer traces also have `session_id` and `delay`. Both are accepted and ignored, because `timestamp` says when the
//! request arrives. Source: the trace files of kvcache-ai/Mooncake.

use serde::Deserialize;

use super::{LineMistake, TraceLine, check_block_count, json};
use crate::kvcache::request::PromptRequest;

/// Tokens of a full block in Mooncake's traces.
pub(super) const BLOCK_TOKENS: u64 = 512;
/// Description of a valid line of a Mooncake trace, for error messages.
pub(super) const EXPECTED: &str =
    "a JSON object with timestamp (milliseconds), input_length, output_length and hash_ids, as Mooncake has it";

#[derive(Deserialize)]
struct MooncakeLine {
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

pub(super) fn read(text: &str, block_tokens: u64) -> Result<TraceLine, LineMistake> {
    let MooncakeLine { timestamp, input_length, output_length, hash_ids } = json(text)?;
    check_block_count(input_length, output_length, hash_ids.len(), block_tokens)?;
    Ok(TraceLine::Request(PromptRequest {
        at_ns: super::nanoseconds(timestamp, 1e6)?,
        input_tokens: input_length,
        output_tokens: output_length,
        ids: hash_ids,
        ..PromptRequest::default()
    }))
}

/// Returns a request as one line of a Mooncake trace, with its newline.
pub(super) fn encode_request(request: &PromptRequest) -> String {
    format!(
        "{{\"timestamp\": {}, \"input_length\": {}, \"output_length\": {}, \"hash_ids\": {}}}\n",
        request.at_ns / 1_000_000,
        request.input_tokens,
        request.output_tokens,
        super::listed(&request.ids)
    )
}
