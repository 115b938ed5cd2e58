//! Command line options that name a trace of inference requests, or describe a generated one.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use phaselink_core::problem::Problems;
use phaselink_core::workload::trace::File;
use phaselink_studies::kvcache::formats::TokenTraceFormat;
use phaselink_studies::kvcache::generate::PromptMix;
use phaselink_studies::kvcache::model::LanguageModel;
use phaselink_studies::kvcache::source::PromptSource;

use crate::output::Target;
use crate::{describe, input, traces};

/// Options of `phaselink kvcache` that name a trace of inference requests, or describe a generated trace.
#[derive(Args, Debug)]
#[command(next_help_heading = "Requests")]
pub(super) struct PromptTraceFlags {
    /// Trace of an inference server's requests, in place of a generated one: Mooncake, Qwen-Bailian, MLPerf Storage or
    /// libCacheSim's oracleGeneral; also .gz, .zst
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mix", "rate", "duration", "save_trace"])]
    trace: Option<String>,
    /// Format of the inference trace of --trace [default: as its content tells], or of the trace that --save-trace
    /// writes
    #[arg(long, value_name = "FORMAT", value_parser = input::choice(TokenTraceFormat::ALL, TokenTraceFormat::name))]
    pub(super) trace_format: Option<TokenTraceFormat>,
    /// Number of tokens in each block of the key-value cache [default: 512; 16 of Qwen-Bailian]
    #[arg(long, value_name = "N")]
    pub(super) block_tokens: Option<u64>,
    /// Kind of generated inference requests: conversations of several turns, or tools and agents with long common
    /// prompts [default: conversation]
    #[arg(long, value_name = "KIND", value_parser = input::choice(PromptMix::ALL, PromptMix::name))]
    pub(super) mix: Option<PromptMix>,
    /// Mean number of generated inference requests a second [default: 1]
    #[arg(long, value_name = "N")]
    pub(super) rate: Option<f64>,
    /// Duration of the generated trace of inference requests in seconds [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    pub(super) duration: Option<f64>,
    /// Write the generated inference requests to FILE, in the format of --trace-format [default: mooncake], and
    /// simulate nothing
    #[arg(long, value_name = "FILE")]
    pub(super) save_trace: Option<PathBuf>,
}

impl PromptTraceFlags {
    /// Returns the file of `--trace`, if one is given.
    pub(super) fn file(&self) -> Option<File> {
        self.trace.as_deref().map(|path| traces::files(path).remove(0))
    }

    /// Writes the generated requests to the file of `--save-trace`, if given, and returns a note about it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn save(&self, source: &PromptSource, model: &LanguageModel) -> Result<Option<String>, Problems> {
        let (Some(path), PromptSource::Generated(trace, sums)) = (&self.save_trace, source) else { return Ok(None) };
        let format = self.trace_format.unwrap_or(TokenTraceFormat::Mooncake);
        let (file, unfinished) = Target::create("--save-trace", path)?.begin()?;
        let mut writer = std::io::BufWriter::new(&file);
        let mut written = writer.write_all(&format.heading());
        for request in trace.requests() {
            written =
                written.and_then(|()| writer.write_all(&format.encode_request(&request, model, trace.block_tokens)));
        }
        match written.and_then(|()| writer.flush()) {
            Ok(()) => unfinished.finish(&file)?,
            Err(error) => return Err(unfinished.give_up(&error).into()),
        }
        let requests = describe::counted(sums.requests, "request");
        Ok(Some(format!("{}: {requests} of {} s, as {}\n", path.display(), trace.duration_s, format.name())))
    }
}
