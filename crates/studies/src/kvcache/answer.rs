//! Answer of `kvcache` as one type: the JSON document, from which text and page are made.

use schemars::JsonSchema;
use serde::Serialize;

use super::model::KvLayout;
use super::question::KvCacheStudy;
use super::study::{CacheAnswer, CacheLifetime, CacheLoad, SampledTime};
use super::tiers::{BlockCount, CachePlan, CacheTotals, DriveWrites, TierReplacement};
use super::windows::StripedDrives;
use phaselink_core::drive::Drive;
use phaselink_core::number::real;

/// JSON document of `phaselink kvcache`: hits, load, times to the first token and lifetime of drives that hold the
/// key-value cache of an inference server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KvCacheAnswer {
    /// Number of requests in the trace.
    pub requests: u64,
    /// Number of input tokens, summed over all prompts; 0 for traces of objects.
    pub input_tokens: u64,
    /// Time from the first request of the trace to the last in seconds.
    pub duration_s: f64,
    /// Cached bytes of one token.
    pub token_bytes: u64,
    /// Number of tokens in a full block of the cache.
    pub block_tokens: u64,
    /// Objects on the drive for each block of the cache.
    pub layout: KvLayout,
    /// Rule by which a full tier evicts a block.
    pub replacement: TierReplacement,
    /// Blocks that are written to the drive.
    pub drive_writes: DriveWrites,
    /// Number of equal drives in the host, over which the cache is striped.
    pub drives_per_host: u64,
    /// Number of windows of the trace in which each drive is simulated.
    pub windows: u64,
    /// Seed of the generated trace, of the windows' places and of the simulations.
    pub seed: u64,
    /// Results of each drive.
    pub drives: Vec<KvCacheDrive>,
    /// Study that is answered, which the text describes.
    #[serde(skip)]
    pub(super) assumed: KvCacheAssumptions,
}

/// Requests and tiers of a study, as its text describes them.
#[derive(Clone, Debug)]
pub(super) struct KvCacheAssumptions {
    /// Trace, or parameters of the generated one.
    pub source: String,
    /// Name of one request: a prompt, or an access to an object.
    pub request: &'static str,
    /// Bytes of the cache in accelerator memory and in host memory.
    pub memory_bytes: [u64; 2],
    /// Number of objects of a full block, and bytes of each.
    pub objects: (u64, u64),
    /// Number of windows in which each drive also runs at full rate.
    pub full_rate_windows: usize,
}

/// Results of a cache on one type of drive: hits, load, times to the first token, and lifetime.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KvCacheDrive {
    /// Name of the drive.
    pub drive: String,
    /// Bytes of the cache in accelerator memory, in host memory and on all drives.
    pub tier_bytes: [u64; 3],
    /// Exact counts of cached and computed blocks.
    #[serde(flatten)]
    pub blocks: KvCacheBlocks,
    /// Bytes per second that the cache reads from all drives.
    pub read_bytes_per_s: f64,
    /// Bytes per second that the cache writes to all drives.
    pub written_bytes_per_s: f64,
    /// Largest bandwidth of all drives for the cache's mix of reads and writes, in bytes per second. Null if no window
    /// has an access.
    pub most_bytes_per_s: Option<f64>,
    /// Bytes per second that the cache reads and writes, as a share of `most_bytes_per_s`; above 1, the drives fall
    /// behind.
    pub load: Option<f64>,
    /// Lower end of the 95 % confidence interval of the load.
    pub load_low: Option<f64>,
    /// Upper end of the 95 % confidence interval of the load.
    pub load_high: Option<f64>,
    /// Number of drives that the load needs.
    pub drives_needed: Option<f64>,
    /// Time from the arrival of a request until its last read from the drives completes, of requests that read. Null if
    /// no window has any, or if the drives fall behind.
    pub read_wait: Option<SampledTime>,
    /// Time to the first token. Null if the drives fall behind.
    pub first_token: Option<SampledTime>,
    /// Time to the first token if the blocks of the drives are computed instead.
    pub first_token_without_drive: SampledTime,
    /// Time to the first token if every prompt is computed in full.
    pub first_token_without_cache: SampledTime,
    /// Shares of the time in which the accelerators compute prompts: with the whole cache, without its drives, and
    /// without any cache.
    pub prefill_shares: [f64; 3],
    /// Number of requests whose waits are simulated.
    pub sampled_requests: u64,
    /// Bytes written in a day, as a multiple of the drives' capacity.
    pub drive_writes_per_day: f64,
    /// Lifetime of the drives' cells. Null if the cache writes nothing.
    pub lifetime: CacheLifetime,
    /// Name of the drive's interface, for people.
    #[serde(skip)]
    pub(super) interface: &'static str,
    /// True if the memory of the drive is flash.
    #[serde(skip)]
    pub(super) is_flash: bool,
}

/// Exact counts of the key-value blocks of a trace, by the tier that had them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KvCacheBlocks {
    /// Blocks found in accelerator memory.
    pub accelerator_hits: BlockCount,
    /// Blocks found in host memory.
    pub host_hits: BlockCount,
    /// Blocks found on the drives.
    pub drive_hits: BlockCount,
    /// Blocks that were in no tier and are computed.
    pub computed: BlockCount,
    /// Blocks of all prompts, each counted as often as a prompt uses it.
    pub used: BlockCount,
    /// Different blocks, each counted once.
    pub distinct: BlockCount,
    /// Hits of a cache without a limit of size.
    pub ideal: BlockCount,
    /// Blocks written to the drives.
    pub written: BlockCount,
    /// Number of blocks that left accelerator memory, host memory and the drives.
    pub evicted_blocks: [u64; 3],
    /// Number of prompt tokens that belong to no block with an identity, and are computed each time.
    pub unnamed_tokens: u64,
    /// Number of tokens that the model generated.
    pub output_tokens: u64,
}

impl KvCacheAnswer {
    pub(super) fn new(study: &KvCacheStudy, drives: Vec<KvCacheDrive>) -> KvCacheAnswer {
        let (plan, question, sums) = (&study.plan, &study.question, study.source.sums());
        KvCacheAnswer {
            requests: sums.requests,
            input_tokens: sums.input_tokens,
            duration_s: real(sums.duration_ns) / 1e9,
            token_bytes: plan.model.token_bytes(),
            block_tokens: plan.block_tokens,
            layout: plan.layout,
            replacement: plan.replacement,
            drive_writes: plan.writes,
            drives_per_host: question.drives_per_host,
            windows: question.windows,
            seed: question.seed,
            drives,
            assumed: KvCacheAssumptions {
                source: study.source.description(),
                request: if study.source.has_objects() { "object access" } else { "prompt" },
                memory_bytes: [question.accelerator_memory, question.host_memory],
                objects: plan.layout.objects(&plan.model, plan.block_tokens),
                full_rate_windows: study.full_rate_windows(),
            },
        }
    }
}

impl KvCacheDrive {
    pub(super) fn new(drive: &Drive, plan: &CachePlan, drives: StripedDrives, answer: CacheAnswer) -> KvCacheDrive {
        let load = |read: fn(CacheLoad) -> f64| answer.load.map(read);
        KvCacheDrive {
            drive: drive.name.clone(),
            tier_bytes: plan.tier_bytes,
            blocks: KvCacheBlocks::from(&answer.totals),
            read_bytes_per_s: answer.read_bytes_per_s,
            written_bytes_per_s: answer.written_bytes_per_s,
            most_bytes_per_s: load(|load| load.most_bytes_per_s),
            load: load(|load| load.share),
            load_low: load(|load| load.interval[0]),
            load_high: load(|load| load.interval[1]),
            drives_needed: answer.load.map(|load| (load.share * real(drives.count)).ceil()),
            read_wait: answer.read_wait,
            first_token: answer.first_token,
            first_token_without_drive: answer.without_drive,
            first_token_without_cache: answer.recomputed,
            prefill_shares: answer.prefill_shares,
            sampled_requests: answer.sampled_requests,
            drive_writes_per_day: answer.drive_writes_per_day,
            lifetime: answer.lifetime,
            interface: drive.protocol().title(),
            is_flash: drive.is_flash(),
        }
    }

    /// True if the drives are overloaded for certain: their load is above 1 within its whole confidence interval.
    pub fn falls_behind(&self) -> bool {
        self.load_low.is_some_and(|low| low > 1.0)
    }
}

impl From<&CacheTotals> for KvCacheBlocks {
    fn from(totals: &CacheTotals) -> KvCacheBlocks {
        let [accelerator_hits, host_hits, drive_hits] = totals.hits;
        KvCacheBlocks {
            accelerator_hits,
            host_hits,
            drive_hits,
            computed: totals.computed,
            used: totals.used,
            distinct: totals.distinct,
            ideal: totals.ideal,
            written: totals.written,
            evicted_blocks: totals.evicted_blocks,
            unnamed_tokens: totals.unnamed_tokens,
            output_tokens: totals.output_tokens,
        }
    }
}

impl KvCacheBlocks {
    /// Returns the hits of accelerator memory, host memory and drives.
    pub fn hits(&self) -> [BlockCount; 3] {
        [self.accelerator_hits, self.host_hits, self.drive_hits]
    }

    /// Returns these bytes as a share of the bytes of all prompts.
    pub fn share(&self, bytes: u64) -> f64 {
        real(bytes) / real(self.used.bytes.max(1))
    }
}
