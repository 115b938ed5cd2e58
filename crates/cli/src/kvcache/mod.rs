//! `phaselink kvcache`: simulates drives that hold the key-value cache of an inference server.

mod json;
mod page;
mod text;
mod trace;

use clap::Args;
use clap::builder::PossibleValuesParser;
use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload;
use phaselink_studies::inference::model::{Accelerators, KvLayout, LanguageModel};
use phaselink_studies::inference::source::PromptSource;
use phaselink_studies::inference::study::{CacheAnswer, CacheLoad, CacheMeasurement, CacheWalk, has_writes, walk};
use phaselink_studies::inference::tiers::{CachePlan, DriveWrites, TierReplacement};
use phaselink_studies::inference::windows::{CacheDrive, SampledWindow, StripedDrives, WindowWork};
use rayon::prelude::*;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::output::ReportFlags;
use crate::progress::Progress;
use crate::{input, interrupt, output};
use trace::TraceFlags;

const EXAMPLES: &str = include_str!("../../help/kvcache.txt");
/// Drives that `phaselink kvcache` simulates if the command line names none.
const DRIVES: [&str; 3] = ["tlc-gen4", "tlc-gen5", "xl-flash"];
/// Approximate number of counted drive accesses for each drive, summed over all sampled windows (ranges of trace
/// requests). Accesses of warm-up and of windows at full rate are not included.
const PIECES: u64 = 8000;
/// Number of sampled windows that are simulated again with the drive at full rate, to find its throughput.
/// `CLOSED_PIECES` is the maximum number of accesses in each.
const CLOSED: usize = 10;
const CLOSED_PIECES: usize = 800;
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
    trace: TraceFlags,
    #[command(flatten)]
    cache: CacheFlags,
    /// Number of windows of the trace in which each drive is simulated, 2 to 1000; more windows narrow the 95 %
    /// intervals
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=1000))]
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
struct CacheFlags {
    /// Language model whose keys and values are cached: llama-3.1-8b, llama-3.1-70b, llama-3.1-405b, qwen2.5-7b,
    /// qwen3-32b, deepseek-v3, or a TOML file with another model's layers, heads and parameters
    #[arg(long, value_name = "NAME|FILE", default_value = "llama-3.1-70b")]
    kv_model: String,
    /// Objects on the drive for each cache block of tokens: one object, one for each layer, or one for each token
    #[arg(long, value_name = "LAYOUT", default_value = "block", value_parser = PossibleValuesParser::new(KvLayout::ALL.map(KvLayout::name)))]
    layout: String,
    /// Capacity of the key-value cache in the memory of all accelerators in bytes, as in 160g; 0 removes this tier
    #[arg(long, value_name = "SIZE", default_value = "160g", value_parser = size)]
    accelerator_memory: u64,
    /// Capacity of the key-value cache in host memory in bytes, as in 1t; 0 removes this tier
    #[arg(long, value_name = "SIZE", default_value = "1t", value_parser = size)]
    host_memory: u64,
    /// Capacity of the key-value cache on all drives together in bytes; 0 removes this tier [default: the capacity of
    /// the drives]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    drive_size: Option<u64>,
    /// Number of equal drives in the host, over which the bytes of the cache are striped; 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    drives_per_host: u64,
    /// Replacement policy by which a full tier of the cache evicts a block: least recently used, first in first out, or
    /// second chance (clock)
    #[arg(long, value_name = "RULE", default_value = "lru", value_parser = PossibleValuesParser::new(TierReplacement::ALL.map(TierReplacement::name)))]
    replacement: String,
    /// Cache blocks that are written to the drive: all that host memory evicts, only evicted blocks with an earlier hit
    /// (reused), or each block once it is computed (all)
    #[arg(long, value_name = "WHICH", default_value = "evicted", value_parser = PossibleValuesParser::new(DriveWrites::ALL.map(DriveWrites::name)))]
    drive_writes: String,
    /// Size of the largest read or write of a drive in bytes, a multiple of 4k; also the stripe size of several drives
    #[arg(long, value_name = "SIZE", default_value = "1m", value_parser = size)]
    io_size: u64,
    /// Type of the accelerators that compute prompts, which sets their arithmetic rate and their link to the host
    #[arg(long, value_name = "NAME", default_value = "h100", value_parser = PossibleValuesParser::new(Accelerators::names()))]
    accelerator: String,
    /// Number of accelerators of the inference server, which compute each prompt together
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    accelerators: u32,
    /// Share of the accelerators' full arithmetic rate that is reached while prompts are computed, above 0 and at most
    /// 1 [default: 0.5]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    utilisation: Option<f64>,
}

/// Parameters of `phaselink kvcache` that hold for all drives: requests, cache plan, accelerators and windows.
struct CacheQuestion {
    source: PromptSource,
    plan: CachePlan,
    accelerators: Accelerators,
    drives: u64,
    io_bytes: u64,
    drive_size: Option<u64>,
    windows: u64,
    seed: u64,
}

/// Drive with the cache plan for its capacity, and with its results.
struct AnsweredDrive {
    drive: Drive,
    plan: CachePlan,
    answer: CacheAnswer,
}

/// Runs `phaselink kvcache`.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let drives = arguments.drives()?;
    let model = arguments.cache.model()?;
    let source = arguments.trace.source(arguments.seed)?;
    if let Some(saved) = arguments.trace.save(&source, &model)? {
        output::print(&saved)?;
        return Ok(Ending::Fine);
    }
    let report = arguments.report.open()?;
    let question = arguments.question(source, model)?;
    interrupt::on_first(|| std::process::exit(interrupt::INTERRUPTED.into()));
    let progress = Progress::of(drives.len() * (arguments.windows as usize + question.closed_windows()));
    let answered = input::all(drives.into_iter().map(|drive| question.answer(drive, &progress)))?;
    progress.finish();
    let document = || output::headed("kvcache", json::document(&question, &answered));
    if let Some(report) = report {
        report.write(&page::page(&question, &answered), &document())?;
    }
    match arguments.json {
        true => output::print_json(&document())?,
        false => output::print(&text::text(&question, &answered))?,
    }
    Ok(Ending::Fine)
}

fn size(text: &str) -> Result<u64, String> {
    workload::bytes(text).filter(|bytes| *bytes <= 1 << 50).ok_or_else(|| String::from("a size as in 160g, at most 1p"))
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| String::from("a share above 0 and at most 1, as in 0.5"))
}

impl Arguments {
    fn drives(&self) -> Result<Vec<Drive>, Problems> {
        let names = input::names_or(&self.drives, &DRIVES);
        let described = input::drives_side_by_side(&names, &self.flags.resolve()?)?;
        let drives: Vec<Drive> = described.into_iter().map(|described| described.into_drive()).collect();
        let several = drives.iter().filter(|drive| drive.drives > 1);
        let problem = |drive: &Drive| {
            let found = format!("{} stands for {} drives", drive.name, drive.drives);
            Problem::new("command line", None, found, "one drive; --drives-per-host says how many there are")
        };
        Problems(several.map(problem).collect()).or(drives)
    }

    fn question(&self, source: PromptSource, model: LanguageModel) -> Result<CacheQuestion, Problems> {
        let cache = &self.cache;
        if cache.io_size == 0 || !cache.io_size.is_multiple_of(4096) || cache.io_size > 1 << 30 {
            let found = format!("--io-size {}", cache.io_size);
            return Err(Problem::new("command line", None, found, "a multiple of 4k up to 1g").into());
        }
        let named = |name: &str| Accelerators::named(name, cache.accelerators);
        let mut accelerators = named(&cache.accelerator).expect("the parser knows the names");
        accelerators.utilisation = cache.utilisation.unwrap_or(accelerators.utilisation);
        Ok(CacheQuestion {
            plan: CachePlan {
                model,
                layout: KvLayout::ALL.into_iter().find(|it| it.name() == cache.layout).unwrap_or(KvLayout::Block),
                block_tokens: source.block_tokens(),
                tier_bytes: [cache.accelerator_memory, cache.host_memory, 0],
                replacement: TierReplacement::ALL
                    .into_iter()
                    .find(|it| it.name() == cache.replacement)
                    .unwrap_or(TierReplacement::Lru),
                writes: DriveWrites::ALL
                    .into_iter()
                    .find(|it| it.name() == cache.drive_writes)
                    .unwrap_or(DriveWrites::Evicted),
            },
            source,
            accelerators,
            drives: cache.drives_per_host,
            io_bytes: cache.io_size,
            drive_size: cache.drive_size,
            windows: self.windows,
            seed: self.seed,
        })
    }
}

impl CacheFlags {
    fn model(&self) -> Result<LanguageModel, Problems> {
        match input::is_path(&self.kv_model) {
            true => LanguageModel::parse(&self.kv_model, &input::description(&self.kv_model)?),
            false => Ok(LanguageModel::shipped_named(&self.kv_model)?),
        }
    }
}

impl CacheQuestion {
    /// Returns the number of sampled windows in which a drive also runs at full rate, to measure its load.
    fn closed_windows(&self) -> usize {
        CLOSED.min(self.windows as usize)
    }

    /// Returns the cache plan with the capacity of these drives, or `--drive-size`, for the third tier.
    fn plan_on(&self, drive: &Drive) -> Result<CachePlan, Problem> {
        // Each drive stores whole chunks, so round its capacity down.
        let capacity_bytes = drive.limits().capacity_bytes / self.io_bytes * self.io_bytes * self.drives;
        let bytes = self.drive_size.unwrap_or(capacity_bytes);
        if bytes > capacity_bytes {
            let found = format!("--drive-size {bytes} on {}", drive.title());
            let allowed = format!("at most {capacity_bytes} bytes, the capacity of --drives-per-host {}", self.drives);
            return Err(Problem::new("command line", None, found, allowed));
        }
        let mut plan = self.plan.clone();
        plan.tier_bytes[2] = bytes;
        Ok(plan)
    }

    fn answer(&self, drive: Drive, progress: &Progress) -> Result<AnsweredDrive, Problems> {
        let plan = self.plan_on(&drive)?;
        let sums = self.source.sums();
        let drives = StripedDrives { count: self.drives, chunk_bytes: self.io_bytes };
        let walk_with = |windows: &[SampledWindow]| walk(&self.source, &plan, &self.accelerators, windows, drives);
        // The length of the windows depends on how much data reaches the drive, so count that first.
        let totals = walk_with(&[])?.totals;
        let pieces =
            (totals.hits[2].bytes + totals.written.bytes) as f64 / self.io_bytes.min(object_bytes(&plan)) as f64;
        let pieces = pieces / sums.requests as f64 / self.drives as f64;
        let windows = SampledWindow::draw(sums.requests, self.windows, pieces, PIECES / self.windows, self.seed);
        let walk = walk_with(&windows)?;
        let cache = CacheDrive::new(&drive, has_writes(&walk.windows), self.seed);
        let closed = run(&walk, self.closed_windows(), progress, |work| cache.run_at_full_rate(work, CLOSED_PIECES));
        let load = CacheLoad::of(&walk, sums, drives, &closed);
        // If the drives cannot keep up, the waiting time in a window would only depend on its length, so skip these
        // runs.
        let open = match load {
            Some(load) if load.is_too_much() => {
                walk.windows.iter().for_each(|_| progress.one());
                Vec::new()
            }
            _ => run(&walk, walk.windows.len(), progress, |work| cache.run(work)),
        };
        let measured = CacheMeasurement { drive: &drive, drives, sums, plan: &plan, walk: &walk, load, open };
        let answer = measured.answer();
        Ok(AnsweredDrive { drive, plan, answer })
    }
}

/// Returns the size in bytes of one object on the drive, of a full cache block.
fn object_bytes(plan: &CachePlan) -> u64 {
    plan.layout.objects(&plan.model, plan.block_tokens).1
}

/// Simulates `count` sampled windows (ranges of trace requests), evenly spaced, in parallel. Returns the results in the
/// order of the trace.
fn run<T: Send>(
    walk: &CacheWalk,
    count: usize,
    progress: &Progress,
    simulate: impl Fn(&WindowWork) -> T + Sync,
) -> Vec<T> {
    let count = count.min(walk.windows.len());
    let places: Vec<usize> = (0..count).map(|place| (2 * place + 1) * walk.windows.len() / (2 * count)).collect();
    let side_by_side = |places: &[usize]| -> Vec<T> {
        let run = |place: &usize| {
            let times = simulate(&walk.windows[*place]);
            progress.one();
            times
        };
        places.par_iter().map(run).collect()
    };
    places.chunks(SIDE_BY_SIDE).flat_map(side_by_side).collect()
}
