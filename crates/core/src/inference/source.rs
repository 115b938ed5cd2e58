//! Sources of requests: a file, or a generator.

use super::formats::TokenTrace;
use super::generate::GeneratedTrace;
use super::request::PromptRequest;
use crate::problem::Problem;

/// A trace that can be read any number of times.
#[derive(Clone, Debug)]
pub enum PromptSource {
    /// A file.
    File(TokenTrace),
    /// A generator, with what its requests come to.
    Generated(GeneratedTrace, PromptSums),
}

/// Sums over all requests of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptSums {
    /// Number of requests.
    pub requests: u64,
    /// Time from the first to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Tokens of all prompts.
    pub input_tokens: u64,
    /// Bytes of all objects, in traces of objects.
    pub object_bytes: u64,
}

impl PromptSource {
    /// Requests of a generator.
    pub fn generated(trace: GeneratedTrace) -> PromptSource {
        let mut sums = PromptSums::default();
        let mut first_ns = None;
        for request in trace.requests() {
            sums.requests += 1;
            sums.input_tokens += request.input_tokens;
            sums.duration_ns = request.at_ns - *first_ns.get_or_insert(request.at_ns);
        }
        PromptSource::Generated(trace, sums)
    }

    /// Sums over all requests.
    pub fn sums(&self) -> PromptSums {
        match self {
            PromptSource::Generated(_, sums) => *sums,
            PromptSource::File(trace) => PromptSums {
                requests: trace.requests,
                duration_ns: trace.duration_ns,
                input_tokens: trace.input_tokens,
                object_bytes: trace.object_bytes,
            },
        }
    }

    /// Tokens of a block.
    pub fn block_tokens(&self) -> u64 {
        match self {
            PromptSource::File(trace) => trace.block_tokens,
            PromptSource::Generated(trace, _) => trace.block_tokens,
        }
    }

    /// Requests from the first.
    pub fn requests(&self) -> Box<dyn Iterator<Item = Result<PromptRequest, Problem>> + '_> {
        match self {
            PromptSource::File(trace) => Box::new(trace.requests()),
            PromptSource::Generated(trace, _) => Box::new(trace.requests().map(Ok)),
        }
    }
}
