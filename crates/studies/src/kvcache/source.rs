//! Sources of inference requests: a trace file, or a generator.

use super::formats::TokenTrace;
use super::generate::GeneratedTrace;
use super::request::PromptRequest;
use crate::results::units::grouped;
use phaselink_core::problem::Problem;

/// Trace of prompts that can be read from the start any number of times: a file or a generator.
#[derive(Clone, Debug)]
pub enum PromptSource {
    /// Requests are read from a trace file of prompts or objects.
    File(TokenTrace),
    /// Prompts are generated from a seed. The sums over all of them are computed beforehand.
    Generated(GeneratedTrace, PromptTotals),
}

/// Totals over all requests of a trace of prompts: count, duration, tokens and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptTotals {
    /// Number of requests in the trace.
    pub requests: u64,
    /// Time from the first to the last request of the trace, in nanoseconds.
    pub duration_ns: u64,
    /// Number of input tokens, summed over all prompts of the trace.
    pub input_tokens: u64,
    /// Bytes summed over all accesses to objects. 0 for traces of prompts, which have tokens instead.
    pub object_bytes: u64,
}

impl PromptSource {
    /// Returns a source for a generated trace. Generates all requests once to compute their totals.
    pub fn generated(trace: GeneratedTrace) -> PromptSource {
        let mut sums = PromptTotals::default();
        let mut first_ns = None;
        for request in trace.requests() {
            sums.requests += 1;
            sums.input_tokens += request.input_tokens;
            sums.duration_ns = request.at_ns - *first_ns.get_or_insert(request.at_ns);
        }
        PromptSource::Generated(trace, sums)
    }

    /// Returns the totals over all requests of this source: count, duration, tokens and bytes.
    pub fn sums(&self) -> PromptTotals {
        match self {
            PromptSource::Generated(_, sums) => *sums,
            PromptSource::File(trace) => PromptTotals {
                requests: trace.requests,
                duration_ns: trace.duration_ns,
                input_tokens: trace.input_tokens,
                object_bytes: trace.object_bytes,
            },
        }
    }

    /// Returns the number of tokens in a full block of this trace.
    pub fn block_tokens(&self) -> u64 {
        match self {
            PromptSource::File(trace) => trace.block_tokens,
            PromptSource::Generated(trace, _) => trace.block_tokens,
        }
    }

    /// True if requests are accesses to objects; false if they are prompts.
    pub fn has_objects(&self) -> bool {
        matches!(self, PromptSource::File(trace) if trace.format.has_objects())
    }

    /// Returns a phrase that names the trace and its format, or the parameters of the generated requests.
    pub fn description(&self) -> String {
        match self {
            PromptSource::Generated(trace, _) => {
                format!("Generated ({}, {} a second, seed {})", trace.mix.name(), trace.rate_per_s, trace.seed)
            }
            PromptSource::File(trace) => {
                let left_out = trace.left_out.iter().map(|(kind, number)| format!("{} {kind}", grouped(*number)));
                let left_out: Vec<String> = left_out.collect();
                let left_out =
                    if left_out.is_empty() { String::new() } else { format!(", left out: {}", left_out.join(", ")) };
                format!("Trace of format {}{left_out}", trace.format.name())
            }
        }
    }

    /// Returns an iterator over all requests of the trace, from the first. A file can yield errors.
    pub fn requests(&self) -> Box<dyn Iterator<Item = Result<PromptRequest, Problem>> + '_> {
        match self {
            PromptSource::File(trace) => Box::new(trace.requests()),
            PromptSource::Generated(trace, _) => Box::new(trace.requests().map(Ok)),
        }
    }
}
