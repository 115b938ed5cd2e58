//! Command line options that name a trace of inference requests, or describe a generated one.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::inference::formats::{TokenTrace, TokenTraceFormat};
use phaselink_studies::inference::generate::{GeneratedTrace, PromptMix};
use phaselink_studies::inference::model::LanguageModel;
use phaselink_studies::inference::source::PromptSource;

use crate::output::Target;
use crate::{describe, traces};

/// Options of `phaselink kvcache` that name a trace of inference requests, or describe a generated trace.
#[derive(Args, Debug)]
#[command(next_help_heading = "Requests")]
pub(super) struct TraceFlags {
    /// Trace of an inference server's requests, in place of a generated one: Mooncake, Qwen-Bailian, MLPerf Storage or
    /// libCacheSim's oracleGeneral; also .gz, .zst
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mix", "rate", "duration", "save_trace"])]
    trace: Option<String>,
    /// Format of the inference trace of --trace [default: as its content tells], or of the trace that --save-trace
    /// writes
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(TokenTraceFormat::ALL.map(TokenTraceFormat::name)))]
    trace_format: Option<String>,
    /// Number of tokens in each block of the key-value cache [default: 512; 16 of Qwen-Bailian]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    block_tokens: Option<u64>,
    /// Kind of generated inference requests: conversations of several turns, or tools and agents with long common
    /// prompts [default: conversation]
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(PromptMix::ALL.map(PromptMix::name)))]
    mix: Option<String>,
    /// Mean number of generated inference requests a second [default: 1]
    #[arg(long, value_name = "N", value_parser = positive)]
    rate: Option<f64>,
    /// Duration of the generated trace of inference requests in seconds [default: 3600]
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    duration: Option<f64>,
    /// Write the generated inference requests to FILE, in the format of --trace-format [default: mooncake], and
    /// simulate nothing
    #[arg(long, value_name = "FILE")]
    save_trace: Option<PathBuf>,
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (1e-6..=1e9).contains(number));
    number.ok_or_else(|| String::from("a number from 0.000001 to 1000000000"))
}

impl TraceFlags {
    fn format(&self) -> Option<TokenTraceFormat> {
        self.trace_format.as_deref().and_then(TokenTraceFormat::named)
    }

    /// Opens the trace of `--trace` and reads it once, or sums up the generated one.
    ///
    /// # Errors
    ///
    /// If the trace or an option is invalid; all problems are listed.
    pub(super) fn source(&self, seed: u64) -> Result<PromptSource, Problems> {
        if let Some(path) = &self.trace {
            let mut files = traces::files(path);
            let file = files.remove(0);
            return Ok(PromptSource::File(TokenTrace::open(file, self.format(), self.block_tokens)?));
        }
        let mix = self.mix.as_deref().and_then(|name| PromptMix::ALL.into_iter().find(|mix| mix.name() == name));
        if self.trace_format.is_some() && self.save_trace.is_none() {
            let allowed = "--trace-format with --trace or --save-trace";
            return Err(Problem::new("command line", None, "--trace-format without a file", allowed).into());
        }
        let format = self.format();
        let block_tokens = format.unwrap_or(TokenTraceFormat::Mooncake).block_tokens();
        let source = PromptSource::generated(GeneratedTrace {
            mix: mix.unwrap_or(PromptMix::Conversation),
            rate_per_s: self.rate.unwrap_or(1.0),
            duration_s: self.duration.unwrap_or(3600.0),
            block_tokens: self.block_tokens.unwrap_or(block_tokens),
            seed,
        });
        if source.sums().requests < 2 {
            let found = format!("{} in --duration seconds", describe::counted(source.sums().requests, "request"));
            return Err(Problem::new("command line", None, found, "two or more: a larger --rate or --duration").into());
        }
        Ok(source)
    }

    /// Writes the generated requests to the file of `--save-trace`, if given, and returns a note about it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn save(&self, source: &PromptSource, model: &LanguageModel) -> Result<Option<String>, Problems> {
        let (Some(path), PromptSource::Generated(trace, sums)) = (&self.save_trace, source) else { return Ok(None) };
        let format = self.format().unwrap_or(TokenTraceFormat::Mooncake);
        let (file, unfinished) = Target::create("--save-trace", path)?.begin()?;
        let mut writer = std::io::BufWriter::new(&file);
        let mut written = writer.write_all(&format.heading());
        for request in trace.requests() {
            written = written.and_then(|()| writer.write_all(&format.written(&request, model, trace.block_tokens)));
        }
        match written.and_then(|()| writer.flush()) {
            Ok(()) => unfinished.finish(&file)?,
            Err(error) => return Err(unfinished.give_up(&error).into()),
        }
        let requests = describe::counted(sums.requests, "request");
        Ok(Some(format!("{}: {requests} of {} s, as {}\n", path.display(), trace.duration_s, format.name())))
    }
}
