//! Seeded traces with the statistics of published ones, for those who have none.
//!
//! Conversations begin at random instants (a Poisson process). Each begins with one of a number of shared prompts and text of its
//! own, and goes on with a fixed probability after a pause: the next prompt is everything so far, the answer, and new text. Lengths
//! are log-normal. The parameters are set so that mean lengths and the share of blocks that were seen before are those of the
//! traces of Mooncake (Qin et al., "Mooncake", FAST 2025): conversation, 12,031 requests of 12,035 tokens with 343 of output, 40 %;
//! tool and agent, 23,608 requests of 8,596 tokens with 182 of output, 59 %. Tests hold them to 10 %.

use std::collections::{BTreeMap, BinaryHeap};

use super::request::{ConversationTurn, PromptRequest};
use crate::random::Random;

/// Longest prompt in tokens; a conversation ends there.
const INPUT_TOKENS_MAX: u64 = 131_072;
/// Shared prompts.
const SHARED_PROMPTS: usize = 64;
/// Deviation of the logarithm of lengths: of texts, and of answers and pauses.
const TEXT_DEVIATION: f64 = 1.0;
const ANSWER_DEVIATION: f64 = 0.8;
/// Mean pause between an answer and the next prompt, in seconds.
const PAUSE_S: f64 = 60.0;

/// Kind of a generated trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptMix {
    /// People who talk to a model: long texts, a few turns.
    Conversation,
    /// Tools and agents: long prompts that many share.
    ToolAgent,
}

/// Statistics of a kind.
#[derive(Debug)]
struct MixStatistics {
    /// Probability that a conversation goes on.
    goes_on: f64,
    /// Tokens of a shared prompt.
    shared_tokens: u64,
    /// Mean tokens of the first text, of later texts, and of answers.
    first_tokens: f64,
    later_tokens: f64,
    answer_tokens: f64,
}

impl PromptMix {
    /// All kinds.
    pub const ALL: [PromptMix; 2] = [PromptMix::Conversation, PromptMix::ToolAgent];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PromptMix::Conversation => "conversation",
            PromptMix::ToolAgent => "tool-agent",
        }
    }

    fn statistics(self) -> MixStatistics {
        match self {
            PromptMix::Conversation => MixStatistics {
                goes_on: 0.385,
                shared_tokens: 512,
                first_tokens: 10_450.0,
                later_tokens: 1500.0,
                answer_tokens: 343.0,
            },
            PromptMix::ToolAgent => MixStatistics {
                goes_on: 0.21,
                shared_tokens: 4096,
                first_tokens: 4260.0,
                later_tokens: 800.0,
                answer_tokens: 182.0,
            },
        }
    }
}

/// Requests that are generated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeneratedTrace {
    /// Kind of the trace.
    pub mix: PromptMix,
    /// Mean number of requests a second.
    pub rate_per_s: f64,
    /// Length of the trace in seconds.
    pub duration_s: f64,
    /// Tokens of a block.
    pub block_tokens: u64,
    /// Seed of everything random.
    pub seed: u64,
}

impl GeneratedTrace {
    /// Generates the requests from the first; each time the same.
    pub fn requests(&self) -> GeneratedRequests {
        let mut random = Random::stream(self.seed, "conversations");
        let statistics = self.mix.statistics();
        let begin_s = random.exponential() / (self.rate_per_s * (1.0 - statistics.goes_on));
        GeneratedRequests {
            trace: *self,
            statistics,
            random,
            next_begin_s: begin_s,
            waiting: BinaryHeap::new(),
            conversations: BTreeMap::new(),
            shared: vec![Vec::new(); SHARED_PROMPTS],
            ids: 0,
            chats: 0,
        }
    }
}

/// Generator of requests.
#[derive(Debug)]
pub struct GeneratedRequests {
    trace: GeneratedTrace,
    statistics: MixStatistics,
    random: Random,
    /// Instant at which the next conversation begins, in seconds.
    next_begin_s: f64,
    /// Instants of the next turns in nanoseconds, each with the number of its conversation; the earliest is the greatest.
    waiting: BinaryHeap<std::cmp::Reverse<(u64, u64)>>,
    conversations: BTreeMap<u64, Conversation>,
    /// Identities of the blocks of each shared prompt, once it was used.
    shared: Vec<Vec<u64>>,
    /// Identities and requests so far.
    ids: u64,
    chats: u64,
}

/// A conversation that goes on.
#[derive(Debug)]
struct Conversation {
    /// Prompt so far, with its answer.
    tokens: u64,
    /// Identities of the full blocks of the last prompt.
    ids: Vec<u64>,
    chat: u64,
    turn: u32,
}

impl Iterator for GeneratedRequests {
    type Item = PromptRequest;

    fn next(&mut self) -> Option<PromptRequest> {
        let begin_ns = (self.next_begin_s * 1e9) as u64;
        let turn = self.waiting.peek().map(|next| next.0).filter(|(at_ns, _)| *at_ns < begin_ns);
        let at_ns = turn.map_or(begin_ns, |(at_ns, _)| at_ns) / 1_000_000 * 1_000_000;
        if at_ns as f64 >= self.trace.duration_s * 1e9 {
            return None;
        }
        let before = match turn {
            Some((_, number)) => {
                self.waiting.pop();
                self.conversations.remove(&number)
            }
            None => {
                let rate_per_s = self.trace.rate_per_s * (1.0 - self.statistics.goes_on);
                self.next_begin_s += self.random.exponential() / rate_per_s;
                None
            }
        };
        Some(self.request(at_ns, before))
    }
}

impl GeneratedRequests {
    fn request(&mut self, at_ns: u64, before: Option<Conversation>) -> PromptRequest {
        let block_tokens = self.trace.block_tokens;
        let (known, (ids, repeated_blocks), text) = match &before {
            Some(before) => (before.tokens, (before.ids.clone(), before.ids.len()), self.statistics.later_tokens),
            None => (self.statistics.shared_tokens, self.shared_ids(), self.statistics.first_tokens),
        };
        let text = self.length(text, TEXT_DEVIATION);
        let input_tokens = (known + text).min(INPUT_TOKENS_MAX);
        let output_tokens = self.length(self.statistics.answer_tokens, ANSWER_DEVIATION);
        let ids = self.filled_up(ids, input_tokens.div_ceil(block_tokens) as usize);
        let chat = self.chats;
        self.chats += 1;
        let turn = before.as_ref().map_or(1, |before| before.turn + 1);
        let parent = before.map(|before| before.chat);
        if self.random.unit() < self.statistics.goes_on && input_tokens < INPUT_TOKENS_MAX {
            let pause_s = self.length(PAUSE_S * 1e6, ANSWER_DEVIATION) as f64 / 1e6;
            let full = (input_tokens / block_tokens) as usize;
            let tokens = input_tokens + output_tokens;
            let next = Conversation { tokens, ids: ids[..full.min(ids.len())].to_vec(), chat, turn };
            self.waiting.push(std::cmp::Reverse((at_ns + (pause_s * 1e9) as u64, chat)));
            self.conversations.insert(chat, next);
        }
        PromptRequest {
            at_ns,
            input_tokens,
            output_tokens,
            ids,
            turn: Some(ConversationTurn { chat, parent, turn }),
            repeated_blocks,
            ..PromptRequest::default()
        }
    }

    /// Identities of a shared prompt, and how many of them were used before; the k-th prompt is used in proportion to 1/k.
    fn shared_ids(&mut self) -> (Vec<u64>, usize) {
        let weights = (1..=SHARED_PROMPTS).map(|rank| 1.0 / rank as f64);
        let mut level = self.random.unit() * weights.clone().sum::<f64>();
        let chosen = weights.into_iter().position(|weight| {
            level -= weight;
            level < 0.0
        });
        let chosen = chosen.unwrap_or(SHARED_PROMPTS - 1);
        let blocks = (self.statistics.shared_tokens / self.trace.block_tokens) as usize;
        let repeated_blocks = self.shared[chosen].len();
        if repeated_blocks == 0 {
            self.shared[chosen] = self.filled_up(Vec::new(), blocks);
        }
        (self.shared[chosen].clone(), repeated_blocks)
    }

    fn filled_up(&mut self, mut ids: Vec<u64>, blocks: usize) -> Vec<u64> {
        while ids.len() < blocks {
            ids.push(self.ids);
            self.ids += 1;
        }
        ids
    }

    /// Draws a length with this mean, at least 1.
    fn length(&mut self, mean: f64, deviation: f64) -> u64 {
        // Box and Muller, 1958: a normal number from two uniform ones.
        let (radius, angle) = (libm::sqrt(2.0 * self.random.exponential()), self.random.unit());
        let normal = radius * libm::cos(2.0 * std::f64::consts::PI * angle);
        let logarithm = libm::log(mean) - deviation * deviation / 2.0 + deviation * normal;
        (libm::exp(logarithm).round() as u64).max(1)
    }
}
