//! `phaselink kvcache`: simulates drives that hold the key-value cache of an inference server.

mod trace;

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::problem::Problems;
use phaselink_studies::kvcache::model::{Accelerators, KvLayout};
use phaselink_studies::kvcache::tiers::{DriveWrites, TierReplacement};
use phaselink_studies::kvcache::{KvCacheQuestion, parse_tier_size};
use rayon::prelude::*;

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure, print_answer};
use crate::output::ReportFlags;
use crate::progress::Progress;
use crate::{input, interrupt, output};
use trace::PromptTraceFlags;

const EXAMPLES: &str = include_str!("../../help/kvcache.txt");
/// Drives that `phaselink kvcache` simulates if the command line names none.
const DRIVES: [&str; 3] = ["tlc-gen4", "tlc-gen5", "xl-flash"];
/// Number of sampled windows of the trace that are simulated in parallel, each with a copy of the drive.
const SIDE_BY_SIDE: usize = 4;

/// Simulate drives with the key-value cache of an inference server: cache hits, bytes read and written, time to the
/// first token, and lifetime of the drive
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drives that hold the last tier of the cache, each simulated by itself: drive files, or names of shipped drives
    /// [default: tlc-gen4 tlc-gen5 xl-flash]
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,
    #[command(flatten)]
    trace: PromptTraceFlags,
    #[command(flatten)]
    cache: CacheModelFlags,
    /// Number of windows of the trace in which each drive is simulated, 2 to 1000; more windows narrow the 95 %
    /// intervals
    #[arg(long, value_name = "N", default_value_t = 20)]
    windows: u64,
    /// Seed of the generated trace, of the windows' places, and of the simulated drives' random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print hits, times and lifetimes of all drives as JSON in place of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportFlags,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Options of `phaselink kvcache` for the language model, the accelerators, and the tiers of the cache.
#[derive(Args, Debug)]
#[command(next_help_heading = "Cache")]
struct CacheModelFlags {
    /// Language model whose keys and values are cached: llama-3.1-8b, llama-3.1-70b, llama-3.1-405b, qwen2.5-7b,
    /// qwen3-32b, deepseek-v3, or a TOML file with another model's layers, heads and parameters
    #[arg(long, value_name = "NAME|FILE", default_value = "llama-3.1-70b")]
    kv_model: String,
    /// Objects on the drive for each cache block of tokens: one object, one for each layer, or one for each token
    #[arg(long, value_name = "LAYOUT", default_value = "block", value_parser = input::choice(KvLayout::ALL, KvLayout::name))]
    layout: KvLayout,
    /// Capacity of the key-value cache in the memory of all accelerators in bytes, as in 160g; 0 removes this tier
    #[arg(long, value_name = "SIZE", default_value = "160g", value_parser = parse_tier_size)]
    accelerator_memory: u64,
    /// Capacity of the key-value cache in host memory in bytes, as in 1t; 0 removes this tier
    #[arg(long, value_name = "SIZE", default_value = "1t", value_parser = parse_tier_size)]
    host_memory: u64,
    /// Capacity of the key-value cache on all drives together in bytes; 0 removes this tier [default: the capacity of
    /// the drives]
    #[arg(long, value_name = "SIZE", value_parser = parse_tier_size)]
    drive_size: Option<u64>,
    /// Number of equal drives in the host, over which the bytes of the cache are striped; 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1)]
    drives_per_host: u64,
    /// Replacement policy by which a full tier of the cache evicts a block: least recently used, first in first out, or
    /// second chance (clock)
    #[arg(long, value_name = "RULE", default_value = "lru", value_parser = input::choice(TierReplacement::ALL, TierReplacement::name))]
    replacement: TierReplacement,
    /// Cache blocks that are written to the drive: all that host memory evicts, only evicted blocks with an earlier hit
    /// (reused), or each block once it is computed (all)
    #[arg(long, value_name = "WHICH", default_value = "evicted", value_parser = input::choice(DriveWrites::ALL, DriveWrites::name))]
    drive_writes: DriveWrites,
    /// Size of the largest read or write of a drive in bytes, a multiple of 4k; also the stripe size of several drives
    #[arg(long, value_name = "SIZE", default_value = "1m", value_parser = parse_tier_size)]
    io_size: u64,
    /// Type of the accelerators that compute prompts, which sets their arithmetic rate and their link to the host
    #[arg(long, value_name = "NAME", default_value = "h100", value_parser = clap::builder::PossibleValuesParser::new(Accelerators::names()))]
    accelerator: String,
    /// Number of accelerators of the inference server, which compute each prompt together
    #[arg(long, value_name = "N", default_value_t = 8)]
    accelerators: u32,
    /// Share of the accelerators' full arithmetic rate that is reached while prompts are computed, above 0 and at most
    /// 1 [default: 0.5]
    #[arg(long, value_name = "SHARE")]
    utilisation: Option<f64>,
}

/// Runs `phaselink kvcache`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let drives = arguments.drives()?;
    let question = arguments.question()?;
    let model = question.model()?;
    let source = question.source(arguments.trace.file(), arguments.trace.save_trace.is_some())?;
    if let Some(saved) = arguments.trace.save(&source, &model)? {
        output::print(&saved)?;
        return Ok(CommandEnding::Fine);
    }
    let report = arguments.report.open()?;
    let study = question.study(source)?;
    interrupt::handle_first_signal(|| std::process::exit(interrupt::INTERRUPTED.into()));
    let progress = Progress::of(drives.len() * study.simulations());
    let answer = study.answer(&drives, &|count, simulate| simulate_few_in_parallel(count, simulate, &progress))?;
    progress.finish();
    let Some(answer) = answer else { return Ok(CommandEnding::Interrupted) };
    print_answer(&answer, arguments.json, report)?;
    Ok(CommandEnding::Fine)
}

/// Runs simulations in parallel, a few at a time, because each has a copy of the drive.
fn simulate_few_in_parallel(count: usize, simulate: &(dyn Fn(usize) + Sync), progress: &Progress) {
    let places: Vec<usize> = (0..count).collect();
    for places in places.chunks(SIDE_BY_SIDE) {
        places.par_iter().for_each(|place| {
            simulate(*place);
            progress.one();
        });
    }
}

impl Arguments {
    fn drives(&self) -> Result<Vec<Drive>, Problems> {
        let names = input::drive_names_or_default(&self.drives, &DRIVES);
        let described = input::drives_to_compare(&names, &self.flags.resolve()?)?;
        Ok(described.into_iter().map(|described| described.into_drive()).collect())
    }

    fn question(&self) -> Result<KvCacheQuestion, Problems> {
        let cache = &self.cache;
        let is_file = input::is_path(&cache.kv_model);
        Ok(KvCacheQuestion {
            trace_format: self.trace.trace_format,
            block_tokens: self.trace.block_tokens,
            mix: self.trace.mix,
            rate: self.trace.rate,
            duration: self.trace.duration,
            kv_model: cache.kv_model.clone(),
            kv_model_text: is_file.then(|| input::description(&cache.kv_model)).transpose()?,
            layout: cache.layout,
            accelerator_memory: cache.accelerator_memory,
            host_memory: cache.host_memory,
            drive_size: cache.drive_size,
            drives_per_host: cache.drives_per_host,
            replacement: cache.replacement,
            drive_writes: cache.drive_writes,
            io_size: cache.io_size,
            accelerator: cache.accelerator.clone(),
            accelerators: cache.accelerators,
            utilisation: cache.utilisation,
            windows: self.windows,
            seed: self.seed,
        })
    }
}
