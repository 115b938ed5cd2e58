//! Question of `kvcache`: requests of an inference server, language model, tiers of the cache, accelerators and sample.

use std::ops::RangeInclusive;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::answer::{KvCacheAnswer, KvCacheDrive};
use super::formats::{TokenTrace, TokenTraceFormat};
use super::generate::{GeneratedTrace, PromptMix};
use super::model::{Accelerators, KvLayout, LanguageModel};
use super::source::PromptSource;
use super::study::{CacheLoad, CacheMeasurement, has_writes, walk};
use super::tiers::{CachePlan, DriveWrites, TierReplacement};
use super::windows::{CacheDrive, SampledWindow, StripedDrives};
use crate::report::outside;
use crate::results::words::counted;
use crate::simulations::{SimulateEach, simulated};
use phaselink_core::drive::Drive;
use phaselink_core::number::{narrow, real};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload;
use phaselink_core::workload::trace::File;

/// Approximate number of counted drive accesses for each drive, summed over all sampled windows (ranges of trace
/// requests). Accesses of warm-up and of windows at full rate are not included.
const PIECES: u64 = 8000;
/// Number of sampled windows that are simulated again with the drive at full rate, to find its throughput.
/// `FULL_RATE_PIECES` is the largest number of accesses in each.
const FULL_RATE: usize = 10;
const FULL_RATE_PIECES: usize = 800;
/// Largest size of a tier of the cache in bytes: 1 PiB.
const SIZE_MAX: u64 = 1 << 50;

/// Question of `kvcache`: what do drives give as the last tier of an inference server's key-value cache?
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KvCacheQuestion {
    /// Format of the trace file; found from its content if none is given.
    pub trace_format: Option<TokenTraceFormat>,
    /// Number of tokens in a block of the cache; that of the format if none is given.
    pub block_tokens: Option<u64>,
    /// Kind of generated requests; conversations if none is given.
    pub mix: Option<PromptMix>,
    /// Mean number of generated requests per second; 1 if none is given.
    pub rate: Option<f64>,
    /// Duration of the generated trace in seconds; 3600 if none is given.
    pub duration: Option<f64>,
    /// Name of a shipped language model, or of the file whose text `kv_model_text` holds.
    pub kv_model: String,
    /// Text of a file with a language model's dimensions (TOML); none for a shipped model.
    pub kv_model_text: Option<String>,
    /// Objects on the drive for each block of the cache.
    pub layout: KvLayout,
    /// Bytes of the cache in the memory of all accelerators; 0 removes this tier.
    #[serde(deserialize_with = "size")]
    pub accelerator_memory: u64,
    /// Bytes of the cache in host memory; 0 removes this tier.
    #[serde(deserialize_with = "size")]
    pub host_memory: u64,
    /// Bytes of the cache on all drives together; their capacity if none are given.
    #[serde(deserialize_with = "optional_size")]
    pub drive_size: Option<u64>,
    /// Number of equal drives in the host, 1 to 64, over which the cache is striped.
    pub drives_per_host: u64,
    /// Rule by which a full tier evicts a block.
    pub replacement: TierReplacement,
    /// Blocks that are written to the drive.
    pub drive_writes: DriveWrites,
    /// Largest read or write of a drive in bytes, a multiple of 4096 up to 1 GiB.
    #[serde(deserialize_with = "size")]
    pub io_size: u64,
    /// Type of the accelerators that compute prompts, such as `h100`.
    pub accelerator: String,
    /// Number of accelerators, 1 to 100,000.
    pub accelerators: u32,
    /// Share of the accelerators' full rate that computing prompts reaches; 0.5 if none is given.
    pub utilisation: Option<f64>,
    /// Number of windows of the trace in which each drive is simulated, 2 to 1000.
    pub windows: u64,
    /// Seed of the generated trace, of the windows' places and of the simulations.
    pub seed: u64,
}

impl Default for KvCacheQuestion {
    fn default() -> KvCacheQuestion {
        KvCacheQuestion {
            trace_format: None,
            block_tokens: None,
            mix: None,
            rate: None,
            duration: None,
            kv_model: String::from("llama-3.1-70b"),
            kv_model_text: None,
            layout: KvLayout::Block,
            accelerator_memory: 160 << 30,
            host_memory: 1 << 40,
            drive_size: None,
            drives_per_host: 1,
            replacement: TierReplacement::Lru,
            drive_writes: DriveWrites::Evicted,
            io_size: 1 << 20,
            accelerator: String::from("h100"),
            accelerators: 8,
            utilisation: None,
            windows: 20,
            seed: 1,
        }
    }
}

/// Study of one question: its requests, and a cache plan that lacks the size of the drives.
#[derive(Clone, Debug)]
pub struct KvCacheStudy {
    /// Requests of the inference server.
    pub(super) source: PromptSource,
    /// Plan of the cache without a size of its third tier, which differs by drive.
    pub(super) plan: CachePlan,
    accelerators: Accelerators,
    pub(super) question: KvCacheQuestion,
}

/// Parses the size of a tier, such as `160g`.
///
/// # Errors
/// A text that is not a size, or a size above 1 PiB.
pub fn parse_tier_size(text: &str) -> Result<u64, String> {
    let bytes = workload::bytes(text).filter(|bytes| *bytes <= SIZE_MAX);
    bytes.ok_or_else(|| String::from("a size as in 160g, at most 1p"))
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_tier_size(&text).map_err(|allowed| D::Error::custom(format!("size `{text}`; allowed: {allowed}")))
}

fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    struct Size(#[serde(deserialize_with = "size")] u64);
    Ok(Option::<Size>::deserialize(deserializer)?.map(|size| size.0))
}

fn command_line(found: impl Into<String>, allowed: impl Into<String>) -> Problem {
    Problem::new("command line", None, found, allowed)
}

impl KvCacheQuestion {
    /// Opens and checks the trace in `file`, or sums up a generated trace. `is_saved` is true if the requests are written
    /// to a file, which has a format, too.
    ///
    /// # Errors
    /// Invalid options, options of a generated trace beside a file, and an invalid trace.
    pub fn source(&self, file: Option<File>, is_saved: bool) -> Result<PromptSource, Problems> {
        self.check_request_source(file.is_some(), is_saved)?;
        if let Some(file) = file {
            return Ok(PromptSource::File(TokenTrace::open(file, self.trace_format, self.block_tokens)?));
        }
        let block_tokens = self.trace_format.unwrap_or(TokenTraceFormat::Mooncake).block_tokens();
        let source = PromptSource::generated(GeneratedTrace {
            mix: self.mix.unwrap_or(PromptMix::Conversation),
            rate_per_s: self.rate.unwrap_or(1.0),
            duration_s: self.duration.unwrap_or(3600.0),
            block_tokens: self.block_tokens.unwrap_or(block_tokens),
            seed: self.seed,
        });
        if source.sums().requests < 2 {
            let found = format!("{} in --duration seconds", counted(source.sums().requests, "request"));
            return Err(command_line(found, "two or more: a larger --rate or --duration").into());
        }
        Ok(source)
    }

    fn check_request_source(&self, has_file: bool, is_saved: bool) -> Result<(), Problems> {
        const POSITIVE: RangeInclusive<f64> = 1e-6..=1e9;
        let mut problems = Problems::default();
        let generated =
            [("--mix", self.mix.is_some()), ("--rate", self.rate.is_some()), ("--duration", self.duration.is_some())];
        let beside = generated.iter().filter(|(_, is_given)| has_file && *is_given);
        problems.0.extend(beside.map(|(option, _)| {
            command_line(format!("{option} with --trace"), format!("{option} of a generated trace, without --trace"))
        }));
        if self.trace_format.is_some() && !has_file && !is_saved {
            let allowed = "--trace-format with --trace or --save-trace";
            problems.0.push(command_line("--trace-format without a file", allowed));
        }
        problems.0.extend(self.block_tokens.and_then(|tokens| outside("--block-tokens", tokens, 1..=1 << 20)));
        problems.0.extend(self.rate.and_then(|rate| outside("--rate", rate, POSITIVE)));
        problems.0.extend(self.duration.and_then(|duration| outside("--duration", duration, POSITIVE)));
        problems.or(())
    }

    /// Returns the language model of the question.
    ///
    /// # Errors
    /// An unknown name, and a text that does not describe a model.
    pub fn model(&self) -> Result<LanguageModel, Problems> {
        match &self.kv_model_text {
            Some(text) => LanguageModel::parse(&self.kv_model, text),
            None => Ok(LanguageModel::shipped_named(&self.kv_model)?),
        }
    }

    /// Checks the question, and returns its study with these requests.
    ///
    /// # Errors
    /// Values outside their ranges, and an unknown model or accelerator.
    pub fn study(self, source: PromptSource) -> Result<KvCacheStudy, Problems> {
        self.check()?;
        let plan = CachePlan {
            model: self.model()?,
            layout: self.layout,
            block_tokens: source.block_tokens(),
            tier_bytes: [self.accelerator_memory, self.host_memory, 0],
            replacement: self.replacement,
            writes: self.drive_writes,
        };
        let mut accelerators = Accelerators::named(&self.accelerator, self.accelerators).ok_or_else(|| {
            let names: Vec<&str> = Accelerators::names().collect();
            command_line(format!("there is no accelerator `{}`", self.accelerator), names.join(", "))
        })?;
        accelerators.utilisation = self.utilisation.unwrap_or(accelerators.utilisation);
        Ok(KvCacheStudy { source, plan, accelerators, question: self })
    }

    fn check(&self) -> Result<(), Problems> {
        let mut problems: Vec<Problem> = [
            outside("--windows", self.windows, 2..=1000),
            outside("--drives-per-host", self.drives_per_host, 1..=64),
            outside("--accelerators", self.accelerators, 1..=100_000),
        ]
        .into_iter()
        .flatten()
        .collect();
        if self.io_size == 0 || !self.io_size.is_multiple_of(4096) || self.io_size > 1 << 30 {
            problems.push(command_line(format!("--io-size {}", self.io_size), "a multiple of 4k up to 1g"));
        }
        let wrong = self.utilisation.filter(|share| !(*share > 0.0 && *share <= 1.0));
        problems.extend(wrong.map(|share| command_line(format!("--utilisation {share}"), "above 0 and at most 1")));
        Problems(problems).or(())
    }
}

impl KvCacheStudy {
    /// Returns the number of simulations of each drive.
    pub fn simulations(&self) -> usize {
        narrow::<usize, _>(self.question.windows) + self.full_rate_windows()
    }

    /// Simulates each drive under the cache's accesses with `each`, and returns the answer. `None` if the caller has left
    /// simulations out.
    ///
    /// # Errors
    /// Drives that stand for several, drives that are smaller than the tier, and a trace that can no longer be read.
    pub fn answer(&self, drives: &[Drive], each: SimulateEach) -> Result<Option<KvCacheAnswer>, Problems> {
        let (mut answered, mut problems) = (Vec::new(), Problems::default());
        let several = drives.iter().filter(|drive| drive.drives > 1);
        problems.0.extend(several.map(|drive| {
            let found = format!("{} stands for {} drives", drive.name, drive.drives);
            command_line(found, "one drive; --drives-per-host says how many there are")
        }));
        for drive in drives {
            match self.cache_plan_for_drive(drive) {
                Err(problem) => problems.0.push(problem),
                // If there are problems already, skip the simulation.
                Ok(_) if !problems.0.is_empty() => {}
                Ok(plan) => match self.on(drive, &plan, each)? {
                    Some(drive) => answered.push(drive),
                    None => return Ok(None),
                },
            }
        }
        problems.or(Some(KvCacheAnswer::new(self, answered)))
    }

    /// Returns the number of sampled windows in which a drive also runs at full rate, to measure its load.
    pub(super) fn full_rate_windows(&self) -> usize {
        FULL_RATE.min(narrow(self.question.windows))
    }

    /// Returns the cache plan with the capacity of these drives, or `--drive-size`, for the third tier.
    fn cache_plan_for_drive(&self, drive: &Drive) -> Result<CachePlan, Problem> {
        let StripedDrives { count, chunk_bytes } = self.striped();
        // No chunk spans two drives, so count the whole chunks that fit each drive.
        let capacity_bytes = drive.limits().capacity_bytes / chunk_bytes * chunk_bytes * count;
        let bytes = self.question.drive_size.unwrap_or(capacity_bytes);
        if bytes > capacity_bytes {
            let found = format!("--drive-size {bytes} on {}", drive.title());
            let allowed = format!("at most {capacity_bytes} bytes, the capacity of --drives-per-host {count}");
            return Err(command_line(found, allowed));
        }
        let mut plan = self.plan.clone();
        plan.tier_bytes[2] = bytes;
        Ok(plan)
    }

    pub(super) fn striped(&self) -> StripedDrives {
        StripedDrives { count: self.question.drives_per_host, chunk_bytes: self.question.io_size }
    }

    fn on(&self, drive: &Drive, plan: &CachePlan, each: SimulateEach) -> Result<Option<KvCacheDrive>, Problems> {
        let (sums, drives, seed) = (self.source.sums(), self.striped(), self.question.seed);
        let walk_with = |windows: &[SampledWindow]| walk(&self.source, plan, &self.accelerators, windows, drives);
        // The length of a window follows from how often requests reach the drive.
        let totals = walk_with(&[])?.totals;
        let object_bytes = plan.layout.objects(&plan.model, plan.block_tokens).1;
        let pieces = real(totals.hits[2].bytes + totals.written.bytes) / real(drives.chunk_bytes.min(object_bytes));
        let pieces = pieces / real(sums.requests) / real(drives.count);
        let asked = self.question.windows;
        let windows = SampledWindow::draw(sums.requests, asked, pieces, PIECES / asked, seed);
        let walk = walk_with(&windows)?;
        let cache = CacheDrive::new(drive, has_writes(&walk.windows), seed);
        let full_rate = pick_evenly_spaced(&walk.windows, self.full_rate_windows());
        let at_full_rate = |place: usize| cache.simulate_at_full_rate(full_rate[place], FULL_RATE_PIECES);
        let Some(full_rate) = simulated(each, full_rate.len(), at_full_rate) else { return Ok(None) };
        let load = CacheLoad::of(&walk, sums, drives, &full_rate);
        // If a drive falls behind, skip runs at recorded times, because its waits would only grow with the window's
        // length.
        let is_run = load.is_none_or(|load| !load.exceeds_bandwidth());
        let at_own_times = |place: usize| is_run.then(|| cache.run(&walk.windows[place]));
        let Some(open) = simulated(each, walk.windows.len(), at_own_times) else { return Ok(None) };
        let open = open.into_iter().flatten().collect();
        let measured = CacheMeasurement { drive, drives, sums, plan, walk: &walk, load, open };
        Ok(Some(KvCacheDrive::new(drive, plan, drives, measured.answer())))
    }
}

/// Returns `count` of the items, or all if there are fewer, at even distances.
fn pick_evenly_spaced<T>(items: &[T], count: usize) -> Vec<&T> {
    let count = count.min(items.len());
    (0..count).map(|place| &items[(2 * place + 1) * items.len() / (2 * count)]).collect()
}
