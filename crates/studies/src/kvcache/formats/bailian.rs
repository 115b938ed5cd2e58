//! Qwen-Bailian's trace format, in JSON lines: `chat_id`, `parent_chat_id`, `timestamp` in seconds, `input_length`,
//! `output_length`, `type`, `turn`, and `hash_ids` of blocks of 16 tokens.
//!
//! Source: the anonymous traces of Alibaba's Qwen-Bailian, described in Wang et al., "KVCache Cache in the Wild",
//! USENIX ATC 2025.

use serde::Deserialize;

use super::{LineMistake, TraceLine, check_block_count, json};
use crate::kvcache::request::{ConversationTurn, PromptRequest};

/// Tokens of a full block in Qwen-Bailian's traces.
pub(super) const BLOCK_TOKENS: u64 = 16;
/// Description of a valid line of a Qwen-Bailian trace, for error messages.
pub(super) const EXPECTED: &str = "a JSON object with chat_id, parent_chat_id, timestamp (seconds), input_length, output_length, \
                                   turn and hash_ids, as Qwen-Bailian has it";

#[derive(Deserialize)]
struct BailianLine {
    chat_id: i64,
    parent_chat_id: i64,
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    turn: u32,
    hash_ids: Vec<u64>,
}

pub(super) fn read(text: &str, block_tokens: u64) -> Result<TraceLine, LineMistake> {
    let BailianLine { chat_id, parent_chat_id, timestamp, input_length, output_length, turn, hash_ids } = json(text)?;
    check_block_count(input_length, output_length, hash_ids.len(), block_tokens)?;
    let chat = u64::try_from(chat_id).map_err(|_| LineMistake::new(format!("chat_id {chat_id}"), "0 or more"))?;
    Ok(TraceLine::Request(PromptRequest {
        at_ns: super::nanoseconds(timestamp, 1e9)?,
        input_tokens: input_length,
        output_tokens: output_length,
        ids: hash_ids,
        turn: Some(ConversationTurn { chat, parent: u64::try_from(parent_chat_id).ok(), turn }),
        ..PromptRequest::default()
    }))
}

/// Returns a request as one line of a Qwen-Bailian trace, with its newline.
pub(super) fn encode_request(request: &PromptRequest) -> String {
    let turn = request.turn.unwrap_or(ConversationTurn { chat: 0, parent: None, turn: 1 });
    let parent = turn.parent.map_or(String::from("-1"), |parent| parent.to_string());
    format!(
        "{{\"chat_id\": {}, \"parent_chat_id\": {parent}, \"timestamp\": {}.{:06}, \"input_length\": {}, \"output_length\": {}, \
         \"type\": \"text\", \"turn\": {}, \"hash_ids\": {}}}\n",
        turn.chat,
        request.at_ns / 1_000_000_000,
        request.at_ns % 1_000_000_000 / 1000,
        request.input_tokens,
        request.output_tokens,
        turn.turn,
        super::listed(&request.ids)
    )
}
