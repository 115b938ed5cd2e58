//! Generator of synthetic inference traces whose statistics match published ones. The seed decides every random choice.
//!
//! Conversations begin at random times (a Poisson process). Each begins with one of a number of shared prompts and text
//! of its own. It continues with a fixed probability after a pause: the next prompt is everything so far, the reply,
//! and new text. Lengths are log-normal. The parameters are set so that mean lengths and the share of repeated blocks
//! are those of the traces of Mooncake (Qin et al., "Mooncake", FAST 2025). Conversation: 12,031 requests of 12,035
//! tokens with 343 of output, 40 % repeated. Tool and agent: 23,608 requests of 8,596 tokens with 182 of output, 59 %
//! repeated. Tests check them to 10 %.

use std::collections::{BTreeMap, BinaryHeap};

use serde::Deserialize;

use super::request::{ConversationTurn, PromptRequest};
use phaselink_core::number::{real, real_length, whole, wide_index};
use phaselink_core::random::Random;

/// Longest generated prompt in tokens. A conversation that reaches it ends.
const INPUT_TOKENS_MAX: u64 = 131_072;
/// Number of different shared (system) prompts with which generated conversations begin.
const SHARED_PROMPTS: usize = 64;
/// Standard deviation of the logarithm of generated text lengths. The next constant is that of replies and pauses.
const TEXT_DEVIATION: f64 = 1.0;
const ANSWER_DEVIATION: f64 = 0.8;
/// Mean pause between two requests of a generated conversation, in seconds.
const PAUSE_S: f64 = 60.0;

/// Type of load that a generated inference trace imitates: people in a chat, or agents with long shared prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptMix {
    /// People in a chat with a model: long texts, a few turns.
    Conversation,
    /// Tools and agents: long shared prompts that many requests begin with.
    ToolAgent,
}

/// Parameters of a generated inference trace: probability of a next turn, and mean lengths in tokens.
#[derive(Debug)]
struct PromptStatistics {
    /// Probability that a conversation has another turn.
    goes_on: f64,
    /// Number of tokens of a shared (system) prompt, with which many generated conversations begin.
    shared_tokens: u64,
    /// Mean number of new tokens in a conversation's first prompt, after the shared one. The next two fields are for
    /// later prompts and for replies.
    first_tokens: f64,
    later_tokens: f64,
    answer_tokens: f64,
}

impl PromptMix {
    /// All types of generated inference traces.
    pub const ALL: [PromptMix; 2] = [PromptMix::Conversation, PromptMix::ToolAgent];

    /// Returns the name of this type of generated trace on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PromptMix::Conversation => "conversation",
            PromptMix::ToolAgent => "tool-agent",
        }
    }

    fn statistics(self) -> PromptStatistics {
        match self {
            PromptMix::Conversation => PromptStatistics {
                goes_on: 0.385,
                shared_tokens: 512,
                first_tokens: 10_450.0,
                later_tokens: 1500.0,
                answer_tokens: 343.0,
            },
            PromptMix::ToolAgent => PromptStatistics {
                goes_on: 0.21,
                shared_tokens: 4096,
                first_tokens: 4260.0,
                later_tokens: 800.0,
                answer_tokens: 182.0,
            },
        }
    }
}

/// Parameters of a generated inference trace. Equal parameters give equal requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeneratedTrace {
    /// Type of load that the generated trace imitates.
    pub mix: PromptMix,
    /// Mean number of generated requests per second.
    pub rate_per_s: f64,
    /// Duration of the generated trace in seconds.
    pub duration_s: f64,
    /// Number of tokens in a full block of a prompt.
    pub block_tokens: u64,
    /// Seed of all random choices of the generated trace.
    pub seed: u64,
}

impl GeneratedTrace {
    /// Returns an iterator that generates all requests of the trace from the first. Every call generates equal
    /// requests.
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

/// Iterator that generates the requests of an inference trace in the order of their arrival.
#[derive(Debug)]
pub struct GeneratedRequests {
    trace: GeneratedTrace,
    statistics: PromptStatistics,
    random: Random,
    /// Time at which the next conversation begins, in seconds since the start of the trace.
    next_begin_s: f64,
    /// Pending turns as a priority queue, earliest first: time in nanoseconds, and key in `conversations`.
    waiting: BinaryHeap<std::cmp::Reverse<(u64, u64)>>,
    conversations: BTreeMap<u64, Conversation>,
    /// Block identities of each shared prompt; empty until the prompt is used first.
    shared: Vec<Vec<u64>>,
    /// Number of block identities assigned so far. The next field is the number of requests generated so far.
    ids: u64,
    chats: u64,
}

/// Generated conversation that has another turn pending.
#[derive(Debug)]
struct Conversation {
    /// Number of tokens of the conversation so far: its last prompt and the reply to it.
    tokens: u64,
    /// Block identities of the last prompt, of its full blocks only.
    ids: Vec<u64>,
    chat: u64,
    turn: u32,
}

impl Iterator for GeneratedRequests {
    type Item = PromptRequest;

    fn next(&mut self) -> Option<PromptRequest> {
        let begin_ns = whole(self.next_begin_s * 1e9);
        let turn = self.waiting.peek().map(|next| next.0).filter(|(at_ns, _)| *at_ns < begin_ns);
        let at_ns = turn.map_or(begin_ns, |(at_ns, _)| at_ns) / 1_000_000 * 1_000_000;
        if real(at_ns) >= self.trace.duration_s * 1e9 {
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
            None => (self.statistics.shared_tokens, self.draw_shared_prompt_ids(), self.statistics.first_tokens),
        };
        let text = self.length(text, TEXT_DEVIATION);
        let input_tokens = (known + text).min(INPUT_TOKENS_MAX);
        let output_tokens = self.length(self.statistics.answer_tokens, ANSWER_DEVIATION);
        let ids = self.extend_with_new_ids(ids, input_tokens.div_ceil(block_tokens) as usize);
        let chat = self.chats;
        self.chats += 1;
        let turn = before.as_ref().map_or(1, |before| before.turn + 1);
        let parent = before.map(|before| before.chat);
        if self.random.unit() < self.statistics.goes_on && input_tokens < INPUT_TOKENS_MAX {
            let pause_s = real(self.length(PAUSE_S * 1e6, ANSWER_DEVIATION)) / 1e6;
            let full = (input_tokens / block_tokens) as usize;
            let tokens = input_tokens + output_tokens;
            let next = Conversation { tokens, ids: ids[..full.min(ids.len())].to_vec(), chat, turn };
            self.waiting.push(std::cmp::Reverse((at_ns + whole(pause_s * 1e9), chat)));
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

    /// Draws a shared prompt and returns its block identities, and how many of them earlier requests have used (all or
    /// none). The k-th prompt is drawn with a probability proportional to 1/k.
    fn draw_shared_prompt_ids(&mut self) -> (Vec<u64>, usize) {
        let weights = (1..=SHARED_PROMPTS).map(|rank| 1.0 / real_length(rank));
        let mut level = self.random.unit() * weights.clone().sum::<f64>();
        let chosen = weights.into_iter().position(|weight| {
            level -= weight;
            level < 0.0
        });
        let chosen = chosen.unwrap_or(SHARED_PROMPTS - 1);
        let blocks = wide_index(self.statistics.shared_tokens / self.trace.block_tokens);
        let repeated_blocks = self.shared[chosen].len();
        if repeated_blocks == 0 {
            self.shared[chosen] = self.extend_with_new_ids(Vec::new(), blocks);
        }
        (self.shared[chosen].clone(), repeated_blocks)
    }

    fn extend_with_new_ids(&mut self, mut ids: Vec<u64>, blocks: usize) -> Vec<u64> {
        while ids.len() < blocks {
            ids.push(self.ids);
            self.ids += 1;
        }
        ids
    }

    /// Draws a log-normal length with this mean, rounded, at least 1. `deviation` is the standard deviation of the
    /// logarithm.
    fn length(&mut self, mean: f64, deviation: f64) -> u64 {
        // Box and Muller, 1958: a normally distributed number from two uniform ones.
        let (radius, angle) = (libm::sqrt(2.0 * self.random.exponential()), self.random.unit());
        let normal = radius * libm::cos(2.0 * std::f64::consts::PI * angle);
        let logarithm = libm::log(mean) - deviation * deviation / 2.0 + deviation * normal;
        (libm::exp(logarithm).round() as u64).max(1)
    }
}
