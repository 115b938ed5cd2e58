//! Requests to an inference server as traces record them: lengths, and the identities of blocks of tokens.

/// A request of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptRequest {
    /// Arrival in nanoseconds since the start of the trace.
    pub at_ns: u64,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens that are generated.
    pub output_tokens: u64,
    /// Identity of each block of the prompt, from its start; equal ones stand for an equal prompt up to the block's end.
    pub ids: Vec<u64>,
    /// Size of the object that is accessed, in traces of objects and not of prompts; the only identity is the object's.
    pub object_bytes: Option<u64>,
    /// True if the object is stored anew, whatever is known of it.
    pub is_write: bool,
    /// Place of the request in a conversation, if the trace tells.
    pub turn: Option<ConversationTurn>,
    /// Number of blocks from the start that an earlier request has had, as far as a generator tells.
    pub repeated_blocks: usize,
}

/// Place of a request in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationTurn {
    /// Number of the request.
    pub chat: u64,
    /// Number of the request before it; none for the first.
    pub parent: Option<u64>,
    /// Number of the turn, from 1.
    pub turn: u32,
}

impl PromptRequest {
    /// Tokens of block `place`, where blocks have `block_tokens`; the last one may have fewer.
    pub fn tokens_of(&self, place: usize, block_tokens: u64) -> u64 {
        let first = place as u64 * block_tokens;
        self.input_tokens.saturating_sub(first).min(block_tokens)
    }
}
