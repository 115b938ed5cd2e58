//! Inference requests as traces record them: lengths in tokens, and the identities of the prompt's blocks.

use phaselink_core::number::length;

/// One request of an inference trace: a prompt in blocks of tokens, or one access to an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptRequest {
    /// Arrival time of the request, in nanoseconds since the first request of the trace.
    pub at_ns: u64,
    /// Number of tokens of the prompt.
    pub input_tokens: u64,
    /// Number of tokens that the model generates as its reply.
    pub output_tokens: u64,
    /// Identities of the prompt's blocks, from its start. Two prompts with an equal identity are equal up to the end of
    /// that block.
    pub ids: Vec<u64>,
    /// Bytes of the accessed object, in traces of objects; `ids` then has one entry, the object. `None` in traces of
    /// prompts.
    pub object_bytes: Option<u64>,
    /// True if the request writes its object, so that every cached copy of it becomes invalid.
    pub is_write: bool,
    /// Position of the request in its conversation. `None` if the trace does not record conversations.
    pub turn: Option<ConversationTurn>,
    /// Number of leading blocks that an earlier request has used already. Known for generated traces only; otherwise 0.
    pub repeated_blocks: usize,
}

/// Position of an inference request in a conversation (chat) of several turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationTurn {
    /// Number that identifies the request (`chat_id`); every turn of a conversation has its own.
    pub chat: u64,
    /// Number (`chat_id`) of the conversation's previous request. `None` for the first request.
    pub parent: Option<u64>,
    /// Number of the turn in its conversation, from 1.
    pub turn: u32,
}

impl PromptRequest {
    /// Returns the number of tokens in the prompt's block of index `place`. The last block may hold fewer than
    /// `block_tokens`.
    pub fn tokens_in_block(&self, place: usize, block_tokens: u64) -> u64 {
        let first = length(place) * block_tokens;
        self.input_tokens.saturating_sub(first).min(block_tokens)
    }
}
